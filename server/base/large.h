/* large.h - memory that is touched once from end to end, as a body or a tensor is. */
#ifndef AD_BASE_LARGE_H
#define AD_BASE_LARGE_H

#include <stddef.h>

/* At least n_bytes, aligned to 64, to be released with free; NULL: out of memory. From AD_LARGE_FROM on
 * they lie in large pages where the system has them: a fresh page costs about as much whatever its size.
 * What is smaller comes from memory that was in use before. */
#define AD_LARGE ((size_t)2 << 20)
#define AD_LARGE_FROM (2 * AD_LARGE)
void *ad_large_alloc(size_t n_bytes);

/* Give AD_LARGE bytes, which begin at a multiple of it in such memory, back to the system before the rest
 * is freed; what they held is gone. */
void ad_large_drop(void *memory);

#endif
