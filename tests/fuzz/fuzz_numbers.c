/* fuzz_numbers.c - the bytes are a number, a list of numbers, and floats: numbers are what the C library
 * makes of them, lists the same by all readers, floats the same once written and read. */
#include "codec/floats.h"
#include "unit/codec/number_lists.h"

#include <stdio.h>

#define MOST_BYTES 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "numbers: %s\n", what);
        abort();
    }
}

/* One number, in memory that ends with the byte behind it. */
static void check_number(const uint8_t *data, size_t size, locale_t c_locale)
{
    char *text = malloc(size + 1);
    require(text != NULL, "memory");
    memcpy(text, data, size);
    text[size] = '\0';
    const char *wrong = numbers_compare(text, text + size, c_locale);
    require(!wrong, wrong ? wrong : "");
    free(text);
}

/* The first byte says how long the lists are; the text ends one byte before its memory does. */
static void check_lists(const uint8_t *data, size_t size, locale_t c_locale)
{
    static int64_t fast[MOST_BYTES], slow[MOST_BYTES];
    size_t n_each = data[0] % 16 < 15 ? 1 + data[0] % 16 : MOST_BYTES;
    char *text = malloc(size + 1);
    require(text != NULL, "memory");
    memcpy(text, data, size);
    text[size] = '\0';
    static const enum numbers_kind kinds[] = {NUMBERS_F32, NUMBERS_F32_OF_F64,
                                              NUMBERS_I32, NUMBERS_I64};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        enum numbers_kind kind = kinds[i];
        struct numbers_text numbers = {text,     text + 1, text + size,
                                       c_locale, n_each,   1 + (size_t)data[0] / 16};
        const char *fast_stop, *slow_stop;
        size_t n = numbers_read(kind, false, &numbers, slow, &slow_stop);
        require(numbers_read(kind, true, &numbers, fast, &fast_stop) == n, "how many");
        require(fast_stop == slow_stop, "where it ends");
        require(memcmp(fast, slow, n * (kind == NUMBERS_I64 ? 8 : 4)) == 0, "the values");
    }
    free(text);
}

static void check_floats(const uint8_t *data, size_t size, locale_t c_locale)
{
    float values[MOST_BYTES / sizeof(float)];
    size_t n = 0;
    for (size_t at = 0; at + sizeof(float) <= size; at += sizeof(float)) {
        memcpy(&values[n], data + at, sizeof(float));
        n += isfinite(values[n]) ? 1 : 0;
    }
    char *text = malloc(AD_FLOATS_ROOM(n)), *at = text;
    require(text != NULL, "memory");
    size_t n_text = ad_floats_write(values, n, text);
    require(n_text <= n * (AD_FLOAT_MAX_TEXT + 1), "the length");
    for (size_t i = 0; i < n; i++) {
        float value = 0;
        const char *next = at;
        require(ad_number_f32(&next, text + n_text, c_locale, &value) == AD_NUMBER_OK,
                "what is written");
        require(memcmp(&value, &values[i], sizeof value) == 0, "what is written is read");
        at = text + (next - text);
        require(*at++ == ',', "the comma");
    }
    require(at == text + n_text, "the end");
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > MOST_BYTES) {
        return 0;
    }
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    check_number(data, size, c_locale);
    check_lists(data, size, c_locale);
    check_floats(data, size, c_locale);
    freelocale(c_locale);
    return 0;
}
