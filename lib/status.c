/* status.c - status texts and the caller-owned error record; pure functions, any thread. */
#include "status.h"

#include "utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *attn_version(void)
{
    return ATTN_VERSION;
}

const char *attn_status_text(enum attn_status status)
{
    switch (status) {
#define STATUS_CASE(name, text) \
    case name:                  \
        return text;
        ATTN_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

void attn_error_clear(struct attn_error *error)
{
    if (error) {
        memset(error, 0, sizeof *error);
    }
}

/* Replace what a terminal, a log or a JSON string could not take. */
static void make_printable(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t n = attni_utf8_length((const unsigned char *)text, left);
        if (n == 0 || attni_utf8_is_control((const unsigned char *)text, n)) {
            n = n > 0 ? n : 1;
            memset(text, '?', n);
        }
        text += n;
        left -= n;
    }
}

enum attn_status attni_fail(struct attn_error *error, enum attn_status status,
                            const char *field, const char *format, ...)
{
    if (error && error->status == ATTN_OK) {
        error->status = status;
        snprintf(error->field, sizeof error->field, "%s", field);
        make_printable(error->field);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
        make_printable(error->message);
    }
    return status;
}

enum attn_status attni_fail_memory(struct attn_error *error)
{
    return attni_fail(error, ATTN_NO_MEMORY, "", "out of memory");
}
