/* test_coding.c - which coding a body has, and which one its client would like for the answer. */
#include "http/accept.h"
#include "http/coding.h"
#include "unit/support.h"

#include <stddef.h>
#include <string.h>

#define IDENTITY AD_CODING_IDENTITY
#define GZIP AD_CODING_GZIP
#define DEFLATE AD_CODING_DEFLATE
#define ZSTD AD_CODING_ZSTD

static const struct {
    const char *value;
    bool ours;
    enum ad_coding coding;
} encodings[] = {
    {"gzip", true, GZIP},
    {"x-gzip", true, GZIP},
    {"deflate", true, DEFLATE},
    {"zstd", true, ZSTD},
    {"identity", true, IDENTITY},
    {"", true, IDENTITY},
    {" \t ", true, IDENTITY},
    {"GZip", true, GZIP},
    {"X-GZIP", true, GZIP},
    {"ZSTD", true, ZSTD},
    {" gzip\t", true, GZIP},
    {"br", false, 0},
    {"compress", false, 0},
    {"x-deflate", false, 0},
    {"gzi", false, 0},
    {"gzipp", false, 0},
    {"gzip ,", false, 0},
    {"gzip, gzip", false, 0},
    {"identity, gzip", false, 0},
    {"gzip;q=1", false, 0},
    {"*", false, 0},
    {",", false, 0},
};

START_TEST(test_content_encoding)
{
    enum ad_coding coding;
    ck_assert_int_eq(ad_coding_parse(encodings[_i].value, &coding), encodings[_i].ours);
    if (encodings[_i].ours) {
        ck_assert_int_eq(coding, encodings[_i].coding);
    }
}
END_TEST

static const struct {
    const char *value;
    enum ad_coding best;
} wishes[] = {
    {NULL, IDENTITY},
    {"", IDENTITY},
    {",, ,", IDENTITY},
    {"gzip", GZIP},
    {"x-gzip", GZIP},
    {"GZIP", GZIP},
    {"deflate", DEFLATE},
    {"zstd", ZSTD},
    {"identity", IDENTITY},
    {"br", IDENTITY},
    {"br, compress", IDENTITY},
    /* what libraries send */
    {"gzip, deflate", GZIP},
    {"deflate, gzip", GZIP},
    {"deflate, gzip, br, zstd", ZSTD},
    {"gzip, deflate, br", GZIP},
    {"gzip;q=1.0, deflate;q=0.6, identity;q=0.3", GZIP},
    /* the client's order */
    {"gzip;q=0.5, deflate;q=0.8", DEFLATE},
    {"zstd;q=0.1,gzip;q=0.2", GZIP},
    {"zstd;q=0.1, gzip;q=0.1", ZSTD},
    {"gzip ; q=0.5 , deflate ;q=0.501", DEFLATE},
    {"gzip;q=0.001", GZIP},
    {"gzip;Q=0.5", GZIP},
    /* never */
    {"gzip;q=0", IDENTITY},
    {"gzip;q=0.000", IDENTITY},
    {"gzip;q=0, deflate", DEFLATE},
    {"gzip;q=0, deflate;q=0, zstd;q=0", IDENTITY},
    /* identity, where it is ranked */
    {"gzip, identity", GZIP},
    {"identity, gzip", GZIP},
    {"identity;q=0.5, gzip;q=0.5", GZIP},
    {"identity;q=0.6, gzip;q=0.5", IDENTITY},
    {"identity;q=1, gzip;q=0.9, zstd;q=0.8", IDENTITY},
    {"identity;q=0, gzip;q=0.1", GZIP},
    /* there is no 406 */
    {"identity;q=0", IDENTITY},
    {"*;q=0", IDENTITY},
    {"identity;q=0, *;q=0", IDENTITY},
    {"identity;q=0, br", IDENTITY},
    /* the rest */
    {"*", IDENTITY},
    {"*;q=0.5", IDENTITY},
    {"*, identity;q=0", ZSTD},
    {"identity;q=0.5, *", ZSTD},
    {"identity;q=0.5, *, zstd;q=0", GZIP},
    {"gzip;q=0.5, *;q=0.1", GZIP},
    {"gzip, *;q=0", GZIP},
    {"gzip, *", GZIP},
    {"gzip;q=0, *;q=0.5, identity;q=0.1", ZSTD},
    {"br, *", IDENTITY},
    /* what is malformed is as if it were not there */
    {"gzip;q=2", IDENTITY},
    {"gzip;q=-1", IDENTITY},
    {"gzip;q=0.1234", IDENTITY},
    {"gzip;q=1.001", IDENTITY},
    {"gzip;q=", IDENTITY},
    {"gzip;q", IDENTITY},
    {"gzip;q=x, deflate", DEFLATE},
    {"gzip deflate", IDENTITY},
    {"gzip=deflate, zstd", ZSTD},
    {";q=1", IDENTITY},
    {"\"gzip\"", IDENTITY},
    {"gzip;x=\",\", zstd;q=0.5", GZIP},
    {"gzip;q=0, gzip", GZIP},
    {"gzip, x-gzip;q=0", GZIP},
};

START_TEST(test_accept_encoding)
{
    ck_assert_msg(ad_coding_negotiate(wishes[_i].value) == wishes[_i].best, "%s: %d",
                  wishes[_i].value ? wishes[_i].value : "none",
                  (int)ad_coding_negotiate(wishes[_i].value));
}
END_TEST

START_TEST(test_elements_without_a_name)
{
    const char *list = ",;q=0.2, =x, \"a\" , text/plain;q=0.5,";
    struct ad_accepted accepted;
    ck_assert(ad_accept_next(&list, &accepted));
    ck_assert(ad_word_is(accepted.name, "text/plain"));
    ck_assert_int_eq(accepted.quality, AD_MAX_QUALITY / 2);
    ck_assert(!ad_accept_next(&list, &accepted));
}
END_TEST

START_TEST(test_names)
{
    ck_assert_ptr_null(ad_coding_name(IDENTITY));
    ck_assert_str_eq(ad_coding_name(GZIP), "gzip");
    ck_assert_str_eq(ad_coding_name(DEFLATE), "deflate");
    ck_assert_str_eq(ad_coding_name(ZSTD), "zstd");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coding");
    TCase *tcase = tcase_create("coding");
    tcase_add_loop_test(tcase, test_content_encoding, 0,
                        sizeof encodings / sizeof encodings[0]);
    tcase_add_loop_test(tcase, test_accept_encoding, 0, sizeof wishes / sizeof wishes[0]);
    tcase_add_test(tcase, test_elements_without_a_name);
    tcase_add_test(tcase, test_names);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
