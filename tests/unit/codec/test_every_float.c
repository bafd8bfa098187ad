/* test_every_float.c - floats written and read back: every STRIDE-th of all bit patterns, by threads.
 *
 * Usage: test_every_float [STRIDE]. With 1 it takes minutes; without, a moment. What is written must
 * read back to the same bits by each of our readers and by the C library, with no digit more than
 * needed, and no decimal as short may be closer. */
#include "codec/floats.h"
#include "codec/numbers.h"
#include "codec/runs.h"
#include "unit/support.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STRIDE 997 /* a prime, so that no bit stays as it is */
#define MOST_THREADS 64
#define BATCH 1024
#define SHORTNESS_STRIDE 67 /* of those that are checked: printing digits is slow */
#define TAIL 128            /* text behind the last number, for the fast reader */

static uint64_t stride = STRIDE;

struct part {
    uint64_t first, step; /* of bit patterns */
    locale_t c_locale;
    char message[128]; /* of the first failure */
    uint64_t n_checked;
};

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* What the text says, as digits without zeros at either end, and the exponent of the last. */
static uint64_t digits_of(const char *text, int *exponent)
{
    uint64_t digits = 0;
    bool fraction = false;
    *exponent = 0;
    for (; *text && *text != 'e' && *text != ','; text++) {
        fraction = fraction || *text == '.';
        if (*text >= '0' && *text <= '9') {
            digits = digits * 10 + (uint64_t)(*text - '0');
            *exponent -= fraction;
        }
    }
    *exponent += *text == 'e' ? (int)strtol(text + 1, NULL, 10) : 0;
    for (; digits > 0 && digits % 10 == 0; digits /= 10) {
        ++*exponent;
    }
    return digits;
}

static bool reads_back(const struct part *part, uint64_t digits, int exponent,
                       float value)
{
    char text[48];
    snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits, exponent);
    return strtof_l(text, NULL, part->c_locale) == value;
}

/* The decimal of n digits that is closest to value: as many digits, and the exponent of the last. */
static uint64_t closest(float value, int n, int *exponent)
{
    char text[48];
    snprintf(text, sizeof text, "%.*e", n - 1, (double)value);
    char *mark = strchr(text, 'e');
    int written;
    uint64_t digits = digits_of(text, &written);
    *exponent = (int)strtol(mark + 1, NULL, 10) - (n - 1);
    for (; written > *exponent; written--) {
        digits *= 10;
    }
    return digits;
}

/* As short as can be, and as close: printing and reading back is the reference. */
static bool is_shortest(const struct part *part, float value, const char *text)
{
    int exponent, closest_exponent;
    uint64_t digits = digits_of(text, &exponent);
    int n = snprintf(NULL, 0, "%llu", (unsigned long long)digits);
    value = fabsf(value);
    uint64_t same = closest(value, n, &closest_exponent);
    if (reads_back(part, same, closest_exponent, value) &&
        (same != digits || closest_exponent != exponent)) {
        return false;
    }
    if (n == 1) {
        return true;
    }
    uint64_t fewer = closest(value, n - 1, &closest_exponent);
    return !reads_back(part, fewer, closest_exponent, value) &&
           !reads_back(part, fewer + 1, closest_exponent, value) &&
           !reads_back(part, fewer - 1, closest_exponent, value);
}

static void report(struct part *part, const char *what, float value, const char *text)
{
    if (part->message[0] == '\0') {
        snprintf(part->message, sizeof part->message, "%08x is %s: %.*s",
                 (unsigned)bits_of(value), what, (int)strcspn(text, ","), text);
    }
}

static void check_texts(struct part *part, const float *values, size_t n,
                        const char *text, const char *end)
{
    for (size_t i = 0; i < n; i++) {
        float value = 0;
        char *stop;
        const char *at = text;
        if (bits_of(strtof_l(text, &stop, part->c_locale)) != bits_of(values[i])) {
            report(part, "another for strtof", values[i], text);
        }
        if (ad_number_f32(&at, end, part->c_locale, &value) != AD_NUMBER_OK ||
            at != stop || bits_of(value) != bits_of(values[i])) {
            report(part, "another for the reader of one", values[i], text);
        }
        if (part->n_checked++ % SHORTNESS_STRIDE == 0 && values[i] != 0 &&
            !is_shortest(part, values[i], text)) {
            report(part, "not the shortest or closest", values[i], text);
        }
        text = stop + 1;
    }
}

static void check_batch(struct part *part, const float *values, size_t n)
{
    static const char lead[] = "[0,0,0,0,0,0,0,0,";
    char text[sizeof lead + AD_FLOATS_ROOM(BATCH) + TAIL];
    float read[BATCH] = {0};
    memcpy(text, lead, sizeof lead - 1);
    char *begin = text + sizeof lead - 1;
    char *end = begin + ad_floats_write(values, n, begin);
    memset(end, ',', TAIL);
    struct ad_run run = {begin, text, end + TAIL, part->c_locale, n, 0, 0};
    if (ad_run_f32(&run, read) != n || run.at != end - 1) {
        report(part, "in a run that is not read", values[0], begin);
    }
    for (size_t i = 0; i < n; i++) {
        if (bits_of(read[i]) != bits_of(values[i])) {
            report(part, "another for the reader of many", values[i], "");
        }
    }
    check_texts(part, values, n, begin, end);
}

static void *check_part(void *argument)
{
    struct part *part = argument;
    float values[BATCH];
    size_t n = 0;
    for (uint64_t bits = part->first; bits >> 32 == 0; bits += part->step) {
        float value = float_of((uint32_t)bits);
        if (isfinite(value)) {
            values[n++] = value;
        }
        if (n == BATCH) {
            check_batch(part, values, n);
            n = 0;
        }
    }
    if (n > 0) {
        check_batch(part, values, n);
    }
    return NULL;
}

START_TEST(test_every_float)
{
    static struct part parts[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = n_processors > MOST_THREADS ? MOST_THREADS
               : n_processors > 0          ? (size_t)n_processors
                                           : 1;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    for (size_t i = 0; i < n; i++) {
        parts[i] =
            (struct part){.first = i * stride, .step = n * stride, .c_locale = c_locale};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, check_part, &parts[i]), 0);
    }
    uint64_t n_checked = 0;
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        n_checked += parts[i].n_checked;
    }
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(parts[i].message[0] == '\0', "%s", parts[i].message);
    }
    /* all but infinities and NaN */
    ck_assert_uint_ge(n_checked, (((uint64_t)255 << 24) - 2) / stride);
    freelocale(c_locale);
}
END_TEST

int main(int argc, char **argv)
{
    stride = argc > 1 ? strtoull(argv[1], NULL, 10) : STRIDE;
    if (stride == 0) {
        fprintf(stderr, "usage: %s [STRIDE]\n", argv[0]);
        return 2;
    }
    Suite *suite = suite_create("every float");
    TCase *tcase = tcase_create("every float");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_every_float);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
