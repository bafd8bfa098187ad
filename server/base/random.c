/* random.c - bytes that nobody can guess. */
#include "base/random.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

bool ad_random_fill(void *to, size_t n_bytes)
{
    unsigned char *at = to;
    while (n_bytes > 0) {
        ssize_t n = getrandom(at, n_bytes, 0);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        at += n > 0 ? n : 0;
        n_bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}
