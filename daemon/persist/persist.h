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

#include "daemon/base/catalogue.h"
#include "daemon/base/config.h"
#include "daemon/persist/journal.h"
#include "daemon/persist/save_item.h"
#include "daemon/persist/token_file.h"
#include "daemon/store/space.h"

struct persist;

struct persist_options {
    const struct config *config;
    struct heap *heap;
    struct store *store;
    const struct vector_kernels *kernels;
    void (*wake)(void *owner); /* a save in the background wants persist_poll; any thread */
    /* A start that waits for the folder asks now and then, and ends as CANCELLED; NULL: it does. */
    bool (*goes_on)(void *owner);
    void *owner; /* of both */
    /* A write of the journal had a token (replay.h); NULL: tokens are forgotten. */
    enum status (*token)(void *token_owner, const struct journal_write *w, const float *weights,
                         struct failure *f);
    void *token_owner;
    uint32_t save_threads; /* that write a save at most; 0: as the processors allow */
};
enum status persist_create(const struct persist_options *options, struct persist **out,
                           struct failure *f);
/* NULL is fine. */
void persist_destroy(struct persist *p);

/* Loads the newest snapshot, as persist.load says, and notes durably that its instance goes on. */
enum status persist_load(struct persist *p, struct failure *f);
/* In its place, for data that is in memory already, of this name; from: what persist_tell told of
 * the other daemon's folder. */
enum status persist_adopt(struct persist *p, uint64_t instance, uint64_t generation,
                          struct catalogue_reader *from, struct failure *f);
/* Tells a successor where the data are, and where the journal ended, which must be closed. */
void persist_tell(const struct persist *p, struct catalogue_writer *w);
/* True: the journal is closed, and has all that came after a snapshot. */
bool persist_has_all(const struct persist *p);

/* ---- the same while the daemon serves: threads fill objects (loader.c) ---- */

/* Afterwards the instance is known, and either nothing is on its way or persist_load_turn is wanted
 * whenever the loop is woken. With a journal it is the one that the data should have when that is
 * replayed; nothing of the data is to be asked for, or written, before. */
enum status persist_load_begin(struct persist *p, struct failure *f);
/* Enters the names of what is in. True: it has ended, well or as f says; the daemon stops then. The
 * instance may be another afterwards. */
bool persist_load_turn(struct persist *p, struct failure *f);
/* Gives it up; what has no name yet is gone. Nothing will be saved. */
void persist_load_stop(struct persist *p);
bool persist_is_loading(const struct persist *p);
/* Whether anything of a space, or that object, is on its way. */
bool persist_loads_space(const struct persist *p, const struct space *space);
bool persist_loads_object(const struct persist *p, const struct space *space,
                          enum resident_kind kind, const char *name);
/* What a salvage left out. */
struct persist_left {
    enum resident_kind kind;
    char space[SPACE_NAME_MAX + 1], name[COLLECTION_NAME_MAX + 1];
};
struct load_seen {
    bool ready; /* nothing is on its way */
    uint64_t objects, objects_done, elapsed_ns;
    uint64_t bytes, bytes_done; /* the journal's, too */
    bool replays;               /* the objects are in, and the journal is replayed over them */
    uint64_t replay_bytes, replay_bytes_done;
    const struct persist_left *left; /* until the next turn */
    uint64_t left_count;
};
void persist_load_seen(const struct persist *p, struct load_seen *out);

/* What was loaded or saved there last; its objects may have been left out by a salvage: no objects,
 * then. */
const struct manifest *persist_last(const struct persist *p);
/* The newest snapshot in persist.dir; number 0: there is none that it knows of. */
struct persist_newest {
    uint64_t number, saved_s, bytes; /* saved_s: when it began, in seconds since 1970 */
};
void persist_newest(const struct persist *p, struct persist_newest *out);
/* True if there is a folder (persist.dir). */
bool persist_keeps(const struct persist *p);
/* The journal of what is written from now on; NULL: there is none (persist.journal). */
struct journal *persist_journal(const struct persist *p);
/* Writes what is left of it, and ends it; entries go to `give`. *out: how it was then. */
void persist_close_journal(struct persist *p, void (*give)(void *owner, struct journal_entry *e),
                           struct journal_counters *out, void *owner);
/* Of the data: what was loaded, or a new one. */
uint64_t persist_instance(const struct persist *p);
uint64_t persist_generation(const struct persist *p);

/* For an engine that starts: creates it, waiting for a daemon that ends, and begins to load. And a
 * save as it stops, if wanted
 * (persist.on_stop), which logs what goes wrong. p NULL is fine. False: what was to be saved is
 * not. */
enum status persist_open(const struct persist_options *options, struct persist **out,
                         struct failure *f);
enum status persist_start(const struct persist_options *options, struct persist **out,
                          struct failure *f);
bool persist_stop(struct persist *p, bool complete);

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

/* The writes that are remembered: those that the next save has, persist's from now on; and
 * those that were loaded, which it gives away. */
void persist_set_tokens(struct persist *p, struct token_bytes *tokens);
struct token_bytes persist_take_tokens(struct persist *p);

/* Saves everything. complete: nothing will be written after it. */
enum status persist_save(struct persist *p, bool complete, struct failure *f);

/* Checks a snapshot's folder, or the newest in a folder of snapshots, and prints a line for each
 * object. False: it is not whole. key_file: "" for none. */
bool persist_verify(const char *path, const char *key_file, FILE *out);

#endif
