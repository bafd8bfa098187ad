/* exposition.c - metrics as Prometheus reads them. Owner: the caller; no thread of its own. */
#include "http/exposition.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_SIZE 40
#define NANO_DIGITS 9
#define NS_PER_S UINT64_C(1000000000)

const char *ad_exposition_content_type(enum ad_exposition_format format)
{
    switch (format) {
    case AD_PROMETHEUS_0_0_4:
        break;
    case AD_OPENMETRICS_1_0:
        return "application/openmetrics-text; version=1.0.0; charset=utf-8";
    }
    return "text/plain; version=0.0.4; charset=utf-8";
}

struct ad_exposition ad_exposition_to(struct ad_buffer *out,
                                      enum ad_exposition_format format)
{
    return (struct ad_exposition){.out = out, .format = format};
}

static void put(struct ad_exposition *page, const char *bytes, size_t n)
{
    page->failed = page->failed || !ad_buffer_append(page->out, bytes, n);
}

static void put_text(struct ad_exposition *page, const char *text)
{
    put(page, text, strlen(text));
}

/* What stands for the character at text, of so many bytes (0: it is not UTF-8); NULL: itself. Newlines and
 * backslashes are escaped everywhere, quotes where the format wants it. */
static const char *replacement(const char *text, size_t length, bool quotes)
{
    if (length == 0) {
        return "\xef\xbf\xbd"; /* U+FFFD */
    }
    return *text == '\n'            ? "\\n"
           : *text == '\\'          ? "\\\\"
           : quotes && *text == '"' ? "\\\""
                                    : NULL;
}

static void put_escaped(struct ad_exposition *page, const char *text, bool quotes)
{
    size_t n = strlen(text);
    size_t from = 0; /* of what is still to be put */
    for (size_t i = 0; i < n;) {
        size_t length = ad_utf8_length(text + i, n - i);
        const char *instead = replacement(text + i, length, quotes);
        if (instead) {
            put(page, text + from, i - from);
            put_text(page, instead);
        }
        i += length > 0 ? length : 1;
        from = instead ? i : from;
    }
    put(page, text + from, n - from);
}

/* ---- numbers: exact, and the same in every locale ----------------------------- */

/* In decimal; with a NUL. */
static void write_integer(uint64_t number, char text[NUMBER_SIZE])
{
    char digits[NUMBER_SIZE];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    for (size_t i = 0; i < n; i++) {
        text[i] = digits[n - 1 - i];
    }
    text[n] = '\0';
}

/* ns as seconds, in the digits that it takes; true when it is a whole number of them. */
static bool write_seconds(uint64_t ns, char text[NUMBER_SIZE])
{
    uint64_t fraction = ns % NS_PER_S;
    snprintf(text, NUMBER_SIZE, "%" PRIu64 ".%09" PRIu64, ns / NS_PER_S, fraction);
    size_t n = strlen(text);
    while (text[n - 1] == '0' || text[n - 1] == '.') {
        bool point = text[n - 1] == '.';
        text[--n] = '\0';
        if (point) {
            break; /* the zeros before it are part of the number */
        }
    }
    return fraction == 0;
}

/* A bound of a bucket is a label, so it has to be spelled as every Prometheus client spells it: below
 * 0.0001 with an exponent, an integer with ".0". */
static void write_bound(int64_t bound, bool durations, char text[NUMBER_SIZE])
{
    if (!durations) {
        snprintf(text, NUMBER_SIZE, "%" PRId64 ".0", bound);
        return;
    }
    if (bound >= 100000) {
        if (write_seconds((uint64_t)bound, text)) {
            memcpy(text + strlen(text), ".0", sizeof ".0");
        }
        return;
    }
    char digits[NUMBER_SIZE];
    int n = snprintf(digits, sizeof digits, "%" PRId64, bound);
    int exponent = NANO_DIGITS + 1 - n;
    while (n > 1 && digits[n - 1] == '0') {
        n--;
    }
    snprintf(text, NUMBER_SIZE, "%c%s%.*se-%02d", digits[0], n > 1 ? "." : "", n - 1,
             digits + 1, exponent);
}

/* ---- families ---------------------------------------------------------------- */

void ad_exposition_family(struct ad_exposition *page, enum ad_metric_type type,
                          const char *name, const char *help)
{
    page->type = type;
    page->name = name;
    page->help = help;
    page->headed = false;
}

static const char *type_text(enum ad_metric_type type, enum ad_exposition_format format)
{
    bool open = format == AD_OPENMETRICS_1_0;
    switch (type) {
    case AD_METRIC_COUNTER:
        break;
    case AD_METRIC_GAUGE:
        return "gauge";
    case AD_METRIC_HISTOGRAM:
        return "histogram";
    case AD_METRIC_INFO:
        return open ? "info" : "gauge";
    case AD_METRIC_BARE_COUNTER:
        return open ? "unknown" : "counter";
    }
    return "counter";
}

/* What a sample's name has beyond its family's. */
static const char *type_suffix(enum ad_metric_type type)
{
    return type == AD_METRIC_COUNTER ? "_total" : type == AD_METRIC_INFO ? "_info" : "";
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t n_end = strlen(end);
    return n > n_end && strcmp(text + n - n_end, end) == 0;
}

static void put_heading(struct ad_exposition *page, const char *word, const char *suffix)
{
    put_text(page, "# ");
    put_text(page, word);
    put_text(page, " ");
    put_text(page, page->name);
    put_text(page, suffix);
    put_text(page, " ");
}

/* Before the first sample. OpenMetrics leaves the suffix to the samples, and knows units. */
static void put_head(struct ad_exposition *page)
{
    bool open = page->format == AD_OPENMETRICS_1_0;
    const char *suffix = open ? "" : type_suffix(page->type);
    if (page->headed) {
        return;
    }
    page->headed = true;
    put_heading(page, "HELP", suffix);
    put_escaped(page, page->help, open);
    put_text(page, "\n");
    put_heading(page, "TYPE", suffix);
    put_text(page, type_text(page->type, page->format));
    put_text(page, "\n");
    const char *unit = ends_in(page->name, "_seconds") ? "seconds"
                       : ends_in(page->name, "_bytes") ? "bytes"
                                                       : NULL;
    if (open && unit) {
        put_heading(page, "UNIT", suffix);
        put_text(page, unit);
        put_text(page, "\n");
    }
}

/* ---- samples ----------------------------------------------------------------- */

static void put_label(struct ad_exposition *page, const char *name, const char *value,
                      bool first)
{
    put_text(page, first ? "{" : ",");
    put_text(page, name);
    put_text(page, "=\"");
    put_escaped(page, value, true);
    put_text(page, "\"");
}

/* bound NULL: no label le. */
static void put_sample(struct ad_exposition *page, const char *suffix,
                       const struct ad_label *labels, size_t n_labels, const char *bound,
                       const char *value)
{
    put_head(page);
    put_text(page, page->name);
    put_text(page, suffix);
    for (size_t i = 0; i < n_labels; i++) {
        put_label(page, labels[i].name, labels[i].value, i == 0);
    }
    if (bound) {
        put_label(page, "le", bound, n_labels == 0);
    }
    put_text(page, bound || n_labels > 0 ? "} " : " ");
    put_text(page, value);
    put_text(page, "\n");
}

void ad_exposition_integer(struct ad_exposition *page, const struct ad_label *labels,
                           size_t n_labels, uint64_t value)
{
    char text[NUMBER_SIZE];
    write_integer(value, text);
    put_sample(page, type_suffix(page->type), labels, n_labels, NULL, text);
}

void ad_exposition_seconds(struct ad_exposition *page, const struct ad_label *labels,
                           size_t n_labels, uint64_t ns)
{
    char text[NUMBER_SIZE];
    (void)write_seconds(ns, text);
    put_sample(page, type_suffix(page->type), labels, n_labels, NULL, text);
}

void ad_exposition_histogram(struct ad_exposition *page, const struct ad_label *labels,
                             size_t n_labels, const struct ad_histogram *histogram,
                             bool durations)
{
    const int64_t *bounds = durations ? ad_duration_bounds_ns : ad_size_bounds;
    char bound[NUMBER_SIZE], value[NUMBER_SIZE];
    uint64_t count = 0;
    for (size_t i = 0; i <= AD_HISTOGRAM_BUCKETS; i++) {
        count += histogram->counts[i];
        if (i < AD_HISTOGRAM_BUCKETS) {
            write_bound(bounds[i], durations, bound);
        } else {
            memcpy(bound, "+Inf", sizeof "+Inf");
        }
        write_integer(count, value);
        put_sample(page, "_bucket", labels, n_labels, bound, value);
    }
    put_sample(page, "_count", labels, n_labels, NULL, value);
    if (durations) {
        (void)write_seconds(histogram->sum, value);
    } else {
        write_integer(histogram->sum, value);
    }
    put_sample(page, "_sum", labels, n_labels, NULL, value);
}

bool ad_exposition_end(struct ad_exposition *page)
{
    if (page->format == AD_OPENMETRICS_1_0) {
        put_text(page, "# EOF\n");
    }
    return !page->failed;
}
