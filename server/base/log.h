/* log.h - one structured line an event, on standard error.
 *
 * text: 2026-11-30T08:00:00.123Z INFO  model loaded model=speech version=1 bytes=4096
 * json: {"time":"…","level":"info","message":"model loaded","model":"speech","version":"1",…}
 *
 * A line is one write(2). Control characters are escaped (see utf8.h), so a client cannot forge a line; bytes
 * that are not UTF-8 become U+FFFD; a text of more than 2 KiB is cut and ends with an ellipsis. What
 * the descriptor does not take is lost without a word. errno stays as it was.
 *
 * ad_log_write may be called from any thread. What of a log changes while threads run is atomic, and
 * changed by its control alone (see log_control.h); each line is written as of one moment. */
#ifndef AD_BASE_LOG_H
#define AD_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ad_log_level { AD_LOG_ERROR, AD_LOG_WARNING, AD_LOG_INFO, AD_LOG_DEBUG };
enum ad_log_format { AD_LOG_TEXT, AD_LOG_JSON };

struct ad_log {
    atomic_int level;  /* enum ad_log_level: it and the more serious ones are written */
    atomic_int format; /* enum ad_log_format */
    int fd;            /* immutable; another file may come to be behind it */
    atomic_uint muted; /* one bit a level that is not written although it could be */
};

struct ad_log_field {
    const char *name;
    const char *text; /* NULL: the field is the number */
    int64_t number;
};

static inline struct ad_log_field ad_log_text(const char *name, const char *text)
{
    return (struct ad_log_field){name, text ? text : "", 0};
}

static inline struct ad_log_field ad_log_number(const char *name, int64_t number)
{
    return (struct ad_log_field){name, NULL, number};
}

/* Are lines of that level written? */
static inline bool ad_log_enables(const struct ad_log *log, enum ad_log_level level)
{
    return (int)level <= atomic_load_explicit(&log->level, memory_order_relaxed) &&
           !(atomic_load_explicit(&log->muted, memory_order_relaxed) >> level & 1);
}

/* Write one line when level is enabled. message is a short constant phrase; what varies goes in
 * fields. log may be NULL: nothing is written. */
void ad_log_write(const struct ad_log *log, enum ad_log_level level, const char *message,
                  const struct ad_log_field *fields, size_t n_fields);

#endif
