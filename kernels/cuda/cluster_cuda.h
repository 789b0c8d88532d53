/* cluster_cuda: the merges of a clustering on a device: the pairs that kernels/cluster.h defines,
 * in their order.
 * Owner, thread, errors, and what holds everywhere: as vectors_cuda.h.
 *
 * Rule centroid: BEGIN; then for each pass of the rule cuda_topk for all slots against all, with
 * k = CUDA_CLUSTER_FOUND, the threshold and ids, and NEAR of what it found, in any ranges; then
 * MERGE until state.ended, the first time with `fresh`; and before the second pass AGAIN.
 * Rule average: BEGIN; cuda_tile and PAIRS, in any ranges of rising rows; then ADD until
 * state.ended. */
#ifndef ENGRAM_KERNELS_CLUSTER_CUDA_H
#define ENGRAM_KERNELS_CLUSTER_CUDA_H

#include "kernels/cluster.h"
#include "kernels/cluster_near.h"
#include "kernels/cuda/vectors_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CUDA_CLUSTER_FOUND = CLUSTER_NEAR_MAX + 2, /* itself, a list, and what bounds the others */
    CUDA_CLUSTER_PARTS_MAX = 512,              /* of a scan */
    CUDA_CLUSTER_PART_SLOTS_MAX = CLUSTER_ROWS_MAX / CUDA_CLUSTER_PARTS_MAX,
    CUDA_CLUSTER_PART_PAIRS = CLUSTER_NEAR_MAX + 1, /* of a part that may be among the nearest */
    CUDA_CLUSTER_PART = 256,                        /* members after which sums are kept */
    CUDA_CLUSTER_HALF = 4, /* places for members, for each row, in a half of their memory */
};
#define CUDA_CLUSTER_NONE UINT32_MAX

enum cuda_cluster_stage {
    CUDA_CLUSTER_BEGIN,
    CUDA_CLUSTER_NEAR,
    CUDA_CLUSTER_MERGE,
    CUDA_CLUSTER_AGAIN, /* those of fewer than size_min are gone */
    CUDA_CLUSTER_PAIRS,
    CUDA_CLUSTER_ADD
};

struct cuda_cluster_merge {
    uint32_t low, high; /* ids; high becomes a part of low */
};

struct cuda_cluster_state {
    uint32_t live; /* clusters; rule centroid: slots, without gaps */
    uint32_t merges, scans;
    uint32_t ended; /* no pair reaches the threshold */
    uint32_t slot;  /* that is scanned for; NONE: none is */
    uint32_t low, high;
    uint32_t merged;     /* these have just become one; ADD: are to */
    uint32_t size;       /* of it */
    uint32_t look;       /* rule average: the row whose nearest is not known; NONE: none */
    uint32_t parts;      /* of the last scan */
    uint32_t half, used; /* which half of members is in use, and how much of it */
    uint32_t moves;      /* of AGAIN */
    uint32_t kept;       /* the id of whose members there are sums part by part; NONE: none */
    uint32_t begins;     /* how many parts of them hold for what is merged */
};

/* Places are as cuda_cluster_layout makes them; what a rule does not use is NULL. */
struct cuda_cluster {
    enum cuda_cluster_stage stage;
    bool average;
    uint32_t count;            /* of rows, 2 or more, in input order */
    const uint32_t *positions; /* where they are among rows; NULL: i is row i */
    const float *times;        /* rule average; NULL: none */
    float threshold;           /* of this pass */
    uint32_t size_min;
    uint32_t live;        /* at most as many clusters are left */
    uint32_t first, some; /* NEAR: slots; PAIRS: rows, up to first + some of them all */
    uint32_t steps;       /* MERGE, ADD: at most as many merges and scans */
    bool fresh;           /* MERGE: all lists are new */
    uint32_t merges;      /* before this launch */
    struct cuda_cluster_state *state;
    struct cuda_cluster_merge *window; /* of this launch, `steps` places */

    float *rows;              /* count x stride: by slot, centroids; rule average: rows */
    float *norms;             /* of those */
    uint32_t *births, *sizes; /* by id */

    /* rule centroid */
    uint32_t *ids, *at; /* by slot, the id; by id, the slot */
    uint64_t *wide_ids; /* by slot, for cuda_topk */
    struct cluster_best *bests;
    struct cluster_near *near;  /* by id */
    uint32_t *firsts, *members; /* by id, where its members begin in the half that is in use */
    uint32_t *holes, *movers;   /* AGAIN */
    float *sums; /* for each CUDA_CLUSTER_PART members, those before it, x stride; of one cluster */
    double *corrections;
    struct cluster_best *part_bests;
    uint64_t *part_keys; /* CUDA_CLUSTER_PART_PAIRS a part: what may be near */
    uint32_t *part_counts;
    const uint64_t *found_ids; /* CUDA_CLUSTER_FOUND for each of `some` */
    const float *found_scores;
    const uint32_t *found_counts;

    /* rule average: by pair i > j, i (i - 1) / 2 + j */
    float *means;
    uint64_t *lows;
    uint16_t *highs;
    uint32_t *nearest; /* by row: among those before it */
    uint32_t *stale;
    float *scores;        /* of the nearest, or a bound */
    const float *cosines; /* `some` x (first + some) */
};

int cuda_cluster(const struct cuda_rows *rows, const struct cuda_cluster *work,
                 struct CUstream_st *stream);

CANONICAL_INLINE uint64_t cuda_cluster_pair(uint64_t i, uint64_t j)
{
    return i * (i - 1) / 2 + j;
}

/* Returns the next array of so many elements, a multiple of 256 behind `memory`. */
static inline void *cuda_cluster_place(char *memory, uint64_t *bytes, uint64_t count, uint64_t size)
{
    void *at = memory + *bytes;
    *bytes += (count * size + 255) / 256 * 256;
    return at;
}

/* Sets the places of c's arrays, but for state, window, what was found and cosines, behind `memory`
 * (256-byte aligned; NULL: only the size is wanted). Returns the bytes. */
static inline uint64_t cuda_cluster_layout(uint32_t dimension, char *memory, struct cuda_cluster *c)
{
    uint64_t bytes = 0, n = c->count, parts = CUDA_CLUSTER_PARTS_MAX;
#define PLACE(member, count)                                                        \
    do {                                                                            \
        void *at_ = cuda_cluster_place(memory, &bytes, (count), sizeof *c->member); \
        memcpy(&c->member, &at_, sizeof at_);                                       \
    } while (0)
    PLACE(rows, n * vector_stride(dimension));
    PLACE(norms, n);
    PLACE(births, n);
    PLACE(sizes, n);
    if (c->average) {
        PLACE(means, n * (n - 1) / 2);
        PLACE(lows, n * (n - 1) / 2);
        PLACE(highs, n * (n - 1) / 2);
        PLACE(nearest, n);
        PLACE(stale, n);
        PLACE(scores, n);
        return bytes;
    }
    PLACE(ids, n);
    PLACE(at, n);
    PLACE(wide_ids, n);
    PLACE(bests, n);
    PLACE(near, n);
    PLACE(firsts, n);
    PLACE(members, 2 * CUDA_CLUSTER_HALF * n);
    PLACE(holes, n);
    PLACE(movers, n);
    PLACE(sums, (n / CUDA_CLUSTER_PART + 1) * vector_stride(dimension));
    PLACE(corrections, (n / CUDA_CLUSTER_PART + 1) * vector_stride(dimension));
    PLACE(part_bests, parts);
    PLACE(part_keys, parts * CUDA_CLUSTER_PART_PAIRS);
    PLACE(part_counts, parts);
#undef PLACE
    return bytes;
}

#ifdef __cplusplus
}
#endif
#endif
