/* test_repository.c - what is loaded from a repository, what is not and why, and how versions are
 * found and counted. */
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

/* ---- the demo models ------------------------------------------------------------------------- */

START_TEST(test_demo_models)
{
    static const char *const names[] = {
        "causal_mha",       "causal_steps",  "relational_mha", "routing_mha",
        "routing_mha_proj", "routing_score", "speech_mha"};
    struct ad_repository *repository =
        scratch_open(&(struct ad_repository_config){.root = "config/models"});
    struct ad_view view = scratch_view(repository, NULL);
    ck_assert_uint_eq(view.n_models, sizeof names / sizeof *names);
    for (size_t i = 0; i < view.n_models; i++) {
        const struct ad_view_model *model = &view.models[i];
        ck_assert_str_eq(model->name, names[i]);
        ck_assert_msg(!model->reason, "%s", model->reason);
        ck_assert_int_eq(model->state, AD_VERSION_READY);
        ck_assert_uint_eq(model->n_versions, 1);
        ck_assert_int_eq(model->versions[0].state, AD_VERSION_READY);
        ck_assert_str_eq(attn_layer_spec(model->versions[0].version->layer)->kind,
                         strcmp(names[i], "causal_steps") == 0 ? "causal_mha" : names[i]);
    }
    ad_view_reset(&view);
    ck_assert(ad_repository_ready(repository, true));
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_demo_models_are_reproducible)
{
    ck_assert_int_eq(system("python3 tests/tools/make_demo_models.py --check"), 0);
}
END_TEST

/* ---- models ---------------------------------------------------------------------------------- */

START_TEST(test_good_model)
{
    scratch_text(&scratch, "m/config.json", SCRATCH_CONFIG);
    scratch_version(&scratch, "m/1");
    struct ad_repository *repository = scratch_load(&scratch);
    ck_assert_str_eq(ad_repository_root(repository), scratch.root);
    ck_assert_int_eq(ad_repository_mode(repository), AD_CONTROL_NONE);
    ck_assert_str_eq(scratch_reason(repository, "m", NULL), "");
    ck_assert_uint_eq(scratch_n_versions(repository, "m"), 1);
    struct ad_version *version;
    ck_assert_int_eq(scratch_acquire(repository, "m", NULL, &version, NULL), AD_OK);
    ck_assert_str_eq(version->model, "m");
    ck_assert_uint_eq(version->number, 1);
    ck_assert_str_eq(version->text, "1");
    ck_assert_ptr_nonnull(version->stats);
    ck_assert_int_ge(version->load_ns, 0);
    ck_assert_uint_eq(version->settings.max_batch_rows, 32);
    ck_assert_str_eq(version->config, "{\"version_policy\":{\"all\":{}}}");
    ck_assert_uint_ge(version->n_inputs, 3);
    ck_assert_str_eq(version->inputs[0].name, "query");
    ck_assert_uint_ge(version->n_outputs, 1);
    ck_assert_str_eq(version->outputs[0].name, "out");
    ad_version_release(version);
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_empty_repository)
{
    struct ad_repository *repository = scratch_load(&scratch);
    ck_assert_uint_eq(scratch_n_models(repository), 0);
    scratch_check_acquire(repository, "m", NULL, AD_NOT_FOUND,
                          "Request for unknown model: 'm' is not found");
    struct ad_view view;
    ck_assert_int_eq(ad_repository_view(repository, "m", &view, NULL), AD_OK);
    ck_assert_uint_eq(view.n_models, 0);
    ad_view_reset(&view);
    ck_assert(ad_repository_ready(repository, true));
    ad_repository_free(repository);
    ad_repository_free(NULL);
}
END_TEST

START_TEST(test_no_repository)
{
    struct ad_repository *repository = NULL;
    struct ad_error error = {0};
    char expected[1024];
    ck_assert_int_eq(
        ad_repository_open(
            &(struct ad_repository_config){.root = scratch_path(&scratch, "none")},
            &repository, &error),
        AD_NOT_FOUND);
    snprintf(expected, sizeof expected, "%s: no such folder",
             scratch_path(&scratch, "none"));
    ck_assert_str_eq(error.message, expected);

    scratch_text(&scratch, "file", "x");
    ad_error_clear(&error);
    ck_assert_int_eq(
        ad_repository_open(
            &(struct ad_repository_config){.root = scratch_path(&scratch, "file")},
            &repository, &error),
        AD_INVALID);
    snprintf(expected, sizeof expected, "%s: cannot be read: Not a directory",
             scratch_path(&scratch, "file"));
    ck_assert_str_eq(error.message, expected);
    ck_assert_ptr_null(repository);
}
END_TEST

/* What lies about in a repository and is no model. */
START_TEST(test_skipped_entries)
{
    scratch_text(&scratch, "README", "plain files are no models");
    scratch_text(&scratch, ".hidden/config.json", "{");
    scratch_text(&scratch, "..2026_01_01/config.json", SCRATCH_SCORE);
    scratch_folder(&scratch, "lost+found");
    scratch_text(&scratch, "line\nbreak/config.json", SCRATCH_SCORE);
    scratch_text(&scratch, "c1\xc2\x85/config.json", SCRATCH_SCORE);
    scratch_text(&scratch, "latin1\xe4/config.json", SCRATCH_SCORE);
    scratch_text(&scratch, "overlong\xc0\xaf/config.json", SCRATCH_SCORE);
    ck_assert_int_eq(symlink("nowhere", scratch_path(&scratch, "dangling")), 0);
    struct ad_repository *repository = scratch_load(&scratch);
    ck_assert_uint_eq(scratch_n_models(repository), 0);
    ad_repository_free(repository);
}
END_TEST

/* A config map's volume: models are links into a timed folder behind the link ..data. */
START_TEST(test_linked_models)
{
    scratch_text(&scratch, "..2026_01_01/m/config.json", SCRATCH_CONFIG);
    scratch_version(&scratch, "..2026_01_01/m/3");
    ck_assert_int_eq(symlink("..2026_01_01", scratch_path(&scratch, "..data")), 0);
    ck_assert_int_eq(symlink("..data/m", scratch_path(&scratch, "m")), 0);
    struct ad_repository *repository = scratch_load(&scratch);
    ck_assert_uint_eq(scratch_n_models(repository), 1);
    scratch_check_acquire(repository, "m", NULL, AD_OK, "3");
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_order_and_names)
{
    char longest[256];
    char name[300];
    memset(longest, 'n', 255);
    longest[255] = '\0';
    static const char *const names[] = {"b", "a", "\xc3\xa4", "ab", "A b%2f", "stats.x"};
    static const char *const sorted[] = {"A b%2f", "a",       "ab",      "b",
                                         NULL,     "stats.x", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "%s/config.json", names[i]);
        scratch_text(&scratch, name, SCRATCH_SCORE);
    }
    snprintf(name, sizeof name, "%s/config.json", longest);
    scratch_text(&scratch, name, SCRATCH_SCORE);

    struct ad_repository *repository = scratch_load(&scratch);
    ck_assert_uint_eq(scratch_n_models(repository), 7);
    struct ad_view view = scratch_view(repository, NULL);
    for (size_t i = 0; i < 7; i++) {
        const char *expected = sorted[i] ? sorted[i] : longest;
        ck_assert_str_eq(view.models[i].name, expected);
        scratch_check_acquire(repository, expected, NULL, AD_OK, "1");
    }
    ad_view_reset(&view);
    struct ad_version *found = NULL;
    ck_assert_int_eq(ad_repository_acquire(repository, "", 0, NULL, 0, &found, NULL),
                     AD_NOT_FOUND);
    ck_assert_int_eq(ad_repository_acquire(repository, "a\0", 2, NULL, 0, &found, NULL),
                     AD_NOT_FOUND);
    ck_assert_int_eq(ad_repository_acquire(repository, "abc", 3, NULL, 0, &found, NULL),
                     AD_NOT_FOUND);
    ck_assert_int_eq(ad_repository_acquire(repository, "z", 1, NULL, 0, &found, NULL),
                     AD_NOT_FOUND);
    ck_assert_int_eq(ad_repository_acquire(repository, "abc", 2, NULL, 0, &found, NULL),
                     AD_OK);
    ck_assert_str_eq(found->model, "ab");
    ad_version_release(found);
    ad_repository_free(repository);
}
END_TEST

/* ---- broken models beside a good one --------------------------------------------------------- */

static void check_broken_model(const char *name, const char *reason)
{
    scratch_text(&scratch, "good/config.json", SCRATCH_SCORE);
    struct ad_repository *repository = scratch_load(&scratch);
    ck_assert_uint_eq(scratch_n_models(repository), 2);
    scratch_check_acquire(repository, "good", NULL, AD_OK, "1");
    ck_assert_uint_eq(scratch_n_versions(repository, name), 0);
    const char *told = scratch_reason(repository, name, NULL);
    scratch_check_reason(&scratch, told, reason);
    char message[1024];
    snprintf(message, sizeof message, "Request for model '%s' cannot be served: %s", name,
             told);
    scratch_check_acquire(repository, name, NULL, AD_UNAVAILABLE, message);
    scratch_check_acquire(repository, name, "1", AD_UNAVAILABLE, message);
    ck_assert(ad_repository_ready(repository, false));
    ck_assert(!ad_repository_ready(repository, true));
    ad_repository_free(repository);
}

START_TEST(test_no_config)
{
    scratch_version(&scratch, "m/1");
    check_broken_model("m", "m/config.json: no such file");
}
END_TEST

START_TEST(test_bad_config)
{
    scratch_text(
        &scratch, "m/config.json",
        "{\"layer\": {\"kind\": \"routing_score\"}, \"weights\": {\"fiel\": 1}}");
    check_broken_model("m",
                       "m/config.json: weights.fiel: unknown key, expected one of file, "
                       "prefix, names");
}
END_TEST

START_TEST(test_bad_option)
{
    scratch_text(
        &scratch, "m/config.json",
        "{\"layer\": {\"kind\": \"routing_mha\", \"embedding_dim\": 5, \"n_heads\": 2}}");
    check_broken_model("m",
                       "m/config.json: layer.embedding_dim: expected a multiple of the "
                       "number of heads (2), got 5");
}
END_TEST

START_TEST(test_config_is_a_folder)
{
    scratch_folder(&scratch, "m");
    scratch_folder(&scratch, "m/config.json");
    check_broken_model("m", "m/config.json: not a regular file");
}
END_TEST

/* Opening it must not wait for a writer. */
START_TEST(test_config_is_a_pipe)
{
    scratch_folder(&scratch, "m");
    ck_assert_int_eq(mkfifo(scratch_path(&scratch, "m/config.json"), 0600), 0);
    check_broken_model("m", "m/config.json: not a regular file");
}
END_TEST

START_TEST(test_config_too_large)
{
    scratch_text(&scratch, "m/config.json", SCRATCH_SCORE);
    ck_assert_int_eq(truncate(scratch_path(&scratch, "m/config.json"), (1 << 20) + 1), 0);
    check_broken_model(
        "m", "m/config.json: expected at most 1048576 bytes, the file has more");
}
END_TEST

START_TEST(test_config_of_the_largest_size)
{
    char *text = malloc(1 << 20);
    ck_assert_ptr_nonnull(text);
    memset(text, ' ', 1 << 20);
    memcpy(text, SCRATCH_SCORE, strlen(SCRATCH_SCORE));
    scratch_write(&scratch, "m/config.json", text, 1 << 20);
    free(text);
    struct ad_repository *repository = scratch_load(&scratch);
    scratch_check_acquire(repository, "m", NULL, AD_OK, "1");
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_no_version)
{
    scratch_text(&scratch, "m/config.json", SCRATCH_CONFIG);
    scratch_version(&scratch, "m/v1");
    check_broken_model("m", "m: no version, expected model.safetensors beside "
                            "config.json or in a folder such as 1/");
}
END_TEST

START_TEST(test_stats)
{
    scratch_text(&scratch, "stats/config.json", SCRATCH_SCORE);
    check_broken_model(
        "stats", "stats: a model cannot be called stats, /v2/models/stats is taken");
}
END_TEST

/* ---- log ------------------------------------------------------------------------------------- */

START_TEST(test_log_lines)
{
    scratch_text(&scratch, "good/config.json", SCRATCH_CONFIG);
    scratch_version(&scratch, "good/1");
    scratch_folder(&scratch, "good/2");
    scratch_text(&scratch, "broken/config.json", "{");
    scratch_text(&scratch, "line\nbreak/config.json", SCRATCH_SCORE);
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    const struct ad_log log = {.level = AD_LOG_INFO, .fd = fileno(file)};
    ad_repository_free(
        scratch_open(&(struct ad_repository_config){.root = scratch.root, .log = &log}));

    static const char *const expected[] = {
        "model not loaded model=broken reason=",
        "model loaded model=good version=1 bytes=", "model not loaded model=good reason=",
        "entry skipped entry="};
    bool seen[4] = {false};
    size_t n_lines = 0;
    char line[4096];
    rewind(file);
    for (; fgets(line, sizeof line, file); n_lines++) {
        for (size_t i = 0; i < 4; i++) {
            seen[i] = seen[i] || strstr(line, expected[i]);
        }
    }
    fclose(file);
    ck_assert_uint_eq(n_lines, 4);
    ck_assert(seen[0] && seen[1] && seen[2] && seen[3]);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_demo_models,
        test_demo_models_are_reproducible,
        test_good_model,
        test_empty_repository,
        test_no_repository,
        test_skipped_entries,
        test_linked_models,
        test_order_and_names,
        test_no_config,
        test_bad_config,
        test_bad_option,
        test_config_is_a_folder,
        test_config_is_a_pipe,
        test_config_too_large,
        test_config_of_the_largest_size,
        test_no_version,
        test_stats,
        test_log_lines,
    };
    Suite *suite = suite_create("repository");
    TCase *all = tcase_create("repository");
    tcase_add_checked_fixture(all, set_up, tear_down);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tcase_add_test(all, tests[i]);
    }
    suite_add_tcase(suite, all);
    return support_run(suite);
}
