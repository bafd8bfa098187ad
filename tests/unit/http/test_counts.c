/* Are replies counted by route, verb and code, whoever counts, and within bounds? */
#include "http/counts.h"

#include "unit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char infer[] = "v2/models/{model}/infer";

static uint64_t count_of(const struct ad_counts *counts, const char *pattern,
                         const char *verb, const char *code)
{
    struct ad_count count;
    uint64_t n = 0;
    for (size_t at = 0; ad_counts_next(counts, &at, &count);) {
        if (strcmp(count.pattern, pattern) == 0 && strcmp(count.verb, verb) == 0 &&
            strcmp(count.code, code) == 0) {
            n += count.n;
        }
    }
    return n;
}

static size_t n_counts(const struct ad_counts *counts)
{
    struct ad_count count;
    size_t n = 0;
    for (size_t at = 0; ad_counts_next(counts, &at, &count);) {
        n++;
    }
    return n;
}

START_TEST(routes)
{
    static const struct {
        const char *pattern, *verb;
        unsigned code;
        const char *counted_pattern, *counted_verb, *counted_code;
    } cases[] = {{infer, "POST", 200, infer, "POST", "200"},
                 {infer, "POST", 503, infer, "POST", "503"},
                 {infer, "GET", 405, infer, "GET", "405"},
                 {infer, "HEAD", 405, infer, "HEAD", "405"},
                 {infer, "get", 405, infer, "other", "405"},
                 {infer, "", 405, infer, "other", "405"},
                 {NULL, "GET", 404, "", "GET", "404"},
                 {NULL, "X\"\n", 499, "", "other", "499"},
                 {NULL, "GET", 0, "", "GET", "other"},
                 {NULL, "GET", 777, "", "GET", "other"},
                 {"v2", "GET", 504, "v2", "GET", "504"}};
    struct ad_counts *counts = calloc(1, sizeof *counts);
    ck_assert_uint_eq(n_counts(counts), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t before = count_of(counts, cases[i].counted_pattern,
                                   cases[i].counted_verb, cases[i].counted_code);
        ad_counts_add(counts, cases[i].pattern, cases[i].verb, cases[i].code);
        ck_assert_uint_eq(count_of(counts, cases[i].counted_pattern,
                                   cases[i].counted_verb, cases[i].counted_code),
                          before + 1);
    }
    ck_assert_uint_eq(n_counts(counts), 9); /* two pairs are one each */
    free(counts);
}
END_TEST

/* The table takes as many routes as it says, the unknown one included. */
START_TEST(many_routes)
{
    static char patterns[AD_COUNTS_MAX_ROUTES - 1][16];
    struct ad_counts *counts = calloc(1, sizeof *counts);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < AD_COUNTS_MAX_ROUTES - 1; i++) {
            snprintf(patterns[i], sizeof patterns[i], "route%zu", i);
            ad_counts_add(counts, patterns[i], "GET", 200);
        }
        ad_counts_add(counts, NULL, "GET", 404);
    }
    ck_assert_uint_eq(n_counts(counts), AD_COUNTS_MAX_ROUTES);
    for (size_t i = 0; i < AD_COUNTS_MAX_ROUTES - 1; i++) {
        ck_assert_uint_eq(count_of(counts, patterns[i], "GET", "200"), 2);
    }
    free(counts);
}
END_TEST

START_TEST(rejections)
{
    struct ad_counts *counts = calloc(1, sizeof *counts);
    for (enum ad_rejection reason = 0; reason < AD_N_REJECTIONS; reason++) {
        ck_assert_str_ne(ad_rejection_text(reason), "other");
        for (enum ad_rejection other = 0; other < reason; other++) {
            ck_assert_str_ne(ad_rejection_text(reason), ad_rejection_text(other));
        }
        for (unsigned i = 0; i <= (unsigned)reason; i++) {
            ad_counts_reject(counts, reason);
        }
    }
    for (enum ad_rejection reason = 0; reason < AD_N_REJECTIONS; reason++) {
        ck_assert_uint_eq(ad_counts_rejected(counts, reason), (uint64_t)reason + 1);
    }
    ck_assert_str_eq(ad_rejection_text(AD_N_REJECTIONS), "other");
    free(counts);
}
END_TEST

#define N_THREADS 4
#define N_ROUNDS 10000
#define N_PATTERNS 16
static char shared_patterns[N_PATTERNS][8];

static void *add_all(void *counts)
{
    for (size_t i = 0; i < N_ROUNDS; i++) {
        ad_counts_add(counts, shared_patterns[i % N_PATTERNS], "POST", 200);
        ad_counts_reject(counts, AD_REJECTED_MEMORY);
    }
    return NULL;
}

START_TEST(threads)
{
    struct ad_counts *counts = calloc(1, sizeof *counts);
    pthread_t ids[N_THREADS];
    for (size_t i = 0; i < N_PATTERNS; i++) {
        snprintf(shared_patterns[i], sizeof shared_patterns[i], "r%zu", i);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&ids[i], NULL, add_all, counts), 0);
    }
    while (n_counts(counts) < N_PATTERNS) {
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    ck_assert_uint_eq(n_counts(counts), N_PATTERNS);
    for (size_t i = 0; i < N_PATTERNS; i++) {
        ck_assert_uint_eq(count_of(counts, shared_patterns[i], "POST", "200"),
                          N_THREADS * N_ROUNDS / N_PATTERNS);
    }
    ck_assert_uint_eq(ad_counts_rejected(counts, AD_REJECTED_MEMORY),
                      N_THREADS * N_ROUNDS);
    free(counts);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("counts");
    TCase *tcase = tcase_create("counts");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, routes);
    tcase_add_test(tcase, many_routes);
    tcase_add_test(tcase, rejections);
    tcase_add_test(tcase, threads);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
