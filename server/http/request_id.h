/* request_id.h - a name for a request, in the log, in traces and in its reply: the client's
 * X-Request-Id, or one of ours. */
#ifndef AD_HTTP_REQUEST_ID_H
#define AD_HTTP_REQUEST_ID_H

#include <stdatomic.h>
#include <stdint.h>

#define AD_REQUEST_ID_SIZE 129 /* 128 characters and a NUL */

/* Where ours come from. Atomic; any thread. */
struct ad_request_ids {
    atomic_uint_fast64_t next;
};

/* Ours begin at a random number, so that those of two servers seldom meet. */
void ad_request_ids_init(struct ad_request_ids *ids);

/* Take the client's when it is 1 to 128 printable ASCII characters, else make one of 16 hexadecimal
 * digits. given may be NULL; blanks behind it are not part of it. */
void ad_request_id_choose(struct ad_request_ids *ids, const char *given,
                          char text[AD_REQUEST_ID_SIZE]);

#endif
