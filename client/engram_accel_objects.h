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

#ifdef __cplusplus
}
#endif

#endif
