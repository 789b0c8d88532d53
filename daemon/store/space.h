/* space: a tenant: its name, number, collections and graphs. The copies of collections and graphs
 * here, in host memory, are the authoritative ones.
 * Owner:  the store, which the pipeline owns.
 * Thread: the loop, except what collection.h says of a collection's rows.
 * Errors: as each function says. */
#ifndef ENGRAM_STORE_SPACE_H
#define ENGRAM_STORE_SPACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/status.h"
#include "daemon/heap/heap.h"
#include "kernels/vectors.h"

enum { SPACE_NAME_MAX = 64, COLLECTION_NAME_MAX = 64 };

struct collection;
struct graph;
struct attractor;
struct dentate;
struct shadows;
struct store;
struct tenant;

struct space {
    char name[SPACE_NAME_MAX + 1];
    uint32_t number; /* >= 1, never reused; the heap counts its blocks by this number */
    uint32_t users;  /* how many connections and jobs point here */
    uint64_t collection_count, graph_count, attractor_count;
    uint64_t loading_count;     /* of objects that are on their way from the disk; the loop */
    uint64_t row_count;         /* writers change it on any thread: space_row_count reads it */
    uint64_t work_bytes;        /* of the workspaces of its graphs; atomic, any thread */
    _Atomic uint64_t *versions; /* the store's: the last version that any resident took */
    uint64_t *residents_named;  /* the store's: how many names residents ever got; the loop */
    const atomic_bool *calm;    /* the store's, as store_calm sets it; NULL: never */
    uint64_t vram_bytes_max; /* of all its replicas together; 0: unlimited. The pipeline sets it */
    /* Where the operator's counters have it (report/space_counts.h); 0: nowhere yet. */
    uint32_t counted_as;
    bool counted_in_others; /* there was no place */
    struct tenant *tenant;  /* NULL, or made and destroyed by the pipeline (sched/tenant.h) */
    struct collection *collections; /* a uthash by name; only store_ functions use it */
    struct graph *graphs;           /* likewise */
    struct attractor *attractors;   /* likewise */
    struct dentate *dentates;       /* that its attractors share (dentate.h) */
    struct space *hh_next;          /* the next in the store's list */
};

static inline uint64_t space_row_count(const struct space *s)
{
    return __atomic_load_n(&s->row_count, __ATOMIC_RELAXED);
}

/* The next version of a resident; any thread. */
static inline uint64_t space_next_version(struct space *s)
{
    return atomic_fetch_add_explicit(s->versions, 1, memory_order_relaxed) + 1;
}
/* The last one. */
static inline uint64_t space_last_version(const struct space *s)
{
    return atomic_load_explicit(s->versions, memory_order_relaxed);
}

/* heap and kernels must outlive the store. */
enum status store_create(struct heap *heap, const struct vector_kernels *kernels,
                         struct store **out);
/* Limits the collections and graphs of a space, from now on; at first there is no limit. */
void store_limit_collections(struct store *s, uint64_t per_space);

/* What keeps rows in int8 beside those of collections (shadow.h); it is off at first. */
struct shadows *store_shadows(const struct store *s);

/* Destroys all spaces, collections and graphs. No job may hold a collection. */
void store_destroy(struct store *s);

/* Trims spaces and tabs, turns an empty name into "default" and checks the rule (3-64 bytes of
 * [a-z0-9_-]). INVALID_ARGUMENT/BAD_SPACE. name_out: SPACE_NAME_MAX + 1 bytes. */
enum status space_name_parse(const char *text, char *name_out, struct failure *f);

/* While calm, writers begin nothing in place: soon every newest edition can be pinned, all in one
 * turn of the loop. A write for which there is no other memory does. */
void store_calm(struct store *s, bool calm);
static inline bool space_is_calm(const struct space *s)
{
    return s->calm && atomic_load_explicit(s->calm, memory_order_relaxed);
}

/* Finds or makes a space and counts one more user. RESOURCE_EXHAUSTED. */
enum status store_space(struct store *s, const char *name, struct space **out);

/* Counts one user less; a space without users, collections and graphs is forgotten. */
void store_space_release(struct store *s, struct space *space);

/* Returns the first space (after: NULL), or the one behind `after`; NULL at the end. In no
 * order. */
struct space *store_space_next(const struct store *s, const struct space *after);

/* Sets a function that is called with each space just before it is forgotten, by store_destroy
 * too. */
void store_on_forget(struct store *s, void (*forget)(void *owner, struct space *space),
                     void *owner);

/* Collection names: 1-64 bytes of [A-Za-z0-9._-], or, of hidden ones, a ~ and 1-63 of these.
 * INVALID_ARGUMENT/BAD_NAME. */
enum status collection_name_check(const char *name, struct failure *f);
/* What has a hidden name is being made: no list has it, no snapshot keeps it, and it goes with the
 * connection that made it, unless it is given another name before. */
static inline bool name_is_hidden(const char *name)
{
    return name[0] == '~';
}

#endif
