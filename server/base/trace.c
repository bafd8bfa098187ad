/* trace.c - trace context, and the file that requests are traced to. Any thread. The path is
 * immutable; the descriptor stays the same when the file behind it is changed, so that no writer ever
 * sees a closed one. */
#include "base/trace.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/open.h"
#include "base/random.h"
#include "base/trace_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define FILE_MODE 0640
#define LINE_RESERVE 4096 /* most lines need less */

/* version-trace id-span id-flags: "00-" 32 digits "-" 16 digits "-" 2 digits */
#define VERSION_AT 0
#define TRACE_AT 3
#define SPAN_AT 36
#define FLAGS_AT 53
#define LENGTH ((size_t)55)

/* ---- the header ------------------------------------------------------------ */

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; /* the standard has no capitals */
}

static bool parse_hex(const char *text, uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int high = digit_of(text[2 * i]);
        int low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        bytes[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
    uint8_t all = 0;
    for (size_t i = 0; i < n; i++) {
        all |= bytes[i];
    }
    return all == 0;
}

bool ad_trace_parse(const char *text, struct ad_trace *trace)
{
    uint8_t version = 0;
    if (!text) {
        return false;
    }
    size_t n = strcspn(text, " \t"); /* white space behind a value is not part of it */
    if (n < LENGTH || text[n + strspn(text + n, " \t")] != '\0' ||
        text[TRACE_AT - 1] != '-' || text[SPAN_AT - 1] != '-' ||
        text[FLAGS_AT - 1] != '-' || !parse_hex(text + VERSION_AT, &version, 1) ||
        !parse_hex(text + TRACE_AT, trace->trace_id, AD_TRACE_ID_BYTES) ||
        !parse_hex(text + SPAN_AT, trace->span_id, AD_SPAN_ID_BYTES) ||
        !parse_hex(text + FLAGS_AT, &trace->flags, 1)) {
        return false;
    }
    bool longer = n > LENGTH; /* a version to come may have more fields */
    if (version == 0xff || (longer && (version == 0 || text[LENGTH] != '-'))) {
        return false;
    }
    return !is_zero(trace->trace_id, AD_TRACE_ID_BYTES) &&
           !is_zero(trace->span_id, AD_SPAN_ID_BYTES);
}

/* ---- the file -------------------------------------------------------------- */

struct ad_tracer {
    char *path; /* immutable, as are the next three */
    int fd;
    uint64_t rate;
    const struct ad_log *log;
    atomic_uint_fast64_t n_asked;
    atomic_bool torn;   /* the file ends in half a line */
    atomic_bool failed; /* a loss was logged */
};

/* A pipe or a terminal must not hold us up when nobody reads it. */
static enum ad_status open_file(const char *path, int *fd, struct ad_error *error)
{
    *fd = ad_open(AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, FILE_MODE);
    return *fd >= 0
               ? AD_OK
               : ad_fail(error, AD_INVALID, "trace file %s: %s", path, strerror(errno));
}

enum ad_status ad_tracer_open(const char *path, uint64_t rate, const struct ad_log *log,
                              struct ad_tracer **tracer, struct ad_error *error)
{
    *tracer = NULL;
    struct ad_tracer *created = calloc(1, sizeof *created);
    char *copy = strdup(path);
    if (!created || !copy) {
        free(created);
        free(copy);
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    created->path = copy;
    created->fd = -1;
    created->rate = rate;
    created->log = log;
    enum ad_status status = open_file(path, &created->fd, error);
    if (status) {
        ad_tracer_close(created);
        return status;
    }
    *tracer = created;
    return AD_OK;
}

enum ad_status ad_tracer_reopen(struct ad_tracer *tracer, struct ad_error *error)
{
    int fd = -1;
    enum ad_status status = open_file(tracer->path, &fd, error);
    if (status) {
        return status;
    }
    if (dup3(fd, tracer->fd, O_CLOEXEC) < 0) {
        status = ad_fail(error, AD_INTERNAL, "trace file %s: %s", tracer->path,
                         strerror(errno));
    }
    close(fd);
    return status;
}

void ad_tracer_close(struct ad_tracer *tracer)
{
    if (!tracer) {
        return;
    }
    if (tracer->fd >= 0) {
        close(tracer->fd);
    }
    free(tracer->path);
    free(tracer);
}

bool ad_tracer_wants(struct ad_tracer *tracer, const struct ad_trace *parent)
{
    if (!tracer) {
        return false;
    }
    if (parent && ad_trace_sampled(parent)) {
        return true;
    }
    return tracer->rate > 0 &&
           atomic_fetch_add_explicit(&tracer->n_asked, 1, memory_order_relaxed) %
                   tracer->rate ==
               0;
}

static void log_loss(struct ad_tracer *tracer, const char *reason)
{
    if (!atomic_exchange(&tracer->failed, true)) {
        const struct ad_log_field fields[] = {ad_log_text("file", tracer->path),
                                              ad_log_text("error", reason)};
        ad_log_write(tracer->log, AD_LOG_ERROR, "traces are lost", fields,
                     sizeof fields / sizeof fields[0]);
    }
}

static bool fill_ids(struct ad_trace_ids *ids)
{
    bool filled = ad_random_fill(ids, sizeof *ids);
    ids->trace[0] |= 1; /* an id is not all 0 */
    for (size_t i = 0; i < AD_TRACE_SPANS; i++) {
        ids->spans[i][0] |= 1;
    }
    return filled;
}

/* What has to be added to a time of ad_clock_now_ns to make it one since 1970. */
static int64_t unix_offset_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec - ad_clock_now_ns();
}

/* lines: a newline, which comes first when the line before was torn, and a whole line. */
static void append(struct ad_tracer *tracer, const struct ad_buffer *lines)
{
    size_t skipped = atomic_exchange(&tracer->torn, false) ? 0 : 1;
    size_t n = lines->size - skipped;
    ssize_t written = 0;
    do {
        written = write(tracer->fd, lines->data + skipped, n);
    } while (written < 0 && errno == EINTR);
    if (written < 0) {
        atomic_store(&tracer->torn, skipped == 0);
        log_loss(tracer, strerror(errno));
    } else if ((size_t)written < n) {
        atomic_store(&tracer->torn, true);
        log_loss(tracer, "the file took a part of a line only");
    }
}

void ad_tracer_write(struct ad_tracer *tracer, const struct ad_span_record *record)
{
    struct ad_trace_ids ids;
    struct ad_buffer lines;
    ad_buffer_init(&lines);
    if (!fill_ids(&ids)) {
        log_loss(tracer, "no random numbers");
    } else if (!ad_buffer_reserve(&lines, LINE_RESERVE) ||
               !ad_buffer_append(&lines, "\n", 1) ||
               !ad_trace_append_line(&lines, record, &ids, unix_offset_ns())) {
        log_loss(tracer, "out of memory");
    } else {
        append(tracer, &lines);
    }
    ad_buffer_reset(&lines);
}
