/* instances.h - the instances of a predict request -> the tensors that they make up. */
#ifndef AD_CODEC_INSTANCES_H
#define AD_CODEC_INSTANCES_H

#include "base/error.h"
#include "codec/nested.h"
#include "sched/request.h"

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>

/* Read the value of `instances` at the cursor, which ends behind it, into request->inputs; the request's
 * ports must be known. c_locale as in numbers.h. Errors as ad_predict_decode. */
enum ad_status ad_instances_read(struct ad_request *request, struct ad_cursor *cursor,
                                 locale_t c_locale, struct ad_error *error) AD_MUST_CHECK;

/* A member's name up to its value. The bytes between its quotes are as they are spelled; is `name` what they
 * mean? AD_INVALID: no name in quotes with a colon behind it, or not valid JSON. */
struct ad_member {
    const char *text;
    size_t n;
};
enum ad_status ad_member_take(struct ad_cursor *cursor, struct ad_member *member,
                              struct ad_error *error) AD_MUST_CHECK;
bool ad_member_is(const struct ad_member *member, const char *name);

#endif
