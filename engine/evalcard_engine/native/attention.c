/* Attention of packed rows over paged keys and values, for CPUs with AVX-512.
 *
 * A row q with its keys k_j and values v_j gets sum_j softmax_j(scale * q.k_j) v_j. Keys are met in blocks of BLOCK
 * absolute positions: each gives its own average under its own largest score, and blocks are merged in order (online
 * softmax: Milakov and Gimelshein, arXiv 1805.02867). Every step below treats rows apart, so nothing a row gives
 * depends on the rows beside it, on the tile it lies in, or on the threads.
 *
 * One body serves both number formats; words are those of products.h.
 */
#include <omp.h>

#include "straight.h"

#define BLOCK 256
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

/* A block as the rows of a tile meet it: of its keys and values those that any row sees. */
typedef struct {
    int64_t start, width; /* its first position, and how many are seen */
    const char *keys[BLOCK], *values[BLOCK];
    const char *soon[BLOCK]; /* keys that are met next */
    int has_soon;
} Block;

/* Keys as columns; those up to the next multiple of LANES are zeros. */
INLINE void pack_keys(const Call *call, const Room *room, const Block *block, int half) {
    int64_t columns = round_up(block->width, LANES), shift = half ? 1 : 2;
    for (int64_t first = 0; first < columns; first += LANES) {
        int64_t panel = first / PANEL * PANEL, row = least(columns - panel, PANEL);
        int64_t there = least(block->width - first, LANES);
        float *into = room->keys + panel * room->key_words + (first - panel);
        for (int64_t i = 0; i < there; i++) fetch(block->values[first + i], call->value_size << shift);
        for (int64_t word = 0; word < room->key_words; word += LANES) {
            int64_t count = least(room->key_words - word, LANES);
            __m512i square[LANES];
            square_of(block->keys + first, there, word, call->key_size, half, square);
            for (int64_t i = 0; i < count; i++) _mm512_storeu_si512(into + (word + i) * row, square[i]);
        }
    }
}

/* Values as rows, of bfloat16 two side by side; up to the next multiple of LANES they are zeros. */
INLINE void pack_values(const Call *call, const Room *room, const Block *block, int half) {
    int64_t size = call->value_size, columns = room->value_width, width = block->width, shift = half ? 1 : 2;
    int64_t depth = round_up(width, LANES) / (half ? 2 : 1);
    for (int64_t word = 0; word < depth; word++) {
        int64_t key = half ? 2 * word : word;
        const char *one = key < width ? block->values[key] : 0;
        const char *two = half && key + 1 < width ? block->values[key + 1] : 0;
        if (one && block->has_soon) fetch(block->soon[key], call->key_size << shift);
        if (two && block->has_soon) fetch(block->soon[key + 1], call->key_size << shift);
        for (int64_t column = 0; column < columns; column += LANES) {
            int64_t panel = column / PANEL * PANEL;
            float *into = room->values + panel * (half ? BLOCK / 2 : BLOCK);
            _mm512_storeu_si512(into + word * least(columns - panel, PANEL) + (column - panel),
                                pair_of(one, two, column, size, half));
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

/* Scores of ``count`` rows from ``first`` on with the first ``used`` keys, as they lie or packed. */
INLINE void score(const Call *call, const Room *room, const Block *block, int64_t first, int64_t count, int64_t used,
                  int is_packed, int half) {
    const float *queries = room->queries + first * room->key_words;
    if (is_packed)
        panels(half, count, queries, room->key_words, room->keys, round_up(block->width, LANES), used, room->key_words,
               room->key_words, room->scores, BLOCK);
    else
        scores_from[half][count - 1](queries, room->key_words, block->keys, call->key_size, block->width, block->values,
                                     call->value_size << (half ? 1 : 2), room->scores, BLOCK);
}

/* Averages of the first ``used`` values by the weights of ``count`` rows. */
INLINE void average(const Call *call, const Room *room, const Block *block, int64_t count, int64_t used, int is_packed,
                    int half) {
    int64_t columns = room->value_width;
    if (is_packed) {
        panels(half, count, room->scores, BLOCK, room->values, columns, columns, half ? BLOCK / 2 : BLOCK,
               half ? used / 2 : used, room->found, columns);
        return;
    }
    for (int64_t at = 0; at < columns; at += PANEL)
        averages_from[half][count - 1][least(columns - at, PANEL) / LANES - 1](
            room->scores, BLOCK, block->values, at, call->value_size, least(used, block->width),
            at == 0 && block->has_soon ? block->soon : 0, call->key_size << (half ? 1 : 2), room->found + at, columns);
}

/* Rows [first, first + count) of a tile meet a block; rows are those of the call. */
INLINE void meet(const Call *call, const Room *room, const int32_t (*rows)[4], int64_t first, int64_t count,
                 const Block *block, int is_packed, int half) {
    int64_t low[MAX_ROWS], high[MAX_ROWS], used = 0;
    float tops[MAX_ROWS], totals[MAX_ROWS];
    for (int64_t r = 0; r < count; r++) {
        high[r] = most(0, least(rows[first + r][2] + 1 - block->start, BLOCK));
        low[r] = most(0, rows[first + r][3] - block->start);
        if (low[r] < high[r]) used = most(used, high[r]);
    }
    used = round_up(used, LANES);
    if (!used) return;
    score(call, room, block, first, count, used, is_packed, half);
    for (int64_t r = 0; r < count; r++)
        weigh(room->scores + r * BLOCK, used, low[r], high[r], call->scale, call->softcap, half, tops + r, totals + r);
    average(call, room, block, count, used, is_packed, half);
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
        Block block; /* not cleared: it is large */
        block.start = block_start, block.width = width;
        rows_of(call->keys, call, pages, head, width, call->key_size, half, block.keys);
        rows_of(call->values, call, pages, head, width, call->value_size, half, block.values);
        block.has_soon = m + 1 < bounds[3] && call->page_size == BLOCK;
        if (block.has_soon)
            rows_of(call->keys, call, call->pages + meeting[4], head, width, call->key_size, half, block.soon);
        int is_packed = meeting[3] - meeting[2] > MAX_ROWS;
        if (is_packed) {
            pack_keys(call, room, &block, half);
            pack_values(call, room, &block, half);
        }
        for (int64_t r = meeting[2]; r < meeting[3]; r += MAX_ROWS)
            meet(call, room, rows, r, least(MAX_ROWS, meeting[3] - r), &block, is_packed, half);
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
