/* test_log.c - log lines: one write each, never torn or forged, always valid JSON; and the time in
 * front of them. */
#include "base/clock.h"
#include "base/log.h"
#include "unit/support.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LONGEST 65536

/* Log to a socket that keeps writes apart, and receive the first of them; it must be the last. */
static void log_once(struct ad_log log, const char *message,
                     const struct ad_log_field *fields, size_t n_fields,
                     char line[LONGEST])
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    log.fd = ends[0];
    ad_log_write(&log, AD_LOG_INFO, message, fields, n_fields);
    close(ends[0]);
    ssize_t n = recv(ends[1], line, LONGEST - 1, 0);
    ck_assert_int_gt(n, 0);
    line[n] = '\0';
    char more[16];
    ck_assert_int_eq(recv(ends[1], more, sizeof more, 0), 0);
    close(ends[1]);
    ck_assert_int_eq(line[n - 1], '\n');
    ck_assert_uint_eq(strcspn(line, "\n"), (size_t)n - 1);
}

static const struct ad_log text_log = {
    .level = AD_LOG_INFO, .format = AD_LOG_TEXT, .fd = -1};
static const struct ad_log json_log = {
    .level = AD_LOG_INFO, .format = AD_LOG_JSON, .fd = -1};

/* What follows the time, "2026-11-30T08:00:00.123Z ". */
static const char *after_time(const char *line)
{
    static const char pattern[] = "dddd-dd-ddTdd:dd:dd.dddZ ";
    for (size_t i = 0; pattern[i]; i++) {
        if (pattern[i] == 'd') {
            ck_assert_msg(line[i] >= '0' && line[i] <= '9', "no time in: %s", line);
        } else {
            ck_assert_int_eq(line[i], pattern[i]);
        }
    }
    return line + sizeof pattern - 1;
}

static json_t *parse(const char *line)
{
    json_error_t fault;
    json_t *root = json_loads(line, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(root != NULL, "%s: %s", fault.text, line);
    return root;
}

static void assert_member(json_t *root, const char *name, const char *value)
{
    const char *text = json_string_value(json_object_get(root, name));
    ck_assert_msg(text != NULL, "no text '%s'", name);
    ck_assert_str_eq(text, value);
}

START_TEST(test_text)
{
    const struct ad_log_field fields[] = {
        ad_log_text("model", "speech"), ad_log_number("bytes", 4096),
        ad_log_number("least", INT64_MIN), ad_log_text("none", NULL),
        ad_log_text("reason", "no \"weights\" here")};
    char line[LONGEST];
    log_once(text_log, "model loaded", fields, 5, line);
    ck_assert_str_eq(after_time(line), "INFO  model loaded model=speech bytes=4096 "
                                       "least=-9223372036854775808 none=\"\" "
                                       "reason=\"no \\\"weights\\\" here\"\n");
}
END_TEST

START_TEST(test_json)
{
    const struct ad_log_field fields[] = {ad_log_text("model", "sp\"e\\ech"),
                                          ad_log_number("bytes", -4096)};
    char line[LONGEST];
    log_once(json_log, "model loaded", fields, 2, line);
    json_t *root = parse(line);
    assert_member(root, "level", "info");
    assert_member(root, "message", "model loaded");
    assert_member(root, "model", "sp\"e\\ech");
    ck_assert_int_eq(json_integer_value(json_object_get(root, "bytes")), -4096);
    ck_assert_uint_eq(json_string_length(json_object_get(root, "time")), 24);
    ck_assert_uint_eq(json_object_size(root), 5);
    json_decref(root);
}
END_TEST

START_TEST(test_no_forged_line)
{
    const char *evil = "x\n2026-11-30T08:00:00.123Z INFO  forged\r\x1b[2K\t\x7f\xc2\x9b"
                       "\xe2\x80\xae"
                       "drow\xe2\x80\xa8\xd8\x9c";
    const struct ad_log_field field = ad_log_text("path", evil);
    char line[LONGEST];
    log_once(text_log, "evil\nmessage", &field, 1, line);
    ck_assert_str_eq(after_time(line),
                     "INFO  evil\\nmessage "
                     "path=\"x\\n2026-11-30T08:00:00.123Z INFO  forged\\r\\u001b[2K"
                     "\\t\\u007f\\u009b\\u202edrow\\u2028\\u061c\"\n");
    log_once(json_log, "evil\nmessage", &field, 1, line);
    json_t *root = parse(line);
    assert_member(root, "path", evil);
    assert_member(root, "message", "evil\nmessage");
    json_decref(root);
}
END_TEST

START_TEST(test_text_quotes_when_needed)
{
    static const struct {
        const char *value, *written;
    } cases[] = {{"plain", "plain"},           {"a/b:c,d", "a/b:c,d"},
                 {"\xc3\xa9", "\xc3\xa9"},     {"a b", "\"a b\""},
                 {"a=b", "\"a=b\""},           {"\\", "\"\\\\\""},
                 {"\"", "\"\\\"\""},           {"\x01", "\"\\u0001\""},
                 {"\xff", "\"\xef\xbf\xbd\""}, {"\xe2\x80\x8f", "\"\\u200f\""}};
    const struct ad_log_field field = ad_log_text("v", cases[_i].value);
    char line[LONGEST], expected[64];
    log_once(text_log, "m", &field, 1, line);
    snprintf(expected, sizeof expected, "INFO  m v=%s\n", cases[_i].written);
    ck_assert_str_eq(after_time(line), expected);
}
END_TEST

/* Every byte, alone and before a letter, and every pair of a lead byte with another one. */
START_TEST(test_json_of_all_bytes)
{
    for (int first = 1; first < 256; first++) {
        for (int second = 1; second < 256; second += first < 0x80 ? 127 : 1) {
            char value[] = {(char)first, (char)second, 'z', '\0'};
            const struct ad_log_field field = ad_log_text("v", value);
            char line[LONGEST];
            log_once(json_log, "m", &field, 1, line);
            json_decref(parse(line));
        }
    }
}
END_TEST

START_TEST(test_long_value_is_cut)
{
    char value[10000];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(value, 'x', sizeof value);
        for (size_t i = shift; i + 2 < sizeof value; i += 2) {
            memcpy(value + i, "\xc3\xa9", 2);
        }
        value[sizeof value - 1] = '\0';
        const struct ad_log_field fields[] = {ad_log_text("v", value),
                                              ad_log_text("after", "there")};
        char line[LONGEST];
        log_once(json_log, value, fields, 2, line);
        json_t *root = parse(line);
        const char *text = json_string_value(json_object_get(root, "v"));
        size_t n = strlen(text);
        ck_assert_uint_le(n, 2048 + 3);
        ck_assert_uint_ge(n, 2048);
        ck_assert_str_eq(text + n - 3, "\xe2\x80\xa6");
        assert_member(root, "after", "there");
        json_decref(root);
    }
}
END_TEST

START_TEST(test_too_many_fields)
{
    char value[3000];
    memset(value, '\x01', sizeof value); /* six bytes each */
    value[sizeof value - 1] = '\0';
    struct ad_log_field fields[40];
    char names[40][8];
    for (size_t i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "n%zu", i);
        fields[i] = ad_log_text(names[i], value);
    }
    char line[LONGEST];
    log_once(json_log, "m", fields, 40, line);
    json_t *root = parse(line);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "fields_cut")), 1);
    ck_assert_uint_gt(json_object_size(root), 14);
    json_decref(root);
    log_once(text_log, "m", fields, 40, line);
    ck_assert_ptr_nonnull(strstr(line, "\" fields_cut=1\n"));
}
END_TEST

START_TEST(test_levels)
{
    static const char *const words[] = {"ERROR ", "WARN  ", "INFO  ", "DEBUG "};
    for (enum ad_log_level limit = AD_LOG_ERROR; limit <= AD_LOG_DEBUG; limit++) {
        char path[] = "/tmp/attentiond-log-XXXXXX";
        int fd = mkstemp(path);
        ck_assert_int_ge(fd, 0);
        unlink(path);
        const struct ad_log log = {.level = limit, .format = AD_LOG_TEXT, .fd = fd};
        for (enum ad_log_level level = AD_LOG_ERROR; level <= AD_LOG_DEBUG; level++) {
            ad_log_write(&log, level, "m", NULL, 0);
        }
        char text[1024];
        ssize_t n = pread(fd, text, sizeof text - 1, 0);
        ck_assert_int_gt(n, 0);
        text[n] = '\0';
        char *rest = text;
        for (enum ad_log_level level = AD_LOG_ERROR; level <= limit; level++) {
            char *line = strsep(&rest, "\n");
            ck_assert(strncmp(after_time(line), words[level], 6) == 0);
        }
        ck_assert_str_eq(rest, "");
        close(fd);
    }
    ad_log_write(NULL, AD_LOG_ERROR, "m", NULL, 0);
}
END_TEST

START_TEST(test_errno_stays)
{
    const struct ad_log log = {.level = AD_LOG_INFO, .format = AD_LOG_TEXT, .fd = -1};
    errno = ERANGE;
    ad_log_write(&log, AD_LOG_INFO, "m", NULL, 0);
    ck_assert_int_eq(errno, ERANGE);
}
END_TEST

/* Read to the end, slowly at first. */
static void *drain(void *context)
{
    int fd = *(int *)context;
    static char text[LONGEST];
    size_t size = 0;
    for (ssize_t n; (n = read(fd, text + size, 512)) > 0; size += (size_t)n) {
        usleep(200);
    }
    text[size] = '\0';
    return text;
}

START_TEST(test_partial_writes)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_gt(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
    ck_assert_int_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    pthread_t reader;
    ck_assert_int_eq(pthread_create(&reader, NULL, drain, &ends[0]), 0);
    char value[2000];
    memset(value, 'v', sizeof value);
    value[sizeof value - 1] = '\0';
    struct ad_log_field fields[10];
    for (size_t i = 0; i < 10; i++) {
        fields[i] = ad_log_text("v", value);
    }
    const struct ad_log log = {
        .level = AD_LOG_INFO, .format = AD_LOG_TEXT, .fd = ends[1]};
    ad_log_write(&log, AD_LOG_INFO, "first", fields, 10);
    ad_log_write(&log, AD_LOG_INFO, "second", NULL, 0);
    close(ends[1]);
    void *text;
    pthread_join(reader, &text);
    const char *second = strchr(text, '\n') + 1;
    ck_assert_int_eq(second - (char *)text, 24 + 7 + 5 + 10 * (3 + 1999) + 1);
    ck_assert_str_eq(after_time(second), "INFO  second\n");
    close(ends[0]);
}
END_TEST

#define N_THREADS 4
#define N_LINES 200

static void *write_lines(void *context)
{
    const struct ad_log *log = context;
    for (int64_t i = 0; i < N_LINES; i++) {
        const struct ad_log_field fields[] = {ad_log_number("i", i),
                                              ad_log_text("text", "a \"b\"\n")};
        ad_log_write(log, AD_LOG_INFO, "from a thread", fields, 2);
    }
    return NULL;
}

START_TEST(test_threads)
{
    char path[] = "/tmp/attentiond-log-XXXXXX";
    int fd = mkostemp(path, O_APPEND);
    ck_assert_int_ge(fd, 0);
    struct ad_log log = {.level = AD_LOG_INFO, .format = AD_LOG_JSON, .fd = fd};
    pthread_t threads[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_lines, &log), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    char line[1024];
    int n = 0;
    for (; fgets(line, sizeof line, file); n++) {
        json_t *root = parse(line);
        assert_member(root, "text", "a \"b\"\n");
        json_decref(root);
    }
    ck_assert_int_eq(n, N_THREADS * N_LINES);
    fclose(file);
    close(fd);
    unlink(path);
}
END_TEST

START_TEST(test_utc)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{0, "1970-01-01T00:00:00.000Z"},
                 {-5, "1970-01-01T00:00:00.000Z"},
                 {951782399999, "2000-02-28T23:59:59.999Z"},
                 {951782400000, "2000-02-29T00:00:00.000Z"},
                 {4107542400000, "2100-03-01T00:00:00.000Z"},
                 {1796025600123, "2026-11-30T08:00:00.123Z"},
                 {253402300799999, "9999-12-31T23:59:59.999Z"}};
    char text[AD_CLOCK_UTC_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ad_clock_utc(cases[i].ms, text);
        ck_assert_str_eq(text, cases[i].text);
    }
    for (int64_t day = 0; day < 200000; day += 13) {
        time_t seconds = (time_t)(day * 86400 + day % 86400);
        struct tm parts;
        gmtime_r(&seconds, &parts);
        char expected[AD_CLOCK_UTC_SIZE];
        strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S.007Z", &parts);
        ad_clock_utc((int64_t)seconds * 1000 + 7, text);
        ck_assert_str_eq(text, expected);
    }
    ad_clock_utc(INT64_MAX, text); /* within its array */
}
END_TEST

START_TEST(test_clocks)
{
    int64_t before = ad_clock_now_ns();
    usleep(2000);
    int64_t passed = ad_clock_now_ns() - before;
    ck_assert_int_ge(passed, 2000000);
    int64_t off = ad_clock_unix_ms() / 1000 - (int64_t)time(NULL);
    ck_assert(off >= -2 && off <= 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tests = tcase_create("log");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_text);
    tcase_add_test(tests, test_json);
    tcase_add_test(tests, test_no_forged_line);
    tcase_add_loop_test(tests, test_text_quotes_when_needed, 0, 10);
    tcase_add_test(tests, test_json_of_all_bytes);
    tcase_add_test(tests, test_long_value_is_cut);
    tcase_add_test(tests, test_too_many_fields);
    tcase_add_test(tests, test_levels);
    tcase_add_test(tests, test_errno_stays);
    tcase_add_test(tests, test_partial_writes);
    tcase_add_test(tests, test_threads);
    tcase_add_test(tests, test_utc);
    tcase_add_test(tests, test_clocks);
    return support_run(suite);
}
