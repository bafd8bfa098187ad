/* metrics.h - everything that GET /metrics says. */
#ifndef AD_HTTP_METRICS_H
#define AD_HTTP_METRICS_H

#include "base/buffer.h"
#include "base/stats.h"
#include "http/exposition.h"
#include "http/operators.h"
#include "http/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One version of a model. */
struct ad_metrics_version {
    const char *model, *version;
    bool loaded;      /* false: what follows is nothing */
    uint64_t n_bytes; /* of its parameters */
    int64_t load_ns;
    struct ad_stats_view stats;
};

/* All of it is borrowed. */
struct ad_metrics {
    const char *build; /* our version */
    const struct ad_process *process;
    const struct ad_gauges *gauges;
    const struct ad_counts *counts;
    const struct ad_metrics_version *versions; /* no two alike */
    size_t n_versions;
    bool triton; /* the names that Triton has too */
};

/* Append the page; false when memory ran out. */
bool ad_metrics_write(struct ad_buffer *out, enum ad_exposition_format format,
                      const struct ad_metrics *metrics) AD_MUST_CHECK;

#endif
