/* post.c - cut a normalisation or activation into tasks. Any thread; a task writes rows of its own. */
#include "post.h"

/* A softmax over the samples runs across them: its tasks are positions, all others' are samples. */
static bool crosses_samples(const struct attni_post *post)
{
    return post->spec.kind == ATTN_POST_SOFTMAX && post->spec.axis == 0;
}

size_t attni_post_n_tasks(const struct attni_post *post,
                          const struct attni_post_data *data)
{
    bool nothing = post->spec.kind == ATTN_POST_NONE ||
                   post->spec.kind == ATTN_POST_DROPOUT || data->n_samples == 0 ||
                   data->length == 0 || data->width == 0;
    return nothing ? 0 : crosses_samples(post) ? data->length : data->n_samples;
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
    case ATTN_POST_DROPOUT:
        break;
    case ATTN_POST_GROUP_NORM:
        attni_group_norm(post, data, task);
        break;
    case ATTN_POST_BATCH_NORM:
        attni_batch_norm(post, data, task);
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
