/* trace_line.h - one request as a line of OTLP JSON. */
#ifndef AD_BASE_TRACE_LINE_H
#define AD_BASE_TRACE_LINE_H

#include "base/buffer.h"
#include "base/trace.h"

#include <stdbool.h>
#include <stdint.h>

/* Spans of one line: the request's, then queue, decode, batch, compute, encode. */
#define AD_TRACE_SPANS 6

/* What a line needs besides its record. */
struct ad_trace_ids {
    uint8_t trace[AD_TRACE_ID_BYTES]; /* for a record without a parent */
    uint8_t spans[AD_TRACE_SPANS][AD_SPAN_ID_BYTES];
};

/* Append the line, with its newline; offset_ns is what has to be added to the times of the record to
 * make them nanoseconds since 1970. False when out of memory: the line is then not whole. */
bool ad_trace_append_line(struct ad_buffer *out, const struct ad_span_record *record,
                          const struct ad_trace_ids *ids,
                          int64_t offset_ns) AD_MUST_CHECK;

#endif
