/* replica: copies in VRAM: a collection's rows, norms and ids, or the parts of a graph, each in a range
 * that grows in place.
 * Owner:  the GPU process.
 * Thread: the device thread.
 * Errors: replica_fit: DEVICE_NO_MEMORY when even evicting every idle one leaves too little.
 *
 * The budget bounds what is mapped. Least recently used replicas that no task holds make room, and
 * the front is told. New memory is cleared before it is used: it may have been another space's. */
#ifndef ENGRAM_GPU_REPLICA_H
#define ENGRAM_GPU_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/gpu/device.h"

struct gpu;

/* The ranges of rows; those of a graph are its parts. */
enum { RANGE_ROWS, RANGE_NORMS, RANGE_IDS, RANGES_MAX = ORDER_PARTS_MAX };

struct replica {
    uint64_t id;
    uint64_t version; /* 0: not complete */
    bool torn;        /* an upload failed: only a fresh one helps */
    uint32_t space;
    uint32_t dimension; /* of its rows; 0: it is a graph's */
    uint64_t rows;
    uint64_t no_norm_first, no_norm_end;  /* rows without norms yet: computed when it is complete */
    uint64_t part_bytes[ORDER_PARTS_MAX]; /* of a graph */
    struct device_range ranges[RANGES_MAX];
    uint32_t holders;   /* tasks */
    uint32_t rereaders; /* of these, what will read it again: it must stay as it is until then */
    struct replica *hash_next;
    struct replica *older, *newer; /* by last use */
};

enum { REPLICA_BUCKETS = 4096, EVICTED_MAX = 256 };

struct replicas {
    struct replica *buckets[REPLICA_BUCKETS];
    struct replica *oldest, *newest;
    uint64_t bytes, bytes_max, count;
    uint64_t range_bytes_max;      /* address space of one */
    uint64_t evicted[EVICTED_MAX]; /* the front has yet to hear of them */
    uint32_t evicted_count;
};

/* NULL: there is none. */
struct replica *replica_find(struct gpu *g, uint64_t id);
/* NULL: no memory. */
struct replica *replica_make(struct gpu *g, uint64_t id, uint32_t space, uint32_t dimension);
void replica_hold(struct gpu *g, struct replica *r); /* and it is the newest now */
void replica_let_go(struct replica *r);

/* Bytes of each range, and how many there could ever be. */
struct replica_room {
    uint64_t bytes[RANGES_MAX], most[RANGES_MAX];
};
struct replica_room replica_room_of_rows(const struct gpu *g, uint32_t dimension, uint64_t rows);
/* VRAM for that; what is new is cleared on the stream. *wait: it must move or shrink, and others use
 * it; nothing was done. */
enum device_result replica_fit(struct gpu *g, struct replica *r, const struct replica_room *room,
                               device_stream stream, bool *wait);
/* No task may hold it. */
void replica_drop(struct gpu *g, struct replica *r);
void replicas_finish(struct gpu *g);

/* Of VRAM that it has mapped. */
uint64_t replica_bytes(const struct replica *r);
struct cuda_rows replica_rows(const struct replica *r);
static inline const uint64_t *replica_ids(const struct replica *r)
{
    return (const uint64_t *)r->ranges[RANGE_IDS].base;
}

#endif
