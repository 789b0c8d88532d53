/* resident: what a collection and a graph have in common: a name in a space, a turnstile, a
 * version, and perhaps a copy on a GPU.
 * Owner:  the collection or graph whose first member it is.
 * Thread: the loop; version is for anyone who holds the turnstile, or the loop.
 * Errors: none. */
#ifndef ENGRAM_STORE_RESIDENT_H
#define ENGRAM_STORE_RESIDENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/store/space.h"

struct job;

/* Jobs pass in arrival order; readers together, a writer alone. The pipeline runs it. */
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
    void *replica; /* whatever keeps a copy of it hangs its own record here; NULL at first */
    /* Rises with every change; the loop may read it while a writer works. */
    _Atomic uint64_t version;
};

static inline uint64_t resident_version(const struct resident *r)
{
    return atomic_load_explicit(&r->version, memory_order_relaxed);
}

/* Of memory that is all zero. */
void resident_init(struct resident *r, enum resident_kind kind, struct space *space,
                   const char *name);
/* By the writer, after each change. */
static inline void resident_change(struct resident *r)
{
    atomic_fetch_add_explicit(&r->version, 1, memory_order_relaxed);
}

/* For a copy elsewhere, of either kind; these are the loop's, while a reader holds the turnstile. A
 * collection's and a graph's own functions do the work. */

/* Bytes that a whole copy takes; the loop may ask while a writer works. */
uint64_t resident_bytes(const struct resident *r);
/* Those that a copy which had it all would have to be told. */
uint64_t resident_dirty_bytes(const struct resident *r);
/* From now on changes are told apart. False: no memory; all counts as dirty. */
bool resident_track(struct resident *r);
/* All is dirty, and changes are not told apart any more. */
void resident_soil(struct resident *r);

#endif
