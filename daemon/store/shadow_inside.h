/* shadow_inside: a segment's shadow, for the files of daemon/store only.
 * Owner:  the segment.
 * Thread: as shadow.h says.
 * Errors: none. */
#ifndef ENGRAM_STORE_SHADOW_INSIDE_H
#define ENGRAM_STORE_SHADOW_INSIDE_H

#include <math.h>
#include <pthread.h>

#include "daemon/heap/heap.h"
#include "daemon/store/shadow.h"

struct segment;

#define SHADOW_BUSY  UINT32_C(0x40000000)
#define SHADOW_READY UINT32_C(0x80000000)

enum { SHADOW_MIDDLES_MAX = 8 }; /* of a collection; the last one stays */

/* Of one segment. Its struct stays as long as the segment, its block comes and goes. */
struct segment_shadow {
    /* 0: none; SHADOW_BUSY: it is made, written or dropped; else SHADOW_READY + who holds it */
    _Atomic uint32_t state;
    _Atomic uint32_t asked; /* queries that found none */
    _Atomic uint32_t rows;  /* how many are coded, from the first on */
    struct heap_block block;
    struct shadow_places places; /* in the block */
    const struct shadow_middle *middle;
    uint64_t checksum;     /* the sum of those of its rows */
    double lost, share;    /* sums of lost, and of lost / norm, over its rows */
    struct collection *of; /* NULL: it is gone */
    struct shadows *all;
    uint32_t owner;                         /* the space's number */
    struct segment_shadow *next, *previous; /* in the list of all; under its lock */
};

struct shadow_middle {
    float norm;
    uint64_t made_ns;
    float row[] __attribute__((aligned(64))); /* padded */
};

/* Of one collection; the centres under the lock of struct shadows. */
struct collection_shadow {
    const struct shadow_middle *middle; /* the newest; NULL: none yet */
    struct shadow_middle *middles[SHADOW_MIDDLES_MAX];
    uint32_t middle_count;
    _Atomic uint64_t rows, bytes;
    _Atomic double lost, share; /* sums, as those of segments */
    double lost_first;          /* the mean that lost had when all rows were coded; 0: not yet */
    _Atomic uint64_t screened, passed;
    _Atomic uint32_t skipped, skip; /* searches that score exactly: since, and until the next try */
    struct screen_counts counts[SCREENS]; /* the loop's */
};

/* A writer in place has changed row `row` of a segment, which had this norm; nobody else sees
 * it. */
void segment_shadow_write(struct collection *c, struct segment *s, uint64_t row, float norm_before);
/* A writer is about to write rows that nobody sees from `row` on. */
void segment_shadow_cut(struct segment *s, uint64_t row);
/* The segment goes; nobody sees it. */
void segment_shadow_end(struct segment *s);
/* The collection's rows go. */
void collection_shadow_clear(struct collection *c);

struct shadows {
    struct heap *heap;
    const struct shadow_kernels *kernels;
    _Atomic bool allowed;
    pthread_mutex_t lock; /* of all below, and of every struct collection_shadow */
    struct segment_shadow *first;
    struct segment_shadow *swept; /* the next one to be compared */
    uint64_t differed;
    _Atomic uint64_t bytes;               /* of all blocks */
    struct screen_counts counts[SCREENS]; /* of all collections there ever were; the loop */
};

/* ---- shadows.c ---- */

bool shadow_hold(struct segment_shadow *s);
void shadow_leave(struct segment_shadow *s);
/* Waits for those that hold it, which takes microseconds. False: there is none. Who has seized one
 * that is on the list does not ask for the lock, since who has the lock may wait here. */
bool shadow_seize(struct segment_shadow *s);
/* The same without waiting. */
bool shadow_try_seize(struct segment_shadow *s);
void shadow_give_back(struct segment_shadow *s, bool there);
/* Adds one that was seized to the list; takes one off it, under the lock, with its memory. */
void shadow_list(struct shadows *all, struct segment_shadow *s);
void shadow_drop(struct shadows *all, struct segment_shadow *s);
/* Shadows of segments that only a worker still has to free outlive their collection. */
void shadow_forget(struct shadows *all, struct collection *c);

/* The sum of what rows [first, end) have as checksums. */
uint64_t shadow_checksum(uint32_t dimension, const struct segment_shadow *s, size_t first,
                         size_t end);
/* Of the centre from which a segment's rows are coded; it counts with them. */
uint64_t shadow_middle_checksum(uint32_t dimension, const struct shadow_middle *m);

/* += would want libatomic for the flags of binary64. */
static inline void shadow_add(_Atomic double *sum, double more)
{
    double was = atomic_load_explicit(sum, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(sum, &was, was + more, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

static inline double shadow_finite(float lost)
{
    return isfinite(lost) ? (double)lost : 0;
}

#endif
