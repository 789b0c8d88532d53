/* resident: the part that a collection and a graph have in common: a name in a space, a turnstile,
 * a version, and perhaps a copy on a GPU.
 * Owner:  the collection or graph whose first member it is.
 * Thread: the loop; version: the loop, or whoever holds the turnstile.
 * Errors: none. */
#ifndef ENGRAM_STORE_RESIDENT_H
#define ENGRAM_STORE_RESIDENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/store/space.h"

struct job;

/* Jobs enter in arrival order: readers together, a writer alone (sched/turnstile.h). */
struct turnstile {
    uint32_t readers;
    bool writer;
    struct job *waiting_head, *waiting_tail;
};

enum resident_kind { RESIDENT_COLLECTION = 1, RESIDENT_GRAPH = 2 };

struct resident {
    enum resident_kind kind;
    char name[COLLECTION_NAME_MAX + 1];
    struct space *space;
    struct turnstile turnstile;
    void *replica; /* the record of whoever keeps a copy of it; NULL at first */
    /* Rises with every change; the loop may read it while a writer works. */
    _Atomic uint64_t version;
};

static inline uint64_t resident_version(const struct resident *r)
{
    return atomic_load_explicit(&r->version, memory_order_relaxed);
}

/* Initialises a resident whose memory is all zero. */
void resident_init(struct resident *r, enum resident_kind kind, struct space *space,
                   const char *name);
/* Raises the version; the writer calls it after each change. */
static inline void resident_change(struct resident *r)
{
    atomic_fetch_add_explicit(&r->version, 1, memory_order_relaxed);
}

/* For copies of a collection or graph elsewhere. Only the loop calls these, while a reader holds
 * the turnstile; they call the functions of the collection or graph. */

/* Bytes of a whole copy; the loop may ask while a writer works. */
uint64_t resident_bytes(const struct resident *r);
/* Dirty bytes: what it takes to bring a complete copy up to date. */
uint64_t resident_dirty_bytes(const struct resident *r);
/* Starts to track changes. False: no memory; then everything counts as dirty. */
bool resident_track(struct resident *r);
/* Marks everything as dirty and stops tracking changes. */
void resident_soil(struct resident *r);

#endif
