/* test_trace.c - trace context as the standard reads it, and lines that hold to OTLP's JSON. */
#include "base/clock.h"
#include "base/trace.h"
#include "base/trace_line.h"
#include "unit/base/fail_allocation.h"
#include "unit/support.h"

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"
#define ZERO16 "0000000000000000"

/* ---- the header ------------------------------------------------------------ */

static const struct {
    const char *text;
    bool valid;
    unsigned flags;
} headers[] = {
    {"00-" TRACE "-" SPAN "-01", true, 1},
    {"00-" TRACE "-" SPAN "-00", true, 0},
    {"00-" TRACE "-" SPAN "-ff", true, 0xff},
    {"00-" TRACE "-" SPAN "-02", true, 2},
    {"00-" TRACE "-" SPAN "-01 \t", true, 1},
    {"01-" TRACE "-" SPAN "-01", true, 1},
    {"cc-" TRACE "-" SPAN "-01-what-comes", true, 1},
    {"fe-" TRACE "-" SPAN "-01-", true, 1},
    {"00-00000000000000000000000000000001-0000000000000001-01", true, 1},
    {NULL, false, 0},
    {"", false, 0},
    {"00", false, 0},
    {"00-" TRACE "-" SPAN, false, 0},
    {"00-" TRACE "-" SPAN "-", false, 0},
    {"00-" TRACE "-" SPAN "-1", false, 0},
    {"00-" TRACE "-" SPAN "-011", false, 0},
    {"00-" TRACE "-" SPAN "-01-", false, 0},
    {"00-" TRACE "-" SPAN "-01-more", false, 0},
    {"01-" TRACE "-" SPAN "-01.more", false, 0},
    {"01-" TRACE "-" SPAN "-011", false, 0},
    {"ff-" TRACE "-" SPAN "-01", false, 0},
    {"0-" TRACE "-" SPAN "-01", false, 0},
    {"0g-" TRACE "-" SPAN "-01", false, 0},
    {" 00-" TRACE "-" SPAN "-01", false, 0},
    {"00-" TRACE "-" SPAN "-01 x", false, 0},
    {"00-" ZERO16 ZERO16 "-" SPAN "-01", false, 0},
    {"00-" TRACE "-" ZERO16 "-01", false, 0},
    {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01", false, 0},
    {"00-" TRACE "-00F067AA0BA902B7-01", false, 0},
    {"00-" TRACE "-" SPAN "-0A", false, 0},
    {"00-" TRACE "-" SPAN "-0.", false, 0},
    {"00_" TRACE "-" SPAN "-01", false, 0},
    {"00-" TRACE "_" SPAN "-01", false, 0},
    {"00-" TRACE "-" SPAN "_01", false, 0},
    {"00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "-001", false, 0},
    {"00-4bf92f3577b34da6a3ce929d0e0e473.-" SPAN "-01", false, 0},
    {"00-" TRACE "-00f067aa0ba902b.-01", false, 0},
};

START_TEST(test_header)
{
    static const uint8_t trace_id[] = {0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6,
                                       0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36};
    static const uint8_t span_id[] = {0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7};
    struct ad_trace trace;
    ck_assert_msg(ad_trace_parse(headers[_i].text, &trace) == headers[_i].valid, "%s",
                  headers[_i].text);
    if (headers[_i].valid) {
        ck_assert_uint_eq(trace.flags, headers[_i].flags);
        ck_assert_int_eq(ad_trace_sampled(&trace), headers[_i].flags & 1);
    }
    if (headers[_i].valid && strstr(headers[_i].text, TRACE)) {
        ck_assert_mem_eq(trace.trace_id, trace_id, sizeof trace_id);
        ck_assert_mem_eq(trace.span_id, span_id, sizeof span_id);
    }
}
END_TEST

/* ---- lines ----------------------------------------------------------------- */

static const struct ad_times whole = {.begun_ns = 1000,
                                      .queued_ns = 1001,
                                      .decoding_ns = 1010,
                                      .decoded_ns = 1100,
                                      .computing_ns = 2000,
                                      .computed_ns = 3000,
                                      .encoded_ns = 4000,
                                      .replied_ns = 5000};

static struct ad_span_record record_of(const struct ad_times *times)
{
    return (struct ad_span_record){.method = "POST",
                                   .route = "/v2/models/{model}/infer",
                                   .model = "sp\"e\\e\x01h\xff",
                                   .version = "1",
                                   .request_id = "abc",
                                   .status = 200,
                                   .batch_size = 3,
                                   .times = times};
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    ck_assert_msg(text != NULL, "no text '%s'", name);
    return text;
}

static void assert_hex(const char *text, size_t n)
{
    ck_assert_uint_eq(strlen(text), n);
    ck_assert_uint_eq(strspn(text, "0123456789abcdef"), n);
    ck_assert_uint_lt(strspn(text, "0"), n);
}

/* 64-bit integers are decimal strings. */
static long long integer_of(const json_t *object, const char *name)
{
    const char *text = text_of(object, name);
    ck_assert_uint_eq(strspn(text, "0123456789"), strlen(text));
    return strtoll(text, NULL, 10);
}

/* The spans of a line, which must be as OTLP wants it. */
static json_t *parse_line(const char *line, json_t **root)
{
    json_error_t fault;
    *root = json_loads(line, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(*root != NULL, "%s: %s", fault.text, line);
    json_t *resource_spans = json_object_get(*root, "resourceSpans");
    ck_assert_uint_eq(json_object_size(*root), 1);
    ck_assert_uint_eq(json_array_size(resource_spans), 1);
    json_t *first = json_array_get(resource_spans, 0);
    json_t *attributes =
        json_object_get(json_object_get(first, "resource"), "attributes");
    ck_assert_str_eq(text_of(json_array_get(attributes, 0), "key"), "service.name");
    ck_assert_str_eq(
        text_of(json_object_get(json_array_get(attributes, 0), "value"), "stringValue"),
        "attentiond");
    json_t *scopes = json_object_get(first, "scopeSpans");
    ck_assert_uint_eq(json_array_size(scopes), 1);
    json_t *scope = json_array_get(scopes, 0);
    ck_assert_str_eq(text_of(json_object_get(scope, "scope"), "name"), "attentiond");
    json_t *spans = json_object_get(scope, "spans");
    for (size_t i = 0; i < json_array_size(spans); i++) {
        json_t *span = json_array_get(spans, i);
        assert_hex(text_of(span, "traceId"), 32);
        assert_hex(text_of(span, "spanId"), 16);
        ck_assert_int_eq(json_integer_value(json_object_get(span, "kind")),
                         i == 0 ? 2 : 1);
        ck_assert_int_le(integer_of(span, "startTimeUnixNano"),
                         integer_of(span, "endTimeUnixNano"));
    }
    return spans;
}

static const json_t *attribute(const json_t *span, const char *key)
{
    json_t *attributes = json_object_get(span, "attributes");
    for (size_t i = 0; i < json_array_size(attributes); i++) {
        json_t *one = json_array_get(attributes, i);
        if (strcmp(text_of(one, "key"), key) == 0) {
            ck_assert_uint_eq(json_object_size(json_object_get(one, "value")), 1);
            return json_object_get(one, "value");
        }
    }
    ck_abort_msg("no attribute %s", key);
}

static const struct ad_trace_ids some_ids = {.trace = {1},
                                             .spans = {{1}, {2}, {3}, {4}, {5}, {6}}};

/* The line of a record, parsed. */
static json_t *line_of(const struct ad_span_record *record, int64_t offset_ns,
                       json_t **root)
{
    struct ad_buffer line;
    ad_buffer_init(&line);
    ck_assert(ad_trace_append_line(&line, record, &some_ids, offset_ns));
    ck_assert_uint_eq(strcspn(line.data, "\n"), line.size - 1);
    json_t *spans = parse_line(line.data, root);
    ad_buffer_reset(&line);
    return spans;
}

START_TEST(test_line)
{
    static const struct {
        const char *name;
        long long begun, ended;
    } stages[] = {{"POST /v2/models/{model}/infer", 1000, 5000},
                  {"queue", 1001, 1010},
                  {"decode", 1010, 1100},
                  {"batch", 1100, 2000},
                  {"compute", 2000, 3000},
                  {"encode", 3000, 4000}};
    const long long offset = 1796025600000000000;
    struct ad_span_record record = record_of(&whole);
    json_t *root = NULL;
    json_t *spans = line_of(&record, offset, &root);
    ck_assert_uint_eq(json_array_size(spans), 6);
    json_t *first = json_array_get(spans, 0);
    for (size_t i = 0; i < 6; i++) {
        json_t *span = json_array_get(spans, i);
        ck_assert_str_eq(text_of(span, "name"), stages[i].name);
        ck_assert_int_eq(integer_of(span, "startTimeUnixNano"), offset + stages[i].begun);
        ck_assert_int_eq(integer_of(span, "endTimeUnixNano"), offset + stages[i].ended);
        ck_assert_str_eq(text_of(span, "traceId"), "01" ZERO16 "00000000000000");
        if (i == 0) {
            ck_assert_ptr_null(json_object_get(span, "parentSpanId"));
        } else {
            ck_assert_str_eq(text_of(span, "parentSpanId"), text_of(first, "spanId"));
        }
    }
    ck_assert_str_eq(text_of(attribute(first, "attentiond.model"), "stringValue"),
                     "sp\"e\\e h\xef\xbf\xbd");
    ck_assert_str_eq(text_of(attribute(first, "attentiond.version"), "stringValue"), "1");
    ck_assert_str_eq(text_of(attribute(first, "attentiond.request_id"), "stringValue"),
                     "abc");
    ck_assert_int_eq(
        integer_of(attribute(first, "http.response.status_code"), "intValue"), 200);
    ck_assert_int_eq(integer_of(attribute(first, "attentiond.batch_size"), "intValue"),
                     3);
    ck_assert_uint_eq(json_object_size(json_object_get(first, "status")), 0);
    json_decref(root);
}
END_TEST

START_TEST(test_line_of_a_caller)
{
    struct ad_trace parent;
    ck_assert(ad_trace_parse("00-" TRACE "-" SPAN "-01", &parent));
    struct ad_span_record record = record_of(&whole);
    record.parent = &parent;
    json_t *root = NULL;
    json_t *spans = line_of(&record, 0, &root);
    ck_assert_str_eq(text_of(json_array_get(spans, 0), "parentSpanId"), SPAN);
    for (size_t i = 0; i < json_array_size(spans); i++) {
        ck_assert_str_eq(text_of(json_array_get(spans, i), "traceId"), TRACE);
    }
    json_decref(root);
}
END_TEST

/* A refused request has no stages; one of ours at fault has an error. */
START_TEST(test_line_of_a_failure)
{
    static const struct ad_times refused = {
        .begun_ns = 1000, .queued_ns = 1500, .replied_ns = 2000};
    static const struct {
        unsigned status;
        bool error;
    } cases[] = {{400, false}, {404, false}, {499, false}, {500, true}, {503, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ad_span_record record = record_of(&refused);
        record.status = cases[i].status;
        json_t *root = NULL;
        json_t *spans = line_of(&record, 0, &root);
        ck_assert_uint_eq(json_array_size(spans), 1);
        json_t *code =
            json_object_get(json_object_get(json_array_get(spans, 0), "status"), "code");
        ck_assert_int_eq(json_integer_value(code), cases[i].error ? 2 : 0);
        json_decref(root);
    }
}
END_TEST

START_TEST(test_line_extremes)
{
    char longest[300];
    memset(longest, 'r', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    struct ad_span_record record = record_of(&whole);
    record.route = longest;
    record.method = longest;
    record.batch_size = UINT64_MAX;
    json_t *root = NULL;
    json_t *spans = line_of(&record, INT64_MAX, &root); /* a sum that overflows */
    ck_assert_int_eq(integer_of(json_array_get(spans, 0), "startTimeUnixNano"), 0);
    json_decref(root);
}
END_TEST

START_TEST(test_line_out_of_memory)
{
    struct ad_span_record record = record_of(&whole);
    for (long n = 1;; n++) {
        struct ad_buffer line;
        ad_buffer_init(&line);
        fail_allocation(n);
        bool ok = ad_trace_append_line(&line, &record, &some_ids, 0);
        bool failed = allocation_failed();
        ad_buffer_reset(&line);
        /* a buffer that cannot grow by half may still grow by what is needed */
        ck_assert(ok || failed);
        if (!failed) {
            break;
        }
    }
}
END_TEST

/* ---- the tracer ------------------------------------------------------------ */

struct scene {
    char folder[64];
    char path[96];
    struct ad_tracer *tracer;
};

static void set_up(struct scene *scene, uint64_t rate, const struct ad_log *log)
{
    struct ad_error error = {.status = AD_OK};
    strcpy(scene->folder, "/tmp/attentiond-trace-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scene->folder));
    snprintf(scene->path, sizeof scene->path, "%s/traces", scene->folder);
    ck_assert_int_eq(ad_tracer_open(scene->path, rate, log, &scene->tracer, &error),
                     AD_OK);
}

static void tear_down(struct scene *scene)
{
    ad_tracer_close(scene->tracer);
    unlink(scene->path);
    rmdir(scene->folder);
}

/* Check all lines of a file; their number. */
static int check_file(const char *path)
{
    static char line[65536];
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    int n = 0;
    for (; fgets(line, sizeof line, file); n++) {
        json_t *root = NULL;
        (void)parse_line(line, &root);
        json_decref(root);
    }
    fclose(file);
    return n;
}

START_TEST(test_wants)
{
    static const struct {
        uint64_t rate;
        int n_of_12, n_unsampled;
    } cases[] = {{0, 0, 0}, {1, 12, 12}, {3, 4, 4}, {12, 1, 1}, {100, 1, 1}};
    struct ad_trace sampled, unsampled;
    ck_assert(ad_trace_parse("00-" TRACE "-" SPAN "-01", &sampled));
    ck_assert(ad_trace_parse("00-" TRACE "-" SPAN "-00", &unsampled));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scene scene;
        for (int kind = 0; kind < 3; kind++) {
            const struct ad_trace *parents[] = {NULL, &unsampled, &sampled};
            const int wanted[] = {cases[i].n_of_12, cases[i].n_unsampled, 12};
            set_up(&scene, cases[i].rate, NULL);
            int n = 0;
            for (int j = 0; j < 12; j++) {
                n += ad_tracer_wants(scene.tracer, parents[kind]);
            }
            ck_assert_int_eq(n, wanted[kind]);
            tear_down(&scene);
        }
    }
    ck_assert(!ad_tracer_wants(NULL, &sampled));
    ad_tracer_close(NULL);
}
END_TEST

START_TEST(test_write)
{
    struct scene scene;
    struct ad_times times = {.begun_ns = ad_clock_now_ns()};
    times.replied_ns = times.begun_ns + 1000;
    struct ad_span_record record = record_of(&times);
    set_up(&scene, 1, NULL);
    ad_tracer_write(scene.tracer, &record);
    ad_tracer_write(scene.tracer, &record);
    ck_assert_int_eq(check_file(scene.path), 2);
    static char line[65536];
    FILE *file = fopen(scene.path, "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    json_t *root = NULL;
    json_t *spans = parse_line(line, &root);
    long long now_s = (long long)time(NULL);
    long long begun_s =
        integer_of(json_array_get(spans, 0), "startTimeUnixNano") / 1000000000;
    ck_assert(begun_s >= now_s - 5 && begun_s <= now_s + 1);
    /* ids are made anew */
    char first[17];
    strcpy(first, text_of(json_array_get(spans, 0), "spanId"));
    json_decref(root);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    spans = parse_line(line, &root);
    ck_assert_str_ne(text_of(json_array_get(spans, 0), "spanId"), first);
    json_decref(root);
    fclose(file);
    struct stat info;
    ck_assert_int_eq(stat(scene.path, &info), 0);
    ck_assert_int_eq(info.st_mode & 0137, 0);
    tear_down(&scene);
}
END_TEST

START_TEST(test_reopen)
{
    struct scene scene;
    struct ad_error error = {.status = AD_OK};
    struct ad_span_record record = record_of(&whole);
    char moved[128];
    set_up(&scene, 1, NULL);
    snprintf(moved, sizeof moved, "%s.1", scene.path);
    ad_tracer_write(scene.tracer, &record);
    ck_assert_int_eq(rename(scene.path, moved), 0);
    ck_assert_int_eq(ad_tracer_reopen(scene.tracer, &error), AD_OK);
    ad_tracer_write(scene.tracer, &record);
    ck_assert_int_eq(check_file(scene.path), 1);
    ck_assert_int_eq(check_file(moved), 1);
    unlink(scene.path);
    unlink(moved);
    ck_assert_int_eq(rmdir(scene.folder), 0);
    ck_assert_int_eq(ad_tracer_reopen(scene.tracer, &error), AD_INVALID);
    ad_tracer_write(scene.tracer, &record); /* to the old one */
    tear_down(&scene);
}
END_TEST

START_TEST(test_cannot_open)
{
    struct ad_tracer *tracer = NULL;
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_tracer_open("/nonexistent/x", 1, NULL, &tracer, &error),
                     AD_INVALID);
    ck_assert_ptr_null(tracer);
    ck_assert_ptr_nonnull(strstr(error.message, "/nonexistent/x"));
}
END_TEST

/* A pipe that nobody empties: lines are lost, that is logged once, and a reader that comes back finds
 * whole lines again. */
START_TEST(test_loss)
{
    struct scene scene;
    struct ad_error error = {.status = AD_OK};
    char log_path[] = "/tmp/attentiond-log-XXXXXX";
    struct ad_log log = {.level = AD_LOG_INFO, .fd = mkostemp(log_path, O_APPEND)};
    unlink(log_path);
    strcpy(scene.folder, "/tmp/attentiond-trace-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scene.folder));
    snprintf(scene.path, sizeof scene.path, "%s/traces", scene.folder);
    ck_assert_int_eq(mkfifo(scene.path, 0600), 0);
    int reader = open(scene.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(reader, 0);
    ck_assert_int_eq(ad_tracer_open(scene.path, 1, &log, &scene.tracer, &error), AD_OK);
    ck_assert_int_gt(fcntl(reader, F_SETPIPE_SZ, 4096), 0);
    struct ad_span_record record = record_of(&whole);
    for (int i = 0; i < 20; i++) {
        ad_tracer_write(scene.tracer, &record);
    }
    static char text[65536];
    ck_assert_int_gt(read(reader, text, sizeof text), 0);
    ad_tracer_write(scene.tracer, &record);
    ssize_t n = read(reader, text, sizeof text - 1);
    ck_assert_int_gt(n, 0);
    text[n] = '\0';
    const char *line = text[0] == '\n' ? text + 1 : text;
    json_t *root = NULL;
    (void)parse_line(line, &root);
    json_decref(root);
    n = pread(log.fd, text, sizeof text - 1, 0);
    ck_assert_int_gt(n, 0);
    text[n] = '\0';
    ck_assert_ptr_nonnull(strstr(text, "traces are lost"));
    ck_assert_uint_eq(strcspn(text, "\n"), (size_t)n - 1);
    close(reader);
    close(log.fd);
    tear_down(&scene);
}
END_TEST

/* A full disk takes a part of a line: the next one begins on a line of its own. */
START_TEST(test_torn_line)
{
    struct scene scene;
    struct ad_span_record record = record_of(&whole);
    set_up(&scene, 1, NULL);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit, all;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &all), 0);
    limit = all;
    limit.rlim_cur = 100;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ad_tracer_write(scene.tracer, &record);
    ad_tracer_write(scene.tracer, &record);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &all), 0);
    ad_tracer_write(scene.tracer, &record);
    static char text[65536];
    FILE *file = fopen(scene.path, "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ck_assert_int_eq(text[100], '\n');
    json_t *root = NULL;
    (void)parse_line(text + 101, &root);
    json_decref(root);
    tear_down(&scene);
}
END_TEST

#define N_THREADS 4
#define N_LINES 300

static void *write_lines(void *context)
{
    struct ad_span_record record = record_of(&whole);
    for (int i = 0; i < N_LINES; i++) {
        if (ad_tracer_wants(context, NULL)) {
            ad_tracer_write(context, &record);
        }
    }
    return NULL;
}

START_TEST(test_threads)
{
    struct scene scene;
    pthread_t threads[N_THREADS];
    set_up(&scene, 2, NULL);
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_lines, scene.tracer), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_int_eq(check_file(scene.path), N_THREADS * N_LINES / 2);
    tear_down(&scene);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace");
    TCase *tests = tcase_create("trace");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_header, 0, sizeof headers / sizeof headers[0]);
    tcase_add_test(tests, test_line);
    tcase_add_test(tests, test_line_of_a_caller);
    tcase_add_test(tests, test_line_of_a_failure);
    tcase_add_test(tests, test_line_extremes);
    tcase_add_test(tests, test_line_out_of_memory);
    tcase_add_test(tests, test_wants);
    tcase_add_test(tests, test_write);
    tcase_add_test(tests, test_reopen);
    tcase_add_test(tests, test_cannot_open);
    tcase_add_test(tests, test_loss);
    tcase_add_test(tests, test_torn_line);
    tcase_add_test(tests, test_threads);
    return support_run(suite);
}
