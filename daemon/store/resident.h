/* resident: the part that a collection, a graph and an attractor have in common: a name in a space,
 * a turnstile, a version, and perhaps a copy on a GPU.
 * Owner:  the collection or graph whose first member it is.
 * Thread: the loop; version: the loop, or a writer.
 * Errors: none. */
#ifndef ENGRAM_STORE_RESIDENT_H
#define ENGRAM_STORE_RESIDENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/store/space.h"

struct job;
struct job_object;

/* Who may use the contents, and who waits for that (sched/turnstile.h). */
struct turnstile {
    uint32_t readers;
    struct job *writer;
    uint32_t waiting_writers;
    struct job_object *waiting_head, *waiting_tail;
    uint64_t number_last; /* of who came to wait last */
    /* of the last writer that waited and began; writers that wait have larger numbers */
    uint64_t number_passed;
    bool looks_again; /* who waited has begun or left, for which others may have waited */
};

/* What no edition sees any more: lists, which its kind knows; NULL: none. */
struct leftovers {
    void *memory, *indexes;
};

/* Rows [first, first + count) of a collection, or bytes of a part of a graph. */
struct resident_run {
    uint32_t part; /* of a graph */
    uint64_t first, count;
};

/* What an empty one takes beside its own structs: its place in the space's table, and what malloc
 * rounds up. */
enum { RESIDENT_OUTSIDE_BYTES = 256 };

enum resident_kind { RESIDENT_COLLECTION, RESIDENT_GRAPH, RESIDENT_ATTRACTOR, RESIDENT_KINDS };

struct resident;

/* What each kind does differently; one const table each (collection.c, graph.c, attractor.c). */
struct resident_ops {
    enum resident_kind kind;
    /* Bytes of a whole copy; the loop may ask while a writer works. */
    uint64_t (*bytes)(const struct resident *r);
    uint64_t (*dirty_bytes)(const struct resident *r);
    bool (*track)(struct resident *r);
    void (*soil)(struct resident *r);
    void (*soil_run)(struct resident *r, const struct resident_run *run);
    /* Makes j a job about r: sets its resident, and its collection or graph as they are now. */
    void (*lend)(struct resident *r, struct job *j);
    /* A reader or a writer of o's resident begins; false: a reader cannot now, as a writer is at
     * work in place. */
    bool (*begin)(struct job_object *o);
    /* A reader that has not read yet shall see its resident as it is now. False: a writer changes
     * it in place just now, and the reader keeps what it has. */
    bool (*renew)(struct job_object *o);
    /* Makes `to`, a reader, see what `from` sees, whose it may have been for long. NULL: nobody
     * asks this kind. */
    void (*share)(struct job_object *to, const struct job_object *from);
    /* It ends; what a writer wrote is there for all from now on. */
    void (*end)(struct job_object *o);
    /* Takes what only old editions had that are gone. It can be freed on any thread, which takes
     * long if it is much. */
    struct leftovers (*take_gone)(struct resident *r);
    bool (*gone_is_much)(const struct leftovers *gone);
    void (*free_gone)(struct heap *heap, struct leftovers gone);
    /* Gives what it has now, which nobody is writing, the next version. */
    void (*renumber)(struct resident *r);
    void (*destroy)(struct resident *r);
};

struct resident {
    const struct resident_ops *ops;
    char name[COLLECTION_NAME_MAX + 1];
    struct space *space;
    struct turnstile turnstile;
    void *replica;   /* the record of whoever keeps a copy of it; NULL at first */
    uint64_t maker;  /* of a hidden one: the connection that it goes with; 0: none */
    uint64_t asked;  /* how many requests have named it lately; the loop */
    uint64_t number; /* the later it got its name, the larger, among all that the store ever had */
    /* Rises with every change; the loop may read it while a writer works. All residents of a store
     * take theirs from one counter (space_next_version), so that a version stands for one state of
     * one of them, also after a drop and a create. */
    _Atomic uint64_t version;
    /* How many read one of its editions beside requests, a snapshot and records: the loop counts
     * them, who drops it asks. Its memory stays until the last has ended with it, which destroys it
     * if it is abandoned by then (request/sweep.c). */
    atomic_uint saved;
    bool abandoned;
    uint64_t since; /* of a hidden one: the journal's file in which it was made; 0: none */
};

static inline bool resident_is_saved(const struct resident *r)
{
    return atomic_load_explicit(&r->saved, memory_order_relaxed) > 0;
}

static inline uint64_t resident_version(const struct resident *r)
{
    return atomic_load_explicit(&r->version, memory_order_relaxed);
}

/* Initialises a resident whose memory is all zero; to be made is a change. */
void resident_init(struct resident *r, const struct resident_ops *ops, struct space *space,
                   const char *name);
/* Of one that is in no table of names. */
void resident_set_name(struct resident *r, const char *name);
static inline void resident_set_version(struct resident *r, uint64_t version)
{
    atomic_store_explicit(&r->version, version, memory_order_relaxed);
}
/* Raises the version; the writer calls it after each change. */
static inline void resident_change(struct resident *r)
{
    resident_set_version(r, space_next_version(r->space));
}

/* For copies of a collection or graph elsewhere. Only the loop calls these, while a reader holds
 * the turnstile. */

/* Bytes of a whole copy; the loop may ask while a writer works. */
static inline uint64_t resident_bytes(const struct resident *r)
{
    return r->ops->bytes(r);
}
/* Dirty bytes: what it takes to bring a complete copy up to date. */
static inline uint64_t resident_dirty_bytes(const struct resident *r)
{
    return r->ops->dirty_bytes(r);
}
/* Starts to track changes. False: no memory; then everything counts as dirty. */
static inline bool resident_track(struct resident *r)
{
    return r->ops->track(r);
}
/* Marks everything as dirty and stops tracking changes. */
static inline void resident_soil(struct resident *r)
{
    r->ops->soil(r);
}
/* Marks a run as dirty again that was marked as clean; needs no turnstile. */
static inline void resident_soil_run(struct resident *r, const struct resident_run *run)
{
    r->ops->soil_run(r, run);
}

#endif
