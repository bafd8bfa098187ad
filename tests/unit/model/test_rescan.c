/* test_rescan.c - what has changed on disk is found, and nothing else is touched; which versions a
 * policy picks. */
#include "model/repository.h"

#include "unit/model/controlled.h"
#include "unit/support.h"

/* ---- looking at the disk --------------------------------------------------------------------- */

START_TEST(test_nothing_changed)
{
    write_model("m", SCRATCH_CONFIG);
    write_version("m/1");
    write_model("s", SCRATCH_SCORE);
    struct ad_repository *repository = open_mode(AD_CONTROL_POLL, NULL, 0);
    struct ad_version *old = acquired(repository, "m", NULL);
    rescan(repository, false);
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 0);
    rescan(repository, true);
    ck_assert_uint_eq(retired.n, 2);
    struct ad_version *now = acquired(repository, "m", NULL);
    ck_assert_ptr_ne(now, old);
    ad_version_release(now);
    ad_version_release(old);
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_what_is_new_and_gone)
{
    write_model("a", SCRATCH_SCORE);
    write_model("b", SCRATCH_CONFIG);
    write_version("b/1");
    write_version("b/2");
    struct ad_repository *repository = open_mode(AD_CONTROL_POLL, NULL, 0);
    write_model("c", SCRATCH_SCORE);
    ck_assert_int_eq(unlink(scratch_path(&scratch, "a/config.json")), 0);
    ck_assert_int_eq(rmdir(scratch_path(&scratch, "a")), 0);
    ck_assert_int_eq(unlink(scratch_path(&scratch, "b/2/model.safetensors")), 0);
    ck_assert_int_eq(rmdir(scratch_path(&scratch, "b/2")), 0);
    rescan(repository, false);
    ck_assert_uint_eq(scratch_n_models(repository), 2);
    scratch_check_acquire(repository, "a", NULL, AD_NOT_FOUND,
                          "Request for unknown model: 'a' is not found");
    scratch_check_acquire(repository, "b", NULL, AD_OK, "1");
    scratch_check_acquire(
        repository, "b", "2", AD_NOT_FOUND,
        "Request for unknown model version: 'b' version '2' is not found");
    scratch_check_acquire(repository, "c", NULL, AD_OK, "1");
    ck_assert_uint_eq(retired.n, 2); /* a/1 and b/2; b/1 was not touched */
    ad_repository_free(repository);
}
END_TEST

/* The same size and the same time: another file all the same. */
START_TEST(test_replaced_by_rename)
{
    write_model("m", SCRATCH_CONFIG);
    write_version("m/1");
    struct ad_repository *repository = open_mode(AD_CONTROL_POLL, NULL, 0);
    scratch_version(&scratch, "m/.new");
    struct stat about;
    ck_assert_int_eq(stat(scratch_path(&scratch, "m/1/model.safetensors"), &about), 0);
    const struct timespec times[2] = {about.st_mtim, about.st_mtim};
    char from[512];
    snprintf(from, sizeof from, "%s", scratch_path(&scratch, "m/.new/model.safetensors"));
    ck_assert_int_eq(utimensat(AT_FDCWD, from, times, 0), 0);
    ck_assert_int_eq(rename(from, scratch_path(&scratch, "m/1/model.safetensors")), 0);
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 1);
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 1);

    scratch_age(&scratch, "m/1/model.safetensors", 50); /* written in place */
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 2);
    write_model("m", SCRATCH_CONFIG);
    scratch_age(&scratch, "m/config.json", 50);
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 3);
    ad_repository_free(repository);
}
END_TEST

/* A link that now leads elsewhere, as a config map changes. */
START_TEST(test_replaced_link)
{
    write_model(".a/m", SCRATCH_CONFIG);
    write_version(".a/m/1");
    write_model(".b/m", CONFIG_ONE_HEAD);
    write_version(".b/m/1");
    ck_assert_int_eq(symlink(".a/m", scratch_path(&scratch, "m")), 0);
    struct ad_repository *repository = open_mode(AD_CONTROL_POLL, NULL, 0);
    ck_assert_uint_eq(n_heads(repository, "m"), 2);
    char link[512];
    snprintf(link, sizeof link, "%s", scratch_path(&scratch, "next"));
    ck_assert_int_eq(symlink(".b/m", link), 0);
    ck_assert_int_eq(rename(link, scratch_path(&scratch, "m")), 0);
    rescan(repository, false);
    ck_assert_uint_eq(n_heads(repository, "m"), 1);
    ad_repository_free(repository);
}
END_TEST

/* Tried again when it changes again, and not before. */
START_TEST(test_half_written)
{
    write_model("m", SCRATCH_CONFIG);
    write_version("m/1");
    struct ad_repository *repository = open_mode(AD_CONTROL_POLL, NULL, 0);
    scratch_text(&scratch, "m/1/model.safetensors", "half");
    scratch_age(&scratch, "m/1/model.safetensors", 60);
    rescan(repository, false);
    ck_assert_str_ne(scratch_reason(repository, "m", NULL), "");
    scratch_check_acquire(repository, "m", NULL, AD_OK, "1");
    rescan(repository, false);
    write_version("m/1");
    scratch_age(&scratch, "m/1/model.safetensors", 40);
    rescan(repository, false);
    ck_assert_str_eq(scratch_reason(repository, "m", NULL), "");
    ck_assert_uint_eq(retired.n, 1);
    ad_repository_free(repository);
}
END_TEST

/* A file that has just been written may be written again within the same tick. */
START_TEST(test_just_written)
{
    write_model("m", SCRATCH_CONFIG);
    scratch_version(&scratch, "m/1");
    struct ad_repository *repository = open_mode(AD_CONTROL_POLL, NULL, 0);
    make_old("m/1/model.safetensors");
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 1);
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 1);
    ad_repository_free(repository);
}
END_TEST

/* What is broken is not loaded, nor logged, again and again. */
START_TEST(test_broken_models_are_left_alone)
{
    write_model("stats", SCRATCH_SCORE);
    write_model("syntax", "{");
    scratch_folder(&scratch, "empty");
    write_model("versions", SCRATCH_CONFIG);
    write_model("weights", SCRATCH_CONFIG);
    scratch_text(&scratch, "weights/1/model.safetensors", "short");
    make_old("weights/1/model.safetensors");
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    const struct ad_log log = {.level = AD_LOG_INFO, .fd = fileno(file)};
    struct ad_repository *repository = scratch_open(&(struct ad_repository_config){
        .root = scratch.root, .mode = AD_CONTROL_POLL, .log = &log});
    const off_t n_bytes = lseek(fileno(file), 0, SEEK_CUR);
    ck_assert_int_gt(n_bytes, 0);
    rescan(repository, false);
    ck_assert_int_eq(lseek(fileno(file), 0, SEEK_CUR), n_bytes);
    ad_repository_free(repository);
    fclose(file);
}
END_TEST

START_TEST(test_root_has_gone)
{
    write_model("m", SCRATCH_SCORE);
    struct ad_repository *repository = open_mode(AD_CONTROL_POLL, NULL, 0);
    char aside[80];
    snprintf(aside, sizeof aside, "%s.aside", scratch.root);
    ck_assert_int_eq(rename(scratch.root, aside), 0);
    struct ad_error error = {0};
    ck_assert_int_eq(ad_repository_rescan(repository, true, &error), AD_NOT_FOUND);
    scratch_check_acquire(repository, "m", NULL, AD_OK, "1");
    ck_assert_int_eq(rename(aside, scratch.root), 0);
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 0);
    ad_repository_free(repository);
}
END_TEST

/* ---- version policies ------------------------------------------------------------------------ */

#define POLICY(policy)                                                                \
    "{\"layer\": {\"kind\": \"routing_mha\", \"embedding_dim\": 4, \"n_heads\": 2}, " \
    "\"version_policy\": " policy "}"

static const struct {
    const char *config;
    size_t n;
    uint64_t numbers[4];
} policies[] = {
    {SCRATCH_CONFIG, 3, {1, 3, 10}},
    {POLICY("{\"all\": {}}"), 3, {1, 3, 10}},
    {POLICY("{\"latest\": {}}"), 1, {10}},
    {POLICY("{\"latest\": {\"num_versions\": 2}}"), 2, {3, 10}},
    {POLICY("{\"latest\": {\"num_versions\": 9}}"), 3, {1, 3, 10}},
    {POLICY("{\"specific\": {\"versions\": [3, 1, 3]}}"), 2, {1, 3}},
};

/* A stop in the middle: after the first model that is loaded again. */
static void abandon(void *context, struct ad_version *version)
{
    (void)version;
    ad_repository_abandon(*(struct ad_repository **)context);
    retired.n++;
}

START_TEST(test_abandoned)
{
    struct ad_repository *repository = NULL;
    write_model("a", SCRATCH_SCORE);
    write_model("b", SCRATCH_SCORE);
    write_model("c", SCRATCH_SCORE);
    repository = scratch_open(&(struct ad_repository_config){
        .root = scratch.root, .on_retired = abandon, .context = &repository});
    rescan(repository, true);
    ck_assert_uint_eq(retired.n, 1);
    rescan(repository, true);
    ck_assert_uint_eq(retired.n, 1);
    scratch_check_acquire(repository, "c", NULL, AD_OK, "1");
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_policy)
{
    write_model("m", policies[_i].config);
    write_version("m/1");
    write_version("m/3");
    write_version("m/10");
    struct ad_repository *repository = open_mode(AD_CONTROL_NONE, NULL, 0);
    struct ad_view view = scratch_view(repository, "m");
    ck_assert_uint_eq(view.models[0].n_versions, policies[_i].n);
    for (size_t i = 0; i < policies[_i].n; i++) {
        ck_assert_uint_eq(view.models[0].versions[i].number, policies[_i].numbers[i]);
        ck_assert_int_eq(view.models[0].versions[i].state, AD_VERSION_READY);
    }
    ad_view_reset(&view);
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_policy_names_a_missing_version)
{
    write_model("m", POLICY("{\"specific\": {\"versions\": [2, 3]}}"));
    write_version("m/3");
    struct ad_repository *repository = open_mode(AD_CONTROL_POLL, NULL, 0);
    ck_assert_int_eq(state_of(repository, "m", 0), AD_VERSION_UNAVAILABLE);
    scratch_check_reason(&scratch, scratch_reason(repository, "m", "2"),
                         "m/2: no such version");
    scratch_check_acquire(repository, "m", NULL, AD_OK, "3");
    write_version("m/2");
    write_version("m/9"); /* not named */
    rescan(repository, false);
    scratch_check_acquire(repository, "m", "2", AD_OK, "2");
    scratch_check_acquire(
        repository, "m", "9", AD_NOT_FOUND,
        "Request for unknown model version: 'm' version '9' is not found");
    ck_assert_uint_eq(retired.n, 0);
    ad_repository_free(repository);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_nothing_changed,
        test_what_is_new_and_gone,
        test_replaced_by_rename,
        test_replaced_link,
        test_half_written,
        test_just_written,
        test_root_has_gone,
        test_broken_models_are_left_alone,
        test_policy_names_a_missing_version,
        test_abandoned,
    };
    Suite *suite = suite_create("rescan");
    TCase *all = tcase_create("rescan");
    tcase_add_checked_fixture(all, set_up, tear_down);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tcase_add_test(all, tests[i]);
    }
    tcase_add_loop_test(all, test_policy, 0, sizeof policies / sizeof *policies);
    suite_add_tcase(suite, all);
    return support_run(suite);
}
