/* vectors_cuda: the canonical vector operations on a device, bit for bit what kernels/canonical.h
 * defines and the CPU variants compute.
 * Owner:  the GPU process; every pointer is device memory of the current device.
 * Thread: any that has the device current.
 * Errors: each launcher only enqueues on `stream` and returns the launch's cudaError_t as an int (0
 * is success): no allocation, no waiting. Inputs are validated before they come here.
 *
 * Everywhere: rows as in vectors.h: `stride` floats apart, stride = vector_stride(dimension), the
 * pad is +0, base pointers 64-byte aligned; norms, of rows and queries, are read for METRIC_COSINE,
 * and by cuda_topk for every metric (without them it scores every row exactly). Counts are 64 bits
 * wide; a count of 0 is a no-op. `stream` is a cudaStream_t. */
#ifndef ENGRAM_KERNELS_VECTORS_CUDA_H
#define ENGRAM_KERNELS_VECTORS_CUDA_H

#include "kernels/topk.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Contiguous rows on the device. */
struct cuda_rows {
    uint32_t dimension;
    const float *rows;
    const float *norms; /* count */
    uint64_t count;
};

struct cuda_queries {
    const float *rows;  /* padded like stored rows */
    const float *norms; /* count */
    uint64_t count;
};

/* norms[i] = correctly rounded sqrt(dot(row i, row i)), +inf where that is not finite. */
int cuda_norms(const struct cuda_rows *rows, float *norms, struct CUstream_st *stream);

/* Sets *first to the smallest i whose norm is not finite; UINT64_MAX: none, as for a count of 0. */
int cuda_find_bad(const float *norms, uint64_t count, uint64_t *first, struct CUstream_st *stream);

/* The first query against every row: scores[i]. */
int cuda_scan(enum metric metric, const struct cuda_queries *query, const struct cuda_rows *rows,
              float *scores, struct CUstream_st *stream);

/* The first query against listed rows: scores[i] is for row positions[i]; count positions. */
int cuda_gather(enum metric metric, const struct cuda_queries *query, const struct cuda_rows *rows,
                const uint64_t *positions, uint64_t count, float *scores,
                struct CUstream_st *stream);

/* Many gathers in one launch. Query q against its own list, rows positions[offsets[q]] ..
 * positions[offsets[q + 1] - 1]: scores[i] is for row positions[i]. offsets: queries->count + 1,
 * from 0, never falling (a list may be empty), the last equal to count. positions: count of them,
 * each below rows->count, repeated as often as wanted; NULL: position i is row i. offsets NULL:
 * every query against all positions: scores[q * count + i]. */
int cuda_gather_lists(enum metric metric, const struct cuda_queries *queries,
                      const struct cuda_rows *rows, const uint32_t *positions,
                      const uint64_t *offsets, uint64_t count, float *scores,
                      struct CUstream_st *stream);

/* Every query against every row: scores[q * scores_stride + r]. */
int cuda_tile(enum metric metric, const struct cuda_queries *queries, const struct cuda_rows *rows,
              float *scores, uint64_t scores_stride, struct CUstream_st *stream);

/* sums[c] = for i rising: fma(weights[i], row positions[i] [c], sums[c]) from +0, c < dimension;
 * positions NULL: rows 0..count - 1. count = 0 writes +0. */
int cuda_weighted_sum(const struct cuda_rows *rows, const uint32_t *positions, const float *weights,
                      uint64_t count, float *sums, struct CUstream_st *stream);

/* averages[c] = sums[c] / total, one IEEE division; +0 if count or total is 0. total: the sum of
 * the weights as daemon/ops/average.c computes it. */
int cuda_weighted_average(const struct cuda_rows *rows, const uint32_t *positions,
                          const float *weights, uint64_t count, float total, float *averages,
                          struct CUstream_st *stream);

/* Which rows may enter: bit r of a bitmap says whether row r may. */
struct cuda_filter {
    const uint64_t *allowed; /* bitmaps, one after the other; NULL: every row may enter */
    /* query q has bitmap of[q], or CUDA_FILTER_NONE; NULL: all queries have the first */
    const uint32_t *of;
    uint64_t words; /* of a bitmap; read only if `of` is set */
};
#define CUDA_FILTER_NONE UINT32_MAX

/* The k best rows of each query, ties by rising id: the set and order of kernels/topk.h. Distances
 * stay on chip: only rows that may still be among the best k are written. One query with k <= 128
 * takes one launch. Where it is faster, a product on the tensor cores first rules out rows, which
 * are then not scored (kernels/screen.h). Scratch may be uninitialised; calls that share it must
 * not overlap. */
struct cuda_topk {
    uint32_t k;          /* 1..TOPK_K_MAX */
    const uint64_t *ids; /* of each row, all different; NULL: first_id + row */
    uint64_t first_id;
    struct cuda_filter filter;
    /* in host memory: scores at least this (distances: at most); NULL: all */
    const float *threshold;
    void *scratch;          /* 256-byte aligned */
    uint64_t scratch_bytes; /* at least cuda_topk_scratch_min */
    /* Results: k places for each query, the first counts[q] of them written. */
    uint64_t *out_ids;
    float *out_scores;
    uint32_t *out_counts;
    struct cuda_topk_work *work; /* NULL, or counters that are added to */
};

/* How well the screen worked: pairs that it let pass, which were scored exactly, and queries for
 * which a whole span was scored exactly, because too many pairs passed. */
struct cuda_topk_work {
    unsigned long long passed, redone;
};
int cuda_topk(enum metric metric, const struct cuda_queries *queries, const struct cuda_rows *rows,
              const struct cuda_topk *topk, struct CUstream_st *stream);

/* The least scratch for cuda_topk, and the scratch with which it is fastest. Any size between
 * works: less scratch means more, smaller passes. */
uint64_t cuda_topk_scratch_min(uint64_t query_count, uint32_t k, uint64_t row_count);
uint64_t cuda_topk_scratch_best(uint64_t query_count, uint32_t k, uint64_t row_count);

/* One query that travels with the launch, against every row; up to cuda_direct_dimension elements.
 * Results are stored into `cells`, which is pinned host memory that the device can write: each is
 * one number in the lower half of a cell, and has come when the upper half is `tag`. When all have
 * come, the launch reads and writes nothing more.
 *   k = 0: the scores, one of each row
 *   else:  1 + 3 k cells: how many of the k best there are (ties by rising id, as cuda_topk), the
 *          lower halves of their k ids, the upper halves, and the k scores; what is behind that
 *          many has no meaning */
struct cuda_direct {
    const float *query;     /* in host memory: rows.dimension elements, without a pad */
    float query_norm;       /* read for METRIC_COSINE */
    uint32_t tag;           /* not 0, and not in the upper halves of the cells before */
    uint32_t k;             /* 0..CUDA_DIRECT_K_MAX */
    const uint64_t *ids;    /* of each row, all different; NULL: the row's number; read if k > 0 */
    const float *threshold; /* as in cuda_topk */
    void *scratch;          /* 256-byte aligned; may be uninitialised */
    uint64_t scratch_bytes; /* at least cuda_direct_scratch_min */
    uint64_t *cells;
};
enum { CUDA_DIRECT_K_MAX = 64 };
int cuda_direct(enum metric metric, const struct cuda_rows *rows, const struct cuda_direct *direct,
                struct CUstream_st *stream);
uint32_t cuda_direct_dimension(void);
uint64_t cuda_direct_scratch_min(uint32_t k);
uint64_t cuda_direct_scratch_best(uint32_t k);

/* The screen's approximate dot products, for tests of its error bound: dots[q * dots_stride + r].
 * Error: not supported, if the device has no TF32. */
int cuda_screen_dots(const struct cuda_queries *queries, const struct cuda_rows *rows, float *dots,
                     uint64_t dots_stride, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
