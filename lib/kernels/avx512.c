/* avx512.c - the kernels for AVX-512 (F, BW, DQ, VL). The loops are in vector.h. */
#include "kernels.h"

#if defined(__AVX512F__)

#define TABLE attni_kernels_avx512
#define TABLE_NAME "avx512"

#include "vector_avx512.h"

#include "vector.h"

#endif
