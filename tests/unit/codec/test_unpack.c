/* test_unpack.c - coded bodies: good ones in all their forms, and none that is cut, changed or too large
 * does harm. */
#include "codec/decode.h"
#include "codec/unpack.h"
#include "sched/budget.h"
#include "unit/codec/packed.h"
#include "unit/support.h"

#include <stdint.h>

#define LIMIT ((uint64_t)1 << 20)

static const enum ad_coding all[] = {AD_CODING_GZIP, AD_CODING_DEFLATE, AD_CODING_ZSTD};
#define N_CODINGS (sizeof all / sizeof all[0])

/* Bytes that repeat, but not only. */
static char *make_text(size_t n)
{
    char *text = malloc(n + 1);
    uint32_t seed = 1;
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        text[i] = (char)('0' + (seed >> 24) % 10);
    }
    text[n] = '\0';
    return text;
}

/* A request with exactly these bytes: nothing behind them may be read. */
static struct ad_request *request_of(enum ad_coding coding, const char *bytes, size_t n)
{
    struct ad_request *request = ad_request_create();
    char *copy = malloc(n > 0 ? n : 1);
    ck_assert_ptr_nonnull(request);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, n);
    request->body = (struct ad_buffer){.data = copy, .size = n, .capacity = n};
    request->coding = coding;
    request->n_json = AD_ALL_JSON;
    request->max_input_bytes = LIMIT;
    return request;
}

static void expect_text(struct ad_request *request, const char *text, size_t n)
{
    struct ad_error error = {.status = AD_OK};
    enum ad_status status = ad_unpack_body(request, &error);
    ck_assert_msg(status == AD_OK, "%s", error.message);
    ck_assert_uint_eq(request->body.size, n);
    ck_assert_mem_eq(request->body.data, text, n);
    ck_assert_int_eq(request->coding, AD_CODING_IDENTITY);
    ad_request_free(request);
}

static void expect_failure(struct ad_request *request, enum ad_status status,
                           const char *words)
{
    struct ad_error error = {.status = AD_OK};
    size_t n = request->body.size;
    ck_assert_int_eq(ad_unpack_body(request, &error), status);
    ck_assert_msg(strstr(error.message, words) != NULL, "no '%s' in: %s", words,
                  error.message);
    ck_assert_uint_eq(request->body.size, n);
    ad_request_free(request);
}

/* ---- good ones ------------------------------------------------------------------------------ */

static const size_t sizes[] = {1,    2,     100,    4095,   4096,       4097,
                               5000, 65536, 200000, 999999, 1024 * 1024};

START_TEST(test_sizes)
{
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *text = make_text(sizes[i]);
        struct packed packed = pack_bytes(all[_i], text, sizes[i]);
        expect_text(request_of(all[_i], packed.bytes, packed.n), text, sizes[i]);
        packed_free(&packed);
        free(text);
    }
}
END_TEST

START_TEST(test_identity_is_left_alone)
{
    expect_text(request_of(AD_CODING_IDENTITY, "{}", 2), "{}", 2);
}
END_TEST

/* Of nothing, or packed from nothing. */
START_TEST(test_nothing)
{
    struct ad_error error = {.status = AD_OK};
    struct packed packed = pack_bytes(all[_i], "", 0);
    expect_text(request_of(all[_i], packed.bytes, packed.n), "", 0);
    packed_free(&packed);
    struct ad_request *request = request_of(all[_i], "", 0);
    ck_assert_int_eq(ad_decode_infer(request, &error), AD_INVALID);
    ck_assert_msg(strstr(error.message, "body is empty") != NULL, "%s", error.message);
    ad_request_free(request);
}
END_TEST

START_TEST(test_several_members)
{
    char *text = make_text(30000);
    struct packed packed = {NULL, 0};
    for (size_t at = 0; at < 30000; at += 10000) {
        struct packed one = pack_bytes(all[_i], text + at, 10000);
        packed_append(&packed, one.bytes, one.n);
        packed_free(&one);
    }
    struct ad_request *request = request_of(all[_i], packed.bytes, packed.n);
    if (all[_i] == AD_CODING_DEFLATE) {
        expect_failure(request, AD_INVALID, "do not belong");
    } else {
        expect_text(request, text, 30000);
    }
    packed_free(&packed);
    free(text);
}
END_TEST

START_TEST(test_zstd_forms)
{
    static const char skippable[] = "\x50\x2a\x4d\x18\x03\0\0\0abc";
    char *text = make_text(300000);
    struct packed packed = {NULL, 0};
    packed_append(&packed, skippable, sizeof skippable - 1);
    for (int known = 0; known < 2; known++) {
        struct packed one = pack_zstd(text, 300000, known, 0);
        packed_append(&packed, one.bytes, one.n);
        packed_append(&packed, skippable, sizeof skippable - 1);
        packed_free(&one);
    }
    char *twice = malloc(600000);
    ck_assert_ptr_nonnull(twice);
    memcpy(twice, text, 300000);
    memcpy(twice + 300000, text, 300000);
    expect_text(request_of(AD_CODING_ZSTD, packed.bytes, packed.n), twice, 600000);
    packed_free(&packed);
    free(twice);
    free(text);
}
END_TEST

/* Where it is known how much there will be, no window is needed; else only so large a one is kept. */
START_TEST(test_zstd_windows)
{
    size_t n = (size_t)9 << 20;
    char *text = make_text(n);
    for (int log = AD_UNPACK_WINDOW_LOG; log <= AD_UNPACK_WINDOW_LOG + 1; log++) {
        for (int known = 0; known < 2; known++) {
            struct packed packed = pack_zstd(text, n, known, log);
            struct ad_request *request =
                request_of(AD_CODING_ZSTD, packed.bytes, packed.n);
            request->max_input_bytes = n;
            if (known || log == AD_UNPACK_WINDOW_LOG) {
                expect_text(request, text, n);
            } else {
                expect_failure(request, AD_INVALID, "window");
            }
            packed_free(&packed);
        }
    }
    free(text);
}
END_TEST

/* Tensors behind the JSON begin where they may stay. */
START_TEST(test_header_length)
{
    static const struct {
        size_t n_json;
        bool fits;
    } cases[] = {{0, true},     {1, true},      {77, true},
                 {10000, true}, {10001, false}, {SIZE_MAX - 1, false}};
    char *text = make_text(10000);
    struct packed packed = pack_bytes(all[_i], text, 10000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ad_request *request = request_of(all[_i], packed.bytes, packed.n);
        struct ad_error error = {.status = AD_OK};
        request->n_json = cases[i].n_json;
        enum ad_status status = ad_unpack_body(request, &error);
        ck_assert_int_eq(status, cases[i].fits ? AD_OK : AD_INVALID);
        if (cases[i].fits) {
            uintptr_t tensors = (uintptr_t)(request->body.data + cases[i].n_json);
            ck_assert_uint_eq(request->n_json, cases[i].n_json);
            ck_assert_uint_eq(tensors % 16, 0);
            ck_assert_int_eq(request->body.data[10000], '\0');
        } else {
            ck_assert_ptr_nonnull(strstr(error.message, "in range (0, 10000), got: "));
        }
        ad_request_free(request);
    }
    packed_free(&packed);
    free(text);
}
END_TEST

/* ---- limits --------------------------------------------------------------------------------- */

START_TEST(test_limit)
{
    char *text = make_text(100000);
    struct packed packed = pack_bytes(all[_i], text, 100000);
    for (uint64_t limit = 99990; limit <= 100010; limit++) {
        struct ad_request *request = request_of(all[_i], packed.bytes, packed.n);
        request->max_input_bytes = limit;
        if (limit >= 100000) {
            expect_text(request, text, 100000);
        } else {
            expect_failure(request, AD_TOO_LARGE, "--http-max-input-size");
        }
    }
    packed_free(&packed);
    free(text);
}
END_TEST

/* What the last four bytes, or a frame's header, say is not to be trusted. */
START_TEST(test_sizes_that_lie)
{
    char *text = make_text(100000);
    struct packed gzip = pack_bytes(AD_CODING_GZIP, text, 100000);
    memset(gzip.bytes + gzip.n - 4, 0xff, 4);
    expect_failure(request_of(AD_CODING_GZIP, gzip.bytes, gzip.n), AD_INVALID,
                   "incorrect length check");
    memset(gzip.bytes + gzip.n - 4, 0, 4);
    expect_failure(request_of(AD_CODING_GZIP, gzip.bytes, gzip.n), AD_INVALID,
                   "incorrect length check");
    packed_free(&gzip);
    struct packed zstd = pack_zstd(text, 100000, true, 0);
    zstd.bytes[6] = (char)0x0f; /* of the four bytes of the size */
    expect_failure(request_of(AD_CODING_ZSTD, zstd.bytes, zstd.n), AD_INVALID, "offset");
    zstd.bytes[8] = (char)0x7f;
    expect_failure(request_of(AD_CODING_ZSTD, zstd.bytes, zstd.n), AD_TOO_LARGE,
                   "--http-max-input-size");
    packed_free(&zstd);
    free(text);
}
END_TEST

/* The budget counts what is there: first the coded body, then both, then what came out, then nothing. */
START_TEST(test_budget)
{
    static const struct {
        size_t limit;
        enum ad_status status;
        const char *words;
    } cases[] = {{1 << 20, AD_OK, ""},
                 {900000, AD_UNAVAILABLE, "--queue-memory"},
                 {150000, AD_TOO_LARGE, "--queue-memory"}};
    char *text = make_text(200000);
    struct packed packed = pack_bytes(all[_i], text, 200000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ad_version version = {0};
        struct ad_budget budget = {.limit = cases[i].limit};
        struct ad_error error = {.status = AD_OK};
        atomic_init(&version.references, 100);
        atomic_size_t others = 0;
        if (cases[i].status == AD_UNAVAILABLE) {
            ck_assert(ad_budget_take(&budget, &others, 440000));
        }
        struct ad_request *request = request_of(all[_i], packed.bytes, packed.n);
        request->version = &version;
        request->budget = &budget;
        if (ad_request_hold(request, packed.n, &error) == AD_OK &&
            ad_unpack_body(request, &error) == AD_OK) {
            ck_assert_uint_eq(request->n_held, 200000);
            ck_assert_uint_eq(atomic_load(&version.n_body_bytes), 200000);
        }
        ck_assert_int_eq(error.status, cases[i].status);
        ck_assert_ptr_nonnull(strstr(error.message, cases[i].words));
        ad_request_free(request);
        ck_assert_uint_eq(atomic_load(&version.n_body_bytes), 0);
        ck_assert_uint_eq(atomic_load(&budget.total), atomic_load(&others));
    }
    packed_free(&packed);
    free(text);
}
END_TEST

/* ---- bad ones ------------------------------------------------------------------------------- */

START_TEST(test_cut_anywhere)
{
    char *text = make_text(700);
    struct packed packed = pack_bytes(all[_i], text, 700);
    for (size_t n = 1; n < packed.n; n++) {
        expect_failure(request_of(all[_i], packed.bytes, n), AD_INVALID, "offset");
    }
    packed_free(&packed);
    free(text);
}
END_TEST

START_TEST(test_any_bit_flipped)
{
    char *text = make_text(300);
    struct packed packed = pack_bytes(all[_i], text, 300);
    size_t n_refused = 0;
    for (size_t bit = 0; bit < packed.n * 8; bit++) {
        struct ad_error error = {.status = AD_OK};
        packed.bytes[bit / 8] = (char)(packed.bytes[bit / 8] ^ 1 << bit % 8);
        struct ad_request *request = request_of(all[_i], packed.bytes, packed.n);
        enum ad_status status = ad_unpack_body(request, &error);
        /* some bits of a header mean nothing to us, as the time in that of gzip */
        bool right =
            request->body.size == 300 && memcmp(request->body.data, text, 300) == 0;
        ck_assert_msg(status == AD_INVALID || status == AD_TOO_LARGE ||
                          (status == AD_OK && right),
                      "bit %zu: %s", bit, error.message);
        n_refused += status != AD_OK;
        ad_request_free(request);
        packed.bytes[bit / 8] = (char)(packed.bytes[bit / 8] ^ 1 << bit % 8);
    }
    ck_assert_uint_gt(n_refused, packed.n * 8 / 10 * 6);
    packed_free(&packed);
    free(text);
}
END_TEST

START_TEST(test_bytes_behind)
{
    static const struct {
        const char *bytes;
        size_t n;
    } tails[] = {{"\0", 1},           {"x", 1},        {"\x1f", 1},   {"\x1f\x8b", 2},
                 {"\x28\xb5\x2f", 3}, {"\0\0\0\0", 4}, {"garbage", 7}};
    char *text = make_text(700);
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        struct packed packed = pack_bytes(all[_i], text, 700);
        packed_append(&packed, tails[i].bytes, tails[i].n);
        expect_failure(request_of(all[_i], packed.bytes, packed.n), AD_INVALID, "offset");
        packed_free(&packed);
    }
    free(text);
}
END_TEST

/* One coding is not taken for another, nor plain text for any. */
START_TEST(test_other_codings)
{
    char *text = make_text(700);
    for (size_t i = 0; i < N_CODINGS; i++) {
        struct packed packed = pack_bytes(all[i], text, 700);
        if (all[i] != all[_i]) {
            expect_failure(request_of(all[_i], packed.bytes, packed.n), AD_INVALID,
                           "at offset ");
        }
        packed_free(&packed);
    }
    expect_failure(request_of(all[_i], "{\"inputs\":[]}", 13), AD_INVALID, "offset");
    free(text);
}
END_TEST

static const struct {
    enum ad_coding coding;
    const char *bytes;
    size_t n;
    const char *words;
} odd[] = {
    /* a zlib stream that wants a dictionary; deflate without the zlib form; frames of old zstd */
    {AD_CODING_DEFLATE, "\x78\x20\x00\x00\x00\x01", 6, "dictionary"},
    {AD_CODING_DEFLATE, "\x03\x00", 2, "offset"},
    {AD_CODING_ZSTD, "\x27\xb5\x2f\xfd\0\0\0\0\0\0", 10, "no frame"},
    {AD_CODING_ZSTD, "\x1e\xb5\x2f\xfd\0\0\0\0\0\0", 10, "no frame"},
    {AD_CODING_ZSTD, "\x37\xa4\x30\xec\0\0\0\0\0\0", 10, "no frame"},
    {AD_CODING_ZSTD, "\x50\x2a\x4d\x18\xff\xff\xff\xff\0\0", 10, "ends at offset"},
};

START_TEST(test_odd)
{
    expect_failure(request_of(odd[_i].coding, odd[_i].bytes, odd[_i].n), AD_INVALID,
                   odd[_i].words);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unpack");
    TCase *tcase = tcase_create("unpack");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_sizes, 0, N_CODINGS);
    tcase_add_test(tcase, test_identity_is_left_alone);
    tcase_add_loop_test(tcase, test_nothing, 0, N_CODINGS);
    tcase_add_loop_test(tcase, test_several_members, 0, N_CODINGS);
    tcase_add_test(tcase, test_zstd_forms);
    tcase_add_test(tcase, test_zstd_windows);
    tcase_add_loop_test(tcase, test_header_length, 0, N_CODINGS);
    tcase_add_loop_test(tcase, test_limit, 0, N_CODINGS);
    tcase_add_test(tcase, test_sizes_that_lie);
    tcase_add_loop_test(tcase, test_budget, 0, N_CODINGS);
    tcase_add_loop_test(tcase, test_cut_anywhere, 0, N_CODINGS);
    tcase_add_loop_test(tcase, test_any_bit_flipped, 0, N_CODINGS);
    tcase_add_loop_test(tcase, test_bytes_behind, 0, N_CODINGS);
    tcase_add_loop_test(tcase, test_other_codings, 0, N_CODINGS);
    tcase_add_loop_test(tcase, test_odd, 0, sizeof odd / sizeof odd[0]);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
