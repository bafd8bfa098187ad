/* main.c - the order of start and stop, and the signals.
 *
 * Runs on the main thread, which waits for signals while the I/O threads and workers
 * serve. Exit status: 0 after a clean stop, 1 when it could not start or stop cleanly,
 * 2 for bad options. */
#include "attention.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/error.h"
#include "base/log.h"
#include "base/log_control.h"
#include "base/memory_limit.h"
#include "base/options.h"
#include "base/options_table.h"
#include "base/trace.h"
#include "base/words.h"
#include "codec/serve.h"
#include "http/server.h"
#include "model/loader.h"
#include "model/repository.h"
#include "sched/queue.h"
#include "sched/regions.h"
#include "sched/sequences.h"
#include "sched/watch.h"
#include "sched/workers.h"

#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define LARGE_MEMORY (4 << 20)
#define KEPT_MEMORY (64 << 20)
#define LAST_GRACE_NS NS_PER_S /* after the exit timeout, for what is about to end */

/* Everything that is started, in the order of its start. Owner: main. */
struct daemon {
    struct ad_options options;
    struct ad_log log;
    struct ad_log_control *log_control;
    struct ad_sequences *sequences;
    struct ad_regions *regions; /* NULL: shared memory is not offered */
    struct ad_repository *repository;
    struct ad_queue *queue;
    struct ad_watch *watch;
    struct ad_serving serving; /* for the workers */
    struct ad_workers *workers;
    size_t n_workers;
    struct ad_loader *loader;
    struct ad_tracer *tracer;
    struct ad_server *server;
};

/* ---- signals --------------------------------------------------------------- */

/* A library may have started threads before main could block the signals in them. One
 * that gets a signal of ours passes it to the main thread, whose id is the process's. */
static void pass_to_main(int signal_number)
{
    (void)syscall(SYS_tgkill, getpid(), getpid(), signal_number);
}

static void exit_at_once(int signal_number)
{
    (void)signal_number;
    _exit(EXIT_FAILURE);
}

static sigset_t awaited_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    return set;
}

static void set_handler(int signal_number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    (void)sigaction(signal_number, &action, NULL);
}

/* Before any thread starts: all of them inherit the mask. Blocked first, since main
 * must never run the handler: it would pass the signal to itself without end. */
static void block_signals(void)
{
    sigset_t set = awaited_signals();
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    set_handler(SIGPIPE, SIG_IGN);
    set_handler(SIGTERM, pass_to_main);
    set_handler(SIGINT, pass_to_main);
    set_handler(SIGHUP, pass_to_main);
}

static enum ad_status submit_rescan(struct daemon *daemon, struct ad_error *error)
{
    struct ad_command *command = ad_command_create(AD_COMMAND_RESCAN);
    if (!command) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    command->everything = true;
    enum ad_status status = ad_loader_submit(daemon->loader, &command, error);
    ad_command_free(command); /* NULL unless it was refused */
    return status;
}

static void log_failure(const struct daemon *daemon, const char *what,
                        const struct ad_error *error)
{
    const struct ad_log_field reason = ad_log_text("error", error->message);
    ad_log_write(&daemon->log, AD_LOG_ERROR, what, &reason, 1);
}

/* SIGHUP: every model that is loaded is loaded again, files that are written to are opened anew, and
 * certificates are read again. */
static void reload(struct daemon *daemon)
{
    struct ad_error error = {.status = AD_OK};
    if (ad_log_reopen(daemon->log_control, &error) != AD_OK) {
        log_failure(daemon, "cannot reopen the log", &error);
    }
    ad_error_clear(&error);
    ad_log_write(&daemon->log, AD_LOG_INFO, "reloading", NULL, 0);
    if (daemon->tracer && ad_tracer_reopen(daemon->tracer, &error) != AD_OK) {
        log_failure(daemon, "cannot reopen the trace file", &error);
    }
    ad_error_clear(&error);
    ad_server_reload(daemon->server);
    if (submit_rescan(daemon, &error) != AD_OK) {
        log_failure(daemon, "cannot reload", &error);
    }
}

/* Wait for a signal that stops the daemon. */
static int wait_for_stop(struct daemon *daemon)
{
    sigset_t set = awaited_signals();
    int signal_number = 0;
    while (sigwait(&set, &signal_number) != 0 || signal_number == SIGHUP) {
        reload(daemon);
    }
    return signal_number;
}

/* From here on a second SIGTERM or SIGINT ends the process, whatever it is doing. */
static void let_signals_kill(void)
{
    sigset_t set = awaited_signals();
    sigdelset(&set, SIGHUP);
    set_handler(SIGTERM, exit_at_once);
    set_handler(SIGINT, exit_at_once);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- start ----------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* The demo models: beside an installed program, or in the source tree of a built one. */
static enum ad_status find_demo_models(char path[PATH_MAX], struct ad_error *error)
{
    static const char *const places[] = {"../share/attentiond/models",
                                         "../../config/models"};
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash) {
        *slash = '\0';
    }
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        char place[2 * PATH_MAX];
        snprintf(place, sizeof place, "%s/%s", program, places[i]);
        if (realpath(place, path) && is_folder(path)) {
            return AD_OK;
        }
    }
    return ad_fail(error, AD_NOT_FOUND,
                   "no demo models beside the program (%s/%s or %s/%s): name a folder of "
                   "models with --model-repository",
                   program, places[0], program, places[1]);
}

/* A version serves no new request: what is kept of its sequences goes. */
static void on_retired(void *context, struct ad_version *version)
{
    const struct daemon *daemon = context;
    ad_sequences_retire(daemon->sequences, version);
}

/* The mode that the options ask for. */
static enum ad_control_mode control_mode(const struct ad_options *options)
{
    const int mode =
        ad_option_word_index(ad_control_mode_words, options->model_control_mode);
    return mode < 0 ? AD_CONTROL_NONE : (enum ad_control_mode)mode;
}

static enum ad_status open_root(struct daemon *daemon, const char *root,
                                enum ad_control_mode mode, struct ad_error *error)
{
    struct ad_words startup = {NULL, 0};
    if (daemon->options.load_model &&
        control_mode(&daemon->options) != AD_CONTROL_EXPLICIT) {
        return ad_fail(error, AD_INVALID,
                       "--load-model: needs --model-control-mode=explicit");
    }
    if (!ad_words_split(daemon->options.load_model, &startup)) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    const struct ad_repository_config config = {.root = root,
                                                .mode = mode,
                                                .startup = startup.items,
                                                .n_startup = startup.n,
                                                .log = &daemon->log,
                                                .on_retired = on_retired,
                                                .context = daemon};
    enum ad_status status = ad_repository_open(&config, &daemon->repository, error);
    ad_words_reset(&startup);
    return status;
}

static enum ad_status open_repository(struct daemon *daemon, enum ad_control_mode mode,
                                      struct ad_error *error)
{
    char demo[PATH_MAX];
    const char *root = daemon->options.model_repository;
    if (!root) {
        enum ad_status status = find_demo_models(demo, error);
        if (status) {
            return status;
        }
        root = demo;
    }
    return open_root(daemon, root, mode, error);
}

static enum ad_status create_sequences(struct daemon *daemon, struct ad_error *error)
{
    const struct ad_options *options = &daemon->options;
    const struct ad_sequences_config config = {
        .max = (size_t)options->sequence_max,
        .max_bytes = (size_t)options->sequence_memory,
        .idle_ns = (int64_t)options->sequence_idle_timeout * NS_PER_S};
    daemon->sequences = ad_sequences_create(&config);
    daemon->regions =
        options->allow_client_shm ? ad_regions_create(AD_REGIONS_FOLDER) : NULL;
    if (options->allow_client_shm && !daemon->regions) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    return daemon->sequences ? AD_OK : ad_fail(error, AD_INTERNAL, "out of memory");
}

/* A connection is a file: allow as many as the system lets us. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Whatever computes, and what feeds and watches it. */
static enum ad_status start_workers(struct daemon *daemon, struct ad_error *error)
{
    const struct ad_options *options = &daemon->options;
    daemon->queue = ad_queue_create((size_t)options->queue_size);
    if (!daemon->queue) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    enum ad_status status =
        ad_watch_start(daemon->queue, daemon->sequences, &daemon->watch, error);
    if (status) {
        return status;
    }
    daemon->n_workers = options->workers ? (size_t)options->workers
                                         : ad_cpus_available("/proc", "/sys/fs/cgroup");
    daemon->serving = (struct ad_serving){daemon->sequences};
    const struct ad_stages stages = {&daemon->serving, ad_serve_decode, ad_serve_run};
    return ad_workers_start(daemon->n_workers, daemon->queue, &stages, &daemon->workers,
                            error);
}

static enum ad_status start_server(struct daemon *daemon, struct ad_error *error)
{
    const struct ad_options *options = &daemon->options;
    enum ad_status status =
        ad_loader_start(daemon->repository, options->repository_poll_secs, &daemon->log,
                        &daemon->loader, error);
    if (!status && options->trace_file) {
        status = ad_tracer_open(options->trace_file, options->trace_rate, &daemon->log,
                                &daemon->tracer, error);
    }
    if (status) {
        return status;
    }
    const struct ad_server_config config = {
        options,        &daemon->log,  daemon->log_control, daemon->repository,
        daemon->loader, daemon->queue, daemon->sequences,   daemon->tracer,
        daemon->regions};
    return ad_server_start(&config, &daemon->server, error);
}

static enum ad_status start(struct daemon *daemon, struct ad_error *error)
{
    raise_file_limit();
    ad_memory_share(&daemon->options, ad_memory_limit("/proc", "/sys/fs/cgroup"));
    enum ad_status status = ad_log_control_create(&daemon->log, daemon->options.log_dir,
                                                  &daemon->log_control, error);
    if (!status) {
        status = create_sequences(daemon, error);
    }
    if (!status) {
        status = open_repository(daemon, control_mode(&daemon->options), error);
    }
    if (!status) {
        status = start_workers(daemon, error);
    }
    return status ? status : start_server(daemon, error);
}

static void log_started(const struct daemon *daemon)
{
    const struct ad_log_field fields[] = {
        ad_log_text("version", attn_version()),
        ad_log_text("address", daemon->options.http_address),
        ad_log_number("port", ad_server_port(daemon->server)),
        ad_log_text("repository", ad_repository_root(daemon->repository)),
        ad_log_number("workers", (int64_t)daemon->n_workers),
        ad_log_text("kernels", attn_kernels_name()),
        ad_log_text("blas", attn_blas_name()),
    };
    ad_log_write(&daemon->log, AD_LOG_INFO, "started", fields,
                 sizeof fields / sizeof fields[0]);
}

/* ---- stop ------------------------------------------------------------------ */

/* What still waits when the time is up is answered too. Their number. */
static size_t fail_waiting(struct ad_queue *queue)
{
    struct ad_requests waiting = {NULL, NULL, 0};
    struct ad_request *request = NULL;
    ad_queue_take_all(queue, &waiting);
    size_t n = waiting.n;
    while ((request = ad_requests_shift(&waiting)) != NULL) {
        ad_fail_code(&request->error, AD_UNAVAILABLE, "stopping",
                     "the server stopped before the request's turn came");
        ad_sequences_give(request, ad_clock_now_ns());
        request->on_done(request);
    }
    return n;
}

/* Let the workers finish within the exit timeout. False: some still compute. */
static bool drain(struct daemon *daemon)
{
    int64_t timeout_ns = (int64_t)daemon->options.exit_timeout * NS_PER_S;
    ad_queue_close(daemon->queue);
    if (!daemon->workers ||
        ad_workers_join(daemon->workers, ad_clock_now_ns() + timeout_ns)) {
        return true;
    }
    const struct ad_log_field failed =
        ad_log_number("refused", (int64_t)fail_waiting(daemon->queue));
    ad_log_write(&daemon->log, AD_LOG_WARNING, "exit timeout passed", &failed, 1);
    return ad_workers_join(daemon->workers, ad_clock_now_ns() + LAST_GRACE_NS);
}

/* Undo start, as far as it came. Does not return when a worker cannot be waited for:
 * it still uses what would be freed. */
static void stop(struct daemon *daemon)
{
    if (daemon->server) {
        ad_server_quiesce(daemon->server);
    }
    ad_loader_stop(daemon->loader);
    if (daemon->queue && !drain(daemon)) {
        ad_log_write(&daemon->log, AD_LOG_ERROR, "stopped with requests unfinished", NULL,
                     0);
        _exit(EXIT_FAILURE);
    }
    ad_watch_stop(daemon->watch);
    ad_server_free(daemon->server);
    ad_loader_free(daemon->loader); /* until here it was asked, and refused */
    ad_tracer_close(daemon->tracer);
    ad_workers_free(daemon->workers);
    ad_queue_free(daemon->queue);
    ad_sequences_free(daemon->sequences);
    ad_regions_free(daemon->regions);
    ad_repository_free(daemon->repository);
}

/* ---- actions --------------------------------------------------------------- */

static int run(struct daemon *daemon)
{
    struct ad_error error = {.status = AD_OK};
    block_signals();
    if (start(daemon, &error) != AD_OK) {
        log_failure(daemon, "cannot start", &error);
        stop(daemon);
        ad_log_control_free(daemon->log_control);
        return EXIT_FAILURE;
    }
    log_started(daemon);
    const struct ad_log_field name =
        ad_log_text("signal", strsignal(wait_for_stop(daemon)));
    let_signals_kill();
    ad_log_write(&daemon->log, AD_LOG_INFO, "stopping", &name, 1);
    stop(daemon);
    ad_log_write(&daemon->log, AD_LOG_INFO, "stopped", NULL, 0);
    ad_log_control_free(daemon->log_control);
    return EXIT_SUCCESS;
}

static int show_help(void)
{
    char *help = ad_options_help();
    int failed = !help || fputs(help, stdout) == EOF || fflush(stdout) != 0;
    free(help);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The reasons why parts of the repository cannot be served; their number. */
static size_t print_faults(const struct ad_view *view)
{
    size_t n = 0;
    for (size_t i = 0; i < view->n_models; i++) {
        const struct ad_view_model *model = &view->models[i];
        if (model->reason) {
            printf("model %s: %s\n", model->name, model->reason);
            n++;
        }
        for (size_t j = 0; j < model->n_versions; j++) {
            if (model->versions[j].reason) {
                printf("model %s version %s: %s\n", model->name, model->versions[j].text,
                       model->versions[j].reason);
                n++;
            }
        }
    }
    return n;
}

static int check_config(struct daemon *daemon)
{
    struct ad_error error = {.status = AD_OK};
    struct ad_view view;
    /* all of it is checked, whatever would be loaded */
    if (ad_server_check(&daemon->options, &error) != AD_OK ||
        open_repository(daemon, AD_CONTROL_NONE, &error) != AD_OK ||
        ad_repository_view(daemon->repository, NULL, &view, &error) != AD_OK) {
        printf("%s\n", error.message);
        ad_repository_free(daemon->repository);
        return EXIT_FAILURE;
    }
    size_t n_faults = print_faults(&view);
    if (n_faults == 0) {
        printf("OK: %zu models in %s\n", view.n_models,
               ad_repository_root(daemon->repository));
    }
    ad_view_reset(&view);
    ad_repository_free(daemon->repository);
    return n_faults == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int act(struct daemon *daemon)
{
    switch (daemon->options.action) {
    case AD_SHOW_HELP:
        return show_help();
    case AD_SHOW_VERSION:
        printf("attentiond %s\n", attn_version());
        return EXIT_SUCCESS;
    case AD_CHECK_CONFIG:
        return check_config(daemon);
    case AD_HEALTH_CHECK:
    case AD_RUN:
        break;
    }
    return run(daemon);
}

int main(int argc, char **argv)
{
    /* What is large goes back to the system when it is freed; the C library would keep ever larger
     * memory after the first. What is not is kept for the next request. */
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_MEMORY);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_MEMORY);
    struct daemon daemon = {.server = NULL};
    struct ad_error error = {.status = AD_OK};
    if (ad_options_load(&daemon.options, argc, argv, environ, &error) != AD_OK) {
        fprintf(stderr, "attentiond: %s\n", error.message);
        return 2;
    }
    daemon.log = ad_options_log(&daemon.options, STDERR_FILENO);
    int status = act(&daemon);
    ad_options_reset(&daemon.options);
    return status;
}
