/* shadow_cuda: rows in int8 on a device (kernels/shadow.h), and the k best rows found with them.
 * Owner, thread, errors, and what holds everywhere: as vectors_cuda.h. */
#ifndef ENGRAM_KERNELS_SHADOW_CUDA_H
#define ENGRAM_KERNELS_SHADOW_CUDA_H

#include "kernels/cuda/vectors_cuda.h"
#include "kernels/shadow_list.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A shadow of rows: for row i the codes from i * shadow_stride(dimension) on, and a place in each
 * of the other three. 64-byte aligned. */
struct cuda_shadow {
    int8_t *codes;
    float *scales, *losts, *lengths;
    const float *centre;      /* a padded row; any is right */
    const float *centre_norm; /* its norm, as cuda_norms gives it */
};

/* Makes a centre: the mean of some thousand rows, spread evenly over all that are given; +0 where
 * that is not finite, and for no rows. The same rows give the same bits. */
int cuda_shadow_centre(const struct cuda_rows *rows, float *centre, float *centre_norm,
                       struct CUstream_st *stream);

/* Codes rows first .. first + count - 1; the bits of shadow_measure. */
int cuda_shadow_code(const struct cuda_rows *rows, uint64_t first, uint64_t count,
                     const struct cuda_shadow *shadow, struct CUstream_st *stream);

/* The k best rows as cuda_topk finds them, bit for bit: the shadow of all rows is read, and of the
 * rows themselves only those that it does not rule out. Norms of rows and queries are read for
 * every metric. Results, filter, threshold and work (passed: rows that were scored): as cuda_topk;
 * but of several queries one whose rows a shadow does not tell apart gets CUDA_SHADOW_REDO for a
 * count, and no results: it is to be asked of cuda_topk.
 * Error: invalid value, unless cuda_shadow_suits; or for less scratch than cuda_shadow_scratch. */
#define CUDA_SHADOW_REDO UINT32_MAX
int cuda_shadow_topk(enum metric metric, const struct cuda_queries *queries,
                     const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                     const struct cuda_topk *topk, struct CUstream_st *stream);

/* True if the current device can do it, and there are enough rows for k. */
bool cuda_shadow_suits(uint64_t query_count, uint32_t k, uint64_t row_count);

uint64_t cuda_shadow_scratch(uint64_t query_count, uint32_t k, uint64_t row_count,
                             uint32_t dimension);

/* Where a search without rows leaves what may be among the best. */
struct cuda_shadow_list {
    struct shadow_survivor *out; /* room for out_max, of all queries together */
    uint32_t out_max;
    uint32_t *total; /* in: 0 */
    /* In: 0. Out: where the survivors of each query begin, and how many there are; more than fit
     * behind the first, as CUDA_SHADOW_REDO: they are not all there. */
    uint32_t *firsts, *counts;
};

/* Of each query the rows that may be among the k best, in any order: all of them, and of the others
 * as few as the shadow tells apart (kernels/shadow_list.h). No row is read, so rows->rows may be
 * NULL. Of topk: k, ids, filter, threshold and scratch, as for cuda_shadow_topk. */
int cuda_shadow_list(enum metric metric, const struct cuda_queries *queries,
                     const struct cuda_rows *rows, const struct cuda_shadow *shadow,
                     const struct cuda_topk *topk, const struct cuda_shadow_list *list,
                     struct CUstream_st *stream);

uint64_t cuda_shadow_list_scratch(uint64_t query_count, uint32_t k, uint64_t row_count,
                                  uint32_t dimension);

/* cuda_direct's k best (k > 0) through a shadow of all rows, bit for bit. Norms of rows and of the
 * query are read for every metric. One cell more comes behind the others: how many rows were
 * scored. All blocks of the launch run at the same time, and it cannot be replayed from a graph.
 * Error: invalid value, unless cuda_shadow_direct_suits; or for less scratch than
 * cuda_shadow_direct_scratch. */
int cuda_shadow_direct(enum metric metric, const struct cuda_rows *rows,
                       const struct cuda_shadow *shadow, const struct cuda_direct *direct,
                       struct CUstream_st *stream);
bool cuda_shadow_direct_suits(uint32_t dimension, uint32_t k, uint64_t row_count);
uint64_t cuda_shadow_direct_scratch(uint64_t row_count);

/* What shadow_above gives for the first query and each row, for tests of the bound. scratch: as for
 * cuda_shadow_topk with k = 1. */
int cuda_shadow_bounds(const struct cuda_queries *queries, const struct cuda_rows *rows,
                       const struct cuda_shadow *shadow, void *scratch, float *above,
                       struct CUstream_st *stream);

/* Adds to *outside how many rows a bound would rule out that their own canonical score reaches: 0,
 * if `above` is what it should be. */
int cuda_shadow_outside(enum metric metric, const struct cuda_queries *query,
                        const struct cuda_rows *rows, const float *above,
                        unsigned long long *outside, struct CUstream_st *stream);

/* For tests: true: as on a device without the products of warpgroups, until it is called again. */
void cuda_shadow_without_wgmma(bool without);
/* For tests: true: a few queries go as many do, until it is called again. */
void cuda_shadow_without_few(bool without);
/* For tests: whether cuda_shadow_direct fetches the codes of a warp's next turn into the cache. */
void cuda_shadow_direct_ahead(bool ahead);

#ifdef __cplusplus
}
#endif
#endif
