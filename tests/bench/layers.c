/* layers.c - times one case after the other, by the library and by the yardstick, on so many threads.
 *
 *     layers CASES THREADS SECONDS [ours] [yardstick]
 *
 * reads ids of cases from standard input, a line each, writes one JSON object a measurement, and
 * "end" after each line, so that a script can take turns with other programs: figures that are
 * compared are measured side by side. Lines that are no case: "machine" asks for the multiply-add
 * limit, "gradient ID" for all gradients of a case beside its forward, "scratch ID LENGTH" for what
 * both need at another length, "memory ID" and "memory gradient ID" for the memory that one run
 * takes; those two need a process of their own. */
#include "bench/machine.h"
#include "bench/ours.h"
#include "bench/timing.h"
#include "bench/yardstick.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench {
    const char *cases;
    size_t n_workers;
    double seconds;
    bool ours, yardstick;
    struct pool *pool;
};

/* A forward of either kind, and gradients, for time_it. */
struct forward {
    struct ours *ours, *gradients;
    struct yardstick *yardstick;
    float *out;
};

static void run_ours(void *argument)
{
    struct forward *forward = argument;
    ours_run(forward->ours, forward->out);
}

static void run_yardstick(void *argument)
{
    struct forward *forward = argument;
    yardstick_run(forward->yardstick, forward->out);
}

static void run_gradients(void *argument)
{
    struct forward *forward = argument;
    ours_run_gradients(forward->gradients);
}

/* Largest difference, as a share of the largest expected number; NaN counts as the worst. */
static double difference(const float *got, const float *expected, size_t n)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)expected[i]);
        worst = d <= worst ? worst : d;
        largest = fmax(largest, fabs((double)expected[i]));
    }
    return worst / largest;
}

static void print_start(const struct bench *bench, const char *id, const char *peer,
                        const char *variant)
{
    printf("{\"case\": \"%s\", \"peer\": \"%s\", \"variant\": \"%s\", \"threads\": %zu",
           id, peer, variant, bench->n_workers);
}

static void print_timing(const struct timing *timing)
{
    printf(", \"n\": %zu, \"min_us\": %.3f, \"median_us\": %.3f", timing->n,
           timing->min_us, timing->median_us);
}

/* NaN, which JSON has not, becomes null. */
static void print_error(double error)
{
    if (isfinite(error)) {
        printf(", \"error\": %.3g", error);
    } else {
        printf(", \"error\": null");
    }
}

/* How ours spreads its work: NULL on one thread. */
static const struct attn_parallel *parallel_of(const struct bench *bench)
{
    return bench->n_workers > 1 ? pool_parallel(bench->pool) : NULL;
}

static size_t result_size(const struct bench_case *c)
{
    return c->n_batch * c->n_queries * c->width;
}

static void measure_ours(const struct bench *bench, const struct problem *problem,
                         enum attn_store weights_dtype, struct forward *forward,
                         const float *expected, size_t n)
{
    forward->ours = ours_create(problem, weights_dtype, parallel_of(bench));
    ours_take_scratch(forward->ours, true);
    struct timing timing = time_it(bench->seconds, run_ours, forward);
    double error = difference(forward->out, expected, n);
    struct timing plan = time_it(0.02, ours_plan_again, forward->ours);
    print_start(bench, problem->c.id,
                weights_dtype == ATTN_STORE_BF16 ? "ours-bf16" : "ours",
                attn_kernels_name());
    print_timing(&timing);
    print_error(error);
    double read_us = 0;
    if (bench->n_workers == 1) {
        size_t n_bytes = problem_bytes(problem);
        read_us = 1e6 * (double)n_bytes / machine_read_bandwidth(n_bytes);
    }
    printf(", \"plan_us\": %.3f, \"read_us\": %.3f, \"scratch\": %zu, \"limit\": %.6g}\n",
           plan.min_us, read_us, ours_scratch_bytes(forward->ours),
           machine_flops(bench->pool, bench->n_workers, timing.min_us, bench->seconds));
    ours_free(forward->ours);
}

/* The yardstick's result is what ours is held against, so it always runs once. */
static void measure(const struct bench *bench, const struct bench_case *c)
{
    struct problem *problem = problem_create(c);
    size_t n = result_size(c);
    float *expected = bench_memory(n * sizeof *expected);
    struct forward forward = {
        .yardstick = yardstick_create(problem, bench->pool, bench->n_workers),
        .out = expected};
    if (bench->yardstick) {
        struct timing timing = time_it(bench->seconds, run_yardstick, &forward);
        print_start(bench, c->id, "cblas", yardstick_blas());
        print_timing(&timing);
        printf("}\n");
    } else {
        run_yardstick(&forward);
    }
    yardstick_free(forward.yardstick);
    if (bench->ours) {
        forward.out = bench_memory(n * sizeof *expected);
        measure_ours(bench, problem, ATTN_STORE_F32, &forward, expected, n);
        if (case_projects_query(c)) {
            measure_ours(bench, problem, ATTN_STORE_BF16, &forward, expected, n);
        }
        attn_free(forward.out);
    }
    attn_free(expected);
    problem_free(problem);
}

/* ---- gradients ----------------------------------------------------------------------------- */

/* The forward beside them takes turns with them, whatever was measured before. */
static void measure_gradients(const struct bench *bench, const struct bench_case *c)
{
    if (!bench->ours) {
        return;
    }
    struct problem *problem = problem_create(c);
    struct forward forward = {
        .ours = ours_create(problem, ATTN_STORE_F32, parallel_of(bench)),
        .gradients = ours_create_gradients(problem, parallel_of(bench)),
        .out = bench_memory(result_size(c) * sizeof(float))};
    struct timing timings[2];
    ours_take_scratch(forward.ours, true);
    ours_take_scratch(forward.gradients, true);
    time_both(bench->seconds, (void (*const[2])(void *)){run_ours, run_gradients},
              &forward, timings);
    char id[sizeof c->id + 16];
    snprintf(id, sizeof id, "gradient %s", c->id);
    print_start(bench, id, "ours-forward", attn_kernels_name());
    print_timing(&timings[0]);
    printf("}\n");
    print_start(bench, id, "ours", attn_kernels_name());
    print_timing(&timings[1]);
    print_error(ours_gradients_error(forward.gradients));
    printf(", \"limit\": %.6g}\n", machine_flops(bench->pool, bench->n_workers,
                                                 timings[1].min_us, bench->seconds));
    ours_free(forward.ours);
    ours_free(forward.gradients);
    attn_free(forward.out);
    problem_free(problem);
}

/* What plans ask for when one sample is so long; nothing is run. */
static void print_scratch(const struct bench *bench, const struct bench_case *c,
                          size_t length)
{
    struct bench_case longer = *c;
    longer.n_batch = 1;
    longer.n_queries = longer.n_keys = length;
    struct problem *problem = problem_create(&longer);
    struct ours *forward = ours_create(problem, ATTN_STORE_F32, parallel_of(bench));
    struct ours *gradients = ours_create_gradients(problem, parallel_of(bench));
    print_start(bench, c->id, "ours", attn_kernels_name());
    printf(", \"length\": %zu, \"forward\": %zu, \"gradients\": %zu}\n", length,
           ours_scratch_bytes(forward), ours_scratch_bytes(gradients));
    ours_free(forward);
    ours_free(gradients);
    problem_free(problem);
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Most memory that the process has had since the last reset, in bytes; 0 where Linux does not
 * tell. */
static size_t peak_memory(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    size_t kilobytes = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmHWM: %zu", &kilobytes) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kilobytes * 1024;
}

static void reset_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file) {
        fputs("5", file);
        fclose(file);
    }
}

/* One run whose inputs, weights and outputs are in memory already. */
static void measure_memory(const struct bench *bench, const struct bench_case *c,
                           bool gradients)
{
    struct problem *problem = problem_create(c);
    float *out = bench_memory(result_size(c) * sizeof *out);
    struct ours *ours = gradients
                            ? ours_create_gradients(problem, parallel_of(bench))
                            : ours_create(problem, ATTN_STORE_F32, parallel_of(bench));
    reset_peak();
    size_t before = peak_memory();
    double start = now_seconds();
    ours_take_scratch(ours, false);
    if (gradients) {
        ours_run_gradients(ours);
    } else {
        ours_run(ours, out);
    }
    double seconds = now_seconds() - start;
    print_start(bench, c->id, "ours", attn_kernels_name());
    printf(", \"seconds\": %.3f, \"scratch\": %zu, \"peak\": %zu}\n", seconds,
           ours_scratch_bytes(ours), peak_memory() - before);
    ours_free(ours);
    attn_free(out);
    problem_free(problem);
}

/* ---- commands ------------------------------------------------------------------------------ */

static void print_machine(const struct bench *bench)
{
    printf("{\"kernels\": \"%s\", \"blas\": \"%s\", \"threads\": %zu, \"flops\": %.6g}\n",
           attn_kernels_name(), yardstick_blas(), bench->n_workers,
           machine_flops(bench->pool, bench->n_workers, 100, 0.5));
}

/* Take a first word off the line, if it is this one. */
static bool take_word(char **line, const char *word)
{
    size_t n = strlen(word);
    bool found = strncmp(*line, word, n) == 0 && (*line)[n] == ' ';
    *line += found ? n + 1 : 0;
    return found;
}

static void find(const struct bench *bench, const char *id, struct bench_case *c)
{
    if (!case_find(bench->cases, id, c)) {
        die("no case '%s'", id);
    }
}

static void obey(const struct bench *bench, char *line)
{
    struct bench_case c;
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "machine") == 0) {
        print_machine(bench);
    } else if (take_word(&line, "memory")) {
        bool gradients = take_word(&line, "gradient");
        find(bench, line, &c);
        measure_memory(bench, &c, gradients);
    } else if (take_word(&line, "gradient")) {
        find(bench, line, &c);
        measure_gradients(bench, &c);
    } else if (take_word(&line, "scratch")) {
        char *length = line + strcspn(line, " ");
        *length = '\0';
        find(bench, line, &c);
        print_scratch(bench, &c, strtoul(length + 1, NULL, 10));
    } else {
        find(bench, line, &c);
        measure(bench, &c);
    }
    printf("end\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        die("usage: layers CASES THREADS SECONDS [ours] [yardstick]");
    }
    struct bench bench = {.cases = argv[1],
                          .n_workers = strtoul(argv[2], NULL, 10),
                          .seconds = strtod(argv[3], NULL)};
    for (int i = 4; i < argc; i++) {
        bench.ours = bench.ours || strcmp(argv[i], "ours") == 0;
        bench.yardstick = bench.yardstick || strcmp(argv[i], "yardstick") == 0;
    }
    if (bench.n_workers < 1) {
        die("THREADS: expected at least 1");
    }
    bench.pool = pool_create(bench.n_workers);
    char line[128];
    while (fgets(line, sizeof line, stdin)) {
        obey(&bench, line);
    }
    pool_free(bench.pool);
    return 0;
}
