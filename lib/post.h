/* post.h - what follows the joined heads: a normalisation, an activation. */
#ifndef ATTNI_POST_H
#define ATTNI_POST_H

#include "layer.h"

/* The tensor that is changed in place: [samples, length, width]. */
struct attni_post_data {
    float *data;
    size_t n_samples, length, width;
};

/* Independent tasks of this step (0: nothing to do), and one of them. Any thread. */
size_t attni_post_n_tasks(const struct attni_post *post,
                          const struct attni_post_data *data);
void attni_post_run(const struct attni_post *post, const struct attni_post_data *data,
                    size_t task);

/* The steps of norm.c and activation.c; sample is an index below n_samples. */
void attni_group_norm(const struct attni_post *post, const struct attni_post_data *data,
                      size_t sample);
void attni_batch_norm(const struct attni_post *post, const struct attni_post_data *data,
                      size_t sample);
void attni_activate(enum attn_post_kind kind, float *x, size_t n);
/* Softmax of n elements that are stride apart. */
void attni_softmax(float *x, size_t n, size_t stride);

#endif
