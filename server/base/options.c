/* options.c - the options of a process, from all their sources. Read from the strongest source to
 * the weakest, because the command line says which file to read. Owner: main; one thread. */
#include "base/options.h"

#include "base/options_file.h"
#include "base/options_table.h"
#include "base/options_value.h"

#include <stdlib.h>
#include <string.h>

/* "--name", "--name=value" or "--name value"; *i is the last argument that was used. */
static enum ad_status take_argument(struct ad_options_reader *reader, int argc,
                                    char *const *argv, int *i)
{
    const char *argument = argv[*i];
    if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0') {
        char got[AD_OPTION_TEXT_SIZE];
        ad_option_show(argument, strlen(argument), got);
        return ad_fail(reader->error, AD_INVALID,
                       "expected an option such as --http-port=8000, got %s", got);
    }
    const char *name = argument + 2;
    size_t n = strcspn(name, "=");
    const struct ad_option *option;
    enum ad_status status = ad_option_look_up(reader, name, n, AD_FROM_ARGUMENT, &option);
    if (status != AD_OK) {
        return status;
    }
    if (name[n] == '=') {
        return ad_option_set(reader, option, AD_FROM_ARGUMENT, name + n + 1);
    }
    if (option->type == AD_OPTION_ACTION) {
        return ad_option_set_number(reader, option, AD_FROM_ARGUMENT, option->number, "");
    }
    if (option->type == AD_OPTION_BOOL) {
        return ad_option_set_number(reader, option, AD_FROM_ARGUMENT, 1, "");
    }
    if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0) {
        /* what begins with dashes is more likely the next option than a value */
        return ad_option_refuse(reader, option, AD_FROM_ARGUMENT, "nothing");
    }
    *i += 1;
    return ad_option_set(reader, option, AD_FROM_ARGUMENT, argv[*i]);
}

static enum ad_status take_arguments(struct ad_options_reader *reader, int argc,
                                     char *const *argv)
{
    for (int i = 1; i < argc; i++) {
        enum ad_status status = take_argument(reader, argc, argv, &i);
        if (status != AD_OK) {
            return status;
        }
    }
    return AD_OK;
}

/* Kubernetes describes each service of a namespace to every container in variables that begin with
 * the service's name: X_SERVICE_HOST, X_SERVICE_PORT, X_PORT=tcp://address:port, X_PORT_8000_TCP.
 * A service that is called as the daemon is must not keep it from starting. */
static bool is_service_link(const char *name, size_t n, const char *value)
{
    if (memmem(name, n, "_SERVICE_HOST", 13) || memmem(name, n, "_SERVICE_PORT", 13)) {
        return true;
    }
    const char *port = memmem(name, n, "_PORT", 5);
    if (!port) {
        return false;
    }
    const char *rest = port + 5;
    size_t n_rest = n - (size_t)(rest - name);
    return n_rest == 0 ? strstr(value, "://") != NULL
                       : n_rest > 1 && rest[0] == '_' && rest[1] >= '0' && rest[1] <= '9';
}

static enum ad_status take_environment(struct ad_options_reader *reader,
                                       char *const *environment)
{
    size_t n_prefix = strlen(AD_ENVIRONMENT_PREFIX);
    for (; *environment; environment++) {
        const char *variable = *environment;
        size_t n = strcspn(variable, "=");
        if (strncmp(variable, AD_ENVIRONMENT_PREFIX, n_prefix) != 0 ||
            variable[n] != '=' || is_service_link(variable, n, variable + n + 1)) {
            continue;
        }
        const struct ad_option *option;
        enum ad_status status = ad_option_look_up(
            reader, variable + n_prefix, n - n_prefix, AD_FROM_ENVIRONMENT, &option);
        if (status == AD_OK) {
            status = ad_option_set(reader, option, AD_FROM_ENVIRONMENT, variable + n + 1);
        }
        if (status != AD_OK) {
            return status;
        }
    }
    return AD_OK;
}

static enum ad_status take_all(struct ad_options_reader *reader, int argc,
                               char *const *argv, char *const *environment)
{
    enum ad_status status = take_arguments(reader, argc, argv);
    enum ad_options_action action = reader->options->action;
    bool shows = action == AD_SHOW_HELP || action == AD_SHOW_VERSION;
    /* --help has to work whatever the environment and the file hold */
    if (status == AD_OK && !shows) {
        status = take_environment(reader, environment);
        if (status == AD_OK && reader->options->config) {
            status = ad_options_read_file(reader, reader->options->config);
        }
    }
    return status == AD_OK ? ad_options_set_defaults(reader) : status;
}

enum ad_status ad_options_load(struct ad_options *options, int argc, char *const *argv,
                               char *const *environment, struct ad_error *error)
{
    struct ad_options_reader reader;
    ad_options_reader_init(&reader, options, error);
    enum ad_status status = take_all(&reader, argc, argv, environment);
    if (status != AD_OK) {
        ad_options_reset(options);
    }
    return status;
}

void ad_options_reset(struct ad_options *options)
{
    for (size_t i = 0; i < AD_OPTION_COUNT; i++) {
        const struct ad_option *option = &ad_option_table[i];
        if (option->type == AD_OPTION_TEXT || option->type == AD_OPTION_WORD) {
            free(*(char **)(void *)((char *)options + option->offset));
        }
    }
    memset(options, 0, sizeof *options);
}

struct ad_log ad_options_log(const struct ad_options *options, int fd)
{
    struct ad_log log = {.level = AD_LOG_INFO, .format = AD_LOG_TEXT, .fd = fd};
    if (options->log_level) {
        int level = ad_option_word_index(ad_log_level_words, options->log_level);
        log.level = level < 0 ? AD_LOG_INFO : level;
    }
    if (options->log_format) {
        int format = ad_option_word_index(ad_log_format_words, options->log_format);
        log.format = format < 0 ? AD_LOG_TEXT : format;
    }
    return log;
}
