/* options.h - every option of the daemon, out of one table.
 *
 * A value comes from, later ones winning: the table's default, the file named by --config (JSON
 * object, keys are option names), the environment (ATTENTIOND_HTTP_PORT for --http-port), the
 * command line (--http-port 8000 or --http-port=8000; a boolean may stand alone). The table also
 * prints --help, so nothing is listed twice. Variables that Kubernetes makes of a service's name
 * (ATTENTIOND_SERVICE_HOST, ATTENTIOND_PORT=tcp://...) are no options and are passed over. In a file
 * null stands for the absence of a text. */
#ifndef AD_BASE_OPTIONS_H
#define AD_BASE_OPTIONS_H

#include "base/error.h"
#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ad_options_action {
    AD_RUN,
    AD_SHOW_HELP,
    AD_SHOW_VERSION,
    AD_CHECK_CONFIG,
    AD_HEALTH_CHECK
};

/* Immutable after ad_options_load. Strings are owned. */
struct ad_options {
    enum ad_options_action action;
    char *config;                  /* --config FILE, NULL: none */
    char *model_repository;        /* --model-repository DIR, NULL: the demo models */
    char *model_name;              /* --model-name, NULL: by their folders */
    char *model_control_mode;      /* --model-control-mode none|poll|explicit */
    char *load_model;              /* --load-model: names parted by commas; NULL: none */
    uint64_t repository_poll_secs; /* --repository-poll-secs */
    bool strict_readiness;         /* --strict-readiness */
    char *http_address;            /* --http-address, 127.0.0.1; parted by commas */
    uint64_t http_port;         /* --http-port, 8000; 0: any free one, which is logged */
    uint64_t http_thread_count; /* --http-thread-count: I/O threads */
    uint64_t http_max_input_size; /* --http-max-input-size: bytes of a request body */
    uint64_t
        http_max_output_size; /* --http-max-output-size: bytes of all outputs of a request */
    uint64_t http_max_connections; /* --http-max-connections */
    uint64_t http_idle_timeout;    /* --http-idle-timeout: seconds */
    char *http_unix_socket;        /* --http-unix-socket: PATH, NULL: none */
    char *http_unix_socket_mode;   /* --http-unix-socket-mode: octal digits */
    char *http_admin_address;  /* --http-admin-address: NULL: all routes are everywhere */
    uint64_t http_admin_port;  /* --http-admin-port: of that listener */
    char *tls_certificate;     /* --tls-certificate: FILE, NULL: plain HTTP */
    char *tls_key;             /* --tls-key: FILE */
    char *tls_minimum_version; /* --tls-minimum-version: 1.2|1.3 */
    char *tls_client_ca; /* --tls-client-ca: FILE, NULL: clients need no certificate */
    char *api_keys;      /* --api-keys: FILE, NULL: no keys are needed */
    char *cors_allow_origins; /* --cors-allow-origins: NULL: none */
    char *trusted_proxies;    /* --trusted-proxies: NULL: none */
    uint64_t
        http_max_header_size; /* --http-max-header-size: bytes of request line and headers */
    uint64_t
        http_max_connections_per_address; /* --http-max-connections-per-address: 0: no limit */
    uint64_t
        http_max_requests_per_connection; /* --http-max-requests-per-connection: 0: no limit */
    uint64_t http_header_timeout;         /* --http-header-timeout: seconds */
    uint64_t http_body_timeout;           /* --http-body-timeout: seconds */
    uint64_t http_min_rate;               /* --http-min-rate: bytes per second */
    uint64_t
        http_compression_level; /* --http-compression-level: 0: replies are not compressed */
    bool allow_client_shm;      /* --allow-client-shm */
    uint64_t workers;           /* --workers; 0: as many as processors are available */
    uint64_t queue_size;   /* --queue-size: requests waiting for one version of a model */
    uint64_t queue_memory; /* --queue-memory: bytes of all request bodies */
    uint64_t sequence_max; /* --sequence-max */
    uint64_t sequence_memory;       /* --sequence-memory: bytes that sequences keep */
    uint64_t sequence_idle_timeout; /* --sequence-idle-timeout-secs */
    uint64_t drain_seconds; /* --drain-seconds: to serve on after a signal to stop */
    uint64_t exit_timeout;  /* --exit-timeout-secs: seconds to finish what runs at stop */
    char *log_level;        /* --log-level error|warning|info|debug */
    char *log_format;       /* --log-format text|json */
    char *log_dir;          /* --log-dir DIR, NULL: clients choose no log file */
    char *trace_file;       /* --trace-file FILE, NULL: nothing is traced */
    uint64_t trace_rate;    /* --trace-rate: one request in so many; 0: none */
    bool metrics_triton;    /* --metrics-triton: Triton's names in /metrics too */
    char *sandbox;          /* --sandbox auto|off|require */
};

/* Fill *options. environment is a NULL-terminated list of NAME=value. AD_INVALID: an unknown option
 * or key, a bad value or range; the message names where it came from (file and key path with line
 * and column for a syntax error, variable, or argument), what was expected and what came. On failure
 * *options is empty. For --help and --version neither environment nor file are looked at. */
enum ad_status ad_options_load(struct ad_options *options, int argc, char *const *argv,
                               char *const *environment,
                               struct ad_error *error) AD_MUST_CHECK;

void ad_options_reset(struct ad_options *options);

/* The text of --help. NULL when out of memory; free() it. */
char *ad_options_help(void);

/* The log that the options ask for, on fd. */
struct ad_log ad_options_log(const struct ad_options *options, int fd);

#endif
