/* save_arrays: the arrays of one object into their files, piece by piece.
 * Owner:  the caller. Thread: any; it waits for the disk.
 * Errors: as array_file.h says; CANCELLED: the meter says stop. */
#ifndef ENGRAM_PERSIST_SAVE_ARRAYS_H
#define ENGRAM_PERSIST_SAVE_ARRAYS_H

#include "daemon/persist/save_item.h"

/* meter: gets the bytes that were written. late: gets the files, which the caller syncs. */
enum status save_arrays(int folder, struct save_item *item, struct save_meter *meter,
                        struct array_late *late, struct failure *f);

#endif
