/* check.h - as much of libcheck as the library's unit tests use, for machines that we only cross
 * compile for: no packages of that machine are needed. A test runs in a process of its own; the first
 * assertion that fails ends it. */
#ifndef TESTS_CROSS_CHECK_H
#define TESTS_CROSS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    void (*run)(int _i);
} TTest;
typedef struct Suite Suite;
typedef struct TCase TCase;

Suite *suite_create(const char *name);
TCase *tcase_create(const char *name);
void suite_add_tcase(Suite *suite, TCase *tcase);
void tcase_set_timeout(TCase *tcase, double seconds);
void tcase_add_loop_test(TCase *tcase, const TTest *test, int first, int end);
void tcase_add_test(TCase *tcase, const TTest *test);

#define START_TEST(name)                                  \
    static void name##_run(int _i);                       \
    static const TTest name##_test = {#name, name##_run}; \
    static const TTest *const name = &name##_test;        \
    static void name##_run(int _i __attribute__((unused)))
#define END_TEST

/* Say where and why, and end the test. */
_Noreturn void cross_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define ck_abort_msg(...) cross_fail(__FILE__, __LINE__, __VA_ARGS__)
#define ck_assert_msg(condition, ...) ((condition) ? (void)0 : ck_abort_msg(__VA_ARGS__))
#define ck_assert(condition) ck_assert_msg(condition, "%s", #condition)

#define CROSS_COMPARE(type, format, a, operator, b)                                  \
    do {                                                                             \
        type cross_a = (a);                                                          \
        type cross_b = (b);                                                          \
        ck_assert_msg(cross_a operator cross_b, "%s: %" format ", %s: %" format, #a, \
                      cross_a, #b, cross_b);                                         \
    } while (0)
#define ck_assert_int_eq(a, b) CROSS_COMPARE(intmax_t, "jd", a, ==, b)
#define ck_assert_int_lt(a, b) CROSS_COMPARE(intmax_t, "jd", a, <, b)
#define ck_assert_uint_eq(a, b) CROSS_COMPARE(uintmax_t, "ju", a, ==, b)
#define ck_assert_uint_ge(a, b) CROSS_COMPARE(uintmax_t, "ju", a, >=, b)
#define ck_assert_uint_gt(a, b) CROSS_COMPARE(uintmax_t, "ju", a, >, b)
#define ck_assert_uint_le(a, b) CROSS_COMPARE(uintmax_t, "ju", a, <=, b)
#define ck_assert_float_eq(a, b) CROSS_COMPARE(double, "g", (double)(a), ==, (double)(b))
#define ck_assert_double_eq(a, b) CROSS_COMPARE(double, "g", a, ==, b)
#define ck_assert_ptr_eq(a, b) CROSS_COMPARE(const void *, "p", a, ==, b)
#define ck_assert_ptr_null(a) ck_assert((a) == NULL)
#define ck_assert_ptr_nonnull(a) ck_assert((a) != NULL)
#define ck_assert_mem_eq(a, b, n) ck_assert(memcmp(a, b, n) == 0)
#define ck_assert_str_eq(a, b)                                                          \
    do {                                                                                \
        const char *cross_a = (a), *cross_b = (b);                                      \
        ck_assert_msg(strcmp(cross_a, cross_b) == 0, "%s: '%s', %s: '%s'", #a, cross_a, \
                      #b, cross_b);                                                     \
    } while (0)

#endif
