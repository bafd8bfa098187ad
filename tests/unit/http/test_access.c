/* Is a request let in by its key where it may, and kept out where not, also while the keys change? */
#include "http/access.h"

#include "unit/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define N_THREADS 3
#define N_RELOADS 60

static char path[32];

static void write_keys(const char *format)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(format, file);
    fclose(file);
}

static char *file_of_keys(void)
{
    static const struct {
        const char *text, *more;
    } keys[] = {{"all", ""},
                {"some", ",\"models\":[\"mha\"],\"rate\":0.1,\"burst\":2"},
                {"root", ",\"models\":[],\"admin\":true"}};
    static char text[2048];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"keys\":[");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        unsigned char hash[AD_KEY_HASH_SIZE];
        ck_assert(ad_key_hash(keys[i].text, strlen(keys[i].text), hash));
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "%s{\"name\":\"%s\",\"sha256\":\"", i > 0 ? "," : "",
                              keys[i].text);
        for (size_t k = 0; k < AD_KEY_HASH_SIZE; k++) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%02x", hash[k]);
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "\"%s}", keys[i].more);
    }
    snprintf(text + n, sizeof text - n, "]}");
    return text;
}

static struct ad_access *create(bool with_keys, struct ad_options *options)
{
    struct ad_access *access = NULL;
    struct ad_error error = {.status = AD_OK};
    *options = (struct ad_options){.api_keys = with_keys ? path : NULL};
    if (with_keys) {
        snprintf(path, sizeof path, "/tmp/test_access.XXXXXX");
        int fd = mkstemp(path);
        ck_assert_int_ge(fd, 0);
        close(fd);
        write_keys(file_of_keys());
    }
    ck_assert_msg(ad_access_create(options, NULL, &access, &error) == AD_OK, "%s",
                  error.message);
    return access;
}

static const struct ad_route routes[] = {{.pattern = "open", .open = true},
                                         {.pattern = "plain"},
                                         {.pattern = "infer", .infer = true},
                                         {.pattern = "admin", .admin = true}};
enum { OPEN, PLAIN, INFER, ADMIN };

static const struct {
    const char *authorization, *api_key;
    size_t route;
    const char *model;
    enum ad_status status;
    const char *name; /* of the key, where one is known */
} asks[] = {
    {NULL, NULL, OPEN, "mha", AD_OK, NULL},
    {"Bearer wrong", "other", OPEN, NULL, AD_OK, NULL},
    {NULL, NULL, PLAIN, NULL, AD_UNAUTHORIZED, NULL},
    {NULL, NULL, INFER, "mha", AD_UNAUTHORIZED, NULL},
    {NULL, NULL, ADMIN, NULL, AD_UNAUTHORIZED, NULL},
    {"Bearer all", NULL, PLAIN, NULL, AD_OK, "all"},
    {"bEARER   all \t", NULL, PLAIN, NULL, AD_OK, "all"},
    {NULL, "all", PLAIN, NULL, AD_OK, "all"},
    {NULL, " all\t", PLAIN, NULL, AD_OK, "all"},
    {"Bearer all", "all", PLAIN, NULL, AD_OK, "all"},
    {"Bearer all", "some", PLAIN, NULL, AD_INVALID, NULL},
    {"Bearer all", "", PLAIN, NULL, AD_INVALID, NULL},
    {"Basic YWxs", "all", PLAIN, NULL, AD_OK, "all"},
    {"Basic YWxs", NULL, PLAIN, NULL, AD_UNAUTHORIZED, NULL},
    {"Bearerall", NULL, PLAIN, NULL, AD_UNAUTHORIZED, NULL},
    {"Bearer", NULL, PLAIN, NULL, AD_UNAUTHORIZED, NULL},
    {"Bearer ", NULL, PLAIN, NULL, AD_UNAUTHORIZED, NULL},
    {"", "", PLAIN, NULL, AD_UNAUTHORIZED, NULL},
    {"Bearer All", NULL, PLAIN, NULL, AD_UNAUTHORIZED, NULL},
    {"Bearer all,some", NULL, PLAIN, NULL, AD_UNAUTHORIZED, NULL},
    {"all", NULL, PLAIN, NULL, AD_UNAUTHORIZED, NULL},
    {"Bearer all", NULL, INFER, "nobody", AD_OK, "all"},
    {"Bearer all", NULL, ADMIN, "mha", AD_FORBIDDEN, "all"},
    {"Bearer some", NULL, PLAIN, NULL, AD_OK, "some"},
    {"Bearer some", NULL, PLAIN, "mha", AD_OK, "some"},
    {"Bearer some", NULL, INFER, "mha", AD_OK, "some"},
    {"Bearer some", NULL, INFER, "causal", AD_FORBIDDEN, "some"},
    {"Bearer some", NULL, PLAIN, "nobody", AD_FORBIDDEN, "some"},
    {"Bearer some", NULL, ADMIN, NULL, AD_FORBIDDEN, "some"},
    {"Bearer root", NULL, ADMIN, NULL, AD_OK, "root"},
    {"Bearer root", NULL, ADMIN, "mha", AD_OK, "root"},
    {"Bearer root", NULL, INFER, "mha", AD_FORBIDDEN, "root"},
    {"Bearer root", NULL, PLAIN, "mha", AD_FORBIDDEN, "root"},
};

static enum ad_status check(struct ad_access *access, const char *authorization,
                            const char *api_key, size_t route, const char *model,
                            int64_t now_ns, struct ad_pass *pass)
{
    const struct ad_headers headers = {.authorization = authorization,
                                       .api_key = api_key};
    const struct ad_target target = {.model = model};
    struct ad_error error = {.status = AD_OK};
    return ad_access_check(access, &headers, &routes[route], &target, now_ns, pass,
                           &error);
}

START_TEST(asked)
{
    struct ad_options options;
    struct ad_access *access = create(true, &options);
    struct ad_pass pass;
    ck_assert_int_eq(check(access, asks[_i].authorization, asks[_i].api_key,
                           asks[_i].route, asks[_i].model, NS_PER_S, &pass),
                     asks[_i].status);
    ck_assert_int_eq(pass.key != NULL, asks[_i].name != NULL);
    if (pass.key) {
        ck_assert_str_eq(pass.key->name, asks[_i].name);
    }
    ck_assert_uint_eq(pass.retry_after, 0);
    ad_pass_reset(&pass);
    ad_access_free(access);
    unlink(path);
}
END_TEST

START_TEST(without_keys)
{
    struct ad_options options;
    struct ad_access *access = create(false, &options);
    struct ad_pass pass;
    for (size_t route = OPEN; route <= ADMIN; route++) {
        ck_assert_int_eq(check(access, "Bearer x", "y", route, "mha", 0, &pass), AD_OK);
        ck_assert_ptr_null(pass.key);
        ad_pass_reset(&pass);
    }
    ck_assert_int_eq(ad_access_reload(access, NULL), AD_OK);
    ad_access_free(access);
    ad_access_free(NULL);
}
END_TEST

/* Only what computes takes tokens, refusals take none, and a reload brings none. */
START_TEST(rate)
{
    struct ad_options options;
    struct ad_access *access = create(true, &options);
    struct ad_pass pass;
    int64_t now_ns = 7 * NS_PER_S;
    for (size_t i = 0; i < 10; i++) {
        ck_assert_int_eq(check(access, NULL, "some", PLAIN, "mha", now_ns, &pass), AD_OK);
        ad_pass_reset(&pass);
        ck_assert_int_eq(check(access, NULL, "some", INFER, "other", now_ns, &pass),
                         AD_FORBIDDEN);
        ad_pass_reset(&pass);
    }
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(check(access, NULL, "some", INFER, "mha", now_ns, &pass), AD_OK);
        ad_pass_reset(&pass);
    }
    ck_assert_int_eq(ad_access_reload(access, NULL), AD_OK);
    ck_assert_int_eq(check(access, NULL, "some", INFER, "mha", now_ns, &pass),
                     AD_RATE_LIMITED);
    ck_assert_uint_eq(pass.retry_after, 10);
    ad_pass_reset(&pass);
    ck_assert_int_eq(
        check(access, NULL, "some", INFER, "mha", now_ns + 9 * NS_PER_S + 1, &pass),
        AD_RATE_LIMITED);
    ck_assert_uint_eq(pass.retry_after, 1);
    ad_pass_reset(&pass);
    ck_assert_int_eq(
        check(access, NULL, "some", INFER, "mha", now_ns + 10 * NS_PER_S, &pass), AD_OK);
    ad_pass_reset(&pass);
    ad_access_free(access);
    unlink(path);
}
END_TEST

/* Who was let in keeps the key; a file that is no good changes nothing. */
START_TEST(reload)
{
    struct ad_options options;
    struct ad_access *access = create(true, &options);
    struct ad_error error = {.status = AD_OK};
    struct ad_pass held, pass;
    ck_assert_int_eq(check(access, NULL, "all", PLAIN, NULL, 0, &held), AD_OK);
    write_keys("{\"keys\":[{}]}");
    ck_assert_int_eq(ad_access_reload(access, &error), AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, path));
    ck_assert_int_eq(check(access, NULL, "all", PLAIN, NULL, 0, &pass), AD_OK);
    ad_pass_reset(&pass);
    write_keys("{\"keys\":[{\"name\":\"new\",\"sha256\":"
               "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}]}");
    ck_assert_int_eq(ad_access_reload(access, NULL), AD_OK);
    ck_assert_int_eq(check(access, NULL, "all", PLAIN, NULL, 0, &pass), AD_UNAUTHORIZED);
    ad_pass_reset(&pass);
    ck_assert_int_eq(check(access, NULL, "abc", PLAIN, NULL, 0, &pass), AD_OK);
    ad_pass_reset(&pass);
    ck_assert_str_eq(held.key->name, "all");
    ad_access_free(access);
    ad_pass_reset(&held);
    unlink(path);
}
END_TEST

struct asker {
    struct ad_access *access;
    atomic_bool *over;
    size_t n;
};

static void *ask_on(void *context)
{
    struct asker *asker = context;
    while (!atomic_load(asker->over)) {
        struct ad_pass pass;
        if (check(asker->access, NULL, "all", INFER, "mha", NS_PER_S, &pass) != AD_OK ||
            strcmp(pass.key->name, "all") != 0) {
            abort();
        }
        ad_pass_reset(&pass);
        asker->n++;
    }
    return NULL;
}

START_TEST(reload_while_asked)
{
    struct ad_options options;
    pthread_t threads[N_THREADS];
    struct asker askers[N_THREADS];
    atomic_bool over = false;
    struct ad_access *access = create(true, &options);
    for (size_t i = 0; i < N_THREADS; i++) {
        askers[i] = (struct asker){access, &over, 0};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_on, &askers[i]), 0);
    }
    for (size_t i = 0; i < N_RELOADS; i++) {
        ck_assert_int_eq(ad_access_reload(access, NULL), AD_OK);
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ad_access_free(access);
    unlink(path);
}
END_TEST

static const struct {
    const char *keys, *origins, *proxies;
    const char *named;
} bad_options[] = {
    {"/nonexistent/keys.json", NULL, NULL, "/nonexistent/keys.json: no such file"},
    {"/tmp", NULL, NULL, "/tmp: not a regular file"},
    {NULL, "*,x", NULL, "--cors-allow-origins"},
    {NULL, "*", "10.0.0.0/8,nonsense", "--trusted-proxies"},
};

START_TEST(refuses_options)
{
    struct ad_access *access = NULL;
    struct ad_error error = {.status = AD_OK};
    char keys[64], origins[64], proxies[64];
    struct ad_options options = {.http_port = 0};
    if (bad_options[_i].keys) {
        snprintf(keys, sizeof keys, "%s", bad_options[_i].keys);
        options.api_keys = keys;
    }
    if (bad_options[_i].origins) {
        snprintf(origins, sizeof origins, "%s", bad_options[_i].origins);
        options.cors_allow_origins = origins;
    }
    if (bad_options[_i].proxies) {
        snprintf(proxies, sizeof proxies, "%s", bad_options[_i].proxies);
        options.trusted_proxies = proxies;
    }
    ck_assert_int_ne(ad_access_create(&options, NULL, &access, &error), AD_OK);
    ck_assert_ptr_null(access);
    ck_assert_msg(strstr(error.message, bad_options[_i].named) != NULL, "%s",
                  error.message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("access");
    TCase *tcase = tcase_create("access");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, asked, 0, sizeof asks / sizeof asks[0]);
    tcase_add_test(tcase, without_keys);
    tcase_add_test(tcase, rate);
    tcase_add_test(tcase, reload);
    tcase_add_test(tcase, reload_while_asked);
    tcase_add_loop_test(tcase, refuses_options, 0,
                        sizeof bad_options / sizeof bad_options[0]);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
