/* The small parts that operators meet: Server-Timing, request ids, the process, statistics and the
 * log's settings as JSON. */
#include "http/logging_request.h"
#include "http/process.h"
#include "http/request_id.h"
#include "http/statistics.h"
#include "http/timing.h"

#include "unit/support.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- Server-Timing ----------------------------------------------------------- */

static const struct {
    struct ad_times times;
    const char *text;
} timings[] = {
    {{1000, 2000, 14000, 114999, 114999, 1348999, 1399000, 1502000},
     "queue;dur=0.012, decode;dur=0.100, batch;dur=0.000, compute;dur=1.234, "
     "encode;dur=0.050, total;dur=1.501"},
    {{1000, 2000, 14000, 114000, 115000, 116000, 117000, 0},
     "queue;dur=0.012, decode;dur=0.100, batch;dur=0.001, compute;dur=0.001, "
     "encode;dur=0.001, total;dur=0.116"},
    {{1000, 2000, 14000, 0, 0, 0, 0, 1001000}, "queue;dur=0.012, total;dur=1.000"},
    {{1000, 0, 0, 0, 0, 0, 0, 12345678901000}, "total;dur=12345678.900"},
    {{0}, ""},
    {{5, 4, 3, 2, 1, 1, 1, 1}, "compute;dur=0.000, encode;dur=0.000"},
    {{1, 1, INT64_MAX, 1, INT64_MAX, 1, INT64_MAX, INT64_MAX},
     "queue;dur=9223372036854.775, batch;dur=9223372036854.775, "
     "encode;dur=9223372036854.775, total;dur=9223372036854.775"},
};

START_TEST(timing)
{
    char text[AD_TIMING_SIZE];
    ad_timing_write(&timings[_i].times, text);
    ck_assert_str_eq(text, timings[_i].text);
}
END_TEST

/* ---- request ids ------------------------------------------------------------- */

#define X8 "xxxxxxxx"
#define X128 X8 X8 X8 X8 X8 X8 X8 X8 X8 X8 X8 X8 X8 X8 X8 X8

static const struct {
    const char *given, *taken; /* NULL: one of ours */
} request_ids[] = {{"a", "a"},         {"7b3f-\"~ !", "7b3f-\"~ !"},
                   {X128, X128},       {X128 "x", NULL},
                   {NULL, NULL},       {"", NULL},
                   {" \t ", NULL},     {"a b \t", "a b"},
                   {"a\tb", NULL},     {"a\nb", NULL},
                   {"a\x7f", NULL},    {"caf\xc3\xa9", NULL},
                   {X128 " \t", X128}, {"\x01", NULL}};

START_TEST(request_id)
{
    struct ad_request_ids ids;
    char text[AD_REQUEST_ID_SIZE];
    ad_request_ids_init(&ids);
    ad_request_id_choose(&ids, request_ids[_i].given, text);
    if (request_ids[_i].taken) {
        ck_assert_str_eq(text, request_ids[_i].taken);
    } else {
        ck_assert_uint_eq(strlen(text), 16);
        ck_assert_uint_eq(strspn(text, "0123456789abcdef"), 16);
    }
}
END_TEST

START_TEST(request_ids_differ)
{
    struct ad_request_ids one, two;
    char a[AD_REQUEST_ID_SIZE], b[AD_REQUEST_ID_SIZE], c[AD_REQUEST_ID_SIZE];
    ad_request_ids_init(&one);
    ad_request_ids_init(&two);
    ad_request_id_choose(&one, NULL, a);
    ad_request_id_choose(&one, NULL, b);
    ad_request_id_choose(&two, NULL, c);
    ck_assert_str_ne(a, b);
    ck_assert_str_ne(a, c);
}
END_TEST

/* ---- the process ------------------------------------------------------------- */

START_TEST(own_process)
{
    struct ad_process process;
    ad_process_read("/proc", &process);
    ck_assert_uint_gt(process.cpu_ns, 0);
    ck_assert_uint_gt(process.resident_bytes, 100000);
    ck_assert_uint_gt(process.virtual_bytes, process.resident_bytes);
    ck_assert_uint_gt(process.n_fds, 0);
    ck_assert_uint_ge(process.max_fds, process.n_fds);
    int64_t age_ms = (int64_t)time(NULL) * 1000 - (int64_t)process.start_ms;
    ck_assert(age_ms > -3000 && age_ms < 600000);
    struct ad_process again;
    int fd = dup(1);
    ad_process_read("/proc", &again);
    ck_assert_uint_eq(again.n_fds, process.n_fds + 1);
    close(fd);
}
END_TEST

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

/* A name may hold brackets and blanks; what cannot be read is 0. */
START_TEST(other_process)
{
    char folder[] = "/tmp/attentiond-proc-XXXXXX";
    char path[128], command[128];
    struct ad_process process;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/self", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ad_process_read(folder, &process);
    ck_assert_uint_eq(process.virtual_bytes, 0);
    ck_assert_uint_eq(process.start_ms, 0);
    ck_assert_uint_eq(process.n_fds, 0);
    write_file(folder, "self/stat",
               "1 (a) b (c 9 9) S 1 1 1 0 -1 4194560 1 1 1 1 2 3 0 0 20 0 4 0 500 8192 3 "
               "18446744073709551615 1\n");
    write_file(folder, "stat", "cpu 1 2 3\ncpu0 1 2 3\nbtime 1700000000\nctxt 1\n");
    ad_process_read(folder, &process);
    ck_assert_uint_eq(process.virtual_bytes, 8192);
    ck_assert_uint_eq(process.resident_bytes, 3 * (uint64_t)sysconf(_SC_PAGESIZE));
    ck_assert_uint_eq(process.start_ms,
                      1700000000000 + 500000 / (uint64_t)sysconf(_SC_CLK_TCK));
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* ---- statistics -------------------------------------------------------------- */

static json_int_t integer_at(json_t *root, const char *outer, const char *inner,
                             const char *name)
{
    json_t *object = outer ? json_object_get(root, outer) : root;
    object = inner ? json_object_get(object, inner) : object;
    json_t *value = json_object_get(object, name);
    ck_assert_msg(json_is_integer(value), "%s.%s.%s", outer, inner, name);
    return json_integer_value(value);
}

static json_t *written(struct ad_buffer *out)
{
    json_error_t fault;
    json_t *root = json_loads(out->data, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(root != NULL, "%s: %s", fault.text, out->data);
    ad_buffer_reset(out);
    return root;
}

START_TEST(statistics)
{
    static const char *const durations[] = {
        "success",       "fail",           "queue",     "compute_input",
        "compute_infer", "compute_output", "cache_hit", "cache_miss"};
    struct ad_stats_view view = {.last_inference_ms = 1796025600123,
                                 .n_items = 21,
                                 .n_passes = UINT64_MAX,
                                 .success = {1, 10},
                                 .fail = {2, 20},
                                 .queue = {3, 30},
                                 .compute_input = {4, 40},
                                 .compute_infer = {5, 50},
                                 .compute_output = {6, 60}};
    view.batches[1] = (struct ad_batch_stat){2, {7, 70}, {8, 80}, {9, 90}};
    view.batches[63] = (struct ad_batch_stat){64, {1, 2}, {3, 4}, {5, 6}};
    struct ad_buffer out;
    ad_buffer_init(&out);
    struct ad_json json = ad_json_to(&out);
    ad_statistics_write(&json, "sp\"eech", "3", 4096, &view);
    ck_assert(ad_json_ok(&json));
    json_t *root = written(&out);
    ck_assert_str_eq(json_string_value(json_object_get(root, "name")), "sp\"eech");
    ck_assert_str_eq(json_string_value(json_object_get(root, "version")), "3");
    ck_assert_int_eq(integer_at(root, NULL, NULL, "last_inference"), 1796025600123);
    ck_assert_int_eq(integer_at(root, NULL, NULL, "inference_count"), 21);
    ck_assert_int_eq(integer_at(root, NULL, NULL, "execution_count"), INT64_MAX);
    for (int i = 0; i < 8; i++) {
        int n = i < 6 ? i + 1 : 0;
        ck_assert_int_eq(integer_at(root, "inference_stats", durations[i], "count"), n);
        ck_assert_int_eq(integer_at(root, "inference_stats", durations[i], "ns"), 10 * n);
    }
    ck_assert(json_is_object(json_object_get(root, "response_stats")));
    json_t *batches = json_object_get(root, "batch_stats");
    ck_assert_uint_eq(json_array_size(batches), 2);
    json_t *batch = json_array_get(batches, 0);
    ck_assert_int_eq(integer_at(batch, NULL, NULL, "batch_size"), 2);
    ck_assert_int_eq(integer_at(batch, "compute_input", NULL, "count"), 7);
    ck_assert_int_eq(integer_at(batch, "compute_infer", NULL, "ns"), 80);
    ck_assert_int_eq(integer_at(batch, "compute_output", NULL, "ns"), 90);
    json_t *memory = json_object_get(root, "memory_usage");
    ck_assert_uint_eq(json_array_size(memory), 1);
    json_t *first = json_array_get(memory, 0);
    ck_assert_str_eq(json_string_value(json_object_get(first, "type")), "CPU");
    ck_assert_int_eq(integer_at(first, NULL, NULL, "id"), 0);
    ck_assert_int_eq(integer_at(first, NULL, NULL, "byte_size"), 4096);
    json_decref(root);
}
END_TEST

/* ---- the log's settings ------------------------------------------------------ */

#define ALL                                                                              \
    (AD_LOG_GIVES_FILE | AD_LOG_GIVES_INFO | AD_LOG_GIVES_WARNING | AD_LOG_GIVES_ERROR | \
     AD_LOG_GIVES_VERBOSE_LEVEL | AD_LOG_GIVES_STYLE)

static const struct {
    const char *text;
    unsigned given;
    struct ad_log_settings to;
} good_requests[] = {
    {"", 0, {.info = false}},
    {" \r\n\t", 0, {.info = false}},
    {"{}", 0, {.info = false}},
    {" { } ", 0, {.info = false}},
    {"{\"log_info\":true}", AD_LOG_GIVES_INFO, {.info = true}},
    {"{\"log_info\":false}", AD_LOG_GIVES_INFO, {.info = false}},
    {"{\"log_file\":\"a.log\"}", AD_LOG_GIVES_FILE, {.file = "a.log"}},
    {"{\"log_file\":\"\"}", AD_LOG_GIVES_FILE, {.file = ""}},
    {"{\"log_file\":\"\\u0061\\/\\\"\\\\b\"}", AD_LOG_GIVES_FILE, {.file = "a/\"\\b"}},
    {"{\"log_file\":\"a\\n\\u00e9\"}", AD_LOG_GIVES_FILE, {.file = "a\n\xc3\xa9"}},
    {"{\"log_verbose_level\":0}", AD_LOG_GIVES_VERBOSE_LEVEL, {.verbose_level = 0}},
    {"{\"log_verbose_level\":999999999}",
     AD_LOG_GIVES_VERBOSE_LEVEL,
     {.verbose_level = 999999999}},
    {"{\"log_format\":\"default\"}", AD_LOG_GIVES_STYLE, {.style = AD_LOG_STYLE_DEFAULT}},
    {"{\"log_format\":\"ISO8601\"}", AD_LOG_GIVES_STYLE, {.style = AD_LOG_STYLE_ISO8601}},
    {"\n{ \"log_format\" : \"json\" , \"log_error\" : true }",
     AD_LOG_GIVES_STYLE | AD_LOG_GIVES_ERROR,
     {.style = AD_LOG_STYLE_JSON, .error = true}},
    {"{\"log_file\":\"x\",\"log_info\":true,\"log_warning\":true,\"log_error\":false,"
     "\"log_verbose_level\":2,\"log_format\":\"ISO8601\"}",
     ALL,
     {"x", true, true, false, 2, AD_LOG_STYLE_ISO8601}},
};

static void assert_settings(const struct ad_log_settings *got,
                            const struct ad_log_settings *expected)
{
    ck_assert_str_eq(got->file, expected->file);
    ck_assert_int_eq(got->info, expected->info);
    ck_assert_int_eq(got->warning, expected->warning);
    ck_assert_int_eq(got->error, expected->error);
    ck_assert_uint_eq(got->verbose_level, expected->verbose_level);
    ck_assert_int_eq(got->style, expected->style);
}

/* From memory of just that size, so that a sanitizer sees a byte read too many. */
static enum ad_status parse(const char *text, struct ad_log_change *change,
                            struct ad_error *error)
{
    size_t n = strlen(text);
    char *copy = n > 0 ? malloc(n) : NULL;
    if (copy) {
        memcpy(copy, text, n);
    }
    enum ad_status status = ad_logging_request_parse(copy, n, change, error);
    free(copy);
    return status;
}

START_TEST(good_request)
{
    struct ad_log_change change;
    struct ad_error error = {.status = AD_OK};
    ck_assert_msg(parse(good_requests[_i].text, &change, &error) == AD_OK, "%s",
                  error.message);
    ck_assert_uint_eq(change.given, good_requests[_i].given);
    assert_settings(&change.to, &good_requests[_i].to);
}
END_TEST

#define BOOL_WANTED "log_info: expected true or false, got "
#define LEVEL_WANTED "log_verbose_level: expected an integer 0..999999999, got "
#define FORMAT_WANTED "log_format: expected \"default\", \"ISO8601\" or \"json\", got "
#define FILE_WANTED "log_file: expected a file name of up to 255 bytes, got "

static const struct {
    const char *text, *message;
} bad_requests[] = {
    {"{\"log_info\":1}", BOOL_WANTED "1"},
    {"{\"log_info\":\"true\"}", BOOL_WANTED "\"true\""},
    {"{\"log_info\":null}", BOOL_WANTED "null"},
    {"{\"log_info\":truely}", "request body: expected ',' or '}' at byte 16"},
    {"{\"log_info\":}", BOOL_WANTED},
    {"{\"log_info\":", BOOL_WANTED},
    {"{\"log_info\":[true]}", BOOL_WANTED "[true]"},
    {"{\"log_verbose_level\":-1}", LEVEL_WANTED "-1"},
    {"{\"log_verbose_level\":1.0}", LEVEL_WANTED "1.0"},
    {"{\"log_verbose_level\":01}", LEVEL_WANTED "01"},
    {"{\"log_verbose_level\":1e3}", LEVEL_WANTED "1e3"},
    {"{\"log_verbose_level\":1000000000}", LEVEL_WANTED "1000000000"},
    {"{\"log_verbose_level\":\"1\"}", LEVEL_WANTED "\"1\""},
    {"{\"log_verbose_level\":true}", LEVEL_WANTED "true"},
    {"{\"log_format\":\"xml\"}", FORMAT_WANTED "\"xml\""},
    {"{\"log_format\":\"JSON\"}", FORMAT_WANTED "\"JSON\""},
    {"{\"log_format\":\"\"}", FORMAT_WANTED "\"\""},
    {"{\"log_format\":0}", FORMAT_WANTED "0"},
    {"{\"log_file\":null}", FILE_WANTED "null"},
    {"{\"log_file\":\"a\\u0000b\"}", FILE_WANTED "\"a\\u0000b\""},
    {"{\"log_file\":\"a\\u12", FILE_WANTED "\"a\\u12"},
    {"{\"log_file\":\"a\\u12g4\"}", FILE_WANTED "\"a\\u12g4\""},
    {"{\"log_file\":\"a\\", FILE_WANTED "\"a\\"},
    {"{\"log_file\":\"a", FILE_WANTED "\"a"},
    {"{\"log_file\":\"" X128 X128 "\"}", NULL},
    {"{\"log_level\":1}",
     "log_level: expected log_file, log_info, log_warning, log_error, log_verbose_level "
     "or log_format"},
    {"{\"log_info\":true,\"log_info\":true}", "log_info: came more than once"},
    {"{\"log_info\" true}", "request body: expected ':' at byte 12"},
    {"{\"log_info\":true", "request body: expected ',' or '}' at byte 16"},
    {"{\"log_info\":true]", "request body: expected ',' or '}' at byte 16"},
    {"{\"log_info\":true,}", "request body: expected a string at byte 17"},
    {"{log_info:true}", "request body: expected a string at byte 1"},
    {"{} x", "request body: expected the end at byte 3"},
    {"[]", "request body: expected an object at byte 0"},
    {"null", "request body: expected an object at byte 0"},
    {"{", "request body: expected a string at byte 1"},
};

START_TEST(bad_request)
{
    struct ad_log_change change;
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(parse(bad_requests[_i].text, &change, &error), AD_INVALID);
    if (bad_requests[_i].message) {
        ck_assert_str_eq(error.message, bad_requests[_i].message);
    }
}
END_TEST

/* What GET says, POST takes. */
START_TEST(settings_as_json)
{
    const struct ad_log_settings settings = {"a.log", true, false,
                                             true,    7,    (enum ad_log_style)_i};
    struct ad_buffer out;
    ad_buffer_init(&out);
    struct ad_json json = ad_json_to(&out);
    ad_logging_write(&json, &settings);
    ck_assert(ad_json_ok(&json));
    struct ad_log_change change;
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(parse(out.data, &change, &error), AD_OK);
    ck_assert_uint_eq(change.given, ALL);
    assert_settings(&change.to, &settings);
    json_t *root = written(&out);
    ck_assert_uint_eq(json_object_size(root), 6);
    json_decref(root);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("operators");
    TCase *tcase = tcase_create("operators");
    tcase_add_loop_test(tcase, timing, 0, sizeof timings / sizeof timings[0]);
    tcase_add_loop_test(tcase, request_id, 0, sizeof request_ids / sizeof request_ids[0]);
    tcase_add_test(tcase, request_ids_differ);
    tcase_add_test(tcase, own_process);
    tcase_add_test(tcase, other_process);
    tcase_add_test(tcase, statistics);
    tcase_add_loop_test(tcase, good_request, 0,
                        sizeof good_requests / sizeof good_requests[0]);
    tcase_add_loop_test(tcase, bad_request, 0,
                        sizeof bad_requests / sizeof bad_requests[0]);
    tcase_add_loop_test(tcase, settings_as_json, 0, 3);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
