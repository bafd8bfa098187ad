/* nested.h - numbers in nested JSON lists whose text alone says their shape.
 *
 * A first look at the text counts what the lists hold on the way to their first element; the reader then
 * takes the numbers and checks that all other lists are as long. Neither makes a tree. */
#ifndef AD_CODEC_NESTED_H
#define AD_CODEC_NESTED_H

#include "attention.h"
#include "base/error.h"

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>

/* A place in a text: at <= end, and *end is readable and '\0'. */
struct ad_cursor {
    const char *begin, *at, *end;
};

void ad_cursor_skip_space(struct ad_cursor *cursor);
bool ad_cursor_is(const struct ad_cursor *cursor, char c); /* is that what comes? */

/* Behind white space, take c and the white space after it, if that is what comes. */
bool ad_cursor_take(struct ad_cursor *cursor, char c);

/* Go behind the value at hand by its brackets and quotes, whatever is inside. False: it does not end. */
bool ad_cursor_skip_value(struct ad_cursor *cursor);

/* "a list", "nothing", ...: what stands there. Static. */
const char *ad_cursor_kind(const struct ad_cursor *cursor);

/* AD_INVALID: "invalid JSON at offset 5: expected ':', got '}'". */
enum ad_status ad_cursor_fail(const struct ad_cursor *cursor, const char *expected,
                              struct ad_error *error);

/* Lists within lists, as the first of each says. */
struct ad_nested {
    size_t rank; /* how deep; ATTN_MAX_RANK stands for more too */
    size_t shape[ATTN_MAX_RANK];
    size_t
        n_leaves; /* elements and empty lists: no text of this length has more elements */
};

/* Look at the value at hand and go behind it. What is malformed is for the reader to find, which comes
 * upon it before anything that could be measured wrongly because of it. */
void ad_nested_measure(struct ad_cursor *cursor, struct ad_nested *nested);

/* What to read: instances[instance] of a predict request, or its member `name`. */
struct ad_nested_value {
    size_t instance;
    const char *name;      /* NULL: the instance itself */
    enum attn_dtype dtype; /* F32, BOOL or I64 */
    size_t rank;
    size_t shape[ATTN_MAX_RANK];
    locale_t c_locale; /* as in numbers.h */
};

/* "instances[1].query[0][3]", with so many indices. */
struct ad_text;
void ad_nested_add_place(const struct ad_nested_value *value, const size_t *index,
                         size_t n_indices, struct ad_text *text);

/* Read its elements, as many as the shape says, and go behind it. AD_INVALID names the place, what was
 * expected and what came. */
enum ad_status ad_nested_read(struct ad_cursor *cursor,
                              const struct ad_nested_value *value, void *elements,
                              struct ad_error *error) AD_MUST_CHECK;

#endif
