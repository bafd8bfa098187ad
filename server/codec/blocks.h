/* blocks.h - text by 64 bytes at once: where certain characters stand. */
#ifndef AD_CODEC_BLOCKS_H
#define AD_CODEC_BLOCKS_H

#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a word's first byte is low");

#define AD_BLOCK 64

typedef uint8_t ad_bytes16 __attribute__((vector_size(16)));

static inline ad_bytes16 ad_bytes_load(const char *at)
{
    ad_bytes16 bytes;
    memcpy(&bytes, at, sizeof bytes);
    return bytes;
}

/* Bit i is set when byte i is 255; every byte is 0 or 255. */
static inline uint64_t ad_bytes_bits(ad_bytes16 bytes)
{
    uint64_t halves[2], bits[2];
    memcpy(halves, &bytes, sizeof halves);
    for (unsigned i = 0; i < 2; i++) {
        /* one bit of each byte, a different one each, brought together in the highest */
        bits[i] = (halves[i] & 0x8040201008040201) * 0x0101010101010101 >> 56;
    }
    return bits[0] | bits[1] << 8;
}

#endif
