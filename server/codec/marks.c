/* marks.c - past lists and objects in JSON, many bytes at once. Pure; any thread. */
#include "codec/marks.h"
#include "codec/blocks.h"

#include <stdint.h>

/* Bit i is set when at[i] is a bracket, a brace or a quote, or one of few letters that look so. */
static inline uint64_t find_marks(const char *at)
{
    uint64_t found = 0;
    for (unsigned i = 0; i < AD_BLOCK; i += sizeof(ad_bytes16)) {
        ad_bytes16 bytes = ad_bytes_load(at + i);
        found |= ad_bytes_bits((ad_bytes16)(((bytes | 0x26) == 0x7f) | (bytes == '"')))
                 << i;
    }
    return found;
}

static int depth_step(char c)
{
    return c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
}

const char *ad_marks_skip(const char *at, const char *end, size_t *depth)
{
    while (end - at >= AD_BLOCK) {
        for (uint64_t marks = find_marks(at); marks; marks &= marks - 1) {
            const char *mark = at + __builtin_ctzll(marks);
            *depth += (size_t)depth_step(*mark);
            if (*depth == 0 || *mark == '"') {
                return mark + (*depth == 0);
            }
        }
        at += AD_BLOCK;
    }
    while (at < end && *at != '"') {
        *depth += (size_t)depth_step(*at++);
        if (*depth == 0) {
            return at;
        }
    }
    return at;
}
