/* error.c - status texts and the caller-owned record of the first failure. Pure functions: any
 * thread, each on its own record. */
#include "base/error.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

const char *ad_status_text(enum ad_status status)
{
    switch (status) {
#define STATUS_CASE(name, text) \
    case name:                  \
        return text;
        AD_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

/* End a message that was too long with dots, without leaving half a character before them. */
static void mark_cut(char *text, size_t size)
{
    static const char dots[] = "...";
    size_t end = size - sizeof dots;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) {
        end--;
    }
    memcpy(text + end, dots, sizeof dots);
}

/* Into a record that is still empty. */
__attribute__((format(printf, 4, 0))) static void
record(struct ad_error *error, enum ad_status status, const char *code,
       const char *format, va_list arguments)
{
    int n = vsnprintf(error->message, sizeof error->message, format, arguments);
    error->status = status;
    error->code = code;
    if (n < 0) {
        snprintf(error->message, sizeof error->message, "%s", ad_status_text(status));
    } else if ((size_t)n >= sizeof error->message) {
        mark_cut(error->message, sizeof error->message);
    }
    ad_utf8_make_printable(error->message);
}

enum ad_status ad_fail(struct ad_error *error, enum ad_status status, const char *format,
                       ...)
{
    if (error && error->status == AD_OK) {
        va_list arguments;
        va_start(arguments, format);
        record(error, status, NULL, format, arguments);
        va_end(arguments);
    }
    return status;
}

enum ad_status ad_fail_code(struct ad_error *error, enum ad_status status,
                            const char *code, const char *format, ...)
{
    if (error && error->status == AD_OK) {
        va_list arguments;
        va_start(arguments, format);
        record(error, status, code, format, arguments);
        va_end(arguments);
    }
    return status;
}

void ad_error_clear(struct ad_error *error)
{
    if (error) {
        error->status = AD_OK;
        error->code = NULL;
        error->message[0] = '\0';
    }
}
