/* save_crew: the files of a snapshot's objects, written by a few threads at once: the SHA-256 of a
 * file is one core's work from its beginning to its end, which is slower than a fast disk.
 * Owner:  the caller, and its thread is one of them.
 * Thread: any; it waits for the disk. Items and the save stay as they are meanwhile, but for what
 *         is filled in.
 * Errors: the first of any thread, as save_arrays.h says; the other threads end then. */
#ifndef ENGRAM_PERSIST_SAVE_CREW_H
#define ENGRAM_PERSIST_SAVE_CREW_H

#include "daemon/persist/save_item.h"

enum { SAVE_THREADS_MAX = 4 };

struct save_crew {
    int folder;
    struct save_item *items;
    uint64_t count;
    struct save_meter *meter;
    int zstd;                         /* level; 0: files are plain */
    uint32_t threads;                 /* at most; 0: as the processors allow */
    void (*object_done)(void *owner); /* called after some, by any thread; NULL: nobody */
    void *owner;
};
/* Writes and syncs the files of all items that are not linked. */
enum status save_crew_write(const struct save_crew *crew, struct failure *f);

#endif
