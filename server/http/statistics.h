/* statistics.h - one version of a model as the protocol's statistics extension shows it. */
#ifndef AD_HTTP_STATISTICS_H
#define AD_HTTP_STATISTICS_H

#include "base/stats.h"
#include "http/json_writer.h"

#include <stdint.h>

/* One element of "model_stats". */
void ad_statistics_write(struct ad_json *json, const char *model, const char *version,
                         uint64_t n_bytes, const struct ad_stats_view *stats);

#endif
