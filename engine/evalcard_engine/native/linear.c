/* y = x W^T + b for bfloat16 x and W, summed in float32, for CPUs with AVX512-BF16.
 *
 * Every number of y is one sum over the columns of W, in pairs and in their order, by vdpbf16ps: it depends on its own
 * row of x alone, whatever rows stand beside it and whoever computes them. W is packed in panels of COLUMNS outputs,
 * [panels, words, COLUMNS] of words, a word being two neighbouring bfloat16 numbers.
 */
#include "vectors.h"

#ifdef __AVX512BF16__

#define VECTORS 2
#define COLUMNS (VECTORS * LANES)
#define MAX_ROWS 12   /* 12 x 2 sums, 2 columns and 1 row of 32 registers */
#define CHUNK_ROWS 48 /* rows that meet panel after panel, few enough to stay in the cache */

typedef struct {
    const char *x;        /* [rows, width], a row at row * x_row */
    const float *weight;  /* packed; the last panel filled with zeros */
    const float *bias;    /* [outputs] or none */
    char *out;            /* [rows, outputs], a row at row * out_row */
    int64_t x_row, out_row, rows, width, outputs, is_wide, threads; /* is_wide: y is float32, else bfloat16 */
} Linear;

INLINE void sums_of(const int R, const char *x, int64_t x_bytes, const float *panel, int64_t words,
                    __m512 sums[MAX_ROWS][VECTORS]) {
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) sums[r][v] = _mm512_setzero_ps();
    for (int64_t w = 0; w < words; w++) {
        __m512bh columns[VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) columns[v] = (__m512bh)_mm512_loadu_ps(panel + w * COLUMNS + v * LANES);
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) {
            __m512bh row = (__m512bh)_mm512_set1_ps(*(const float *)(x + r * x_bytes + w * 4));
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS; v++) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], row, columns[v]);
        }
    }
}

INLINE void rows_of_panel(const int R, const Linear *call, int64_t row, int64_t column) {
    __m512 sums[MAX_ROWS][VECTORS];
    int64_t words = call->width / 2;
    sums_of(R, call->x + row * call->x_row * 2, call->x_row * 2, call->weight + column * words, words, sums);
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v++) {
        int64_t at = column + v * LANES;
        __mmask16 there = lanes16(call->outputs - at);
        __m512 bias = call->bias ? _mm512_maskz_loadu_ps(there, call->bias + at) : _mm512_setzero_ps();
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) {
            __m512 value = call->bias ? _mm512_add_ps(sums[r][v], bias) : sums[r][v];
            int64_t place = (row + r) * call->out_row + at;
            if (call->is_wide)
                _mm512_mask_storeu_ps(call->out + place * 4, there, value);
            else
                _mm256_mask_storeu_epi16(call->out + place * 2, there, (__m256i)_mm512_cvtneps_pbh(value));
        }
    }
}

typedef void Rows(const Linear *, int64_t, int64_t);

#define DEFINE(R) \
    static void rows_##R(const Linear *call, int64_t row, int64_t column) { rows_of_panel(R, call, row, column); }
DEFINE(1) DEFINE(2) DEFINE(3) DEFINE(4) DEFINE(5) DEFINE(6) DEFINE(7) DEFINE(8) DEFINE(9) DEFINE(10) DEFINE(11) DEFINE(12)
static Rows *const by_count[MAX_ROWS] = {rows_1, rows_2, rows_3, rows_4,  rows_5,  rows_6,
                                         rows_7, rows_8, rows_9, rows_10, rows_11, rows_12};

static void rows_and_panel(const Linear *call, int64_t first, int64_t stop, int64_t column) {
    for (int64_t row = first; row < stop; row += MAX_ROWS) {
        int64_t count = least(MAX_ROWS, stop - row);
        by_count[count - 1](call, row, column);
    }
}

void linear_bfloat16(const Linear *call) {
    int64_t chunks = (call->rows + CHUNK_ROWS - 1) / CHUNK_ROWS, panels = (call->outputs + COLUMNS - 1) / COLUMNS;
    if (chunks >= 4 * call->threads) {
#pragma omp parallel for schedule(dynamic) num_threads(call->threads)
        for (int64_t chunk = 0; chunk < chunks; chunk++)
            for (int64_t panel = 0; panel < panels; panel++)
                rows_and_panel(call, chunk * CHUNK_ROWS, least((chunk + 1) * CHUNK_ROWS, call->rows), panel * COLUMNS);
    } else {
#pragma omp parallel for schedule(static) num_threads(call->threads)
        for (int64_t panel = 0; panel < panels; panel++)
            for (int64_t chunk = 0; chunk < chunks; chunk++)
                rows_and_panel(call, chunk * CHUNK_ROWS, least((chunk + 1) * CHUNK_ROWS, call->rows), panel * COLUMNS);
    }
}

/* weight [outputs, width] as panels: pairs of columns become words, and a panel's outputs stand side by side. */
void pack_bfloat16(const char *weight, float *packed, int64_t outputs, int64_t width, int64_t threads) {
    int64_t words = width / 2, panels = (outputs + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t panel = 0; panel < panels; panel++) {
        float *into = packed + panel * words * COLUMNS;
        for (int64_t word = 0; word < words; word++)
            for (int64_t column = 0; column < COLUMNS; column++) {
                int64_t output = panel * COLUMNS + column;
                float two = 0.0f;
                if (output < outputs) memcpy(&two, weight + (output * width + word * 2) * 2, 4);
                into[word * COLUMNS + column] = two;
            }
    }
}

#endif
