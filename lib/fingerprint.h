/* fingerprint.h - what a layer computes, as a short text. */
#ifndef ATTNI_FINGERPRINT_H
#define ATTNI_FINGERPRINT_H

#include "spec.h"

#define ATTNI_FINGERPRINT_SIZE 33 /* 32 digits and a NUL */

/* The fingerprint of a spec and its n parameters; tensors[i] NULL: that one is absent. */
void attni_fingerprint(const struct attn_spec *spec,
                       const struct attni_parameter *parameters,
                       const struct attn_tensor *const *tensors, size_t n,
                       char text[ATTNI_FINGERPRINT_SIZE]);

#endif
