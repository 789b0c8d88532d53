/* engram_accel_persist: snapshots of the data on the daemon's disk. engram_accel.h, which includes
 * this header, says who owns what, which threads may call, and what errors mean. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_PERSIST_H)
#define ENGRAM_ACCEL_PERSIST_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ea_save_options {
    const char *to; /* NULL: the daemon's persist.dir; or a folder of its machine, from / */
    const char *const *spaces; /* whose objects are saved, only with `to`; NULL: all */
    size_t space_count;
    bool dry_run; /* nothing is written; what would be is told */
} ea_save_options;

typedef struct ea_saved {
    char path[1001];         /* the folder */
    uint64_t number;         /* of the snapshot in it; 0: a dry run */
    uint64_t objects, bytes; /* in its files */
    uint64_t linked_bytes;   /* of objects that have not changed: not written again */
    uint64_t free_bytes;     /* there, afterwards; UINT64_MAX: not known */
    uint64_t version;        /* the last that any object had */
} ea_saved;

/* Has the daemon save all of its objects, as they are at one instant after the call, as a snapshot
 * that is on the disk when this returns. options NULL: all defaults; out may be NULL. It lasts as
 * long as the disk takes; requests are served meanwhile (ea_on_progress tells how far it is, and
 * may cancel). Only for root and the user that the daemon runs as: PERMISSION_DENIED.
 * FAILED_PRECONDITION: there is no persist.dir, or another daemon uses the folder;
 * RESOURCE_EXHAUSTED: the disk is full, or writes want the memory; UNAVAILABLE: a system call
 * failed, or the daemon stops. Older snapshots stay as they are. There is no _send. */
EA_API ea_status ea_save(ea_client *c, const ea_save_options *options, ea_saved *out);

#ifdef __cplusplus
}
#endif

#endif
