#!/usr/bin/env python3
"""Print tests/unit/codec/hard_numbers.h: decimals that are hard to round, and what they round to.

What is expected comes from fractions, which are exact, and from nothing else."""

from fractions import Fraction

# name: bits of the mantissa with the hidden one, least exponent, bits of the exponent
FORMATS = {"f32": (24, -126, 8), "f64": (53, -1022, 11)}


def bits(value, form):
    """The nearest number of the format, ties to even, as its bits; infinity's where it is beyond."""
    n_bits, least, n_exponent = FORMATS[form]
    if value == 0:
        return 0
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if Fraction(2) ** exponent > value:
        exponent -= 1
    exponent = max(exponent, least)
    scaled = value / Fraction(2) ** (exponent - n_bits + 1)
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    infinity = (2**n_exponent - 1) << (n_bits - 1)
    return min(((exponent - least) << (n_bits - 1)) + whole, infinity)


def exact(value):
    """All digits of a fraction whose denominator is a power of two."""
    n = value.denominator.bit_length() - 1
    digits = str(value.numerator * 5**n)
    return digits + ("e-%d" % n if n else "")


def moved(text, step):
    """The last digit, or the one before the exponent, one up or down."""
    digits, mark, exponent = text.partition("e")
    return str(int(digits + "0") + step) + "e%d" % (int(exponent or 0) - 1)


def between(form, mantissa, exponent):
    """The middle between mantissa * 2^exponent and the next number up."""
    return (2 * Fraction(mantissa) + 1) * Fraction(2) ** (exponent - 1)


def middles():
    """Middles between two numbers, a hair above and a hair below."""
    at = [
        ("f32", 0, -149),  # zero and the smallest
        ("f32", 1, -149),
        ("f32", 2**23 - 2, -149),  # the largest subnormals
        ("f32", 2**23 - 1, -149),
        ("f32", 2**23, -149),  # the smallest normal
        ("f32", 2**23, -23),  # one
        ("f32", 2**23 + 1, -23),
        ("f32", 2**23, 0),
        ("f32", 2**24 - 1, 0),
        ("f32", 2**24 - 1, 104),  # the largest, and infinity
        ("f64", 0, -1074),
        ("f64", 1, -1074),
        ("f64", 2**52 - 2, -1074),
        ("f64", 2**52 - 1, -1074),
        ("f64", 2**52, -1074),
        ("f64", 2**52, -52),
        ("f64", 2**52 + 1, -52),
        ("f64", 2**53 - 1, 0),
        ("f64", 2**53 - 1, 971),
    ]
    for form, mantissa, exponent in at:
        text = exact(between(form, mantissa, exponent))
        yield from (text, moved(text, 1), moved(text, -1))


# What readers are known to have stumbled over, and the limits of the types.
KNOWN = """
0.0 1e-400000 1e400000 0e999999999999 1e9223372036854775808 1e-99999999999999999999 1e+00005 1e-00005 123456789012345678e-17
2.2250738585072011e-308 2.2250738585072012e-308 2.2250738585072014e-308 2.225073858507201e-308
4.9406564584124654e-324 2.4703282292062327e-324 2.4703282292062328e-324 1e-323 1e-324
1.7976931348623157e308 1.7976931348623158e308 1.7976931348623159e308 1.7976931348623160e308
9007199254740991 9007199254740992 9007199254740993 9007199254740994 9007199254740995
72057594037927933 72057594037927928 8.988465674311582e307 6.929495644600919e15 3.70206e-301
5.5626846462680035e-309 7.2057594037927933e16 1e23 8.5e22 9e22 1e22 123e20 8.41e21 9.9999999e22
1.00000000000000011102230246251565404236316680908203125 5e-324 860228122.6654514319E+90
1.00000000000000011102230246251565404236316680908203124 6.631236846766476e-316
1.00000000000000011102230246251565404236316680908203126 3.237883913302901e-319
16777217 16777219 16777216.999999999 16777217.0000001 33554434 8388608.5 8388609.5 4194304.25
3.4028234e38 3.4028235e38 3.4028235677973366e38 3.4028235677973367e38 3.4028236e38 3.5e38 1e38 1e39
1.17549435e-38 1.1754943508222875e-38 1.1754942e-38 1.1754943157898259e-38 1.4e-45 1.401298464324817e-45
7.0064923216240853e-46 7.0064923216240854e-46 7e-46 7.1e-46 1e-45 2.1e-45 2.1019476964872256e-45 1e-46
0.1 0.2 0.3 0.7 1.1 2.675 0.000001 1e-7 123456.789 3.1415927 2.7182817 0.33333334 8.37377e9
""".split()


def powers():
    for n in range(0, 23):
        yield str(10**n)
        yield "1e-%d" % n
    for n in range(1, 28):
        yield str(5**n)
    for n in (24, 25, 53, 54, 63, 64, 65, 100, 127, 128):
        for step in (-1, 0, 1):
            yield str(2**n + step)
    for n in range(1, 30):
        yield exact(Fraction(1, 2**n))


def many_digits():
    """18 to 21 digits, about where 64 bits end."""
    for n in (18, 19, 20, 21):
        for digits in ("9" * n, "1" * n, "1" + "0" * (n - 2) + "1", "18446744073709551615"[:n]):
            for exponent in ("", "e-%d" % n, "e10", "e-40"):
                yield digits + exponent
    for n in range(18446744073709551613, 18446744073709551620):
        yield str(n)


def main():
    print("/* hard_numbers.h - decimals that are hard to round; printed by tests/tools/make_hard_numbers.py. */")
    print("#ifndef TESTS_UNIT_CODEC_HARD_NUMBERS_H\n#define TESTS_UNIT_CODEC_HARD_NUMBERS_H\n")
    print("#include <stdint.h>\n")
    print("/* clang-format off */")
    print("static const struct {\n    uint32_t f32; /* bits of the nearest */")
    print("    uint64_t f64;\n    const char *text;\n} hard_numbers[] = {")
    texts = list(dict.fromkeys([*KNOWN, *powers(), *many_digits(), *middles()]))
    for text in texts:
        # Fraction would work out what is far beyond any type
        digits, _, exponent = text.lower().partition("e")
        far = abs(int(exponent or 0)) > 5000
        value = Fraction(digits if far else text) * (Fraction(10) ** (5000 if int(exponent) > 0 else -5000) if far else 1)
        lines = [text[i : i + 82] for i in range(0, len(text), 82)]
        head = "    {0x%08x, 0x%016x, " % (bits(value, "f32"), bits(value, "f64"))
        print(head + ("" if len(text) < 48 else "\n     ") + '"%s"},' % '"\n     "'.join(lines))
    print("};\n/* clang-format on */\n\n#endif")


if __name__ == "__main__":
    main()
