/* test_control.c - load, reload and unload while versions are in use; what a reload that fails leaves
 * behind; explicit mode; models that come with a request. */
#include "model/repository.h"
#include "model/version.h"

#include "unit/model/controlled.h"
#include "unit/support.h"

/* ---- reload ---------------------------------------------------------------------------------- */

/* The old version lives as long as it is used; its statistics go on. */
START_TEST(test_reload_swaps)
{
    write_model("m", SCRATCH_CONFIG);
    write_version("m/1");
    struct ad_repository *repository = open_mode(AD_CONTROL_EXPLICIT, NULL, 0);
    load_good(repository, "m");
    struct ad_version *old = acquired(repository, "m", "1");
    struct ad_presence *presence = ad_presence_hold(old->presence);
    struct ad_stats *stats = old->stats;
    write_model("m", CONFIG_ONE_HEAD);
    load_good(repository, "m");
    ck_assert_uint_eq(n_heads(repository, "m"), 1);
    ck_assert_uint_eq(retired.n, 1);
    ck_assert_uint_eq(retired.numbers[0], 1);
    struct ad_version *now = acquired(repository, "m", "1");
    ck_assert_ptr_ne(now, old);
    ck_assert_ptr_eq(now->stats, stats);
    ad_version_release(now);

    ck_assert_uint_eq(atomic_load(&old->references), 1);
    ck_assert_uint_eq(attn_layer_spec(old->layer)->n_heads, 2);
    ck_assert(!ad_presence_is_gone(presence));
    ad_version_release(old);
    ck_assert(ad_presence_is_gone(presence));
    ad_presence_release(presence);
    ad_repository_free(repository);
    ck_assert_uint_eq(retired.n, 1); /* the end is no replacement */
}
END_TEST

static void check_kept(struct ad_repository *repository, const char *reason)
{
    struct ad_version *old = acquired(repository, "m", NULL);
    struct ad_error error = {0};
    ck_assert_int_eq(ad_repository_load(repository, "m", NULL, 0, NULL, 0, &error),
                     AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "failed to load 'm': "));
    ck_assert_ptr_nonnull(strstr(error.message, reason));
    ck_assert_int_eq(state_of(repository, "m", 0), AD_VERSION_READY);
    ck_assert_ptr_nonnull(strstr(scratch_reason(repository, "m", NULL), reason));
    ck_assert_ptr_nonnull(strstr(scratch_reason(repository, "m", "1"), reason));
    ck_assert(ad_repository_ready(repository, true));
    struct ad_version *now = acquired(repository, "m", NULL);
    ck_assert_ptr_eq(now, old);
    ck_assert_uint_eq(retired.n, 0);
    ad_version_release(now);
    ad_version_release(old);
}

START_TEST(test_failed_reload_keeps)
{
    write_model("m", SCRATCH_CONFIG);
    write_version("m/1");
    struct ad_repository *repository = open_mode(AD_CONTROL_EXPLICIT, NULL, 0);
    load_good(repository, "m");
    write_model("m", "{\"layer\": {\"kind\":");
    check_kept(repository, "line 1, column");
    write_model("m", SCRATCH_CONFIG);
    scratch_text(&scratch, "m/1/model.safetensors", "half");
    check_kept(repository, "/m/1/model.safetensors");
    ck_assert_int_eq(unlink(scratch_path(&scratch, "m/1/model.safetensors")), 0);
    check_kept(repository, "/m/1/model.safetensors");
    ck_assert_int_eq(rmdir(scratch_path(&scratch, "m/1")), 0);
    check_kept(repository, "no version");
    write_version("m/1");
    load_good(repository, "m");
    ck_assert_str_eq(scratch_reason(repository, "m", NULL), "");
    ck_assert_str_eq(scratch_reason(repository, "m", "1"), "");
    ck_assert_uint_eq(retired.n, 1);
    ad_repository_free(repository);
}
END_TEST

/* All or nothing: one that serves cannot be made, so the others are not replaced either. */
START_TEST(test_failed_reload_of_many)
{
    write_model("m", SCRATCH_CONFIG);
    write_version("m/1");
    write_version("m/2");
    scratch_folder(&scratch, "m/4");
    struct ad_repository *repository = open_mode(AD_CONTROL_NONE, NULL, 0);
    ck_assert_int_eq(state_of(repository, "m", 2), AD_VERSION_UNAVAILABLE);
    write_model("m", CONFIG_ONE_HEAD);
    write_version("m/3");
    scratch_text(&scratch, "m/1/model.safetensors", "half");
    rescan(repository, true);
    ck_assert_uint_eq(retired.n, 0);
    ck_assert_uint_eq(n_heads(repository, "m"), 2);
    ck_assert_uint_eq(scratch_n_versions(repository, "m"), 4);
    ck_assert_int_eq(state_of(repository, "m", 0), AD_VERSION_READY);
    ck_assert_int_eq(state_of(repository, "m", 1), AD_VERSION_READY);
    ck_assert_int_eq(state_of(repository, "m", 2), AD_VERSION_UNAVAILABLE);
    ck_assert_int_eq(state_of(repository, "m", 3), AD_VERSION_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(scratch_reason(repository, "m", "1"), "/m/1/"));
    ck_assert_str_ne(scratch_reason(repository, "m", "3"), "");
    write_version("m/1");
    rescan(repository, false);
    ck_assert_uint_eq(n_heads(repository, "m"), 1);
    ck_assert_int_eq(state_of(repository, "m", 2), AD_VERSION_READY);
    ck_assert_uint_eq(retired.n, 2);
    ad_repository_free(repository);
}
END_TEST

/* A new version that is broken is no reason to hold back the others. */
START_TEST(test_new_version_is_broken)
{
    write_model("m", SCRATCH_CONFIG);
    write_version("m/1");
    struct ad_repository *repository = open_mode(AD_CONTROL_NONE, NULL, 0);
    scratch_text(&scratch, "m/2/model.safetensors", "half");
    rescan(repository, false);
    ck_assert_int_eq(state_of(repository, "m", 0), AD_VERSION_READY);
    ck_assert_int_eq(state_of(repository, "m", 1), AD_VERSION_UNAVAILABLE);
    scratch_check_acquire(repository, "m", NULL, AD_OK, "1");
    ck_assert_uint_eq(retired.n, 0); /* version 1 was not made again */
    ad_repository_free(repository);
}
END_TEST

/* ---- explicit -------------------------------------------------------------------------------- */

START_TEST(test_explicit_mode)
{
    static const char *const startup[] = {"b", "none"};
    write_model("a", SCRATCH_SCORE);
    write_model("b", SCRATCH_SCORE);
    struct ad_repository *repository = open_mode(AD_CONTROL_EXPLICIT, startup, 2);
    ck_assert_uint_eq(scratch_n_models(repository), 3);
    scratch_check_acquire(repository, "b", NULL, AD_OK, "1");
    scratch_check_acquire(repository, "a", NULL, AD_UNAVAILABLE,
                          "Request for model 'a' cannot be served: it is not loaded");
    ck_assert_str_eq(scratch_reason(repository, "a", NULL), "");
    scratch_check_reason(&scratch, scratch_reason(repository, "none", NULL),
                         "none/config.json: no such file");
    ck_assert(!ad_repository_ready(repository, true)); /* none was asked for */

    load_good(repository, "a");
    scratch_check_acquire(repository, "a", NULL, AD_OK, "1");
    ck_assert_int_eq(ad_repository_unload(repository, "none", NULL), AD_OK);
    ck_assert(ad_repository_ready(repository, true));

    write_model("c", SCRATCH_SCORE);
    rescan(repository, false);
    ck_assert_uint_eq(scratch_n_models(repository), 3); /* c came, none went */
    scratch_check_acquire(repository, "c", NULL, AD_UNAVAILABLE,
                          "Request for model 'c' cannot be served: it is not loaded");
    rescan(repository, true);
    ck_assert_uint_eq(retired.n, 2); /* a and b were loaded again, c was not */
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_explicit_all)
{
    static const char *const startup[] = {"*"};
    static const char *const bad[] = {"../a"};
    write_model("a", SCRATCH_SCORE);
    write_model("b", SCRATCH_SCORE);
    struct ad_repository *repository = open_mode(AD_CONTROL_EXPLICIT, startup, 1);
    ck_assert(ad_repository_ready(repository, true));
    scratch_check_acquire(repository, "a", NULL, AD_OK, "1");
    scratch_check_acquire(repository, "b", NULL, AD_OK, "1");
    ad_repository_free(repository);
    struct ad_error error = {0};
    const struct ad_repository_config config = {.root = scratch.root,
                                                .mode = AD_CONTROL_EXPLICIT,
                                                .startup = bad,
                                                .n_startup = 1};
    ck_assert_int_eq(ad_repository_open(&config, &repository, &error), AD_INVALID);
}
END_TEST

START_TEST(test_unload)
{
    write_model("m", SCRATCH_CONFIG);
    write_version("m/1");
    write_version("m/2");
    struct ad_repository *repository = open_mode(AD_CONTROL_EXPLICIT, NULL, 0);
    load_good(repository, "m");
    struct ad_version *used = acquired(repository, "m", "2");
    struct ad_stats *stats = used->stats;
    ad_stats_hold(stats);
    ck_assert_int_eq(ad_repository_unload(repository, "m", NULL), AD_OK);
    ck_assert_uint_eq(retired.n, 2);
    ck_assert_int_eq(state_of(repository, "m", 0), AD_VERSION_UNAVAILABLE);
    ck_assert_int_eq(state_of(repository, "m", 1), AD_VERSION_UNLOADING);
    ck_assert_str_eq(scratch_reason(repository, "m", "1"), "unloaded");
    scratch_check_acquire(repository, "m", "2", AD_UNAVAILABLE,
                          "Request for model 'm' version '2' cannot be served: unloaded");
    ck_assert_int_eq(ad_repository_unload(repository, "m", NULL), AD_OK);
    ck_assert_int_eq(state_of(repository, "m", 1), AD_VERSION_UNLOADING);
    ad_version_release(used);
    ck_assert_int_eq(state_of(repository, "m", 1), AD_VERSION_UNAVAILABLE);
    ck_assert(ad_repository_ready(repository, true));
    rescan(repository, true);
    ck_assert_int_eq(state_of(repository, "m", 1), AD_VERSION_UNAVAILABLE);

    load_good(repository, "m");
    struct ad_version *now = acquired(repository, "m", "2");
    ck_assert_ptr_ne(now->stats, stats); /* its numbers begin anew */
    ad_stats_release(stats);
    ad_version_release(now);
    struct ad_error error = {0};
    ck_assert_int_eq(ad_repository_unload(repository, "none", &error), AD_NOT_FOUND);
    ck_assert_str_eq(error.message, "failed to unload 'none': there is no such model");
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_bad_names)
{
    static const char *const names[] = {"",     ".",   "..",      "../x", "a/b",
                                        "/etc", "a/.", ".hidden", "a\nb", "a\x80"};
    struct ad_repository *repository = open_mode(AD_CONTROL_EXPLICIT, NULL, 0);
    struct ad_error error = {0};
    char longest[300];
    memset(longest, 'n', sizeof longest);
    longest[256] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ad_error_clear(&error);
        ck_assert_int_eq(ad_repository_load(repository, names[i], SCRATCH_SCORE,
                                            strlen(SCRATCH_SCORE), NULL, 0, &error),
                         AD_INVALID);
    }
    ck_assert_int_eq(ad_repository_load(repository, longest, NULL, 0, NULL, 0, NULL),
                     AD_INVALID);
    ad_error_clear(&error);
    ck_assert_int_eq(ad_repository_load(repository, "none", NULL, 0, NULL, 0, &error),
                     AD_NOT_FOUND);
    char expected[256];
    snprintf(expected, sizeof expected, "failed to load 'none': %s/none: no such folder",
             scratch.root);
    ck_assert_str_eq(error.message, expected);
    ck_assert_uint_eq(scratch_n_models(repository), 0);
    ad_repository_free(repository);
}
END_TEST

/* ---- models that come with the request ------------------------------------------------------- */

static enum ad_status load_with(struct ad_repository *repository, const char *model,
                                const char *config, const struct ad_override_file *files,
                                size_t n_files, struct ad_error *error)
{
    return ad_repository_load(repository, model, config, strlen(config), files, n_files,
                              error);
}

/* The bytes of a good weights file; to be freed. */
static struct ad_override_file good_file(char *path)
{
    struct ad_override_file file = {.path = path};
    scratch_version(&scratch, ".weights/1");
    FILE *from = fopen(scratch_path(&scratch, ".weights/1/model.safetensors"), "rb");
    ck_assert_ptr_nonnull(from);
    file.bytes = malloc(4096);
    ck_assert_ptr_nonnull(file.bytes);
    file.n_bytes = fread(file.bytes, 1, 4096, from);
    fclose(from);
    return file;
}

START_TEST(test_config_given)
{
    write_model("m", SCRATCH_CONFIG);
    write_version("m/1");
    struct ad_repository *repository = open_mode(AD_CONTROL_EXPLICIT, NULL, 0);
    ck_assert_int_eq(load_with(repository, "m", CONFIG_ONE_HEAD, NULL, 0, NULL), AD_OK);
    ck_assert_uint_eq(n_heads(repository, "m"), 1);
    rescan(repository, true); /* the config given is kept */
    ck_assert_uint_eq(n_heads(repository, "m"), 1);
    load_good(repository, "m"); /* and forgotten by a load without one */
    ck_assert_uint_eq(n_heads(repository, "m"), 2);
    rescan(repository, true);
    ck_assert_uint_eq(n_heads(repository, "m"), 2);
    struct ad_error error = {0};
    ck_assert_int_eq(load_with(repository, "m", "{", NULL, 0, &error), AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "parameters.config: line 1"));
    ck_assert_uint_eq(n_heads(repository, "m"), 2);
    ad_repository_free(repository);
}
END_TEST

/* Without a folder: a layer without parameters, and one whose weights come too. */
START_TEST(test_files_given)
{
    struct ad_repository *repository = open_mode(AD_CONTROL_EXPLICIT, NULL, 0);
    struct ad_error error = {0};
    ck_assert_int_eq(load_with(repository, "s", SCRATCH_SCORE, NULL, 0, &error), AD_OK);
    scratch_check_acquire(repository, "s", NULL, AD_OK, "1");
    struct ad_override_file files[3] = {good_file((char[]){"7/model.safetensors"}),
                                        good_file((char[]){"12/model.safetensors"}),
                                        {(char[]){"12/notes"}, NULL, 0}};
    ck_assert_msg(load_with(repository, "m", SCRATCH_CONFIG, files, 3, &error) == AD_OK,
                  "%s", error.message);
    scratch_check_acquire(repository, "m", NULL, AD_OK, "12");
    scratch_check_acquire(repository, "m", "7", AD_OK, "7");
    rescan(repository, true); /* nothing on disk to look at */
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 1); /* s alone was loaded again */
    scratch_check_acquire(repository, "m", NULL, AD_OK, "12");

    /* a failed reload keeps it */
    files[1].n_bytes -= 4;
    ck_assert_int_eq(load_with(repository, "m", SCRATCH_CONFIG, files, 3, &error),
                     AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "file:12/model.safetensors: "));
    scratch_check_acquire(repository, "m", NULL, AD_OK, "12");

    /* a bad one leaves nothing behind */
    ad_error_clear(&error);
    ck_assert_int_eq(load_with(repository, "n", SCRATCH_CONFIG, files + 1, 1, &error),
                     AD_INVALID);
    ad_error_clear(&error);
    ck_assert_int_eq(load_with(repository, "n", SCRATCH_CONFIG, files + 2, 1, &error),
                     AD_INVALID);
    ck_assert_str_eq(error.message, "failed to load 'n': file:12/model.safetensors: not "
                                    "among the files given");
    ck_assert_uint_eq(scratch_n_models(repository), 2);

    ck_assert_int_eq(ad_repository_unload(repository, "m", NULL), AD_OK);
    rescan(repository, false);
    ck_assert_uint_eq(scratch_n_models(repository), 1); /* it had no folder */
    ad_error_clear(&error);
    ck_assert_int_eq(ad_repository_load(repository, "m", NULL, 0, files, 1, &error),
                     AD_INVALID);
    ad_repository_free(repository);
    free(files[0].bytes);
    free(files[1].bytes);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_reload_swaps,
        test_failed_reload_keeps,
        test_failed_reload_of_many,
        test_new_version_is_broken,
        test_explicit_mode,
        test_explicit_all,
        test_unload,
        test_bad_names,
        test_config_given,
        test_files_given,
    };
    Suite *suite = suite_create("control");
    TCase *all = tcase_create("control");
    tcase_add_checked_fixture(all, set_up, tear_down);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tcase_add_test(all, tests[i]);
    }
    suite_add_tcase(suite, all);
    return support_run(suite);
}
