/* test_layout.c - a repository that is one model itself, what its only model is called, weights beside
 * the config, and what becomes of all that while it changes. */
#include "model/repository.h"

#include "unit/model/controlled.h"
#include "unit/support.h"

/* Open with --model-name; status and message are checked by the caller. */
static enum ad_status try_named(const char *root, const char *name,
                                enum ad_control_mode mode, struct ad_error *error,
                                struct ad_repository **repository)
{
    *repository = NULL;
    return ad_repository_open(&(struct ad_repository_config){.root = root,
                                                             .name = name,
                                                             .mode = mode,
                                                             .on_retired = note_retired,
                                                             .context = &retired},
                              repository, error);
}

static struct ad_repository *open_named(const char *name, enum ad_control_mode mode)
{
    struct ad_repository *repository;
    struct ad_error error = {0};
    ck_assert_msg(try_named(scratch.root, name, mode, &error, &repository) == AD_OK, "%s",
                  error.message);
    return repository;
}

static void check_refused(const char *root, const char *name, const char *text)
{
    struct ad_repository *repository;
    struct ad_error error = {0};
    ck_assert_int_eq(try_named(root, name, AD_CONTROL_NONE, &error, &repository),
                     AD_INVALID);
    ck_assert_msg(strstr(error.message, text) != NULL, "no '%s' in: %s", text,
                  error.message);
    ck_assert_ptr_null(strchr(error.message, '\n'));
}

/* The one model there is. */
static void check_only(struct ad_repository *repository, const char *name)
{
    struct ad_view view = scratch_view(repository, NULL);
    ck_assert_uint_eq(view.n_models, 1);
    ck_assert_str_eq(view.models[0].name, name);
    ad_view_reset(&view);
}

static void write_flat(const char *model)
{
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors", model);
    scratch_weights(&scratch, path, "project_out.weight", 4, 4);
    make_old(path);
}

static void remove_file(const char *name)
{
    ck_assert_int_eq(remove(scratch_path(&scratch, name)), 0);
}

/* ---- one model ------------------------------------------------------------------------------- */

START_TEST(test_named_as_its_folder)
{
    write_model(".", SCRATCH_CONFIG);
    write_version("1");
    write_version("3");
    struct ad_repository *repository = open_named(NULL, AD_CONTROL_NONE);
    const char *name = strrchr(scratch.root, '/') + 1;
    check_only(repository, name);
    scratch_check_acquire(repository, name, NULL, AD_OK, "3");
    scratch_check_acquire(repository, name, "1", AD_OK, "1");
    scratch_check_acquire(repository, "1", NULL, AD_NOT_FOUND,
                          "Request for unknown model: '1' is not found");
    ck_assert(ad_repository_ready(repository, true));
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_named_by_the_option)
{
    write_model(".", SCRATCH_CONFIG);
    write_version("1");
    scratch_folder(&scratch, "assets");
    struct ad_repository *repository = open_named("demo", AD_CONTROL_NONE);
    check_only(repository, "demo");
    struct ad_version *version = acquired(repository, "demo", NULL);
    ck_assert_str_eq(version->model, "demo");
    ad_version_release(version);
    ad_repository_free(repository);
}
END_TEST

/* The path's own last part, also of a link, but "." and ".." are what they stand for. */
START_TEST(test_spellings_of_the_root)
{
    write_model("real", SCRATCH_SCORE);
    ck_assert_int_eq(symlink("real", scratch_path(&scratch, "link")), 0);
    scratch_folder(&scratch, "real/1");
    static const char *const spellings[][2] = {
        {"real", "real"}, {"real//", "real"}, {"real/.", "real"}, {"real/1/..", "real"},
        {"link", "link"}, {"link/", "link"},  {"link/.", "real"}};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        struct ad_repository *repository = scratch_open(&(struct ad_repository_config){
            .root = scratch_path(&scratch, spellings[i][0])});
        check_only(repository, spellings[i][1]);
        ad_repository_free(repository);
    }
    write_model(".hidden", SCRATCH_SCORE);
    check_refused(scratch_path(&scratch, ".hidden"), NULL, "--model-name");
    struct ad_repository *repository = scratch_open(&(struct ad_repository_config){
        .root = scratch_path(&scratch, ".hidden"), .name = "seen"});
    check_only(repository, "seen");
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_only_folder_is_renamed)
{
    write_model("m", SCRATCH_CONFIG);
    write_version("m/1");
    scratch_folder(&scratch, "lost+found");
    scratch_folder(&scratch, ".hidden");
    struct ad_repository *repository = open_named("demo", AD_CONTROL_POLL);
    check_only(repository, "demo");
    write_model("m", CONFIG_ONE_HEAD);
    rescan(repository, false);
    ck_assert_uint_eq(n_heads(repository, "demo"), 1);
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 1);
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_bad_names)
{
    static const char *const names[] = {"", ".", "..", "a/b", "/", ".a", "a\nb", "\xff"};
    write_model(".", SCRATCH_SCORE);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_refused(scratch.root, names[i], "--model-name: '");
    }
    char name[258];
    memset(name, 'n', 256);
    name[256] = '\0';
    check_refused(scratch.root, name, "1 to 255 bytes");
    struct ad_repository *repository = open_named(name + 1, AD_CONTROL_NONE);
    check_only(repository, name + 1);
    ad_repository_free(repository);
    repository = open_named("stats", AD_CONTROL_NONE);
    ck_assert_ptr_nonnull(strstr(scratch_reason(repository, "stats", NULL), "stats"));
    ad_repository_free(repository);
}
END_TEST

/* ---- many ------------------------------------------------------------------------------------ */

START_TEST(test_name_of_many)
{
    write_model("a", SCRATCH_SCORE);
    write_model("b", SCRATCH_SCORE);
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    const struct ad_log log = {.level = AD_LOG_WARNING, .fd = fileno(file)};
    struct ad_repository *repository = scratch_open(&(struct ad_repository_config){
        .root = scratch.root, .name = "demo", .mode = AD_CONTROL_POLL, .log = &log});
    rescan(repository, false);
    rescan(repository, true);
    char text[4096] = "";
    rewind(file);
    const size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    const char *said = strstr(text, "--model-name is ignored");
    ck_assert_ptr_nonnull(said);
    ck_assert_ptr_nonnull(strstr(said, "name=demo"));
    ck_assert_ptr_nonnull(strstr(said, "models=2"));
    ck_assert_ptr_null(strstr(said + 1, "--model-name is ignored")); /* said once */
    ck_assert_uint_eq(scratch_n_models(repository), 2);
    scratch_check_acquire(repository, "a", NULL, AD_OK, "1");
    scratch_check_acquire(repository, "b", NULL, AD_OK, "1");
    ad_repository_free(repository);
    fclose(file);
}
END_TEST

START_TEST(test_one_and_many)
{
    write_model(".", SCRATCH_SCORE);
    write_model("m", SCRATCH_SCORE);
    check_refused(scratch.root, "demo", "/config.json lies beside ");
    check_refused(scratch.root, NULL, "/m/config.json");
    remove_file("m/config.json");
    write_model("1", SCRATCH_SCORE); /* a version may have whatever it likes */
    struct ad_repository *repository = open_named("demo", AD_CONTROL_NONE);
    check_only(repository, "demo");
    ad_repository_free(repository);
}
END_TEST

/* Who points at the wrong folder reads what was looked for. */
START_TEST(test_nothing_there)
{
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    const struct ad_log log = {.level = AD_LOG_WARNING, .fd = fileno(file)};
    write_version("1");
    struct ad_repository *repository =
        scratch_open(&(struct ad_repository_config){.root = scratch.root, .log = &log});
    ad_repository_free(repository);
    repository = scratch_open(&(struct ad_repository_config){
        .root = scratch.root, .log = &log, .mode = AD_CONTROL_EXPLICIT});
    ad_repository_free(repository);
    char text[4096] = "";
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    const char *said = strstr(text, "no model found");
    ck_assert_ptr_nonnull(said);
    ck_assert_ptr_nonnull(strstr(said, "no config.json there or in a folder of it"));
    ck_assert_ptr_nonnull(strstr(said, scratch.root));
    ck_assert_ptr_null(strstr(said + 1, "no model found"));
    fclose(file);
}
END_TEST

/* ---- weights beside the config --------------------------------------------------------------- */

START_TEST(test_flat)
{
    write_model(".", SCRATCH_CONFIG);
    write_flat(".");
    struct ad_repository *repository = open_named("demo", AD_CONTROL_POLL);
    scratch_check_acquire(repository, "demo", NULL, AD_OK, "1");
    scratch_check_acquire(repository, "demo", "1", AD_OK, "1");
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 0);
    write_flat(".");
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 1); /* new weights are seen */
    write_model(".", CONFIG_ONE_HEAD);
    rescan(repository, false);
    ck_assert_uint_eq(n_heads(repository, "demo"), 1);
    scratch_text(&scratch, "model.safetensors", "half");
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 2);
    scratch_check_acquire(repository, "demo", NULL, AD_OK, "1");
    scratch_check_reason(&scratch, scratch_reason(repository, "demo", "1"),
                         "model.safetensors: ...");
    remove_file("model.safetensors");
    rescan(repository, false);
    scratch_check_acquire(repository, "demo", NULL, AD_OK, "1");
    ck_assert_ptr_nonnull(strstr(scratch_reason(repository, "demo", "1"),
                                 "expected model.safetensors beside config.json"));
    ad_repository_free(repository);
}
END_TEST

/* In a folder of many too; folders that are versions win. */
START_TEST(test_flat_among_many)
{
    write_model("a", SCRATCH_CONFIG);
    write_flat("a");
    write_model("b", SCRATCH_CONFIG);
    write_flat("b");
    write_version("b/2");
    write_model("c", SCRATCH_CONFIG);
    write_flat("c");
    scratch_folder(&scratch, "c/1");
    struct ad_repository *repository = open_mode(AD_CONTROL_POLL, NULL, 0);
    scratch_check_acquire(repository, "a", NULL, AD_OK, "1");
    scratch_check_acquire(repository, "b", NULL, AD_OK, "2");
    ck_assert_uint_eq(scratch_n_versions(repository, "b"), 1);
    ck_assert_ptr_nonnull(
        strstr(scratch_reason(repository, "c", NULL), "/c/1/model.safetensors"));
    write_version("a/1"); /* from beside the config into a folder */
    rescan(repository, false);
    ck_assert_uint_eq(retired.n, 1);
    remove_file("b/2/model.safetensors");
    remove_file("b/2");
    rescan(repository, false);
    scratch_check_acquire(repository, "b", NULL, AD_OK, "1");
    scratch_check_acquire(
        repository, "b", "2", AD_NOT_FOUND,
        "Request for unknown model version: 'b' version '2' is not found");
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_flat_by_another_name)
{
    write_model("m", "{\"layer\": {\"kind\": \"routing_mha\", \"embedding_dim\": 4,"
                     " \"n_heads\": 2}, \"weights\": {\"file\": \"w.st\"}}");
    scratch_weights(&scratch, "m/w.st", "project_out.weight", 4, 4);
    struct ad_repository *repository = open_mode(AD_CONTROL_NONE, NULL, 0);
    scratch_check_acquire(repository, "m", NULL, AD_OK, "1");
    ad_repository_free(repository);
}
END_TEST

/* ---- changes of kind ------------------------------------------------------------------------- */

/* A config that is written anew is missing for a moment: no reason to look for models elsewhere. */
START_TEST(test_config_is_missing)
{
    write_model(".", SCRATCH_CONFIG);
    write_version("1");
    struct ad_repository *repository = open_named("demo", AD_CONTROL_POLL);
    remove_file("config.json");
    rescan(repository, false);
    check_only(repository, "demo");
    scratch_check_acquire(repository, "demo", NULL, AD_OK, "1");
    scratch_check_reason(&scratch, scratch_reason(repository, "demo", NULL),
                         "config.json: no such file");
    write_model(".", CONFIG_ONE_HEAD);
    rescan(repository, false);
    ck_assert_uint_eq(n_heads(repository, "demo"), 1);
    ck_assert_str_eq(scratch_reason(repository, "demo", NULL), "");
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_from_one_to_many_and_back)
{
    write_model(".", SCRATCH_CONFIG);
    write_version("1");
    struct ad_repository *repository = open_named("demo", AD_CONTROL_POLL);
    write_model("a", SCRATCH_SCORE);
    struct ad_error error = {0};
    ck_assert_int_eq(ad_repository_rescan(repository, false, &error), AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "/a/config.json"));
    check_only(repository, "demo");
    scratch_check_acquire(repository, "demo", NULL, AD_OK, "1"); /* serves on */
    remove_file("config.json");
    remove_file("1/model.safetensors");
    remove_file("1");
    rescan(repository, false); /* one folder is left, called as the option says */
    check_only(repository, "demo");
    write_model("b", SCRATCH_SCORE);
    rescan(repository, false);
    ck_assert_uint_eq(scratch_n_models(repository), 2);
    scratch_check_acquire(repository, "a", NULL, AD_OK, "1");
    scratch_check_acquire(repository, "b", NULL, AD_OK, "1");
    scratch_check_acquire(repository, "demo", NULL, AD_NOT_FOUND,
                          "Request for unknown model: 'demo' is not found");
    remove_file("a/config.json");
    remove_file("b/config.json");
    write_model(".", SCRATCH_SCORE);
    rescan(repository, false);
    check_only(repository, "demo");
    ad_repository_free(repository);
}
END_TEST

/* ---- explicit -------------------------------------------------------------------------------- */

static void check_load(struct ad_repository *repository, const char *model,
                       const char *config, enum ad_status expected, const char *text)
{
    struct ad_error error = {0};
    ck_assert_msg(ad_repository_load(repository, model, config,
                                     config ? strlen(config) : 0, NULL, 0,
                                     &error) == expected,
                  "%s", error.message);
    ck_assert_ptr_nonnull(strstr(error.message, text));
}

/* (loop: the root itself, or its only folder) */
START_TEST(test_explicit)
{
    const char *folder = _i == 0 ? "." : "m";
    write_model(folder, SCRATCH_CONFIG);
    write_flat(folder);
    struct ad_repository *repository = open_named("demo", AD_CONTROL_EXPLICIT);
    check_only(repository, "demo");
    scratch_check_acquire(repository, "demo", NULL, AD_UNAVAILABLE,
                          "Request for model 'demo' cannot be served: it is not loaded");
    check_load(repository, "demo", NULL, AD_OK, "");
    check_load(repository, "m", NULL, AD_NOT_FOUND, "is called 'demo'");
    check_load(repository, "1", NULL, AD_NOT_FOUND, "is called 'demo'");
    check_only(repository, "demo");
    ck_assert_uint_eq(n_heads(repository, "demo"), 2);
    check_load(repository, "demo", CONFIG_ONE_HEAD, AD_OK,
               ""); /* over the same weights */
    ck_assert_uint_eq(n_heads(repository, "demo"), 1);
    rescan(repository, true);
    ck_assert_uint_eq(n_heads(repository, "demo"), 1);
    check_load(repository, "sent", SCRATCH_SCORE, AD_OK, "");
    ck_assert_uint_eq(scratch_n_models(repository), 2);
    ck_assert_int_eq(ad_repository_unload(repository, "demo", NULL), AD_OK);
    check_load(repository, "demo", NULL, AD_OK, "");
    ck_assert_uint_eq(n_heads(repository, "demo"), 2);
    ad_repository_free(repository);
}
END_TEST

START_TEST(test_explicit_startup)
{
    static const char *const good[] = {"demo"};
    static const char *const all[] = {"*"};
    static const char *const bad[] = {"m"};
    write_model("m", SCRATCH_SCORE);
    struct ad_repository_config config = {.root = scratch.root,
                                          .name = "demo",
                                          .mode = AD_CONTROL_EXPLICIT,
                                          .startup = good,
                                          .n_startup = 1};
    struct ad_repository *repository = scratch_open(&config);
    scratch_check_acquire(repository, "demo", NULL, AD_OK, "1");
    ad_repository_free(repository);
    config.startup = all;
    repository = scratch_open(&config);
    scratch_check_acquire(repository, "demo", NULL, AD_OK, "1");
    ad_repository_free(repository);
    config.startup = bad;
    struct ad_error error = {0};
    ck_assert_int_eq(ad_repository_open(&config, &repository, &error), AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "--load-model: 'm'"));
    ck_assert_ptr_nonnull(strstr(error.message, "is called 'demo'"));
}
END_TEST

/* A load with files of its own needs nothing of the folder. */
START_TEST(test_files_for_the_only_model)
{
    write_model(".", SCRATCH_CONFIG);
    struct ad_repository *repository = open_named("demo", AD_CONTROL_EXPLICIT);
    check_load(repository, "demo", NULL, AD_INVALID, "no version");
    write_version("2");
    char bytes[2048];
    FILE *file = fopen(scratch_path(&scratch, "2/model.safetensors"), "rb");
    ck_assert_ptr_nonnull(file);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    const struct ad_override_file sent = {(char[]){"7/model.safetensors"}, bytes, n};
    struct ad_error error = {0};
    ck_assert_msg(ad_repository_load(repository, "demo", SCRATCH_CONFIG,
                                     strlen(SCRATCH_CONFIG), &sent, 1, &error) == AD_OK,
                  "%s", error.message);
    scratch_check_acquire(repository, "demo", NULL, AD_OK, "7");
    rescan(repository, true);
    scratch_check_acquire(repository, "demo", NULL, AD_OK, "7");
    check_load(repository, "demo", NULL, AD_OK, "");
    scratch_check_acquire(repository, "demo", NULL, AD_OK, "2");
    ad_repository_free(repository);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_named_as_its_folder,
        test_named_by_the_option,
        test_spellings_of_the_root,
        test_only_folder_is_renamed,
        test_bad_names,
        test_name_of_many,
        test_one_and_many,
        test_nothing_there,
        test_flat,
        test_flat_among_many,
        test_flat_by_another_name,
        test_config_is_missing,
        test_from_one_to_many_and_back,
        test_explicit_startup,
        test_files_for_the_only_model,
    };
    Suite *suite = suite_create("layout");
    TCase *all = tcase_create("layout");
    tcase_add_checked_fixture(all, set_up, tear_down);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tcase_add_test(all, tests[i]);
    }
    tcase_add_loop_test(all, test_explicit, 0, 2);
    suite_add_tcase(suite, all);
    return support_run(suite);
}
