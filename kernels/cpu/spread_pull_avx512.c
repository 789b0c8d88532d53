/* spread_pull_avx512: eight targets at a time, a lane each: neighbours in the order have lists of like
 * length. Long lists go one by one, with a lane for every eighth edge. */
#include "kernels/spread.h"

#include <immintrin.h>

enum { LANES = 8, LONG = 16, AHEAD = 32 /* lists fetched before they are read */ };

struct lane_sums {
    __m512d high, low;
};

struct lane_grid {
    __m512d high, low;
};

/* spread_add, for eight. The first product needs no rounding of its own: it is exact. */
static inline void add(struct lane_sums *s, struct lane_grid g, __m256 sent, __m256 weights)
{
    __m512d x = _mm512_cvtps_pd(sent), w = _mm512_cvtps_pd(weights);
    __m512d q = _mm512_sub_pd(_mm512_fmadd_pd(x, w, g.high), g.high);
    __m512d r = _mm512_fmsub_pd(x, w, q);
    s->high = _mm512_add_pd(s->high, q);
    s->low = _mm512_add_pd(s->low, _mm512_sub_pd(_mm512_add_pd(r, g.low), g.low));
}

/* Sixteen edges: eight for one sum, eight for another (or the same). */
static inline void add_edges(struct lane_sums *first, struct lane_sums *second, struct lane_grid g,
                             const float *sent, __m512i a, __m512i b)
{
    const __m512i evens =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odds =
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    __m512i nodes = _mm512_permutex2var_epi32(a, evens, b);
    __m512 weights = _mm512_castsi512_ps(_mm512_permutex2var_epi32(a, odds, b));
    __m512 x = _mm512_i32gather_ps(nodes, sent, 4);
    add(first, g, _mm512_castps512_ps256(x), _mm512_castps512_ps256(weights));
    add(second, g, _mm512_extractf32x8_ps(x, 1), _mm512_extractf32x8_ps(weights, 1));
}

/* Up to eight edges; zeros behind them, which add nothing. */
static inline __m512i load(const struct spread_edge *edges, uint32_t count)
{
    __mmask8 mask = (__mmask8)(count < LANES ? (1u << count) - 1 : 0xff);
    return _mm512_maskz_loadu_epi64(mask, edges);
}

static struct spread_sum pull_long(const struct spread_edge *edges, uint32_t count,
                                   struct lane_grid g, const float *sent)
{
    struct lane_sums a = {_mm512_setzero_pd(), _mm512_setzero_pd()}, b = a;
    for (uint32_t e = 0; e < count; e += 2 * LANES) {
        uint32_t left = count - e;
        add_edges(&a, &b, g, sent, load(edges + e, left),
                  load(edges + e + LANES, left > LANES ? left - LANES : 0));
    }
    struct spread_sum sum = {_mm512_reduce_add_pd(_mm512_add_pd(a.high, b.high)),
                             _mm512_reduce_add_pd(_mm512_add_pd(a.low, b.low))};
    return sum;
}

/* Eight targets: where their lists begin, and how long they are. */
struct lane_lists {
    __m512i first, count;
};

static inline struct lane_lists lists_of(const struct spread_graph *graph, const uint32_t *order,
                                         uint32_t lanes)
{
    __mmask8 mask = (__mmask8)((1u << lanes) - 1);
    __m512i at = _mm512_slli_epi64(_mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(mask, order)),
                                   1); /* 16 bytes each */
    const long long *lists = (const long long *)graph->in;
    struct lane_lists l;
    __m512i none = _mm512_setzero_si512();
    l.first = _mm512_mask_i64gather_epi64(none, mask, at, lists, 8);
    l.count = _mm512_and_si512(_mm512_mask_i64gather_epi64(none, mask, at, lists + 1, 8),
                               _mm512_set1_epi64(UINT32_MAX));
    return l;
}

/* One edge of every list that has so many. */
static inline __m512i pick(const struct spread_graph *graph, struct lane_lists l, uint32_t e)
{
    __m512i at = _mm512_set1_epi64(e);
    __mmask8 mask = _mm512_cmpgt_epi64_mask(l.count, at);
    return _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), mask, _mm512_add_epi64(l.first, at),
                                       (const long long *)graph->in_edges, 8);
}

static inline void write_sums(struct lane_sums a, struct lane_sums b, uint32_t lanes,
                              struct spread_sum *sums)
{
    __m512d high = _mm512_add_pd(a.high, b.high), low = _mm512_add_pd(a.low, b.low);
    const __m512i front = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i back = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    uint32_t mask = (1u << 2 * lanes) - 1;
    _mm512_mask_storeu_pd(sums, (__mmask8)mask, _mm512_permutex2var_pd(high, front, low));
    _mm512_mask_storeu_pd(sums + 4, (__mmask8)(mask >> 8), _mm512_permutex2var_pd(high, back, low));
}

static inline void pull_eight(const struct spread_graph *graph, struct lane_lists l,
                              uint32_t longest, struct lane_grid g, const float *sent,
                              uint32_t lanes, struct spread_sum *sums)
{
    struct lane_sums a = {_mm512_setzero_pd(), _mm512_setzero_pd()}, b = a;
    for (uint32_t e = 0; e < longest; e += 2)
        add_edges(&a, &b, g, sent, pick(graph, l, e), pick(graph, l, e + 1));
    write_sums(a, b, lanes, sums);
}

static inline void pull_each(const struct spread_graph *graph, const uint32_t *order,
                             struct lane_grid g, const float *sent, uint32_t lanes,
                             struct spread_sum *sums)
{
    for (uint32_t i = 0; i < lanes; i++) {
        struct spread_list list = graph->in[order[i]];
        sums[i] = pull_long(graph->in_edges + list.first, list.count, g, sent);
    }
}

static void pull(const struct spread_graph *graph, const uint32_t *order, size_t count,
                 const float *sent, struct spread_sum *sums)
{
    struct lane_grid g = {_mm512_set1_pd(graph->grid.high), _mm512_set1_pd(graph->grid.low)};
    for (size_t i = 0; i < count && i < AHEAD; i++)
        __builtin_prefetch(&graph->in[order[i]]);
    for (size_t i = 0; i < count; i += LANES) {
        uint32_t lanes = count - i < LANES ? (uint32_t)(count - i) : LANES;
        for (size_t k = i + AHEAD; k < i + AHEAD + LANES && k < count; k++)
            __builtin_prefetch(&graph->in[order[k]]);
        struct lane_lists l = lists_of(graph, order + i, lanes);
        uint32_t longest = (uint32_t)_mm512_reduce_max_epu64(l.count);
        if (longest < LONG)
            pull_eight(graph, l, longest, g, sent, lanes, sums + i);
        else
            pull_each(graph, order + i, g, sent, lanes, sums + i);
    }
}

const struct spread_kernels spread_avx512 = {"avx512", pull};
