/* Attention of packed rows over paged keys and values, for CPUs with AVX-512.
 *
 * A row q with its keys k_j and values v_j gets sum_j softmax_j(scale * q.k_j) v_j. Keys are met in blocks of BLOCK
 * absolute positions: each gives its own average under its own largest score, and blocks are merged in order (online
 * softmax: Milakov and Gimelshein, arXiv 1805.02867). Every step below treats rows apart, so nothing a row gives
 * depends on the rows beside it, on the tile it lies in, or on the threads.
 *
 * One body serves both number formats. A "word" is 32 bits: a float, or two neighbouring bfloat16 numbers. Products are
 * sums over words, by fused multiply-add or, of bfloat16, by vdpbf16ps, which adds both products of a pair.
 */
#include <omp.h>

#include "vectors.h"

#define BLOCK 256
#define MAX_VECTORS 4    /* of a panel of columns */
#define PANEL (MAX_VECTORS * LANES)
#define MAX_ROWS 6       /* of a product kept in registers: 6 x 4 sums, 4 columns and 1 row of 32 registers */
#define NOTHING (-1e30f) /* the largest score of no keys; the difference of two such is no NaN */

typedef struct {
    const char *queries;      /* of numbers, row of token t and head h at t * query_token + h * query_head */
    const char *keys;         /* [pages, kv_heads, page_size, key_size] */
    const char *values;       /* likewise */
    char *out;                /* like queries, of value_size */
    const float *sinks;       /* [kv_heads * group], or none */
    const int32_t *tiles;     /* [num_tiles, 4]: first row and end, first meeting and end */
    const int32_t *rows;      /* [num_rows, 4]: token, head within the group, position, first position seen */
    const int32_t *meetings;  /* [n, 4]: place in pages, position of the block, first row and end within the tile */
    const int32_t *pages;     /* those of one block lie side by side */
    char *scratch;            /* threads times scratch_bytes, aligned to 64 */
    int64_t query_token, query_head, out_token, out_head, scratch_bytes;
    int64_t num_tiles, page_size, kv_heads, group, key_size, value_size, threads;
    float scale, softcap; /* softcap 0: none */
} Call;

/* Where a thread works on a tile. */
typedef struct {
    float *queries;     /* [rows, key_words] */
    float *keys;        /* panels of columns: [key_words, vectors, LANES] words */
    float *values;      /* likewise [BLOCK words or half of them, vectors, LANES] */
    float *averages;    /* [rows, value_width] */
    float *tops;        /* [rows], in units of log2 */
    float *totals;      /* [rows] */
    float *scores;      /* [MAX_ROWS, BLOCK] */
    float *found;       /* [MAX_ROWS, value_width] */
    int64_t key_words, value_width;
} Room;

INLINE __m512 tanh_of(__m512 x) {
    __m512 power = exp2_of(_mm512_mul_ps(x, _mm512_set1_ps(2 * LOG2E)));
    __m512 one = _mm512_set1_ps(1.0f);
    return _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0f), _mm512_add_ps(power, one)));
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
            for (int v = 0; v < V; v++) {
#ifdef __AVX512BF16__
                if (half) {
                    sums[r][v] = _mm512_dpbf16_ps(sums[r][v], (__m512bh)row, (__m512bh)columns[v]);
                    continue;
                }
#endif
                sums[r][v] = _mm512_fmadd_ps(row, columns[v], sums[r][v]);
            }
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

/* Where the first ``count`` rows of a block lie for a head. */
INLINE void rows_of(const char *base, const Call *call, const int32_t *pages, int64_t head, int64_t count, int64_t size,
                    int half, const char **rows) {
    int64_t bytes = size << (half ? 1 : 2);
    for (int64_t page = 0, at = 0; at < count; page++) {
        const char *first = base + (pages[page] * call->kv_heads + head) * call->page_size * bytes;
        int64_t end = least(at + call->page_size, count);
        for (int64_t offset = 0; at < end; at++, offset++) rows[at] = first + offset * bytes;
    }
}

/* Answers are bound by reading their keys and values, which the processor does not foresee: while keys are arranged the
 * block's values are fetched, and while those are, the next block's keys. */
INLINE void fetch(const char *row, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) _mm_prefetch(row + at, _MM_HINT_T1);
}

/* The first ``width`` keys of a block as columns; those up to the next multiple of LANES are zeros. */
INLINE void pack_keys(const Call *call, const Room *room, const int32_t *pages, int64_t head, int64_t width, int half) {
    int64_t columns = round_up(width, LANES), size = call->key_size, shift = half ? 1 : 2;
    const char *keys[BLOCK], *values[BLOCK];
    rows_of(call->keys, call, pages, head, width, size, half, keys);
    rows_of(call->values, call, pages, head, width, call->value_size, half, values);
    for (int64_t first = 0; first < columns; first += LANES) {
        int64_t panel = first / PANEL * PANEL, row = least(columns - panel, PANEL), there = least(width - first, LANES);
        float *into = room->keys + panel * room->key_words + (first - panel);
        for (int64_t i = 0; i < there; i++) fetch(values[first + i], call->value_size << shift);
        for (int64_t word = 0; word < room->key_words; word += LANES) {
            int64_t at = word << (2 - shift), count = least(room->key_words - word, LANES);
            __m512i square[LANES];
            for (int64_t i = 0; i < LANES; i++)
                square[i] = i < there ? words_of(keys[first + i] + (at << shift), size - at, half) : _mm512_setzero_si512();
            turn(square);
            for (int64_t i = 0; i < count; i++) _mm512_storeu_si512(into + (word + i) * row, square[i]);
        }
    }
}

/* The first ``width`` values of a block as rows, of bfloat16 two side by side; the rest up to ``depth`` words are zeros.
 * next_pages: those of the block that is met next, or none. */
INLINE void pack_values(const Call *call, const Room *room, const int32_t *pages, int64_t head, int64_t width,
                        int64_t depth, const int32_t *next_pages, int half) {
    int64_t size = call->value_size, columns = room->value_width, shift = half ? 1 : 2;
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                         5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const char *values[BLOCK + 1] = {0};
    rows_of(call->values, call, pages, head, width, size, half, values);
    const char *next[BLOCK];
    if (next_pages) rows_of(call->keys, call, next_pages, head, width, call->key_size, half, next);
    for (int64_t word = 0; word < depth; word++) {
        int64_t key = half ? 2 * word : word;
        const char *one = key < width ? values[key] : 0, *two = half && key + 1 < width ? values[key + 1] : 0;
        if (one && next_pages) fetch(next[key], call->key_size << shift);
        if (two && next_pages) fetch(next[key + 1], call->key_size << shift);
        for (int64_t column = 0; column < columns; column += LANES) {
            int64_t panel = column / PANEL * PANEL, at = half ? column & ~31 : column;
            __m512i a = one ? words_of(one + (at << shift), size - at, half) : _mm512_setzero_si512();
            __m512i b = two ? words_of(two + (at << shift), size - at, half) : _mm512_setzero_si512();
            __m512i words = half ? _mm512_permutex2var_epi16(a, column & LANES ? high : low, b) : a;
            float *into = room->values + panel * (half ? BLOCK / 2 : BLOCK);
            _mm512_storeu_si512(into + word * least(columns - panel, PANEL) + (column - panel), words);
        }
    }
}

/* Scores of a row become weights, bfloat16 ones in the first half of their place; keys outside [low, high) weigh 0.
 * The largest score comes back in units of log2, and the sum of the weights as they are stored. */
INLINE void weigh(float *scores, int64_t width, int64_t low, int64_t high, float scale, float softcap, int half,
                  float *top, float *total) {
    __m512 best = _mm512_set1_ps(NOTHING);
    if (softcap != 0.0f) {
        __m512 inward = _mm512_set1_ps(scale / softcap), cap = _mm512_set1_ps(softcap);
        for (int64_t at = 0; at < width; at += LANES) {
            __m512 score = _mm512_mul_ps(_mm512_loadu_ps(scores + at), inward);
            _mm512_storeu_ps(scores + at, _mm512_mul_ps(tanh_of(score), cap));
        }
        scale = 1.0f;
    }
    for (int64_t at = 0; at < width; at += LANES) {
        __mmask16 seen = lanes16(high - at) & ~lanes16(low - at);
        best = _mm512_mask_max_ps(best, seen, best, _mm512_loadu_ps(scores + at));
    }
    __m512 factor = _mm512_set1_ps(scale * LOG2E);
    float greatest = _mm512_reduce_max_ps(best);
    float peak = high > low ? greatest * (scale * LOG2E) : NOTHING;
    __m512 sums = _mm512_setzero_ps(), shift = _mm512_set1_ps(peak);
    for (int64_t at = 0; at < width; at += LANES) {
        __mmask16 seen = lanes16(high - at) & ~lanes16(low - at);
        __m512 weight = exp2_of(_mm512_fmsub_ps(_mm512_loadu_ps(scores + at), factor, shift));
        weight = _mm512_maskz_mov_ps(seen, weight);
#ifdef __AVX512BF16__
        if (half) {
            __m256i rounded = (__m256i)_mm512_cvtneps_pbh(weight);
            weight = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
            _mm256_storeu_si256((__m256i *)((char *)scores + at * 2), rounded);
        } else
#endif
            _mm512_storeu_ps(scores + at, weight);
        sums = _mm512_add_ps(sums, weight);
    }
    *top = peak;
    *total = _mm512_reduce_add_ps(sums);
}

/* What a block gives a row, ``found`` under its own top and total, joins the row's average. */
INLINE void merge(float *average, const float *found, int64_t width, float *top, float *total, float block_top,
                  float block_total) {
    float new_top = *top > block_top ? *top : block_top;
    float old_weight = _mm512_cvtss_f32(exp2_of(_mm512_set1_ps(*top - new_top)));
    float new_weight = _mm512_cvtss_f32(exp2_of(_mm512_set1_ps(block_top - new_top)));
    __m512 keep = _mm512_set1_ps(old_weight), add = _mm512_set1_ps(new_weight);
    for (int64_t at = 0; at < width; at += LANES) {
        __m512 old = _mm512_mul_ps(_mm512_loadu_ps(average + at), keep);
        _mm512_storeu_ps(average + at, _mm512_fmadd_ps(_mm512_loadu_ps(found + at), add, old));
    }
    *top = new_top;
    *total = *total * old_weight + block_total * new_weight;
}

/* Rows [first, first + count) of a tile meet a block that is packed; rows are those of the call. */
INLINE void meet(const Call *call, const Room *room, const int32_t (*rows)[4], int64_t first, int64_t count,
                 int64_t block_start, int64_t columns, int half) {
    int64_t low[MAX_ROWS], high[MAX_ROWS], used = 0, depth = half ? BLOCK / 2 : BLOCK;
    float tops[MAX_ROWS], totals[MAX_ROWS];
    for (int64_t r = 0; r < count; r++) {
        high[r] = most(0, least(rows[first + r][2] + 1 - block_start, BLOCK));
        low[r] = most(0, rows[first + r][3] - block_start);
        if (low[r] < high[r]) used = most(used, high[r]);
    }
    used = round_up(used, LANES);
    if (!used) return;
    panels(half, count, room->queries + first * room->key_words, room->key_words, room->keys, columns, used,
           room->key_words, room->key_words, room->scores, BLOCK);
    for (int64_t r = 0; r < count; r++)
        weigh(room->scores + r * BLOCK, used, low[r], high[r], call->scale, call->softcap, half, tops + r, totals + r);
    panels(half, count, room->scores, BLOCK, room->values, room->value_width, room->value_width, depth,
           half ? used / 2 : used, room->found, room->value_width);
    for (int64_t r = 0; r < count; r++) {
        int64_t row = first + r;
        merge(room->averages + row * room->value_width, room->found + r * room->value_width, room->value_width,
              room->tops + row, room->totals + row, tops[r], totals[r]);
    }
}

INLINE void store(const Call *call, const Room *room, int64_t row, char *out, float sink, int has_sink, int half) {
    float total = room->totals[row], keep = 1.0f;
    if (has_sink) {
        float other = sink * LOG2E, top = room->tops[row] > other ? room->tops[row] : other;
        keep = _mm512_cvtss_f32(exp2_of(_mm512_set1_ps(room->tops[row] - top)));
        total = total * keep + _mm512_cvtss_f32(exp2_of(_mm512_set1_ps(other - top)));
    }
    __m512 share = _mm512_set1_ps(keep / total);
    for (int64_t at = 0; at < call->value_size; at += LANES) {
        __mmask16 there = lanes16(call->value_size - at);
        __m512 value = _mm512_mul_ps(_mm512_loadu_ps(room->averages + row * room->value_width + at), share);
#ifdef __AVX512BF16__
        if (half) {
            _mm256_mask_storeu_epi16(out + at * 2, there, (__m256i)_mm512_cvtneps_pbh(value));
            continue;
        }
#endif
        _mm512_mask_storeu_ps(out + at * 4, there, value);
    }
}

INLINE void tile(const Call *call, const Room *room, int64_t number, int64_t head, int half) {
    const int32_t *bounds = call->tiles + 4 * number;
    const int32_t(*rows)[4] = (const int32_t(*)[4])call->rows + bounds[0];
    int64_t count = bounds[1] - bounds[0], shift = half ? 1 : 2;
    for (int64_t r = 0; r < count; r++) {
        const char *from = call->queries +
                           ((rows[r][0] * call->query_token + (head * call->group + rows[r][1]) * call->query_head) << shift);
        char *into = (char *)(room->queries + r * room->key_words);
        memset(into, 0, room->key_words * 4);
        memcpy(into, from, call->key_size << shift);
        room->tops[r] = NOTHING;
        room->totals[r] = 0.0f;
    }
    memset(room->averages, 0, count * room->value_width * 4);
    for (int64_t m = bounds[2]; m < bounds[3]; m++) {
        const int32_t *meeting = call->meetings + 4 * m, *pages = call->pages + meeting[0];
        int64_t block_start = meeting[1], width = 0;
        for (int64_t r = meeting[2]; r < meeting[3]; r++)
            if (rows[r][3] < block_start + BLOCK) width = most(width, least(rows[r][2] + 1 - block_start, BLOCK));
        if (width <= 0) continue;
        int64_t columns = round_up(width, LANES);
        pack_keys(call, room, pages, head, width, half);
        pack_values(call, room, pages, head, width, half ? columns / 2 : columns,
                    m + 1 < bounds[3] && call->page_size == BLOCK ? call->pages + meeting[4] : 0, half);
        for (int64_t r = meeting[2]; r < meeting[3]; r += MAX_ROWS)
            meet(call, room, rows, r, least(MAX_ROWS, meeting[3] - r), block_start, columns, half);
    }
    for (int64_t r = 0; r < count; r++) {
        int64_t query_head = head * call->group + rows[r][1];
        char *out = call->out + ((rows[r][0] * call->out_token + query_head * call->out_head) << shift);
        store(call, room, r, out, call->sinks ? call->sinks[query_head] : 0.0f, call->sinks != 0, half);
    }
}

INLINE Room room_in(char *memory, const Call *call, int64_t rows, int half) {
    Room room = {.key_words = half ? round_up(call->key_size, 2) / 2 : call->key_size,
                 .value_width = round_up(call->value_size, LANES)};
    float *at = (float *)memory;
#define TAKE(name, floats) room.name = at, at += round_up(floats, LANES)
    TAKE(queries, rows * room.key_words);
    TAKE(keys, BLOCK * room.key_words);
    TAKE(values, BLOCK * room.value_width);
    TAKE(averages, rows * room.value_width);
    TAKE(tops, rows);
    TAKE(totals, rows);
    TAKE(scores, MAX_ROWS * BLOCK);
    TAKE(found, MAX_ROWS * room.value_width);
#undef TAKE
    return room;
}

INLINE void attend(const Call *call, int half) {
    int64_t rows = 0;
    for (int64_t number = 0; number < call->num_tiles; number++)
        rows = most(rows, call->tiles[4 * number + 1] - call->tiles[4 * number]);
#pragma omp parallel num_threads(call->threads)
    {
        Room room = room_in(call->scratch + omp_get_thread_num() * call->scratch_bytes, call, rows, half);
#pragma omp for schedule(dynamic)
        for (int64_t item = 0; item < call->num_tiles * call->kv_heads; item++)
            tile(call, &room, item / call->kv_heads, item % call->kv_heads, half);
    }
}

void attend_float32(const Call *call) { attend(call, 0); }

#ifdef __AVX512BF16__
void attend_bfloat16(const Call *call) { attend(call, 1); }
#endif
