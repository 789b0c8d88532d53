/* save: objects of one instant as files of a snapshot. They are given as editions, which their
 * readers keep (store/edition.h), so that nobody waits for the disk.
 * Owner:  the caller.
 * Thread: save_list: the loop, the only user of the store; save_write: any, and it waits for the
 *         disk.
 * Errors: as save_arrays.h and folder.h say; what was begun is removed. */
#ifndef ENGRAM_PERSIST_SAVE_H
#define ENGRAM_PERSIST_SAVE_H

#include "daemon/persist/folder.h"
#include "daemon/persist/save_item.h"
#include "daemon/persist/token_file.h"

/* Describes a resident as one of its editions has it; the others are NULL. */
void save_describe(struct save_item *item, const struct resident *r);
/* All residents as they are now; *items from malloc, sorted by space, kind and name. kernels: no
 * writer has any, and weights of attractors that nobody has made yet are made; NULL: they are
 * not. */
enum status save_list(struct store *s, const struct vector_kernels *kernels,
                      struct save_item **items, uint64_t *count, struct failure *f);

struct save {
    const struct folder *folder;
    uint64_t number;
    const struct manifest_key *key;
    struct save_item *items;
    uint64_t count;
    struct manifest about; /* all but its objects */
    /* Where unchanged objects are linked from: a snapshot that is whole, and what is in it. */
    const struct token_bytes *tokens; /* that are remembered; NULL: none */
    uint64_t last_number;             /* 0: none */
    const struct manifest *last;
    struct save_meter *meter;
    int zstd;                         /* level; 0: files are plain */
    uint32_t threads;                 /* that write at most; 0: as the processors allow */
    void (*object_done)(void *owner); /* called after some, by any thread; NULL: nobody */
    /* Called before it gets its name; NULL: nobody. */
    enum status (*before_commit)(void *owner, struct failure *f);
    void *owner;
};
/* Whether there is room for it, by its size; *bytes: what is to be written, without what may be
 * linked. */
enum status save_check_room(const struct save *s, uint64_t *bytes, struct failure *f);
/* A line for the log. */
void save_log(const struct save *s, const struct folder *folder, uint64_t number,
              uint64_t began_ns);
/* Writes the snapshot. *out: what it holds. */
enum status save_write(struct save *s, struct manifest *out, struct failure *f);

#endif
