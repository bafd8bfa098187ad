/* avx2.c - the kernels for AVX2 with FMA. The loops are in vector.h. */
#include "kernels.h"

#if defined(__AVX2__)

#include <immintrin.h>

#define LANES 8
#define TILE_ROWS 6
#define TILE_VECTORS 2
#define TABLE attni_kernels_avx2
#define TABLE_NAME "avx2"

typedef __m256 vf;
typedef int vi __attribute__((vector_size(32)));
typedef uint64_t vw __attribute__((vector_size(32)));

static inline vf v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void v_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}

/* All bits of the first n elements. */
static inline __m256i first(size_t n)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), index);
}

/* The first n < LANES elements; the others are zero. */
static inline vf v_load_part(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, first(n));
}

static inline void v_store_part(float *p, vf v, size_t n)
{
    _mm256_maskstore_ps(p, first(n), v);
}

static inline vf v_all(float x)
{
    return _mm256_set1_ps(x);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* The greater; b where either is NaN. */
static inline vf v_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

/* below where x < bound, else other; a NaN is not below. */
static inline vf v_where_below(vf x, vf bound, vf below, vf other)
{
    return _mm256_blendv_ps(other, below, _mm256_cmp_ps(x, bound, _CMP_LT_OQ));
}

/* All bits of element i where p[i] is not 0. */
static inline vi v_flags(const unsigned char *p)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    const __m256i zero = _mm256_setzero_si256();
    return ~(vi)_mm256_cmpeq_epi32(_mm256_cvtepu8_epi32(bytes), zero);
}

static inline float v_sum(vf v)
{
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

static inline float v_greatest(vf v)
{
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

/* Element r of the result is the sum of rows[r]. */
static inline vf v_sum_rows(const vf rows[LANES])
{
    vf low = _mm256_hadd_ps(_mm256_hadd_ps(rows[0], rows[1]),
                            _mm256_hadd_ps(rows[2], rows[3]));
    vf high = _mm256_hadd_ps(_mm256_hadd_ps(rows[4], rows[5]),
                             _mm256_hadd_ps(rows[6], rows[7]));
    return _mm256_permute2f128_ps(low, high, 0x20) +
           _mm256_permute2f128_ps(low, high, 0x31);
}

/* Transpose a LANES x LANES block in place. */
static inline void v_transpose(vf r[LANES])
{
    vf t[8], u[8];
    for (size_t i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (size_t i = 0; i < 2; i++) {
        u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    /* 128-bit lane l of u[4i + c] holds column 4l + c of rows 4i to 4i + 3 */
    for (int c = 0; c < 4; c++) {
        r[c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
        r[4 + c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
    }
}

/* The products of the lower halves of 64-bit elements. */
static inline vw v_multiply(vw a, vw b)
{
    return (vw)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}

/* a[0], b[0], a[2], b[2], and so on; and a[1], b[1], a[3], b[3], and so on. */
static inline vw v_even_pairs(vw a, vw b)
{
    return (vw)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b);
}

static inline vw v_odd_pairs(vw a, vw b)
{
    return (vw)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
}

#include "vector.h"

#endif
