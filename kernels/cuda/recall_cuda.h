/* recall_cuda: what lies between the stages of a recall on a device, bit for bit what
 * kernels/recall.h and docs/recall.md define: seeds of the nearest rows, before a spread, and the
 * best of what it touched, after it. The stages are, on one stream: cuda_recall_begin; cuda_topk of
 * the cues, with the threshold; cuda_recall_seeds; cuda_spread, from the seeds; cuda_recall_best.
 * Owner, thread, errors, and what holds everywhere: as vectors_cuda.h. */
#ifndef ENGRAM_KERNELS_RECALL_CUDA_H
#define ENGRAM_KERNELS_RECALL_CUDA_H

#include "kernels/cuda/spread_cuda.h"
#include "kernels/cuda/vectors_cuda.h"
#include "kernels/recall.h"

#ifdef __cplusplus
extern "C" {
#endif

/* More results than this for a list are the CPU's; and lists, and cues, of one pass. */
enum { CUDA_RECALL_RESULTS_MAX = 2048, CUDA_RECALL_LISTS_MAX = 1024 };

/* The lists of one pass. A cue has k places for its nearest rows, and a list as many places for its
 * seeds as its cues have together: a list's places begin at k * its first cue. */
struct cuda_recall {
    uint32_t lists;
    uint64_t cues;
    const uint64_t *cue_offsets; /* lists + 1, from first_cue on */
    uint64_t first_cue;
    uint32_t k, results; /* results: 1 .. CUDA_RECALL_RESULTS_MAX, entries of a list */
    float threshold, width, activation_min, boost;

    const uint64_t *nodes; /* the ids of the graph's nodes; UINT64_MAX: such a number is free */
    uint32_t node_count;
    const uint64_t *allowed; /* a bitmap over nodes; NULL: all */

    /* What cuda_topk found: k places a cue. */
    uint64_t *hit_ids;
    float *hit_scores;
    uint32_t *hit_counts;

    /* Seeds, cues * k places: all of them, and those that are nodes, from which to spread. */
    uint64_t *seed_ids;
    float *seed_activations;
    struct spread_seed *seeds;
    uint64_t *set_offsets, *set_ends; /* lists */

    /* What cuda_spread left. */
    const struct spread_record *records;
    const struct cuda_spread_set *sets; /* lists */
    uint64_t record_room;
    uint32_t paths, hops; /* paths: 1: they are wanted, of at most hops + 1 nodes */

    /* Rows and cues, for scores: the collection's, and as cuda_topk had them. */
    struct cuda_rows rows;
    const uint64_t *row_ids;
    struct cuda_queries queries;

    /* cuda_recall_layout_of().bytes, 256-byte aligned; uninitialised; kept between stages */
    void *scratch;

    /* Results: entries `results` apart; nodes of paths `hops + 1` apart, from a seed on. */
    struct recall_outcome *outcomes; /* lists */
    struct recall_entry *entries;
    uint32_t *path_nodes;       /* NULL without paths */
    struct recall_times *times; /* one */
};

/* Where arrays lie in scratch. The tables are open-addressed, by id: entries are 1 + the place of
 * what has the id, 0 is empty; beside each, 1 + what has been found for the id. They lie together
 * and are cleared first. */
struct cuda_recall_layout {
    uint64_t seed_table, entry_table, cleared_bytes; /* cleared_bytes: of both, from 0 on */
    uint32_t seed_bits, entry_bits;
    uint64_t began;                     /* u64 */
    uint64_t seed_counts;               /* lists */
    uint64_t seed_slots, seed_nodes;    /* cues * k, as are seed_keys and seed_places */
    uint64_t seed_keys, seed_places;    /* what they rank by; their records */
    uint64_t list_tables, list_doubles; /* 4 * cues * k: lists' own tables of seeds */
    uint64_t record_keys;               /* record_room */
    uint64_t entry_slots;               /* lists * results */
    uint64_t trails;                    /* 4 * record_room, with paths: records by node */
    uint64_t bytes;
};

static inline uint32_t cuda_recall_bits(uint64_t count)
{
    uint32_t bits = 8;
    while (UINT64_C(1) << bits < 2 * count)
        bits++;
    return bits;
}

static inline uint64_t cuda_recall_add(uint64_t *bytes, uint64_t count, uint64_t size)
{
    const uint64_t at = *bytes;
    *bytes = at + (count * size + 255) / 256 * 256;
    return at;
}

static inline struct cuda_recall_layout cuda_recall_layout_of(const struct cuda_recall *r)
{
    const uint64_t seeds = r->cues * r->k, entries = (uint64_t)r->lists * r->results;
    const uint64_t word = sizeof(uint32_t);
    struct cuda_recall_layout at;
    uint64_t bytes = 0;
    at.seed_bits = cuda_recall_bits(seeds);
    at.entry_bits = cuda_recall_bits(entries);
    at.seed_table = cuda_recall_add(&bytes, UINT64_C(2) << at.seed_bits, word);
    at.entry_table = cuda_recall_add(&bytes, UINT64_C(2) << at.entry_bits, word);
    at.cleared_bytes = bytes;
    at.began = cuda_recall_add(&bytes, 1, sizeof(uint64_t));
    at.seed_counts = cuda_recall_add(&bytes, r->lists, word);
    at.seed_slots = cuda_recall_add(&bytes, seeds, word);
    at.seed_nodes = cuda_recall_add(&bytes, seeds, word);
    at.seed_keys = cuda_recall_add(&bytes, seeds, word);
    at.seed_places = cuda_recall_add(&bytes, seeds, word);
    at.list_tables = cuda_recall_add(&bytes, 4 * seeds, word);
    at.list_doubles = cuda_recall_add(&bytes, 4 * seeds, word);
    at.record_keys = cuda_recall_add(&bytes, r->record_room, word);
    at.entry_slots = cuda_recall_add(&bytes, entries, word);
    at.trails = cuda_recall_add(&bytes, r->paths ? 4 * r->record_room : 0, word);
    at.bytes = bytes;
    return at;
}

/* When the first stage began, by the device's clock: for cuda_spread's began_ns. */
static inline const uint64_t *cuda_recall_began(const struct cuda_recall *r)
{
    return (const uint64_t *)((char *)r->scratch + cuda_recall_layout_of(r).began);
}

int cuda_recall_begin(const struct cuda_recall *r, struct CUstream_st *stream);
int cuda_recall_seeds(const struct cuda_recall *r, struct CUstream_st *stream);
int cuda_recall_best(const struct cuda_recall *r, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
