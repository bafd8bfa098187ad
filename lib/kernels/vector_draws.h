/* vector_draws.h - part of vector.h: random words by counter.
 *
 * Each word of a counter has the lower half of a 64-bit element, where products begin and end; upper
 * halves hold what is left over, and nothing reads them. */

/* Counters of one vector. */
#define COUNTERS (LANES / 2)

struct state {
    vw words[4];
};

INLINE vw all_words(uint32_t x)
{
    return (vw){0} + x;
}

INLINE void draw_round(struct state *s, uint32_t key_0, uint32_t key_1)
{
    vw p = v_multiply(s->words[0], all_words(ATTNI_DRAW_MULTIPLIER_0));
    vw q = v_multiply(s->words[2], all_words(ATTNI_DRAW_MULTIPLIER_1));
    *s = (struct state){{(q >> 32) ^ s->words[1] ^ all_words(key_0), q,
                         (p >> 32) ^ s->words[3] ^ all_words(key_1), p}};
}

/* Numbers from 0 on, in the order that pairs of elements come out in: element 2i is i, and element
 * 2i + 1 is COUNTERS / 2 + i. */
INLINE vw counting(void)
{
    uint64_t numbers[COUNTERS];
    for (size_t i = 0; i < COUNTERS; i++) {
        numbers[i] = i / 2 + i % 2 * (COUNTERS / 2);
    }
    vw result;
    memcpy(&result, numbers, sizeof result);
    return result;
}

/* Two vectors of counters, from `first` on, so that one's products hide the latency of the other's. */
INLINE void draw_block(const uint32_t counter[4], uint32_t first, const uint32_t key[2],
                       uint32_t *words)
{
    struct state s[2];
    for (uint32_t v = 0; v < 2; v++) {
        s[v] = (struct state){{counting() + all_words(first + v * COUNTERS),
                               all_words(counter[1]), all_words(counter[2]),
                               all_words(counter[3])}};
    }
    for (uint32_t round = 0; round < ATTNI_DRAW_ROUNDS; round++) {
        uint32_t key_0 = key[0] + round * ATTNI_DRAW_STEP_0;
        uint32_t key_1 = key[1] + round * ATTNI_DRAW_STEP_1;
        draw_round(&s[0], key_0, key_1);
        draw_round(&s[1], key_0, key_1);
    }
    for (int v = 0; v < 2; v++) {
        const vw lower = all_words(0xffffffff);
        vw front = (s[v].words[0] & lower) | s[v].words[1] << 32;
        vw back = (s[v].words[2] & lower) | s[v].words[3] << 32;
        v_store((float *)(void *)words, (vf)v_even_pairs(front, back));
        v_store((float *)(void *)(words + LANES), (vf)v_odd_pairs(front, back));
        words += 2 * LANES;
    }
}

static void draw_words(size_t n, const uint32_t counter[4], const uint32_t key[2],
                       uint32_t *words)
{
    size_t i = 0;
    for (; i + 2 * COUNTERS <= n; i += 2 * COUNTERS) {
        draw_block(counter, counter[0] + (uint32_t)i, key, words + 4 * i);
    }
    if (i < n) {
        uint32_t rest[8 * COUNTERS];
        draw_block(counter, counter[0] + (uint32_t)i, key, rest);
        memcpy(words + 4 * i, rest, 4 * (n - i) * sizeof *rest);
    }
}
