/* utf8.c - checks text that comes from files; pure functions, any thread. */
#include "utf8.h"

#include <stdint.h>

size_t attni_utf8_length(const unsigned char *s, size_t n)
{
    if (n == 0) {
        return 0;
    }
    size_t length = s[0] < 0x80       ? 1
                    : s[0] >> 5 == 6  ? 2
                    : s[0] >> 4 == 14 ? 3
                    : s[0] >> 3 == 30 ? 4
                                      : 0;
    if (length <= 1 || length > n) {
        return length > n ? 0 : length;
    }
    uint32_t code = s[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (s[i] & 0x3fu);
    }
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < least[length] || code > 0x10ffff || surrogate ? 0 : length;
}

bool attni_utf8_is_control(const unsigned char *s, size_t length)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},
                  {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
    uint32_t code = length == 1 ? s[0] : s[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        code = code << 6 | (s[i] & 0x3fu);
    }
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (code <= ranges[i].last) {
            return code >= ranges[i].first;
        }
    }
    return false;
}
