/* Is it found out where a body ends, and refused where that is unclear? */
#include "http/headers.h"

#include "unit/support.h"

#include <string.h>

#define MAX_HEADERS 3

/* Headers as "Name: value" without the blank; what the check of the framing says of
 * them. */
static const struct {
    const char *version;
    const char *headers[MAX_HEADERS][2];
    enum ad_status status;
    bool has_body;
    uint64_t length;
} framings[] = {
    {"HTTP/1.1", {{NULL}}, AD_OK, false, 0},
    {"HTTP/1.1", {{"Content-Length", "0"}}, AD_OK, false, 0},
    {"HTTP/1.1", {{"content-length", "17"}}, AD_OK, true, 17},
    {"HTTP/1.1", {{"Content-Length", "5"}, {"Content-Length", "5"}}, AD_OK, true, 5},
    {"HTTP/1.1", {{"Transfer-Encoding", "chunked"}}, AD_OK, true, 0},
    {"HTTP/1.1", {{"TRANSFER-ENCODING", "Chunked"}}, AD_OK, true, 0},
    {"HTTP/1.1",
     {{"Content-Length", "5"}, {"Content-Length", "6"}},
     AD_INVALID,
     false,
     0},
    {"HTTP/1.1",
     {{"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}},
     AD_INVALID,
     false,
     0},
    {"HTTP/1.1",
     {{"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}},
     AD_INVALID,
     false,
     0},
    {"HTTP/1.1", {{"Transfer-Encoding", "gzip, chunked"}}, AD_UNSUPPORTED, false, 0},
    {"HTTP/1.1", {{"Transfer-Encoding", "identity"}}, AD_UNSUPPORTED, false, 0},
    {"HTTP/1.1", {{"Transfer-Encoding", ""}}, AD_UNSUPPORTED, false, 0},
    {"HTTP/1.1", {{"Transfer-Encoding", "chunked "}}, AD_UNSUPPORTED, false, 0},
    {"HTTP/1.0", {{"Transfer-Encoding", "chunked"}}, AD_INVALID, false, 0},
    {"HTTP/1.1", {{"Content-Length ", "5"}}, AD_INVALID, false, 0},
    {"HTTP/1.1", {{"Content\tLength", "5"}}, AD_INVALID, false, 0},
    {"HTTP/1.1", {{"", "5"}}, AD_INVALID, false, 0},
    {"HTTP/1.1", {{"Content-Length", "+5"}}, AD_INVALID, false, 0},
    {"HTTP/1.1", {{"Content-Length", ""}}, AD_INVALID, false, 0},
    {"HTTP/1.1",
     {{"Inference-Header-Content-Length", "5"}, {"inference-header-content-length", "6"}},
     AD_INVALID,
     false,
     0},
    {"HTTP/1.1", {{"Expect", NULL}}, AD_OK, false, 0},
    {"HTTP/1.1", {{"Host", "a"}}, AD_OK, false, 0},
    {"HTTP/1.1", {{"Host", "a"}, {"host", "a"}}, AD_INVALID, false, 0},
};

START_TEST(framing)
{
    struct ad_headers headers = {0};
    struct ad_error error = {.status = AD_OK};
    uint64_t length = 0;
    for (size_t i = 0; i < MAX_HEADERS && framings[_i].headers[i][0]; i++) {
        ad_headers_note(&headers, framings[_i].headers[i][0], framings[_i].headers[i][1]);
    }
    ck_assert_int_eq(ad_headers_check_framing(&headers, framings[_i].version, &error),
                     framings[_i].status);
    if (framings[_i].status == AD_OK) {
        ck_assert_int_eq(ad_headers_body(&headers, &length), framings[_i].has_body);
        ck_assert_uint_eq(length, framings[_i].length);
    }
}
END_TEST

static const struct {
    const char *name;
    const char *value;
    enum ad_status status;
} encodings[] = {
    {"X-Other", "1", AD_OK},
    {"Content-Encoding", "identity", AD_OK},
    {"Content-Encoding", "Identity", AD_OK},
    {"Content-Encoding", "", AD_OK},
    {"Content-Encoding", "gzip", AD_OK},
    {"Content-Encoding", "Deflate", AD_OK},
    {"Content-Encoding", "zstd", AD_OK},
    {"Content-Encoding", "br", AD_MEDIA},
    {"Content-Encoding", "identity, gzip", AD_MEDIA},
    {"Inference-Header-Content-Length", "1", AD_OK},
    {"Inference-Header-Content-Length", "18446744073709551615", AD_OK},
    {"Inference-Header-Content-Length", "18446744073709551616", AD_INVALID},
    {"Inference-Header-Content-Length", "-1", AD_INVALID},
    {"Inference-Header-Content-Length", "+1", AD_INVALID},
    {"Inference-Header-Content-Length", "1.5", AD_INVALID},
    {"Inference-Header-Content-Length", "abc", AD_INVALID},
    {"Inference-Header-Content-Length", "0x10", AD_INVALID},
    {"Inference-Header-Content-Length", "1 \t ", AD_OK},
    {"Inference-Header-Content-Length", "1 2", AD_INVALID},
    {"Inference-Header-Content-Length", " ", AD_INVALID},
    {"Inference-Header-Content-Length", "", AD_INVALID},
    {"Inference-Header-Content-Length", "0", AD_OK},
    {"Inference-Header-Content-Length", "000", AD_OK},
};

START_TEST(encoding)
{
    struct ad_headers headers = {0};
    struct ad_error error = {.status = AD_OK};
    ad_headers_note(&headers, encodings[_i].name, encodings[_i].value);
    ck_assert_int_eq(ad_headers_check_infer(&headers, &error), encodings[_i].status);
}
END_TEST

/* Codings add up, even over two lines; where none is taken, none is. */
START_TEST(codings)
{
    struct ad_headers headers = {0};
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_headers_check_uncoded(&headers, &error), AD_OK);
    ad_headers_note(&headers, "Content-Encoding", "gzip");
    ck_assert_int_eq(ad_headers_check_infer(&headers, &error), AD_OK);
    ck_assert_int_eq(ad_headers_check_uncoded(&headers, &error), AD_MEDIA);
    ad_headers_note(&headers, "content-encoding", "gzip");
    ck_assert_int_eq(ad_headers_check_framing(&headers, "HTTP/1.1", NULL), AD_OK);
    ck_assert_int_eq(ad_headers_check_infer(&headers, NULL), AD_MEDIA);
    ck_assert_int_eq(ad_headers_check_uncoded(&headers, NULL), AD_MEDIA);
    struct ad_headers plain = {.content_encoding = "identity"};
    ck_assert_int_eq(ad_headers_check_uncoded(&plain, NULL), AD_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("headers");
    TCase *tcase = tcase_create("headers");
    tcase_add_loop_test(tcase, framing, 0, sizeof framings / sizeof framings[0]);
    tcase_add_loop_test(tcase, encoding, 0, sizeof encodings / sizeof encodings[0]);
    tcase_add_test(tcase, codings);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
