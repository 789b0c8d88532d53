/* save: objects of one instant as files of a snapshot. They are given as editions, which their
 * readers keep (store/edition.h), so that nobody waits for the disk.
 * Owner:  the caller.
 * Thread: save_list: the loop, the only user of the store; save_write: any, and it waits for the
 *         disk.
 * Errors: as array_file.h and folder.h say; what was begun is removed. */
#ifndef ENGRAM_PERSIST_SAVE_H
#define ENGRAM_PERSIST_SAVE_H

#include <stdatomic.h>

#include "daemon/persist/folder.h"
#include "daemon/persist/save_item.h"

/* Describes a resident as one of its editions has it; the others are NULL. */
void save_describe(struct save_item *item, const struct resident *r);
/* All residents as they are now, none of which a writer has; *items from malloc. Weights of
 * attractors that nobody has made yet are made. */
enum status save_list(struct store *s, const struct vector_kernels *kernels,
                      struct save_item **items, uint64_t *count, struct failure *f);

struct save {
    struct folder *folder;
    uint64_t number;
    const struct manifest_key *key;
    struct save_item *items;
    uint64_t count;
    struct manifest about; /* all but its objects */
    /* Where unchanged objects are linked from: a snapshot that is whole, and what is in it. */
    uint64_t last_number; /* 0: none */
    const struct manifest *last;
    atomic_ullong done_bytes, all_bytes; /* to be read by others */
    atomic_ullong linked_bytes;
};
/* Writes the snapshot. *out: what it holds. */
enum status save_write(struct save *s, struct manifest *out, struct failure *f);

#endif
