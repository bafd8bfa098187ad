/* avx512_bf16.c - the kernels for AVX-512 with products of bf16. The loops are in vector.h. */
#include "kernels.h"

#if defined(__AVX512BF16__)

#define TABLE attni_kernels_avx512_bf16
#define TABLE_NAME "avx512_bf16"
#define HAS_DOT_PAIRS

#include "vector_avx512.h"

/* sum + the products of two bf16 each, which share a lane. */
static inline vf v_dot_pairs(vf a, vf b, vf sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

#include "vector.h"

#endif
