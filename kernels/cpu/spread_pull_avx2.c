/* spread_pull_avx2: four targets at a time, one in each lane; otherwise as spread_pull_avx512.c. */
#include "kernels/cpu/spread_inside.h"

#include <immintrin.h>

enum { LANES = 4, LONG = 16, AHEAD = 32 /* AHEAD: how many lists ahead is prefetched */ };

struct lane_sums_avx2 {
    __m256d high, low;
};

struct lane_grid_avx2 {
    __m256d high, low;
};

static inline void add(struct lane_sums_avx2 *s, struct lane_grid_avx2 g, __m128 sent,
                       __m128 weights)
{
    __m256d x = _mm256_cvtps_pd(sent), w = _mm256_cvtps_pd(weights);
    __m256d q = _mm256_sub_pd(_mm256_fmadd_pd(x, w, g.high), g.high);
    __m256d r = _mm256_fmsub_pd(x, w, q);
    s->high = _mm256_add_pd(s->high, q);
    s->low = _mm256_add_pd(s->low, _mm256_sub_pd(_mm256_add_pd(r, g.low), g.low));
}

/* Adds eight edges: four to one sum, four to another (or the same). */
static inline void add_edges(struct lane_sums_avx2 *first, struct lane_sums_avx2 *second,
                             struct lane_grid_avx2 g, const float *sent, __m256i a, __m256i b)
{
    __m256 low = _mm256_castsi256_ps(_mm256_permute2x128_si256(a, b, 0x20));
    __m256 high = _mm256_castsi256_ps(_mm256_permute2x128_si256(a, b, 0x31));
    /* The low half: edges 0 1 2 3 of a; the high half: those of b. */
    __m256i nodes = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88));
    __m256 weights = _mm256_shuffle_ps(low, high, 0xdd);
    __m256 x = _mm256_i32gather_ps(sent, nodes, 4);
    add(first, g, _mm256_castps256_ps128(x), _mm256_castps256_ps128(weights));
    add(second, g, _mm256_extractf128_ps(x, 1), _mm256_extractf128_ps(weights, 1));
}

static const int64_t masks[2 * LANES] = {-1, -1, -1, -1, 0, 0, 0, 0};

/* Loads up to four edges, and zeros behind them, which add nothing. */
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

static struct spread_sum pull_long(const struct spread_run *r, struct spread_list list,
                                   struct lane_grid_avx2 g, const float *sent, uint64_t *since)
{
    const struct spread_edge *edges = r->graph->in_edges + list.first;
    struct lane_sums_avx2 a = {_mm256_setzero_pd(), _mm256_setzero_pd()}, b = a;
    for (uint32_t e = 0, count = list.count; e < count;) {
        uint32_t first = e, end = spread_pull_end(e, count);
        for (; e < end; e += 2 * LANES) {
            uint32_t left = count - e;
            add_edges(&a, &b, g, sent, load(edges + e, left),
                      load(edges + e + LANES, left > LANES ? left - LANES : 0));
        }
        spread_pull_pace(r, since, end - first);
    }
    struct spread_sum sum = {total(_mm256_add_pd(a.high, b.high)),
                             total(_mm256_add_pd(a.low, b.low))};
    return sum;
}

/* Where the lists of four targets begin, and how long they are. */
struct lane_lists {
    __m256i first, count;
};

static inline struct lane_lists lists_of(const struct spread_list *in, const uint32_t *order)
{
    __m128i lists[LANES];
    for (uint32_t i = 0; i < LANES; i++)
        lists[i] = _mm_loadu_si128((const __m128i *)&in[spread_window_place(order[i])]);
    __m256i even = _mm256_setr_m128i(lists[0], lists[2]),
            odd = _mm256_setr_m128i(lists[1], lists[3]);
    struct lane_lists l = {
        _mm256_unpacklo_epi64(even, odd),
        _mm256_and_si256(_mm256_unpackhi_epi64(even, odd), _mm256_set1_epi64x(UINT32_MAX))};
    return l;
}

/* Loads edge e of each list that is long enough. */
static inline __m256i pick(const struct spread_graph *graph, struct lane_lists l, uint32_t e)
{
    __m256i at = _mm256_set1_epi64x(e), mask = _mm256_cmpgt_epi64(l.count, at);
    return _mm256_mask_i64gather_epi64(_mm256_setzero_si256(), (const long long *)graph->in_edges,
                                       _mm256_add_epi64(l.first, at), mask, 8);
}

static inline void pull_four(const struct spread_graph *graph, struct lane_lists l,
                             uint32_t longest, struct lane_grid_avx2 g, const float *sent,
                             float decay, float received[LANES])
{
    struct lane_sums_avx2 a = {_mm256_setzero_pd(), _mm256_setzero_pd()}, b = a;
    for (uint32_t e = 0; e < longest; e += 2)
        add_edges(&a, &b, g, sent, pick(graph, l, e), pick(graph, l, e + 1));
    __m256d high = _mm256_add_pd(a.high, b.high), low = _mm256_add_pd(a.low, b.low);
    __m256d sums = _mm256_mul_pd(_mm256_add_pd(high, low), _mm256_set1_pd((double)decay));
    _mm_storeu_ps(received, _mm_min_ps(_mm256_cvtpd_ps(sums), _mm_set1_ps(1.0f)));
}

/* What targets receive. */
struct lane_targets {
    const uint32_t *order;
    uint32_t lanes;
    float received[LANES];
};

static inline void pull_each(const struct spread_run *r, struct lane_targets *t,
                             struct lane_grid_avx2 g, const float *sent, float decay,
                             uint64_t *since)
{
    const struct spread_list *in = spread_in_window(r->graph, t->order[0]);
    for (uint32_t i = 0; i < t->lanes; i++) {
        struct spread_list list = in[spread_window_place(t->order[i])];
        t->received[i] = spread_received(pull_long(r, list, g, sent, since), decay);
    }
}

static uint32_t longest_of(const struct spread_list *in, const uint32_t *order, uint32_t lanes)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < lanes; i++) {
        uint32_t count = in[spread_window_place(order[i])].count;
        longest = count > longest ? count : longest;
    }
    return longest;
}

static void pull(const struct spread_run *r, const uint32_t *order, size_t count, const float *sent,
                 float decay, float *received)
{
    const struct spread_graph *graph = r->graph;
    struct lane_grid_avx2 g = {_mm256_set1_pd(graph->grid.high), _mm256_set1_pd(graph->grid.low)};
    uint64_t since = 0;
    for (size_t i = 0; i < count && i < AHEAD; i++)
        __builtin_prefetch(spread_in_list(graph, order[i]));
    for (size_t i = 0; i < count; i += LANES) {
        uint32_t lanes = count - i < LANES ? (uint32_t)(count - i) : LANES;
        struct lane_targets t = {.order = order + i, .lanes = lanes};
        for (size_t k = i + AHEAD; k < i + AHEAD + LANES && k < count; k++)
            __builtin_prefetch(spread_in_list(graph, order[k]));
        const struct spread_list *in = spread_in_window(graph, order[i]);
        uint32_t longest = longest_of(in, order + i, lanes);
        if (longest >= LONG || lanes < LANES)
            pull_each(r, &t, g, sent, decay, &since);
        else
            pull_four(graph, lists_of(in, order + i), longest, g, sent, decay, t.received);
        for (uint32_t k = 0; k < lanes; k++)
            received[order[i + k]] = t.received[k];
    }
}

const struct spread_kernels spread_avx2 = {"avx2", pull, spread_settle_avx2};
