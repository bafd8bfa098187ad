/* Which origins may be listed, which pages are then let in, and which headers a preflight gets. */
#include "http/cors.h"

#include "unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const good_lists[] = {
    "*",
    " * ",
    "https://example.org",
    "http://localhost:3000, http://127.0.0.1:8080,https://a-b.example.org",
    "http://[::1]:5173",
    "https://[2001:db8::1]",
    "chrome-extension://abcdefgh",
    "HTTPS://Example.org",
    "http://example.org:443",
    "https://example.org:80",
};

START_TEST(good)
{
    struct ad_cors cors;
    struct ad_error error = {.status = AD_OK};
    ck_assert_msg(ad_cors_parse(good_lists[_i], &cors, &error) == AD_OK, "%s",
                  error.message);
    ck_assert(ad_cors_is_on(&cors));
    ad_cors_reset(&cors);
    ck_assert(!ad_cors_is_on(&cors));
}
END_TEST

static const struct {
    const char *list;
    const char *named; /* what the message quotes */
} bad_lists[] = {
    {"example.org", "'example.org'"},
    {"https://example.org/", "'https://example.org/'"},
    {"https://a.example, https://b.example/path", "'https://b.example/path'"},
    {"https://example.org:443", "'https://example.org:443'"},
    {"http://example.org:80", "'http://example.org:80'"},
    {"https://example.org:", "'https://example.org:'"},
    {"https://example.org:0", "'https://example.org:0'"},
    {"https://example.org:1234567", "'https://example.org:1234567'"},
    {"https://example.org:8a", "'https://example.org:8a'"},
    {"https://", "'https://'"},
    {"://example.org", "'://example.org'"},
    {"https:/example.org", "'https:/example.org'"},
    {"https://user@example.org", "'https://user@example.org'"},
    {"https://*.example.org", "'https://*.example.org'"},
    {"https://[::1", "'https://[::1'"},
    {"https://[]", "'https://[]'"},
    {"https://a b", "'https://a b'"},
    {"null", "'null'"},
    {"*, https://example.org", "'*'"},
    {"https://example.org,*", "'*'"},
    {"*,*", "'*'"},
};

START_TEST(bad)
{
    struct ad_cors cors;
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_cors_parse(bad_lists[_i].list, &cors, &error), AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "--cors-allow-origins: "));
    ck_assert_msg(strstr(error.message, bad_lists[_i].named) != NULL, "%s",
                  error.message);
    ck_assert(!ad_cors_is_on(&cors));
}
END_TEST

START_TEST(nothing)
{
    static const char *const lists[] = {NULL, "", " , ,"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct ad_cors cors;
        ck_assert_int_eq(ad_cors_parse(lists[i], &cors, NULL), AD_OK);
        ck_assert(!ad_cors_is_on(&cors));
        ck_assert_ptr_null(ad_cors_allow(&cors, "https://example.org"));
        ck_assert_ptr_null(ad_cors_allow(&cors, NULL));
        ad_cors_reset(&cors);
    }
}
END_TEST

START_TEST(listed)
{
    static const char *const others[] = {"https://a.example.evil",
                                         "https://a.exampl",
                                         "http://a.example",
                                         "https://a.example:8443",
                                         "https://b.example",
                                         "null",
                                         "",
                                         "*",
                                         "https://a.example, https://a.example"};
    struct ad_cors cors;
    ck_assert_int_eq(ad_cors_parse("https://a.example,http://B.example:81", &cors, NULL),
                     AD_OK);
    const char *asked = "https://a.example";
    ck_assert_ptr_eq(ad_cors_allow(&cors, asked), asked);
    asked = "http://b.example:81";
    ck_assert_ptr_eq(ad_cors_allow(&cors, asked), asked);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ck_assert_ptr_null(ad_cors_allow(&cors, others[i]));
    }
    ck_assert_ptr_null(ad_cors_allow(&cors, NULL));
    ad_cors_reset(&cors);
}
END_TEST

START_TEST(any)
{
    struct ad_cors cors;
    ck_assert_int_eq(ad_cors_parse("*", &cors, NULL), AD_OK);
    ck_assert_str_eq(ad_cors_allow(&cors, "https://a.example"), "*");
    ck_assert_str_eq(ad_cors_allow(&cors, "null"), "*");
    ck_assert_str_eq(ad_cors_allow(&cors, NULL), "*");
    ad_cors_reset(&cors);
}
END_TEST

START_TEST(headers)
{
    static const char *const repeated[] = {"x-api-key", "authorization,content-type",
                                           "a, b,\tc", "x-!#$%&'*+-.^_`|~"};
    static const char *const refused[] = {"",    ",",   " ",    "a\r\nb",
                                          "a:b", "a;b", "a\"b", "\xc3\xa4"};
    char much[1200];
    for (size_t i = 0; i < sizeof repeated / sizeof repeated[0]; i++) {
        ck_assert_ptr_eq(ad_cors_headers(repeated[i]), repeated[i]);
    }
    const char *known = ad_cors_headers(NULL);
    ck_assert_ptr_nonnull(strstr(known, "Authorization"));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        ck_assert_ptr_eq(ad_cors_headers(refused[i]), known);
    }
    memset(much, 'x', sizeof much - 1);
    much[sizeof much - 1] = '\0';
    ck_assert_ptr_eq(ad_cors_headers(much), known);
    much[1024] = '\0';
    ck_assert_ptr_eq(ad_cors_headers(much), much);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cors");
    TCase *tcase = tcase_create("cors");
    tcase_add_loop_test(tcase, good, 0, sizeof good_lists / sizeof good_lists[0]);
    tcase_add_loop_test(tcase, bad, 0, sizeof bad_lists / sizeof bad_lists[0]);
    tcase_add_test(tcase, nothing);
    tcase_add_test(tcase, listed);
    tcase_add_test(tcase, any);
    tcase_add_test(tcase, headers);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
