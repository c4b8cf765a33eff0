/* Products of a few rows with many columns, kept in registers: attention's scores and averages.
 *
 * A "word" is 32 bits: a float, or two neighbouring bfloat16 numbers. Products are sums over words, by fused
 * multiply-add or, of bfloat16, by vdpbf16ps, which adds both products of a pair. Each sum takes its words one by one in
 * their order, so a row gets the same bits from any of the functions below and beside any other rows.
 */
#ifndef EVALCARD_PRODUCTS_H
#define EVALCARD_PRODUCTS_H

#include "vectors.h"

#define MAX_VECTORS 4    /* of a panel of columns */
#define PANEL (MAX_VECTORS * LANES)
#define MAX_ROWS 6       /* of a product kept in registers: 6 x 4 sums, 4 columns and 1 row of 32 registers */

/* sum + row . column, of words. */
INLINE __m512 add_product(__m512 sum, __m512 row, __m512 column, const int half) {
#ifdef __AVX512BF16__
    if (half) return _mm512_dpbf16_ps(sum, (__m512bh)row, (__m512bh)column);
#endif
    return _mm512_fmadd_ps(row, column, sum);
}

/* out[r, v] = sum_w left[r, w] . right[w, v], for rows r < R, vectors v < V of columns, words w < depth */
INLINE void product(const int R, const int V, const int half, const float *left, int64_t left_row, const float *right,
                    int64_t right_row, int64_t depth, float *out, int64_t out_row) {
    __m512 sums[MAX_ROWS][MAX_VECTORS];
#pragma GCC unroll 6
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) sums[r][v] = _mm512_setzero_ps();
    for (int64_t w = 0; w < depth; w++) {
        __m512 columns[MAX_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) columns[v] = _mm512_loadu_ps(right + w * right_row + v * LANES);
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) {
            __m512 row = _mm512_set1_ps(left[r * left_row + w]);
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) sums[r][v] = add_product(sums[r][v], row, columns[v], half);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) _mm512_storeu_ps(out + r * out_row + v * LANES, sums[r][v]);
}

typedef void Product(const float *, int64_t, const float *, int64_t, int64_t, float *, int64_t);

#define DEFINE(half, R, V)                                                                                            \
    static void product_##half##_##R##_##V(const float *left, int64_t left_row, const float *right, int64_t right_row, \
                                           int64_t depth, float *out, int64_t out_row) {                              \
        product(R, V, half, left, left_row, right, right_row, depth, out, out_row);                                   \
    }
#define FOR_VECTORS(half, R) DEFINE(half, R, 1) DEFINE(half, R, 2) DEFINE(half, R, 3) DEFINE(half, R, 4)
#define FOR_ROWS(half)                                                                                  \
    FOR_VECTORS(half, 1) FOR_VECTORS(half, 2) FOR_VECTORS(half, 3) FOR_VECTORS(half, 4) FOR_VECTORS(half, 5) \
    FOR_VECTORS(half, 6)
FOR_ROWS(0)
FOR_ROWS(1)
#define ROW_OF_TABLE(half, R) \
    { product_##half##_##R##_1, product_##half##_##R##_2, product_##half##_##R##_3, product_##half##_##R##_4 }
#define TABLE(half)                                                                                         \
    {                                                                                                       \
        ROW_OF_TABLE(half, 1), ROW_OF_TABLE(half, 2), ROW_OF_TABLE(half, 3), ROW_OF_TABLE(half, 4),         \
            ROW_OF_TABLE(half, 5), ROW_OF_TABLE(half, 6)                                                    \
    }
static Product *const products[2][MAX_ROWS][MAX_VECTORS] = {TABLE(0), TABLE(1)};

/* Rows times all columns of packed panels; ``used`` of ``columns`` are wanted, both multiples of LANES. */
INLINE void panels(int half, int64_t num_rows, const float *left, int64_t left_row, const float *packed,
                   int64_t columns, int64_t used, int64_t packed_depth, int64_t depth, float *out, int64_t out_row) {
    for (int64_t at = 0; at < used; at += PANEL) {
        int64_t width = least(columns - at, PANEL), wanted = least(used - at, PANEL);
        products[half][num_rows - 1][wanted / LANES - 1](left, left_row, packed + at * packed_depth, width, depth,
                                                         out + at, out_row);
    }
}

/* 16 rows of 16 words, turned. */
INLINE void turn(__m512i *r) {
    __m512i t[16], u[16];
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        u[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        u[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int c = 0; c < 4; c++) {
        __m512i a = _mm512_shuffle_i32x4(u[c], u[4 + c], 0x88), b = _mm512_shuffle_i32x4(u[8 + c], u[12 + c], 0x88);
        __m512i d = _mm512_shuffle_i32x4(u[c], u[4 + c], 0xdd), e = _mm512_shuffle_i32x4(u[8 + c], u[12 + c], 0xdd);
        r[c] = _mm512_shuffle_i32x4(a, b, 0x88);
        r[8 + c] = _mm512_shuffle_i32x4(a, b, 0xdd);
        r[4 + c] = _mm512_shuffle_i32x4(d, e, 0x88);
        r[12 + c] = _mm512_shuffle_i32x4(d, e, 0xdd);
    }
}

/* ``count`` numbers as words, the rest of the 16 words zero. */
INLINE __m512i words_of(const char *numbers, int64_t count, int half) {
    return half ? _mm512_maskz_loadu_epi16(lanes32(count), numbers) : _mm512_maskz_loadu_epi32(lanes16(count), numbers);
}

#endif
