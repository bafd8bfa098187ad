/* norm.c - normalisations by position, and by batch in training. Any thread; a task writes columns of
 * its own. */
#include "norm.h"

#include <math.h>

#define BLOCK ATTNI_POST_BLOCK

static double or_else(const float *parameter, size_t at, double otherwise)
{
    return parameter ? (double)parameter[at] : otherwise;
}

void attni_statistics_of(const struct attni_columns *columns, const float *x,
                         struct attni_statistics *statistics)
{
    size_t n = columns->n, stride = columns->stride, n_features = columns->n_features;
    double *mean = statistics->mean, *variance = statistics->variance;
    for (size_t d = 0; d < n_features; d++) {
        mean[d] = variance[d] = 0;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t d = 0; d < n_features; d++) {
            mean[d] += (double)x[i * stride + d];
        }
    }
    for (size_t d = 0; d < n_features; d++) {
        mean[d] /= (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t d = 0; d < n_features; d++) {
            double centred = (double)x[i * stride + d] - mean[d];
            variance[d] += centred * centred;
        }
    }
    for (size_t d = 0; d < n_features; d++) {
        variance[d] /= columns->divisor;
        statistics->factor[d] = 1 / sqrt(variance[d] + ATTNI_NORM_EPSILON);
    }
}

/* Normalise columns by their statistics; gamma and beta go on by parameter_stride. */
static void normalise(const struct attni_columns *columns,
                      const struct attni_statistics *statistics, const float *gamma,
                      const float *beta, size_t parameter_stride, float *x)
{
    for (size_t i = 0; i < columns->n; i++) {
        for (size_t d = 0; d < columns->n_features; d++) {
            size_t at = i * columns->stride + d, parameter = i * parameter_stride + d;
            double normal = ((double)x[at] - statistics->mean[d]) * statistics->factor[d];
            x[at] = (float)(normal * or_else(gamma, parameter, 1) +
                            or_else(beta, parameter, 0));
        }
    }
}

void attni_group_norm(const struct attni_post *post, const struct attni_post_data *data,
                      size_t sample)
{
    size_t whole = data->whole ? data->whole : data->length;
    size_t width = data->width, rows = whole / post->spec.n_groups;
    float *x = data->data + sample * data->length * width;
    struct attni_statistics statistics;
    for (size_t row = 0; row < data->length; row += rows) {
        for (size_t d = 0; d < width; d += BLOCK) {
            size_t at = row * width + d, parameter = data->first * width + at;
            const struct attni_columns columns = {
                rows, width, width - d < BLOCK ? width - d : BLOCK, (double)rows};
            attni_statistics_of(&columns, x + at, &statistics);
            normalise(&columns, &statistics, post->gamma ? post->gamma + parameter : NULL,
                      post->beta ? post->beta + parameter : NULL, width, x + at);
        }
    }
}

void attni_batch_norm(const struct attni_post *post, const struct attni_post_data *data,
                      size_t sample)
{
    size_t n = data->length * data->width;
    float *x = data->data + sample * n;
    for (size_t i = 0; i < n; i++) {
        size_t at = data->first * data->width + i;
        double mean = or_else(post->mean, at, 0),
               variance = or_else(post->variance, at, 1);
        double normal = ((double)x[i] - mean) / sqrt(variance + ATTNI_NORM_EPSILON);
        x[i] = (float)(normal * or_else(post->gamma, at, 1) + or_else(post->beta, at, 0));
    }
}

/* Leave the running statistics of features from `at` on, moved towards the batch's. */
static void move(const struct attni_post *post, const struct attni_post_data *data,
                 const struct attni_statistics *statistics, size_t at, size_t n_features)
{
    double patience = post->spec.patience, rest = 1 - patience;
    for (size_t d = 0; data->moved_mean && d < n_features; d++) {
        data->moved_mean[at + d] = (float)(patience * or_else(post->mean, at + d, 0) +
                                           rest * statistics->mean[d]);
    }
    for (size_t d = 0; data->moved_variance && d < n_features; d++) {
        data->moved_variance[at + d] =
            (float)(patience * or_else(post->variance, at + d, 1) +
                    rest * statistics->variance[d]);
    }
}

void attni_batch_norm_training(const struct attni_post *post,
                               const struct attni_post_data *data, size_t position)
{
    size_t width = data->width;
    struct attni_statistics statistics;
    for (size_t d = 0; d < width; d += BLOCK) {
        size_t at = position * width + d;
        const struct attni_columns columns = {data->n_samples, data->length * width,
                                              width - d < BLOCK ? width - d : BLOCK,
                                              (double)data->n_samples - 1};
        attni_statistics_of(&columns, data->data + at, &statistics);
        move(post, data, &statistics, at, columns.n_features);
        normalise(&columns, &statistics, post->gamma ? post->gamma + at : NULL,
                  post->beta ? post->beta + at : NULL, 0, data->data + at);
    }
}
