/* spread_pull_avx512: eight targets at a time, a lane each: neighbours in the order have lists of like
 * length. Blocks of eight edges of each are turned, so that a vector holds one edge of every target.
 * Long lists go one by one, with a lane for every eighth edge. */
#include "kernels/spread.h"

#include <immintrin.h>

enum { LANES = 8, LONG = 64 };

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

static inline void turn(__m512i r[LANES])
{
    __m512i a[LANES], b[LANES];
    for (int i = 0; i < LANES; i += 2) {
        a[i] = _mm512_unpacklo_epi64(r[i], r[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi64(r[i], r[i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        b[i] = _mm512_shuffle_i64x2(a[i], a[i + 2], 0x88);
        b[i + 2] = _mm512_shuffle_i64x2(a[i], a[i + 2], 0xdd);
        b[i + 4] = _mm512_shuffle_i64x2(a[i + 4], a[i + 6], 0x88);
        b[i + 6] = _mm512_shuffle_i64x2(a[i + 4], a[i + 6], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i64x2(b[i], b[i + 4], 0x88);
        r[i + 4] = _mm512_shuffle_i64x2(b[i], b[i + 4], 0xdd);
    }
}

static void pull_eight(const struct spread_graph *graph, const struct spread_list lists[LANES],
                       uint32_t longest, struct lane_grid g, const float *sent,
                       struct spread_sum *sums)
{
    struct lane_sums a = {_mm512_setzero_pd(), _mm512_setzero_pd()}, b = a;
    for (uint32_t e = 0; e < longest; e += LANES) {
        __m512i rows[LANES];
        for (int i = 0; i < LANES; i++)
            rows[i] = load(graph->in_edges + lists[i].first + e,
                           lists[i].count > e ? lists[i].count - e : 0);
        turn(rows);
        for (uint32_t i = 0; i < LANES && e + i < longest; i += 2)
            add_edges(&a, &b, g, sent, rows[i], rows[i + 1]);
    }
    __m512d high = _mm512_add_pd(a.high, b.high), low = _mm512_add_pd(a.low, b.low);
    const __m512i front = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i back = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    _mm512_storeu_pd(&sums[0].high, _mm512_permutex2var_pd(high, front, low));
    _mm512_storeu_pd(&sums[4].high, _mm512_permutex2var_pd(high, back, low));
}

static void pull(const struct spread_graph *graph, const uint32_t *order, size_t count,
                 const float *sent, struct spread_sum *sums)
{
    struct lane_grid g = {_mm512_set1_pd(graph->grid.high), _mm512_set1_pd(graph->grid.low)};
    for (size_t i = 0; i < count; i += LANES) {
        struct spread_list lists[LANES] = {{0}};
        struct spread_sum results[LANES];
        uint32_t longest = 0, lanes = count - i < LANES ? (uint32_t)(count - i) : LANES;
        for (uint32_t j = 0; j < lanes; j++) {
            lists[j] = graph->in[order[i + j]];
            if (lists[j].count > longest) longest = lists[j].count;
        }
        if (longest < LONG) {
            pull_eight(graph, lists, longest, g, sent, results);
        } else {
            for (uint32_t j = 0; j < lanes; j++)
                results[j] = pull_long(graph->in_edges + lists[j].first, lists[j].count, g, sent);
        }
        for (uint32_t j = 0; j < lanes; j++)
            sums[i + j] = results[j];
    }
}

const struct spread_kernels spread_avx512 = {"avx512", pull};
