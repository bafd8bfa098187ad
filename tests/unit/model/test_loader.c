/* test_loader.c - commands are answered exactly once, in their order, also at a stop; what each mode
 * takes; polling. */
#include "model/loader.h"

#include "unit/model/scratch.h"
#include "unit/support.h"

#include <pthread.h>

static struct scratch scratch;

/* The answers, in the order in which they came. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t came;
    size_t n;
    enum ad_status statuses[256];
    size_t numbers[256]; /* of the commands */
    bool held;           /* the first answer waits until it is let go */
} answers = {.lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};

static void set_up(void)
{
    scratch_make(&scratch);
    answers.n = 0;
    answers.held = false;
}

static void tear_down(void)
{
    scratch_remove(&scratch);
}

static void take_answer(struct ad_command *command)
{
    pthread_mutex_lock(&answers.lock);
    answers.statuses[answers.n] = command->error.status;
    answers.numbers[answers.n++] = (size_t)(uintptr_t)command->context;
    pthread_cond_broadcast(&answers.came);
    while (answers.held) {
        pthread_cond_wait(&answers.came, &answers.lock);
    }
    pthread_mutex_unlock(&answers.lock);
    ad_command_free(command);
}

static void set_held(bool held)
{
    pthread_mutex_lock(&answers.lock);
    answers.held = held;
    pthread_cond_broadcast(&answers.came);
    pthread_mutex_unlock(&answers.lock);
}

static void await_answers(size_t n)
{
    pthread_mutex_lock(&answers.lock);
    while (answers.n < n) {
        pthread_cond_wait(&answers.came, &answers.lock);
    }
    pthread_mutex_unlock(&answers.lock);
}

static struct ad_command *make(enum ad_command_kind kind, const char *model,
                               size_t number)
{
    struct ad_command *command = ad_command_create(kind);
    ck_assert_ptr_nonnull(command);
    command->model = model ? strdup(model) : NULL;
    command->on_done = take_answer;
    command->context = (void *)(uintptr_t)number;
    return command;
}

static void submit(struct ad_loader *loader, enum ad_command_kind kind, const char *model,
                   size_t number)
{
    struct ad_command *command = make(kind, model, number);
    struct ad_error error = {0};
    ck_assert_msg(ad_loader_submit(loader, &command, &error) == AD_OK, "%s",
                  error.message);
    ck_assert_ptr_null(command);
}

static void refuse(struct ad_loader *loader, enum ad_command_kind kind,
                   const char *message)
{
    struct ad_command *command = make(kind, "m", 0);
    struct ad_error error = {0};
    ck_assert_int_eq(ad_loader_submit(loader, &command, &error), AD_UNAVAILABLE);
    ck_assert_str_eq(error.message, message);
    ck_assert_ptr_nonnull(command);
    ad_command_free(command);
}

struct fixture {
    struct ad_repository *repository;
    struct ad_loader *loader;
};

static struct fixture start(enum ad_control_mode mode, uint64_t poll_seconds)
{
    struct fixture fixture = {.repository = scratch_open(&(struct ad_repository_config){
                                  .root = scratch.root, .mode = mode})};
    struct ad_error error = {0};
    ck_assert_msg(ad_loader_start(fixture.repository, poll_seconds, NULL, &fixture.loader,
                                  &error) == AD_OK,
                  "%s", error.message);
    return fixture;
}

static void stop(struct fixture *fixture)
{
    ck_assert(ad_loader_stop(fixture->loader, INT64_MAX));
    ad_loader_free(fixture->loader);
    ad_repository_free(fixture->repository);
}

START_TEST(test_commands)
{
    scratch_text(&scratch, "m/config.json", SCRATCH_SCORE);
    struct fixture fixture = start(AD_CONTROL_EXPLICIT, 3600);
    submit(fixture.loader, AD_COMMAND_LOAD, "m", 0);
    await_answers(1);
    scratch_check_acquire(fixture.repository, "m", NULL, AD_OK, "1");
    submit(fixture.loader, AD_COMMAND_LOAD, "none", 1);
    submit(fixture.loader, AD_COMMAND_UNLOAD, "m", 2);
    submit(fixture.loader, AD_COMMAND_UNLOAD, "none", 3);
    submit(fixture.loader, AD_COMMAND_RESCAN, NULL, 4);
    await_answers(5);
    static const enum ad_status expected[] = {AD_OK, AD_NOT_FOUND, AD_OK, AD_NOT_FOUND,
                                              AD_OK};
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(answers.statuses[i], expected[i]);
        ck_assert_uint_eq(answers.numbers[i], i);
    }
    /* nobody waits for this one */
    struct ad_command *command = ad_command_create(AD_COMMAND_LOAD);
    command->model = strdup("m");
    ck_assert_int_eq(ad_loader_submit(fixture.loader, &command, NULL), AD_OK);
    submit(fixture.loader, AD_COMMAND_RESCAN, NULL, 5);
    await_answers(6);
    scratch_check_acquire(fixture.repository, "m", NULL, AD_OK, "1");
    stop(&fixture);
    ck_assert_uint_eq(answers.n, 6);
    ck_assert(ad_loader_stop(NULL, 0));
    ad_loader_free(NULL);
    ad_command_free(NULL);
}
END_TEST

START_TEST(test_modes)
{
    static const char *const messages[] = {
        [AD_CONTROL_NONE] = "explicit model load / unload is not allowed: it needs "
                            "--model-control-mode=explicit",
        [AD_CONTROL_POLL] = "explicit model load / unload is not allowed if polling is "
                            "enabled"};
    scratch_text(&scratch, "m/config.json", SCRATCH_SCORE);
    for (int mode = AD_CONTROL_NONE; mode <= AD_CONTROL_POLL; mode++) {
        struct fixture fixture = start((enum ad_control_mode)mode, 3600);
        refuse(fixture.loader, AD_COMMAND_LOAD, messages[mode]);
        refuse(fixture.loader, AD_COMMAND_UNLOAD, messages[mode]);
        submit(fixture.loader, AD_COMMAND_RESCAN, NULL, 0);
        await_answers((size_t)mode + 1);
        stop(&fixture);
    }
}
END_TEST

static void *stop_loader(void *argument)
{
    ck_assert(ad_loader_stop(argument, INT64_MAX));
    return NULL;
}

/* More than may wait, and a stop while they do. */
START_TEST(test_full_and_stopped)
{
    scratch_text(&scratch, "m/config.json", SCRATCH_SCORE);
    struct fixture fixture = start(AD_CONTROL_EXPLICIT, 3600);
    set_held(true);
    submit(fixture.loader, AD_COMMAND_LOAD, "m", 0);
    await_answers(1); /* the loader is held in its first answer */
    for (size_t i = 1; i <= AD_LOADER_MAX_WAITING; i++) {
        submit(fixture.loader, AD_COMMAND_LOAD, "m", i);
    }
    refuse(fixture.loader, AD_COMMAND_LOAD, "64 model control requests wait already");
    /* the stop answers what waits at once, then waits for the one that runs */
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, stop_loader, fixture.loader), 0);
    await_answers(2);
    set_held(false);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    refuse(fixture.loader, AD_COMMAND_LOAD, "the server is stopping");
    ad_loader_free(fixture.loader);
    ad_repository_free(fixture.repository);
    ck_assert_uint_eq(answers.n, 1 + AD_LOADER_MAX_WAITING);
    bool seen[1 + AD_LOADER_MAX_WAITING] = {false};
    for (size_t i = 0; i < answers.n; i++) {
        ck_assert(!seen[answers.numbers[i]]);
        seen[answers.numbers[i]] = true;
        ck_assert_int_eq(answers.statuses[i],
                         answers.numbers[i] == 0 ? AD_OK : AD_UNAVAILABLE);
    }
}
END_TEST

/* What runs when the time is up goes on, and can be waited for again. */
START_TEST(test_not_stopped_in_time)
{
    scratch_text(&scratch, "m/config.json", SCRATCH_SCORE);
    struct fixture fixture = start(AD_CONTROL_EXPLICIT, 3600);
    set_held(true);
    submit(fixture.loader, AD_COMMAND_LOAD, "m", 0);
    await_answers(1);
    ck_assert(!ad_loader_stop(fixture.loader, 0));
    refuse(fixture.loader, AD_COMMAND_LOAD, "the server is stopping");
    set_held(false);
    stop(&fixture);
}
END_TEST

/* Many submit at once, and the stop comes in between: what was taken is answered once. */
static void *submit_many(void *argument)
{
    for (size_t i = 0; i < 30; i++) {
        struct ad_command *command = make(AD_COMMAND_LOAD, "m", 0);
        if (ad_loader_submit(argument, &command, NULL) != AD_OK) {
            ad_command_free(command);
            pthread_mutex_lock(&answers.lock);
            answers.n++; /* refused: its answer was that */
            pthread_cond_broadcast(&answers.came);
            pthread_mutex_unlock(&answers.lock);
        }
    }
    return NULL;
}

START_TEST(test_stop_among_submits)
{
    scratch_text(&scratch, "m/config.json", SCRATCH_SCORE);
    struct fixture fixture = start(AD_CONTROL_EXPLICIT, 3600);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, submit_many, fixture.loader),
                         0);
    }
    await_answers(5);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    stop(&fixture);
    ck_assert_uint_eq(answers.n, 120);
}
END_TEST

static void await_model(struct ad_repository *repository, const char *name)
{
    struct ad_view view;
    bool found = false;
    for (size_t i = 0; i < 500 && !found; i++) {
        ck_assert_int_eq(ad_repository_view(repository, name, &view, NULL), AD_OK);
        found = view.n_models == 1;
        ad_view_reset(&view);
        usleep(20000);
    }
    ck_assert_msg(found, "%s was not found", name);
}

START_TEST(test_polling)
{
    struct fixture fixture = start(AD_CONTROL_POLL, 1);
    scratch_text(&scratch, ".m/config.json", SCRATCH_SCORE);
    char from[512];
    snprintf(from, sizeof from, "%s", scratch_path(&scratch, ".m"));
    ck_assert_int_eq(rename(from, scratch_path(&scratch, "m")), 0);
    await_model(fixture.repository, "m");
    submit(fixture.loader, AD_COMMAND_RESCAN, NULL, 0); /* the load has ended by then */
    await_answers(1);
    scratch_check_acquire(fixture.repository, "m", NULL, AD_OK, "1");
    stop(&fixture);
}
END_TEST

START_TEST(test_names_in_explicit_mode)
{
    struct fixture fixture = start(AD_CONTROL_EXPLICIT, 1);
    scratch_folder(&scratch, "m");
    await_model(fixture.repository, "m");
    scratch_check_acquire(fixture.repository, "m", NULL, AD_UNAVAILABLE,
                          "Request for model 'm' cannot be served: it is not loaded");
    stop(&fixture);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_commands,
        test_modes,
        test_full_and_stopped,
        test_not_stopped_in_time,
        test_stop_among_submits,
        test_polling,
        test_names_in_explicit_mode,
    };
    Suite *suite = suite_create("loader");
    TCase *all = tcase_create("loader");
    tcase_set_timeout(all, 30);
    tcase_add_checked_fixture(all, set_up, tear_down);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tcase_add_test(all, tests[i]);
    }
    suite_add_tcase(suite, all);
    return support_run(suite);
}
