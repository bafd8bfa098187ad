/* loader.c - run commands on the repository, one after the other.
 *
 * Loading takes seconds where a model is large, so it has a thread of its own: neither I/O threads
 * nor workers ever wait for a file. The lock guards the list and the flag, and is held with no other;
 * commands run and answer outside it. */
#include "model/loader.h"

#include "base/clock.h"
#include "base/cond.h"
#include "model/table.h"

#include <assert.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)
#define TRIM_DELAY_NS NS_PER_S

struct ad_loader {
    struct ad_repository *repository; /* immutable, as are the next three */
    int64_t poll_ns;                  /* 0: the disk is not looked at by itself */
    const struct ad_log *log;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t
        changed; /* a command came, the stop, or the end; of the monotonic clock */
    struct ad_command *first; /* guarded by lock, as are the next three */
    struct ad_command **last; /* where the next command is linked */
    size_t n_waiting;
    bool stopping;
    bool ended; /* the thread has done its last */
};

/* ---- commands -------------------------------------------------------------------------------- */

struct ad_command *ad_command_create(enum ad_command_kind kind)
{
    struct ad_command *command = calloc(1, sizeof *command);
    if (command) {
        command->kind = kind;
    }
    return command;
}

void ad_command_free(struct ad_command *command)
{
    if (!command) {
        return;
    }
    for (size_t i = 0; i < command->n_files; i++) {
        free(command->files[i].path);
        free(command->files[i].bytes);
    }
    free(command->files);
    free(command->config);
    free(command->model);
    free(command);
}

static void answer(struct ad_command *command)
{
    if (command->on_done) {
        command->on_done(command);
    } else {
        ad_command_free(command);
    }
}

static void log_unreadable(const struct ad_log *log, const struct ad_error *error)
{
    const struct ad_log_field field = ad_log_text("error", error->message);
    ad_log_write(log, AD_LOG_WARNING, "model repository cannot be read", &field, 1);
}

static void run(struct ad_loader *loader, struct ad_command *command)
{
    struct ad_repository *repository = loader->repository;
    struct ad_error *error = &command->error;
    enum ad_status status = AD_OK;
    switch (command->kind) {
    case AD_COMMAND_LOAD:
        status = ad_repository_load(repository, command->model, command->config,
                                    command->n_config, command->files, command->n_files,
                                    error);
        break;
    case AD_COMMAND_UNLOAD:
        status = ad_repository_unload(repository, command->model, error);
        break;
    case AD_COMMAND_RESCAN:
        status = ad_repository_rescan(repository, command->everything, error);
        if (status) {
            log_unreadable(loader->log, error);
        }
        break;
    }
    assert(status == error->status); /* which is what the asker sees */
    answer(command);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Wait until there is something to do, at most until due_ns (0: for ever). Under the lock. */
static void wait_for(struct ad_loader *loader, int64_t due_ns)
{
    bool in_time = true;
    while (!loader->first && !loader->stopping && in_time) {
        if (due_ns > 0) {
            in_time = ad_cond_wait_until(&loader->changed, &loader->lock, due_ns);
        } else {
            pthread_cond_wait(&loader->changed, &loader->lock);
        }
    }
}

/* The next command, or NULL: it is time to look at the disk, or to stop. */
static struct ad_command *take(struct ad_loader *loader, int64_t due_ns, bool *stopping)
{
    pthread_mutex_lock(&loader->lock);
    wait_for(loader, due_ns);
    struct ad_command *command = loader->stopping ? NULL : loader->first;
    if (command) {
        loader->first = command->next;
        loader->last = loader->first ? loader->last : &loader->first;
        loader->n_waiting--;
        command->next = NULL;
    }
    *stopping = loader->stopping;
    pthread_mutex_unlock(&loader->lock);
    return command;
}

static void look(struct ad_loader *loader)
{
    struct ad_error error = {.status = AD_OK};
    if (ad_repository_rescan(loader->repository, false, &error)) {
        log_unreadable(loader->log, &error);
    }
}

/* What the thread does by itself, and when. */
struct agenda {
    int64_t look_ns;  /* 0: never */
    int64_t trim_ns;  /* 0: there is no need */
    size_t n_retired; /* versions that had been retired when trim_ns was set last */
};

static int64_t next_look(const struct ad_loader *loader)
{
    return loader->poll_ns > 0 ? ad_clock_now_ns() + loader->poll_ns : 0;
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns == 0 || (b_ns > 0 && b_ns < a_ns) ? b_ns : a_ns;
}

/* Freed memory stays with the process until it is asked for. Not at once: the last requests of a
 * version that was replaced end a moment later, and the next load may want it again. */
static void plan_trim(const struct ad_loader *loader, struct agenda *agenda)
{
    if (loader->repository->n_retired != agenda->n_retired) {
        agenda->n_retired = loader->repository->n_retired;
        agenda->trim_ns = ad_clock_now_ns() + TRIM_DELAY_NS;
    }
}

static void *run_all(void *argument)
{
    struct ad_loader *loader = argument;
    /* what the start has read and freed is given back too */
    struct agenda agenda = {next_look(loader), ad_clock_now_ns() + TRIM_DELAY_NS,
                            loader->repository->n_retired};
    bool stopping = false;
    while (!stopping) {
        struct ad_command *command =
            take(loader, earlier(agenda.look_ns, agenda.trim_ns), &stopping);
        if (command) {
            run(loader, command);
        }
        /* also when commands keep coming */
        if (!stopping && agenda.look_ns > 0 && ad_clock_now_ns() >= agenda.look_ns) {
            look(loader);
            agenda.look_ns = next_look(loader);
        }
        plan_trim(loader, &agenda);
        if (agenda.trim_ns > 0 && ad_clock_now_ns() >= agenda.trim_ns) {
            (void)malloc_trim(0);
            agenda.trim_ns = 0;
        }
    }
    pthread_mutex_lock(&loader->lock);
    loader->ended = true;
    pthread_cond_signal(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* ---- start and stop -------------------------------------------------------------------------- */

static void reset(struct ad_loader *loader)
{
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->lock);
    free(loader);
}

void ad_loader_free(struct ad_loader *loader)
{
    if (loader) {
        reset(loader);
    }
}

enum ad_status ad_loader_start(struct ad_repository *repository, uint64_t poll_seconds,
                               const struct ad_log *log, struct ad_loader **loader,
                               struct ad_error *error)
{
    struct ad_loader *created = calloc(1, sizeof *created);
    if (!created || pthread_mutex_init(&created->lock, NULL) != 0) {
        free(created);
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    if (ad_cond_init(&created->changed) != 0) {
        pthread_mutex_destroy(&created->lock);
        free(created);
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    created->repository = repository;
    created->log = log;
    created->last = &created->first;
    if (ad_repository_mode(repository) != AD_CONTROL_NONE &&
        __builtin_mul_overflow(poll_seconds, NS_PER_S, &created->poll_ns)) {
        created->poll_ns = 0; /* in centuries */
    }
    if (pthread_create(&created->thread, NULL, run_all, created) != 0) {
        reset(created);
        return ad_fail(error, AD_INTERNAL, "the loader's thread cannot be started");
    }
    *loader = created;
    return AD_OK;
}

static enum ad_status check_mode(const struct ad_loader *loader,
                                 const struct ad_command *command, struct ad_error *error)
{
    if (command->kind == AD_COMMAND_RESCAN) {
        return AD_OK;
    }
    switch (ad_repository_mode(loader->repository)) {
    case AD_CONTROL_NONE:
        return ad_fail(error, AD_UNAVAILABLE,
                       "explicit model load / unload is not allowed: it needs "
                       "--model-control-mode=explicit");
    case AD_CONTROL_POLL:
        return ad_fail(error, AD_UNAVAILABLE,
                       "explicit model load / unload is not allowed if polling is "
                       "enabled");
    case AD_CONTROL_EXPLICIT:
        break;
    }
    return AD_OK;
}

enum ad_status ad_loader_submit(struct ad_loader *loader, struct ad_command **command,
                                struct ad_error *error)
{
    enum ad_status status = check_mode(loader, *command, error);
    if (status) {
        return status;
    }
    pthread_mutex_lock(&loader->lock);
    const bool stopping = loader->stopping;
    const bool full = loader->n_waiting >= AD_LOADER_MAX_WAITING;
    if (!stopping && !full) {
        (*command)->next = NULL;
        *loader->last = *command;
        loader->last = &(*command)->next;
        loader->n_waiting++;
        *command = NULL; /* before it can be answered and freed */
        pthread_cond_signal(&loader->changed);
    }
    pthread_mutex_unlock(&loader->lock);
    if (stopping) {
        return ad_fail(error, AD_UNAVAILABLE, "the server is stopping");
    }
    return !full
               ? AD_OK
               : ad_fail(error, AD_UNAVAILABLE, "%d model control requests wait already",
                         AD_LOADER_MAX_WAITING);
}

/* What waits, taken off the list; from here on nothing more comes. */
static struct ad_command *close_list(struct ad_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    struct ad_command *waiting = loader->first;
    loader->first = NULL;
    loader->last = &loader->first;
    loader->n_waiting = 0;
    loader->stopping = true;
    pthread_cond_signal(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
    return waiting;
}

static bool wait_ended(struct ad_loader *loader, int64_t deadline_ns)
{
    bool in_time = true;
    pthread_mutex_lock(&loader->lock);
    while (!loader->ended && in_time) {
        in_time = ad_cond_wait_until(&loader->changed, &loader->lock, deadline_ns);
    }
    const bool ended = loader->ended;
    pthread_mutex_unlock(&loader->lock);
    return ended;
}

bool ad_loader_stop(struct ad_loader *loader, int64_t deadline_ns)
{
    if (!loader) {
        return true;
    }
    struct ad_command *waiting = close_list(loader);
    while (waiting) {
        struct ad_command *command = waiting;
        waiting = command->next;
        command->next = NULL;
        ad_fail(&command->error, AD_UNAVAILABLE, "the server is stopping");
        answer(command);
    }
    ad_repository_abandon(loader->repository);
    if (!wait_ended(loader, deadline_ns)) {
        return false;
    }
    pthread_join(loader->thread, NULL);
    return true;
}
