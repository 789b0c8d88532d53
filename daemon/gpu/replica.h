/* replica: copies in VRAM: of a collection's rows, norms and ids, or of the parts of a graph, each
 * in a range that grows in place.
 * Owner:  the GPU process.
 * Thread: the device thread.
 * Errors: replica_fit: DEVICE_NO_MEMORY if even evicting every idle replica leaves too little.
 *
 * The budget limits what is mapped. To make room, the least recently used replicas that no task
 * holds are evicted, and the front is told. New memory is cleared before it is used, because it
 * may have belonged to another space. */
#ifndef ENGRAM_GPU_REPLICA_H
#define ENGRAM_GPU_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/gpu/device.h"

struct gpu;

/* The ranges of a collection; those of a graph are its parts. */
enum { RANGE_ROWS, RANGE_NORMS, RANGE_IDS, RANGES_MAX = ORDER_PARTS_MAX };

struct replica {
    uint64_t id;
    uint64_t version; /* 0: not complete */
    bool torn;        /* an upload failed: only a complete new upload helps */
    uint32_t space;
    uint32_t dimension; /* of its rows; 0: it is a graph's replica */
    uint64_t rows;
    /* rows whose norms are missing: computed when the replica is complete */
    uint64_t no_norm_first, no_norm_end;
    uint64_t part_bytes[ORDER_PARTS_MAX]; /* of a graph */
    struct device_range ranges[RANGES_MAX];
    uint32_t holders; /* how many tasks use it */
    /* those among them that read it in several passes: it must not change meanwhile */
    uint32_t rereaders;
    struct replica *hash_next;
    struct replica *older, *newer; /* in the order of their last use */
};

enum { REPLICA_BUCKETS = 4096, EVICTED_MAX = 256 };

struct replicas {
    struct replica *buckets[REPLICA_BUCKETS];
    struct replica *oldest, *newest;
    uint64_t bytes, bytes_max, count;
    uint64_t range_bytes_max;      /* reserved address space of each */
    uint64_t evicted[EVICTED_MAX]; /* evicted replicas that the front has not been told yet */
    uint32_t evicted_count;
};

/* Returns NULL if there is none. */
struct replica *replica_find(struct gpu *g, uint64_t id);
/* Returns NULL if there is no memory. */
struct replica *replica_make(struct gpu *g, uint64_t id, uint32_t space, uint32_t dimension);
void replica_hold(struct gpu *g, struct replica *r); /* it becomes the most recently used */
void replica_let_go(struct replica *r);

/* The bytes of each range, and the most that it could ever have. */
struct replica_room {
    uint64_t bytes[RANGES_MAX], most[RANGES_MAX];
};
struct replica_room replica_room_of_rows(const struct gpu *g, uint32_t dimension, uint64_t rows);
/* Takes VRAM for these sizes; new memory is cleared on the stream. *wait: nothing was done,
 * because a range must move or shrink and other tasks use the replica. */
enum device_result replica_fit(struct gpu *g, struct replica *r, const struct replica_room *room,
                               device_stream stream, bool *wait);
/* No task may hold it. */
void replica_drop(struct gpu *g, struct replica *r);
void replicas_finish(struct gpu *g);

/* Returns the VRAM that it has mapped. */
uint64_t replica_bytes(const struct replica *r);
struct cuda_rows replica_rows(const struct replica *r);
static inline const uint64_t *replica_ids(const struct replica *r)
{
    return (const uint64_t *)r->ranges[RANGE_IDS].base;
}

#endif
