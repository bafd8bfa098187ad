/* exposition.h - metrics as Prometheus reads them, in either of its text formats.
 *
 *     struct ad_exposition page = ad_exposition_to(&buffer, AD_OPENMETRICS_1_0);
 *     ad_exposition_family(&page, AD_METRIC_COUNTER, "attentiond_passes", "Passes made.");
 *     ad_exposition_integer(&page, labels, 2, n);
 *     ok = ad_exposition_end(&page);
 *
 * The samples of a family come right after it; one without samples leaves no trace. A failure (out of
 * memory) sticks, so only the end needs a check. Owner: the caller; not shared between threads. */
#ifndef AD_HTTP_EXPOSITION_H
#define AD_HTTP_EXPOSITION_H

#include "base/buffer.h"
#include "base/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ad_exposition_format { AD_PROMETHEUS_0_0_4, AD_OPENMETRICS_1_0 };

/* The format for a client that sent this header Accept (NULL: none). */
enum ad_exposition_format ad_exposition_negotiate(const char *accept);

const char *ad_exposition_content_type(enum ad_exposition_format format); /* static */

enum ad_metric_type {
    AD_METRIC_COUNTER, /* its samples end in _total */
    AD_METRIC_GAUGE,
    AD_METRIC_HISTOGRAM,
    AD_METRIC_INFO, /* its samples end in _info and are 1 */
    AD_METRIC_BARE_COUNTER /* a name of others, without _total; OpenMetrics cannot call it a counter */
};

struct ad_label {
    const char *name;  /* a constant */
    const char *value; /* any text; bytes that are not UTF-8 become U+FFFD */
};

struct ad_exposition {
    struct ad_buffer *out; /* borrowed */
    enum ad_exposition_format format;
    enum ad_metric_type type; /* of the family, as are the next two */
    const char *name;
    const char *help;
    bool headed; /* it has a sample */
    bool failed;
};

struct ad_exposition ad_exposition_to(struct ad_buffer *out,
                                      enum ad_exposition_format format);

/* name without _total or _info, with its unit (_seconds, _bytes) where it has one; help is one
 * sentence. Both live as long as the family. */
void ad_exposition_family(struct ad_exposition *page, enum ad_metric_type type,
                          const char *name, const char *help);

/* One sample: an integer, or a number of nanoseconds as seconds. */
void ad_exposition_integer(struct ad_exposition *page, const struct ad_label *labels,
                           size_t n_labels, uint64_t value);
void ad_exposition_seconds(struct ad_exposition *page, const struct ad_label *labels,
                           size_t n_labels, uint64_t ns);

/* All samples of a histogram with these labels; of durations in seconds, or of plain numbers. */
void ad_exposition_histogram(struct ad_exposition *page, const struct ad_label *labels,
                             size_t n_labels, const struct ad_histogram *histogram,
                             bool durations);

/* Close the text; false when memory ran out. */
bool ad_exposition_end(struct ad_exposition *page) AD_MUST_CHECK;

#endif
