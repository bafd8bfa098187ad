/* vector_avx512.h - vectors of 16 floats for vector.h, by AVX-512 (F, BW, DQ, VL). */

#include <immintrin.h>

#define LANES 16
#define TILE_ROWS 14
#define TILE_VECTORS 2
#define HAS_ROUND

typedef __m512 vf;
typedef int vi __attribute__((vector_size(64)));
typedef uint64_t vw __attribute__((vector_size(64)));

static inline vf v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void v_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}

static inline __mmask16 first(size_t n)
{
    return (__mmask16)((1u << n) - 1);
}

/* The first n < LANES elements; the others are zero. */
static inline vf v_load_part(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(first(n), p);
}

static inline void v_store_part(float *p, vf v, size_t n)
{
    _mm512_mask_storeu_ps(p, first(n), v);
}

static inline vf v_all(float x)
{
    return _mm512_set1_ps(x);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* The greater; b where either is NaN. */
static inline vf v_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

/* below where x < bound, else other; a NaN is not below. */
static inline vf v_where_below(vf x, vf bound, vf below, vf other)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, bound, _CMP_LT_OQ), other, below);
}

/* All bits of element i where p[i] is not 0. */
static inline vi v_flags(const unsigned char *p)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return (vi)_mm512_movm_epi32(_mm_test_epi8_mask(bytes, bytes));
}

static inline float v_sum(vf v)
{
    return _mm512_reduce_add_ps(v);
}

static inline float v_greatest(vf v)
{
    return _mm512_reduce_max_ps(v);
}

/* LANES floats as LANES / 2 pairs of bf16, each as attni_bf16 rounds it. */
static inline void v_round_bf16(const float *x, float *pairs)
{
    __m512 value = _mm512_loadu_ps(x);
    __m512i bits = _mm512_castps_si512(value);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    rounded =
        _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q),
                             bits, _mm512_set1_epi32(0x400000)); /* NaN stays NaN */
    _mm256_storeu_si256((__m256i *)(void *)pairs,
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

/* Element r of the result is the sum of rows[r]. */
static inline vf v_sum_rows(const vf rows[LANES])
{
    vf a[8], b[4], c[2];
    for (int i = 0; i < 8; i++) {
        a[i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]) +
               _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        __m512d x = _mm512_castps_pd(a[2 * i]), y = _mm512_castps_pd(a[2 * i + 1]);
        b[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y)) +
               _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    }
    /* each 128-bit lane of b[i] now holds partial sums of rows 4i to 4i + 3 */
    for (int i = 0; i < 2; i++) {
        c[i] = _mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0x88) +
               _mm512_shuffle_f32x4(b[2 * i], b[2 * i + 1], 0xdd);
    }
    return _mm512_shuffle_f32x4(c[0], c[1], 0x88) +
           _mm512_shuffle_f32x4(c[0], c[1], 0xdd);
}

/* Transpose a LANES x LANES block in place. */
static inline void v_transpose(vf r[LANES])
{
    vf t[16];
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        for (int h = 0; h < 2; h++) {
            __m512d x = _mm512_castps_pd(t[4 * i + h]),
                    y = _mm512_castps_pd(t[4 * i + 2 + h]);
            r[4 * i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
            r[4 * i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        }
    }
    /* 128-bit lane l of r[4i + c] holds column 4l + c of rows 4i to 4i + 3 */
    for (int c = 0; c < 4; c++) {
        t[c] = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88);
        t[4 + c] = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xdd);
        t[8 + c] = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
        t[12 + c] = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xdd);
    }
    for (int c = 0; c < 4; c++) {
        r[c] = _mm512_shuffle_f32x4(t[c], t[8 + c], 0x88);
        r[8 + c] = _mm512_shuffle_f32x4(t[c], t[8 + c], 0xdd);
        r[4 + c] = _mm512_shuffle_f32x4(t[4 + c], t[12 + c], 0x88);
        r[12 + c] = _mm512_shuffle_f32x4(t[4 + c], t[12 + c], 0xdd);
    }
}

/* The products of the lower halves of 64-bit elements. */
static inline vw v_multiply(vw a, vw b)
{
    return (vw)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}

/* a[0], b[0], a[2], b[2], and so on; and a[1], b[1], a[3], b[3], and so on. */
static inline vw v_even_pairs(vw a, vw b)
{
    return (vw)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b);
}

static inline vw v_odd_pairs(vw a, vw b)
{
    return (vw)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b);
}
