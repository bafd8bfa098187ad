/* post.c - cut a normalisation or activation into tasks. Any thread; a task writes elements of its own. */
#include "post.h"

/* What runs across the samples has positions for tasks, all others have samples. */
static bool crosses_samples(const struct attni_post *post,
                            const struct attni_post_data *data)
{
    return (post->spec.kind == ATTN_POST_SOFTMAX && post->spec.axis == 0) ||
           (post->spec.kind == ATTN_POST_BATCH_NORM && data->training);
}

size_t attni_post_n_tasks(const struct attni_post *post,
                          const struct attni_post_data *data)
{
    bool nothing = post->spec.kind == ATTN_POST_NONE ||
                   (post->spec.kind == ATTN_POST_DROPOUT && !data->training) ||
                   data->n_samples == 0 || data->length == 0 || data->width == 0;
    return nothing ? 0 : crosses_samples(post, data) ? data->length : data->n_samples;
}

void attni_drop(const struct attni_dropout *dropout, size_t sample, size_t length,
                size_t width, float *x)
{
    for (size_t i = 0; i < length; i++) {
        attni_dropout_apply(dropout, sample, 0, i, 0, width, x + i * width);
    }
}

static void softmax_task(const struct attni_post *post,
                         const struct attni_post_data *data, size_t task)
{
    size_t sample = data->length * data->width;
    switch (post->spec.axis) {
    case 0:
        for (size_t d = 0; d < data->width; d++) {
            attni_softmax(data->data + task * data->width + d, data->n_samples, sample);
        }
        break;
    case 1:
        for (size_t d = 0; d < data->width; d++) {
            attni_softmax(data->data + task * sample + d, data->length, data->width);
        }
        break;
    default:
        for (size_t i = 0; i < data->length; i++) {
            attni_softmax(data->data + task * sample + i * data->width, data->width, 1);
        }
        break;
    }
}

void attni_post_run(const struct attni_post *post, const struct attni_post_data *data,
                    size_t task)
{
    size_t sample = data->length * data->width;
    switch (post->spec.kind) {
    case ATTN_POST_NONE:
        break;
    case ATTN_POST_DROPOUT:
        attni_drop(&data->dropout, task, data->length, data->width,
                   data->data + task * sample);
        break;
    case ATTN_POST_GROUP_NORM:
        attni_group_norm(post, data, task);
        break;
    case ATTN_POST_BATCH_NORM:
        if (data->training) {
            attni_batch_norm_training(post, data, task);
        } else {
            attni_batch_norm(post, data, task);
        }
        break;
    case ATTN_POST_RELU:
    case ATTN_POST_SIGMOID:
    case ATTN_POST_TANH:
        attni_activate(post->spec.kind, data->data + task * sample, sample);
        break;
    case ATTN_POST_SOFTMAX:
        softmax_task(post, data, task);
        break;
    }
}
