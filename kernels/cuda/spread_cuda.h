/* spread_cuda: spreads over a graph on a device, bit for bit what kernels/spread.h and
 * docs/spreading.md define and the CPU's engine computes.
 * Owner:  the GPU process; every pointer is device memory of the current device, unless stated.
 *         Edges are read two at a time: the last 16 bytes of an edge array must be complete.
 * Thread: any that has the device current.
 * Errors: cuda_spread only enqueues on `stream` and returns the launch's cudaError_t as an int (0
 *         is success): no allocation, no waiting. Inputs are validated before they come here. */
#ifndef ENGRAM_KERNELS_SPREAD_CUDA_H
#define ENGRAM_KERNELS_SPREAD_CUDA_H

#include "kernels/spread.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* The result of a set. */
struct cuda_spread_set {
    uint64_t first_record, record_count; /* in out_records; sets do not overlap */
    uint64_t cycles;
    uint32_t hops_done;
    uint32_t truncated;
    /* 1: its scratch did not suffice: there is no result; CUDA_SPREAD_LEFT or more: a call with
     * pass_ns has left it for the next */
    uint32_t no_memory;
    uint32_t no_room; /* other sets left no room for its records: it has none */
};

enum { CUDA_SPREAD_LEFT = 2 };

/* The embeddings of nodes (kernels/spread.h): the rows of a collection. */
struct cuda_embeddings {
    const float *rows, *norms; /* rows NULL: the spread has none */
    const uint64_t *ids;       /* all different */
    uint64_t count;            /* 1 .. 2^30 */
    uint32_t dimension;
    void *tables; /* cuda_embeddings_bytes, 256-byte aligned; uninitialised */
};

/* The tables that a spread makes: an index of ids, of a power of two of entries, at least twice as
 * many as rows; the row of each node; and whether similarity takes the place of its weights. */
static inline uint32_t cuda_embeddings_bits(uint64_t count)
{
    uint32_t bits = 8;
    while (UINT64_C(1) << bits < 2 * count)
        bits++;
    return bits;
}

static inline uint64_t cuda_embeddings_bytes(uint64_t count, uint32_t nodes)
{
    const uint64_t index = (UINT64_C(1) << cuda_embeddings_bits(count)) * sizeof(uint32_t);
    const uint64_t each = sizeof(uint32_t) + sizeof(uint8_t);
    return index + (nodes * each + 255) / 256 * 256;
}

/* question: in host memory, as for one set, except that decay, allowed and seeds are device
 * memory; its embeddings are not read. The seeds of all sets are one array: set i has
 * seeds[set_offsets[i] .. set_offsets[i + 1]), or up to set_ends[i]. The deadline is replaced by
 * time_ns, counted by the device while it runs; 0: none. */
struct cuda_spread {
    struct spread_graph graph; /* arrays in device memory; NULL: no factors, or no kinds */
    struct spread_question question;
    uint64_t time_ns;
    /* if not NULL, in device memory: when, by the device's clock, time_ns began to count */
    const uint64_t *began_ns;
    const uint64_t *set_offsets; /* set_count + 1; with set_ends: set_count */
    const uint64_t *set_ends;    /* set_count; NULL: set i ends where set i + 1 begins */
    uint32_t set_count;
    uint64_t record_room; /* for all sets together: >= min(nodes, touched_max) */
    /* sets in any order; each set's from its first_record on, in any order */
    struct spread_record *out_records;
    struct cuda_spread_set *out_sets;  /* set_count */
    void *scratch;                     /* 256-byte aligned; uninitialised */
    uint64_t scratch_bytes;            /* at least cuda_spread_scratch_min */
    struct cuda_embeddings embeddings; /* mode engram */
    /* Sets in several calls: none is begun when a call has run for so long, but for one; 0: all are
     * run. What is left is for calls that say `again`, with the same memory and graph. */
    uint64_t pass_ns;
    bool again;
};

int cuda_spread(const struct cuda_spread *s, struct CUstream_st *stream);

/* Least scratch for a run (mode engram: if no level has more than about `edges` contributions;
 * otherwise no_memory), and the scratch with which more sets run at once, or every possible result
 * fits. Computed on the host. */
uint64_t cuda_spread_scratch_min(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                 uint32_t set_count);
uint64_t cuda_spread_scratch_best(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                  uint32_t set_count);

#ifdef __cplusplus
}
#endif

#endif
