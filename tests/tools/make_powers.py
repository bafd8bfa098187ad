#!/usr/bin/env python3
"""Print server/codec/powers.c: the first 128 bits of every power of ten that a double can meet."""

LEAST, GREATEST = -342, 308

HEAD = """/* powers.c - powers of ten to 128 bits, rounded down; printed by tests/tools/make_powers.py.
 *
 * 5^q alone, since 2^q only moves the exponent. Constant. */
#include "codec/powers.h"

/* clang-format off */
const struct ad_power ad_powers[AD_POWER_GREATEST - AD_POWER_LEAST + 1] = {"""


def first_bits(q):
    """floor(5^q * 2^n), with the n for which that has 128 bits."""
    if q >= 0:
        power = 5**q
        shift = power.bit_length() - 128
        return power >> shift if shift > 0 else power << -shift
    power = 5**-q
    bits = (1 << (power.bit_length() + 127)) // power
    return bits >> (bits.bit_length() - 128)


def main():
    print(HEAD)
    for q in range(LEAST, GREATEST + 1):
        bits = first_bits(q)
        # floor(q * log2(5)), as the readers of the table work it out
        exponent = (q * 152170) >> 16
        low, high = (5**q, 1) if q >= 0 else (1, 5**-q)
        unit = (2**exponent, 1) if exponent >= 0 else (1, 2**-exponent)
        assert unit[0] * high <= low * unit[1] < 2 * unit[0] * high, q
        entry = "{0x%016x, 0x%016x}," % (bits >> 64, bits & (2**64 - 1))
        pair = (q - LEAST) % 2
        print(" " + entry if pair else "    " + entry, end="\n" if pair else "")
    print("\n};\n/* clang-format on */")


if __name__ == "__main__":
    main()
