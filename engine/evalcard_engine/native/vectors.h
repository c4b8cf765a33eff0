/* What the C files share: vectors of 16 floats, the ends of rows, and exponentials. */
#ifndef EVALCARD_VECTORS_H
#define EVALCARD_VECTORS_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define LOG2E 1.44269504088896341f
#define LOG2E_REST 0x1.4ae0c00p-26f /* log2(e) less LOG2E as a float */
#define INLINE static inline __attribute__((always_inline))

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

INLINE __mmask16 lanes16(int64_t n) { return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }
INLINE __mmask32 lanes32(int64_t n) { return n >= 32 ? 0xffffffffu : n <= 0 ? 0 : (__mmask32)((1u << n) - 1); }

/* 2^rest * 2^whole for |rest| <= 1/2 and a whole number; exactly 2^whole for rest 0. The polynomial is (2^f - 1) / f
 * interpolated at Chebyshev's points: 1e-7 from 2^f as float32 computes it. */
INLINE __m512 power_of(__m512 rest, __m512 whole) {
    __m512 sum = _mm512_set1_ps(0x1.444004p-13f);
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.5f0896p-10f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.3b2a1cp-7f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.c6af6cp-5f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.ebfbe0p-3f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0x1.62e430p-1f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(sum, whole);
}

INLINE __m512 nearest_whole(__m512 x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* 2^x for finite x. */
INLINE __m512 exp2_of(__m512 x) {
    __m512 whole = nearest_whole(x);
    return power_of(_mm512_sub_ps(x, whole), whole);
}

/* e^x; infinite x counts as +-200, and NaN stays. */
INLINE __m512 exp_of(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(-200.0f), _mm512_min_ps(_mm512_set1_ps(200.0f), x));
    __m512 whole = nearest_whole(_mm512_mul_ps(x, _mm512_set1_ps(LOG2E)));
    __m512 rest = _mm512_fmsub_ps(x, _mm512_set1_ps(LOG2E), whole);
    return power_of(_mm512_fmadd_ps(x, _mm512_set1_ps(LOG2E_REST), rest), whole);
}

#endif
