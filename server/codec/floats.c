/* floats.c - floats as JSON numbers: the fewest digits that read back as the same float.
 *
 * Digits come from the C library's correctly rounded "%.*e" and are tested by reading them back. The
 * decimal point is never taken from, nor shown to, the C library, so that its locale cannot matter.
 * Runs on a worker; keeps no state. */
#include "codec/floats.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIGITS 9 /* enough for any float */

/* digits * 10^exponent */
struct decimal {
    uint32_t digits;
    int exponent;
};

static bool reads_back(struct decimal decimal, float value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu32 "e%d", decimal.digits, decimal.exponent);
    return strtof(text, NULL) == value;
}

/* value > 0 rounded to n significant digits. */
static struct decimal round_to(float value, int n)
{
    char text[32];
    snprintf(text, sizeof text, "%.*e", n - 1, (double)value);
    const char *mark = strchr(text, 'e');
    uint32_t digits = (uint32_t)(text[0] - '0');
    for (const char *at = mark - (n - 1); at < mark; at++) {
        digits = digits * 10 + (uint32_t)(*at - '0');
    }
    return (struct decimal){digits, (int)strtol(mark + 1, NULL, 10) - (n - 1)};
}

/* Is there a decimal of n digits that reads back as value? */
static bool try_digits(float value, int n, struct decimal *found)
{
    struct decimal decimal = round_to(value, n);
    if (!reads_back(decimal, value)) {
        /* The float below a power of two is half as far away as the one above, so the decimal
         * above may do where a nearer one below does not. */
        int exponent;
        if (frexpf(value, &exponent) != 0.5f) {
            return false;
        }
        decimal.digits++;
        if (!reads_back(decimal, value)) {
            return false;
        }
    }
    *found = decimal;
    return true;
}

static struct decimal shortest(float value)
{
    struct decimal best = {0, 0};
    /* A normal float shows up to 6 digits of a decimal unchanged; a subnormal fewer. */
    int least = value < FLT_MIN ? 1 : FLT_DIG;
    int n = MAX_DIGITS - 1;
    if (!try_digits(value, n, &best)) {
        best = round_to(value, MAX_DIGITS);
    } else {
        while (n > least && try_digits(value, n - 1, &best)) {
            n--;
        }
    }
    while (best.digits % 10 == 0) {
        best.digits /= 10;
        best.exponent++;
    }
    return best;
}

static size_t write_unsigned(uint32_t number, char *text)
{
    char reversed[10];
    size_t n = 0;
    do {
        reversed[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    for (size_t i = 0; i < n; i++) {
        text[i] = reversed[n - 1 - i];
    }
    return n;
}

/* 1.25e-7 */
static size_t write_scientific(const char *digits, size_t n_digits, int power, char *text)
{
    char *at = text;
    *at++ = digits[0];
    if (n_digits > 1) {
        *at++ = '.';
        memcpy(at, digits + 1, n_digits - 1);
        at += n_digits - 1;
    }
    *at++ = 'e';
    if (power < 0) {
        *at++ = '-';
        power = -power;
    }
    at += write_unsigned((uint32_t)power, at);
    return (size_t)(at - text);
}

/* 0.00125, 12.5 or 12500; power is that of the first digit, -4 to 8. */
static size_t write_plain(const char *digits, size_t n_digits, int power, char *text)
{
    char *at = text;
    if (power < 0) {
        *at++ = '0';
        *at++ = '.';
        for (int i = -1; i > power; i--) {
            *at++ = '0';
        }
        memcpy(at, digits, n_digits);
        return (size_t)(at - text) + n_digits;
    }
    size_t n_before = (size_t)power + 1;
    for (size_t i = 0; i < n_digits || i < n_before; i++) {
        if (i == n_before) {
            *at++ = '.';
        }
        *at++ = i < n_digits ? digits[i] : '0';
    }
    return (size_t)(at - text);
}

size_t ad_float_write(float value, char text[AD_FLOAT_MAX_TEXT])
{
    size_t n = 0;
    if (signbit(value)) {
        text[n++] = '-';
        value = -value;
    }
    if (value == 0.0f && n > 0) {
        memcpy(text, "-0.0",
               4); /* "-0" is read as an integer by some, without its sign */
        return 4;
    }
    if (value < 0x1p24f && value == truncf(value)) {
        return n + write_unsigned((uint32_t)value, text + n);
    }
    struct decimal decimal = shortest(value);
    char digits[10];
    size_t n_digits = write_unsigned(decimal.digits, digits);
    int power = decimal.exponent + (int)n_digits - 1;
    if (power >= -4 && power <= 8) {
        return n + write_plain(digits, n_digits, power, text + n);
    }
    return n + write_scientific(digits, n_digits, power, text + n);
}
