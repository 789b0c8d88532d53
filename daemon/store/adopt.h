/* adopt: what a store holds, told in a catalogue (base/catalogue.h), and taken over by the store of
 * another process where it lies in the heap (heap/adopt.h): no row, edge or weight is copied. Ids
 * and norms of rows, which are beside the heap, stand in the catalogue; indexes are made anew,
 * since their hashes have another seed in each process. Versions and names stay; what is hidden
 * (name_is_hidden) goes with its connection, and rows in int8 are made again when they are asked.
 * Owner:  the store.
 * Thread: the only user of the store.
 * Errors: store_tell: RESOURCE_EXHAUSTED. store_adopt, with text: DATA_LOSS: what is told cannot
 *         be; RESOURCE_EXHAUSTED. The store and the heap can only be destroyed then. */
#ifndef ENGRAM_STORE_ADOPT_H
#define ENGRAM_STORE_ADOPT_H

#include "daemon/base/catalogue.h"
#include "daemon/store/space.h"

/* Nobody reads or writes any more. */
enum status store_tell(struct store *s, struct catalogue_writer *w, struct failure *f);
/* s: empty, of a heap that heap_adopt made; what it must find free or whole, heap_adopt_check and
 * _end tell and do. *count: how many it has. */
enum status store_adopt(struct store *s, struct catalogue_reader *r, uint64_t *count,
                        struct failure *f);

#endif
