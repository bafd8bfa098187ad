/* Is a raw path split and decoded as it should be, and do the routes find what it
 * means? */
#include "http/path.h"

#include "http/routes.h"
#include "unit/support.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *raw;
    const char *segments; /* joined by '|' */
} good_paths[] = {
    {"/v2", "v2"},
    {"/v2/", "v2"},
    {"/v2/models", "v2|models"},
    {"/v2/models/m", "v2|models|m"},
    {"/v2/models/m/versions/12/infer", "v2|models|m|versions|12|infer"},
    {"/v2/models/a%20b%25%c3%A4", "v2|models|a b%\xc3\xa4"},
    {"/v2/models/...", "v2|models|..."},
    /* an id is any text */
    {"/v2/models/m/sequences/a%2Fb", "v2|models|m|sequences|a/b"},
    {"/v2/models/m/sequences/..", "v2|models|m|sequences|.."},
    {"/v2/models/m/sequences/%0a%7f", "v2|models|m|sequences|\n\x7f"},
    {"/v2/models/m/versions/1/sequences/%2e", "v2|models|m|versions|1|sequences|."},
    {"/v2/models/.hidden", "v2|models|.hidden"},
    {"/v2/models/a+b", "v2|models|a+b"},
    {"/%76%32/models", "v2|models"},
    {"http://host:8000/v2/models", "v2|models"},
    {"HTTPS://host/v2", "v2"},
};

START_TEST(good_path)
{
    struct ad_path path;
    char joined[AD_PATH_MAX_SEGMENTS * AD_PATH_SEGMENT_SIZE] = "";
    ck_assert_int_eq(ad_path_parse(&path, good_paths[_i].raw, NULL), AD_OK);
    for (size_t i = 0; i < path.n_segments; i++) {
        strcat(joined, i ? "|" : "");
        strcat(joined, path.segments[i]);
    }
    ck_assert_str_eq(joined, good_paths[_i].segments);
}
END_TEST

static const struct {
    const char *raw;
    enum ad_status status;
} bad_paths[] = {
    {"", AD_NOT_FOUND},
    {"*", AD_NOT_FOUND},
    {"v2", AD_NOT_FOUND},
    {"/", AD_NOT_FOUND},
    {"//", AD_NOT_FOUND},
    {"http://host", AD_NOT_FOUND},
    {"/v2//models", AD_NOT_FOUND},
    {"/v2/models/", AD_NOT_FOUND},
    {"/v2/models/m/", AD_NOT_FOUND},
    {"/v2/models/m/versions/1/infer/x/y", AD_NOT_FOUND},
    {"/v2/models/m/sequences/%00", AD_INVALID},
    {"/v2/models/sequences/%2f", AD_INVALID},
    {"/v2/sequences/a%2fb", AD_INVALID},
    {"/v2/models/m/sequences/a/%2f", AD_INVALID},
    {"/v2/models/..", AD_INVALID},
    {"/v2/models/.", AD_INVALID},
    {"/v2/models/%2e%2e", AD_INVALID},
    {"/v2/models/%2E", AD_INVALID},
    {"/v2/models/.%2e/x", AD_INVALID},
    {"/v2/models/a%2fb", AD_INVALID},
    {"/v2/models/a%2Fb", AD_INVALID},
    {"/v2/models/a%00b", AD_INVALID},
    {"/v2/models/a%0ab", AD_INVALID},
    {"/v2/models/a%7f", AD_INVALID},
    {"/v2/models/a%", AD_INVALID},
    {"/v2/models/a%2", AD_INVALID},
    {"/v2/models/a%2/b", AD_INVALID},
    {"/v2/models/a%zz", AD_INVALID},
    {"/v2/models/a%2g", AD_INVALID},
    {"/v2/models/a%-1", AD_INVALID},
};

START_TEST(bad_path)
{
    struct ad_path path;
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_path_parse(&path, bad_paths[_i].raw, &error),
                     bad_paths[_i].status);
    ck_assert_int_eq(error.status, bad_paths[_i].status);
    ck_assert_int_ne(error.message[0], '\0');
}
END_TEST

START_TEST(segment_length)
{
    char raw[AD_PATH_SEGMENT_SIZE + 16];
    struct ad_path path;
    for (size_t n = AD_PATH_SEGMENT_SIZE - 2; n <= AD_PATH_SEGMENT_SIZE + 1; n++) {
        int n_prefix = snprintf(raw, sizeof raw, "/v2/");
        memset(raw + n_prefix, 'x', n);
        raw[(size_t)n_prefix + n] = '\0';
        ck_assert_int_eq(ad_path_parse(&path, raw, NULL),
                         n < AD_PATH_SEGMENT_SIZE ? AD_OK : AD_NOT_FOUND);
    }
}
END_TEST

static const struct {
    const char *raw;
    const char *pattern; /* NULL: no route */
    const char *model;
    const char *version;
    const char *allow;
} routed[] = {
    {"/v2", "v2", NULL, NULL, "GET, HEAD"},
    {"/v2/health/live", "v2/health/live", NULL, NULL, "GET, HEAD"},
    {"/v2/health/ready", "v2/health/ready", NULL, NULL, "GET, HEAD"},
    {"/v2/models", "v2/models", NULL, NULL, "GET, HEAD"},
    {"/v2/models/m", "v2/models/{model}", "m", NULL, "GET, HEAD"},
    {"/v2/models/{model}", "v2/models/{model}", "{model}", NULL, "GET, HEAD"},
    {"/v2/models/ready/ready", "v2/models/{model}/ready", "ready", NULL, "GET, HEAD"},
    {"/v2/models/m/config", "v2/models/{model}/config", "m", NULL, "GET, HEAD"},
    {"/v2/models/m/infer", "v2/models/{model}/infer", "m", NULL, "POST"},
    {"/v2/models/m/gradient", "v2/models/{model}/gradient", "m", NULL, "POST"},
    {"/v2/models/m/gradients", NULL, NULL, NULL, NULL},
    {"/v2/models/m/versions/3", "v2/models/{model}/versions/{version}", "m", "3",
     "GET, HEAD"},
    {"/v2/models/m/versions/3/ready", "v2/models/{model}/versions/{version}/ready", "m",
     "3", "GET, HEAD"},
    {"/v2/models/m/versions/3/config", "v2/models/{model}/versions/{version}/config", "m",
     "3", "GET, HEAD"},
    {"/v2/models/m/versions/3/infer", "v2/models/{model}/versions/{version}/infer", "m",
     "3", "POST"},
    {"/v2/models/m/versions/3/gradient", "v2/models/{model}/versions/{version}/gradient",
     "m", "3", "POST"},
    {"/v2/repository/index", "v2/repository/index", NULL, NULL, "POST"},
    {"/v1", NULL, NULL, NULL, NULL},
    {"/v2/x", NULL, NULL, NULL, NULL},
    {"/v2/health", NULL, NULL, NULL, NULL},
    {"/v2/health/liv", NULL, NULL, NULL, NULL},
    {"/v2/health/live/x", NULL, NULL, NULL, NULL},
    {"/V2", NULL, NULL, NULL, NULL},
    {"/v2/models/m/versions", NULL, NULL, NULL, NULL},
    {"/v2/models/m/nothing", NULL, NULL, NULL, NULL},
};

static void check_text(const char *found, const char *expected)
{
    ck_assert_int_eq(!found, !expected);
    if (expected) {
        ck_assert_str_eq(found, expected);
    }
}

START_TEST(route)
{
    struct ad_path path;
    struct ad_target target;
    ck_assert_int_eq(ad_path_parse(&path, routed[_i].raw, NULL), AD_OK);
    const struct ad_route *found = ad_route_find(&path, &target);
    check_text(found ? found->pattern : NULL, routed[_i].pattern);
    check_text(target.model, routed[_i].model);
    check_text(target.version, routed[_i].version);
    check_text(found ? ad_route_allow(found) : NULL, routed[_i].allow);
    ck_assert_int_eq(found && found->gradient,
                     strstr(routed[_i].raw, "gradient") && found);
    ck_assert(!found || found->infer || !found->gradient);
}
END_TEST

/* What a segment of its own names, and what stands behind a colon. */
static const struct {
    const char *raw;
    const char *pattern;
    const char *model;
    const char *region;
    const char *allow;
} others[] = {
    {"/v2/systemsharedmemory/status", "v2/systemsharedmemory/status", NULL, NULL,
     "GET, HEAD"},
    {"/v2/systemsharedmemory/unregister", "v2/systemsharedmemory/unregister", NULL, NULL,
     "POST"},
    {"/v2/systemsharedmemory/region/r%20s/status",
     "v2/systemsharedmemory/region/{region}/status", NULL, "r s", "GET, HEAD"},
    {"/v2/systemsharedmemory/region/r/register",
     "v2/systemsharedmemory/region/{region}/register", NULL, "r", "POST"},
    {"/v2/systemsharedmemory/region/unregister/unregister",
     "v2/systemsharedmemory/region/{region}/unregister", NULL, "unregister", "POST"},
    {"/v2/systemsharedmemory/register", NULL, NULL, NULL, NULL},
    {"/v2/systemsharedmemory", NULL, NULL, NULL, NULL},
    {"/v2/systemsharedmemory/region/r", NULL, NULL, NULL, NULL},
    {"/v2/systemsharedmemory/region/r/s/register", NULL, NULL, NULL, NULL},
    {"/v1/models", "v1/models", NULL, NULL, "GET, HEAD"},
    {"/v1/models/m", "v1/models/{model}", "m", NULL, "GET, HEAD"},
    {"/v1/models/m:predict", "v1/models/{model}:predict", "m", NULL, "POST"},
    {"/v1/models/m%3apredict", "v1/models/{model}:predict", "m", NULL, "POST"},
    {"/v1/models/a:predict:predict", "v1/models/{model}:predict", "a:predict", NULL,
     "POST"},
    {"/v1/models/:predict", "v1/models/{model}", ":predict", NULL, "GET, HEAD"},
    {"/v1/models/m:predic", "v1/models/{model}", "m:predic", NULL, "GET, HEAD"},
    {"/v1/models/m:predict/x", NULL, NULL, NULL, NULL},
    {"/v1/models/m/infer", NULL, NULL, NULL, NULL},
    {"/v2/models/m:predict", "v2/models/{model}", "m:predict", NULL, "GET, HEAD"},
};

START_TEST(route_of_others)
{
    struct ad_path path;
    struct ad_target target;
    ck_assert_int_eq(ad_path_parse(&path, others[_i].raw, NULL), AD_OK);
    const struct ad_route *found = ad_route_find(&path, &target);
    check_text(found ? found->pattern : NULL, others[_i].pattern);
    check_text(target.model, others[_i].model);
    check_text(target.region, others[_i].region);
    check_text(found ? ad_route_allow(found) : NULL, others[_i].allow);
    bool predicts = found && strstr(found->pattern, "predict") != NULL;
    ck_assert(!found || (found->form == AD_FORM_PREDICT) == predicts);
    ck_assert(!found || !found->admin);
}
END_TEST

START_TEST(verbs_of_a_route)
{
    static const char *const verbs[] = {"GET", "HEAD", "POST",  "PUT",    "DELETE",
                                        "get", "",     "PATCH", "OPTIONS"};
    struct ad_path path;
    struct ad_target target;
    ck_assert_int_eq(ad_path_parse(&path, "/v2", NULL), AD_OK);
    const struct ad_route *get = ad_route_find(&path, &target);
    ck_assert_int_eq(ad_path_parse(&path, "/v2/models/m/infer", NULL), AD_OK);
    const struct ad_route *post = ad_route_find(&path, &target);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct ad_error error = {.status = AD_OK};
        ck_assert_int_eq(ad_route_check_verb(get, verbs[i], &error),
                         i < 2 ? AD_OK : AD_METHOD);
        ck_assert_int_eq(ad_route_check_verb(post, verbs[i], NULL),
                         i == 2 ? AD_OK : AD_METHOD);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("path");
    TCase *tcase = tcase_create("path");
    tcase_add_loop_test(tcase, good_path, 0, sizeof good_paths / sizeof good_paths[0]);
    tcase_add_loop_test(tcase, bad_path, 0, sizeof bad_paths / sizeof bad_paths[0]);
    tcase_add_test(tcase, segment_length);
    tcase_add_loop_test(tcase, route, 0, sizeof routed / sizeof routed[0]);
    tcase_add_loop_test(tcase, route_of_others, 0,
                        (int)(sizeof others / sizeof others[0]));
    tcase_add_test(tcase, verbs_of_a_route);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
