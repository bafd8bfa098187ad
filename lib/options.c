/* options.c - typed reading of a preset's options. The list is borrowed; one thread at a time. */
#include "options.h"

#include "status.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void attni_options_start(struct attni_options *options, const char *owner,
                         const char *path, const struct attn_option *list, size_t n,
                         struct attn_error *error)
{
    *options = (struct attni_options){
        .owner = owner, .path = path, .list = list, .n = n, .error = error};
}

void attni_options_fail(struct attni_options *options, enum attn_status status,
                        const char *name, const char *format, ...)
{
    if (options->status) {
        return;
    }
    char field[ATTN_NAME_SIZE];
    char reason[384];
    snprintf(field, sizeof field, "%s%s", options->path, name);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    options->status =
        attni_fail(options->error, status, field, "option '%s': %s", field, reason);
}

static const char *type_text(enum attn_option_type type)
{
    switch (type) {
    case ATTN_OPTION_NULL:
        return "null";
    case ATTN_OPTION_BOOL:
        return "a boolean";
    case ATTN_OPTION_INT:
        return "an integer";
    case ATTN_OPTION_REAL:
        return "a number";
    case ATTN_OPTION_INTS:
        return "a list of integers";
    case ATTN_OPTION_MODULE:
        return "a module {\"type\": …}";
    }
    return "a value";
}

/* Look an option up without judging its value; remembers that somebody asked for it. */
static const struct attn_option *look_up(struct attni_options *options, const char *name)
{
    assert(options->n_known < ATTNI_MAX_OPTIONS);
    options->known[options->n_known++] = name;
    for (size_t i = 0; i < options->n; i++) {
        if (strcmp(options->list[i].name, name) == 0) {
            return &options->list[i];
        }
    }
    return NULL;
}

static void fail_type(struct attni_options *options, const struct attn_option *option,
                      enum attn_option_type expected)
{
    attni_options_fail(options, ATTN_INVALID, option->name, "expected %s, got %s",
                       type_text(expected), type_text(option->type));
}

bool attni_options_given(const struct attni_options *options, const char *name)
{
    for (size_t i = 0; i < options->n; i++) {
        if (strcmp(options->list[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

const struct attn_option *attni_options_find(struct attni_options *options,
                                             const char *name, enum attn_option_type type)
{
    const struct attn_option *option = look_up(options, name);
    if (!option || option->type == ATTN_OPTION_NULL) {
        return NULL;
    }
    if (option->type != type) {
        fail_type(options, option, type);
        return NULL;
    }
    return option;
}

bool attni_options_bool(struct attni_options *options, const char *name, bool fallback)
{
    const struct attn_option *option = look_up(options, name);
    if (!option) {
        return fallback;
    }
    if (option->type != ATTN_OPTION_BOOL) {
        fail_type(options, option, ATTN_OPTION_BOOL);
        return fallback;
    }
    return option->boolean;
}

static int64_t read_integer(struct attni_options *options,
                            const struct attn_option *option, int64_t least, int64_t most,
                            int64_t fallback)
{
    if (option->type != ATTN_OPTION_INT) {
        fail_type(options, option, ATTN_OPTION_INT);
        return fallback;
    }
    if (option->integer < least || option->integer > most) {
        attni_options_fail(options, ATTN_INVALID, option->name,
                           "expected an integer from %" PRId64 " to %" PRId64
                           ", got %" PRId64,
                           least, most, option->integer);
        return fallback;
    }
    return option->integer;
}

size_t attni_options_size(struct attni_options *options, const char *name, size_t least,
                          size_t most, size_t fallback)
{
    const struct attn_option *option = look_up(options, name);
    return option ? (size_t)read_integer(options, option, (int64_t)least, (int64_t)most,
                                         (int64_t)fallback)
                  : fallback;
}

size_t attni_options_need_size(struct attni_options *options, const char *name,
                               size_t least, size_t most)
{
    if (!attni_options_given(options, name)) {
        attni_options_fail(options, ATTN_MISSING, name, "%s needs it, and it is missing",
                           options->owner);
    }
    return attni_options_size(options, name, least, most, least);
}

int attni_options_int(struct attni_options *options, const char *name, int least,
                      int most, int fallback)
{
    const struct attn_option *option = look_up(options, name);
    return option ? (int)read_integer(options, option, least, most, fallback) : fallback;
}

static bool inside(double value, double least, double most, enum attni_interval interval)
{
    switch (interval) {
    case ATTNI_CLOSED:
        return value >= least && value <= most;
    case ATTNI_OPEN:
        return value > least && value < most;
    case ATTNI_RIGHT_OPEN:
        return value >= least && value < most;
    }
    return false;
}

double attni_options_real(struct attni_options *options, const char *name, double least,
                          double most, enum attni_interval interval, double fallback)
{
    const struct attn_option *option = look_up(options, name);
    if (!option) {
        return fallback;
    }
    if (option->type != ATTN_OPTION_REAL && option->type != ATTN_OPTION_INT) {
        fail_type(options, option, ATTN_OPTION_REAL);
        return fallback;
    }
    double value =
        option->type == ATTN_OPTION_INT ? (double)option->integer : option->real;
    if (!isfinite(value) || !inside(value, least, most, interval)) {
        attni_options_fail(options, ATTN_INVALID, name,
                           "expected a number in %c%g, %g%c, got %g",
                           interval == ATTNI_OPEN ? '(' : '[', least, most,
                           interval == ATTNI_CLOSED ? ']' : ')', value);
        return fallback;
    }
    return value;
}

/* "a, b, c" of the names that somebody asked for. */
static void list_known(const struct attni_options *options, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < options->n_known && used < size; i++) {
        int n =
            snprintf(text + used, size - used, "%s%s", i ? ", " : "", options->known[i]);
        used += (size_t)n;
    }
}

enum attn_status attni_options_finish(struct attni_options *options)
{
    for (size_t i = 0; i < options->n && !options->status; i++) {
        const char *name = options->list[i].name;
        bool known = false;
        for (size_t k = 0; k < options->n_known; k++) {
            known = known || strcmp(options->known[k], name) == 0;
        }
        if (!known) {
            char names[256];
            list_known(options, names, sizeof names);
            attni_options_fail(options, ATTN_UNKNOWN, name, "unknown to %s, which has %s",
                               options->owner, options->n_known ? names : "no options");
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(options->list[k].name, name) == 0) {
                attni_options_fail(options, ATTN_INVALID, name, "given twice");
            }
        }
    }
    return options->status;
}
