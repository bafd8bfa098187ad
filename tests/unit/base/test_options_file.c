/* test_options_file.c - options out of a JSON file: what is taken, what is refused and with which
 * words, and the file of defaults that comes with the daemon. */
#include "base/options.h"
#include "base/options_file.h"
#include "base/options_table.h"
#include "unit/base/fail_allocation.h"
#include "unit/support.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHIPPED "config/attentiond.json" /* tests run from the repository's root */

static enum ad_status read_text(struct ad_options *options, const char *text, size_t n,
                                struct ad_error *error)
{
    struct ad_options_reader reader;
    ad_error_clear(error);
    ad_options_reader_init(&reader, options, error);
    return ad_options_read_json(&reader, text, n, "a.json");
}

START_TEST(test_values)
{
    static const char text[] =
        "{\"http-port\": 0, \"http-address\": \"::1\", \"strict-readiness\": true,"
        " \"model-repository\": \"/m\\u00e9\", \"log-level\": \"error\"}";
    struct ad_options options;
    struct ad_error error;
    ck_assert_int_eq(read_text(&options, text, strlen(text), &error), AD_OK);
    ck_assert_uint_eq(options.http_port, 0);
    ck_assert_str_eq(options.http_address, "::1");
    ck_assert(options.strict_readiness);
    ck_assert_str_eq(options.model_repository, "/m\xc3\xa9");
    ck_assert_str_eq(options.log_level, "error");
    ad_options_reset(&options);
    ck_assert_int_eq(read_text(&options, "{}", 2, &error), AD_OK);
    ck_assert_int_eq(read_text(&options, "{\"model-repository\": null}", 26, &error),
                     AD_OK);
    ck_assert_ptr_null(options.model_repository);
    ad_options_reset(&options);
}
END_TEST

struct refusal {
    const char *text, *message;
};

static const struct refusal refusals[] = {
    {"", "a.json:1:0: '[' or '{' expected near end of file"},
    {"{", "a.json:1:1: string or '}' expected near end of file"},
    {"{\n  \"http-port\": 8000,\n}", "a.json:3:1: string or '}' expected near '}'"},
    {"{} x", "a.json:1:4: end of file expected near 'x'"},
    {"7", "a.json:1:1: '[' or '{' expected near '7'"},
    {"{\"workers\": 1, \"workers\": 2}",
     "a.json:1:24: duplicate object key near '\"workers\"'"},
    {"{\"workers\": 99999999999999999999}",
     "a.json:1:32: too big integer near '99999999999999999999'"},
    {"{\"a\\u0000b\": 1}",
     "a.json:1:11: NUL byte in object key not supported near '\"a\\u0000b\"'"},
    {"[]", "a.json: expected an object of options, got an array"},
    {"{\"http_port\": 1}", "a.json: http_port: unknown key, did you mean http-port?"},
    {"{\"--workers\": 1}", "a.json: --workers: unknown key, did you mean workers?"},
    {"{\"\": 1}", "a.json: : unknown key, see --help"},
    {"{\"models\": 1}", "a.json: models: unknown key, see --help"},
    {"{\"config\": \"b.json\"}", "a.json: config: cannot be given in a file"},
    {"{\"help\": true}", "a.json: help: cannot be given in a file"},
    {"{\"http-port\": \"8000\"}",
     "a.json: http-port: expected an integer 0..65535, got the string '8000'"},
    {"{\"http-port\": 8000.5}",
     "a.json: http-port: expected an integer 0..65535, got the fraction 8000.5"},
    {"{\"http-port\": -1}", "a.json: http-port: expected an integer 0..65535, got -1"},
    {"{\"http-port\": 65536}",
     "a.json: http-port: expected an integer 0..65535, got 65536"},
    {"{\"http-port\": true}",
     "a.json: http-port: expected an integer 0..65535, got true"},
    {"{\"http-port\": null}",
     "a.json: http-port: expected an integer 0..65535, got null"},
    {"{\"strict-readiness\": 1}",
     "a.json: strict-readiness: expected true or false, got 1"},
    {"{\"strict-readiness\": \"true\"}",
     "a.json: strict-readiness: expected true or false, got the string 'true'"},
    {"{\"http-address\": [\"::\"]}",
     "a.json: http-address: expected a text that is not empty, got an array"},
    {"{\"http-address\": {}}",
     "a.json: http-address: expected a text that is not empty, got an object"},
    {"{\"http-address\": \"\"}",
     "a.json: http-address: expected a text that is not empty, got ''"},
    {"{\"http-address\": null}",
     "a.json: http-address: expected a text that is not empty, got null"},
    {"{\"http-address\": false}",
     "a.json: http-address: expected a text that is not empty, got false"},
    {"{\"log-format\": \"xml\"}", "a.json: log-format: expected text or json, got 'xml'"},
    {"{\"log-format\": \"a\\nb\"}",
     "a.json: log-format: expected text or json, got 'a?b'"},
};

START_TEST(test_refusal)
{
    /* exactly as large as the text: a read past its end is seen by the sanitizers */
    size_t n = strlen(refusals[_i].text);
    char *text = malloc(n ? n : 1);
    memcpy(text, refusals[_i].text, n);
    struct ad_options options;
    struct ad_error error;
    ck_assert_int_eq(read_text(&options, text, n, &error), AD_INVALID);
    ck_assert_str_eq(error.message, refusals[_i].message);
    ad_options_reset(&options);
    free(text);
}
END_TEST

START_TEST(test_invalid_utf8)
{
    struct ad_options options;
    struct ad_error error;
    ck_assert_int_eq(read_text(&options, "{\"\xff\": 1}", 8, &error), AD_INVALID);
    ck_assert_int_eq(strncmp(error.message, "a.json:1:", 9), 0);
    ck_assert_int_eq(read_text(&options, "{}\0", 3, &error), AD_INVALID);
}
END_TEST

START_TEST(test_deep_nesting)
{
    static char text[100000];
    memset(text, '[', sizeof text);
    struct ad_options options;
    struct ad_error error;
    ck_assert_int_eq(read_text(&options, text, sizeof text, &error), AD_INVALID);
    ck_assert_int_eq(strncmp(error.message, "a.json:1:", 9), 0);
}
END_TEST

static char path[] = "/tmp/attentiond-options-XXXXXX";

static void write_config(const char *text, size_t n)
{
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
    close(fd);
}

static void remove_config(void)
{
    unlink(path);
    memset(path + strlen(path) - 6, 'X', 6);
}

static enum ad_status load(struct ad_options *options, char *const *arguments,
                           char *const *environment, struct ad_error *error)
{
    char name[] = "attentiond";
    char *argv[8] = {name};
    int argc = 1;
    for (; arguments[argc - 1]; argc++) {
        argv[argc] = arguments[argc - 1];
    }
    ad_error_clear(error);
    return ad_options_load(options, argc, argv, environment, error);
}

START_TEST(test_order_of_sources)
{
    static const char text[] = "{\"http-port\": 1, \"workers\": 1, \"queue-size\": 1,"
                               " \"http-address\": \"file\"}";
    write_config(text, strlen(text));
    char config[64];
    snprintf(config, sizeof config, "ATTENTIOND_CONFIG=%s", path);
    char port_2[] = "ATTENTIOND_HTTP_PORT=2", workers_2[] = "ATTENTIOND_WORKERS=2";
    char address[] = "ATTENTIOND_HTTP_ADDRESS=environment", port_3[] = "--http-port=3";
    char *arguments[] = {port_3, NULL};
    char *environment[] = {port_2, config, workers_2, address, NULL};
    struct ad_options options;
    struct ad_error error;
    ck_assert_int_eq(load(&options, arguments, environment, &error), AD_OK);
    ck_assert_str_eq(options.config, path);
    ck_assert_uint_eq(options.http_port, 3);
    ck_assert_uint_eq(options.workers, 2);
    ck_assert_uint_eq(options.queue_size, 1);
    ck_assert_uint_eq(options.exit_timeout, 30);
    ck_assert_str_eq(options.http_address, "environment");
    ad_options_reset(&options);
    remove_config();
}
END_TEST

START_TEST(test_argument_names_the_file)
{
    write_config("{\"queue-size\": 5}", 17);
    char argument[64], other[] = "ATTENTIOND_CONFIG=/nonexistent";
    snprintf(argument, sizeof argument, "--config=%s", path);
    char *arguments[] = {argument, NULL}, *environment[] = {other, NULL};
    struct ad_options options;
    struct ad_error error;
    ck_assert_int_eq(load(&options, arguments, environment, &error), AD_OK);
    ck_assert_uint_eq(options.queue_size, 5);
    ad_options_reset(&options);
    remove_config();
}
END_TEST

START_TEST(test_huge_file)
{
    size_t n = ((size_t)1 << 20) + 2;
    char *text = malloc(n);
    memset(text, ' ', n);
    text[0] = '{';
    text[n - 1] = '}';
    for (size_t over = 0; over < 2; over++) {
        size_t size = n - 2 + over;
        text[size - 1] = '}';
        write_config(text, size);
        char argument[64];
        snprintf(argument, sizeof argument, "--config=%s", path);
        char *arguments[] = {argument, NULL}, *environment[] = {NULL};
        struct ad_options options;
        struct ad_error error;
        ck_assert_int_eq(load(&options, arguments, environment, &error),
                         over ? AD_INVALID : AD_OK);
        ck_assert_uint_eq(strstr(error.message, "at most 1048576 bytes") != NULL, over);
        ad_options_reset(&options);
        remove_config();
    }
    free(text);
}
END_TEST

START_TEST(test_out_of_memory)
{
    static const char text[] = "{\"http-port\": 1, \"http-address\": \"file\"}";
    write_config(text, strlen(text));
    char argument[64];
    snprintf(argument, sizeof argument, "--config=%s", path);
    char *arguments[] = {argument, NULL}, *environment[] = {NULL};
    for (long n = 1;; n++) {
        struct ad_options options;
        struct ad_error error;
        fail_allocation(n);
        enum ad_status status = load(&options, arguments, environment, &error);
        bool failed = allocation_failed();
        /* jansson calls some allocations that fail a syntax error, so any message will do */
        ck_assert_int_eq(status == AD_OK, error.message[0] == '\0');
        ck_assert(failed || status == AD_OK);
        ad_options_reset(&options);
        if (!failed) {
            break;
        }
    }
    remove_config();
}
END_TEST

static void assert_default(json_t *file, const struct ad_option *option)
{
    json_t *value = json_object_get(file, option->name);
    ck_assert_msg(value != NULL, "%s is missing in " SHIPPED, option->name);
    switch (option->type) {
    case AD_OPTION_ACTION:
        ck_abort();
    case AD_OPTION_BOOL:
        ck_assert(json_is_boolean(value));
        ck_assert_int_eq(json_is_true(value), option->number != 0);
        break;
    case AD_OPTION_NUMBER:
        ck_assert_int_eq(json_integer_value(value), (json_int_t)option->number);
        break;
    case AD_OPTION_TEXT:
    case AD_OPTION_WORD:
        ck_assert_int_eq(json_is_null(value), option->text == NULL);
        if (option->text) {
            ck_assert_str_eq(json_string_value(value), option->text);
        }
        break;
    }
}

START_TEST(test_shipped_file)
{
    json_t *file = json_load_file(SHIPPED, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(file != NULL, SHIPPED " cannot be read");
    size_t n = 0;
    for (size_t i = 0; i < AD_OPTION_COUNT; i++) {
        if (ad_option_table[i].lowest <= AD_FROM_FILE) {
            assert_default(file, &ad_option_table[i]);
            n++;
        }
    }
    ck_assert_uint_eq(json_object_size(file), n);
    json_decref(file);

    char argument[] = "--config=" SHIPPED;
    char *arguments[] = {argument, NULL}, *environment[] = {NULL};
    struct ad_options options;
    struct ad_error error;
    ck_assert_int_eq(load(&options, arguments, environment, &error), AD_OK);
    ck_assert_ptr_null(options.model_repository);
    ck_assert_uint_eq(options.http_port, 8000);
    ad_options_reset(&options);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options file");
    TCase *tests = tcase_create("options file");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, test_values);
    tcase_add_loop_test(tests, test_refusal, 0,
                        (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_test(tests, test_invalid_utf8);
    tcase_add_test(tests, test_deep_nesting);
    tcase_add_test(tests, test_order_of_sources);
    tcase_add_test(tests, test_argument_names_the_file);
    tcase_add_test(tests, test_huge_file);
    tcase_add_test(tests, test_out_of_memory);
    tcase_add_test(tests, test_shipped_file);
    return support_run(suite);
}
