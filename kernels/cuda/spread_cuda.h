/* spread_cuda: spreads over a graph on a device, bit for bit what kernels/spread.h and
 * docs/spreading.md define and the CPU's engine computes.
 * Owner:  the GPU process; every pointer is device memory of the current device, unless said. Edges are
 *         read two at a time: the last 16 bytes that an array of edges begins are there whole.
 * Thread: any that has the device current.
 * Errors: cuda_spread only enqueues on `stream` and returns the launch's cudaError_t as an int (0 is
 * success): no allocation, no waiting. Inputs are validated before they come here. */
#ifndef ENGRAM_KERNELS_SPREAD_CUDA_H
#define ENGRAM_KERNELS_SPREAD_CUDA_H

#include "kernels/spread.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* What came of a set. */
struct cuda_spread_set {
    uint64_t first_record, record_count; /* in out_records; no set has another's */
    uint64_t cycles;
    uint32_t hops_done;
    uint32_t truncated;
    uint32_t no_memory; /* scratch did not do for it: there is no answer */
    uint32_t no_room;   /* the others' records left none for its own: no records */
};

/* question: of the host, as for a set, but that decay, allowed and seeds are device memory and hold
 * all sets' seeds one after the other: set i has seeds[set_offsets[i] .. set_offsets[i + 1]). Its
 * deadline is left to the caller's patience: time_ns, of the device's own running, 0: none. */
struct cuda_spread {
    struct spread_graph graph; /* arrays: device memory; no factors, kinds: NULL */
    struct spread_question question;
    uint64_t time_ns;
    const uint64_t *set_offsets; /* set_count + 1 */
    uint32_t set_count;
    uint64_t record_room;              /* of all sets together: >= min(nodes, touched_max) */
    struct spread_record *out_records; /* sets in no order, each from its first_record, in none */
    struct cuda_spread_set *out_sets;  /* set_count */
    void *scratch;                     /* 256-byte aligned; may hold anything */
    uint64_t scratch_bytes;            /* at least cuda_spread_scratch_min */
};

int cuda_spread(const struct cuda_spread *s, struct CUstream_st *stream);

/* Scratch with which it works (mode engram: as long as no level has more than about `edges`
 * contributions, else no_memory), and with which more sets run at once, or all that can come of it
 * fits. Of the host. */
uint64_t cuda_spread_scratch_min(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                 uint32_t set_count);
uint64_t cuda_spread_scratch_best(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                  uint32_t set_count);

#ifdef __cplusplus
}
#endif

#endif
