/* json_reader.h - a small JSON body, read in one pass without a tree.
 *
 *     struct ad_reader reader;
 *     ad_reader_init(&reader, bytes, n, &error);
 *     for (bool more = ad_reader_open(&reader); more; more = ad_reader_more(&reader)) {
 *         key = ad_reader_key(&reader); ... read or skip its value ...
 *     }
 *     ad_reader_end(&reader);
 *     return reader.status;
 *
 * A failure sticks, with its reason in the error: what is read after it is empty. Strings may be as
 * long as the body; nesting is limited. */
#ifndef AD_HTTP_JSON_READER_H
#define AD_HTTP_JSON_READER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AD_READER_MAX_DEPTH 32
#define AD_READER_KEY_SIZE 512

struct ad_reader {
    const char *start, *at, *end; /* the text; not NUL-terminated */
    unsigned depth;
    char key[AD_READER_KEY_SIZE]; /* the last member's name */
    enum ad_status status;
    struct ad_error *error;
};

/* text may be NULL when n is 0. error may be NULL. */
void ad_reader_init(struct ad_reader *reader, const char *text, size_t n,
                    struct ad_error *error);

/* Whether nothing but white space is left. */
bool ad_reader_is_empty(struct ad_reader *reader);

/* Enter an object; whether it has a member, whose name is then in key, and its value next. */
bool ad_reader_open(struct ad_reader *reader);

/* After a member's value: whether another member follows; if not, the object is left. */
bool ad_reader_more(struct ad_reader *reader);

/* A string's bytes, unescaped, with a NUL after them, to be freed; NULL on failure. */
char *ad_reader_string(struct ad_reader *reader, size_t *n_bytes);
bool ad_reader_bool(struct ad_reader *reader);

/* A whole number from 0 to 2^63 - 1, without fraction or exponent. */
uint64_t ad_reader_number(struct ad_reader *reader);

/* The text is over: anything but white space is a failure. */
void ad_reader_end(struct ad_reader *reader);

/* Record a failure: "request body: <what>". */
void ad_reader_fail(struct ad_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for want of memory. */
void ad_reader_no_memory(struct ad_reader *reader);

#endif
