/* sim_memory: the simulated device's memory, and the pinned memory that copies need. Device memory
 * consists of pieces ("granules") of one file, mapped into one reserved range of addresses, so
 * that ranges grow in place, two of them may show the same granules, and every pointer can be
 * classified. Nothing is cleared between owners.
 * Owner:  device_sim.
 * Thread: the device thread only.
 * Errors: false: out of memory or addresses; nothing has changed. A pointer that a device would
 *         not survive ends the process, with a line that says why: sim_misuse. */
#ifndef ENGRAM_GPU_SIM_MEMORY_H
#define ENGRAM_GPU_SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_span {
    char *base;
    uint64_t reserved; /* bytes of addresses */
    uint64_t bytes;    /* usable, from base on */
    uint32_t *granules;
    uint32_t granule_count; /* mapped */
};

struct sim_pinned {
    char *base;
    uint64_t bytes;
};

struct sim_memory {
    uint64_t granularity; /* 0: not initialised */
    uint32_t granule_count, granules_free;
    uint8_t *granule_users; /* spans that map it */
    int fd;
    char *region; /* the range of all device addresses */
    uint64_t region_bytes, cursor;
    struct sim_span **spans; /* sorted by address */
    uint32_t span_count, span_capacity;
    struct sim_pinned *pinned;
    uint32_t pinned_count, pinned_capacity;
};

bool sim_memory_init(struct sim_memory *m, uint64_t bytes, uint64_t granularity);
void sim_memory_finish(struct sim_memory *m); /* zeroed is fine */

/* Reserves addresses and maps nothing. */
struct sim_span *sim_span_create(struct sim_memory *m, uint64_t reserved);
/* Maps as many granules as `bytes` need and frees the others. usable: <= what is mapped. */
bool sim_span_resize(struct sim_memory *m, struct sim_span *s, uint64_t bytes);
/* Maps the first granules of `from`, as many as `bytes` need, at the same places of `to`, which has
 * none: both show the same memory. */
bool sim_span_share(struct sim_memory *m, const struct sim_span *from, struct sim_span *to,
                    uint64_t bytes);
static inline bool sim_span_shares(const struct sim_memory *m, const struct sim_span *s, uint32_t i)
{
    return m->granule_users[s->granules[i]] > 1;
}
/* Maps a granule of its own, with undefined contents, in place of the i-th, which is shared. */
bool sim_span_own(struct sim_memory *m, struct sim_span *s, uint32_t i);
void sim_span_destroy(struct sim_memory *m, struct sim_span *s); /* NULL is fine */
/* Returns the span that begins at address; misuse if there is none. */
struct sim_span *sim_span_at(struct sim_memory *m, const char *call, const void *address);

void *sim_pinned_create(struct sim_memory *m, uint64_t bytes);
void sim_pinned_destroy(struct sim_memory *m, void *address);

/* Checks that all bytes are device memory of one allocation, or pinned memory of one; otherwise
 * ends the process. */
void sim_device_check(const struct sim_memory *m, const char *call, const void *address,
                      uint64_t bytes);
/* The same for count elements of `size` bytes, the first of them aligned so. */
void sim_device_check_array(const struct sim_memory *m, const char *call, const void *address,
                            uint64_t count, uint64_t size, uint64_t alignment);
void sim_pinned_check(const struct sim_memory *m, const char *call, const void *address,
                      uint64_t bytes);
/* Checks that none of these bytes of device memory is shared, since they are to be written. */
void sim_own_check(const struct sim_memory *m, const char *call, const void *address,
                   uint64_t bytes);

/* Prints the message and aborts. */
void sim_misuse(const char *call, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

#endif
