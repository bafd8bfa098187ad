/* exposition_check.h - a strict reader of Prometheus' text formats, for tests: it aborts the test at the
 * first line that breaks a rule. The rules are those of text 0.0.4 or of OpenMetrics 1.0, and those
 * that promtool has for our own names. */
#ifndef TESTS_UNIT_HTTP_EXPOSITION_CHECK_H
#define TESTS_UNIT_HTTP_EXPOSITION_CHECK_H

#include "base/utf8.h"
#include "unit/support.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_LINE 1024
#define CHECK_SERIES 8192

struct page_check {
    bool open; /* OpenMetrics */
    char family[CHECK_LINE];
    char type[32];
    size_t n_samples; /* of the family */
    size_t n_families;
    char *families[512];
    size_t n_series;
    char *series[CHECK_SERIES];
    /* The histogram that is being read. */
    char labels[CHECK_LINE]; /* without le; "-": none */
    double bound, count;
    int stage; /* 0: buckets, 1: +Inf was there, 2: count was */
};

static inline size_t name_length(const char *text, bool colons)
{
    size_t n =
        strspn(text, colons ? "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789_:"
                            : "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789_");
    return n > 0 && (text[0] < '0' || text[0] > '9') ? n : 0;
}

/* A number, all of the text. */
static inline double check_number(const char *text, const char *line)
{
    char *end = NULL;
    double value = strtod(text, &end);
    ck_assert_msg(end != text && *end == '\0' && !strpbrk(text, "xXn "),
                  "not a number '%s': %s", text, line);
    return value;
}

/* Take {a="b",...}; le, if it is there, goes to bound and the rest to labels. The length. */
static inline size_t check_labels(const char *text, const char *line,
                                  char labels[CHECK_LINE], char bound[CHECK_LINE])
{
    const char *at = text;
    labels[0] = bound[0] = '\0';
    if (*at != '{') {
        return 0;
    }
    do {
        const char *label = ++at;
        size_t n_name = name_length(at, false);
        ck_assert_msg(n_name > 0, "label name: %s", line);
        at += n_name;
        ck_assert_msg(at[0] == '=' && at[1] == '"', "label value: %s", line);
        for (at += 2; *at != '"'; at++) {
            ck_assert_msg(*at != '\0', "open label: %s", line);
            if (*at == '\\') {
                at++;
                ck_assert_msg(*at && strchr("\\\"n", *at), "escape: %s", line);
            }
        }
        at++;
        if (n_name == 2 && memcmp(label, "le", 2) == 0) {
            snprintf(bound, CHECK_LINE, "%.*s", (int)(at - label) - 5, label + 4);
        } else {
            char key[CHECK_LINE];
            size_t used = strlen(labels);
            snprintf(key, sizeof key, ",%.*s=", (int)n_name, label);
            ck_assert_msg(!strstr(labels, key), "label twice: %s", line);
            snprintf(labels + used, CHECK_LINE - used, ",%.*s", (int)(at - label), label);
        }
    } while (*at == ',');
    ck_assert_msg(*at == '}', "labels: %s", line);
    return (size_t)(at + 1 - text);
}

static inline void check_histogram(struct page_check *check, const char *suffix,
                                   const char *labels, const char *bound, double value,
                                   const char *line)
{
    if (strcmp(suffix, "_bucket") == 0) {
        if (strcmp(check->labels, labels) != 0 || check->stage == 3) {
            ck_assert_msg(check->stage == 3, "histogram cut short before: %s", line);
            snprintf(check->labels, sizeof check->labels, "%s", labels);
            check->bound = -1;
            check->count = 0;
            check->stage = 0;
        }
        ck_assert_msg(check->stage == 0, "bucket behind +Inf: %s", line);
        double upper = strcmp(bound, "+Inf") == 0 ? 1e300 : check_number(bound, line);
        ck_assert_msg(!check->open || strpbrk(bound, ".eI"), "bound: %s", line);
        ck_assert_msg(upper > check->bound, "bounds do not ascend: %s", line);
        ck_assert_msg(value >= check->count, "buckets fall: %s", line);
        check->bound = upper;
        check->count = value;
        check->stage = upper >= 1e300;
        return;
    }
    ck_assert_msg(strcmp(check->labels, labels) == 0 && bound[0] == '\0', "%s", line);
    if (strcmp(suffix, "_count") == 0) {
        ck_assert_msg(check->stage == 1 && value >= check->count && value <= check->count,
                      "count is not the last bucket: %s", line);
        check->stage = 2;
    } else {
        ck_assert_msg(strcmp(suffix, "_sum") == 0 && check->stage == 2, "%s", line);
        check->stage = 3;
    }
}

static inline void check_sample(struct page_check *check, const char *line)
{
    char labels[CHECK_LINE], bound[CHECK_LINE], series[CHECK_LINE];
    size_t n_family = strlen(check->family);
    size_t n_name = name_length(line, true);
    ck_assert_msg(n_name >= n_family && n_family > 0 &&
                      memcmp(line, check->family, n_family) == 0,
                  "outside of its family: %s", line);
    char suffix[CHECK_LINE];
    snprintf(suffix, sizeof suffix, "%.*s", (int)(n_name - n_family), line + n_family);
    size_t n = n_name + check_labels(line + n_name, line, labels, bound);
    ck_assert_msg(line[n] == ' ', "no value: %s", line);
    double value = check_number(line + n + 1, line);
    if (strcmp(check->type, "histogram") == 0) {
        check_histogram(check, suffix, labels, bound, value, line);
    } else {
        const char *expected = !check->open                          ? ""
                               : strcmp(check->type, "counter") == 0 ? "_total"
                               : strcmp(check->type, "info") == 0    ? "_info"
                                                                     : "";
        ck_assert_msg(strcmp(suffix, expected) == 0, "suffix: %s", line);
        ck_assert_msg(strcmp(check->type, "counter") != 0 || value >= 0, "%s", line);
    }
    snprintf(series, sizeof series, "%.*s", (int)n, line);
    ck_assert_uint_lt(check->n_series, CHECK_SERIES);
    check->series[check->n_series++] = strdup(series);
    check->n_samples++;
}

static inline void end_family(struct page_check *check, const char *line)
{
    ck_assert_msg(check->family[0] == '\0' || check->n_samples > 0,
                  "a family without samples before: %s", line);
    ck_assert_msg(check->stage == 3, "histogram cut short before: %s", line);
    strcpy(check->labels, "-");
}

static inline void check_type(struct page_check *check, const char *type)
{
    static const char *const plain[] = {"counter", "gauge", "histogram"};
    static const char *const open[] = {"counter", "gauge", "histogram", "info",
                                       "unknown"};
    bool known = false;
    for (size_t i = 0; i < (check->open ? 5U : 3U); i++) {
        known = known || strcmp(type, check->open ? open[i] : plain[i]) == 0;
    }
    ck_assert_msg(known && check->type[0] == '\0', "type %s of %s", type, check->family);
    snprintf(check->type, sizeof check->type, "%s", type);
    size_t n = strlen(check->family);
    bool total = n > 6 && strcmp(check->family + n - 6, "_total") == 0;
    bool ours = strncmp(check->family, "nv_", 3) != 0;
    if (ours) {
        ck_assert_msg(total == (!check->open && strcmp(type, "counter") == 0), "%s",
                      check->family);
    }
}

/* "# WORD name rest" */
static inline void check_comment(struct page_check *check, const char *line)
{
    char word[16], name[CHECK_LINE];
    int n = 0;
    ck_assert_msg(sscanf(line, "# %15s %1023s%n", word, name, &n) == 2 && line[n] == ' ',
                  "comment: %s", line);
    const char *rest = line + n + 1;
    ck_assert_msg(name_length(name, true) == strlen(name) && rest[0], "%s", line);
    if (strcmp(word, "HELP") == 0) {
        end_family(check, line);
        for (size_t i = 0; i < check->n_families; i++) {
            ck_assert_msg(strcmp(check->families[i], name) != 0, "again: %s", line);
        }
        check->families[check->n_families++] = strdup(name);
        strcpy(check->family, name);
        check->type[0] = '\0';
        check->n_samples = 0;
        return;
    }
    ck_assert_msg(strcmp(check->family, name) == 0 && check->n_samples == 0, "%s", line);
    if (strcmp(word, "TYPE") == 0) {
        check_type(check, rest);
        return;
    }
    size_t n_unit = strlen(rest);
    size_t n_name = strlen(name);
    ck_assert_msg(check->open && strcmp(word, "UNIT") == 0, "%s", line);
    ck_assert_msg(n_name > n_unit && strcmp(name + n_name - n_unit, rest) == 0 &&
                      name[n_name - n_unit - 1] == '_',
                  "unit: %s", line);
}

static inline int compare_series(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void check_series(struct page_check *check)
{
    qsort(check->series, check->n_series, sizeof check->series[0], compare_series);
    for (size_t i = 1; i < check->n_series; i++) {
        ck_assert_msg(strcmp(check->series[i - 1], check->series[i]) != 0, "twice: %s",
                      check->series[i]);
    }
    for (size_t i = 0; i < check->n_series; i++) {
        free(check->series[i]);
    }
    for (size_t i = 0; i < check->n_families; i++) {
        free(check->families[i]);
    }
}

static inline void check_page(const char *text, bool open)
{
    static struct page_check check;
    memset(&check, 0, sizeof check);
    check.open = open;
    check.stage = 3;
    bool ended = false;
    size_t n_left = strlen(text);
    ck_assert(n_left > 0 && text[n_left - 1] == '\n');
    for (size_t i = 0; i < n_left;) {
        size_t length = ad_utf8_length(text + i, n_left - i);
        ck_assert_uint_gt(length, 0);
        i += length;
    }
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1) {
        char line[CHECK_LINE];
        size_t n = strcspn(at, "\n");
        ck_assert_uint_lt(n, sizeof line);
        memcpy(line, at, n);
        line[n] = '\0';
        ck_assert_msg(!ended && n > 0, "behind the end, or empty: '%s'", line);
        if (open && strcmp(line, "# EOF") == 0) {
            ended = true;
        } else if (line[0] == '#') {
            check_comment(&check, line);
        } else {
            check_sample(&check, line);
        }
    }
    ck_assert(ended == open);
    end_family(&check, "(the end)");
    check_series(&check);
}

#endif
