/* test_pack.c - replies that are packed, and those that are left as they are. What is packed is what
 * our own reader and the libraries' writers agree on (test_unpack.c). */
#include "codec/pack.h"
#include "codec/unpack.h"
#include "unit/codec/fixture.h"
#include "unit/support.h"

#include <stdint.h>

static const enum ad_coding all[] = {AD_CODING_GZIP, AD_CODING_DEFLATE, AD_CODING_ZSTD};
#define N_CODINGS (sizeof all / sizeof all[0])

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* Digits and commas, as the numbers of a reply. */
static void fill_text(char *bytes, size_t n)
{
    uint32_t seed = 7;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = i % 10 == 9 ? ',' : (char)('0' + draw(&seed) % 10);
    }
}

/* Floats of about the same size, one in `zeros` (0: none) of them 0. */
static void fill_floats(char *bytes, size_t n, unsigned zeros)
{
    uint32_t seed = 7;
    for (size_t i = 0; i + 4 <= n; i += 4) {
        float sum = -6;
        for (int j = 0; j < 12; j++) {
            sum += (float)draw(&seed) / (float)(1 << 24);
        }
        sum = zeros > 0 && draw(&seed) % zeros == 0 ? 0 : sum;
        memcpy(bytes + i, &sum, sizeof sum);
    }
}

static struct ad_request *reply_of(size_t n, enum ad_coding coding, unsigned level)
{
    struct ad_request *request = ad_request_create();
    ck_assert_ptr_nonnull(request);
    ck_assert(ad_buffer_reserve(&request->reply, n));
    memset(request->reply.data, 0, n + 1);
    request->reply.size = n;
    request->reply_coding = coding;
    request->reply_level = level;
    return request;
}

/* It is as it was. */
static void expect_same(struct ad_request *request)
{
    size_t n = request->reply.size;
    const char *data = request->reply.data;
    ad_pack_reply(request);
    ck_assert_int_eq(request->reply_coded, AD_CODING_IDENTITY);
    ck_assert_uint_eq(request->reply.size, n);
    ck_assert_ptr_eq(request->reply.data, data);
    ad_request_free(request);
}

/* It is smaller, and unpacks to what it was. */
static void expect_packed(struct ad_request *request)
{
    struct ad_error error = {.status = AD_OK};
    size_t n = request->reply.size;
    char *before = malloc(n);
    ck_assert_ptr_nonnull(before);
    memcpy(before, request->reply.data, n);
    ad_pack_reply(request);
    ck_assert_int_eq(request->reply_coded, request->reply_coding);
    ck_assert_uint_eq(request->n_reply, n);
    ck_assert_uint_le(request->reply.size, n - n / 8);
    ck_assert_int_eq(request->reply.data[request->reply.size], '\0');
    request->body = request->reply;
    ad_buffer_init(&request->reply);
    request->coding = request->reply_coded;
    request->n_json = AD_ALL_JSON;
    request->max_input_bytes = n;
    ck_assert_int_eq(ad_unpack_body(request, &error), AD_OK);
    ck_assert_uint_eq(request->body.size, n);
    ck_assert_mem_eq(request->body.data, before, n);
    free(before);
    ad_request_free(request);
}

START_TEST(test_text)
{
    static const size_t sizes[] = {1024, 1025, 4095, 4096, 4097, 100000, 3000000};
    for (unsigned level = 1; level <= 9; level += 4) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            struct ad_request *request = reply_of(sizes[i], all[_i], level);
            fill_text(request->reply.data, sizes[i]);
            expect_packed(request);
        }
    }
}
END_TEST

START_TEST(test_small)
{
    struct ad_request *request = reply_of(1023, all[_i], 9);
    fill_text(request->reply.data, 1023);
    expect_same(request);
}
END_TEST

START_TEST(test_not_asked_for)
{
    struct ad_request *request = reply_of(5000, AD_CODING_IDENTITY, 1);
    fill_text(request->reply.data, 5000);
    expect_same(request);
    request = reply_of(5000, all[_i], 0);
    fill_text(request->reply.data, 5000);
    expect_same(request);
}
END_TEST

START_TEST(test_floats)
{
    struct ad_request *request = reply_of(400000, all[_i], 1);
    fill_floats(request->reply.data, 400000, 0);
    expect_same(request);
    /* as an activation leaves them */
    request = reply_of(400000, all[_i], 1);
    fill_floats(request->reply.data, 400000, 2);
    expect_packed(request);
    /* all zero */
    expect_packed(reply_of(400000, all[_i], 1));
}
END_TEST

/* The sample is of text, and nothing else is. */
START_TEST(test_sample_that_misleads)
{
    size_t n = 1 << 20, piece = 512;
    struct ad_request *request = reply_of(n, all[_i], 1);
    uint32_t seed = 3;
    for (size_t i = 0; i < n; i++) {
        request->reply.data[i] = (char)(draw(&seed) >> 14);
    }
    for (size_t i = 0; i < 8; i++) {
        memset(request->reply.data + (n - piece) / 7 * i, '0', piece);
    }
    expect_same(request);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pack");
    TCase *tcase = tcase_create("pack");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_text, 0, N_CODINGS);
    tcase_add_loop_test(tcase, test_small, 0, N_CODINGS);
    tcase_add_loop_test(tcase, test_not_asked_for, 0, N_CODINGS);
    tcase_add_loop_test(tcase, test_floats, 0, N_CODINGS);
    tcase_add_loop_test(tcase, test_sample_that_misleads, 0, N_CODINGS);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
