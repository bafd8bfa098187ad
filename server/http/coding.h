/* coding.h - codings as HTTP names them, and which one a client would like best. */
#ifndef AD_HTTP_CODING_H
#define AD_HTTP_CODING_H

#include "sched/request.h"

#include <stdbool.h>

#define AD_CODINGS "gzip, deflate, zstd" /* of infer requests and their replies */
#define AD_NO_CODINGS "identity"         /* of all others */

/* The name for a reply, static; NULL for identity. */
const char *ad_coding_name(enum ad_coding coding);

/* What a Content-Encoding says; an empty one is identity. False: it is none of ours, or more than
 * one. */
bool ad_coding_parse(const char *content_encoding, enum ad_coding *coding);

/* The coding for a client that sent this Accept-Encoding (NULL: none). Who lists a coding wants it;
 * who does not say that it takes one gets identity, and so does who takes nothing of ours. */
enum ad_coding ad_coding_negotiate(const char *accept_encoding);

#endif
