/* request_id.c - a name for a request. Any thread. */
#include "http/request_id.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

void ad_request_ids_init(struct ad_request_ids *ids)
{
    uint64_t start = 0;
    if (getrandom(&start, sizeof start, GRND_NONBLOCK) != (ssize_t)sizeof start) {
        start = (uint64_t)ad_clock_now_ns(); /* early after the system's start */
    }
    atomic_init(&ids->next, start);
}

/* Its length, 0 when it is not one. */
static size_t usable_length(const char *given)
{
    size_t n = given ? strlen(given) : 0;
    while (n > 0 && (given[n - 1] == ' ' || given[n - 1] == '\t')) {
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        if (given[i] < ' ' || given[i] > '~') {
            return 0;
        }
    }
    return n < AD_REQUEST_ID_SIZE ? n : 0;
}

void ad_request_id_choose(struct ad_request_ids *ids, const char *given,
                          char text[AD_REQUEST_ID_SIZE])
{
    size_t n = usable_length(given);
    if (n > 0) {
        memcpy(text, given, n);
        text[n] = '\0';
    } else {
        uint64_t number = atomic_fetch_add_explicit(&ids->next, 1, memory_order_relaxed);
        snprintf(text, AD_REQUEST_ID_SIZE, "%016" PRIx64, number);
    }
}
