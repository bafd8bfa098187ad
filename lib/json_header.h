/* json_header.h - a strict reader for JSON whose form is known beforehand. The caller asks for what
 * must come next; nothing recurses, nothing is allocated, and no value of unknown form is skipped,
 * so that depth and memory are the caller's. */
#ifndef ATTNI_JSON_HEADER_H
#define ATTNI_JSON_HEADER_H

#include <stdbool.h>
#include <stddef.h>

struct attni_json {
    const unsigned char *start;
    const unsigned char *next; /* not yet read; where the fault is, once there is one */
    const unsigned char *end;
    const char *fault; /* why this is not JSON, static; NULL while all is well */
};

struct attni_json attni_json_begin(const void *text, size_t n);

/* Skip white space and look at the next byte; NUL at the end. */
char attni_json_peek(struct attni_json *json);

/* Skip white space, then take c if it is next. Never a fault. */
bool attni_json_take(struct attni_json *json, char c);

/* Take c, or fault: "expected ...". expected is static. */
bool attni_json_expect(struct attni_json *json, char c, const char *expected);

/* What kind of value begins next, for messages: "a string", "an array"; NULL and a fault when no
 * value can begin like this. */
const char *attni_json_kind(struct attni_json *json);

/* Walk an object or array whose opening bracket was taken: true when there is one more member,
 * false at its end (the closing bracket is taken) or at a fault. *n, 0 at first, counts the members. */
bool attni_json_more(struct attni_json *json, char close, size_t *n);

/* Read a string into out, decoded and with a NUL after it; *length is without that NUL, and the
 * text itself may hold NULs. out needs room for one byte less than the string takes in the JSON
 * with its quotes: decoding never makes a string longer. */
bool attni_json_string(struct attni_json *json, char *out, size_t *length);

enum attni_number {
    ATTNI_NUMBER_WHOLE,    /* and it fits size_t */
    ATTNI_NUMBER_NEGATIVE, /* has a minus sign, -0 too */
    ATTNI_NUMBER_FRACTION, /* has a point or an exponent */
    ATTNI_NUMBER_TOO_LARGE
};

/* Read a number. *value is set when it is whole; json->next is just past it. */
bool attni_json_number(struct attni_json *json, enum attni_number *kind, size_t *value);

#endif
