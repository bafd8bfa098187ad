/* test_spread.c - numbers that several workers read or write at once: as one does it, in any order. */
#include "codec/encode.h"
#include "codec/fills.h"
#include "unit/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N ((size_t)300000) /* several rounds of stretches, the last one cut */

/* The tasks of a stage, last first; counts those of all stages. */
static void run_backwards(void *context, size_t n_tasks, attn_task *task, void *argument)
{
    size_t *n_run = context;
    for (size_t i = n_tasks; i-- > 0;) {
        task(argument, i, 0);
    }
    *n_run += n_tasks;
}

static float value_at(size_t i)
{
    return (float)(i % 1000) * 0.37f - (float)i * 1e-7f;
}

static struct ad_request *make_request(const struct attn_parallel *helpers)
{
    struct ad_request *request = ad_request_create();
    ck_assert_ptr_nonnull(request);
    request->helpers = helpers;
    return request;
}

/* ---- writing --------------------------------------------------------------------------------- */

static struct attn_named_tensor output_of(const float *floats, size_t n)
{
    return (struct attn_named_tensor){
        .name = "out",
        .tensor = {.dtype = ATTN_F32, .rank = 1, .shape = {n}, .data = floats}};
}

static void check_writing(size_t n, bool spread)
{
    size_t n_run = 0;
    const struct attn_parallel helpers = {2, run_backwards, &n_run};
    struct ad_request *alone = make_request(NULL), *together = make_request(&helpers);
    float *floats = malloc(n * sizeof *floats);
    ck_assert_ptr_nonnull(floats);
    for (size_t i = 0; i < n; i++) {
        floats[i] = value_at(i);
    }
    const struct attn_named_tensor output = output_of(floats, n);
    ck_assert_int_eq(ad_encode_floats(alone, &output, 0, n, &alone->error), AD_OK);
    ck_assert_int_eq(ad_encode_floats(together, &output, 0, n, &together->error), AD_OK);
    ck_assert_uint_eq(alone->reply.size, together->reply.size);
    ck_assert(memcmp(alone->reply.data, together->reply.data, alone->reply.size) == 0);
    ck_assert_int_eq(n_run > 1, spread);
    free(floats);
    ad_request_free(alone);
    ad_request_free(together);
}

START_TEST(writing)
{
    check_writing(N, true);
    check_writing(((size_t)8 << 10) * 16, true);
    check_writing(((size_t)8 << 10) * 16 + 1, true);
    check_writing(1000, false);
}
END_TEST

/* The first that is not finite is named, whoever found it first. */
START_TEST(writing_nonfinite)
{
    size_t n_run = 0;
    const struct attn_parallel helpers = {2, run_backwards, &n_run};
    float *floats = calloc(N, sizeof *floats);
    ck_assert_ptr_nonnull(floats);
    floats[20001] = NAN;
    floats[90000] = INFINITY;
    const struct attn_named_tensor output = output_of(floats, N);
    struct ad_request *request = make_request(&helpers);
    ck_assert_int_eq(ad_encode_floats(request, &output, 0, N, &request->error),
                     AD_NONFINITE);
    ck_assert_msg(strstr(request->error.message, "NaN at [20001]") != NULL, "%s",
                  request->error.message);
    ad_request_free(request);
    request = make_request(&helpers);
    request->nonfinite = AD_NONFINITE_NULL;
    ck_assert_int_eq(ad_encode_floats(request, &output, 0, N, &request->error), AD_OK);
    ck_assert(memcmp(request->reply.data + 2 * 20000, "0,null,0,", 9) == 0);
    ad_request_free(request);
    free(floats);
}
END_TEST

/* ---- reading --------------------------------------------------------------------------------- */

struct source {
    struct attn_port port;
    struct ad_input input;
    char *text;
    size_t n;
};

static struct source make_source(const char *name, size_t n_numbers)
{
    struct source source = {.port = {.name = name, .dtype = ATTN_F32},
                            .input = {.datatype = "FP32",
                                      .wire = ATTN_F32,
                                      .dtype = ATTN_F32,
                                      .rank = 1,
                                      .shape = {n_numbers},
                                      .n = n_numbers}};
    source.text = malloc(16 * n_numbers + 3);
    ck_assert_ptr_nonnull(source.text);
    source.text[0] = '[';
    source.n = 1 + (size_t)sprintf(source.text + 1, "%g", 0.5);
    for (size_t i = 1; i < n_numbers; i++) {
        source.n += (size_t)sprintf(source.text + source.n, ",%.9g", (double)value_at(i));
    }
    source.text[source.n++] = ']';
    source.text[source.n] = '\0';
    return source;
}

/* Read the sources, with helpers; what was read is checked where all of it is good. */
static enum ad_status read_all(struct source *sources, size_t n, size_t *n_run,
                               struct ad_error *error)
{
    const struct attn_parallel helpers = {2, run_backwards, n_run};
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    struct ad_arena arena;
    struct ad_fills fills;
    const void *elements[2];
    ad_arena_init(&arena);
    ck_assert(ad_fills_begin(&fills, n, &arena));
    for (size_t i = 0; i < n; i++) {
        sources[i].input.port = &sources[i].port;
        ck_assert_int_eq(ad_fills_add(&fills, &sources[i].input, sources[i].text,
                                      sources[i].n, &arena, &elements[i], error),
                         AD_OK);
    }
    enum ad_status status = ad_fills_run(&fills, &helpers, c_locale, error);
    for (size_t i = 0; i < n && !status; i++) {
        const float *floats = elements[i];
        for (size_t j = 1; j < sources[i].input.n; j++) {
            ck_assert(floats[j] == value_at(j));
        }
    }
    ad_arena_reset(&arena);
    freelocale(c_locale);
    return status;
}

START_TEST(reading)
{
    struct source sources[] = {make_source("a", 40000), make_source("b", 30000)};
    struct ad_error error = {.status = AD_OK};
    size_t n_run = 0;
    ck_assert_int_eq(read_all(sources, 2, &n_run, &error), AD_OK);
    ck_assert_uint_eq(n_run, 2);
    /* both are wrong: the first is named, though the second was read first */
    sources[0].text[1] = 'x';
    sources[1].text[1] = 'y';
    ck_assert_int_eq(read_all(sources, 2, &n_run, &error), AD_INVALID);
    ck_assert_msg(strstr(error.message, "input 'a': data[0]") != NULL, "%s",
                  error.message);
    free(sources[0].text);
    free(sources[1].text);
}
END_TEST

START_TEST(reading_little)
{
    struct source sources[] = {make_source("a", 100), make_source("b", 100)};
    struct ad_error error = {.status = AD_OK};
    size_t n_run = 0;
    ck_assert_int_eq(read_all(sources, 2, &n_run, &error), AD_OK);
    ck_assert_uint_eq(n_run, 0);
    free(sources[0].text);
    free(sources[1].text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spread");
    TCase *tests = tcase_create("spread");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, writing);
    tcase_add_test(tests, writing_nonfinite);
    tcase_add_test(tests, reading);
    tcase_add_test(tests, reading_little);
    suite_add_tcase(suite, tests);
    return support_run(suite);
}
