/* load: a snapshot's files back into the store, each object whole or not at all.
 * Owner:  the caller.
 * Thread: as each function says; load_manifest, load_verify: any. They wait for the disk, but for
 *         load_make, load_link and load_discard.
 * Errors: DATA_LOSS/DAMAGED (files that are not what was written, or that no daemon would write),
 *         UNAVAILABLE/SYSTEM, RESOURCE_EXHAUSTED, and as manifest.h says. */
#ifndef ENGRAM_PERSIST_LOAD_H
#define ENGRAM_PERSIST_LOAD_H

#include <stdatomic.h>

#include "daemon/persist/manifest.h"
#include "daemon/persist/token_file.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"

/* Reads persist.key_file; "": there is none. INVALID_ARGUMENT: it cannot be read, is empty or too
 * large. */
enum status load_key(const char *path, struct manifest_key *key, struct failure *f);
/* Reads the manifest of an open folder. */
enum status load_manifest(int folder, const struct manifest_key *key, struct manifest *out,
                          struct failure *f);

struct loading {
    struct store *store;
    struct heap *heap;
    const struct vector_kernels *kernels;
    int folder;
    atomic_ullong done_bytes;
    atomic_bool stop; /* what is being filled fails as CANCELLED */
};
/* An object on its way, in no table of names. */
struct load_item {
    const struct snapshot_object *object;
    struct space *space;           /* kept by it */
    struct collection *collection; /* one of the three */
    struct graph *graph;
    struct attractor *attractor;
};
/* Makes the object, empty; the only user of the store. After a failure there is none. */
enum status load_make(struct loading *l, const struct snapshot_object *o, struct load_item *item,
                      struct failure *f);
/* Fills it; any thread, which alone has it; of attractors of a space one at a time. */
enum status load_fill(struct loading *l, struct load_item *item, struct failure *f);
/* Enters its name, or destroys it; the only user of the store. After a failure it is still to be
 * destroyed. */
enum status load_link(struct loading *l, struct load_item *item, struct failure *f);
/* Destroys what was made, and keeps its space alone. */
void load_empty(struct load_item *item);
void load_discard(struct loading *l, struct load_item *item);
/* All of it at once. After a failure the object is not there. */
enum status load_object(struct loading *l, const struct snapshot_object *o, struct failure *f);

/* Reads and checks the tokens of a snapshot, if it has some; *out: to be freed. */
enum status load_tokens(int folder, const struct manifest *m, struct token_bytes *out,
                        struct failure *f);

/* Reads all files of an object and compares their sums, SHA-256 too. */
enum status load_verify(int folder, const struct snapshot_object *o, struct failure *f);

#endif
