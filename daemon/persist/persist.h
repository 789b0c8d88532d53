/* persist: the data of a daemon on the disk: which snapshot it starts with, under which instance
 * and generation, and what it saves.
 *
 * An instance and a version name a state of the data for ever. An orderly stop saves everything,
 * and the next start goes on with its instance; after any other end, what clients saw may be newer
 * than what was saved, so a start from an older state takes a new instance and the next generation.
 * Owner:  the engine.
 * Thread: the loop, before it runs and after it has ended; verify: any.
 * Errors: persist_create, persist_load: the daemon cannot start, with a text that names the file;
 *         persist_save: what was saved before is kept. */
#ifndef ENGRAM_PERSIST_PERSIST_H
#define ENGRAM_PERSIST_PERSIST_H

#include <stdio.h>

#include "daemon/base/config.h"
#include "daemon/store/space.h"

struct persist;

struct persist_options {
    const struct config *config;
    struct heap *heap;
    struct store *store;
    const struct vector_kernels *kernels;
};
/* *out NULL: there is nowhere to save (persist.dir). */
enum status persist_create(const struct persist_options *options, struct persist **out,
                           struct failure *f);
/* NULL is fine. */
void persist_destroy(struct persist *p);

/* Loads the newest snapshot, as persist.load says, and notes durably that its instance goes on. */
enum status persist_load(struct persist *p, struct failure *f);
/* Of the data: what was loaded, or a new one. */
uint64_t persist_instance(const struct persist *p);

/* Both, for an engine that starts; and a save as it stops, if wanted (persist.on_stop), which
 * logs what goes wrong. p NULL is fine. */
enum status persist_start(const struct persist_options *options, struct persist **out,
                          struct failure *f);
void persist_stop(struct persist *p, bool complete);

/* Saves everything. complete: nothing will be written after it. */
enum status persist_save(struct persist *p, bool complete, struct failure *f);

/* Checks a snapshot's folder, or the newest in a folder of snapshots, and prints a line for each
 * object. False: it is not whole. key_file: "" for none. */
bool persist_verify(const char *path, const char *key_file, FILE *out);

#endif
