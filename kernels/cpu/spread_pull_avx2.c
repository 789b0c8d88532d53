/* spread_pull_avx2: four targets at a time, a lane each; otherwise as spread_pull_avx512.c. */
#include "kernels/spread.h"

#include <immintrin.h>

enum { LANES = 4, LONG = 32 };

struct lane_sums {
    __m256d high, low;
};

struct lane_grid {
    __m256d high, low;
};

static inline void add(struct lane_sums *s, struct lane_grid g, __m128 sent, __m128 weights)
{
    __m256d x = _mm256_cvtps_pd(sent), w = _mm256_cvtps_pd(weights);
    __m256d q = _mm256_sub_pd(_mm256_fmadd_pd(x, w, g.high), g.high);
    __m256d r = _mm256_fmsub_pd(x, w, q);
    s->high = _mm256_add_pd(s->high, q);
    s->low = _mm256_add_pd(s->low, _mm256_sub_pd(_mm256_add_pd(r, g.low), g.low));
}

/* Eight edges: four for one sum, four for another (or the same). */
static inline void add_edges(struct lane_sums *first, struct lane_sums *second, struct lane_grid g,
                             const float *sent, __m256i a, __m256i b)
{
    __m256 low = _mm256_castsi256_ps(_mm256_permute2x128_si256(a, b, 0x20));
    __m256 high = _mm256_castsi256_ps(_mm256_permute2x128_si256(a, b, 0x31));
    /* Halves: a's edges 0 1 2 3, then b's. */
    __m256i nodes = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88));
    __m256 weights = _mm256_shuffle_ps(low, high, 0xdd);
    __m256 x = _mm256_i32gather_ps(sent, nodes, 4);
    add(first, g, _mm256_castps256_ps128(x), _mm256_castps256_ps128(weights));
    add(second, g, _mm256_extractf128_ps(x, 1), _mm256_extractf128_ps(weights, 1));
}

static const int64_t masks[2 * LANES] = {-1, -1, -1, -1, 0, 0, 0, 0};

/* Up to four edges; zeros behind them, which add nothing. */
static inline __m256i load(const struct spread_edge *edges, uint32_t count)
{
    uint32_t missing = count < LANES ? LANES - count : 0;
    __m256i mask = _mm256_loadu_si256((const __m256i *)(masks + missing));
    return _mm256_maskload_epi64((const long long *)edges, mask);
}

static double total(__m256d v)
{
    __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

static struct spread_sum pull_long(const struct spread_edge *edges, uint32_t count,
                                   struct lane_grid g, const float *sent)
{
    struct lane_sums a = {_mm256_setzero_pd(), _mm256_setzero_pd()}, b = a;
    for (uint32_t e = 0; e < count; e += 2 * LANES) {
        uint32_t left = count - e;
        add_edges(&a, &b, g, sent, load(edges + e, left),
                  load(edges + e + LANES, left > LANES ? left - LANES : 0));
    }
    struct spread_sum sum = {total(_mm256_add_pd(a.high, b.high)),
                             total(_mm256_add_pd(a.low, b.low))};
    return sum;
}

static inline void turn(__m256i r[LANES])
{
    __m256i a = _mm256_unpacklo_epi64(r[0], r[1]), b = _mm256_unpackhi_epi64(r[0], r[1]);
    __m256i c = _mm256_unpacklo_epi64(r[2], r[3]), d = _mm256_unpackhi_epi64(r[2], r[3]);
    r[0] = _mm256_permute2x128_si256(a, c, 0x20);
    r[1] = _mm256_permute2x128_si256(b, d, 0x20);
    r[2] = _mm256_permute2x128_si256(a, c, 0x31);
    r[3] = _mm256_permute2x128_si256(b, d, 0x31);
}

static void pull_four(const struct spread_graph *graph, const struct spread_list lists[LANES],
                      uint32_t longest, struct lane_grid g, const float *sent,
                      struct spread_sum *sums)
{
    struct lane_sums a = {_mm256_setzero_pd(), _mm256_setzero_pd()}, b = a;
    for (uint32_t e = 0; e < longest; e += LANES) {
        __m256i rows[LANES];
        for (int i = 0; i < LANES; i++)
            rows[i] = load(graph->in_edges + lists[i].first + e,
                           lists[i].count > e ? lists[i].count - e : 0);
        turn(rows);
        add_edges(&a, &b, g, sent, rows[0], rows[1]);
        if (e + 2 < longest) add_edges(&a, &b, g, sent, rows[2], rows[3]);
    }
    __m256d high = _mm256_add_pd(a.high, b.high), low = _mm256_add_pd(a.low, b.low);
    __m256d evens = _mm256_unpacklo_pd(high, low), odds = _mm256_unpackhi_pd(high, low);
    _mm256_storeu_pd(&sums[0].high, _mm256_permute2f128_pd(evens, odds, 0x20));
    _mm256_storeu_pd(&sums[2].high, _mm256_permute2f128_pd(evens, odds, 0x31));
}

static void pull(const struct spread_graph *graph, const uint32_t *order, size_t count,
                 const float *sent, struct spread_sum *sums)
{
    struct lane_grid g = {_mm256_set1_pd(graph->grid.high), _mm256_set1_pd(graph->grid.low)};
    for (size_t i = 0; i < count; i += LANES) {
        struct spread_list lists[LANES] = {{0}};
        struct spread_sum results[LANES];
        uint32_t longest = 0, lanes = count - i < LANES ? (uint32_t)(count - i) : LANES;
        for (uint32_t j = 0; j < lanes; j++) {
            lists[j] = graph->in[order[i + j]];
            if (lists[j].count > longest) longest = lists[j].count;
        }
        if (longest < LONG) {
            pull_four(graph, lists, longest, g, sent, results);
        } else {
            for (uint32_t j = 0; j < lanes; j++)
                results[j] = pull_long(graph->in_edges + lists[j].first, lists[j].count, g, sent);
        }
        for (uint32_t j = 0; j < lanes; j++)
            sums[i + j] = results[j];
    }
}

const struct spread_kernels spread_avx2 = {"avx2", pull};
