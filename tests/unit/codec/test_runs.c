/* test_runs.c - numbers by the million: the same as one by one, wherever the text lies. */
#include "codec/runs.h"
#include "unit/codec/number_lists.h"
#include "unit/support.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 4096 /* numbers in a text */
#define ROOM ((size_t)1 << 18)

static locale_t c_locale;
static char *room; /* ROOM bytes, no page before or behind them can be touched */
static uint64_t state;

static void setup(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages =
        mmap(NULL, ROOM + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(pages != MAP_FAILED);
    room = pages + page;
    ck_assert_int_eq(mprotect(room, ROOM, PROT_READ | PROT_WRITE), 0);
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    state = 88172645463325252u;
}

static void teardown(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    munmap(room - page, ROOM + 2 * page);
    freelocale(c_locale);
}

static uint64_t draw(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % n;
}

static void check(enum numbers_kind kind, const struct numbers_text *text)
{
    static int64_t fast[MOST + 1], slow[MOST + 1];
    size_t size = kind == NUMBERS_I64 ? 8 : 4;
    const char *fast_stop, *slow_stop;
    memset(fast, 0, sizeof fast);
    size_t n = numbers_read(kind, false, text, slow, &slow_stop);
    ck_assert_uint_le(n, MOST);
    ck_assert_uint_eq(numbers_read(kind, true, text, fast, &fast_stop), n);
    ck_assert_ptr_eq(fast_stop, slow_stop);
    ck_assert_mem_eq(fast, slow, n * size);
}

static void check_kinds(const struct numbers_text *text)
{
    check(NUMBERS_F32, text);
    check(NUMBERS_F32_OF_F64, text);
    check(NUMBERS_I32, text);
    check(NUMBERS_I64, text);
}

/* The text at the very start and at the very end of what may be touched, read as lists of n_each. */
static void check_text(const char *text, size_t n, size_t n_each, size_t n_lists)
{
    for (size_t i = 0; i < 2; i++) {
        char *begin = i == 0 ? room : room + ROOM - n;
        memcpy(begin, text, n);
        check_kinds(
            &(struct numbers_text){begin, begin, begin + n, c_locale, n_each, n_lists});
    }
}

static double random_double(void)
{
    uint64_t bits = draw((uint64_t)1 << 52) | (900 + draw(200)) << 52 | draw(2) << 63;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* One of many ways in which a program may write a number; seldom one that is none. */
static size_t put_number(char *text, size_t way)
{
    static const char *const odd[] = {"-",    "",    "01",   "1.",   ".5",
                                      "1e",   "NaN", "1x",   "0x10", "1 2",
                                      "true", "[1]", "1e+5", "\"1\""};
    switch (way) {
    case 0:
        return (size_t)sprintf(text, "%.9g", random_double());
    case 1:
        return (size_t)sprintf(text, "%.17g", random_double());
    case 2:
        return (size_t)sprintf(text, "%.1f", (double)draw(1000) / 10);
    case 3:
        return (size_t)sprintf(text, "%d", (int)draw(2000) - 1000);
    case 4:
        return (size_t)sprintf(text, "%.*f", (int)draw(24), (double)draw(100000) / 7);
    case 5:
        return (size_t)sprintf(text, "%.*e", (int)draw(30), random_double());
    case 6:
        return (size_t)sprintf(text, "%lld", (long long)(draw(UINT64_MAX) << draw(12)));
    case 7:
        return (size_t)sprintf(text, "-0.%0*d", (int)draw(25) + 1, 0);
    default:
        return (size_t)sprintf(text, "%s", odd[draw(sizeof odd / sizeof *odd)]);
    }
}

/* Texts of one way or of all, with blanks like programs put them, flat and in rows. */
START_TEST(test_like_one_by_one)
{
    static const char *const commas[] = {",", ", ", " ,", ",\n    ", ",,"};
    static const char *const rows[] = {"],[", "], [", "],\n  [", "] ,[", "]["};
    static char text[ROOM];
    for (size_t i = 0; i < 3000; i++) {
        size_t way = draw(10), comma = draw(50), row = draw(50), n = 0;
        size_t n_each = 1 + (draw(2) ? draw(5) : draw(80)), n_lists = 1 + draw(6);
        comma = comma < 5 ? comma : comma % 2;
        row = row < 5 ? row : row % 2;
        for (size_t j = 0; j < n_each * n_lists; j++) {
            const char *between = j == 0            ? ""
                                  : j % n_each == 0 ? rows[row]
                                                    : commas[comma];
            n += (size_t)sprintf(text + n, "%s", between);
            n += put_number(text + n, way < 8 ? way : draw(200) > 0 ? draw(8) : 8);
        }
        n += (size_t)sprintf(text + n, "%s", draw(8) > 0 ? "]" : " ");
        check_text(text, n, n_each, n_lists);
        check_text(text, n, n_each + draw(2), n_lists + draw(2));
        check_text(text, n, n_each * n_lists, 1);
    }
}
END_TEST

/* Every length of what comes before and behind, so that numbers lie at every place of a block. */
START_TEST(test_places)
{
    static const char *const numbers[] = {"0",
                                          "-1.5",
                                          "3.1415927",
                                          "-12.25",
                                          "1e-7",
                                          "0.1234567890123456",
                                          "-0.12345678901234567",
                                          "1234567.5",
                                          "12345678.5"};
    char text[512];
    for (size_t before = 0; before < 100; before++) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            size_t n = 0;
            for (size_t j = 0; j < before / 2; j++) {
                n += (size_t)sprintf(text + n, "7,");
            }
            n += (size_t)sprintf(text + n, "%s%s", before % 2 ? " " : "", numbers[i]);
            for (size_t j = 0; j < 80; j++) {
                n += (size_t)sprintf(text + n, ",8");
            }
            n += (size_t)sprintf(text + n, "]");
            check_text(text, n, before / 2 + 81, 1);
        }
    }
}
END_TEST

/* A run ends where it was told to, and says where that is. */
START_TEST(test_limits)
{
    char text[400] = "1,2],[3,4],[5,6],[7,8]]";
    memset(text + strlen(text), ' ', 300);
    float values[8] = {0};
    for (size_t n_lists = 0; n_lists < 4; n_lists++) {
        struct ad_run run = {text, text, text + 320, c_locale, 2, 2, n_lists};
        ck_assert_uint_eq(ad_run_f32(&run, values), 2 * n_lists + 2);
        ck_assert_uint_eq(run.n_left, 0);
        ck_assert_uint_eq(run.n_lists, 0);
        ck_assert_ptr_eq(run.at, text + 3 + 6 * n_lists);
        for (size_t i = 0; i < 2 * n_lists + 2; i++) {
            ck_assert(values[i] == (float)(i + 1));
        }
    }
    /* a list with nothing to take, or too short a one, is not begun */
    struct ad_run wrong = {text, text, text + 320, c_locale, 3, 3, 3};
    ck_assert_uint_eq(ad_run_f32(&wrong, values), 2);
    ck_assert(wrong.n_left == 1 && wrong.n_lists == 3 && wrong.at == text + 3);
    memcpy(text, "1,2],[x", 7);
    struct ad_run bad = {text, text, text + 320, c_locale, 2, 2, 3};
    ck_assert_uint_eq(ad_run_f32(&bad, values), 2);
    ck_assert(bad.n_left == 0 && bad.n_lists == 3 && bad.at == text + 3);
    struct ad_run none = {text, text, text + 320, c_locale, 0, 0, 3};
    ck_assert_uint_eq(ad_run_f32(&none, values), 0);
    ck_assert(none.n_left == 0 && none.n_lists == 3 && none.at == text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runs");
    TCase *tcase = tcase_create("runs");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_like_one_by_one);
    tcase_add_test(tcase, test_places);
    tcase_add_test(tcase, test_limits);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
