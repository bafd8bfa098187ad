/* test_versions.c - which versions a model has, which is the default, why one is broken, and how
 * long one lives. */
#include "model/repository.h"

#include "unit/model/scratch.h"
#include "unit/support.h"

static struct scratch scratch;

static void set_up(void)
{
    scratch_make(&scratch);
}

static void tear_down(void)
{
    scratch_remove(&scratch);
}

/* ---- versions -------------------------------------------------------------------------------- */

START_TEST(test_version_names)
{
    static const char *const names[] = {
        "10",
        "9",
        "9223372036854775807", /* versions */
        "0",
        "01",
        "-1",
        "+1",
        "1a",
        "a",
        "9223372036854775808", /* no versions */
        "18446744073709551617",
        "99999999999999999999999999999999", /* 2^64 + 1 */
    };
    scratch_text(&scratch, "m/config.json", SCRATCH_CONFIG);
    scratch_text(&scratch, "m/7", "a plain file");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "m/%s", names[i]);
        scratch_version(&scratch, name);
    }
    struct ad_repository *repository = scratch_load(&scratch);
    ck_assert_uint_eq(scratch_n_versions(repository, "m"), 3);
    struct ad_view view = scratch_view(repository, "m");
    ck_assert_uint_eq(view.models[0].versions[0].number, 9);
    ck_assert_uint_eq(view.models[0].versions[1].number, 10);
    ck_assert_uint_eq(view.models[0].versions[2].number, INT64_MAX);
    ad_view_reset(&view);
    scratch_check_acquire(repository, "m", NULL, AD_OK, "9223372036854775807");
    scratch_check_acquire(repository, "m", "9", AD_OK, "9");
    scratch_check_acquire(repository, "m", "10", AD_OK, "10");
    scratch_check_acquire(
        repository, "m", "09", AD_NOT_FOUND,
        "Request for unknown model version: 'm' version '09' is not found");
    scratch_check_acquire(
        repository, "m", "1", AD_NOT_FOUND,
        "Request for unknown model version: 'm' version '1' is not found");
    scratch_check_acquire(
        repository, "m", "", AD_NOT_FOUND,
        "Request for unknown model version: 'm' version '' is not found");
    scratch_check_acquire(
        repository, "m", "7", AD_NOT_FOUND,
        "Request for unknown model version: 'm' version '7' is not found");
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_layer_without_parameters)
{
    scratch_text(&scratch, "alone/config.json", SCRATCH_SCORE);
    scratch_text(
        &scratch, "weights/config.json",
        "{\"layer\": {\"kind\": \"routing_score\"}, \"weights\": {\"file\": \"x\"}}");
    scratch_text(&scratch, "versions/config.json", SCRATCH_SCORE);
    scratch_text(&scratch, "versions/2/model.safetensors", "not read");
    scratch_folder(&scratch, "versions/4");
    struct ad_repository *repository = scratch_load(&scratch);
    scratch_check_acquire(repository, "alone", NULL, AD_OK, "1");
    scratch_check_acquire(repository, "alone", "1", AD_OK, "1");
    scratch_check_acquire(repository, "weights", NULL, AD_OK, "1");
    scratch_check_acquire(repository, "versions", NULL, AD_OK, "4");
    scratch_check_acquire(repository, "versions", "2", AD_OK, "2");
    scratch_check_acquire(
        repository, "versions", "1", AD_NOT_FOUND,
        "Request for unknown model version: 'versions' version '1' is not found");
    ad_repository_free(repository);
}
END_TEST

/* The highest version that loaded is the default; broken ones are known with their reasons. */
START_TEST(test_broken_versions)
{
    scratch_text(&scratch, "m/config.json", SCRATCH_CONFIG);
    scratch_version(&scratch, "m/1");
    scratch_version(&scratch, "m/2");
    scratch_weights(&scratch, "m/3/model.safetensors", "project_out.weight", 4, 5);
    scratch_weights(&scratch, "m/4/model.safetensors", "project_in.weight", 4, 4);
    scratch_text(&scratch, "m/5/model.safetensors", "short");
    scratch_folder(&scratch, "m/6");
    struct ad_repository *repository = scratch_load(&scratch);
    ck_assert_uint_eq(scratch_n_versions(repository, "m"), 6);
    ck_assert_str_eq(scratch_reason(repository, "m", NULL), "");
    scratch_check_acquire(repository, "m", NULL, AD_OK, "2");
    scratch_check_acquire(repository, "m", "1", AD_OK, "1");
    scratch_check_reason(&scratch, scratch_reason(repository, "m", "3"),
                         "m/3/model.safetensors: ...");
    ck_assert_ptr_nonnull(
        strstr(scratch_reason(repository, "m", "3"), "project_out.weight"));
    scratch_check_reason(&scratch, scratch_reason(repository, "m", "4"),
                         "m/4/model.safetensors: ...");
    ck_assert_ptr_nonnull(
        strstr(scratch_reason(repository, "m", "4"), "project_out.weight"));
    scratch_check_reason(&scratch, scratch_reason(repository, "m", "5"),
                         "m/5/model.safetensors: ...");
    ck_assert_ptr_nonnull(
        strstr(scratch_reason(repository, "m", "6"), "/m/6/model.safetensors"));
    char message[1024];
    snprintf(message, sizeof message,
             "Request for model 'm' version '3' cannot be served: %s",
             scratch_reason(repository, "m", "3"));
    scratch_check_acquire(repository, "m", "3", AD_UNAVAILABLE, message);
    ck_assert(ad_repository_ready(repository, false));
    ck_assert(!ad_repository_ready(repository, true));
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_no_version_loads)
{
    scratch_text(&scratch, "m/config.json", SCRATCH_CONFIG);
    scratch_folder(&scratch, "m/1");
    scratch_text(&scratch, "m/2/model.safetensors", "short");
    struct ad_repository *repository = scratch_load(&scratch);
    ck_assert_uint_eq(scratch_n_versions(repository, "m"), 2);
    ck_assert_str_eq(scratch_reason(repository, "m", NULL),
                     scratch_reason(repository, "m", "2"));
    char message[1024];
    snprintf(message, sizeof message, "Request for model 'm' cannot be served: %s",
             scratch_reason(repository, "m", NULL));
    scratch_check_acquire(repository, "m", NULL, AD_UNAVAILABLE, message);
    ck_assert(!ad_repository_ready(repository, true));
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_file_prefix_and_names)
{
    scratch_text(
        &scratch, "names/config.json",
        "{\"layer\": {\"kind\": \"routing_mha\", \"embedding_dim\": 4, \"n_heads\": 1},"
        " \"weights\": {\"names\": {\"project_out.weight\": \"W\"}}}");
    scratch_text(
        &scratch, "absent/config.json",
        "{\"layer\": {\"kind\": \"routing_mha\", \"embedding_dim\": 4, \"n_heads\": 1},"
        " \"weights\": {\"names\": {\"project_out.weight\": \"V\"}}}");
    scratch_text(
        &scratch, "unknown/config.json",
        "{\"layer\": {\"kind\": \"routing_mha\", \"embedding_dim\": 4, \"n_heads\": 1},"
        " \"weights\": {\"names\": {\"project\": \"W\"}}}");
    scratch_text(
        &scratch, "prefix/config.json",
        "{\"layer\": {\"kind\": \"routing_mha\", \"embedding_dim\": 4, \"n_heads\": 1},"
        " \"weights\": {\"file\": \"all\", \"prefix\": \"decoder.\"}}");
    scratch_weights(&scratch, "prefix/1/all", "decoder.project_out.weight", 4, 4);
    scratch_weights(&scratch, "names/1/model.safetensors", "W", 4, 4);
    scratch_weights(&scratch, "absent/1/model.safetensors", "W", 4, 4);
    scratch_weights(&scratch, "unknown/1/model.safetensors", "W", 4, 4);
    struct ad_repository *repository = scratch_load(&scratch);
    scratch_check_acquire(repository, "prefix", NULL, AD_OK, "1");
    scratch_check_acquire(repository, "names", NULL, AD_OK, "1");
    scratch_check_reason(&scratch, scratch_reason(repository, "absent", NULL),
                         "absent/1/model.safetensors: ...");
    scratch_check_reason(&scratch, scratch_reason(repository, "unknown", NULL),
                         "unknown/1/model.safetensors: ...");
    ad_repository_free(repository);
}
END_TEST

/* ---- counts ---------------------------------------------------------------------------------- */

START_TEST(test_references)
{
    scratch_text(&scratch, "m/config.json", SCRATCH_CONFIG);
    scratch_version(&scratch, "m/1");
    struct ad_repository *repository = scratch_load(&scratch);
    struct ad_version *a = NULL;
    struct ad_version *b = NULL;
    struct ad_version *none = NULL;
    ck_assert_int_eq(scratch_acquire(repository, "m", NULL, &a, NULL), AD_OK);
    ck_assert_int_eq(ad_repository_acquire(repository, "mm", 1, "12", 1, &b, NULL),
                     AD_OK);
    ck_assert_int_eq(ad_repository_acquire(repository, "m", 1, "12", 2, &none, NULL),
                     AD_NOT_FOUND);
    ck_assert_ptr_eq(a, b);
    ck_assert_uint_eq(atomic_load(&a->references), 3);
    ad_version_release(b);
    ck_assert_uint_eq(atomic_load(&a->references), 2);

    /* a version that is in use outlives the repository */
    ad_repository_free(repository);
    ck_assert_uint_eq(atomic_load(&a->references), 1);
    ck_assert_str_eq(a->model, "m");
    ck_assert_str_eq(a->inputs[0].name, "query");
    ad_version_release(a);
    ad_version_release(NULL);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_version_names,    test_layer_without_parameters, test_broken_versions,
        test_no_version_loads, test_file_prefix_and_names,    test_references,
    };
    Suite *suite = suite_create("versions");
    TCase *all = tcase_create("versions");
    tcase_add_checked_fixture(all, set_up, tear_down);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tcase_add_test(all, tests[i]);
    }
    suite_add_tcase(suite, all);
    return support_run(suite);
}
