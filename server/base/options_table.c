/* options_table.c - every option of the daemon, one row each, and how a row is found and named.
 * Constant data and pure functions; any thread. */
#include "base/options_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LONGEST_NAME 40

const char *const ad_log_level_words[] = {[AD_LOG_ERROR] = "error",
                                          [AD_LOG_WARNING] = "warning",
                                          [AD_LOG_INFO] = "info",
                                          [AD_LOG_DEBUG] = "debug",
                                          NULL};
const char *const ad_log_format_words[] = {
    [AD_LOG_TEXT] = "text", [AD_LOG_JSON] = "json", NULL};

const char *const ad_control_mode_words[] = {"none", "poll", "explicit", NULL};

#define FIELD(name) .offset = offsetof(struct ad_options, name)

const struct ad_option ad_option_table[AD_OPTION_COUNT] = {
    {.name = "config",
     .type = AD_OPTION_TEXT,
     .lowest = AD_FROM_ENVIRONMENT,
     FIELD(config),
     .value_name = "FILE",
     .help =
         "read options from this file: a JSON object whose keys are the names of this "
         "list without their dashes"},
    {.name = "model-repository",
     .type = AD_OPTION_TEXT,
     .lowest = AD_FROM_FILE,
     FIELD(model_repository),
     .value_name = "DIR",
     .help = "serve the models below this folder; without it, the demo models that come "
             "with the daemon"},
    {.name = "model-control-mode",
     .type = AD_OPTION_WORD,
     .lowest = AD_FROM_FILE,
     FIELD(model_control_mode),
     .text = "none",
     .words = ad_control_mode_words,
     .value_name = "MODE",
     .help = "none: serve what is there at the start; poll: look for changes every "
             "--repository-poll-secs; explicit: load and unload on request"},
    {.name = "load-model",
     .type = AD_OPTION_TEXT,
     .lowest = AD_FROM_FILE,
     FIELD(load_model),
     .value_name = "NAMES",
     .help =
         "in explicit mode, models to load at the start, parted by commas; * for all"},
    {.name = "repository-poll-secs",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(repository_poll_secs),
     .number = 15,
     .min = 1,
     .max = 86400,
     .unit = "seconds",
     .value_name = "SECS",
     .help = "how often to look at the model repository, but in mode none"},
    {.name = "strict-readiness",
     .type = AD_OPTION_BOOL,
     .lowest = AD_FROM_FILE,
     FIELD(strict_readiness),
     .help = "be ready only while every model of the repository is loaded"},
    {.name = "http-address",
     .type = AD_OPTION_TEXT,
     .lowest = AD_FROM_FILE,
     FIELD(http_address),
     .text = "127.0.0.1",
     .value_name = "ADDRESS",
     .help = "IPv4 or IPv6 address to listen on; 0.0.0.0 or :: for all"},
    {.name = "http-port",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(http_port),
     .number = 8000,
     .max = 65535,
     .value_name = "PORT",
     .help = "port to listen on; 0 picks a free one, which the log names"},
    {.name = "http-thread-count",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(http_thread_count),
     .number = 1,
     .min = 1,
     .max = 64,
     .value_name = "N",
     .help = "threads that read requests and send replies; they never compute"},
    {.name = "http-max-input-size",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(http_max_input_size),
     .number = 64 << 20,
     .min = 1024,
     .max = (uint64_t)1 << 40,
     .unit = "bytes",
     .value_name = "BYTES",
     .help = "refuse a longer request body before reading it"},
    {.name = "http-max-output-size",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(http_max_output_size),
     .number = 256 << 20,
     .min = 1024,
     .max = (uint64_t)1 << 40,
     .unit = "bytes",
     .value_name = "BYTES",
     .help = "refuse a request whose outputs together would be larger, before computing "
             "them"},
    {.name = "http-max-connections",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(http_max_connections),
     .number = 4096,
     .min = 1,
     .max = 1000000,
     .value_name = "N",
     .help = "connections open at the same time"},
    {.name = "http-idle-timeout",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(http_idle_timeout),
     .number = 75,
     .min = 1,
     .max = 86400,
     .unit = "seconds",
     .value_name = "SECONDS",
     .help = "close a connection on which nothing has moved for so long"},
    {.name = "workers",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(workers),
     .number = 0,
     .max = 1024,
     .value_name = "N",
     .help =
         "threads that compute; 0: as many as processors may be used, by affinity and "
         "cgroup quota"},
    {.name = "queue-size",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(queue_size),
     .number = 1024,
     .min = 1,
     .max = 1000000,
     .value_name = "N",
     .help =
         "requests that may wait for one model, unless its config.json says otherwise; "
         "one more is refused at once (503)"},
    {.name = "queue-memory",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(queue_memory),
     .number = 512 << 20,
     .min = 1 << 20,
     .max = (uint64_t)1 << 46,
     .unit = "bytes",
     .value_name = "BYTES",
     .help = "memory of all request bodies together; one model may hold as much as is "
             "left free, so at most half (503)"},
    {.name = "sequence-max",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(sequence_max),
     .number = 1024,
     .min = 1,
     .max = 1000000,
     .value_name = "N",
     .help = "sequences whose keys and values are kept at the same time"},
    {.name = "sequence-memory",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(sequence_memory),
     .number = 1 << 30,
     .min = 1 << 20,
     .max = (uint64_t)1 << 46,
     .unit = "bytes",
     .value_name = "BYTES",
     .help = "memory of all keys and values that are kept for sequences"},
    {.name = "sequence-idle-timeout-secs",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(sequence_idle_timeout),
     .number = 60,
     .min = 1,
     .max = 86400,
     .unit = "seconds",
     .value_name = "SECONDS",
     .help = "forget a sequence that had no request for so long"},
    {.name = "exit-timeout-secs",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(exit_timeout),
     .number = 30,
     .max = 86400,
     .unit = "seconds",
     .value_name = "SECONDS",
     .help = "at a stop, wait so long for what runs; a second signal stops at once"},
    {.name = "log-level",
     .type = AD_OPTION_WORD,
     .lowest = AD_FROM_FILE,
     FIELD(log_level),
     .text = "info",
     .words = ad_log_level_words,
     .value_name = "LEVEL",
     .help = "write lines of this level and the more serious ones"},
    {.name = "log-format",
     .type = AD_OPTION_WORD,
     .lowest = AD_FROM_FILE,
     FIELD(log_format),
     .text = "text",
     .words = ad_log_format_words,
     .value_name = "FORMAT",
     .help = "how a log line looks on standard error"},
    {.name = "log-dir",
     .type = AD_OPTION_TEXT,
     .lowest = AD_FROM_FILE,
     FIELD(log_dir),
     .value_name = "DIR",
     .help = "let POST /v2/logging send the log to a file in this folder; without it, to "
             "none"},
    {.name = "trace-file",
     .type = AD_OPTION_TEXT,
     .lowest = AD_FROM_FILE,
     FIELD(trace_file),
     .value_name = "FILE",
     .help = "append the stages of requests to this file, as OTLP JSON, a line each"},
    {.name = "trace-rate",
     .type = AD_OPTION_NUMBER,
     .lowest = AD_FROM_FILE,
     FIELD(trace_rate),
     .number = 1,
     .max = UINT64_C(1000000000),
     .value_name = "N",
     .help = "trace one request in so many, and all whose traceparent is sampled; 0: "
             "those alone"},
    {.name = "metrics-triton",
     .type = AD_OPTION_BOOL,
     .lowest = AD_FROM_FILE,
     FIELD(metrics_triton),
     .number = 1,
     .help =
         "show the nv_inference_* metrics that Triton has beside our own; their names "
         "do not pass promtool check metrics"},
    {.name = "check-config",
     .type = AD_OPTION_ACTION,
     .lowest = AD_FROM_ARGUMENT,
     FIELD(action),
     .number = AD_CHECK_CONFIG,
     .help = "check all options, wherever they come from, and exit"},
    {.name = "version",
     .type = AD_OPTION_ACTION,
     .lowest = AD_FROM_ARGUMENT,
     FIELD(action),
     .number = AD_SHOW_VERSION,
     .help = "print the version and exit"},
    {.name = "help",
     .type = AD_OPTION_ACTION,
     .lowest = AD_FROM_ARGUMENT,
     FIELD(action),
     .number = AD_SHOW_HELP,
     .help = "print this text and exit"},
};

/* A character of an option's name in the environment. */
static char to_environment(char c)
{
    return c == '-' ? '_' : c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static char from_environment(char c)
{
    return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_named(const struct ad_option *option, const char *name, size_t n,
                     enum ad_option_source source)
{
    if (strlen(option->name) != n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char c = option->name[i];
        if (name[i] != (source == AD_FROM_ENVIRONMENT ? to_environment(c) : c)) {
            return false;
        }
    }
    return true;
}

const struct ad_option *ad_option_find(const char *name, size_t n,
                                       enum ad_option_source source)
{
    for (size_t i = 0; i < AD_OPTION_COUNT; i++) {
        if (is_named(&ad_option_table[i], name, n, source)) {
            return &ad_option_table[i];
        }
    }
    return NULL;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many letters have to be changed, added or left out to make b of a; case does not count, and
 * an underscore is a dash. n, the length of a, is at most LONGEST_NAME. */
static size_t distance(const char *a, size_t n, const char *b)
{
    size_t row[LONGEST_NAME + 1]; /* row[i]: from the first i letters of a */
    for (size_t i = 0; i <= n; i++) {
        row[i] = i;
    }
    for (size_t j = 0; b[j]; j++) {
        size_t diagonal = row[0];
        row[0] = j + 1;
        for (size_t i = 0; i < n; i++) {
            size_t replaced = diagonal + (from_environment(a[i]) != b[j]);
            diagonal = row[i + 1];
            row[i + 1] = least(replaced, 1 + least(row[i], diagonal));
        }
    }
    return row[n];
}

const struct ad_option *ad_option_nearest(const char *name, size_t n,
                                          enum ad_option_source source)
{
    if (n > LONGEST_NAME) {
        return NULL;
    }
    const struct ad_option *nearest = NULL;
    size_t best = n / 3 + 1; /* further away, it is another word */
    for (size_t i = 0; i < AD_OPTION_COUNT; i++) {
        const struct ad_option *option = &ad_option_table[i];
        if (source < option->lowest) {
            continue;
        }
        size_t found = distance(name, n, option->name);
        if (found < best) {
            best = found;
            nearest = option;
        }
    }
    return nearest;
}

void ad_option_spell(const struct ad_option *option, enum ad_option_source source,
                     char text[AD_OPTION_TEXT_SIZE])
{
    const char *prefix = source == AD_FROM_ENVIRONMENT ? AD_ENVIRONMENT_PREFIX
                         : source == AD_FROM_ARGUMENT  ? "--"
                                                       : "";
    snprintf(text, AD_OPTION_TEXT_SIZE, "%s%s", prefix, option->name);
    if (source == AD_FROM_ENVIRONMENT) {
        for (char *c = text; *c; c++) {
            *c = to_environment(*c);
        }
    }
}

void ad_option_list_words(const char *const *words, char text[AD_OPTION_TEXT_SIZE])
{
    text[0] = '\0';
    for (size_t i = 0; words[i]; i++) {
        size_t n = strlen(text);
        const char *joint = i == 0 ? "" : words[i + 1] ? ", " : " or ";
        snprintf(text + n, AD_OPTION_TEXT_SIZE - n, "%s%s", joint, words[i]);
    }
}

void ad_option_expected(const struct ad_option *option, char text[AD_OPTION_TEXT_SIZE])
{
    switch (option->type) {
    case AD_OPTION_ACTION:
        snprintf(text, AD_OPTION_TEXT_SIZE, "no value");
        return;
    case AD_OPTION_BOOL:
        snprintf(text, AD_OPTION_TEXT_SIZE, "true or false");
        return;
    case AD_OPTION_NUMBER:
        snprintf(text, AD_OPTION_TEXT_SIZE, "an integer %" PRIu64 "..%" PRIu64 "%s%s",
                 option->min, option->max, option->unit ? " of " : "",
                 option->unit ? option->unit : "");
        return;
    case AD_OPTION_TEXT:
        snprintf(text, AD_OPTION_TEXT_SIZE, "a text that is not empty");
        return;
    case AD_OPTION_WORD:
        ad_option_list_words(option->words, text);
        return;
    }
}

int ad_option_word_index(const char *const *words, const char *text)
{
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            return i;
        }
    }
    return -1;
}
