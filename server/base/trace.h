/* trace.h - a request as a part of its caller's trace (W3C Trace Context), and the file to which its
 * stages are written: OTLP in JSON, one ExportTraceServiceRequest a line, for a collector to read.
 *
 * A tracer may be used from any thread. A line is one write(2) to a file opened for appending; what
 * the file does not take is lost, and the first loss is logged. */
#ifndef AD_BASE_TRACE_H
#define AD_BASE_TRACE_H

#include "base/error.h"
#include "base/log.h"
#include "base/times.h"

#include <stdbool.h>
#include <stdint.h>

#define AD_TRACE_ID_BYTES 16
#define AD_SPAN_ID_BYTES 8

/* The span of the caller, as its header traceparent says. */
struct ad_trace {
    uint8_t trace_id[AD_TRACE_ID_BYTES]; /* not all 0 */
    uint8_t span_id[AD_SPAN_ID_BYTES];   /* not all 0 */
    uint8_t flags;                       /* those that version 00 knows */
};

/* Bit 0 of the flags: the caller records its span. */
static inline bool ad_trace_sampled(const struct ad_trace *trace)
{
    return (trace->flags & 1) != 0;
}

/* The value of a header traceparent; false when it is not one (the standard has such a header
 * ignored) or is NULL. A version above 00 is read as far as 00 goes. */
bool ad_trace_parse(const char *text, struct ad_trace *trace);

/* One request. Strings are borrowed and never NULL. */
struct ad_span_record {
    const struct ad_trace *parent; /* NULL: the trace begins here */
    const char *method;
    const char *route; /* "/v2/models/{model}/infer" */
    const char *model;
    const char *version;
    const char *request_id;
    unsigned status; /* of HTTP */
    uint64_t
        batch_size; /* requests that were computed together; 0: it was not computed */
    const struct ad_times *times; /* begun and replied are there */
};

struct ad_tracer;

/* Append to the file of that path, made when it is not there, every rate-th request (0: none but
 * those whose caller records them). log outlives the tracer. AD_INVALID: the file cannot be opened.
 */
enum ad_status ad_tracer_open(const char *path, uint64_t rate, const struct ad_log *log,
                              struct ad_tracer **tracer,
                              struct ad_error *error) AD_MUST_CHECK;

/* Is the request to be written? Asked once for each; parent may be NULL, and so may tracer: no. */
bool ad_tracer_wants(struct ad_tracer *tracer, const struct ad_trace *parent);

/* The span of the request, and one below it for each stage that it went through. */
void ad_tracer_write(struct ad_tracer *tracer, const struct ad_span_record *record);

/* Open the path again: the file was moved away. On failure the old one stays in use. */
enum ad_status ad_tracer_reopen(struct ad_tracer *tracer,
                                struct ad_error *error) AD_MUST_CHECK;

void ad_tracer_close(struct ad_tracer *tracer); /* NULL is fine */

#endif
