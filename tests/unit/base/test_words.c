/* test_words.c - lists in one text. */
#include "base/words.h"
#include "unit/support.h"

#include <string.h>

static const struct {
    const char *text;
    size_t n;
    const char *words[4];
} rows[] = {
    {NULL, 0, {NULL}},
    {"", 0, {NULL}},
    {",", 0, {NULL}},
    {" , ,\t", 0, {NULL}},
    {"a", 1, {"a"}},
    {"*", 1, {"*"}},
    {"a,b", 2, {"a", "b"}},
    {" a b\t,, c,", 2, {"a b", "c"}},
    {",a,b,c,d", 4, {"a", "b", "c", "d"}},
    {"a,a", 2, {"a", "a"}},
};

START_TEST(test_split)
{
    struct ad_words words;
    ck_assert(ad_words_split(rows[_i].text, &words));
    ck_assert_uint_eq(words.n, rows[_i].n);
    for (size_t i = 0; i < words.n; i++) {
        ck_assert_str_eq(words.items[i], rows[_i].words[i]);
    }
    ad_words_reset(&words);
    ck_assert_ptr_null(words.items);
    ad_words_reset(&words);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("words");
    TCase *tests = tcase_create("words");
    tcase_add_loop_test(tests, test_split, 0, sizeof rows / sizeof *rows);
    suite_add_tcase(suite, tests);
    return support_run(suite);
}
