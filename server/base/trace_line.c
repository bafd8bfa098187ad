/* trace_line.c - one request as a line of OTLP JSON: ids are hexadecimal, 64-bit integers are
 * strings, kinds and codes are numbers. Pure; any thread. */
#include "base/trace_line.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define SERVICE "attentiond"
#define KIND_INTERNAL 1
#define KIND_SERVER 2
#define STATUS_ERROR 2
#define FIRST_SERVER_ERROR 500

/* Text that grows; a failure sticks. */
struct writer {
    struct ad_buffer *out;
    bool failed;
};

static void put(struct writer *writer, const char *bytes, size_t n)
{
    writer->failed = writer->failed || !ad_buffer_append(writer->out, bytes, n);
}

static void put_text(struct writer *writer, const char *text)
{
    put(writer, text, strlen(text));
}

static void put_hex(struct writer *writer, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    put_text(writer, "\"");
    for (size_t i = 0; i < n; i++) {
        const char pair[2] = {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
        put(writer, pair, 2);
    }
    put_text(writer, "\"");
}

static void put_number(struct writer *writer, uint64_t number)
{
    writer->failed = writer->failed || !ad_buffer_printf(writer->out, "%" PRIu64, number);
}

/* Control characters become spaces: none of our texts should have any. */
static void put_string(struct writer *writer, const char *text)
{
    size_t n = strlen(text);
    put_text(writer, "\"");
    for (size_t i = 0; i < n;) {
        size_t length = ad_utf8_length(text + i, n - i);
        if (length == 0) {
            put_text(writer, "\xef\xbf\xbd"); /* U+FFFD */
            length = 1;
        } else if (ad_utf8_is_control(text + i, length)) {
            put_text(writer, " ");
        } else {
            put(writer, "\\", text[i] == '"' || text[i] == '\\');
            put(writer, text + i, length);
        }
        i += length;
    }
    put_text(writer, "\"");
}

static void put_text_attribute(struct writer *writer, const char *key, const char *value)
{
    put_text(writer, "{\"key\":\"");
    put_text(writer, key);
    put_text(writer, "\",\"value\":{\"stringValue\":");
    put_string(writer, value);
    put_text(writer, "}}");
}

static void put_number_attribute(struct writer *writer, const char *key, uint64_t value)
{
    put_text(writer, "{\"key\":\"");
    put_text(writer, key);
    put_text(writer, "\",\"value\":{\"intValue\":\"");
    put_number(writer, value);
    put_text(writer, "\"}}");
}

static uint64_t wall_ns(int64_t at_ns, int64_t offset_ns)
{
    int64_t sum = 0;
    return __builtin_add_overflow(at_ns, offset_ns, &sum) || sum < 0 ? 0 : (uint64_t)sum;
}

/* What every span begins with; its object stays open. parent may be NULL. */
static void put_span(struct writer *writer, const uint8_t *trace_id,
                     const uint8_t *span_id, const uint8_t *parent, int kind,
                     uint64_t begun_ns, uint64_t ended_ns)
{
    put_text(writer, "{\"traceId\":");
    put_hex(writer, trace_id, AD_TRACE_ID_BYTES);
    put_text(writer, ",\"spanId\":");
    put_hex(writer, span_id, AD_SPAN_ID_BYTES);
    if (parent) {
        put_text(writer, ",\"parentSpanId\":");
        put_hex(writer, parent, AD_SPAN_ID_BYTES);
    }
    put_text(writer, ",\"kind\":");
    put_number(writer, (uint64_t)kind);
    put_text(writer, ",\"startTimeUnixNano\":\"");
    put_number(writer, begun_ns);
    put_text(writer, "\",\"endTimeUnixNano\":\"");
    put_number(writer, ended_ns);
    put_text(writer, "\",\"name\":");
}

static void put_attributes(struct writer *writer, const struct ad_span_record *record)
{
    put_text(writer, ",\"attributes\":[");
    put_text_attribute(writer, "http.request.method", record->method);
    put_text(writer, ",");
    put_text_attribute(writer, "http.route", record->route);
    put_text(writer, ",");
    put_number_attribute(writer, "http.response.status_code", record->status);
    put_text(writer, ",");
    put_text_attribute(writer, "attentiond.model", record->model);
    put_text(writer, ",");
    put_text_attribute(writer, "attentiond.version", record->version);
    put_text(writer, ",");
    put_text_attribute(writer, "attentiond.request_id", record->request_id);
    put_text(writer, ",");
    put_number_attribute(writer, "attentiond.batch_size", record->batch_size);
    put_text(writer, "]");
}

static void put_request(struct writer *writer, const struct ad_span_record *record,
                        const uint8_t *trace_id, const struct ad_trace_ids *ids,
                        int64_t offset_ns)
{
    put_span(writer, trace_id, ids->spans[0],
             record->parent ? record->parent->span_id : NULL, KIND_SERVER,
             wall_ns(record->times->begun_ns, offset_ns),
             wall_ns(record->times->replied_ns, offset_ns));
    char name[128];
    size_t n_method = strnlen(record->method, 16);
    size_t n_route = strnlen(record->route, sizeof name - 18);
    memcpy(name, record->method, n_method);
    name[n_method] = ' ';
    memcpy(name + n_method + 1, record->route, n_route);
    name[n_method + 1 + n_route] = '\0';
    put_string(writer, name);
    put_attributes(writer, record);
    put_text(writer, ",\"status\":{");
    if (record->status >= FIRST_SERVER_ERROR) {
        put_text(writer, "\"code\":");
        put_number(writer, STATUS_ERROR);
    }
    put_text(writer, "}}");
}

/* One span for each stage that was entered and left. */
static void put_stages(struct writer *writer, const struct ad_times *times,
                       const uint8_t *trace_id, const struct ad_trace_ids *ids,
                       int64_t offset_ns)
{
    const struct {
        const char *name;
        int64_t begun_ns, ended_ns;
    } stages[AD_TRACE_SPANS - 1] = {{"queue", times->queued_ns, times->decoding_ns},
                                    {"decode", times->decoding_ns, times->decoded_ns},
                                    {"batch", times->decoded_ns, times->computing_ns},
                                    {"compute", times->computing_ns, times->computed_ns},
                                    {"encode", times->computed_ns, times->encoded_ns}};
    for (size_t i = 0; i < AD_TRACE_SPANS - 1; i++) {
        if (stages[i].begun_ns <= 0 || stages[i].ended_ns < stages[i].begun_ns) {
            continue;
        }
        put_text(writer, ",");
        put_span(writer, trace_id, ids->spans[i + 1], ids->spans[0], KIND_INTERNAL,
                 wall_ns(stages[i].begun_ns, offset_ns),
                 wall_ns(stages[i].ended_ns, offset_ns));
        put_string(writer, stages[i].name);
        put_text(writer, "}");
    }
}

bool ad_trace_append_line(struct ad_buffer *out, const struct ad_span_record *record,
                          const struct ad_trace_ids *ids, int64_t offset_ns)
{
    struct writer writer = {.out = out};
    const uint8_t *trace_id = record->parent ? record->parent->trace_id : ids->trace;
    put_text(&writer, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    put_text_attribute(&writer, "service.name", SERVICE);
    put_text(&writer, ",");
    put_text_attribute(&writer, "service.version", ATTN_VERSION);
    put_text(&writer,
             "]},\"scopeSpans\":[{\"scope\":{\"name\":\"" SERVICE "\"},\"spans\":[");
    put_request(&writer, record, trace_id, ids, offset_ns);
    put_stages(&writer, record->times, trace_id, ids, offset_ns);
    put_text(&writer, "]}]}]}\n");
    return !writer.failed;
}
