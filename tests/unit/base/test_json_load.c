/* test_json_load.c - JSON text is read as jansson reads it, and where an allocation fails nothing is read, in
 * place of something else. */
#include "base/json_load.h"

#include "unit/base/fail_allocation.h"
#include "unit/support.h"

#include <stdio.h>
#include <string.h>

#define LONG_WORD "a word that is longer than what a token has room for at first, by far"

static const char *const texts[] = {
    "{}",
    "[]",
    "[true, false, null, 1, -2.5e-300]",
    "{\"a\": {\"b\": [{\"c\": \"d\"}, []]}}",
    "{\"" LONG_WORD "\": \"" LONG_WORD LONG_WORD LONG_WORD "\"}",
    "[\"\\u00e9\\ud83d\\ude00\\n " LONG_WORD "\", \"\xc3\xa9\xf0\x9f\x98\x80 " LONG_WORD
    "\"]",
    "[123456789012345678, 1.000000000000000000000000000000000000000000000000000000001]",
    "[1234567890123456789012345678901234567890]",
    "[\"" LONG_WORD,
    "{\"a\": 1, \"a\": 2}",
    "{\"a\": " LONG_WORD "}",
    "[1] 2",
    "[\"\xff\"]",
    "[\"\\ud83d\"]",
    "[\"\\u0000\"]",
    "{",
    "",
    " ",
};

/* As jansson's own reader does it, with the same words where it does not. */
static void check_same(const char *text, size_t flags)
{
    json_error_t ours, theirs;
    json_t *read = ad_json_load(text, strlen(text), flags, &ours);
    json_t *expected = json_loadb(text, strlen(text), flags, &theirs);
    ck_assert_msg(!read == !expected, "%s", text);
    ck_assert_msg(!expected || json_equal(read, expected), "%s", text);
    if (!expected) {
        ck_assert_str_eq(ours.text, theirs.text);
        ck_assert_int_eq(ours.line, theirs.line);
        ck_assert_int_eq(ours.column, theirs.column);
        ck_assert_int_eq(ours.position, theirs.position);
        ck_assert_int_eq(json_error_code(&ours), json_error_code(&theirs));
        ck_assert(!ad_json_no_memory(&ours));
    }
    json_decref(read);
    json_decref(expected);
}

START_TEST(reads_as_jansson_does)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        check_same(texts[i], JSON_REJECT_DUPLICATES);
        check_same(texts[i], JSON_DECODE_ANY);
    }
    json_error_t fault;
    ck_assert_ptr_null(ad_json_load(NULL, 0, 0, &fault));
    ck_assert(!ad_json_no_memory(&fault));
}
END_TEST

/* Nothing was read, for that reason, as soon as an allocation failed. */
START_TEST(fails_without_memory)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_error_t fault;
        bool failed = true;
        for (long n = 1; failed; n++) {
            ck_assert_int_lt(n, 1000);
            fail_allocation(n);
            json_t *read =
                ad_json_load(texts[i], strlen(texts[i]), JSON_REJECT_DUPLICATES, &fault);
            failed = allocation_failed();
            if (failed) {
                ck_assert_msg(!read && ad_json_no_memory(&fault), "%s, allocation %ld",
                              texts[i], n);
            }
            json_decref(read);
        }
        check_same(texts[i], JSON_REJECT_DUPLICATES);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_load");
    TCase *tcase = tcase_create("json_load");
    tcase_add_test(tcase, reads_as_jansson_does);
    tcase_add_test(tcase, fails_without_memory);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
