/* base64.c - the strict form: no spaces, no line ends, padded, no bits left over. Pure; any thread. */
#include "http/base64.h"

#include <stdint.h>

/* The six bits of a character, or -1. */
static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four characters, of which the last n_padding are '=', as 24 bits; -1: they are none. */
static int32_t decode_four(const char *text, size_t n_padding)
{
    int32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        const bool padded = i >= 4 - n_padding;
        const int value = !padded ? value_of(text[i]) : text[i] == '=' ? 0 : -1;
        if (value < 0) {
            return -1;
        }
        bits = bits * 64 + value;
    }
    const int32_t unused = n_padding == 0 ? 0 : n_padding == 1 ? 0xff : 0xffff;
    return (bits & unused) != 0 ? -1 : bits;
}

bool ad_base64_decode(char *text, size_t n, size_t *n_bytes)
{
    if (n % 4 != 0) {
        return false;
    }
    size_t n_out = 0;
    for (size_t i = 0; i < n; i += 4) {
        const bool last = i + 4 == n;
        const size_t n_padding = !last                ? 0
                                 : text[i + 2] == '=' ? 2
                                 : text[i + 3] == '=' ? 1
                                                      : 0;
        const int32_t bits = decode_four(text + i, n_padding);
        if (bits < 0) {
            return false;
        }
        /* three bytes overwrite the four characters that they were, or earlier ones */
        for (size_t k = 0; k < 3 - n_padding; k++) {
            text[n_out++] = (char)(uint8_t)(bits >> (16 - 8 * k));
        }
    }
    *n_bytes = n_out;
    return true;
}
