/* Products of a few rows straight from where keys and values lie, for answers: those are bound by reading, and arranging
 * columns in memory for three rows would cost more than the products. Sums take their words in the order of products.h.
 */
#ifndef EVALCARD_STRAIGHT_H
#define EVALCARD_STRAIGHT_H

#include "products.h"

/* The processor does not foresee what an answer reads next: while its keys are met its values are fetched, and while
 * those are, the next block's keys. */
INLINE void fetch(const char *row, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) _mm_prefetch(row + at, _MM_HINT_T1);
}

/* 16 keys from the ``first`` one on as columns, words [word, word + 16) of each; zeros where there is none. */
INLINE void square_of(const char *const *keys, int64_t there, int64_t word, int64_t size, int half, __m512i *square) {
    int64_t at = word << (half ? 1 : 0), bytes = at << (half ? 1 : 2);
    for (int64_t i = 0; i < LANES; i++)
        square[i] = i < there ? words_of(keys[i] + bytes, size - at, half) : _mm512_setzero_si512();
    turn(square);
}

/* scores[r, k] = queries[r] . keys[k] for rows r < R and keys k < width; up to the next multiple of LANES they are zero.
 * Keys have ``size`` numbers, queries ``words`` words. The rows of ``soon`` are fetched meanwhile. */
INLINE void straight_scores(const int R, const int half, const float *queries, int64_t words, const char *const *keys,
                            int64_t size, int64_t width, const char *const *soon, int64_t soon_bytes, float *scores,
                            int64_t scores_row) {
    for (int64_t first = 0; first < width; first += LANES) {
        int64_t there = least(width - first, LANES);
        __m512 sums[MAX_ROWS];
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) sums[r] = _mm512_setzero_ps();
        for (int64_t i = 0; i < there; i++) fetch(soon[first + i], soon_bytes);
        for (int64_t word = 0; word < words; word += LANES) {
            __m512i square[LANES];
            square_of(keys + first, there, word, size, half, square);
            int64_t count = least(words - word, LANES);
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) {
                if (i == count) break;
#pragma GCC unroll 6
                for (int r = 0; r < R; r++) {
                    __m512 row = _mm512_set1_ps(queries[r * words + word + i]);
                    sums[r] = add_product(sums[r], row, _mm512_castsi512_ps(square[i]), half);
                }
            }
        }
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) _mm512_storeu_ps(scores + r * scores_row + first, sums[r]);
    }
}

/* Columns [column, column + 16) of a value, or of bfloat16 of two, side by side in each word; none gives zeros. */
INLINE __m512i pair_of(const char *one, const char *two, int64_t column, int64_t size, int half) {
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                         5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    int64_t at = half ? column & ~31 : column, bytes = at << (half ? 1 : 2);
    __m512i a = one ? words_of(one + bytes, size - at, half) : _mm512_setzero_si512();
    if (!half) return a;
    __m512i b = two ? words_of(two + bytes, size - at, half) : _mm512_setzero_si512();
    return _mm512_permutex2var_epi16(a, column & LANES ? high : low, b);
}

/* out[r, c] = sum_k weights[r, k] values[k, first + c] for rows r < R, V vectors of columns and keys k < width; values
 * have ``size`` numbers. The rows of ``soon``, or none, are fetched meanwhile. */
INLINE void straight_averages(const int R, const int V, const int half, const float *weights, int64_t weights_row,
                              const char *const *values, int64_t first, int64_t size, int64_t width,
                              const char *const *soon, int64_t soon_bytes, float *out, int64_t out_row) {
    __m512 sums[MAX_ROWS][MAX_VECTORS];
#pragma GCC unroll 6
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) sums[r][v] = _mm512_setzero_ps();
    for (int64_t word = 0, key = 0; key < width; word++, key += half ? 2 : 1) {
        const char *one = values[key], *two = half && key + 1 < width ? values[key + 1] : 0;
        if (soon) fetch(soon[key], soon_bytes);
        if (soon && two) fetch(soon[key + 1], soon_bytes);
        __m512 columns[MAX_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            columns[v] = _mm512_castsi512_ps(pair_of(one, two, first + v * LANES, size, half));
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) {
            __m512 row = _mm512_set1_ps(weights[r * weights_row + word]);
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) sums[r][v] = add_product(sums[r][v], row, columns[v], half);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) _mm512_storeu_ps(out + r * out_row + v * LANES, sums[r][v]);
}

typedef void Scores(const float *, int64_t, const char *const *, int64_t, int64_t, const char *const *, int64_t,
                    float *, int64_t);
typedef void Averages(const float *, int64_t, const char *const *, int64_t, int64_t, int64_t, const char *const *,
                      int64_t, float *, int64_t);

#define DEFINE_SCORES(half, R)                                                                                      \
    static void scores_##half##_##R(const float *queries, int64_t words, const char *const *keys, int64_t size,       \
                                    int64_t width, const char *const *soon, int64_t soon_bytes, float *scores,        \
                                    int64_t scores_row) {                                                             \
        straight_scores(R, half, queries, words, keys, size, width, soon, soon_bytes, scores, scores_row);            \
    }
#define DEFINE_AVERAGES(half, R, V)                                                                                  \
    static void averages_##half##_##R##_##V(const float *weights, int64_t weights_row, const char *const *values,     \
                                            int64_t first, int64_t size, int64_t width, const char *const *soon,      \
                                            int64_t soon_bytes, float *out, int64_t out_row) {                        \
        straight_averages(R, V, half, weights, weights_row, values, first, size, width, soon, soon_bytes, out,        \
                          out_row);                                                                                   \
    }
#define DEFINE_STRAIGHT(half, R)                                                                         \
    DEFINE_SCORES(half, R) DEFINE_AVERAGES(half, R, 1) DEFINE_AVERAGES(half, R, 2) DEFINE_AVERAGES(half, R, 3) \
    DEFINE_AVERAGES(half, R, 4)
#define DEFINE_ALL(half)                                                                                     \
    DEFINE_STRAIGHT(half, 1) DEFINE_STRAIGHT(half, 2) DEFINE_STRAIGHT(half, 3) DEFINE_STRAIGHT(half, 4)        \
    DEFINE_STRAIGHT(half, 5) DEFINE_STRAIGHT(half, 6)
DEFINE_ALL(0)
DEFINE_ALL(1)
#define SCORES(half) \
    { scores_##half##_1, scores_##half##_2, scores_##half##_3, scores_##half##_4, scores_##half##_5, scores_##half##_6 }
#define OF_ROWS(half, R) \
    { averages_##half##_##R##_1, averages_##half##_##R##_2, averages_##half##_##R##_3, averages_##half##_##R##_4 }
#define AVERAGES(half) \
    { OF_ROWS(half, 1), OF_ROWS(half, 2), OF_ROWS(half, 3), OF_ROWS(half, 4), OF_ROWS(half, 5), OF_ROWS(half, 6) }
static Scores *const scores_from[2][MAX_ROWS] = {SCORES(0), SCORES(1)};
static Averages *const averages_from[2][MAX_ROWS][MAX_VECTORS] = {AVERAGES(0), AVERAGES(1)};

#endif
