/* options.h - read a preset's options by name, type and range, and refuse what is left over. */
#ifndef ATTNI_OPTIONS_H
#define ATTNI_OPTIONS_H

#include "attention.h"

#define ATTNI_MAX_OPTIONS 32

/* A list of options being read; lives on the stack of whoever reads. Every reader names the option
 * in `known`, so that attni_options_finish can tell what nobody asked for. */
struct attni_options {
    const char *owner; /* "speech_mha", or "GroupNorm" for a module's options */
    const char *path;  /* "" or "normalisation.": goes before a name in messages */
    const struct attn_option *list;
    size_t n;
    const char *known[ATTNI_MAX_OPTIONS];
    size_t n_known;
    struct attn_error *error;
    enum attn_status status; /* of the first failure */
};

void attni_options_start(struct attni_options *options, const char *owner,
                         const char *path, const struct attn_option *list, size_t n,
                         struct attn_error *error);

/* Each returns the option's value, or fallback where it is left out; after a failure (kept in
 * options->status) the value is the fallback and means nothing. */
bool attni_options_bool(struct attni_options *options, const char *name, bool fallback);
size_t attni_options_size(struct attni_options *options, const char *name, size_t least,
                          size_t most, size_t fallback);
/* The same without a fallback: leaving it out is a failure. */
size_t attni_options_need_size(struct attni_options *options, const char *name,
                               size_t least, size_t most);
int attni_options_int(struct attni_options *options, const char *name, int least,
                      int most, int fallback);

enum attni_interval { ATTNI_CLOSED, ATTNI_OPEN, ATTNI_RIGHT_OPEN };
double attni_options_real(struct attni_options *options, const char *name, double least,
                          double most, enum attni_interval interval, double fallback);

/* The option itself, of that type, or NULL where it is left out or null. */
const struct attn_option *attni_options_find(struct attni_options *options,
                                             const char *name,
                                             enum attn_option_type type);

/* Whether an option is given at all, null included. */
bool attni_options_given(const struct attni_options *options, const char *name);

/* Record a failure about the option `name`. */
void attni_options_fail(struct attni_options *options, enum attn_status status,
                        const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Refuse options that no reader asked for, and duplicates; the status of all reading. */
enum attn_status attni_options_finish(struct attni_options *options) ATTN_MUST_CHECK;

#endif
