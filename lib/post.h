/* post.h - what follows the joined heads: a normalisation, an activation; forward and backward. */
#ifndef ATTNI_POST_H
#define ATTNI_POST_H

#include "dropout.h"
#include "layer.h"

/* Features that are walked side by side where sums run across rows. */
#define ATTNI_POST_BLOCK 16

/* The tensor that is changed in place: [samples, length, width]. */
struct attni_post_data {
    float *data;
    size_t n_samples, length, width;
    size_t first;  /* of the layer's positions, these are those from here on */
    size_t whole;  /* how many it has; 0: these */
    bool training; /* a BatchNorm then needs two samples or more */
    struct attni_dropout dropout; /* what a Dropout drops by in training */
    /* [length, width]: a BatchNorm's statistics moved by the batch in training; NULL: not wanted */
    float *moved_mean, *moved_variance;
};

/* Independent tasks of this step (0: nothing to do), and one of them. Any thread. */
size_t attni_post_n_tasks(const struct attni_post *post,
                          const struct attni_post_data *data);
void attni_post_run(const struct attni_post *post, const struct attni_post_data *data,
                    size_t task);

/* The step backward. Of the forward, only normalisations read `input` and only activations (ReLU,
 * Sigmoid, Tanh, SoftMax) read `output`: what is not read may be NULL. */
struct attni_post_gradient {
    const float *input, *output; /* [samples, length, width] */
    float *
        gradient; /* with respect to the output; becomes that with respect to the input */
    /* Gradients of a normalisation's parameters, [length, width], written whole: zeros for no samples.
     * NULL: not wanted; other kinds leave them alone. */
    float *gamma, *beta;
    bool mean; /* those are means over the samples, else sums */
    size_t n_samples, length, width;
    bool training;                /* as in the forward */
    struct attni_dropout dropout; /* as in the forward */
};

/* Independent tasks of the step backward (0: gradient stays as it is and there are no parameters), and
 * one of them. Results do not depend on the order of tasks. Any thread. */
size_t attni_post_back_n_tasks(const struct attni_post *post,
                               const struct attni_post_gradient *gradient);
void attni_post_back_run(const struct attni_post *post,
                         const struct attni_post_gradient *gradient, size_t task);

/* The steps of norm.c; sample and position are indices below n_samples and length. */
void attni_group_norm(const struct attni_post *post, const struct attni_post_data *data,
                      size_t sample);
void attni_batch_norm(const struct attni_post *post, const struct attni_post_data *data,
                      size_t sample);
void attni_batch_norm_training(const struct attni_post *post,
                               const struct attni_post_data *data, size_t position);

/* The steps of norm_back.c, for all samples at once: of a group, a block of features; of a position, all
 * features. */
size_t attni_group_norm_back_n_tasks(const struct attni_post *post,
                                     const struct attni_post_gradient *gradient);
void attni_group_norm_back(const struct attni_post *post,
                           const struct attni_post_gradient *gradient, size_t task);
void attni_batch_norm_back(const struct attni_post *post,
                           const struct attni_post_gradient *gradient, size_t position);

/* Multiply every element of a sample by its factor. */
void attni_drop(const struct attni_dropout *dropout, size_t sample, size_t length,
                size_t width, float *x);

/* The steps of activation.c. */
void attni_activate(enum attn_post_kind kind, float *x, size_t n);
void attni_activate_back(enum attn_post_kind kind, const float *output, float *gradient,
                         size_t n);
/* Softmax of n elements that are stride apart. */
void attni_softmax(float *x, size_t n, size_t stride);
/* The way back through softmaxes side by side, of n_features columns: at most ATTNI_POST_BLOCK. */
void attni_softmax_back(const float *output, float *gradient, size_t n, size_t stride,
                        size_t n_features);

#endif
