/* launch: what the launchers share on the host side. Included by kernels/cuda/*.cu only.
 * Errors: as vectors_cuda.h. */
#ifndef ENGRAM_KERNELS_CUDA_LAUNCH_CUH
#define ENGRAM_KERNELS_CUDA_LAUNCH_CUH

#include "kernels/cuda/sums.cuh"
#include "kernels/cuda/vectors_cuda.h"

/* Rows first..first + count - 1 of a scan or a tile: their scores are stored, or, if the sink's
 * lists are not NULL, offered to it. */
struct score_span {
    uint64_t first;
    uint64_t count;
    float *scores;
    uint64_t scores_stride;
    struct candidate_sink sink;
};

int scan_launch(enum metric metric, const struct cuda_queries *query, const struct cuda_rows *rows,
                const struct score_span *span, cudaStream_t stream);
int tile_launch(enum metric metric, const struct cuda_queries *queries,
                const struct cuda_rows *rows, const struct score_span *span, cudaStream_t stream);

/* The best rows of one query in one launch, k <= SCAN_TOPK_K_MAX, with any scratch that cuda_topk
 * takes; less than scan_topk_scratch means fewer multiprocessors. */
enum { SCAN_TOPK_K_MAX = 128 };
int scan_topk_launch(enum metric metric, const struct cuda_queries *query,
                     const struct cuda_rows *rows, const struct cuda_topk *topk,
                     cudaStream_t stream);
uint64_t scan_topk_scratch(uint32_t k);

/* As tile_launch, for the *listed_count queries that `listed` names, both on the device;
 * queries->count is the most there can be. Without any it costs an empty launch. */
int tile_listed_launch(enum metric metric, const struct cuda_queries *queries,
                       const struct cuda_rows *rows, const struct score_span *span,
                       const uint32_t *listed, const uint32_t *listed_count, cudaStream_t stream);

/* Rows that keep every multiprocessor equally busy: a span should be a multiple of them. */
uint64_t tile_wave_rows(uint32_t dimension, uint64_t query_count);

/* One round of the selection, from the k best so far and the new candidates. */
struct select_round {
    uint32_t k;
    uint32_t sort; /* sort the best (k <= SELECT_SORT_MAX) and write them out */
    /* skip queries without new candidates: next must be best, and k <= SELECT_SORT_MAX */
    uint32_t idle;
    uint64_t list_stride;
    struct topk_entry *lists;      /* in: list_stride candidates a query */
    uint32_t *list_counts;         /* in; out: 0 */
    const struct topk_entry *best; /* in: k a query */
    const uint32_t *best_counts;
    struct topk_entry *next; /* out: k a query */
    uint32_t *next_counts;
    struct topk_bound *bounds; /* out */
    uint64_t *out_ids;
    float *out_scores;
};
enum { SELECT_SORT_MAX = 2048 };
/* Before the first round; the first `listed` candidates of each query will be written in place. */
int select_init_launch(const float *threshold, bool lower_is_better, uint64_t query_count,
                       const struct select_round *round, uint32_t *best_counts, uint32_t listed,
                       cudaStream_t stream);
int select_launch(const struct select_round *round, uint64_t query_count, cudaStream_t stream);
/* Sorts what a round left unsorted in `next` and writes it out. */
int select_sort_launch(const struct select_round *round, uint64_t query_count, cudaStream_t stream);

/* Memory for the pairs of a screened span that pass. */
struct screen_room {
    uint32_t *counts;     /* one a query, 0 before the first span; above `most`: it overflowed */
    uint32_t *redo_count; /* behind the counts */
    uint32_t *redo;       /* queries that overflowed; with room for all */
    uint32_t *passed;     /* up to `most` rows of the span for each query */
    uint32_t most;        /* at most list_stride */
    struct cuda_topk_work *work;
};

/* True if the current device can screen. */
bool screen_runs(void);

/* Offers each query the canonical scores of all rows of the span (less than 2^32) that may be
 * among its best: kernels/cuda/screen.cu. round: its `best` is updated in place if a list
 * overflows; k <= SELECT_SORT_MAX. Row and query norms are read for every metric. */
int screen_launch(enum metric metric, const struct cuda_queries *queries,
                  const struct cuda_rows *rows, const struct score_span *span,
                  const struct screen_room *room, const struct select_round *round,
                  cudaStream_t stream);

static inline int device_attribute(enum cudaDeviceAttr attribute, int *value)
{
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    return error ? error : cudaDeviceGetAttribute(value, attribute, device);
}

static inline const float *span_rows(const struct cuda_rows *rows, const struct score_span *span)
{
    return rows->rows + span->first * vector_stride(rows->dimension);
}

static inline unsigned blocks_for(uint64_t count, unsigned a_block)
{
    return (unsigned)((count + a_block - 1) / a_block);
}

#endif
