/* norm_back.c - the way back through normalisations. Any thread; a task writes columns of its own.
 *
 * Of a column x with mean m and variance v = sum (x - m)^2 / divisor, let f = 1 / sqrt(v + epsilon) and
 * y = f * (x - m). A gradient g with respect to y then gives, with respect to x,
 *
 *     f * (g - sum(g) / n - y * sum(g * y) / divisor)
 *
 * where the second term is what the mean, and the third what the variance has of it. */
#include "norm.h"

#include <math.h>
#include <string.h>

#define BLOCK ATTNI_POST_BLOCK

/* Samples whose statistics are kept at a time, so that sums over samples are gathered in double without
 * memory for them. */
#define SAMPLES 32

/* A column's statistics, and the two sums above after their division. */
struct column_sums {
    struct attni_statistics statistics;
    double gradient[BLOCK], product[BLOCK];
};

/* Features d of one row: what the gradients of gamma and beta are summed of. */
struct parameter_sums {
    double gamma[BLOCK], beta[BLOCK];
};

/* g, x and gamma: first elements of the columns; gamma, which may be NULL, goes on by parameter_stride. */
static void sum_columns(const struct attni_columns *columns, const float *x,
                        const float *g, const float *gamma, size_t parameter_stride,
                        struct column_sums *sums)
{
    attni_statistics_of(columns, x, &sums->statistics);
    for (size_t d = 0; d < columns->n_features; d++) {
        sums->gradient[d] = sums->product[d] = 0;
    }
    for (size_t i = 0; i < columns->n; i++) {
        for (size_t d = 0; d < columns->n_features; d++) {
            size_t at = i * columns->stride + d;
            double scale = gamma ? (double)gamma[i * parameter_stride + d] : 1;
            double normal =
                ((double)x[at] - sums->statistics.mean[d]) * sums->statistics.factor[d];
            sums->gradient[d] += scale * (double)g[at];
            sums->product[d] += scale * (double)g[at] * normal;
        }
    }
    for (size_t d = 0; d < columns->n_features; d++) {
        sums->gradient[d] /= (double)columns->n;
        sums->product[d] /= columns->divisor;
    }
}

/* One row of columns: turn its gradient, and add what it gives to the parameters. */
static void turn_row(const struct column_sums *sums, const float *x, const float *gamma,
                     size_t n_features, struct parameter_sums *parameters, float *g)
{
    for (size_t d = 0; d < n_features; d++) {
        double factor = sums->statistics.factor[d];
        double normal = ((double)x[d] - sums->statistics.mean[d]) * factor;
        parameters->gamma[d] += (double)g[d] * normal;
        parameters->beta[d] += (double)g[d];
        double scaled = (gamma ? (double)gamma[d] : 1) * (double)g[d];
        g[d] = (float)(factor * (scaled - sums->gradient[d] - normal * sums->product[d]));
    }
}

/* Add what samples gave to the parameters' gradients from `at` on. */
static void add_parameters(const struct attni_post_gradient *gradient,
                           const struct parameter_sums *sums, size_t at,
                           size_t n_features)
{
    double scale =
        gradient->mean && gradient->n_samples > 0 ? 1 / (double)gradient->n_samples : 1;
    for (size_t d = 0; gradient->gamma && d < n_features; d++) {
        float *gamma = &gradient->gamma[at + d];
        *gamma = (float)((double)*gamma + scale * sums->gamma[d]);
    }
    for (size_t d = 0; gradient->beta && d < n_features; d++) {
        float *beta = &gradient->beta[at + d];
        *beta = (float)((double)*beta + scale * sums->beta[d]);
    }
}

static void clear_parameters(const struct attni_post_gradient *gradient, size_t at,
                             size_t n_features)
{
    if (gradient->gamma) {
        memset(gradient->gamma + at, 0, n_features * sizeof(float));
    }
    if (gradient->beta) {
        memset(gradient->beta + at, 0, n_features * sizeof(float));
    }
}

/* ---- groups of positions ------------------------------------------------------------------- */

static size_t n_blocks(const struct attni_post_gradient *gradient)
{
    return gradient->width / BLOCK + (gradient->width % BLOCK != 0);
}

size_t attni_group_norm_back_n_tasks(const struct attni_post *post,
                                     const struct attni_post_gradient *gradient)
{
    return post->spec.n_groups * n_blocks(gradient);
}

/* Samples [first, first + n) of the columns that begin `at` floats into each. */
static void group_samples(const struct attni_post *post,
                          const struct attni_post_gradient *gradient,
                          const struct attni_columns *columns, size_t at, size_t first,
                          size_t n)
{
    struct column_sums sums[SAMPLES];
    size_t sample = gradient->length * gradient->width;
    const float *gamma = post->gamma ? post->gamma + at : NULL;
    const float *x = gradient->input + first * sample + at;
    float *g = gradient->gradient + first * sample + at;
    for (size_t s = 0; s < n; s++) {
        sum_columns(columns, x + s * sample, g + s * sample, gamma, columns->stride,
                    &sums[s]);
    }
    for (size_t i = 0; i < columns->n; i++) {
        size_t row = i * columns->stride;
        struct parameter_sums parameters = {{0}, {0}};
        for (size_t s = 0; s < n; s++) {
            turn_row(&sums[s], x + s * sample + row, gamma ? gamma + row : NULL,
                     columns->n_features, &parameters, g + s * sample + row);
        }
        add_parameters(gradient, &parameters, at + row, columns->n_features);
    }
}

void attni_group_norm_back(const struct attni_post *post,
                           const struct attni_post_gradient *gradient, size_t task)
{
    size_t width = gradient->width, rows = gradient->length / post->spec.n_groups;
    size_t group = task / n_blocks(gradient), d = task % n_blocks(gradient) * BLOCK;
    size_t at = group * rows * width + d;
    const struct attni_columns columns = {
        rows, width, width - d < BLOCK ? width - d : BLOCK, (double)rows};
    for (size_t i = 0; i < rows; i++) {
        clear_parameters(gradient, at + i * width, columns.n_features);
    }
    for (size_t s = 0; s < gradient->n_samples; s += SAMPLES) {
        size_t left = gradient->n_samples - s;
        group_samples(post, gradient, &columns, at, s, left < SAMPLES ? left : SAMPLES);
    }
}

/* ---- the batch ----------------------------------------------------------------------------- */

/* Running statistics are constants: nothing of the gradient goes through them. */
static void take_running(const struct attni_post *post, size_t at, size_t n_features,
                         struct column_sums *sums)
{
    for (size_t d = 0; d < n_features; d++) {
        double variance = post->variance ? (double)post->variance[at + d] : 1;
        sums->statistics.mean[d] = post->mean ? (double)post->mean[at + d] : 0;
        sums->statistics.variance[d] = variance;
        sums->statistics.factor[d] = 1 / sqrt(variance + ATTNI_NORM_EPSILON);
        sums->gradient[d] = sums->product[d] = 0;
    }
}

static void batch_block(const struct attni_post *post,
                        const struct attni_post_gradient *gradient,
                        const struct attni_columns *columns, size_t at)
{
    const float *x = gradient->input + at, *gamma = post->gamma ? post->gamma + at : NULL;
    float *g = gradient->gradient + at;
    struct column_sums sums;
    struct parameter_sums parameters = {{0}, {0}};
    if (gradient->training) {
        sum_columns(columns, x, g, gamma, 0, &sums);
    } else {
        take_running(post, at, columns->n_features, &sums);
    }
    for (size_t s = 0; s < columns->n; s++) {
        turn_row(&sums, x + s * columns->stride, gamma, columns->n_features, &parameters,
                 g + s * columns->stride);
    }
    add_parameters(gradient, &parameters, at, columns->n_features);
}

void attni_batch_norm_back(const struct attni_post *post,
                           const struct attni_post_gradient *gradient, size_t position)
{
    size_t width = gradient->width, n = gradient->n_samples;
    for (size_t d = 0; d < width; d += BLOCK) {
        size_t at = position * width + d;
        const struct attni_columns columns = {n, gradient->length * width,
                                              width - d < BLOCK ? width - d : BLOCK,
                                              (double)n - 1};
        clear_parameters(gradient, at, columns.n_features);
        if (n > 0) {
            batch_block(post, gradient, &columns, at);
        }
    }
}
