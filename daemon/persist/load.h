/* load: a snapshot's files back into the store, each object whole or not at all.
 * Owner:  the caller.
 * Thread: load_object: the only user of the store; load_manifest, load_verify: any. They wait for
 *         the disk.
 * Errors: DATA_LOSS/DAMAGED (files that are not what was written, or that no daemon would write),
 *         UNAVAILABLE/SYSTEM, RESOURCE_EXHAUSTED, and as manifest.h says. */
#ifndef ENGRAM_PERSIST_LOAD_H
#define ENGRAM_PERSIST_LOAD_H

#include <stdatomic.h>

#include "daemon/persist/manifest.h"
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
};
/* Makes the object and fills it. After a failure it is not there. */
enum status load_object(struct loading *l, const struct snapshot_object *o, struct failure *f);

/* Reads all files of an object and compares their sums, SHA-256 too. */
enum status load_verify(int folder, const struct snapshot_object *o, struct failure *f);

#endif
