/* dropout.c - draws and what they decide. Pure functions, any thread.
 *
 * Draws come from Philox4x32-10, a counter-based generator: the counter is the element's position, the
 * key is the seed. A draw is a word times 2^-32, and is compared as the integer it is. */
#include "dropout.h"

#include "kernels/kernels.h"

/* Words that one counter gives. */
#define WORDS 4

/* Draws under way at a time. */
#define CHUNK 256

/* Elements of a loop whose length is known, which compilers turn into vectors. */
#define STRIDE 16

static void clear(float *factors, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        factors[j] = 0;
    }
}

/* last: the greatest word that keeps. */
static void choose(const uint32_t *words, size_t n, uint32_t last, float scale,
                   float *factors)
{
    size_t j = 0;
    for (; j + STRIDE <= n; j += STRIDE) {
        for (size_t l = 0; l < STRIDE; l++) {
            factors[j + l] = words[j + l] <= last ? scale : 0;
        }
    }
    for (; j < n; j++) {
        factors[j] = words[j] <= last ? scale : 0;
    }
}

/* How many of the 2^32 words keep: those whose draw, word * 2^-32, is below a bound of 0 to 1. */
static uint64_t words_below(double bound)
{
    double scaled = bound * 4294967296.0; /* exactly */
    uint64_t whole = (uint64_t)scaled;
    return (double)whole < scaled ? whole + 1 : whole;
}

static void made(const struct attni_dropout *dropout, const size_t at[4], size_t n,
                 float *factors)
{
    double keep = 1 - dropout->probability;
    uint64_t n_keeping = words_below(keep);
    if (n_keeping == 0) {
        clear(factors, n);
        return;
    }
    const uint32_t key[2] = {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)};
    const struct attni_kernels *kernels = attni_kernels();
    uint32_t words[CHUNK];
    for (size_t j = 0, skipped = at[3] % WORDS; j < n; skipped = 0) {
        size_t left = n - j, room = CHUNK - skipped, m = left < room ? left : room;
        const uint32_t counter[4] = {(uint32_t)((at[3] + j) / WORDS), (uint32_t)at[2],
                                     (uint32_t)at[0],
                                     (uint32_t)at[1] | (uint32_t)dropout->stream << 24};
        kernels->draw_words((skipped + m + WORDS - 1) / WORDS, counter, key, words);
        choose(words + skipped, m, (uint32_t)(n_keeping - 1), (float)(1 / keep),
               factors + j);
        j += m;
    }
}

static void given(const float *draws, double keep, size_t n, float *factors)
{
    float scale = (float)(1 / keep);
    for (size_t j = 0; j < n; j++) {
        factors[j] = (double)draws[j] < keep ? scale : 0;
    }
}

void attni_dropout_factors(const struct attni_dropout *dropout, size_t sample,
                           size_t head, size_t row, size_t first, size_t n,
                           float *factors)
{
    const size_t at[4] = {sample, head, row, first};
    double keep = 1 - dropout->probability;
    if (!dropout->uniform) {
        made(dropout, at, n, factors);
    } else if (keep > 0) {
        given(dropout->uniform + sample * dropout->sample + head * dropout->head +
                  row * dropout->row + first,
              keep, n, factors);
    } else {
        clear(factors, n);
    }
}

void attni_dropout_apply(const struct attni_dropout *dropout, size_t sample, size_t head,
                         size_t row, size_t first, size_t n, float *x)
{
    float factors[CHUNK];
    for (size_t j = 0; j < n; j += CHUNK) {
        size_t m = n - j < CHUNK ? n - j : CHUNK;
        attni_dropout_factors(dropout, sample, head, row, first + j, m, factors);
        for (size_t k = 0; k < m; k++) {
            x[j + k] *= factors[k];
        }
    }
}

bool attni_dropout_check(const float *uniform, size_t n, size_t *bad)
{
    for (size_t i = 0; i < n; i++) {
        if (!(uniform[i] >= 0 && uniform[i] < 1)) {
            *bad = i;
            return false;
        }
    }
    return true;
}
