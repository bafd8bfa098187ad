/* machine_loops.h - two loops that measure a processor, included once for each width of vector with
 * VECTOR_BYTES, TARGET (the attribute that allows the instructions) and LOOP(name) defined. */

typedef float LOOP(vector) __attribute__((vector_size(VECTOR_BYTES)));

/* Multiply-adds in registers alone, twelve chains at once: more than latency times units. Returns
 * the number of floating-point operations. */
TARGET static double LOOP(multiply_add)(size_t n)
{
    volatile float seed = 0.5f;
    LOOP(vector) x = {0}, a, b, c, d, e, f, g, h, i, j, k, l;
    x += seed;
    /* chains that a compiler cannot take for one and the same */
    a = x, b = a + x, c = b + x, d = c + x, e = d + x, f = e + x;
    g = f + x, h = g + x, i = h + x, j = i + x, k = j + x, l = k + x;
    for (size_t step = 0; step < n; step++) {
        a = a * x + x;
        b = b * x + x;
        c = c * x + x;
        d = d * x + x;
        e = e * x + x;
        f = f * x + x;
        g = g * x + x;
        h = h * x + x;
        i = i * x + x;
        j = j * x + x;
        k = k * x + x;
        l = l * x + x;
    }
    LOOP(vector) sum = a + b + c + d + e + f + g + h + i + j + k + l;
    volatile float sink = sum[0];
    (void)sink;
    return (double)n * 12 * 2 * (VECTOR_BYTES / sizeof(float));
}

/* Read n floats, a multiple of eight vectors, aligned as a vector. */
TARGET static void LOOP(read)(const float *data, size_t n)
{
    const size_t lanes = VECTOR_BYTES / sizeof(float);
    const LOOP(vector) *p = (const void *)data;
    LOOP(vector) a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};
    for (size_t at = 0; at < n / lanes; at += 8) {
        a += p[at];
        b += p[at + 1];
        c += p[at + 2];
        d += p[at + 3];
        e += p[at + 4];
        f += p[at + 5];
        g += p[at + 6];
        h += p[at + 7];
    }
    LOOP(vector) sum = a + b + c + d + e + f + g + h;
    volatile float sink = sum[0];
    (void)sink;
}
