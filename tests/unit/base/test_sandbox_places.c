/* Which folders are left within reach for files that links lead to, so that they may be changed to
 * lead elsewhere? Each scene is made in a folder of its own. */
#include "base/sandbox_places.h"

#include "unit/support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct scene {
    const char *folders; /* parted by spaces, as is all that follows */
    const char *links;   /* where -> what it leads to, one after the other */
    const char *file;    /* to be read; NULL: none */
    const char *tree;
    const char *expected; /* in their order */
};

static const struct scene scenes[] = {
    {"keys", "", "keys/file", NULL, "keys"},
    {"", "", "file", NULL, "."},
    {"", "", "/dev/null", NULL, "/dev"},
    {"", "", "/file-below-root", NULL, "/file-below-root"},
    /* as Kubernetes mounts secrets */
    {"keys keys/..1", "keys/..data ..1 keys/file ..data/file", "keys/file", NULL,
     "keys keys/..data"},
    {"a b", "a/file ../b/file", "a/file", NULL, "a a/../b"},
    {"", "self self", "self", NULL, "."},
    {"models", "", NULL, "models", "models"},
    {"v1 v2", "models v1", NULL, "models", "models ."},
    /* as git-sync leaves what it fetched */
    {"git git/trees git/trees/1 git/trees/1/models", "git/current trees/1", NULL,
     "git/current/models", "git/current/models git/trees"},
    {"models models/a store store/a", "models/a/1 ../../store/a", NULL, "models",
     "models models/a/../../store"},
    {"models blobs", "models/a ../blobs", NULL, "models", "models models/.."},
    {"models", "models/a ../missing/x", NULL, "models", "models models/../missing"},
    {"models", "models/a /nowhere", NULL, "models", "models /nowhere"},
    {"d d/1 d/1/2 d/1/2/3 d/1/2/3/4", "d/1/2/3/4/deep /dev/null", NULL, "d", "d"},
};

/* The next word of text, and where what follows it begins; false: there is none. */
static bool take_word(const char **text, char word[128])
{
    size_t n = strcspn(*text, " ");
    snprintf(word, 128, "%.*s", (int)n, *text);
    *text += n;
    *text += strspn(*text, " ");
    return n > 0;
}

static void make(const struct scene *scene, char scratch[32])
{
    const char *folders = scene->folders;
    const char *links = scene->links;
    char name[128], target[128];
    snprintf(scratch, 32, "/tmp/sandbox-places-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch));
    ck_assert_int_eq(chdir(scratch), 0);
    while (take_word(&folders, name)) {
        ck_assert_int_eq(mkdir(name, 0700), 0);
    }
    while (take_word(&links, name) && take_word(&links, target)) {
        (void)rmdir(name); /* a link in the place of a folder */
        ck_assert_int_eq(symlink(target, name), 0);
    }
}

START_TEST(one_scene)
{
    const struct scene *scene = &scenes[_i];
    struct ad_sandbox_places places = {NULL, 0};
    char scratch[32], command[64], text[1024] = "";
    size_t n = 0;
    make(scene, scratch);
    if (scene->file) {
        ck_assert(ad_sandbox_places_add_file(&places, AD_SANDBOX_READ, scene->file));
    }
    if (scene->tree) {
        ck_assert(ad_sandbox_places_add_tree(&places, scene->tree, 3));
    }
    for (size_t i = 0; i < places.n; i++) {
        ck_assert_int_eq(places.items[i].use, AD_SANDBOX_READ);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n > 0 ? " " : "",
                              places.items[i].path);
    }
    ad_sandbox_places_reset(&places);
    snprintf(command, sizeof command, "rm -r %s", scratch);
    ck_assert_int_eq(system(command), 0);
    ck_assert_str_eq(text, scene->expected);
}
END_TEST

/* What is written may lie in / itself, and each use of a place counts once. */
START_TEST(uses)
{
    struct ad_sandbox_places places = {NULL, 0};
    ck_assert(ad_sandbox_places_add_file(&places, AD_SANDBOX_SOCKET, "/socket"));
    ck_assert(ad_sandbox_places_add(&places, AD_SANDBOX_SOCKET, "/"));
    ck_assert(ad_sandbox_places_add(&places, AD_SANDBOX_APPEND, "/"));
    ck_assert_uint_eq(places.n, 2);
    ck_assert_str_eq(places.items[0].path, "/");
    ck_assert_int_eq(places.items[0].use, AD_SANDBOX_SOCKET);
    ck_assert_int_eq(places.items[1].use, AD_SANDBOX_APPEND);
    ad_sandbox_places_reset(&places);
    ck_assert_uint_eq(places.n, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sandbox_places");
    TCase *tcase = tcase_create("sandbox_places");
    tcase_add_loop_test(tcase, one_scene, 0, sizeof scenes / sizeof *scenes);
    tcase_add_test(tcase, uses);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
