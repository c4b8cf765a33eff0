/* What draws of tokens take: whole-number sums over a row's exponentials (rows.py), the tokens that top-p keeps
 * (sampler.py), and the bits behind the noise (noise.py), for CPUs with AVX-512. Nothing here rounds, so the results are
 * those of any other way to reckon them.
 */
#include <stdlib.h>

#include "vectors.h"

#define WIDE 8 /* numbers of 64 bits in a vector */

INLINE __mmask8 lanes8(int64_t n) { return n >= WIDE ? 0xff : n <= 0 ? 0 : (__mmask8)((1u << n) - 1); }

/* Of numbers from 0 to 1, in units of 1 / unit, a power of two: cut to whole ones. */
INLINE __m512i masses_of(const float *exponentials, __mmask8 there, __m256 unit) {
    return _mm512_cvttps_epi64(_mm256_mul_ps(_mm256_maskz_loadu_ps(there, exponentials), unit));
}

INLINE int64_t mass_of(float exponential, float unit) { return (int64_t)(exponential * unit); }

#define LEVELS 3

/* What a row weighs in all, and of it what weighs at least as much as each level. */
typedef struct {
    int64_t all, from[LEVELS];
} Weighed;

INLINE Weighed weigh(const float *exponentials, int64_t count, float unit, const int64_t *levels) {
    __m512i total = _mm512_setzero_si512(), from[LEVELS], edges[LEVELS];
    __m256 units = _mm256_set1_ps(unit);
    for (int i = 0; i < LEVELS; i++) from[i] = total, edges[i] = _mm512_set1_epi64(levels[i]);
    for (int64_t at = 0; at < count; at += WIDE) {
        __m512i masses = masses_of(exponentials + at, lanes8(count - at), units);
        total = _mm512_add_epi64(total, masses);
        for (int i = 0; i < LEVELS; i++)
            from[i] = _mm512_mask_add_epi64(from[i], _mm512_cmpge_epi64_mask(masses, edges[i]), from[i], masses);
    }
    Weighed weighed = {.all = _mm512_reduce_add_epi64(total)};
    for (int i = 0; i < LEVELS; i++) weighed.from[i] = _mm512_reduce_add_epi64(from[i]);
    return weighed;
}

/* Where the mass is at least ``floor``, ascending; returns how many places these are. */
INLINE int64_t heavy_places(const float *exponentials, int64_t count, float unit, int64_t floor, int64_t *places) {
    /* Below every number that is heavy; those at hand are looked at one by one. */
    __m512 edge = _mm512_set1_ps(floor > 0 ? (float)floor / unit * 0.999999f : -1.0f);
    int64_t found = 0;
    for (int64_t at = 0; at < count; at += LANES) {
        __mmask16 there = lanes16(count - at);
        unsigned near = _mm512_mask_cmp_ps_mask(there, _mm512_maskz_loadu_ps(there, exponentials + at), edge, _CMP_GE_OQ);
        for (; near; near &= near - 1) {
            int64_t place = at + __builtin_ctz(near);
            if (mass_of(exponentials[place], unit) >= floor) places[found++] = place;
        }
    }
    return found;
}

#define BUCKETS 1024
#define STEPS 16.0f /* buckets of a unit of the logits; the last one holds all that is further away */

/* By the distance from the largest value, so that no value of a bucket is beyond one of the bucket before. */
INLINE int64_t bucket_of(float value, float top) {
    float steps = (top - value) * STEPS;
    return steps < BUCKETS - 1 ? (int64_t)steps : BUCKETS - 1;
}

typedef struct {
    float value;
    int32_t place; /* in the row */
    int64_t mass;
} Candidate;

/* The largest value first; equal ones in the order of their places. */
static int in_order(const void *one, const void *other) {
    const Candidate *a = one, *b = other;
    if (a->value != b->value) return a->value > b->value ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Of the ``count`` places that are candidates, ascending, those of the largest values until their masses reach
 * ``wanted``: they stay in ``places``, ascending; returns how many they are, -1 without memory. */
INLINE int64_t nucleus(const float *values, const float *exponentials, float unit, float top, int64_t wanted,
                       int64_t *places, int64_t count) {
    int64_t masses[BUCKETS] = {0}, before = 0, edge = 0, at_edge = 0, kept = 0;
    for (int64_t i = 0; i < count; i++)
        masses[bucket_of(values[places[i]], top)] += mass_of(exponentials[places[i]], unit);
    while (edge < BUCKETS - 1 && before + masses[edge] < wanted) before += masses[edge++];
    Candidate *candidates = malloc((count ? count : 1) * sizeof *candidates), last = {0};
    if (!candidates) return -1;
    for (int64_t i = 0; i < count; i++) {
        float value = values[places[i]];
        int64_t bucket = bucket_of(value, top);
        if (bucket > edge) continue;
        if (bucket == edge)
            candidates[at_edge++] = (Candidate){value, (int32_t)places[i], mass_of(exponentials[places[i]], unit)};
        places[kept++] = places[i];
    }
    qsort(candidates, at_edge, sizeof *candidates, in_order);
    int64_t taken = 0;
    for (; taken < at_edge && before < wanted; taken++) before += candidates[taken].mass;
    if (taken) last = candidates[taken - 1];
    free(candidates);
    count = kept, kept = 0;
    for (int64_t i = 0; i < count; i++) {
        Candidate one = {values[places[i]], (int32_t)places[i], 0};
        if (bucket_of(one.value, top) < edge || (taken && in_order(&one, &last) <= 0)) places[kept++] = places[i];
    }
    return kept;
}

/* The places of a row, ascending, that pass top-p (``share`` below 1) and then weigh at least ``least_mass`` and have a
 * value of at least ``least_value``; returns how many they are, -1 without memory. values are finite, ``top`` the largest
 * of them; places [count]. */
int64_t likely_places(const float *values, const float *exponentials, int64_t count, float unit, float top,
                      double share, int64_t least_mass, float least_value, int64_t *places) {
    int64_t found, kept = 0;
    if (share < 1.0) {
        int64_t greatest = (int64_t)unit, levels[LEVELS] = {greatest >> 8, greatest >> 11, greatest >> 15};
        Weighed weighed = weigh(exponentials, count, unit, levels);
        __m128d share_of_all = _mm_set_sd(share * (double)weighed.all);
        int64_t wanted = most(1, (int64_t)_mm_cvtsd_f64(_mm_ceil_sd(share_of_all, share_of_all)));
        /* The set lies above a level that weighs enough, and above this floor in any case: what is below it weighs less
         * together than what may be left out. */
        int64_t floor = (int64_t)((1.0 - share) * (double)weighed.all / (double)count * 0.999);
        for (int i = LEVELS - 1; i >= 0; i--)
            if (weighed.from[i] >= wanted) floor = most(floor, levels[i]);
        found = heavy_places(exponentials, count, unit, floor, places);
        found = nucleus(values, exponentials, unit, top, wanted, places, found);
    } else {
        found = heavy_places(exponentials, count, unit, least_mass, places);
    }
    for (int64_t i = 0; i < found; i++)
        if (mass_of(exponentials[places[i]], unit) >= least_mass && values[places[i]] >= least_value)
            places[kept++] = places[i];
    return found < 0 ? found : kept;
}

/* Philox4x32-10, as noise.py has it: word token % 4 of the counter (token / 4, position, repeat, 0) under a key. */
INLINE uint32_t philox_word(uint32_t block, uint32_t position, uint32_t repeat, uint32_t low, uint32_t high, int word) {
    uint32_t c[4] = {block, position, repeat, 0};
    for (int round = 0; round < 10; round++) {
        uint64_t first = (uint64_t)0xD2511F53u * c[0], second = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(second >> 32) ^ c[1] ^ low, (uint32_t)second, (uint32_t)(first >> 32) ^ c[3] ^ high,
                            (uint32_t)first};
        memcpy(c, next, sizeof c);
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return c[word];
}

/* The words of tokens [count], those of one answer under one address: its key's halves, position and repeat. */
void philox_words(const int64_t *tokens, int64_t count, uint32_t low, uint32_t high, uint32_t position, uint32_t repeat,
                  int64_t *words) {
    for (int64_t i = 0; i < count; i++)
        words[i] = philox_word((uint32_t)(tokens[i] >> 2), position, repeat, low, high, (int)(tokens[i] & 3));
}
