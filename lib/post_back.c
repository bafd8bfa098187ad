/* post_back.c - cut the way back through a normalisation or activation into tasks. Any thread; a task
 * writes elements of its own. */
#include "post.h"

size_t attni_post_back_n_tasks(const struct attni_post *post,
                               const struct attni_post_gradient *gradient)
{
    bool nothing = gradient->n_samples == 0 && !gradient->gamma && !gradient->beta;
    if (nothing || gradient->length == 0 || gradient->width == 0) {
        return 0;
    }
    switch (post->spec.kind) {
    case ATTN_POST_NONE:
        return 0;
    case ATTN_POST_DROPOUT:
        return gradient->training ? gradient->n_samples : 0;
    case ATTN_POST_GROUP_NORM:
        return attni_group_norm_back_n_tasks(post, gradient);
    case ATTN_POST_BATCH_NORM:
        return gradient->length;
    case ATTN_POST_RELU:
    case ATTN_POST_SIGMOID:
    case ATTN_POST_TANH:
        return gradient->n_samples;
    case ATTN_POST_SOFTMAX:
        return gradient->n_samples == 0 ? 0
               : post->spec.axis == 0   ? gradient->length
                                        : gradient->n_samples;
    }
    return 0;
}

/* Softmaxes of n elements that are stride apart, of every feature. */
static void softmax_columns(const float *output, float *gradient, size_t n, size_t stride,
                            size_t width)
{
    for (size_t d = 0; d < width; d += ATTNI_POST_BLOCK) {
        size_t left = width - d;
        attni_softmax_back(output + d, gradient + d, n, stride,
                           left < ATTNI_POST_BLOCK ? left : ATTNI_POST_BLOCK);
    }
}

static void softmax_task(const struct attni_post *post,
                         const struct attni_post_gradient *gradient, size_t task)
{
    size_t width = gradient->width, length = gradient->length, sample = length * width;
    size_t first = post->spec.axis == 0 ? task * width : task * sample;
    const float *output = gradient->output + first;
    float *g = gradient->gradient + first;
    switch (post->spec.axis) {
    case 0:
        softmax_columns(output, g, gradient->n_samples, sample, width);
        break;
    case 1:
        softmax_columns(output, g, length, width, width);
        break;
    default:
        for (size_t i = 0; i < length; i++) {
            attni_softmax_back(output + i * width, g + i * width, width, 1, 1);
        }
        break;
    }
}

void attni_post_back_run(const struct attni_post *post,
                         const struct attni_post_gradient *gradient, size_t task)
{
    size_t sample = gradient->length * gradient->width;
    switch (post->spec.kind) {
    case ATTN_POST_NONE:
        break;
    case ATTN_POST_DROPOUT:
        attni_drop(&gradient->dropout, task, gradient->length, gradient->width,
                   gradient->gradient + task * sample);
        break;
    case ATTN_POST_GROUP_NORM:
        attni_group_norm_back(post, gradient, task);
        break;
    case ATTN_POST_BATCH_NORM:
        attni_batch_norm_back(post, gradient, task);
        break;
    case ATTN_POST_RELU:
    case ATTN_POST_SIGMOID:
    case ATTN_POST_TANH:
        attni_activate_back(post->spec.kind, gradient->output + task * sample,
                            gradient->gradient + task * sample, sample);
        break;
    case ATTN_POST_SOFTMAX:
        softmax_task(post, gradient, task);
        break;
    }
}
