/* utf8.c - what of a byte string is text. Pure functions, any thread. */
#include "base/utf8.h"

#include <stdint.h>

/* The length that a first byte announces; 0 for one that cannot come first. */
static size_t announced_length(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    return first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
}

size_t ad_utf8_length(const char *text, size_t n)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    static const unsigned char mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    if (n == 0) {
        return 0;
    }
    const unsigned char *s = (const unsigned char *)text;
    size_t length = announced_length(s[0]);
    if (length == 0 || length > n) {
        return 0;
    }
    uint32_t code = s[0] & mask[length];
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (s[i] & 0x3fu);
    }
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        return 0;
    }
    return length;
}

bool ad_utf8_is_control(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    if (length == 1) {
        return s[0] < 0x20 || s[0] == 0x7f;
    }
    return length == 2 && s[0] == 0xc2 && s[1] < 0xa0; /* U+0080 to U+009F */
}

int ad_utf8_hex4(const char *text, const char *end)
{
    if (end - text < 4) {
        return -1;
    }
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}
