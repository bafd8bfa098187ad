/* utf8.c - what of a byte string is text, and may be shown. Pure functions, any thread. */
#include "base/utf8.h"

#include <string.h>

static const unsigned char first_mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07}; /* by length */

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
    if (n == 0) {
        return 0;
    }
    const unsigned char *s = (const unsigned char *)text;
    size_t length = announced_length(s[0]);
    if (length == 0 || length > n) {
        return 0;
    }
    uint32_t code = s[0] & first_mask[length];
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

uint32_t ad_utf8_code(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    uint32_t code = s[0] & first_mask[length];
    for (size_t i = 1; i < length; i++) {
        code = code << 6 | (s[i] & 0x3fu);
    }
    return code;
}

bool ad_utf8_is_control(const char *text, size_t length)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},
                  {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
    uint32_t code = ad_utf8_code(text, length);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (code <= ranges[i].last) {
            return code >= ranges[i].first;
        }
    }
    return false;
}

void ad_utf8_make_printable(char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        size_t length = ad_utf8_length(text + i, n - i);
        if (length == 0) {
            length = 1;
            text[i] = '?';
        } else if (ad_utf8_is_control(text + i, length)) {
            memset(text + i, '?', length);
        }
        i += length;
    }
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
