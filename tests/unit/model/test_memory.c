/* test_memory.c - the n-th allocation fails, for each n: a failure that is told, and no leak.
 *
 * The allocator is replaced for this program and everything it links, jansson and libc included.
 * Sanitizers bring their own, so there is nothing to run under them. */
#include "model/manifest.h"
#include "model/repository.h"

#include "unit/model/scratch.h"
#include "unit/support.h"

#include <errno.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REPLACED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define REPLACED 0
#endif
#endif
#ifndef REPLACED
#define REPLACED 1
#endif

#if REPLACED

/* Used by one thread only. */
static struct {
    bool armed;
    size_t fail_at; /* allocations until one fails */
    bool failed;
    size_t n_live;
} memory;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *pointer);

static bool fails(void)
{
    if (!memory.armed) {
        return false;
    }
    if (memory.fail_at > 0 && --memory.fail_at == 0) {
        memory.failed = true;
        errno = ENOMEM;
        return true;
    }
    return false;
}

static void *counted(void *pointer)
{
    memory.n_live += memory.armed && pointer;
    return pointer;
}

void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *pointer, size_t size)
{
    if (fails()) {
        return NULL;
    }
    return pointer ? __libc_realloc(pointer, size) : counted(__libc_realloc(NULL, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : counted(__libc_memalign(alignment, size));
}

int posix_memalign(void **pointer, size_t alignment, size_t size)
{
    *pointer = aligned_alloc(alignment, size);
    return *pointer ? 0 : ENOMEM;
}

void free(void *pointer)
{
    memory.n_live -= memory.armed && pointer;
    __libc_free(pointer);
}

static void arm(size_t fail_at)
{
    memory.n_live = 0;
    memory.failed = false;
    memory.fail_at = fail_at;
    memory.armed = true;
}

/* What was allocated since arm is free again; whether an allocation failed. */
static bool disarm(void)
{
    memory.armed = false;
    ck_assert_uint_eq(memory.n_live, 0);
    return memory.failed;
}

/* With words that jansson's first buffer of a token has no room for. */
START_TEST(test_manifest)
{
    static const char text[] =
        "{\"layer\": {\"kind\": \"causal_mha\", \"output_shape\": [6, 8],"
        " \"normalisation\": {\"type\": \"GroupNorm\", \"num_groups\": 2}},"
        " \"weights\": {\"file\": \"a file with a name of some length, and more of it\","
        " \"prefix\": \"b\","
        " \"names\": {\"c\": \"d\", \"e\": \"f\"}}, \"empty_rows\": \"nan\","
        " \"queue_policy\": {},"
        " \"warmup\": [{\"name\": \"a\", \"inputs\": {\"x\": {\"shape\": [1]}}}]}";
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        struct ad_manifest manifest;
        struct ad_error error = {0};
        arm(n);
        enum ad_status status =
            ad_manifest_parse(&manifest, text, sizeof text - 1, "config.json", &error);
        ad_manifest_reset(&manifest);
        failed = disarm();
        ck_assert(status == error.status);
        ck_assert_int_eq(status, failed ? AD_INTERNAL : AD_OK);
        ck_assert(status == AD_OK || error.message[0] != '\0');
        ck_assert_uint_lt(n, 1000);
    }
}
END_TEST

START_TEST(test_show)
{
    static const char text[] =
        "{\"layer\": {\"kind\": \"routing_score\"},"
        " \"version_policy\": {\"specific\": {\"versions\": [1, 2]}},"
        " \"warmup\": [{\"name\": \"a\", \"inputs\": {\"x\": {\"shape\": [1]}}}]}";
    struct ad_manifest manifest;
    ck_assert_int_eq(
        ad_manifest_parse(&manifest, text, sizeof text - 1, "config.json", NULL), AD_OK);
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        arm(n);
        char *shown = ad_manifest_show(&manifest, NULL, 0);
        const bool shows = shown != NULL;
        free(shown);
        failed = disarm();
        ck_assert(shows || failed);
        ck_assert_uint_lt(n, 1000);
    }
    ad_manifest_reset(&manifest);
}
END_TEST

/* A failure ends the loading, or is the reason of the model that it hit; the others load. */
static bool load_once(const struct scratch *scratch, const char *name, size_t n)
{
    struct ad_repository *repository = NULL;
    struct ad_error error = {0};
    size_t n_broken = 0;
    arm(n);
    enum ad_status status = ad_repository_open(
        &(struct ad_repository_config){.root = scratch->root, .name = name}, &repository,
        &error);
    memory.fail_at = 0;
    struct ad_view view = {NULL, 0};
    if (repository) {
        ck_assert_int_eq(ad_repository_view(repository, NULL, &view, NULL), AD_OK);
    }
    for (size_t i = 0; i < view.n_models; i++) {
        n_broken += view.models[i].reason != NULL;
    }
    ad_view_reset(&view);
    ad_repository_free(repository);
    const bool failed = disarm();
    ck_assert(status == AD_OK || (failed && status == AD_INTERNAL));
    ck_assert_uint_le(n_broken, failed ? 1 : 0);
    return failed;
}

START_TEST(test_repository)
{
    struct scratch scratch;
    scratch_make(&scratch);
    scratch_text(&scratch, "a/config.json", SCRATCH_CONFIG);
    scratch_version(&scratch, "a/1");
    scratch_version(&scratch, "a/2");
    scratch_text(&scratch, "b/config.json", SCRATCH_SCORE);
    ad_repository_free(scratch_load(&scratch)); /* whatever is made once is made now */
    size_t n = 1;
    while (load_once(&scratch, NULL, n)) {
        ck_assert_uint_lt(++n, 10000);
    }
    ck_assert_uint_gt(n, 20);
    scratch_remove(&scratch);
}
END_TEST

/* One model, with weights beside its config: in the root (loop 0 and 1) or in its only folder. */
START_TEST(test_only_model)
{
    struct scratch scratch;
    scratch_make(&scratch);
    scratch_text(&scratch, _i < 2 ? "config.json" : "m/config.json", SCRATCH_CONFIG);
    scratch_version(&scratch, _i < 2 ? "." : "m");
    ad_repository_free(scratch_load(&scratch));
    size_t n = 1;
    while (load_once(&scratch, _i == 0 ? NULL : "demo", n)) {
        ck_assert_uint_lt(++n, 10000);
    }
    ck_assert_uint_gt(n, 20);
    scratch_remove(&scratch);
}
END_TEST

#define WARM_CONFIG                                                                   \
    "{\"layer\": {\"kind\": \"routing_mha\", \"embedding_dim\": 4, \"n_heads\": 1},"  \
    " \"warmup\": [{\"name\": \"a\", \"inputs\": {\"query\": {\"shape\": [1, 2, 4]}," \
    " \"key\": {\"shape\": [1, 2, 4]}, \"value\": {\"shape\": [1, 2, 4]}}}]}"

/* One change to a repository with the n-th allocation failing; whether it did. Whatever comes of it,
 * something serves, and nothing is lost. */
static bool change_once(struct ad_repository *repository, size_t kind, size_t n)
{
    struct ad_error error = {0};
    enum ad_status status = AD_OK;
    const struct ad_override_file none = {(char[]){"1/x"}, NULL, 0};
    memory.failed = false;
    memory.fail_at = n;
    switch (kind) {
    case 0:
        status = ad_repository_load(repository, "a", NULL, 0, NULL, 0, &error);
        break;
    case 1:
        status = ad_repository_load(repository, "a", WARM_CONFIG, strlen(WARM_CONFIG),
                                    NULL, 0, &error);
        break;
    case 2:
        status = ad_repository_rescan(repository, true, &error);
        break;
    case 3:
        status = ad_repository_load(repository, "a", "{", 1, NULL, 0, &error);
        status = status == AD_INVALID ? AD_OK : status;
        break;
    case 4:
        status = ad_repository_load(repository, "new", SCRATCH_CONFIG,
                                    strlen(SCRATCH_CONFIG), &none, 1, &error);
        status = status == AD_INVALID ? AD_OK : status;
        break;
    default:
        status = ad_repository_unload(repository, "b", &error);
        status = status ? status
                        : ad_repository_load(repository, "b", NULL, 0, NULL, 0, &error);
        break;
    }
    memory.fail_at = 0;
    ck_assert_msg(status == AD_OK || memory.failed, "%zu: %s", kind, error.message);
    ck_assert_msg(status != AD_INVALID, "whoever asks is told it is their fault: %s",
                  error.message);
    return memory.failed;
}

START_TEST(test_changes)
{
    static const char *const startup[] = {"a", "b"};
    struct scratch scratch;
    scratch_make(&scratch);
    scratch_text(&scratch, "a/config.json", SCRATCH_CONFIG);
    scratch_version(&scratch, "a/1");
    scratch_version(&scratch, "a/2");
    scratch_text(&scratch, "b/config.json", SCRATCH_SCORE);
    ad_repository_free(scratch_load(&scratch));
    arm(0);
    struct ad_repository *repository =
        scratch_open(&(struct ad_repository_config){.root = scratch.root,
                                                    .mode = AD_CONTROL_EXPLICIT,
                                                    .startup = startup,
                                                    .n_startup = 2});
    for (size_t n = 1; change_once(repository, (size_t)_i, n); n++) {
        scratch_check_acquire(repository, "a", NULL, AD_OK, "2");
        scratch_check_acquire(repository, "a", "1", AD_OK, "1");
        ck_assert_uint_lt(n, 10000);
    }
    scratch_check_acquire(repository, "a", NULL, AD_OK, "2");
    scratch_check_acquire(repository, "b", NULL, AD_OK, "1");
    ad_repository_free(repository);
    disarm();
    scratch_remove(&scratch);
}
END_TEST

#else

START_TEST(test_changes)
{
}
END_TEST

START_TEST(test_show)
{
}
END_TEST

START_TEST(test_manifest)
{
}
END_TEST

START_TEST(test_repository)
{
}
END_TEST

START_TEST(test_only_model)
{
}
END_TEST

#endif

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("allocation failures");
    tcase_add_test(tests, test_manifest);
    tcase_add_test(tests, test_show);
    tcase_add_test(tests, test_repository);
    tcase_add_loop_test(tests, test_only_model, 0, 3);
    tcase_add_loop_test(tests, test_changes, 0, 6);
    suite_add_tcase(suite, tests);
    return support_run(suite);
}
