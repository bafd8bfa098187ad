/* log_control.h - what of a log changes at run time: which levels, in which form, to which file.
 *
 * Any thread may read and change; each call is one moment's. Those that write lines meanwhile neither
 * wait nor ever find a closed descriptor. */
#ifndef AD_BASE_LOG_CONTROL_H
#define AD_BASE_LOG_CONTROL_H

#include "base/error.h"
#include "base/log.h"

#include <stdbool.h>
#include <stdint.h>

#define AD_LOG_FILE_SIZE 256 /* of the longest file name */

/* How a line looks: "default" and "ISO8601" (both are text), "json". */
enum ad_log_style { AD_LOG_STYLE_DEFAULT, AD_LOG_STYLE_ISO8601, AD_LOG_STYLE_JSON };
extern const char *const ad_log_style_words[]; /* in that order; NULL-terminated */

struct ad_log_settings {
    char file
        [AD_LOG_FILE_SIZE]; /* within the log's folder; "": where it went at the start */
    bool info, warning, error;
    uint64_t verbose_level; /* above 0: debug lines too */
    enum ad_log_style style;
};

/* Settings of which some are meant. */
enum {
    AD_LOG_GIVES_FILE = 1,
    AD_LOG_GIVES_INFO = 2,
    AD_LOG_GIVES_WARNING = 4,
    AD_LOG_GIVES_ERROR = 8,
    AD_LOG_GIVES_VERBOSE_LEVEL = 16,
    AD_LOG_GIVES_STYLE = 32
};
struct ad_log_change {
    unsigned given; /* bits */
    struct ad_log_settings to;
};

struct ad_log_control;

/* Take charge of a log before other threads write to it; it must outlive its control. Its descriptor
 * becomes one that is the control's. folder: where log files may be, NULL: nowhere. AD_INVALID: the
 * folder cannot be opened. */
enum ad_status ad_log_control_create(struct ad_log *log, const char *folder,
                                     struct ad_log_control **control,
                                     struct ad_error *error) AD_MUST_CHECK;

/* The log goes where it went at the start. NULL is fine. */
void ad_log_control_free(struct ad_log_control *control);

void ad_log_control_read(struct ad_log_control *control,
                         struct ad_log_settings *settings);

/* All that is given, or nothing. A file is a plain name, is made when it is not there (mode 0640) and
 * is appended to. AD_INVALID: no folder was named for log files, or the file cannot be opened; the
 * message begins with log_file. */
enum ad_status ad_log_control_change(struct ad_log_control *control,
                                     const struct ad_log_change *change,
                                     struct ad_error *error) AD_MUST_CHECK;

/* Open the log file, if there is one, by its name again: it was moved away. On failure the old one
 * stays in use. */
enum ad_status ad_log_reopen(struct ad_log_control *control,
                             struct ad_error *error) AD_MUST_CHECK;

#endif
