/* test_control_request.c - what a client may ask of the loader, and what is said of the rest; strings
 * and base64 inside it. */
#include "http/base64.h"
#include "http/control_request.h"
#include "http/json_reader.h"
#include "unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Parse a copy that ends where the text does, for the sanitizers. */
static enum ad_status parse_bytes(enum ad_command_kind kind, const char *model,
                                  const char *body, size_t n, struct ad_command **command,
                                  struct ad_error *error)
{
    char *copy = malloc(n > 0 ? n : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, body, n);
    *command = NULL;
    enum ad_status status =
        ad_control_request_parse(kind, model, n > 0 ? copy : NULL, n, command, error);
    free(copy);
    ck_assert((status == AD_OK) == (*command != NULL));
    return status;
}

static struct ad_command *parse(enum ad_command_kind kind, const char *body)
{
    struct ad_command *command;
    struct ad_error error = {0};
    ck_assert_msg(parse_bytes(kind, "m", body, strlen(body), &command, &error) == AD_OK,
                  "%s: %s", body, error.message);
    ck_assert_int_eq(command->kind, kind);
    ck_assert_str_eq(command->model, "m");
    return command;
}

static const struct {
    enum ad_command_kind kind;
    const char *body;
} plain[] = {
    {AD_COMMAND_LOAD, ""},
    {AD_COMMAND_LOAD, " \r\n"},
    {AD_COMMAND_LOAD, "{}"},
    {AD_COMMAND_LOAD, " { } "},
    {AD_COMMAND_LOAD, "{\"parameters\": {}}"},
    {AD_COMMAND_UNLOAD, ""},
    {AD_COMMAND_UNLOAD, "{\"parameters\":{\"unload_dependents\":true}}"},
    {AD_COMMAND_UNLOAD, "{\"parameters\":{\"unload_dependents\": false }}"},
    {AD_COMMAND_UNLOAD, "{\"\\u0070arameters\":{}}"},
};

START_TEST(test_plain)
{
    struct ad_command *command = parse(plain[_i].kind, plain[_i].body);
    ck_assert_ptr_null(command->config);
    ck_assert_uint_eq(command->n_files, 0);
    ck_assert_int_eq(command->error.status, AD_OK);
    ad_command_free(command);
}
END_TEST

START_TEST(test_everything_given)
{
    struct ad_command *command =
        parse(AD_COMMAND_LOAD,
              "{\"parameters\":{\"file:1/model.safetensors\":\"AAEC/w==\","
              "\"config\":\"{\\\"layer\\\": \\u007b\\n\\t\\u00e4\\ud83d\\ude00\\/}\","
              "\"file:12/\xc3\xa4 b\":\"\"}}");
    ck_assert_str_eq(command->config, "{\"layer\": {\n\t\xc3\xa4\xf0\x9f\x98\x80/}");
    ck_assert_uint_eq(command->n_config, strlen(command->config));
    ck_assert_uint_eq(command->n_files, 2);
    ck_assert_str_eq(command->files[0].path, "1/model.safetensors");
    ck_assert_uint_eq(command->files[0].n_bytes, 4);
    ck_assert_int_eq(memcmp(command->files[0].bytes, "\0\1\2\xff", 4), 0);
    ck_assert_str_eq(command->files[1].path, "12/\xc3\xa4 b");
    ck_assert_uint_eq(command->files[1].n_bytes, 0);
    ad_command_free(command);
}
END_TEST

/* A config may hold a NUL here; the parser of configs refuses it. */
START_TEST(test_config_with_nul)
{
    struct ad_command *command =
        parse(AD_COMMAND_LOAD, "{\"parameters\":{\"config\":\"a\\u0000b\"}}");
    ck_assert_uint_eq(command->n_config, 3);
    ck_assert_int_eq(memcmp(command->config, "a\0b", 4), 0);
    ad_command_free(command);
}
END_TEST

#define LOAD(parameters) AD_COMMAND_LOAD, "{\"parameters\":{" parameters "}}"
#define UNLOAD(parameters) AD_COMMAND_UNLOAD, "{\"parameters\":{" parameters "}}"
#define FILE_EXPECTED "expected file:<version>/<name>, of a file in the version's folder"

static const struct {
    enum ad_command_kind kind;
    const char *body;
    const char *message; /* after "request body: " */
} bad[] = {
    {AD_COMMAND_LOAD, "x", "expected an object at byte 0"},
    {AD_COMMAND_LOAD, "[]", "expected an object at byte 0"},
    {AD_COMMAND_LOAD, "{", "expected a string at byte 1"},
    {AD_COMMAND_LOAD, "{}}", "expected the end at byte 2"},
    {AD_COMMAND_LOAD, "{} {}", "expected the end at byte 3"},
    {AD_COMMAND_LOAD, "{\"parameters\"}", "expected ':' at byte 13"},
    {AD_COMMAND_LOAD, "{\"parameters\":null}", "expected an object at byte 14"},
    {AD_COMMAND_LOAD, "{\"parameters\":{}", "expected ',' or '}' at byte 16"},
    {AD_COMMAND_LOAD, "{\"parameters\":{},}", "expected a string at byte 17"},
    {AD_COMMAND_LOAD, "{\"parameters\":{},\"parameters\":{}}",
     "unknown member 'parameters', expected one: parameters"},
    {AD_COMMAND_LOAD, "{\"model\":{}}",
     "unknown member 'model', expected one: parameters"},
    {LOAD("\"confg\":\"\""),
     "unknown parameter 'confg', expected config or file:<version>/<name>"},
    {LOAD("\"unload_dependents\":true"), "unknown parameter 'unload_dependents', "
                                         "expected config or file:<version>/<name>"},
    {LOAD("\"config\":{}"), "expected a string at byte 24"},
    {LOAD("\"config\":\"a\",\"config\":\"b\""), "parameter 'config' is given twice"},
    {LOAD("\"config\":\"a"), "expected the end of a string at byte 28"},
    {LOAD("\"config\":\"\\x\""),
     "expected a character of a string or an escape at byte 27"},
    {LOAD("\"config\":\"\\ud800\""),
     "expected a character of a string or an escape at byte 27"},
    {LOAD("\"config\":\"\\ud800\\u0041\""),
     "expected a character of a string or an escape at byte 27"},
    {LOAD("\"config\":\"\\udc00\""),
     "expected a character of a string or an escape at byte 27"},
    {LOAD("\"config\":\"\n\""),
     "expected a character of a string or an escape at byte 25"},
    {LOAD("\"config\":\"\xff\""),
     "expected a character of a string or an escape at byte 25"},
    {LOAD("\"file:1/a\":\"AAAA\""), "files need the parameter 'config'"},
    {LOAD("\"config\":\"\",\"file:1/a\":\"AAA\""),
     "parameter 'file:1/a': expected base64"},
    {LOAD("\"config\":\"\",\"file:1/a\":7"), "expected a string at byte 38"},
    {LOAD("\"config\":\"\",\"file:1/a\":\"\",\"file:1/a\":\"\""),
     "parameter 'file:1/a' is given twice"},
    {LOAD("\"file:\":\"\""), "parameter 'file:': " FILE_EXPECTED},
    {LOAD("\"file:a\":\"\""), "parameter 'file:a': " FILE_EXPECTED},
    {LOAD("\"file:1\":\"\""), "parameter 'file:1': " FILE_EXPECTED},
    {LOAD("\"file:1/\":\"\""), "parameter 'file:1/': " FILE_EXPECTED},
    {LOAD("\"file:0/a\":\"\""), "parameter 'file:0/a': " FILE_EXPECTED},
    {LOAD("\"file:01/a\":\"\""), "parameter 'file:01/a': " FILE_EXPECTED},
    {LOAD("\"file:/a\":\"\""), "parameter 'file:/a': " FILE_EXPECTED},
    {LOAD("\"file:../1/a\":\"\""), "parameter 'file:../1/a': " FILE_EXPECTED},
    {LOAD("\"file:1/..\":\"\""), "parameter 'file:1/..': " FILE_EXPECTED},
    {LOAD("\"file:1/../a\":\"\""), "parameter 'file:1/../a': " FILE_EXPECTED},
    {LOAD("\"file:1/a/b\":\"\""), "parameter 'file:1/a/b': " FILE_EXPECTED},
    {LOAD("\"file:9223372036854775808/a\":\"\""),
     "parameter 'file:9223372036854775808/a': " FILE_EXPECTED},
    {LOAD("\"file:1/a\\u0000b\":\"\""), "'file:1/a...' is not the name of a member"},
    {UNLOAD("\"unload_dependents\":1"), "expected true or false at byte 35"},
    {UNLOAD("\"config\":\"\""), "unknown parameter 'config', expected unload_dependents"},
};

START_TEST(test_bad)
{
    struct ad_command *command;
    struct ad_error error = {0};
    ck_assert_int_eq(parse_bytes(bad[_i].kind, "m", bad[_i].body, strlen(bad[_i].body),
                                 &command, &error),
                     AD_INVALID);
    char expected[512];
    snprintf(expected, sizeof expected, "request body: %s", bad[_i].message);
    ck_assert_str_eq(error.message, expected);
}
END_TEST

START_TEST(test_model_names)
{
    static const char *const names[] = {"",   ".",    "..",   "../m",  "a/b",     "/",
                                        ".m", "a\nb", "\x7f", "a\xff", "\xc0\xaf"};
    static const char *const good[] = {"m", "stats.x", "\xc3\xa4", "a b%2f", "m..."};
    struct ad_command *command;
    char longest[257];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ad_error error = {0};
        ck_assert_int_eq(parse_bytes(AD_COMMAND_LOAD, names[i], "", 0, &command, &error),
                         AD_INVALID);
        ck_assert(strncasecmp(error.message, "model name", 10) == 0);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_int_eq(parse_bytes(AD_COMMAND_LOAD, good[i], "", 0, &command, NULL),
                         AD_OK);
        ck_assert_str_eq(command->model, good[i]);
        ad_command_free(command);
    }
    memset(longest, 'n', 256);
    longest[256] = '\0';
    ck_assert_int_eq(parse_bytes(AD_COMMAND_LOAD, longest, "", 0, &command, NULL),
                     AD_INVALID);
    longest[255] = '\0';
    ck_assert_int_eq(parse_bytes(AD_COMMAND_LOAD, longest, "", 0, &command, NULL), AD_OK);
    ad_command_free(command);
}
END_TEST

/* A good body with one byte changed, left out, or cut off there: refused, or read in full. */
START_TEST(test_mutations)
{
    static const char text[] =
        "{\"parameters\":{\"config\":\"{\\\"a\\\":\\u00e4}\",\"file:1/a\":\"AAEC\","
        "\"file:2/b\":\"/w==\"}}";
    static const char values[] = "\"\\{}:,/u0A=\x01\x80\xff";
    const size_t n = sizeof text - 1;
    for (size_t at = 0; at < n; at++) {
        char copy[sizeof text];
        struct ad_command *command;
        (void)!parse_bytes(AD_COMMAND_LOAD, "m", text, at, &command, NULL);
        ad_command_free(command);
        for (size_t k = 0; k < sizeof values; k++) { /* the NUL too */
            memcpy(copy, text, sizeof text);
            copy[at] = values[k];
            (void)!parse_bytes(AD_COMMAND_LOAD, "m", copy, n, &command, NULL);
            ad_command_free(command);
        }
        memmove(copy, text, at);
        memcpy(copy + at, text + at + 1, n - at);
        (void)!parse_bytes(AD_COMMAND_LOAD, "m", copy, n - 1, &command, NULL);
        ad_command_free(command);
    }
}
END_TEST

/* ---- base64 ---------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    const char *bytes; /* NULL: refused */
} encoded[] = {
    {"", ""},
    {"Zg==", "f"},
    {"Zm8=", "fo"},
    {"Zm9v", "foo"},
    {"Zm9vYg==", "foob"},
    {"Zm9vYmE=", "fooba"},
    {"Zm9vYmFy", "foobar"},
    {"++//", "\xfb\xef\xff"},
    {"Z", NULL},
    {"Zg", NULL},
    {"Zg=", NULL},
    {"Zg===", NULL},
    {"====", NULL},
    {"Z===", NULL},
    {"Zh==", NULL},
    {"Zm9=", NULL},
    {"Zg==Zg==", NULL},
    {"Z=g=", NULL},
    {"Zm9v\n", NULL},
    {"Zm 9", NULL},
    {"--__", NULL},
    {"Zm8\xc3", NULL},
};

START_TEST(test_base64)
{
    char text[32];
    size_t n = 99;
    strcpy(text, encoded[_i].text);
    ck_assert_int_eq(ad_base64_decode(text, strlen(text), &n), encoded[_i].bytes != NULL);
    if (encoded[_i].bytes) {
        ck_assert_uint_eq(n, strlen(encoded[_i].bytes));
        ck_assert_int_eq(memcmp(text, encoded[_i].bytes, n), 0);
    }
}
END_TEST

/* ---- the reader ------------------------------------------------------------------------------ */

START_TEST(test_depth)
{
    char text[6 * AD_READER_MAX_DEPTH + 16] = "";
    struct ad_error error = {0};
    struct ad_reader reader;
    for (size_t i = 0; i <= AD_READER_MAX_DEPTH; i++) {
        strcat(text, "{\"a\":");
    }
    ad_reader_init(&reader, text, strlen(text), &error);
    size_t n = 0;
    while (ad_reader_open(&reader)) {
        n++;
    }
    ck_assert_uint_eq(n, AD_READER_MAX_DEPTH);
    ck_assert_int_eq(reader.status, AD_INVALID);
    ck_assert_str_eq(error.message,
                     "request body: objects inside one another are at most 32 deep");
    /* a failure sticks, and the first one stays */
    ck_assert(!ad_reader_open(&reader) && !ad_reader_more(&reader));
    ck_assert(!ad_reader_bool(&reader));
    ck_assert_ptr_null(ad_reader_string(&reader, &n));
    ck_assert_uint_eq(n, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control requests");
    TCase *tests = tcase_create("control requests");
    tcase_add_loop_test(tests, test_plain, 0, sizeof plain / sizeof *plain);
    tcase_add_test(tests, test_everything_given);
    tcase_add_test(tests, test_config_with_nul);
    tcase_add_loop_test(tests, test_bad, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tests, test_model_names);
    tcase_add_test(tests, test_mutations);
    tcase_add_loop_test(tests, test_base64, 0, sizeof encoded / sizeof *encoded);
    tcase_add_test(tests, test_depth);
    suite_add_tcase(suite, tests);
    return support_run(suite);
}
