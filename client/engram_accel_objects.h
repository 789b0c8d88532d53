/* engram_accel_objects: what is the same for collections, graphs and attractors.
 * engram_accel.h, which includes it, says who owns what, which threads may call, and what errors
 * mean. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_OBJECTS_H)
#define ENGRAM_ACCEL_OBJECTS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ea_object { EA_COLLECTION = 1, EA_GRAPH = 2, EA_ATTRACTOR = 3 } ea_object;

/* A name that begins with ~ is hidden: no list has it, no snapshot keeps it, and the daemon drops
 * what has it when the connection that made it is closed or lost, unless ea_swap gave it another
 * name before. Otherwise it is used as any other, also by other connections of the space, and
 * counts in its quotas. */

typedef struct ea_swapped {
    uint64_t version;          /* that it has from now on */
    uint64_t replaced_version; /* of what was there before; 0: nothing was */
} ea_swapped;

/* Puts what is called `with` (made under a hidden name, or any other) in place of what is called
 * `name`, at one instant: nobody ever sees half. Whoever began to read keeps what was there, which
 * is dropped then; nothing need be there. NOT_FOUND: there is no `with`. UNAVAILABLE
 * (EA_DETAIL_BEING_WRITTEN): writes to it have no answer yet. It takes what ea_next_write says,
 * which is about `name`. out may be NULL. Dimension and metric may be others than before. */
EA_API ea_status ea_swap(ea_client *c, ea_object object, const char *name, const char *with,
                         ea_swapped *out);
EA_API ea_status ea_swap_send(ea_client *c, ea_object object, const char *name, const char *with,
                              const ea_send_options *how,
                              uint64_t *request_id); /* answer->swapped */

typedef struct ea_object_version {
    ea_object object;
    char name[65];
    uint64_t version;
} ea_object_version;
/* What is there and has changed since a version: collections, then graphs, then attractors, by
 * name; since 0: all that is there. *now: the last version that anything had taken when this began,
 * to be given as `since` the next time. *total: how many there are, changed or not, so that a
 * keeper learns that one is gone. Either may be NULL. Versions are comparable within one instance
 * and generation (ea_expect). *out is freed with ea_changes_free. */
EA_API ea_status ea_changes(ea_client *c, uint64_t since, ea_object_version **out, size_t *count,
                            uint64_t *now, uint64_t *total);
EA_API void ea_changes_free(ea_object_version *list);

/* A reading of all that a collection or graph has, in storage order, a page a call. Zero it before
 * the first page. */
typedef struct ea_cursor {
    uint64_t position;  /* of the next page */
    uint64_t positions; /* in all; after the first page */
    uint64_t version;   /* that all pages are of */
    bool at_end;        /* there are no more */
    uint64_t number;    /* the daemon's */
} ea_cursor;
/* Reads up to `limit` rows from at->position on, and moves it on. All pages are of one version,
 * which the daemon keeps while pages are asked for: 30 s after the last one, when the connection is
 * lost or the collection is dropped, it is EA_ABORTED (EA_DETAIL_CURSOR_ENDED): begin again. A
 * connection has four at once. */
EA_API ea_status ea_scan_rows(ea_client *c, const char *collection, ea_cursor *at, uint64_t limit,
                              ea_result *out);

#ifdef __cplusplus
}
#endif

#endif
