/* test_dropout.c - the generator against published answers, every table of kernels against the plain one,
 * factors against their definition, and statistics of what is kept. */
#include "dropout.h"
#include "unit/lib/kernel_tables.h"

static struct arena factor_memory, word_memory;

/* Statistics may be off by 4 standard deviations: with seeds that are fixed, a run is like any other. */
#define SIGMAS 4

/* ---- the generator ------------------------------------------------------------------------- */

/* Known answers of Philox4x32-10, as published with the generator. */
START_TEST(known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], words[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    for (size_t i = 0; i < COUNT(known); i++) {
        for (uint32_t before = 0; before < 40; before++) { /* wherever in a block it is */
            uint32_t words[4 * 41], counter[4];
            memcpy(counter, known[i].counter, sizeof counter);
            counter[0] -= before;
            table->draw_words(before + 1, counter, known[i].key, words);
            ck_assert_mem_eq(words + (size_t)4 * before, known[i].words,
                             sizeof known[i].words);
        }
    }
}
END_TEST

/* Counters that wrap, sizes around every width of vector, nothing written beyond. */
START_TEST(same_words)
{
    const struct attni_kernels *table = attni_kernels_at((size_t)_i);
    struct dice dice = {1};
    for (size_t n = 0; n <= 100; n++) {
        static uint32_t expected[400];
        uint32_t counter[4], key[2];
        for (size_t i = 0; i < 4; i++) {
            counter[i] = (uint32_t)dice_next(&dice);
            key[i % 2] = (uint32_t)dice_next(&dice);
        }
        counter[0] = n % 2 ? counter[0] : UINT32_MAX - (uint32_t)n / 2;
        float *words = arena_floats(&word_memory, 4 * n);
        table->draw_words(n, counter, key, (uint32_t *)(void *)words);
        check_margin(&word_memory);
        for (uint32_t i = 0; i < n; i++) {
            attni_kernels_ref.draw_words(1, counter, key, expected + (size_t)4 * i);
            counter[0]++;
        }
        ck_assert_mem_eq(words, expected, 4 * n * sizeof *expected);
    }
}
END_TEST

/* ---- factors ------------------------------------------------------------------------------- */

/* By the definition, for one element. */
static float factor_of(const struct attni_dropout *dropout, size_t sample, size_t head,
                       size_t row, size_t column)
{
    double keep = 1 - dropout->probability, draw;
    if (dropout->uniform) {
        draw = (double)dropout->uniform[sample * dropout->sample + head * dropout->head +
                                        row * dropout->row + column];
    } else {
        const uint32_t counter[4] = {(uint32_t)(column / 4), (uint32_t)row,
                                     (uint32_t)sample,
                                     (uint32_t)(head + ((size_t)dropout->stream << 24))};
        const uint32_t key[2] = {(uint32_t)dropout->seed,
                                 (uint32_t)(dropout->seed >> 32)};
        uint32_t words[4];
        attni_kernels_ref.draw_words(1, counter, key, words);
        draw = (double)words[column % 4] * 0x1p-32;
    }
    return draw < keep ? (float)(1 / keep) : 0;
}

static const double probabilities[] = {0,   1e-12, 0x1p-32, 0.1, 0.25,
                                       0.5, 0.75,  0.999,   1,   1 - 0x1p-32};

/* Every table chosen in its turn; parts of rows that begin and end anywhere. */
START_TEST(factors_by_definition)
{
    ck_assert_int_eq(setenv("ATTN_ISA", attni_kernels_at((size_t)_i)->name, 1), 0);
    struct dice dice = {2};
    for (size_t k = 0; k < 600; k++) {
        const struct attni_dropout dropout = {.probability =
                                                  probabilities[k % COUNT(probabilities)],
                                              .seed = dice_next(&dice),
                                              .stream = (enum attni_stream)(k % 3)};
        size_t sample = dice_below(&dice, 100), row = dice_below(&dice, 5000);
        size_t head = k % 5 ? dice_below(&dice, 16) : ((size_t)1 << 24) - 1;
        size_t first = dice_below(&dice, 1000), n = dice_below(&dice, 600);
        float *factors = arena_floats(&factor_memory, n);
        attni_dropout_factors(&dropout, sample, head, row, first, n, factors);
        check_margin(&factor_memory);
        for (size_t j = 0; j < n; j++) {
            ck_assert_float_eq(factors[j],
                               factor_of(&dropout, sample, head, row, first + j));
        }
    }
}
END_TEST

/* However a row is cut, its factors are the same. */
START_TEST(factors_in_parts)
{
    enum { LENGTH = 1500 };
    static float whole[LENGTH], part[LENGTH];
    const struct attni_dropout dropout = {.probability = 0.4, .seed = UINT64_MAX - 5};
    struct dice dice = {3};
    attni_dropout_factors(&dropout, 3, 2, 1, 0, LENGTH, whole);
    for (int k = 0; k < 100; k++) {
        for (size_t at = 0, n; at < LENGTH; at += n) {
            n = dice_below(&dice, k % 2 ? 10 : 700);
            n = n < LENGTH - at ? n : LENGTH - at;
            attni_dropout_factors(&dropout, 3, 2, 1, at, n, part + at);
        }
        ck_assert_mem_eq(part, whole, sizeof whole);
    }
}
END_TEST

START_TEST(certain)
{
    float factors[100];
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct attni_dropout dropout = {.probability = 0, .seed = seed};
        attni_dropout_factors(&dropout, 0, 0, 0, 0, 100, factors);
        for (size_t j = 0; j < 100; j++) {
            ck_assert_float_eq(factors[j], 1);
        }
        dropout.probability = 1;
        attni_dropout_factors(&dropout, 0, 0, 0, 0, 100, factors);
        for (size_t j = 0; j < 100; j++) {
            ck_assert_float_eq(factors[j], 0);
        }
    }
}
END_TEST

/* ---- given draws --------------------------------------------------------------------------- */

START_TEST(given_draws)
{
    static float uniform[2 * 3 * 5 * 7];
    struct dice dice = {4};
    for (size_t i = 0; i < COUNT(uniform); i++) {
        uniform[i] = (float)(dice_below(&dice, 256)) / 256;
    }
    for (size_t k = 0; k < COUNT(probabilities); k++) {
        const struct attni_dropout dropout = {.probability = probabilities[k],
                                              .seed = 1,
                                              .uniform = uniform,
                                              .sample = (size_t)3 * 5 * 7,
                                              .head = (size_t)5 * 7,
                                              .row = 7};
        for (size_t i = 0; i < (size_t)2 * 3 * 5; i++) {
            float factors[7];
            size_t sample = i / 15, head = i / 5 % 3, row = i % 5, first = i % 7;
            attni_dropout_factors(&dropout, sample, head, row, first, 7 - first, factors);
            for (size_t j = first; j < 7; j++) {
                ck_assert_float_eq(factors[j - first],
                                   factor_of(&dropout, sample, head, row, j));
            }
        }
    }
}
END_TEST

/* A draw of exactly 1 - probability is dropped, also where that is no float. */
START_TEST(bounds)
{
    const float draws[] = {0, 0.75f, nextafterf(0.75f, 0), nextafterf(0.75f, 1), 0.9f};
    struct attni_dropout dropout = {.probability = 0.25, .uniform = draws};
    float factors[5];
    attni_dropout_factors(&dropout, 0, 0, 0, 0, 5, factors);
    ck_assert_float_eq(factors[0], 1 / 0.75f);
    ck_assert_float_eq(factors[1], 0);
    ck_assert_float_eq(factors[2], 1 / 0.75f);
    ck_assert_float_eq(factors[3], 0);
    dropout.probability = 1 - (double)0.9f;
    attni_dropout_factors(&dropout, 0, 0, 0, 0, 5, factors);
    ck_assert_float_eq(factors[4], 0);
    dropout.probability = 1 - nextafter((double)0.9f, 1);
    attni_dropout_factors(&dropout, 0, 0, 0, 0, 5, factors);
    ck_assert_float_eq(factors[4], (float)(1 / nextafter((double)0.9f, 1)));
}
END_TEST

START_TEST(checked)
{
    static const float wrong[] = {1, 1.5f, -1e-45f, -1, INFINITY, -INFINITY, NAN};
    float draws[9] = {0, -0.0f, 0.5f, nextafterf(1, 0), 1e-45f};
    size_t bad = 77;
    ck_assert(attni_dropout_check(NULL, 0, &bad));
    ck_assert(attni_dropout_check(draws, 9, &bad));
    ck_assert_uint_eq(bad, 77);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        float before = draws[i];
        draws[i] = draws[8] = wrong[i];
        ck_assert(!attni_dropout_check(draws, 9, &bad));
        ck_assert_uint_eq(bad, i);
        draws[i] = before;
        ck_assert(attni_dropout_check(draws, 8, &bad));
        draws[8] = 0;
    }
}
END_TEST

/* ---- statistics ---------------------------------------------------------------------------- */

enum { COLUMNS = 1000 };

static void check_rate(double kept, double n, double expected, const char *what)
{
    double sigma = sqrt(expected * (1 - expected) * n);
    ck_assert_msg(fabs(kept - expected * n) <= SIGMAS * sigma,
                  "%s: %.0f of %.0f, %.2f sigma from %g", what, kept, n,
                  (kept - expected * n) / sigma, expected);
}

/* 10^7 draws: 10 samples, 10 heads, 100 rows, 1000 columns. */
static size_t n_kept(const struct attni_dropout *dropout)
{
    static float factors[COLUMNS];
    size_t n = 0;
    for (size_t i = 0; i < 10 * 10 * 100; i++) {
        attni_dropout_factors(dropout, i / 1000, i / 100 % 10, i % 100, 0, COLUMNS,
                              factors);
        for (size_t j = 0; j < COLUMNS; j++) {
            n += factors[j] != 0;
        }
    }
    return n;
}

START_TEST(keep_rate)
{
    static const uint64_t seeds[] = {0, 1, 0x123456789abcdef0, UINT64_MAX};
    static const double dropped[] = {0.01, 0.1, 0.5, 0.9};
    for (size_t k = 0; k < COUNT(seeds) * COUNT(dropped); k++) {
        const struct attni_dropout dropout = {.probability = dropped[k / COUNT(seeds)],
                                              .seed = seeds[k % COUNT(seeds)],
                                              .stream = (enum attni_stream)(k % 3)};
        check_rate((double)n_kept(&dropout), 1e7, 1 - dropout.probability, "keep rate");
    }
}
END_TEST

/* Where one of two tensors of decisions begins. */
struct place {
    uint64_t seed;
    enum attni_stream stream;
    size_t sample, head, row, column;
};

/* 10^6 decisions from each of two places on, 1000 a row: independent ones agree at a rate of
 * p^2 + (1 - p)^2. */
static void check_unrelated(const struct place *a, const struct place *b,
                            double probability, const char *what)
{
    static float factors[2][COLUMNS];
    const struct place *places[2] = {a, b};
    size_t n_same = 0;
    for (size_t i = 0; i < 1000; i++) {
        for (int k = 0; k < 2; k++) {
            const struct place *at = places[k];
            const struct attni_dropout dropout = {
                .probability = probability, .seed = at->seed, .stream = at->stream};
            attni_dropout_factors(&dropout, at->sample + i % 10, at->head + i / 10 % 10,
                                  at->row + i / 100, at->column, COLUMNS, factors[k]);
        }
        for (size_t j = 0; j < COLUMNS; j++) {
            n_same += (factors[0][j] != 0) == (factors[1][j] != 0);
        }
    }
    check_rate((double)n_same, 1e6,
               probability * probability + (1 - probability) * (1 - probability), what);
}

START_TEST(unrelated)
{
    static const struct {
        const char *what;
        struct place by; /* apart */
    } cases[] = {
        {"seeds by 1", {.seed = 1}},
        {"seeds by 2^32", {.seed = (uint64_t)1 << 32}},
        {"seeds by 2^63", {.seed = (uint64_t)1 << 63}},
        {"streams 0 and 1", {.stream = ATTNI_DRAW_NORMALISATION}},
        {"streams 0 and 2", {.stream = ATTNI_DRAW_ACTIVATION}},
        {"samples", {.sample = 1}},
        {"samples far apart", {.sample = 1000}},
        {"heads", {.head = 1}},
        {"rows", {.row = 1}},
        {"rows far apart", {.row = 4096}},
        {"neighbouring columns", {.column = 1}},
        {"columns by a counter", {.column = 4}},
        {"columns far apart", {.column = 4096}},
    };
    static const double dropped[] = {0.1, 0.5};
    for (size_t k = 0; k < COUNT(cases) * COUNT(dropped); k++) {
        const struct place a = {.seed = 42, .sample = 5, .head = 3, .row = 17};
        const struct place *by = &cases[k / COUNT(dropped)].by;
        const struct place b = {a.seed + by->seed, by->stream,      a.sample + by->sample,
                                a.head + by->head, a.row + by->row, by->column};
        check_unrelated(&a, &b, dropped[k % COUNT(dropped)],
                        cases[k / COUNT(dropped)].what);
    }
    const struct place normalisation = {.seed = 42, .stream = ATTNI_DRAW_NORMALISATION};
    const struct place activation = {.seed = 42, .stream = ATTNI_DRAW_ACTIVATION};
    check_unrelated(&normalisation, &activation, 0.5, "streams 1 and 2");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dropout");
    TCase *tcase = tcase_create("dropout");
    tcase_set_timeout(tcase, 120); /* sanitizers are slow */
    add_table_test(tcase, known_answers);
    add_table_test(tcase, same_words);
    add_table_test(tcase, factors_by_definition);
    tcase_add_test(tcase, factors_in_parts);
    tcase_add_test(tcase, certain);
    tcase_add_test(tcase, given_draws);
    tcase_add_test(tcase, bounds);
    tcase_add_test(tcase, checked);
    tcase_add_test(tcase, keep_rate);
    tcase_add_test(tcase, unrelated);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
