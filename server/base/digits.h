/* digits.h - a number that is written in digits alone. */
#ifndef AD_BASE_DIGITS_H
#define AD_BASE_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

/* Read a text that is one or more digits and nothing else: no sign, no space, no unit. False: it is
 * something else, or more than `most`. Pure; any thread. */
bool ad_digits_read(const char *text, uint64_t most, uint64_t *number);

#endif
