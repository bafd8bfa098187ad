/* test_options.c - options of command line and environment: what is taken, which source wins, what
 * is refused and with which words; the text of --help. */
#include "base/options.h"
#include "base/options_table.h"
#include "unit/base/fail_allocation.h"
#include "unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 12

/* argv without the program, NULL-terminated, and the environment likewise. */
struct given {
    const char *arguments[MOST];
    const char *environment[MOST];
};

static enum ad_status load(struct ad_options *options, const struct given *given,
                           struct ad_error *error)
{
    char *argv[MOST + 2] = {strdup("attentiond")};
    char *environment[MOST + 1] = {NULL};
    int argc = 1;
    for (size_t i = 0; i < MOST && given->arguments[i]; i++) {
        argv[argc++] = strdup(given->arguments[i]);
    }
    for (size_t i = 0; i < MOST && given->environment[i]; i++) {
        environment[i] = strdup(given->environment[i]);
    }
    ad_error_clear(error);
    memset(options, 0xa5, sizeof *options); /* what was there before must not matter */
    enum ad_status status = ad_options_load(options, argc, argv, environment, error);
    for (int i = 0; i < argc; i++) {
        free(argv[i]);
    }
    for (size_t i = 0; i < MOST; i++) {
        free(environment[i]);
    }
    return status;
}

static struct ad_options loaded(const struct given *given)
{
    struct ad_options options;
    struct ad_error error;
    enum ad_status status = load(&options, given, &error);
    ck_assert_msg(status == AD_OK, "%s", error.message);
    return options;
}

START_TEST(test_table)
{
    for (size_t i = 0; i < AD_OPTION_COUNT; i++) {
        const struct ad_option *option = &ad_option_table[i];
        ck_assert_ptr_nonnull(option->name);
        ck_assert_ptr_nonnull(option->help);
        ck_assert(option->min <= option->max);
        ck_assert_ptr_eq(
            ad_option_find(option->name, strlen(option->name), AD_FROM_ARGUMENT), option);
        ck_assert_ptr_eq(
            ad_option_nearest(option->name, strlen(option->name), AD_FROM_ARGUMENT),
            option);
    }
}
END_TEST

START_TEST(test_defaults)
{
    struct ad_options options = loaded(&(struct given){{0}, {0}});
    ck_assert_int_eq(options.action, AD_RUN);
    ck_assert_ptr_null(options.config);
    ck_assert_ptr_null(options.model_repository);
    ck_assert_str_eq(options.model_control_mode, "none");
    ck_assert_ptr_null(options.load_model);
    ck_assert_uint_eq(options.repository_poll_secs, 15);
    ck_assert(!options.strict_readiness);
    ck_assert_str_eq(options.http_address, "127.0.0.1");
    ck_assert_uint_eq(options.http_port, 8000);
    ck_assert_uint_eq(options.http_thread_count, 1);
    ck_assert_uint_eq(options.http_max_input_size, 67108864);
    ck_assert_uint_eq(options.http_max_output_size, 0);
    ck_assert_uint_eq(options.http_max_connections, 4096);
    ck_assert_uint_eq(options.http_idle_timeout, 75);
    ck_assert_uint_eq(options.workers, 0);
    ck_assert_uint_eq(options.queue_size, 1024);
    ck_assert_uint_eq(options.exit_timeout, 30);
    ck_assert_str_eq(options.log_level, "info");
    ck_assert_str_eq(options.log_format, "text");
    ad_options_reset(&options);
    ad_options_reset(&options);
}
END_TEST

START_TEST(test_arguments)
{
    struct ad_options options = loaded(
        &(struct given){{"--model-repository", "/a b", "--http-port=0",
                         "--http-address=::", "--strict-readiness", "--log-level=debug",
                         "--http-max-input-size", "1024", "--workers", "1024"},
                        {0}});
    ck_assert_str_eq(options.model_repository, "/a b");
    ck_assert_uint_eq(options.http_port, 0);
    ck_assert_str_eq(options.http_address, "::");
    ck_assert(options.strict_readiness);
    ck_assert_str_eq(options.log_level, "debug");
    ck_assert_uint_eq(options.http_max_input_size, 1024);
    ck_assert_uint_eq(options.workers, 1024);
    ck_assert_uint_eq(options.queue_size, 1024);
    ad_options_reset(&options);
}
END_TEST

START_TEST(test_last_argument_wins)
{
    struct ad_options options = loaded(&(struct given){
        {"--http-port=1", "--http-address=a", "--strict-readiness", "--http-port", "2",
         "--http-address", "b", "--strict-readiness=false"},
        {0}});
    ck_assert_uint_eq(options.http_port, 2);
    ck_assert_str_eq(options.http_address, "b");
    ck_assert(!options.strict_readiness);
    ad_options_reset(&options);
}
END_TEST

START_TEST(test_environment)
{
    struct ad_options options = loaded(&(struct given){
        {"--http-port=2", "--log-format=json"},
        {"PATH=/bin", "ATTENTIOND_HTTP_PORT=3", "ATTENTIOND_STRICT_READINESS=true",
         "ATTENTIOND_HTTP_ADDRESS=a=b", "ATTENTIOND", "XATTENTIOND_FOO=1", "odd"}});
    ck_assert_uint_eq(options.http_port, 2);
    ck_assert(options.strict_readiness);
    ck_assert_str_eq(options.http_address, "a=b");
    ck_assert_str_eq(options.log_format, "json");
    ad_options_reset(&options);
}
END_TEST

/* What Kubernetes sets for services called attentiond and attentiond-http. */
START_TEST(test_service_links)
{
    struct ad_options options = loaded(&(struct given){
        {0},
        {"ATTENTIOND_SERVICE_HOST=10.0.0.1", "ATTENTIOND_SERVICE_PORT=8000",
         "ATTENTIOND_SERVICE_PORT_HTTP=8000", "ATTENTIOND_PORT=tcp://10.0.0.1:8000",
         "ATTENTIOND_PORT_8000_TCP=tcp://10.0.0.1:8000",
         "ATTENTIOND_PORT_8000_TCP_PROTO=tcp", "ATTENTIOND_PORT_8000_TCP_PORT=8000",
         "ATTENTIOND_PORT_8000_TCP_ADDR=10.0.0.1", "ATTENTIOND_HTTP_SERVICE_PORT=1",
         "ATTENTIOND_HTTP_PORT=tcp://10.0.0.1:8000",
         "ATTENTIOND_HTTP_PORT_8000_TCP_PORT=8000"}});
    ck_assert_uint_eq(options.http_port, 8000);
    ad_options_reset(&options);
}
END_TEST

START_TEST(test_actions)
{
    static const struct {
        struct given given;
        enum ad_options_action action;
    } cases[] = {
        {{{"--help"}, {0}}, AD_SHOW_HELP},
        {{{"--version"}, {0}}, AD_SHOW_VERSION},
        {{{"--check-config", "--http-port=1"}, {0}}, AD_CHECK_CONFIG},
        {{{"--check-config", "--help"}, {0}}, AD_SHOW_HELP},
        /* help is there when it is needed most */
        {{{"--help", "--config=/nonexistent"}, {"ATTENTIOND_X=1"}}, AD_SHOW_HELP},
        {{{"--version"}, {"ATTENTIOND_CONFIG=/nonexistent"}}, AD_SHOW_VERSION}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ad_options options = loaded(&cases[i].given);
        ck_assert_int_eq(options.action, cases[i].action);
        ad_options_reset(&options);
    }
}
END_TEST

struct refusal {
    struct given given;
    const char *message;
};

static const struct refusal refusals[] = {
    {{{"--http-prot=1"}, {0}}, "--http-prot: unknown option, did you mean --http-port?"},
    {{{"--HTTP_PORT=1"}, {0}}, "--HTTP_PORT: unknown option, did you mean --http-port?"},
    {{{"--modelrepository", "x"}, {0}},
     "--modelrepository: unknown option, did you mean --model-repository?"},
    {{{"--grpc-address=1"}, {0}},
     "--grpc-address: unknown option, did you mean --http-address?"},
    {{{"--frobnicate"}, {0}}, "--frobnicate: unknown option, see --help"},
    {{{"--=x"}, {0}}, "--: unknown option, see --help"},
    {{{"--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
      {0}},
     "--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: unknown option, "
     "see --help"},
    {{{"--"}, {0}}, "expected an option such as --http-port=8000, got '--'"},
    {{{"-h"}, {0}}, "expected an option such as --http-port=8000, got '-h'"},
    {{{"models"}, {0}}, "expected an option such as --http-port=8000, got 'models'"},
    {{{""}, {0}}, "expected an option such as --http-port=8000, got ''"},
    {{{"--strict-readiness", "true"}, {0}},
     "expected an option such as --http-port=8000, got 'true'"},
    {{{"--http-port"}, {0}}, "--http-port: expected an integer 0..65535, got nothing"},
    {{{"--http-port", "--help"}, {0}},
     "--http-port: expected an integer 0..65535, got nothing"},
    {{{"--http-port="}, {0}}, "--http-port: expected an integer 0..65535, got ''"},
    {{{"--http-port=65536"}, {0}},
     "--http-port: expected an integer 0..65535, got '65536'"},
    {{{"--http-port=-1"}, {0}}, "--http-port: expected an integer 0..65535, got '-1'"},
    {{{"--http-port=+1"}, {0}}, "--http-port: expected an integer 0..65535, got '+1'"},
    {{{"--http-port= 1"}, {0}}, "--http-port: expected an integer 0..65535, got ' 1'"},
    {{{"--http-port=1k"}, {0}}, "--http-port: expected an integer 0..65535, got '1k'"},
    {{{"--http-port=0x10"}, {0}},
     "--http-port: expected an integer 0..65535, got '0x10'"},
    {{{"--http-port=18446744073709551616"}, {0}},
     "--http-port: expected an integer 0..65535, got '18446744073709551616'"},
    {{{"--http-max-input-size=64M"}, {0}},
     "--http-max-input-size: expected an integer 1024..1099511627776 of bytes, got "
     "'64M'"},
    {{{"--http-max-input-size=1023"}, {0}},
     "--http-max-input-size: expected an integer 1024..1099511627776 of bytes, got "
     "'1023'"},
    {{{"--http-thread-count=0"}, {0}},
     "--http-thread-count: expected an integer 1..64, got '0'"},
    {{{"--workers=1025"}, {0}}, "--workers: expected an integer 0..1024, got '1025'"},
    {{{"--queue-size=0"}, {0}}, "--queue-size: expected an integer 1..1000000, got '0'"},
    {{{"--strict-readiness=yes"}, {0}},
     "--strict-readiness: expected true or false, got 'yes'"},
    {{{"--log-level=warn"}, {0}},
     "--log-level: expected error, warning, info or debug, got 'warn'"},
    {{{"--log-format="}, {0}}, "--log-format: expected text or json, got ''"},
    {{{"--http-address="}, {0}},
     "--http-address: expected a text that is not empty, got ''"},
    {{{"--help=1"}, {0}}, "--help: expected no value, got '1'"},
    {{{"--log-level=a\nb\xff"}, {0}},
     "--log-level: expected error, warning, info or debug, got 'a?b?'"},
    {{{0}, {"ATTENTIOND_HTTP_PROT=1"}},
     "ATTENTIOND_HTTP_PROT: unknown variable, did you mean ATTENTIOND_HTTP_PORT?"},
    {{{0}, {"ATTENTIOND_http_port=1"}},
     "ATTENTIOND_http_port: unknown variable, did you mean ATTENTIOND_HTTP_PORT?"},
    {{{0}, {"ATTENTIOND_PORT=8000"}}, "ATTENTIOND_PORT: unknown variable, see --help"},
    {{{0}, {"ATTENTIOND_=1"}}, "ATTENTIOND_: unknown variable, see --help"},
    {{{0}, {"ATTENTIOND_HELP=1"}}, "ATTENTIOND_HELP: cannot be given in the environment"},
    {{{0}, {"ATTENTIOND_WORKERS="}},
     "ATTENTIOND_WORKERS: expected an integer 0..1024, got ''"},
    /* a value that does not win is checked all the same */
    {{{"--workers=1"}, {"ATTENTIOND_WORKERS=many"}},
     "ATTENTIOND_WORKERS: expected an integer 0..1024, got 'many'"},
    {{{"--config=/nonexistent/a.json"}, {0}},
     "/nonexistent/a.json: cannot be opened: No such file or directory"},
    {{{0}, {"ATTENTIOND_CONFIG=/"}}, "/: cannot be read: Is a directory"},
};

START_TEST(test_refusal)
{
    struct ad_options options, empty;
    memset(&empty, 0, sizeof empty);
    struct ad_error error;
    ck_assert_int_eq(load(&options, &refusals[_i].given, &error), AD_INVALID);
    ck_assert_str_eq(error.message, refusals[_i].message);
    ck_assert_int_eq(options.action, AD_RUN);
    ck_assert_ptr_null(options.http_address);
    ad_options_reset(&options);
}
END_TEST

START_TEST(test_refused_without_record)
{
    struct ad_options options;
    char name[] = "attentiond", argument[] = "--x";
    char *argv[] = {name, argument, NULL}, *environment[] = {NULL};
    ck_assert_int_eq(ad_options_load(&options, 2, argv, environment, NULL), AD_INVALID);
    /* a program may be started without even a name */
    ck_assert_int_eq(ad_options_load(&options, 0, argv + 2, environment, NULL), AD_OK);
    ad_options_reset(&options);
}
END_TEST

START_TEST(test_log)
{
    struct ad_options options =
        loaded(&(struct given){{"--log-level=warning", "--log-format=json"}, {0}});
    struct ad_log log = ad_options_log(&options, 7);
    ck_assert_int_eq(log.level, AD_LOG_WARNING);
    ck_assert_int_eq(log.format, AD_LOG_JSON);
    ck_assert_int_eq(log.fd, 7);
    ad_options_reset(&options);
    log = ad_options_log(&options, 2); /* before options are known */
    ck_assert_int_eq(log.level, AD_LOG_INFO);
    ck_assert_int_eq(log.format, AD_LOG_TEXT);
}
END_TEST

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) {
        n++;
    }
    return n;
}

START_TEST(test_help)
{
    char *help = ad_options_help();
    ck_assert_ptr_nonnull(help);
    for (size_t i = 0; i < AD_OPTION_COUNT; i++) {
        char line[AD_OPTION_TEXT_SIZE];
        const char *value = ad_option_table[i].value_name;
        snprintf(line, sizeof line, "\n  --%s%s%s", ad_option_table[i].name,
                 value ? " " : "  ", value ? value : " ");
        ck_assert_msg(count(help, line) == 1, "%s", line);
        char next = strstr(help, line)[strlen(line)];
        ck_assert_msg(next == ' ' || next == '\n', "%s%c", line, next);
    }
    ck_assert_ptr_nonnull(strstr(help, "(ATTENTIOND_HTTP_PORT"));
    ck_assert_ptr_nonnull(strstr(help, "[0..65535, default: 8000]"));
    ck_assert_ptr_nonnull(strstr(help, "[1024..1099511627776 bytes, default: 67108864]"));
    ck_assert_ptr_nonnull(strstr(help, "[error, warning, info or debug, default: info]"));
    char *rest = help, *line;
    while ((line = strsep(&rest, "\n"))) {
        ck_assert_msg(strlen(line) <= 88, "%s", line);
        ck_assert_msg(!*line || line[strlen(line) - 1] != ' ', "%s", line);
    }
    free(help);
}
END_TEST

START_TEST(test_out_of_memory)
{
    char *argv[] = {strdup("attentiond"), strdup("--http-address=::1"), NULL};
    char *environment[] = {strdup("ATTENTIOND_MODEL_REPOSITORY=/models"), NULL};
    for (long n = 1;; n++) {
        struct ad_options options;
        struct ad_error error;
        ad_error_clear(&error);
        fail_allocation(n);
        enum ad_status status = ad_options_load(&options, 2, argv, environment, &error);
        bool failed = allocation_failed();
        ck_assert_int_eq(status, failed ? AD_INTERNAL : AD_OK);
        ck_assert_str_eq(error.message, failed ? "out of memory" : "");
        ad_options_reset(&options);
        if (!failed) {
            break;
        }
    }
    free(argv[0]);
    free(argv[1]);
    free(environment[0]);
}
END_TEST

START_TEST(test_help_out_of_memory)
{
    for (long n = 1;; n++) {
        fail_allocation(n);
        char *help = ad_options_help();
        bool failed = allocation_failed();
        ck_assert(failed || help);
        /* growth is tried twice, so a help text in spite of the failure is complete */
        ck_assert(!help || strstr(help, "over the default.\n"));
        free(help);
        if (!failed) {
            break;
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tests = tcase_create("options");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, test_table);
    tcase_add_test(tests, test_defaults);
    tcase_add_test(tests, test_arguments);
    tcase_add_test(tests, test_last_argument_wins);
    tcase_add_test(tests, test_environment);
    tcase_add_test(tests, test_service_links);
    tcase_add_test(tests, test_actions);
    tcase_add_loop_test(tests, test_refusal, 0,
                        (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_test(tests, test_refused_without_record);
    tcase_add_test(tests, test_log);
    tcase_add_test(tests, test_help);
    tcase_add_test(tests, test_out_of_memory);
    tcase_add_test(tests, test_help_out_of_memory);
    return support_run(suite);
}
