/* ring: a bounded queue of fixed slots between two processes, one producer and one consumer, in
 * memory that both map, with an eventfd to wake a consumer that sleeps.
 * Owner:  each side has its own struct ring over the same bytes.
 * Thread: one for each side: reserve and publish are the producer's, the rest the consumer's.
 * Errors: a full or empty ring gives NULL. ring_broken: the other side has written nonsense.
 *
 * A slot is written in place and then published, read in place and then released: no copies. */
#ifndef ENGRAM_HEAP_RING_H
#define ENGRAM_HEAP_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The part that both sides map; each side writes a cache line of its own. */
struct ring_lines {
    _Alignas(64) _Atomic uint64_t published; /* slots since the start; the producer writes it */
    _Alignas(64) _Atomic uint64_t released;  /* slots since the start; the consumer writes it */
    _Alignas(64) _Atomic uint32_t sleeping;  /* 1: the consumer waits on the eventfd */
};

struct ring {
    struct ring_lines *lines;
    char *slots;
    uint32_t slot_bytes;
    uint32_t slot_count; /* a power of two */
    int wake_fd;         /* eventfd, non-blocking */
    uint64_t mine;       /* the producer's published, the consumer's released */
    uint64_t seen;       /* the other side's, as last read */
    bool broken;
};

/* slots: slot_bytes * slot_count, 64-byte aligned. Both sides call it over zeroed memory. */
void ring_init(struct ring *r, struct ring_lines *lines, void *slots, uint32_t slot_bytes,
               uint32_t slot_count, int wake_fd);

/* ---- producer ---- */

/* Returns the next slot to fill, the same one until it is published; NULL: the ring is full. */
void *ring_reserve(struct ring *r);
/* Returns how many slots could be reserved and published one after the other now. */
uint32_t ring_room(struct ring *r);
/* Gives the reserved slot to the consumer, and wakes it if it sleeps. */
void ring_publish(struct ring *r);

/* ---- consumer ---- */

/* Returns the oldest slot, the same one until it is released; NULL: the ring is empty. */
const void *ring_peek(struct ring *r);
void ring_release(struct ring *r);
/* Announces that the consumer will wait on wake_fd. False: the ring is not empty, do not wait. */
bool ring_sleep(struct ring *r);
/* Ends the announcement of ring_sleep and clears the eventfd. */
void ring_wake(struct ring *r);

static inline bool ring_broken(const struct ring *r)
{
    return r->broken;
}

#endif
