/* main.c - what the daemon is asked to do, and the order of its start.
 *
 * Runs on the main thread, which waits for signals while the I/O threads and workers
 * serve. Exit status: 0 after a clean stop, 1 when it could not start or stop cleanly,
 * 2 for bad options. */
#include "attention.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/error.h"
#include "base/memory_limit.h"
#include "base/options_table.h"
#include "base/secrets.h"
#include "base/utf8.h"
#include "base/words.h"
#include "confine.h"
#include "daemon.h"
#include "http/probe.h"
#include "signals.h"

#include <limits.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define LARGE_MEMORY (4 << 20)
#define KEPT_MEMORY (64 << 20)
#define HEALTH_PATIENCE_NS (3 * NS_PER_S)

void ad_daemon_log_failure(const struct daemon *daemon, const char *what,
                           const struct ad_error *error)
{
    const struct ad_log_field reason = ad_log_text("error", error->message);
    ad_log_write(&daemon->log, AD_LOG_ERROR, what, &reason, 1);
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

static enum ad_status open_repository(struct daemon *daemon, enum ad_control_mode mode,
                                      struct ad_error *error)
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
    const struct ad_repository_config config = {.root = daemon->options.model_repository,
                                                .name = daemon->options.model_name,
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

/* Where no repository is named, it is that of the demo models. */
static enum ad_status find_repository(struct ad_options *options, struct ad_error *error)
{
    char demo[PATH_MAX];
    if (options->model_repository) {
        return AD_OK;
    }
    enum ad_status status = find_demo_models(demo, error);
    if (status) {
        return status;
    }
    options->model_repository = strdup(demo);
    return options->model_repository ? AD_OK
                                     : ad_fail(error, AD_INTERNAL, "out of memory");
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
        options,         &daemon->log,   daemon->log_control, daemon->repository,
        daemon->loader,  daemon->queue,  daemon->sequences,   daemon->tracer,
        daemon->regions, &daemon->passed};
    return ad_server_start(&config, &daemon->server, error);
}

/* What is loaded later would need files and memory that are out of reach then. Its threads would never
 * get work: the workers are the parallelism. */
static void load_blas(void)
{
    (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
    (void)attn_blas_name();
}

static enum ad_status start(struct daemon *daemon, struct ad_error *error)
{
    raise_file_limit();
    ad_memory_share(&daemon->options, ad_memory_limit("/proc", "/sys/fs/cgroup"));
    enum ad_status status = ad_log_control_create(&daemon->log, daemon->options.log_dir,
                                                  &daemon->log_control, error);
    if (!status) {
        status = find_repository(&daemon->options, error);
    }
    if (!status) {
        load_blas();
        status = ad_confine_files(daemon, error);
    }
    if (!status) {
        status = create_sequences(daemon, error);
    }
    if (!status) {
        /* it may take minutes, and nobody is served yet */
        ad_signals_let_end();
        status = open_repository(daemon, control_mode(&daemon->options), error);
        ad_signals_block();
    }
    if (!status) {
        status = start_workers(daemon, error);
    }
    if (!status) {
        status = start_server(daemon, error);
    }
    return status ? status : ad_confine_calls(daemon, error);
}

static void log_started(const struct daemon *daemon)
{
    const int64_t port = ad_server_port(daemon->server);
    struct ad_log_field fields[7];
    size_t n = 0;
    fields[n++] = ad_log_text("version", attn_version());
    fields[n++] = ad_log_text("address", ad_server_address(daemon->server));
    if (port != 0) { /* else it is a unix socket */
        fields[n++] = ad_log_number("port", port);
    }
    fields[n++] = ad_log_text("repository", ad_repository_root(daemon->repository));
    fields[n++] = ad_log_number("workers", (int64_t)daemon->n_workers);
    fields[n++] = ad_log_text("kernels", attn_kernels_name());
    fields[n++] = ad_log_text("blas", attn_blas_name());
    ad_log_write(&daemon->log, AD_LOG_INFO, "started", fields, n);
}

/* ---- what actions print ----------------------------------------------------- */

/* One line for a terminal, which names from outside must not steer. */
__attribute__((format(printf, 2, 3))) static void print_line(FILE *to, const char *format,
                                                             ...)
{
    char *line = NULL;
    va_list arguments;
    va_start(arguments, format);
    int n = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (n < 0) {
        return;
    }
    ad_utf8_make_printable(line);
    fprintf(to, "%s\n", line);
    free(line);
}

/* ---- actions --------------------------------------------------------------- */

static int fail_start(struct daemon *daemon, const struct ad_error *error)
{
    char status[sizeof error->message + 32];
    snprintf(status, sizeof status, "cannot start: %s", error->message);
    ad_service_manager_status(&daemon->manager, status);
    ad_daemon_log_failure(daemon, "cannot start", error);
    return EXIT_FAILURE;
}

static int serve(struct daemon *daemon)
{
    log_started(daemon);
    int signal_number = ad_daemon_tend(daemon);
    ad_daemon_drain(daemon, signal_number);
    const struct ad_log_field name = ad_log_text("signal", strsignal(signal_number));
    ad_log_write(&daemon->log, AD_LOG_INFO, "stopping", &name, 1);
    return EXIT_SUCCESS;
}

static int run(struct daemon *daemon)
{
    struct ad_error error = {.status = AD_OK};
    ad_signals_block();
    /* First: whatever is opened before could lie where a socket should have been passed. */
    enum ad_status status = ad_passed_take(&daemon->passed, &error);
    ad_service_manager_init(&daemon->manager, &daemon->log);
    if (!status) {
        status = start(daemon, &error);
    }
    int result = status ? fail_start(daemon, &error) : serve(daemon);
    ad_daemon_stop(daemon);
    if (result == EXIT_SUCCESS) {
        ad_log_write(&daemon->log, AD_LOG_INFO, "stopped", NULL, 0);
    }
    ad_passed_reset(&daemon->passed);
    ad_service_manager_reset(&daemon->manager);
    ad_log_control_free(daemon->log_control);
    return result;
}

/* Neither the model repository nor the log is opened: another process has them. */
static int check_health(const struct daemon *daemon)
{
    struct ad_error error = {.status = AD_OK};
    struct ad_probe probe;
    unsigned code = 0;
    if (ad_probe_find(&daemon->options, &probe, &error) != AD_OK) {
        print_line(stderr, "attentiond: %s", error.message);
        return 2;
    }
    int64_t deadline_ns = ad_clock_now_ns() + HEALTH_PATIENCE_NS;
    if (ad_probe_get(&probe, "/v2/health/ready", deadline_ns, &code, &error) != AD_OK) {
        print_line(stdout, "not ready: %s", error.message);
        return EXIT_FAILURE;
    }
    if (code != 200) {
        print_line(stdout, "not ready: the answer was status %u", code);
        return EXIT_FAILURE;
    }
    puts("ready");
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
            print_line(stdout, "model %s: %s", model->name, model->reason);
            n++;
        }
        for (size_t j = 0; j < model->n_versions; j++) {
            if (model->versions[j].reason) {
                print_line(stdout, "model %s version %s: %s", model->name,
                           model->versions[j].text, model->versions[j].reason);
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
        find_repository(&daemon->options, &error) != AD_OK ||
        open_repository(daemon, AD_CONTROL_NONE, &error) != AD_OK ||
        ad_repository_view(daemon->repository, NULL, &view, &error) != AD_OK) {
        print_line(stdout, "%s", error.message);
        ad_repository_free(daemon->repository);
        return EXIT_FAILURE;
    }
    size_t n_faults = print_faults(&view);
    if (view.n_models == 0 && control_mode(&daemon->options) == AD_CONTROL_NONE) {
        print_line(stdout, "%s: no model: no config.json there or in a folder of it",
                   ad_repository_root(daemon->repository));
        n_faults++;
    }
    if (n_faults == 0) {
        print_line(stdout, "OK: %zu models in %s", view.n_models,
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
        print_line(stdout, "attentiond %s", attn_version());
        return EXIT_SUCCESS;
    case AD_CHECK_CONFIG:
        return check_config(daemon);
    case AD_HEALTH_CHECK:
        return check_health(daemon);
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
        print_line(stderr, "attentiond: %s", error.message);
        return 2;
    }
    if (daemon.options.api_keys || daemon.options.tls_key) {
        ad_secrets_guard();
    }
    daemon.log = ad_options_log(&daemon.options, STDERR_FILENO);
    int status = act(&daemon);
    ad_options_reset(&daemon.options);
    return status;
}
