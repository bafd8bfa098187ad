#!/usr/bin/env python3
"""Print server/codec/powers.c: the first 128 bits of every power of ten that a double can meet, and the
power that suits the floats of each exponent."""

from fractions import Fraction

LEAST, GREATEST = -342, 308

HEAD = """/* powers.c - powers of ten, as readers and the writer of floats want them; printed by tests/tools/make_powers.py.
 *
 * 5^q alone, since 2^q only moves the exponent. */
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


def scale_of(biased):
    """For floats of this exponent: how ad_float_scales tells 10^k, and k."""
    q = max(biased, 1) - 150
    k = next(k for k in range(40, -60, -1) if Fraction(10) ** k <= Fraction(2) ** q)
    shift = q + ((-k * 152170) >> 16) - k + 1
    return (first_bits(-k) >> 64) + 1, k, shift


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
    print("\n};\n\nconst struct ad_float_scale ad_float_scales[256] = {")
    for biased in range(256):
        end = "\n" if biased % 3 == 2 or biased == 255 else ""
        print(("" if biased % 3 else "   ") + " {0x%016x, %d, %d}," % scale_of(biased), end=end)
    print("};\n/* clang-format on */")


if __name__ == "__main__":
    main()
