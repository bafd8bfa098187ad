/* test_post_back.c - the way back through normalisations and activations, against central differences of
 * their formulas in double precision: every kind, odd sizes, with and without parameters, means and sums. */
#include "post.h"
#include "unit/lib/weights_file.h"
#include "unit/support.h"

#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MOST 600
#define EPSILON 1e-6

/* ---- the formulas -------------------------------------------------------------------------- */

/* What a step computes, as doubles: gamma, beta and the running statistics are [length, width]. */
struct formula {
    struct attn_post_spec spec;
    bool training;
    size_t shape[3];
    double gamma[MOST], beta[MOST], mean[MOST], variance[MOST];
    double factors[MOST]; /* of a dropout */
};

/* Normalise n elements stride apart by their own mean, and variance of that divisor. */
static void normalise(double *x, size_t n, size_t stride, double divisor)
{
    double mean = 0, variance = 0;
    for (size_t i = 0; i < n; i++) {
        mean += x[i * stride] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        variance += pow(x[i * stride] - mean, 2) / divisor;
    }
    for (size_t i = 0; i < n; i++) {
        x[i * stride] = (x[i * stride] - mean) / sqrt(variance + EPSILON);
    }
}

static void softmax(double *x, size_t n, size_t stride)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += exp(x[i * stride]);
    }
    for (size_t i = 0; i < n; i++) {
        x[i * stride] = exp(x[i * stride]) / sum;
    }
}

/* Whether the column through element i, n elements stride apart, begins there. */
static bool begins(size_t i, size_t n, size_t stride)
{
    return i / stride % n == 0;
}

/* Columns of the tensor that are taken together: groups of positions, the batch, an axis. */
static void by_columns(const struct formula *f, double *x, size_t n, size_t stride)
{
    for (size_t i = 0; i < f->shape[0] * f->shape[1] * f->shape[2]; i++) {
        if (!begins(i, n, stride)) {
            continue;
        }
        if (f->spec.kind == ATTN_POST_SOFTMAX) {
            softmax(x + i, n, stride);
        } else {
            normalise(x + i, n, stride,
                      f->spec.kind == ATTN_POST_BATCH_NORM ? (double)n - 1 : (double)n);
        }
    }
}

static double element(const struct formula *f, double x, size_t i)
{
    size_t at = i % (f->shape[1] * f->shape[2]);
    switch (f->spec.kind) {
    case ATTN_POST_DROPOUT:
        return f->training ? x * f->factors[i] : x;
    case ATTN_POST_GROUP_NORM:
        return x * f->gamma[at] + f->beta[at];
    case ATTN_POST_BATCH_NORM:
        x = f->training ? x : (x - f->mean[at]) / sqrt(f->variance[at] + EPSILON);
        return x * f->gamma[at] + f->beta[at];
    case ATTN_POST_RELU:
        return x > 0 ? x : 0;
    case ATTN_POST_SIGMOID:
        return 1 / (1 + exp(-x));
    case ATTN_POST_TANH:
        return tanh(x);
    case ATTN_POST_NONE:
    case ATTN_POST_SOFTMAX:
        break;
    }
    return x;
}

/* sum of cotangent * y, where y is what the step makes of x */
static double value(const struct formula *f, const double *x, const double *cotangent)
{
    static double y[MOST];
    size_t n = f->shape[0] * f->shape[1] * f->shape[2];
    size_t strides[3] = {f->shape[1] * f->shape[2], f->shape[2], 1};
    memcpy(y, x, n * sizeof *y);
    if (f->spec.kind == ATTN_POST_GROUP_NORM) {
        by_columns(f, y, f->shape[1] / f->spec.n_groups, f->shape[2]);
    } else if (f->spec.kind == ATTN_POST_BATCH_NORM && f->training) {
        by_columns(f, y, f->shape[0], strides[0]);
    } else if (f->spec.kind == ATTN_POST_SOFTMAX) {
        by_columns(f, y, f->shape[f->spec.axis], strides[f->spec.axis]);
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += cotangent[i] * element(f, y[i], i);
    }
    return sum;
}

/* The central difference of value by one of the doubles that it reads. */
static double difference(const struct formula *f, const double *x,
                         const double *cotangent, double *by)
{
    const double step = 1e-6;
    double middle = *by;
    *by = middle + step;
    double after = value(f, x, cotangent);
    *by = middle - step;
    double before = value(f, x, cotangent);
    *by = middle;
    return (after - before) / (2 * step);
}

/* ---- one case ------------------------------------------------------------------------------ */

struct back {
    struct formula formula;
    struct attni_post post;
    struct attni_post_gradient gradient;
    size_t n, sample; /* floats of all, of a sample */
    double x[MOST], cotangent[MOST];
    float input[MOST + 1], output[MOST + 1], turned[MOST + 1]; /* at odd addresses */
    float gamma[MOST], beta[MOST], mean[MOST], variance[MOST];
    float grad_gamma[MOST + 1], grad_beta[MOST + 1];
};

/* Numbers from -size to size that are not next to 0, where ReLU bends. */
static float away_from_zero(struct dice *dice, float size)
{
    float x = size * dice_real(dice);
    return fabsf(x) < 0.01f ? 0.3f : x;
}

static void fill(struct back *back, struct dice *dice, float size)
{
    for (size_t i = 0; i < back->n; i++) {
        back->input[i + 1] = back->output[i + 1] = away_from_zero(dice, size);
        back->x[i] = (double)back->input[i + 1];
        back->turned[i + 1] = dice_real(dice);
        back->cotangent[i] = (double)back->turned[i + 1];
    }
    bool with[4];
    for (size_t k = 0; k < COUNT(with); k++) {
        with[k] = dice_below(dice, 4) > 0;
    }
    struct formula *f = &back->formula;
    for (size_t i = 0; i < back->sample; i++) {
        back->gamma[i] = 2 * dice_real(dice);
        back->beta[i] = dice_real(dice);
        back->mean[i] = size * dice_real(dice);
        back->variance[i] = 1.2f + dice_real(dice);
        f->gamma[i] = with[0] ? (double)back->gamma[i] : 1;
        f->beta[i] = with[1] ? (double)back->beta[i] : 0;
        f->mean[i] = with[2] ? (double)back->mean[i] : 0;
        f->variance[i] = with[3] ? (double)back->variance[i] : 1;
        back->grad_gamma[i] = back->grad_beta[i] = NAN; /* to be overwritten */
    }
    back->grad_gamma[back->sample] = back->grad_beta[back->sample] = 7; /* not to be */
    back->post = (struct attni_post){.spec = f->spec,
                                     .gamma = with[0] ? back->gamma : NULL,
                                     .beta = with[1] ? back->beta : NULL,
                                     .mean = with[2] ? back->mean : NULL,
                                     .variance = with[3] ? back->variance : NULL};
}

static bool is_norm(enum attn_post_kind kind)
{
    return kind == ATTN_POST_GROUP_NORM || kind == ATTN_POST_BATCH_NORM;
}

static void set_up(struct back *back, struct dice *dice,
                   const struct attn_post_spec *spec, const size_t shape[3],
                   bool training)
{
    memset(back, 0, sizeof *back);
    memcpy(back->formula.shape, shape, sizeof back->formula.shape);
    back->formula.spec = *spec;
    back->formula.training = training;
    back->sample = shape[1] * shape[2];
    back->n = shape[0] * back->sample;
    fill(back, dice, 3);
    bool norm = is_norm(spec->kind);
    back->gradient = (struct attni_post_gradient){
        .input = norm ? back->input + 1 : NULL,
        .output = norm || spec->kind == ATTN_POST_DROPOUT ? NULL : back->output + 1,
        .gradient = back->turned + 1,
        .gamma = back->grad_gamma,
        .beta = back->grad_beta,
        .mean = dice_bool(dice),
        .n_samples = shape[0],
        .length = shape[1],
        .width = shape[2],
        .training = training,
        .dropout = {.probability = 0.4, .seed = dice_next(dice)}};
}

/* The forward that leaves the output, by the same draws. */
static void run_forward(struct back *back)
{
    const struct attni_post_gradient *g = &back->gradient;
    const struct attni_post_data data = {.data = back->output + 1,
                                         .n_samples = g->n_samples,
                                         .length = g->length,
                                         .width = g->width,
                                         .training = g->training,
                                         .dropout = g->dropout};
    for (size_t i = 0; i < attni_post_n_tasks(&back->post, &data); i++) {
        attni_post_run(&back->post, &data, i);
    }
}

static void run_back(const struct back *back)
{
    for (size_t i = attni_post_back_n_tasks(&back->post, &back->gradient); i-- > 0;) {
        attni_post_back_run(&back->post, &back->gradient, i);
    }
}

static void check_near(const struct back *back, const char *what, size_t at, double got,
                       double expected, double tolerance)
{
    const size_t *shape = back->formula.shape;
    ck_assert_msg(fabs(got - expected) <= tolerance * (1 + fabs(expected)),
                  "kind %d, [%zu, %zu, %zu], %s at %zu: expected %.9g, got %.9g",
                  (int)back->post.spec.kind, shape[0], shape[1], shape[2], what, at,
                  expected, got);
}

/* Beside a float's rounding of input and result there is what a difference is off by: rounding of some
 * 1e-14 over its step of 2e-6, and where a small deviation is divided by (two neighbours may be as near as
 * 0.01), the square of the step over it. Neither comes near the tolerance, nor does any wrong formula. */
static void check(struct back *back)
{
    const double tolerance = 1e-6;
    struct formula *f = &back->formula;
    for (size_t i = 0; i < back->n; i++) {
        check_near(back, "input", i, (double)back->turned[i + 1],
                   difference(f, back->x, back->cotangent, &back->x[i]), tolerance);
    }
    double n = back->gradient.mean ? (double)back->gradient.n_samples : 1;
    for (size_t i = 0; is_norm(f->spec.kind) && i < back->sample; i++) {
        if (back->gradient.gamma) {
            check_near(back, "gamma", i, (double)back->grad_gamma[i],
                       difference(f, back->x, back->cotangent, &f->gamma[i]) / n,
                       tolerance);
        }
        if (back->gradient.beta) {
            check_near(back, "beta", i, (double)back->grad_beta[i],
                       difference(f, back->x, back->cotangent, &f->beta[i]) / n,
                       tolerance);
        }
    }
    bool kept = is_norm(f->spec.kind);
    for (size_t i = 0; i < back->sample; i++) { /* what was not wanted was not written */
        ck_assert((kept && back->gradient.gamma) != isnan(back->grad_gamma[i]));
        ck_assert((kept && back->gradient.beta) != isnan(back->grad_beta[i]));
    }
    ck_assert_float_eq(back->grad_gamma[back->sample], 7);
    ck_assert_float_eq(back->grad_beta[back->sample], 7);
}

/* ---- tests --------------------------------------------------------------------------------- */

static struct back back;

/* Widths around the block that is walked at once. */
static const size_t shapes[][3] = {{1, 1, 1},  {2, 1, 5},   {3, 4, 1},
                                   {2, 6, 15}, {1, 12, 17}, {3, 6, 9},
                                   {4, 2, 16}, {2, 2, 33},  {5, 3, 3}};

static void check_kind(struct attn_post_spec spec, bool training, uint64_t seed)
{
    struct dice dice = {seed};
    for (size_t k = 0; k < COUNT(shapes); k++) {
        set_up(&back, &dice, &spec, shapes[k], training);
        run_forward(&back);
        run_back(&back);
        check(&back);
    }
}

START_TEST(activations)
{
    static const enum attn_post_kind kinds[] = {ATTN_POST_NONE, ATTN_POST_RELU,
                                                ATTN_POST_SIGMOID, ATTN_POST_TANH};
    for (size_t k = 0; k < COUNT(kinds); k++) {
        check_kind((struct attn_post_spec){.kind = kinds[k]}, k % 2, 1 + k);
    }
}
END_TEST

START_TEST(softmax_axes)
{
    for (int axis = 0; axis < 3; axis++) {
        check_kind((struct attn_post_spec){.kind = ATTN_POST_SOFTMAX, .axis = axis},
                   axis % 2, 10 + (uint64_t)axis);
    }
}
END_TEST

/* The slope of ReLU is 0 at 0 and at NaN. */
START_TEST(relu_at_zero)
{
    const struct attni_post post = {.spec = {.kind = ATTN_POST_RELU}};
    const float output[] = {0, -0.0f, NAN, 1e-45f, INFINITY};
    float turned[] = {5, 5, 5, 5, 5};
    const struct attni_post_gradient gradient = {
        .output = output, .gradient = turned, .n_samples = 1, .length = 5, .width = 1};
    attni_post_back_run(&post, &gradient, 0);
    for (size_t i = 0; i < 5; i++) {
        ck_assert_float_eq(turned[i], i < 3 ? 0 : 5);
    }
}
END_TEST

/* Groups of one position and of all, and what divides between them; more samples than are kept at a
 * time. */
START_TEST(group_norm)
{
    static const size_t many[][3] = {
        {31, 2, 3}, {32, 3, 2}, {33, 2, 2}, {65, 3, 1}, {97, 2, 3}};
    struct dice dice = {20};
    for (size_t k = 0; k < COUNT(shapes) + COUNT(many); k++) {
        const size_t *shape = k < COUNT(shapes) ? shapes[k] : many[k - COUNT(shapes)];
        for (size_t n_groups = 1; n_groups <= shape[1]; n_groups++) {
            if (shape[1] % n_groups) {
                continue;
            }
            const struct attn_post_spec spec = {.kind = ATTN_POST_GROUP_NORM,
                                                .n_groups = n_groups};
            set_up(&back, &dice, &spec, shape, k % 2);
            back.gradient.gamma = k % 4 == 1 ? NULL : back.gradient.gamma;
            back.gradient.beta = k % 4 == 2 ? NULL : back.gradient.beta;
            run_back(&back);
            check(&back);
        }
    }
}
END_TEST

/* Nothing passes an InstanceNorm: its output does not depend on its input. */
START_TEST(instance_norm)
{
    struct dice dice = {21};
    const size_t shape[3] = {3, 12, 16};
    const struct attn_post_spec spec = {.kind = ATTN_POST_GROUP_NORM, .n_groups = 12};
    set_up(&back, &dice, &spec, shape, true);
    run_back(&back);
    for (size_t i = 0; i < back.n; i++) {
        ck_assert_float_eq(back.turned[i + 1], 0);
    }
    for (size_t i = 0; i < back.sample; i++) {
        ck_assert_float_eq(back.grad_gamma[i], 0);
    }
}
END_TEST

START_TEST(batch_norm)
{
    static const size_t batches[][3] = {{2, 1, 1},  {2, 3, 17}, {3, 2, 16}, {5, 4, 5},
                                        {7, 1, 33}, {40, 2, 3}, {9, 2, 15}};
    struct dice dice = {22};
    for (size_t k = 0; k < 2 * COUNT(batches); k++) {
        const struct attn_post_spec spec = {.kind = ATTN_POST_BATCH_NORM,
                                            .patience = 0.9};
        set_up(&back, &dice, &spec, batches[k / 2], k % 2);
        back.gradient.gamma = k % 5 == 1 ? NULL : back.gradient.gamma;
        back.gradient.beta = k % 5 == 2 ? NULL : back.gradient.beta;
        run_back(&back);
        check(&back);
    }
}
END_TEST

/* What the forward dropped is dropped again, for draws that are made and for given ones. */
START_TEST(dropout)
{
    static float uniform[MOST], ones[MOST], factors[MOST];
    struct dice dice = {23};
    for (size_t k = 0; k < 4 * COUNT(shapes); k++) {
        const struct attn_post_spec spec = {.kind = ATTN_POST_DROPOUT};
        set_up(&back, &dice, &spec, shapes[k / 4], k % 4 > 0);
        back.gradient.dropout.uniform = k % 2 ? uniform : NULL;
        back.gradient.dropout.sample = back.sample;
        back.gradient.dropout.row = back.gradient.width;
        for (size_t i = 0; i < back.n; i++) {
            uniform[i] = fabsf(dice_real(&dice));
            ones[i] = 1;
        }
        struct attni_post_data data = {.data = ones,
                                       .n_samples = back.gradient.n_samples,
                                       .length = back.gradient.length,
                                       .width = back.gradient.width,
                                       .training = k % 4 > 0,
                                       .dropout = back.gradient.dropout};
        for (size_t i = 0; i < attni_post_n_tasks(&back.post, &data); i++) {
            attni_post_run(&back.post, &data, i);
        }
        memcpy(factors, ones, sizeof factors);
        for (size_t i = 0; i < back.n; i++) {
            back.formula.factors[i] = (double)factors[i];
        }
        run_back(&back);
        check(&back);
    }
}
END_TEST

/* Parameters' gradients are zeros without samples; nothing else has tasks then. */
START_TEST(nothing_to_do)
{
    static const enum attn_post_kind kinds[] = {
        ATTN_POST_NONE, ATTN_POST_DROPOUT, ATTN_POST_GROUP_NORM, ATTN_POST_BATCH_NORM,
        ATTN_POST_RELU, ATTN_POST_SIGMOID, ATTN_POST_TANH,       ATTN_POST_SOFTMAX};
    for (size_t k = 0; k < 4 * COUNT(kinds); k++) {
        float gamma[6 * 17], beta[6 * 17];
        memset(gamma, 0xff, sizeof gamma);
        memset(beta, 0xff, sizeof beta);
        const struct attni_post post = {.spec = {.kind = kinds[k / 4], .n_groups = 2}};
        struct attni_post_gradient gradient = {.gamma = gamma,
                                               .beta = beta,
                                               .mean = k % 2,
                                               .length = 6,
                                               .width = 17,
                                               .training = k / 2 % 2};
        for (size_t i = attni_post_back_n_tasks(&post, &gradient); i-- > 0;) {
            attni_post_back_run(&post, &gradient, i);
        }
        for (size_t i = 0; i < COUNT(gamma); i++) {
            ck_assert(is_norm(kinds[k / 4]) ? gamma[i] == 0 : isnan(gamma[i]));
            ck_assert(is_norm(kinds[k / 4]) ? beta[i] == 0 : isnan(beta[i]));
        }
        gradient.gamma = gradient.beta = NULL;
        ck_assert_uint_eq(attni_post_back_n_tasks(&post, &gradient), 0);
        for (int i = 0; i < 2; i++) {
            gradient = (struct attni_post_gradient){.gamma = gamma,
                                                    .beta = beta,
                                                    .n_samples = SIZE_MAX,
                                                    .length = i ? 0 : SIZE_MAX,
                                                    .width = i ? SIZE_MAX : 0,
                                                    .training = k / 2 % 2};
            ck_assert_uint_eq(attni_post_back_n_tasks(&post, &gradient), 0);
        }
    }
}
END_TEST

/* NaN in one sample spoils its own columns, and the parameters of their rows. */
START_TEST(not_finite)
{
    struct dice dice = {24};
    const size_t shape[3] = {2, 6, 17};
    const struct attn_post_spec spec = {.kind = ATTN_POST_GROUP_NORM, .n_groups = 2};
    set_up(&back, &dice, &spec, shape, false);
    back.input[1 + 4 * 17 + 16] =
        NAN; /* second group, last feature of the first sample */
    run_back(&back);
    for (size_t i = 0; i < back.n; i++) {
        bool spoilt = i % 17 == 16 && i / 17 >= 3 && i / 17 < 6;
        ck_assert(isnan(back.turned[1 + i]) == spoilt);
    }
    for (size_t i = 0; i < back.sample; i++) {
        ck_assert(isnan(back.grad_gamma[i]) == (i % 17 == 16 && i / 17 >= 3));
        ck_assert(isfinite(back.grad_beta[i]));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("post_back");
    TCase *tcase = tcase_create("post_back");
    tcase_set_timeout(tcase, 120); /* sanitizers are slow */
    tcase_add_test(tcase, activations);
    tcase_add_test(tcase, softmax_axes);
    tcase_add_test(tcase, relu_at_zero);
    tcase_add_test(tcase, group_norm);
    tcase_add_test(tcase, instance_norm);
    tcase_add_test(tcase, batch_norm);
    tcase_add_test(tcase, dropout);
    tcase_add_test(tcase, nothing_to_do);
    tcase_add_test(tcase, not_finite);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
