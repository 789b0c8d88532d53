/* save_arrays: the arrays of objects into their files, piece by piece.
 * Owner:  the caller. Thread: any, each with a writer of its own; it waits for the disk.
 * Errors: as array_file.h says; CANCELLED: the meter says stop, or
 *         that another thread has failed. */
#ifndef ENGRAM_PERSIST_SAVE_ARRAYS_H
#define ENGRAM_PERSIST_SAVE_ARRAYS_H

#include "daemon/persist/save_item.h"

/* What a thread writes with. */
struct save_writer {
    int folder;
    struct save_meter *meter; /* gets the bytes that were written */
    struct array_late *late;  /* gets the files, which the caller syncs */
    int zstd;                 /* level; 0: files are plain */
    char *room;               /* of save_writer_open */
};
enum status save_writer_open(struct save_writer *w, struct failure *f);
void save_writer_close(struct save_writer *w);
/* Array i of an item; others of its may be written at the same time. */
enum status save_array(const struct save_writer *w, struct save_item *item, uint32_t i,
                       struct failure *f);

#endif
