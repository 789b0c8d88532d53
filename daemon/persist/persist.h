/* persist: the data of a daemon on the disk: which snapshot it starts with, under which instance
 * and generation, and what it saves, as it stops or while it serves.
 *
 * An instance and a version name a state of the data for ever. An orderly stop saves everything,
 * and the next start goes on with its instance; after any other end, what clients saw may be newer
 * than what was saved, so a start from an older state takes a new instance and the next generation.
 * Owner:  the engine.
 * Thread: the loop; persist_load and persist_save wait for the disk: before it runs, and after it
 *         has ended. verify: any.
 * Errors: persist_create, persist_load: the daemon cannot start, with a text that names the file;
 *         persist_save, persist_begin: what was saved before is kept. */
#ifndef ENGRAM_PERSIST_PERSIST_H
#define ENGRAM_PERSIST_PERSIST_H

#include <stdio.h>

#include "daemon/base/config.h"
#include "daemon/persist/save_item.h"
#include "daemon/store/space.h"

struct persist;

struct persist_options {
    const struct config *config;
    struct heap *heap;
    struct store *store;
    const struct vector_kernels *kernels;
    void (*wake)(void *owner); /* a save in the background wants persist_poll; any thread */
    void *owner;
};
enum status persist_create(const struct persist_options *options, struct persist **out,
                           struct failure *f);
/* NULL is fine. */
void persist_destroy(struct persist *p);

/* Loads the newest snapshot, as persist.load says, and notes durably that its instance goes on. */
enum status persist_load(struct persist *p, struct failure *f);
/* What was loaded or saved there last; its objects may have been left out by a salvage: no objects,
 * then. */
const struct manifest *persist_last(const struct persist *p);
/* True if there is a folder (persist.dir). */
bool persist_keeps(const struct persist *p);
/* Of the data: what was loaded, or a new one. */
uint64_t persist_instance(const struct persist *p);
uint64_t persist_generation(const struct persist *p);

/* Both, for an engine that starts; and a save as it stops, if wanted (persist.on_stop), which
 * logs what goes wrong. p NULL is fine. */
enum status persist_start(const struct persist_options *options, struct persist **out,
                          struct failure *f);
void persist_stop(struct persist *p, bool complete);

/* ---- a save while the daemon serves: a thread of its own writes it (background.c) ---- */

enum { PERSIST_PATH_MAX = 1000 };
struct persist_wish {
    const char *to; /* another folder, of at most PERSIST_PATH_MAX bytes; "": persist.dir */
    bool dry_run;   /* nothing is written */
    uint64_t instance;
    /* Editions that stay until persist_poll says otherwise. items: from malloc, persist's if it
     * begins. */
    struct save_item *items;
    uint64_t count;
};
struct persist_report {
    struct failure failure;          /* code OK: it was written */
    char path[PERSIST_PATH_MAX + 1]; /* the folder */
    uint64_t number;                 /* of the snapshot in it; 0: a dry run */
    uint64_t objects, bytes;         /* in it */
    uint64_t linked_bytes;           /* that were not written again */
    uint64_t free_bytes;             /* there afterwards; UINT64_MAX: not known */
};
/* FAILED_PRECONDITION: there is no folder; INVALID_ARGUMENT; RESOURCE_EXHAUSTED. One at a time. */
enum status persist_begin(struct persist *p, const struct persist_wish *wish, struct failure *f);
/* How far it is. */
struct save_meter *persist_meter(const struct persist *p);
/* True: it has ended; *out says how, and nothing of the items is read any more. */
bool persist_poll(struct persist *p, struct persist_report *out);
/* Waits for that. */
void persist_wait(struct persist *p, struct persist_report *out);

/* Saves everything. complete: nothing will be written after it. */
enum status persist_save(struct persist *p, bool complete, struct failure *f);

/* Checks a snapshot's folder, or the newest in a folder of snapshots, and prints a line for each
 * object. False: it is not whole. key_file: "" for none. */
bool persist_verify(const char *path, const char *key_file, FILE *out);

#endif
