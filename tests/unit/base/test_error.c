/* test_error.c - what is valid UTF-8, and the record of a failure. */
#include "base/error.h"
#include "base/utf8.h"
#include "unit/support.h"

#include <string.h>

struct sequence {
    const char *text;
    size_t n;
    size_t length;
};

static const struct sequence sequences[] = {
    {"", 0, 0},
    {"", 1, 1}, /* a NUL is a character */
    {"a", 1, 1},
    {"\x7f", 1, 1},
    {"\x80", 1, 0},
    {"\xbf", 1, 0},
    {"\xc2\x80", 2, 2},
    {"\xc3\xa9tude", 6, 2},
    {"\xc3\xa9", 1, 0}, /* cut */
    {"\xc3(", 2, 0},
    {"\xc0\x80", 2, 0}, /* overlong */
    {"\xc1\xbf", 2, 0},
    {"\xe2\x82\xac", 3, 3},
    {"\xe2\x82\xac", 2, 0},
    {"\xe0\x9f\xbf", 3, 0}, /* overlong */
    {"\xe0\xa0\x80", 3, 3},
    {"\xed\x9f\xbf", 3, 3},
    {"\xed\xa0\x80", 3, 0}, /* a surrogate */
    {"\xed\xbf\xbf", 3, 0},
    {"\xee\x80\x80", 3, 3},
    {"\xf0\x9f\x98\x80", 4, 4},
    {"\xf0\x9f\x98\x80", 3, 0},
    {"\xf0\x8f\xbf\xbf", 4, 0}, /* overlong */
    {"\xf0\x90\x80\x80", 4, 4},
    {"\xf4\x8f\xbf\xbf", 4, 4},
    {"\xf4\x90\x80\x80", 4, 0}, /* above U+10FFFF */
    {"\xf8\x88\x80\x80\x80", 5, 0},
    {"\xff", 1, 0},
    {"\xfe", 1, 0},
};

START_TEST(test_utf8_length)
{
    const struct sequence *s = &sequences[_i];
    ck_assert_uint_eq(ad_utf8_length(s->text, s->n), s->length);
}
END_TEST

/* The ends of every range, and what lies before and behind it. */
static const struct {
    const char *text;
    uint32_t code;
    bool control;
} characters[] = {
    {"\0", 0, true},
    {"\x1f", 0x1f, true},
    {" ", ' ', false},
    {"~", '~', false},
    {"\x7f", 0x7f, true},
    {"\xc2\x80", 0x80, true},
    {"\xc2\x9f", 0x9f, true},
    {"\xc2\xa0", 0xa0, false},
    {"\xc3\x80", 0xc0, false},
    {"\xd8\x9b", 0x61b, false},
    {"\xd8\x9c", 0x61c, true},
    {"\xd8\x9d", 0x61d, false},
    {"\xe2\x80\x8d", 0x200d, false},
    {"\xe2\x80\x8e", 0x200e, true},
    {"\xe2\x80\x8f", 0x200f, true},
    {"\xe2\x80\x90", 0x2010, false},
    {"\xe2\x80\xa7", 0x2027, false},
    {"\xe2\x80\xa8", 0x2028, true},
    {"\xe2\x80\xae", 0x202e, true},
    {"\xe2\x80\xaf", 0x202f, false},
    {"\xe2\x81\xa5", 0x2065, false},
    {"\xe2\x81\xa6", 0x2066, true},
    {"\xe2\x81\xa9", 0x2069, true},
    {"\xe2\x81\xaa", 0x206a, false},
    {"\xe2\x82\xac", 0x20ac, false},
    {"\xf0\x9f\x98\x80", 0x1f600, false},
};

START_TEST(test_utf8_control)
{
    const char *text = characters[_i].text;
    size_t length = characters[_i].code == 0 ? 1 : strlen(text);
    ck_assert_uint_eq(ad_utf8_code(text, length), characters[_i].code);
    ck_assert_int_eq(ad_utf8_is_control(text, length), characters[_i].control);
}
END_TEST

START_TEST(test_status_text)
{
    ck_assert_str_eq(ad_status_text(AD_OK), "ok");
    ck_assert_str_eq(ad_status_text(AD_NOT_FOUND), "not found");
    ck_assert_str_eq(ad_status_text(AD_INTERNAL), "internal error");
    ck_assert_str_eq(ad_status_text((enum ad_status)1000), "unknown status");
}
END_TEST

START_TEST(test_first_failure_stays)
{
    struct ad_error error;
    ad_error_clear(&error);
    ck_assert_int_eq(error.status, AD_OK);
    ck_assert_str_eq(error.message, "");
    ck_assert_int_eq(ad_fail(&error, AD_INVALID, "input '%s': %d", "x", 7), AD_INVALID);
    ck_assert_int_eq(ad_fail(&error, AD_INTERNAL, "later"), AD_INTERNAL);
    ck_assert_int_eq(error.status, AD_INVALID);
    ck_assert_str_eq(error.message, "input 'x': 7");
    ad_error_clear(&error);
    ck_assert_int_eq(ad_fail(&error, AD_INTERNAL, "later"), AD_INTERNAL);
    ck_assert_str_eq(error.message, "later");
}
END_TEST

START_TEST(test_null_error)
{
    ck_assert_int_eq(ad_fail(NULL, AD_TOO_LARGE, "%d", 1), AD_TOO_LARGE);
    ad_error_clear(NULL);
}
END_TEST

START_TEST(test_message_is_printable)
{
    struct ad_error error;
    ad_error_clear(&error);
    ad_fail(&error, AD_INVALID, "%s",
            "a\nb\r\x1b[31m\x7f \xc3\xa9 \xff\xc3 \xc2\x85 \xe2\x82\xac \xed\xa0\x80 "
            "\xe2\x80\xae"
            "b\xe2\x80\xa8");
    ck_assert_str_eq(error.message, "a?b??[31m? \xc3\xa9 ?? ?? \xe2\x82\xac ??? ???b???");
}
END_TEST

START_TEST(test_long_message_is_cut)
{
    struct ad_error error;
    char text[3000];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', sizeof text);
        for (size_t i = shift; i + 3 < sizeof text; i += 3) {
            memcpy(text + i, "\xe2\x82\xac", 3);
        }
        text[sizeof text - 1] = '\0';
        ad_error_clear(&error);
        ad_fail(&error, AD_INVALID, "%s", text);
        size_t n = strlen(error.message);
        ck_assert_uint_lt(n, sizeof error.message);
        ck_assert_uint_ge(n, sizeof error.message - 4);
        ck_assert_str_eq(error.message + n - 3, "...");
        ck_assert_ptr_null(strchr(error.message, '?'));
    }
}
END_TEST

START_TEST(test_exact_fit_is_not_cut)
{
    struct ad_error error;
    char text[sizeof error.message];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    ad_error_clear(&error);
    ad_fail(&error, AD_INVALID, "%s", text);
    ck_assert_str_eq(error.message, text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("error");
    TCase *tests = tcase_create("error");
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, test_utf8_length, 0,
                        (int)(sizeof sequences / sizeof sequences[0]));
    tcase_add_loop_test(tests, test_utf8_control, 0,
                        (int)(sizeof characters / sizeof characters[0]));
    tcase_add_test(tests, test_status_text);
    tcase_add_test(tests, test_first_failure_stays);
    tcase_add_test(tests, test_null_error);
    tcase_add_test(tests, test_message_is_printable);
    tcase_add_test(tests, test_long_message_is_cut);
    tcase_add_test(tests, test_exact_fit_is_not_cut);
    return support_run(suite);
}
