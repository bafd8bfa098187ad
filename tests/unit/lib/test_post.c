/* test_post.c - normalisations and activations against double precision, in inference and in training, at
 * odd sizes and for values that are extreme, infinite or NaN. */
#include "post.h"
#include "unit/lib/oracle.h"
#include "unit/support.h"

#include <float.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MOST_SAMPLES 3
#define MOST_LENGTH 12
#define MOST_WIDTH 33
#define MOST (MOST_SAMPLES * MOST_LENGTH * MOST_WIDTH)

/* Widths around the block of features that is walked at once. */
static const size_t widths[] = {1, 2, 15, 16, 17, 32, 33};
static const size_t lengths[] = {1, 2, 3, 6, 12};

/* A step under test: the tensor, its parameters, what it was and what it should become. */
struct step {
    struct attni_post post;
    struct oracle_post oracle;
    float memory[MOST + 1];
    double expected[MOST];
    float gamma[MOST], beta[MOST], mean[MOST], variance[MOST];
    size_t shape[3], n;
    struct attni_post_data data;
};

static void set_up(struct step *step, struct dice *dice, size_t n_samples, size_t length,
                   size_t width, float size)
{
    step->n = n_samples * length * width;
    step->shape[0] = n_samples;
    step->shape[1] = length;
    step->shape[2] = width;
    /* at an odd address */
    step->data = (struct attni_post_data){.data = step->memory + 1,
                                          .n_samples = n_samples,
                                          .length = length,
                                          .width = width};
    dice_fill(dice, step->data.data, step->n, size);
    for (size_t i = 0; i < step->n; i++) {
        step->expected[i] = (double)step->data.data[i];
    }
    dice_fill(dice, step->gamma, length * width, 2);
    dice_fill(dice, step->beta, length * width, 2);
    dice_fill(dice, step->mean, length * width, size);
    for (size_t i = 0; i < length * width; i++) {
        step->variance[i] = size * size * (1.01f + dice_real(dice));
    }
    bool with = dice_bool(dice);
    step->post = (struct attni_post){.gamma = with ? step->gamma : NULL,
                                     .beta = dice_bool(dice) ? step->beta : NULL,
                                     .mean = with ? step->mean : NULL,
                                     .variance = dice_bool(dice) ? step->variance : NULL};
    step->oracle = (struct oracle_post){step->post.gamma, step->post.beta,
                                        step->post.mean, step->post.variance};
}

static void run_step(struct step *step)
{
    size_t n_tasks = attni_post_n_tasks(&step->post, &step->data);
    for (size_t i = n_tasks; i-- > 0;) { /* in any order */
        attni_post_run(&step->post, &step->data, i);
    }
}

/* tolerance: relative to the largest value of the result, of at least 1. */
static void check_step(const struct step *step, double tolerance)
{
    double largest = 1;
    for (size_t i = 0; i < step->n; i++) {
        largest = fmax(largest, fabs(step->expected[i]));
    }
    for (size_t i = 0; i < step->n; i++) {
        double expected = step->expected[i], got = (double)step->data.data[i];
        ck_assert_msg(isnan(expected) ? isnan(got)
                                      : got == expected ||
                                            fabs(got - expected) <= tolerance * largest,
                      "[%zu, %zu, %zu] at %zu: expected %.9g, got %.9g", step->shape[0],
                      step->shape[1], step->shape[2], i, expected, got);
    }
}

/* ---- normalisations ------------------------------------------------------------------------ */

/* The statistics are summed in double, so what is left is the rounding of the result. */
START_TEST(group_norm)
{
    static const float sizes[] = {1, 1e-4f, 1e4f, 1e18f};
    static struct step step;
    struct dice dice = {1};
    for (size_t k = 0; k < COUNT(widths) * COUNT(lengths) * COUNT(sizes); k++) {
        size_t length = lengths[k % COUNT(lengths)];
        for (size_t n_groups = 1; n_groups <= length; n_groups++) {
            if (length % n_groups) {
                continue;
            }
            set_up(&step, &dice, 1 + k % MOST_SAMPLES, length,
                   widths[k / COUNT(lengths) % COUNT(widths)], sizes[k % COUNT(sizes)]);
            step.post.spec = (struct attn_post_spec){.kind = ATTN_POST_GROUP_NORM,
                                                     .n_groups = n_groups};
            oracle_group_norm(step.expected, step.shape[0], length, step.shape[2],
                              n_groups, &step.oracle);
            run_step(&step);
            check_step(&step, 1e-7);
        }
    }
}
END_TEST

/* Neighbours that differ by one unit in the last place: the difference is what is left. */
START_TEST(group_norm_of_neighbours)
{
    static struct step step;
    struct dice dice = {2};
    set_up(&step, &dice, 1, 2, 3, 1);
    for (size_t d = 0; d < 3; d++) {
        float x = 1000.0f * (float)(d + 1);
        step.data.data[d] = x;
        step.data.data[3 + d] = nextafterf(x, INFINITY);
        step.expected[d] = (double)x;
        step.expected[3 + d] = (double)nextafterf(x, INFINITY);
    }
    step.post.spec = (struct attn_post_spec){.kind = ATTN_POST_GROUP_NORM, .n_groups = 1};
    oracle_group_norm(step.expected, 1, 2, 3, 1, &step.oracle);
    run_step(&step);
    check_step(&step, 1e-7);
}
END_TEST

/* Groups of one position: nothing is left but beta. */
START_TEST(instance_norm)
{
    static struct step step;
    struct dice dice = {3};
    set_up(&step, &dice, 2, 12, 17, 1e6f);
    step.post.spec =
        (struct attn_post_spec){.kind = ATTN_POST_GROUP_NORM, .n_groups = 12};
    step.post.beta = step.beta;
    run_step(&step);
    for (size_t i = 0; i < step.n; i++) {
        ck_assert_float_eq(step.data.data[i], step.beta[i % (12 * 17)]);
    }
}
END_TEST

START_TEST(batch_norm)
{
    static const float sizes[] = {1, 1e-4f, 1e4f, 1e15f};
    static struct step step;
    struct dice dice = {4};
    for (size_t k = 0; k < COUNT(widths) * COUNT(lengths) * COUNT(sizes); k++) {
        size_t length = lengths[k % COUNT(lengths)];
        set_up(&step, &dice, 1 + k % MOST_SAMPLES, length,
               widths[k / COUNT(lengths) % COUNT(widths)], sizes[k % COUNT(sizes)]);
        step.post.spec = (struct attn_post_spec){.kind = ATTN_POST_BATCH_NORM};
        oracle_batch_norm(step.expected, step.shape[0], length, step.shape[2],
                          &step.oracle);
        run_step(&step);
        check_step(&step, 1e-7);
    }
}
END_TEST

/* ---- training ------------------------------------------------------------------------------ */

/* x becomes what a BatchNorm in training makes of it; the batch's statistics. */
static void oracle_batch_norm_training(double *x, const size_t shape[3],
                                       const struct oracle_post *post, double *mean,
                                       double *variance)
{
    size_t n = shape[0], sample = shape[1] * shape[2];
    for (size_t at = 0; at < sample; at++) {
        mean[at] = variance[at] = 0;
        for (size_t s = 0; s < n; s++) {
            mean[at] += x[s * sample + at] / (double)n;
        }
        for (size_t s = 0; s < n; s++) {
            variance[at] += pow(x[s * sample + at] - mean[at], 2) / ((double)n - 1);
        }
        for (size_t s = 0; s < n; s++) {
            double *y = &x[s * sample + at];
            *y = oracle_affine(post, at,
                               (*y - mean[at]) / sqrt(variance[at] + ORACLE_EPSILON));
        }
    }
}

/* old * patience + (1 - patience) * batch, to a float's precision of the larger. */
static void check_moved(float got, double old, double batch, double patience)
{
    double expected = patience * old + (1 - patience) * batch;
    ck_assert(fabs((double)got - expected) <= 1e-7 * (fabs(old) + fabs(batch)));
}

START_TEST(batch_norm_in_training)
{
    static const float sizes[] = {1, 1e-4f, 1e4f, 1e15f};
    static const double patiences[] = {0.9, 0.25};
    static double mean[MOST], variance[MOST];
    static float moved[2][MOST];
    static struct step step;
    struct dice dice = {8};
    for (size_t k = 0; k < COUNT(widths) * COUNT(lengths) * COUNT(sizes); k++) {
        set_up(&step, &dice, 2 + k % 2, lengths[k % COUNT(lengths)],
               widths[k / COUNT(lengths) % COUNT(widths)], sizes[k % COUNT(sizes)]);
        double patience = patiences[k / 3 % 2];
        step.post.spec =
            (struct attn_post_spec){.kind = ATTN_POST_BATCH_NORM, .patience = patience};
        step.data.training = true;
        step.data.moved_mean = k % 3 == 0 ? NULL : moved[0];
        step.data.moved_variance = k % 3 == 1 ? NULL : moved[1];
        oracle_batch_norm_training(step.expected, step.shape, &step.oracle, mean,
                                   variance);
        run_step(&step);
        check_step(&step, 1e-7);
        for (size_t i = 0; i < step.shape[1] * step.shape[2]; i++) {
            if (step.data.moved_mean) {
                check_moved(moved[0][i], step.post.mean ? (double)step.mean[i] : 0,
                            mean[i], patience);
            }
            if (step.data.moved_variance) {
                check_moved(moved[1][i],
                            step.post.variance ? (double)step.variance[i] : 1,
                            variance[i], patience);
            }
        }
    }
}
END_TEST

/* What does not change in training: all but BatchNorm and Dropout. */
START_TEST(same_in_training)
{
    static const enum attn_post_kind kinds[] = {ATTN_POST_GROUP_NORM, ATTN_POST_RELU,
                                                ATTN_POST_SIGMOID, ATTN_POST_TANH,
                                                ATTN_POST_SOFTMAX};
    static struct step step;
    static float before[MOST], expected[MOST];
    struct dice dice = {9};
    for (size_t k = 0; k < COUNT(kinds); k++) {
        set_up(&step, &dice, 3, 6, 17, 3);
        step.post.spec = (struct attn_post_spec){.kind = kinds[k], .n_groups = 2};
        memcpy(before, step.data.data, sizeof before);
        run_step(&step);
        memcpy(expected, step.data.data, step.n * sizeof(float));
        memcpy(step.data.data, before, step.n * sizeof(float));
        step.data.training = true;
        run_step(&step);
        ck_assert_mem_eq(step.data.data, expected, step.n * sizeof(float));
    }
}
END_TEST

/* Draws given with gaps between their rows, or made from a seed; widths across what is drawn at once. */
START_TEST(dropout)
{
    enum { SAMPLES = 2, LENGTH = 3, WIDEST = 700 };
    static const size_t drop_widths[] = {1, 3, 16, 255, 256, 257, WIDEST};
    static float x[SAMPLES * LENGTH * WIDEST], before[SAMPLES * LENGTH * WIDEST],
        uniform[SAMPLES * LENGTH * (WIDEST + 1)], factors[WIDEST];
    struct dice dice = {10};
    for (size_t k = 0; k < 4 * COUNT(drop_widths); k++) {
        size_t width = drop_widths[k / 4], sample = LENGTH * width, n = SAMPLES * sample;
        struct attni_post post = {.spec = {.kind = ATTN_POST_DROPOUT}};
        struct attni_post_data data = {
            .data = x,
            .n_samples = SAMPLES,
            .length = LENGTH,
            .width = width,
            .training = true,
            .dropout = {.probability = 0.3,
                        .seed = k,
                        .stream =
                            k % 2 ? ATTNI_DRAW_NORMALISATION : ATTNI_DRAW_ACTIVATION,
                        .uniform = k % 4 < 2 ? uniform : NULL,
                        .sample = LENGTH * (width + 1),
                        .row = width + 1}};
        dice_fill(&dice, x, n, 5);
        memcpy(before, x, n * sizeof *x);
        for (size_t i = 0; i < COUNT(uniform); i++) {
            uniform[i] = fabsf(dice_real(&dice));
        }
        ck_assert_uint_eq(attni_post_n_tasks(&post, &data), SAMPLES);
        attni_post_run(&post, &data, 1);
        attni_post_run(&post, &data, 0);
        for (size_t i = 0; i < n; i++) {
            if (i % width == 0) {
                attni_dropout_factors(&data.dropout, i / sample, 0, i / width % LENGTH, 0,
                                      width, factors);
            }
            ck_assert_float_eq(x[i], before[i] * factors[i % width]);
        }
    }
}
END_TEST

/* NaN and infinity spoil the feature that they are in, in the group that they are in. */
START_TEST(norms_not_finite)
{
    static struct step step;
    struct dice dice = {5};
    for (int k = 0; k < 2; k++) {
        set_up(&step, &dice, 2, 6, 17, 1);
        step.post.spec =
            (struct attn_post_spec){.kind = ATTN_POST_GROUP_NORM, .n_groups = 2};
        step.data.data[4 * 17 + 16] = k ? NAN : INFINITY; /* second group, last feature */
        run_step(&step);
        for (size_t i = 0; i < step.n; i++) {
            bool spoilt = i / (6 * 17) == 0 && i / 17 % 6 >= 3 && i % 17 == 16;
            ck_assert(isnan(step.data.data[i]) == spoilt);
        }
        set_up(&step, &dice, 2, 6, 17, 1);
        step.post.spec = (struct attn_post_spec){.kind = ATTN_POST_BATCH_NORM};
        step.data.data[5] = k ? NAN : INFINITY;
        run_step(&step);
        for (size_t i = 0; i < step.n; i++) {
            ck_assert(isfinite(step.data.data[i]) == (i != 5));
        }
    }
}
END_TEST

/* ---- activations --------------------------------------------------------------------------- */

static double activated(enum attn_post_kind kind, double x)
{
    return kind == ATTN_POST_RELU      ? (x < 0 ? 0 : x)
           : kind == ATTN_POST_SIGMOID ? 1 / (1 + exp(-x))
                                       : tanh(x);
}

/* exp and tanh in float are good to a few units in the last place of the result. */
START_TEST(activations)
{
    static const enum attn_post_kind kinds[] = {ATTN_POST_RELU, ATTN_POST_SIGMOID,
                                                ATTN_POST_TANH};
    static const float extremes[] = {0,        -0.0f,   INFINITY, -INFINITY, FLT_MAX,
                                     -FLT_MAX, 1e-45f,  -1e-45f,  88.8f,     -88.8f,
                                     -103.0f,  -104.0f, NAN};
    static struct step step;
    struct dice dice = {6};
    for (size_t k = 0; k < COUNT(kinds) * COUNT(widths) * COUNT(lengths); k++) {
        set_up(&step, &dice, 1 + k % MOST_SAMPLES, lengths[k / 3 % COUNT(lengths)],
               widths[k / 3 / COUNT(lengths)], 8);
        step.post.spec = (struct attn_post_spec){.kind = kinds[k % COUNT(kinds)]};
        for (size_t i = 0; i < step.n; i++) {
            if (i % 5 == 1) {
                step.data.data[i] = extremes[i / 5 % COUNT(extremes)];
            }
            step.expected[i] = activated(step.post.spec.kind, (double)step.data.data[i]);
        }
        run_step(&step);
        check_step(&step, k % 3 == 0 ? 0 : 5e-7);
    }
}
END_TEST

/* Differences of up to 2e6 round to 6e-8 of their size, but then their share is 0; for shares that
 * are not, the argument of exp is at most 104: 1e-5 of the share. */
START_TEST(softmax_axes)
{
    static const float sizes[] = {1, 50, 1e6f};
    static struct step step;
    struct dice dice = {7};
    for (size_t k = 0; k < 3 * COUNT(sizes) * COUNT(widths) * COUNT(lengths); k++) {
        set_up(&step, &dice, 1 + k % MOST_SAMPLES, lengths[k / 9 % COUNT(lengths)],
               widths[k / 9 / COUNT(lengths)], sizes[k / 3 % COUNT(sizes)]);
        step.post.spec =
            (struct attn_post_spec){.kind = ATTN_POST_SOFTMAX, .axis = (int)(k % 3)};
        if (k % 4 == 1) {
            step.data.data[step.n / 2] = -INFINITY;
            step.expected[step.n / 2] = -(double)INFINITY;
        } else if (k % 4 == 2) {
            step.data.data[step.n / 3] = NAN;
            step.expected[step.n / 3] = (double)NAN;
        }
        oracle_softmax_axis(step.expected, step.shape, (int)(k % 3));
        run_step(&step);
        check_step(&step, 1e-5);
    }
}
END_TEST

START_TEST(nothing_to_do)
{
    static const enum attn_post_kind kinds[] = {
        ATTN_POST_NONE, ATTN_POST_DROPOUT, ATTN_POST_GROUP_NORM, ATTN_POST_BATCH_NORM,
        ATTN_POST_RELU, ATTN_POST_SIGMOID, ATTN_POST_TANH,       ATTN_POST_SOFTMAX};
    float x[6] = {0};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct attni_post post = {.spec = {.kind = kinds[i], .n_groups = 1}};
        for (int axis = 0; axis < 3; axis++) {
            post.spec.axis = axis;
            struct attni_post_data data = {
                .data = x, .n_samples = 1, .length = 2, .width = 3};
            ck_assert((attni_post_n_tasks(&post, &data) == 0) == (i < 2));
            data.training = true;
            ck_assert((attni_post_n_tasks(&post, &data) == 0) == (i < 1));
            for (int k = 0; k < 6; k++) {
                data = (struct attni_post_data){.n_samples = k % 3 == 0 ? 0 : SIZE_MAX,
                                                .length = k % 3 == 1 ? 0 : SIZE_MAX,
                                                .width = k % 3 == 2 ? 0 : SIZE_MAX,
                                                .training = k < 3};
                ck_assert_uint_eq(attni_post_n_tasks(&post, &data), 0);
            }
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("post");
    TCase *tcase = tcase_create("post");
    tcase_set_timeout(tcase, 60); /* sanitizers are slow */
    tcase_add_test(tcase, group_norm);
    tcase_add_test(tcase, group_norm_of_neighbours);
    tcase_add_test(tcase, instance_norm);
    tcase_add_test(tcase, batch_norm);
    tcase_add_test(tcase, batch_norm_in_training);
    tcase_add_test(tcase, same_in_training);
    tcase_add_test(tcase, dropout);
    tcase_add_test(tcase, norms_not_finite);
    tcase_add_test(tcase, activations);
    tcase_add_test(tcase, softmax_axes);
    tcase_add_test(tcase, nothing_to_do);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
