/* http_server.h - all of the daemon but its main: started once in this process, in front of the demo models,
 * and asked through unix sockets that have no file. */
#ifndef TESTS_FUZZ_HTTP_SERVER_H
#define TESTS_FUZZ_HTTP_SERVER_H

#include "base/clock.h"
#include "codec/serve.h"
#include "http/server.h"
#include "model/loader.h"
#include "sched/watch.h"
#include "unit/codec/fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define N_DOORS 2              /* one open to all, one for those with a key */
#define OBJECT_BYTES 512       /* of shared memory */
#define FAR_NS (INT64_MAX / 2) /* later than anything is kept */

/* What main has in struct daemon. */
struct http_server {
    struct ad_log log;
    struct ad_log_control *log_control;
    struct ad_sequences *sequences;
    struct ad_regions *regions;
    struct ad_repository *repository;
    struct ad_queue *queue;
    struct ad_watch *watch;
    struct ad_workers *workers;
    struct ad_loader *loader;
    struct ad_tracer *tracer;
    struct ad_serving serving;
    struct {
        struct ad_options options;
        struct sockaddr_un address;
        socklen_t n_address;
        struct ad_server *server;
    } doors[N_DOORS];
    char folder[40], object[64]; /* of shared memory */
};

static struct http_server http_server;

/* The keys: `key`, and `few` for one model. */
static const char http_keys[] =
    "{\"keys\":[{\"name\":\"a\",\"sha256\":"
    "\"2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683\"},"
    "{\"name\":\"b\",\"sha256\":"
    "\"fa95e5080882f52bd40ccab2dee9c88c4d1fad7ad1093f93a0edcd8fb42d2bee\","
    "\"models\":[\"routing_score\"]}]}";

static inline void http_options(size_t door, char *keys)
{
    char *arguments[] = {"attentiond",
                         "--http-thread-count=1",
                         "--http-max-input-size=65536",
                         "--http-max-output-size=65536",
                         "--http-max-requests-per-connection=8",
                         "--http-compression-level=1",
                         "--http-header-timeout=1",
                         "--http-body-timeout=1",
                         "--cors-allow-origins=http://a",
                         "--trusted-proxies=unix",
                         "--metrics-triton",
                         "--log-level=info",
                         door > 0 ? keys : NULL};
    struct ad_error error = {.status = AD_OK};
    char *environment[] = {NULL};
    int n = (int)(sizeof arguments / sizeof *arguments) - (door == 0);
    fixture_require(ad_options_load(&http_server.doors[door].options, n, arguments,
                                    environment, &error) == AD_OK,
                    error.message);
}

/* A socket that listens, at an address that the system chooses. */
static inline int http_listen(size_t door)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    socklen_t *n = &http_server.doors[door].n_address;
    *n = sizeof any;
    fixture_require(
        fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof any.sun_family) == 0 &&
            getsockname(fd, (struct sockaddr *)&http_server.doors[door].address, n) ==
                0 &&
            listen(fd, 64) == 0,
        "a socket");
    return fd;
}

static inline void http_open_door(size_t door)
{
    struct http_server *all = &http_server;
    struct ad_error error = {.status = AD_OK};
    struct ad_passed_socket socket = {http_listen(door), strdup(""), true};
    struct ad_passed passed = {&socket, 1};
    const struct ad_server_config config = {&all->doors[door].options,
                                            &all->log,
                                            all->log_control,
                                            all->repository,
                                            all->loader,
                                            all->queue,
                                            all->sequences,
                                            all->tracer,
                                            all->regions,
                                            &passed};
    fixture_require(ad_server_start(&config, &all->doors[door].server, &error) == AD_OK,
                    error.message);
    free(socket.name);
}

static inline void http_make_object(void)
{
    static const char bytes[OBJECT_BYTES];
    snprintf(http_server.folder, sizeof http_server.folder,
             "/dev/shm/attentiond-fuzz.XXXXXX");
    fixture_require(mkdtemp(http_server.folder) != NULL, "folder");
    snprintf(http_server.object, sizeof http_server.object, "%s/object",
             http_server.folder);
    int fd = open(http_server.object, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    fixture_require(fd >= 0 && write(fd, bytes, sizeof bytes) == OBJECT_BYTES, "object");
    close(fd);
    http_server.regions = ad_regions_create(http_server.folder);
    fixture_require(http_server.regions != NULL, "memory");
}

/* As server/stop.c does. */
static inline void http_stop(void)
{
    struct http_server *all = &http_server;
    for (size_t i = 0; i < N_DOORS; i++) {
        ad_server_quiesce(all->doors[i].server);
    }
    fixture_require(ad_loader_stop(all->loader, INT64_MAX), "the loader does not end");
    ad_queue_close(all->queue);
    fixture_require(
        ad_workers_join(all->workers, ad_clock_now_ns() + INT64_C(60000000000)),
        "the workers do not end");
    ad_watch_stop(all->watch);
    for (size_t i = 0; i < N_DOORS; i++) {
        ad_server_free(all->doors[i].server);
        ad_options_reset(&all->doors[i].options);
    }
    ad_loader_free(all->loader);
    ad_tracer_close(all->tracer);
    ad_workers_free(all->workers);
    ad_queue_free(all->queue);
    ad_sequences_free(all->sequences);
    ad_regions_free(all->regions);
    ad_repository_free(all->repository);
    ad_log_control_free(all->log_control);
    unlink(all->object);
    rmdir(all->folder);
}

/* As server/main.c does, but that what is logged and traced goes nowhere. */
static inline void http_start(void)
{
    struct http_server *all = &http_server;
    struct ad_error error = {.status = AD_OK};
    const struct ad_sequences_config sequences = {
        .max = 4, .max_bytes = 10000, .idle_ns = FAR_NS / 2};
    const struct ad_repository_config repository = {
        .root = "config/models", .mode = AD_CONTROL_NONE, .log = &all->log};
    const struct ad_stages stages = {&all->serving, ad_serve_decode, ad_serve_run};
    char keys[64];
    int file = memfd_create("keys", MFD_CLOEXEC);
    snprintf(keys, sizeof keys, "--api-keys=/proc/self/fd/%d", file);
    fixture_require(file >= 0 && write(file, http_keys, sizeof http_keys - 1) ==
                                     (ssize_t)sizeof http_keys - 1,
                    "keys");
    for (size_t i = 0; i < N_DOORS; i++) {
        http_options(i, keys);
    }
    all->log = ad_options_log(&all->doors[0].options, open("/dev/null", O_WRONLY));
    all->sequences = ad_sequences_create(&sequences);
    all->serving = (struct ad_serving){all->sequences};
    all->queue = ad_queue_create(64);
    http_make_object();
    fixture_require(
        all->sequences && all->queue &&
            ad_log_control_create(&all->log, NULL, &all->log_control, &error) == AD_OK &&
            ad_repository_open(&repository, &all->repository, &error) == AD_OK &&
            ad_watch_start(all->queue, all->sequences, &all->watch, &error) == AD_OK &&
            ad_workers_start(1, all->queue, &stages, &all->workers, &error) == AD_OK &&
            ad_loader_start(all->repository, 3600, &all->log, &all->loader, &error) ==
                AD_OK &&
            ad_tracer_open("/dev/null", 1, &all->log, &all->tracer, &error) == AD_OK,
        error.message);
    for (size_t i = 0; i < N_DOORS; i++) {
        http_open_door(i);
    }
    close(file);
    fixture_require(atexit(http_stop) == 0, "atexit");
}

/* Nothing that an input left is there for the next one. */
static inline void http_forget(void)
{
    const struct ad_log_change change = {
        AD_LOG_GIVES_INFO | AD_LOG_GIVES_WARNING | AD_LOG_GIVES_ERROR |
            AD_LOG_GIVES_VERBOSE_LEVEL | AD_LOG_GIVES_STYLE,
        {.info = true, .warning = true, .error = true}};
    ad_regions_unregister(http_server.regions, NULL);
    ad_sequences_sweep(http_server.sequences, FAR_NS + FAR_NS / 2);
    fixture_require(ad_log_control_change(http_server.log_control, &change, NULL) ==
                        AD_OK,
                    "the log's settings");
}

#endif
