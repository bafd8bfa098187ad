/* projections.c - times one projection over more and more rows, on one thread: by the library with
 * float32 and with bf16 weights, and by BLAS; also how fast a buffer of the weight's size is read.
 *
 *     projections SECONDS
 *
 * writes one JSON object a line. The library has no call for a projection alone, so this program
 * links its archive and calls the module itself. */
#include "bench/machine.h"
#include "bench/problem.h"
#include "bench/timing.h"
#include "linear.h"
#include "unit/lib/weights_file.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct projection {
    struct attni_linear linear, bf16;
    float *weight; /* as BLAS reads it, [n_out, n_in] */
    float *x, *y, *expected;
    void *scratch;
    size_t n_rows;
};

static void run(const struct projection *p, const struct attni_linear *linear)
{
    struct attni_product product = attni_product_of(linear, p->n_rows, p->x, p->y);
    size_t n_tasks = attni_linear_n_tasks(&product);
    for (size_t task = 0; task < n_tasks; task++) {
        attni_linear_run(&product, task, p->scratch);
    }
}

static void run_ours(void *argument)
{
    const struct projection *p = argument;
    run(p, &p->linear);
}

static void run_bf16(void *argument)
{
    const struct projection *p = argument;
    run(p, &p->bf16);
}

static void run_blas(void *argument)
{
    struct projection *p = argument;
    blasint n_in = (blasint)p->linear.n_in, n_out = (blasint)p->linear.n_out;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)p->n_rows, n_out, n_in,
                1, p->x, n_in, p->weight, n_in, 0, p->expected, n_out);
}

/* Largest difference between the two, as a share of the largest number. */
static double difference(const struct projection *p)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < p->n_rows * p->linear.n_out; i++) {
        double d = fabs((double)p->y[i] - (double)p->expected[i]);
        worst = d <= worst ? worst : d;
        largest = fmax(largest, fabs((double)p->expected[i]));
    }
    return worst / largest;
}

static void measure(struct projection *p, struct pool *pool, double seconds,
                    const double bandwidth[2])
{
    struct timing blas = time_it(seconds, run_blas, p);
    struct timing bf16 = time_it(seconds, run_bf16, p);
    double bf16_error = difference(p);
    struct timing ours = time_it(seconds, run_ours, p);
    printf("{\"rows\": %zu, \"width\": %zu, \"kernels\": \"%s\", \"blas\": \"%s\", "
           "\"min_us\": %.3f, \"bf16_min_us\": %.3f, \"blas_min_us\": %.3f, "
           "\"bandwidth\": %.6g, \"bf16_bandwidth\": %.6g, \"error\": %.3g, "
           "\"bf16_error\": %.3g, \"limit\": %.6g}\n",
           p->n_rows, p->linear.n_in, attn_kernels_name(), openblas_get_corename(),
           ours.min_us, bf16.min_us, blas.min_us, bandwidth[0], bandwidth[1],
           difference(p), bf16_error, machine_flops(pool, 1, ours.min_us, seconds));
    fflush(stdout);
}

/* A projection of square weights, laid out as the library reads them. */
static struct attni_linear store(const float *weight, size_t width, bool bf16)
{
    struct attni_linear linear = {.n_in = width, .n_out = width, .bf16 = bf16};
    size_t n_floats;
    if (!attni_linear_floats(width, width, bf16, &n_floats)) {
        die("too large");
    }
    float *stored = bench_memory(n_floats * sizeof *stored);
    attni_linear_store(&linear, weight, stored);
    linear.weight = stored;
    return linear;
}

static void sweep(struct pool *pool, size_t width, double seconds)
{
    static const size_t rows[] = {1, 2, 4, 8, 16, 64, 128, 512};
    struct dice dice = {1};
    size_t most = 512 * width, n_bytes = width * width * sizeof(float);
    struct projection p = {.weight = bench_memory(n_bytes),
                           .x = bench_memory(most * sizeof(float)),
                           .y = bench_memory(most * sizeof(float)),
                           .expected = bench_memory(most * sizeof(float))};
    dice_fill(&dice, p.weight, width * width, 1 / sqrtf((float)width));
    dice_fill(&dice, p.x, most, 1);
    p.linear = store(p.weight, width, false);
    p.bf16 = store(p.weight, width, true);
    const double bandwidth[] = {machine_read_bandwidth(n_bytes),
                                machine_read_bandwidth(n_bytes / 2)};
    size_t scratch_bytes;
    if (!attni_linear_scratch(&p.linear, false, &scratch_bytes)) {
        die("too large");
    }
    p.scratch = bench_memory(scratch_bytes);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        p.n_rows = rows[i];
        measure(&p, pool, seconds, bandwidth);
    }
    attn_free((void *)(uintptr_t)p.linear.weight);
    attn_free((void *)(uintptr_t)p.bf16.weight);
    attn_free(p.weight);
    attn_free(p.x);
    attn_free(p.y);
    attn_free(p.expected);
    attn_free(p.scratch);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        die("usage: projections SECONDS");
    }
    struct pool *pool = pool_create(1);
    sweep(pool, 512, strtod(argv[1], NULL));
    sweep(pool, 1024, strtod(argv[1], NULL));
    pool_free(pool);
    return 0;
}
