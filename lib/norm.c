/* norm.c - normalisations by position, of one sample at a time. Any thread.
 *
 * Statistics are summed in double: two neighbouring positions may differ by little, and what is
 * lost in their mean is magnified by the division. */
#include "post.h"

#include <math.h>

#define EPSILON 1e-6

/* Features whose statistics are gathered in one walk over the positions. */
#define BLOCK 16

/* Normalise `rows` positions of up to BLOCK features; x, gamma and beta are width floats a row. */
static void normalise_block(float *x, size_t rows, size_t width, size_t n,
                            const float *gamma, const float *beta)
{
    double mean[BLOCK] = {0}, variance[BLOCK] = {0};
    for (size_t i = 0; i < rows; i++) {
        for (size_t d = 0; d < n; d++) {
            mean[d] += (double)x[i * width + d];
        }
    }
    for (size_t d = 0; d < n; d++) {
        mean[d] /= (double)rows;
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t d = 0; d < n; d++) {
            double centred = (double)x[i * width + d] - mean[d];
            variance[d] += centred * centred;
        }
    }
    for (size_t d = 0; d < n; d++) {
        variance[d] = 1 / sqrt(variance[d] / (double)rows + EPSILON);
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t d = 0; d < n; d++) {
            size_t at = i * width + d;
            double normal = ((double)x[at] - mean[d]) * variance[d];
            x[at] = (float)(normal * (gamma ? (double)gamma[at] : 1) +
                            (beta ? (double)beta[at] : 0));
        }
    }
}

void attni_group_norm(const struct attni_post *post, const struct attni_post_data *data,
                      size_t sample)
{
    size_t width = data->width, rows = data->length / post->spec.n_groups;
    float *x = data->data + sample * data->length * width;
    for (size_t group = 0; group < post->spec.n_groups; group++) {
        size_t first = group * rows * width;
        for (size_t d = 0; d < width; d += BLOCK) {
            size_t n = width - d < BLOCK ? width - d : BLOCK;
            normalise_block(x + first + d, rows, width, n,
                            post->gamma ? post->gamma + first + d : NULL,
                            post->beta ? post->beta + first + d : NULL);
        }
    }
}

void attni_batch_norm(const struct attni_post *post, const struct attni_post_data *data,
                      size_t sample)
{
    size_t n = data->length * data->width;
    float *x = data->data + sample * n;
    for (size_t i = 0; i < n; i++) {
        double mean = post->mean ? (double)post->mean[i] : 0;
        double variance = post->variance ? (double)post->variance[i] : 1;
        double normal = ((double)x[i] - mean) / sqrt(variance + EPSILON);
        x[i] = (float)(normal * (post->gamma ? (double)post->gamma[i] : 1) +
                       (post->beta ? (double)post->beta[i] : 0));
    }
}
