/* space: a tenant: its name, number, collections and graphs. The host truth.
 * Owner:  the store, which the pipeline owns.
 * Thread: the loop, except what collection.h says of a collection's rows.
 * Errors: as each function says. */
#ifndef ENGRAM_STORE_SPACE_H
#define ENGRAM_STORE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/status.h"
#include "daemon/heap/heap.h"
#include "kernels/vectors.h"

enum { SPACE_NAME_MAX = 64, COLLECTION_NAME_MAX = 64 };

struct collection;
struct graph;
struct store;
struct tenant;

struct space {
    char name[SPACE_NAME_MAX + 1];
    uint32_t number; /* >= 1, never reused: the heap's owner */
    uint32_t users;  /* connections and jobs that point here */
    uint64_t collection_count, graph_count;
    uint64_t row_count;      /* writers on any thread: read it with space_row_count */
    uint64_t work_bytes;     /* of its graphs' workspaces; any thread, atomically */
    uint64_t vram_bytes_max; /* of its replicas together; 0: no bound. The pipeline sets it */
    struct tenant *tenant;   /* sched/tenant.h: the pipeline makes and ends it; or NULL */
    struct collection *collections; /* uthash, by name; store_ functions only */
    struct graph *graphs;           /* the same */
    struct space *hh_next;          /* the store's list */
};

static inline uint64_t space_row_count(const struct space *s)
{
    return __atomic_load_n(&s->row_count, __ATOMIC_RELAXED);
}

/* Both outlive the store. */
enum status store_create(struct heap *heap, const struct vector_kernels *kernels,
                         struct store **out);
/* At most this many collections and graphs in a space from now on; no bound at first. */
void store_limit_collections(struct store *s, uint64_t per_space);

/* Drops everything. No job may hold a collection. */
void store_destroy(struct store *s);

/* Trims spaces and tabs, applies "default" for an empty name, checks the rule (3-64 bytes of
 * [a-z0-9_-]). INVALID_ARGUMENT/BAD_SPACE. name_out: SPACE_NAME_MAX + 1 bytes. */
enum status space_name_parse(const char *text, char *name_out, struct failure *f);

/* Finds or makes, and counts one user more. RESOURCE_EXHAUSTED. */
enum status store_space(struct store *s, const char *name, struct space **out);

/* One user fewer; the last one out of a space without collections and graphs makes it forgotten. */
void store_space_release(struct store *s, struct space *space);

/* The first space (after: NULL), or the one after it; NULL past the last. No order. */
struct space *store_space_next(const struct store *s, const struct space *after);

/* Called with each space that is forgotten from now on, by store_destroy too, while it is whole. */
void store_on_forget(struct store *s, void (*forget)(void *owner, struct space *space),
                     void *owner);

/* Collection names: 1-64 bytes of [A-Za-z0-9._-]. INVALID_ARGUMENT/BAD_NAME. */
enum status collection_name_check(const char *name, struct failure *f);

/* ALREADY_EXISTS, INVALID_ARGUMENT (name, dimension 1..16384, metric), RESOURCE_EXHAUSTED
 * (MEMORY, TOO_MANY_COLLECTIONS). */
enum status store_collection_create(struct store *s, struct space *space, const char *name,
                                    uint32_t dimension, uint32_t metric, struct failure *f,
                                    struct collection **out);

/* NOT_FOUND/UNKNOWN_COLLECTION, INVALID_ARGUMENT/BAD_NAME. */
enum status store_collection_find(struct store *s, struct space *space, const char *name,
                                  struct failure *f, struct collection **out);

/* Takes the collection out of the space's names at once; its memory stays until
 * collection_destroy. */
void store_collection_unlink(struct store *s, struct space *space, struct collection *c);

/* Names greater than after ("" for all), in byte order, at most max; *more says whether others
 * follow. Returns how many. */
size_t store_collection_list(struct store *s, struct space *space, const char *after,
                             struct collection **out, size_t max, bool *more);

#endif
