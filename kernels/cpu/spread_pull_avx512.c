/* spread_pull_avx512: sixteen targets at a time, one in each lane of two vectors. Neighbours in
 * the order have lists of similar length, next to each other in memory. Long lists are summed one
 * by one, with every eighth edge in the same lane. */
#include "kernels/cpu/spread_inside.h"

#include <immintrin.h>

enum {
    LANES = 8,
    GROUP = 2 * LANES, /* targets at a time */
    LONG = 32,
    CHUNK = 512,     /* nodes whose lists are looked up at a time */
    AHEAD = 4096,    /* how many bytes of edges ahead is prefetched */
    LINE = 64,       /* bytes of a cache line */
    LINE_LISTS = 4,  /* lists in a line */
    LINE_FLOATS = 16 /* floats in a line */
};

/* Where the lists of nodes begin, and how long they are. */
struct lists {
    uint64_t firsts[CHUNK];
    uint32_t counts[CHUNK];
};

struct lane_sums_avx512 {
    __m512d high, low;
};

struct lane_grid_avx512 {
    __m512d high, low;
};

/* spread_add for eight targets. The product needs no rounding step of its own: it is exact. */
static inline void add(struct lane_sums_avx512 *s, struct lane_grid_avx512 g, __m256 sent,
                       __m256 weights)
{
    __m512d x = _mm512_cvtps_pd(sent), w = _mm512_cvtps_pd(weights);
    __m512d q = _mm512_sub_pd(_mm512_fmadd_pd(x, w, g.high), g.high);
    __m512d r = _mm512_fmsub_pd(x, w, q);
    s->high = _mm512_add_pd(s->high, q);
    s->low = _mm512_add_pd(s->low, _mm512_sub_pd(_mm512_add_pd(r, g.low), g.low));
}

/* Adds sixteen edges: eight to one sum, eight to another. */
static inline void add_edges(struct lane_sums_avx512 *first, struct lane_sums_avx512 *second,
                             struct lane_grid_avx512 g, const float *sent, __m512i a, __m512i b)
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

static inline void fetch_edges(const void *now)
{
    _mm_prefetch((const char *)now + AHEAD, _MM_HINT_T0);
    _mm_prefetch((const char *)now + AHEAD + LINE, _MM_HINT_T0);
}

/* Loads up to eight edges, and zeros behind them, which add nothing. */
static inline __m512i load(const struct spread_edge *edges, uint32_t count)
{
    __mmask8 mask = (__mmask8)(count < LANES ? (1u << count) - 1 : 0xff);
    return _mm512_maskz_loadu_epi64(mask, edges);
}

static struct spread_sum pull_long(const struct spread_run *r, const struct spread_edge *edges,
                                   uint32_t count, struct lane_grid_avx512 g, const float *sent,
                                   uint64_t *since)
{
    struct lane_sums_avx512 a = {_mm512_setzero_pd(), _mm512_setzero_pd()}, b = a;
    for (uint32_t e = 0; e < count;) {
        uint32_t first = e, end = spread_pull_end(e, count);
        for (; e < end; e += 2 * LANES) {
            uint32_t left = count - e;
            fetch_edges(edges + e);
            add_edges(&a, &b, g, sent, load(edges + e, left),
                      load(edges + e + LANES, left > LANES ? left - LANES : 0));
        }
        spread_pull_pace(r, since, end - first);
    }
    struct spread_sum sum = {_mm512_reduce_add_pd(_mm512_add_pd(a.high, b.high)),
                             _mm512_reduce_add_pd(_mm512_add_pd(a.low, b.low))};
    return sum;
}

/* Loads one edge of each of eight lists that is long enough. */
static inline __m512i pick(const struct spread_edge *edges, const uint64_t *firsts, __mmask8 mask)
{
    return _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), mask, _mm512_loadu_si512(firsts),
                                       (const long long *)edges, 8);
}

/* spread_received for eight targets. */
static inline __m256 receive(struct lane_sums_avx512 s, float decay)
{
    __m512d sums = _mm512_mul_pd(_mm512_add_pd(s.high, s.low), _mm512_set1_pd((double)decay));
    return _mm256_min_ps(_mm512_cvtpd_ps(sums), _mm256_set1_ps(1.0f));
}

static inline void pull_group(const struct spread_edge *edges, const struct lists *l, size_t i,
                              uint32_t longest, struct lane_grid_avx512 g, const float *sent,
                              float decay, float *received)
{
    __m512i counts = _mm512_loadu_si512(l->counts + i);
    struct lane_sums_avx512 a = {_mm512_setzero_pd(), _mm512_setzero_pd()}, b = a;
    for (uint32_t e = 0; e < longest; e++) {
        __mmask16 mask = _mm512_cmpgt_epu32_mask(counts, _mm512_set1_epi32((int)e));
        fetch_edges(edges + l->firsts[i] + (size_t)e * GROUP);
        add_edges(&a, &b, g, sent, pick(edges + e, l->firsts + i, (__mmask8)mask),
                  pick(edges + e, l->firsts + i + LANES, (__mmask8)(mask >> LANES)));
    }
    _mm256_storeu_ps(received, receive(a, decay));
    _mm256_storeu_ps(received + LANES, receive(b, decay));
}

/* Looks up where lists begin; behind the last one, fills in empty lists. */
static void look_up(const struct spread_graph *graph, const uint32_t *order, size_t count,
                    struct lists *l)
{
    const struct spread_list *in = spread_in_window(graph, order[0]);
    for (size_t i = 0; i < count; i++) {
        struct spread_list list = in[spread_window_place(order[i])];
        l->firsts[i] = list.first;
        l->counts[i] = list.count;
    }
    for (; count % GROUP; count++)
        l->firsts[count] = l->counts[count] = 0;
}

static void pull_chunk(const struct spread_run *r, const uint32_t *order, size_t count,
                       const float *sent, float decay, float *received, uint64_t *since)
{
    const struct spread_graph *graph = r->graph;
    struct lane_grid_avx512 g = {_mm512_set1_pd(graph->grid.high), _mm512_set1_pd(graph->grid.low)};
    struct lists l;
    float own[CHUNK];
    look_up(graph, order, count, &l);
    for (size_t i = 0; i < count; i += GROUP) {
        uint32_t longest = _mm512_reduce_max_epu32(_mm512_loadu_si512(l.counts + i));
        if (longest <= LONG) {
            pull_group(graph->in_edges, &l, i, longest, g, sent, decay, own + i);
            continue;
        }
        for (size_t k = i; k < i + GROUP; k++)
            own[k] = spread_received(
                pull_long(r, graph->in_edges + l.firsts[k], l.counts[k], g, sent, since), decay);
    }
    for (size_t i = 0; i < count; i++)
        received[order[i]] = own[i];
}

/* Prefetches the lists for the chunk at the same place of the next window; numbers stay within
 * their windows. */
static void fetch_lists(const struct spread_graph *graph, uint32_t node, size_t place)
{
    uint64_t first = (node / SPREAD_WINDOW + 1) * (uint64_t)SPREAD_WINDOW + place;
    for (uint64_t n = first; n < first + CHUNK && n < graph->nodes; n += LINE_LISTS)
        __builtin_prefetch(spread_in_list(graph, n));
}

/* Prefetches the memory that this window's results are written to. */
static void fetch_results(const struct spread_graph *graph, uint32_t node, float *received)
{
    uint64_t first = node / SPREAD_WINDOW * (uint64_t)SPREAD_WINDOW;
    for (uint64_t n = first; n < first + SPREAD_WINDOW && n < graph->nodes; n += LINE_FLOATS)
        __builtin_prefetch(received + n, 1);
}

static void pull(const struct spread_run *r, const uint32_t *order, size_t count, const float *sent,
                 float decay, float *received)
{
    const struct spread_graph *graph = r->graph;
    uint64_t since = 0;
    if (count >= CHUNK) fetch_results(graph, order[0], received);
    for (size_t i = 0; i < count; i += CHUNK) {
        fetch_lists(graph, order[i], i);
        size_t n = count - i < CHUNK ? count - i : CHUNK;
        pull_chunk(r, order + i, n, sent, decay, received, &since);
    }
}

const struct spread_kernels spread_avx512 = {"avx512", pull, spread_settle_avx512};
