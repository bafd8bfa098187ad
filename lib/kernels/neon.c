/* neon.c - the kernels for 64-bit ARM. The loops are in vector.h. */
#include "kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#define LANES 4
#define TILE_ROWS 8
#define TILE_VECTORS 2
#define TABLE attni_kernels_neon
#define TABLE_NAME "neon"

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint64x2_t vw;

static inline vf v_load(const float *p)
{
    return vld1q_f32(p);
}

static inline void v_store(float *p, vf v)
{
    vst1q_f32(p, v);
}

/* The first n < LANES elements; the others are zero. */
static inline vf v_load_part(const float *p, size_t n)
{
    float part[4] = {0};
    for (size_t i = 0; i < n; i++) {
        part[i] = p[i];
    }
    return vld1q_f32(part);
}

static inline void v_store_part(float *p, vf v, size_t n)
{
    float part[4];
    vst1q_f32(part, v);
    for (size_t i = 0; i < n; i++) {
        p[i] = part[i];
    }
}

static inline vf v_all(float x)
{
    return vdupq_n_f32(x);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

/* The greater; NaN where either is. */
static inline vf v_max(vf a, vf b)
{
    return vmaxq_f32(a, b);
}

/* below where x < bound, else other; a NaN is not below. */
static inline vf v_where_below(vf x, vf bound, vf below, vf other)
{
    return vbslq_f32(vcltq_f32(x, bound), below, other);
}

/* All bits of element i where p[i] is not 0. */
static inline vi v_flags(const unsigned char *p)
{
    const uint32x4_t wide = {p[0], p[1], p[2], p[3]};
    return vreinterpretq_s32_u32(vtstq_u32(wide, wide));
}

static inline float v_sum(vf v)
{
    return vaddvq_f32(v);
}

static inline float v_greatest(vf v)
{
    return vmaxvq_f32(v);
}

/* Element r of the result is the sum of rows[r]. */
static inline vf v_sum_rows(const vf rows[LANES])
{
    return vpaddq_f32(vpaddq_f32(rows[0], rows[1]), vpaddq_f32(rows[2], rows[3]));
}

/* Transpose a LANES x LANES block in place. */
static inline void v_transpose(vf r[LANES])
{
    float32x4x2_t a = vtrnq_f32(r[0], r[1]), b = vtrnq_f32(r[2], r[3]);
    r[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
    r[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
    r[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
    r[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

/* The products of the lower halves of 64-bit elements. */
static inline vw v_multiply(vw a, vw b)
{
    return vmull_u32(vmovn_u64(a), vmovn_u64(b));
}

/* a[0], b[0]; and a[1], b[1]. */
static inline vw v_even_pairs(vw a, vw b)
{
    return vzip1q_u64(a, b);
}

static inline vw v_odd_pairs(vw a, vw b)
{
    return vzip2q_u64(a, b);
}

#include "vector.h"

#endif
