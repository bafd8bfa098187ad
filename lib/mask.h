/* mask.h - which keys a query may not see. */
#ifndef ATTNI_MASK_H
#define ATTNI_MASK_H

#include "attention.h"

enum attni_axis { ATTNI_BATCH, ATTNI_HEADS, ATTNI_QUERIES, ATTNI_KEYS, ATTNI_N_AXES };

/* A boolean mask as the core walks it; data NULL: everything is visible. */
struct attni_mask {
    const unsigned char *data;
    size_t strides[ATTNI_N_AXES]; /* 0 where one element serves the whole axis */
    bool true_keeps;
};

/* Fit a mask to the scores' sizes, or refuse it with the forms that would fit. */
enum attn_status attni_mask_fit(const struct attn_mask_spec *spec,
                                const struct attn_tensor *tensor,
                                const size_t sizes[ATTNI_N_AXES], struct attni_mask *mask,
                                struct attn_error *error) ATTN_MUST_CHECK;

/* Set scores[j] = -inf for each blocked key j < n; at: the mask's first element for this row;
 * key_stride: 1, or 0 where that one serves all keys. */
void attni_mask_apply(const struct attni_mask *mask, const unsigned char *at,
                      size_t key_stride, float *scores, size_t n);

#endif
