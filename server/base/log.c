/* log.c - one structured line an event. A line is built on the caller's stack and leaves in one
 * write, so any thread may log and none waits for another. */
#include "base/log.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 32768
#define TAIL_SIZE 64     /* kept free for what closes a line */
#define TEXT_LIMIT 2048  /* escaped bytes of a message or a value; what follows is cut */
#define PATIENCE_MS 1000 /* how long a non-blocking descriptor may stay full */

struct line {
    size_t size;
    size_t limit;
    bool full; /* something did not fit; what came after it is missing too */
    char data[LINE_SIZE];
};

static void put(struct line *line, const char *bytes, size_t n)
{
    if (line->full || n > line->limit - line->size) {
        line->full = true;
        return;
    }
    memcpy(line->data + line->size, bytes, n);
    line->size += n;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* The escaped form of the character at text, written to piece; *taken is how many bytes it had. */
static size_t escape(const char *text, size_t n, char piece[8], size_t *taken)
{
    static const char plain[] = "\"\\\n\r\t";
    static const char letters[] = "\"\\nrt";
    size_t length = ad_utf8_length(text, n);
    *taken = length ? length : 1;
    const char *found = length == 1 ? memchr(plain, text[0], sizeof plain - 1) : NULL;
    if (found) {
        piece[0] = '\\';
        piece[1] = letters[found - plain];
        return 2;
    }
    if (length == 0) {
        memcpy(piece, "\xef\xbf\xbd", 3); /* U+FFFD */
        return 3;
    }
    if (ad_utf8_is_control(text, length)) {
        return (size_t)snprintf(piece, 8, "\\u%04x", ad_utf8_code(text, length));
    }
    memcpy(piece, text, length);
    return length;
}

/* The same escapes serve both formats: they are JSON's. */
static void put_escaped(struct line *line, const char *text)
{
    size_t n = strlen(text);
    size_t n_written = 0;
    while (n > 0) {
        char piece[8];
        size_t taken;
        size_t length = escape(text, n, piece, &taken);
        if (n_written + length > TEXT_LIMIT) {
            put_text(line, "\xe2\x80\xa6"); /* an ellipsis */
            return;
        }
        put(line, piece, length);
        n_written += length;
        text += taken;
        n -= taken;
    }
}

static void put_quoted(struct line *line, const char *text)
{
    put_text(line, "\"");
    put_escaped(line, text);
    put_text(line, "\"");
}

/* A value that could be taken for something else than one word has to be quoted. */
static bool needs_quotes(const char *text)
{
    size_t n = strlen(text);
    if (n == 0) {
        return true;
    }
    for (size_t i = 0; i < n;) {
        size_t length = ad_utf8_length(text + i, n - i);
        if (length == 0 || strchr(" \"\\=", text[i]) ||
            ad_utf8_is_control(text + i, length)) {
            return true;
        }
        i += length;
    }
    return false;
}

static void put_number(struct line *line, int64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, number);
    put_text(line, digits);
}

static void put_field_text(struct line *line, const struct ad_log_field *field)
{
    put_text(line, " ");
    put_escaped(line, field->name);
    put_text(line, "=");
    if (!field->text) {
        put_number(line, field->number);
    } else if (needs_quotes(field->text)) {
        put_quoted(line, field->text);
    } else {
        put_escaped(line, field->text);
    }
}

static void put_field_json(struct line *line, const struct ad_log_field *field)
{
    put_text(line, ",");
    put_quoted(line, field->name);
    put_text(line, ":");
    if (field->text) {
        put_quoted(line, field->text);
    } else {
        put_number(line, field->number);
    }
}

static void put_head(struct line *line, enum ad_log_format format,
                     enum ad_log_level level, const char *message)
{
    static const char *const columns[] = {[AD_LOG_ERROR] = " ERROR ",
                                          [AD_LOG_WARNING] = " WARN  ",
                                          [AD_LOG_INFO] = " INFO  ",
                                          [AD_LOG_DEBUG] = " DEBUG "};
    static const char *const words[] = {[AD_LOG_ERROR] = "error",
                                        [AD_LOG_WARNING] = "warning",
                                        [AD_LOG_INFO] = "info",
                                        [AD_LOG_DEBUG] = "debug"};
    char now[AD_CLOCK_UTC_SIZE];
    ad_clock_utc(ad_clock_unix_ms(), now);
    if (format == AD_LOG_JSON) {
        put_text(line, "{\"time\":");
        put_quoted(line, now);
        put_text(line, ",\"level\":");
        put_quoted(line, words[level]);
        put_text(line, ",\"message\":");
        put_quoted(line, message);
    } else {
        put_text(line, now);
        put_text(line, columns[level]);
        put_escaped(line, message);
    }
}

/* Whole fields only: one that does not fit is left out with those after it, and the line says so. */
static void put_fields(struct line *line, enum ad_log_format format,
                       const struct ad_log_field *fields, size_t n_fields)
{
    static const struct ad_log_field cut = {"fields_cut", NULL, 1};
    void (*put_field)(struct line *, const struct ad_log_field *) =
        format == AD_LOG_JSON ? put_field_json : put_field_text;
    for (size_t i = 0; i < n_fields; i++) {
        size_t before = line->size;
        put_field(line, &fields[i]);
        if (line->full) {
            line->size = before;
            line->full = false;
            line->limit = LINE_SIZE;
            put_field(line, &cut);
            return;
        }
    }
}

/* One write is the rule; the loop is for signals, and for pipes that take a line in parts. What a
 * descriptor does not take in time is lost: logging must not stop the daemon. */
static void write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);
        if (written >= 0) {
            bytes += written;
            n -= (size_t)written;
        } else if (errno == EAGAIN) {
            struct pollfd ready = {fd, POLLOUT, 0};
            if (poll(&ready, 1, PATIENCE_MS) == 0) {
                return;
            }
        } else if (errno != EINTR) {
            return;
        }
    }
}

void ad_log_write(const struct ad_log *log, enum ad_log_level level, const char *message,
                  const struct ad_log_field *fields, size_t n_fields)
{
    if (!log || !ad_log_enables(log, level)) {
        return;
    }
    int saved_errno = errno;
    enum ad_log_format format =
        (enum ad_log_format)atomic_load_explicit(&log->format, memory_order_relaxed);
    struct line line;
    line.size = 0;
    line.limit = LINE_SIZE - TAIL_SIZE;
    line.full = false;
    put_head(&line, format, level, message);
    put_fields(&line, format, fields, n_fields);
    line.limit = LINE_SIZE;
    put_text(&line, format == AD_LOG_JSON ? "}\n" : "\n");
    write_all(log->fd, line.data, line.size);
    errno = saved_errno;
}
