/* digits.c - a number that is written in digits alone. Pure; any thread. */
#include "base/digits.h"

bool ad_digits_read(const char *text, uint64_t most, uint64_t *number)
{
    uint64_t sum = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*at - '0'), &sum)) {
            return false;
        }
    }
    if (at == text || *at != '\0' || sum > most) {
        return false;
    }
    *number = sum;
    return true;
}
