/* What lies between the linears of a layer, row by row, for CPUs with AVX-512: norms, gates, rotary embedding, and the
 * rounding to eight bits and back. A row's result depends on the row alone. Numbers are float32, or bfloat16 where
 * ``half``; every sum and product is made in float32 and rounded where transformers' modules round.
 */
#include "vectors.h"

#define FEW 16384 /* numbers: below that, waking the threads costs more than they save */

INLINE __m512 load(const char *at, __mmask16 there, int half) {
    if (!half) return _mm512_maskz_loadu_ps(there, at);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, at)), 16));
}

/* To bfloat16, to even. */
INLINE __m256i narrow(__m512 x) {
#ifdef __AVX512BF16__
    return (__m256i)_mm512_cvtneps_pbh(x);
#else
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __m512i quiet = _mm512_or_epi32(bits, _mm512_set1_epi32(0x400000));
    up = _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
#endif
}

INLINE __m512 rounded(__m512 x, int half) {
    return half ? _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow(x)), 16)) : x;
}

INLINE void store(char *at, __mmask16 there, __m512 x, int half) {
    if (half)
        _mm256_mask_storeu_epi16(at, there, narrow(x));
    else
        _mm512_mask_storeu_ps(at, there, x);
}

/* total = x + residual, where there is one; out = weight * round(h), or round((1 + weight) * h) where adds_one, of
 * h = total / sqrt(mean(total^2) + eps). All contiguous [rows, width] but x; weight [width]. */
INLINE void norm_row(const char *x, const char *residual, const char *weight, char *out, char *total, int64_t width,
                     float eps, int adds_one, int half) {
    int64_t shift = half ? 1 : 2;
    __m512 squares[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    const char *from = residual ? total : x;
    for (int64_t at = 0; at < width; at += LANES) {
        __mmask16 there = lanes16(width - at);
        __m512 value = load(x + (at << shift), there, half);
        if (residual) {
            value = rounded(_mm512_add_ps(value, load(residual + (at << shift), there, half)), half);
            store(total + (at << shift), there, value, half);
        }
        int turn = at / LANES & 1;
        squares[turn] = _mm512_fmadd_ps(value, value, squares[turn]);
    }
    float mean = _mm512_reduce_add_ps(_mm512_add_ps(squares[0], squares[1])) / (float)width;
    __m512 factor = _mm512_set1_ps(1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + eps))));
    for (int64_t at = 0; at < width; at += LANES) {
        __mmask16 there = lanes16(width - at);
        __m512 value = _mm512_mul_ps(load(from + (at << shift), there, half), factor);
        __m512 scale = load(weight + (at << shift), there, half);
        if (adds_one)
            value = _mm512_mul_ps(value, _mm512_add_ps(scale, _mm512_set1_ps(1.0f)));
        else
            value = _mm512_mul_ps(rounded(value, half), scale);
        store(out + (at << shift), there, value, half);
    }
}

void rms_norm(const char *x, int64_t x_row, const char *residual, const char *weight, char *out, char *total,
              int64_t rows, int64_t width, float eps, int adds_one, int half, int threads) {
    int64_t shift = half ? 1 : 2;
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * width > FEW)
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = (row * width) << shift;
        const char *from = x + ((row * x_row) << shift), *added = residual ? residual + at : 0;
        if (half)
            norm_row(from, added, weight, out + at, total + at, width, eps, adds_one, 1);
        else
            norm_row(from, added, weight, out + at, total + at, width, eps, adds_one, 0);
    }
}

INLINE __m512 silu(__m512 x) {
    __m512 power = exp_of(_mm512_sub_ps(_mm512_setzero_ps(), x));
    return _mm512_div_ps(x, _mm512_add_ps(power, _mm512_set1_ps(1.0f)));
}

INLINE void silu_mul_row(const char *gate, const char *up, char *out, int64_t width, int half) {
    int64_t shift = half ? 1 : 2;
    for (int64_t at = 0; at < width; at += LANES) {
        __mmask16 there = lanes16(width - at);
        __m512 value = rounded(silu(load(gate + (at << shift), there, half)), half);
        store(out + (at << shift), there, _mm512_mul_ps(value, load(up + (at << shift), there, half)), half);
    }
}

/* out = round(silu(gate)) * up; out [rows, width] may be gate itself. */
void silu_mul(const char *gate, int64_t gate_row, const char *up, int64_t up_row, char *out, int64_t rows,
              int64_t width, int half, int threads) {
    int64_t shift = half ? 1 : 2;
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * width > FEW)
    for (int64_t row = 0; row < rows; row++) {
        const char *one = gate + ((row * gate_row) << shift), *two = up + ((row * up_row) << shift);
        char *into = out + ((row * width) << shift);
        if (half)
            silu_mul_row(one, two, into, width, 1);
        else
            silu_mul_row(one, two, into, width, 0);
    }
}

/* One head: x cos + rotate_half(x) sin of its first rotary_size numbers, rotate_half((a, b)) = (-b, a); the rest as it
 * is. Products and sums are rounded. */
INLINE void rotate(const char *x, const char *cos, const char *sin, char *out, int64_t rotary_size, int64_t size,
                   int half) {
    int64_t shift = half ? 1 : 2, middle = rotary_size / 2;
    for (int64_t at = 0; at < middle; at += LANES) {
        __mmask16 there = lanes16(middle - at);
        int64_t low = at << shift, high = (at + middle) << shift;
        __m512 a = load(x + low, there, half), b = load(x + high, there, half);
        __m512 minus_b = _mm512_sub_ps(_mm512_setzero_ps(), b);
        __m512 first = rounded(_mm512_mul_ps(a, load(cos + low, there, half)), half);
        __m512 second = rounded(_mm512_mul_ps(minus_b, load(sin + low, there, half)), half);
        __m512 third = rounded(_mm512_mul_ps(b, load(cos + high, there, half)), half);
        __m512 fourth = rounded(_mm512_mul_ps(a, load(sin + high, there, half)), half);
        store(out + low, there, _mm512_add_ps(first, second), half);
        store(out + high, there, _mm512_add_ps(third, fourth), half);
    }
    memcpy(out + (rotary_size << shift), x + (rotary_size << shift), (size - rotary_size) << shift);
}

typedef struct {
    const char *query, *key, *value; /* [tokens, heads, size], by strides */
    const char *cos, *sin;           /* [tokens, rotary_size] */
    const int64_t *slots;            /* [tokens] */
    char *out;                       /* [tokens, heads, key_size] */
    char *key_pages, *value_pages;   /* [pages, kv_heads, page_size, size] */
    int64_t query_token, query_head, key_token, key_head, value_token, value_head;
    int64_t tokens, heads, kv_heads, key_size, value_size, rotary_size, page_size, threads;
} Rotary;

INLINE void rotate_token(const Rotary *call, int64_t token, int half) {
    int64_t shift = half ? 1 : 2, size = call->key_size;
    const char *cos = call->cos + ((token * call->rotary_size) << shift);
    const char *sin = call->sin + ((token * call->rotary_size) << shift);
    for (int64_t head = 0; head < call->heads; head++)
        rotate(call->query + ((token * call->query_token + head * call->query_head) << shift), cos, sin,
               call->out + (((token * call->heads + head) * size) << shift), call->rotary_size, size, half);
    int64_t page = call->slots[token] / call->page_size, offset = call->slots[token] % call->page_size;
    for (int64_t head = 0; head < call->kv_heads; head++) {
        int64_t line = (page * call->kv_heads + head) * call->page_size + offset;
        rotate(call->key + ((token * call->key_token + head * call->key_head) << shift), cos, sin,
               call->key_pages + ((line * size) << shift), call->rotary_size, size, half);
        memcpy(call->value_pages + ((line * call->value_size) << shift),
               call->value + ((token * call->value_token + head * call->value_head) << shift),
               call->value_size << shift);
    }
}

/* Rotated queries; rotated keys, and values as they are, in the slots of their pages. */
void rotary_cache(const Rotary *call, int half) {
    int64_t threads = call->threads, rows = call->tokens, width = call->heads * call->key_size;
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * width > FEW)
    for (int64_t token = 0; token < rows; token++) {
        if (half)
            rotate_token(call, token, 1);
        else
            rotate_token(call, token, 0);
    }
}

/* codes = round(x / scale), scale the greatest magnitude / 127, or 1 of a row of zeros; NaN of a row with a NaN. */
INLINE float scale_of(__m512 top, __mmask16 unordered) {
    float greatest = _mm512_reduce_max_ps(top);
    return unordered ? __builtin_nanf("") : greatest == 0.0f ? 1.0f : greatest / 127.0f;
}

INLINE void to_codes(__m512 x, __m512 scale, int8_t *codes, __mmask16 there) {
    __m512 value = nearest_whole(_mm512_div_ps(x, scale));
    value = _mm512_max_ps(_mm512_set1_ps(-127.0f), _mm512_min_ps(_mm512_set1_ps(127.0f), value));
    _mm512_mask_cvtsepi32_storeu_epi8(codes, there, _mm512_cvtps_epi32(value));
}

INLINE void quantize_row(const char *x, int8_t *codes, float *scale, int64_t width, int half) {
    int64_t shift = half ? 1 : 2;
    __m512 top = _mm512_setzero_ps();
    __mmask16 unordered = 0;
    for (int64_t at = 0; at < width; at += LANES) {
        __m512 value = load(x + (at << shift), lanes16(width - at), half);
        top = _mm512_max_ps(top, _mm512_abs_ps(value));
        unordered |= _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    }
    *scale = scale_of(top, unordered);
    __m512 divisor = _mm512_set1_ps(*scale);
    for (int64_t at = 0; at < width; at += LANES) {
        __mmask16 there = lanes16(width - at);
        to_codes(load(x + (at << shift), there, half), divisor, codes + at, there);
    }
}

void quantize_rows(const char *x, int8_t *codes, float *scales, int64_t rows, int64_t width, int half, int threads) {
    int64_t shift = half ? 1 : 2;
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * width > FEW)
    for (int64_t row = 0; row < rows; row++) {
        if (half)
            quantize_row(x + ((row * width) << shift), codes + row * width, scales + row, width, 1);
        else
            quantize_row(x + ((row * width) << shift), codes + row * width, scales + row, width, 0);
    }
}

INLINE __m512 scaled(const int32_t *integers, __m512 row_scale, const float *scales, __mmask16 there) {
    __m512 value = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(there, integers));
    return _mm512_mul_ps(_mm512_mul_ps(value, row_scale), _mm512_maskz_loadu_ps(there, scales));
}

/* out = integers * scale of the row * scale of the column + bias, in this order. */
void scale_rows(const int32_t *integers, const float *row_scales, const float *scales, const float *bias, char *out,
                int64_t rows, int64_t width, int half, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * width > FEW)
    for (int64_t row = 0; row < rows; row++) {
        __m512 row_scale = _mm512_set1_ps(row_scales[row]);
        for (int64_t at = 0; at < width; at += LANES) {
            __mmask16 there = lanes16(width - at);
            __m512 value = scaled(integers + row * width + at, row_scale, scales + at, there);
            if (bias) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(there, bias + at));
            store(out + ((row * width + at) << (half ? 1 : 2)), there, value, half);
        }
    }
}

/* The integer products of gate and up as numbers, silu(gate) * up, and that as codes, rounded on the way where the
 * functions above would round. The numbers of a row take the place of its gate. */
INLINE void silu_mul_codes_row(int32_t *gate, const int32_t *up, float row_scale, const float *gate_scales,
                               const float *up_scales, int8_t *codes, float *scale, int64_t width, int half) {
    __m512 of_row = _mm512_set1_ps(row_scale), top = _mm512_setzero_ps();
    __mmask16 unordered = 0;
    for (int64_t at = 0; at < width; at += LANES) {
        __mmask16 there = lanes16(width - at);
        __m512 value = rounded(silu(rounded(scaled(gate + at, of_row, gate_scales + at, there), half)), half);
        __m512 other = rounded(scaled(up + at, of_row, up_scales + at, there), half);
        value = rounded(_mm512_mul_ps(value, other), half);
        top = _mm512_max_ps(top, _mm512_abs_ps(value));
        unordered |= _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
        _mm512_mask_storeu_ps(gate + at, there, value);
    }
    *scale = scale_of(top, unordered);
    __m512 divisor = _mm512_set1_ps(*scale);
    for (int64_t at = 0; at < width; at += LANES) {
        __mmask16 there = lanes16(width - at);
        to_codes(_mm512_maskz_loadu_ps(there, gate + at), divisor, codes + at, there);
    }
}

void silu_mul_codes(int32_t *gate, const int32_t *up, const float *row_scales, const float *gate_scales,
                    const float *up_scales, int8_t *codes, float *scales, int64_t rows, int64_t width, int half,
                    int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * width > FEW)
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = row * width;
        if (half)
            silu_mul_codes_row(gate + at, up + at, row_scales[row], gate_scales, up_scales, codes + at, scales + row,
                               width, 1);
        else
            silu_mul_codes_row(gate + at, up + at, row_scales[row], gate_scales, up_scales, codes + at, scales + row,
                               width, 0);
    }
}
