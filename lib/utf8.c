/* utf8.c - checks text that comes from files; pure functions, any thread. */
#include "utf8.h"

#include <stdbool.h>
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
