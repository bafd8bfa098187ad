/* fault.c - a failure of the library in the daemon's terms. Pure; any thread. */
#include "codec/fault.h"

enum ad_status ad_fail_attn(struct ad_error *error, enum attn_status status,
                            const struct attn_error *fault)
{
    enum ad_status code = AD_INVALID;
    switch (status) {
    case ATTN_OK:
    case ATTN_INVALID:
    case ATTN_SHAPE:
    case ATTN_DTYPE:
    case ATTN_MISSING:
    case ATTN_UNKNOWN:
    case ATTN_RANGE:
    case ATTN_FORMAT:
        break;
    case ATTN_TOO_LARGE:
        code = AD_TOO_LARGE;
        break;
    case ATTN_NO_MEMORY:
    case ATTN_IO:
        code = AD_INTERNAL;
        break;
    }
    return ad_fail(error, code, "%s",
                   fault->message[0] ? fault->message : attn_status_text(status));
}
