/* persist_inside: the state that persist.c and background.c share; nobody else includes it.
 * Owner:  persist.
 * Thread: the loop; while a save is in the background, its thread reads all but `background`.
 * Errors: none. */
#ifndef ENGRAM_PERSIST_PERSIST_INSIDE_H
#define ENGRAM_PERSIST_PERSIST_INSIDE_H

#include "daemon/persist/folder.h"
#include "daemon/persist/journal_chain.h"
#include "daemon/persist/persist.h"
#include "daemon/persist/save.h"

struct persist {
    struct persist_options options;
    struct folder folder; /* fd < 0: nothing is kept on the disk */
    struct manifest_key key;
    uint64_t instance, generation;
    uint64_t folder_generation;    /* that its state has: another daemon's may be larger */
    uint64_t number;               /* of the last snapshot that was loaded or written; 0: none */
    uint64_t number_next;          /* above all that there are */
    struct manifest last;          /* what is in it */
    bool linkable;                 /* it is whole, and objects of its versions are what they were */
    struct background *background; /* NULL: no save is under way */
    struct loader *loader;         /* NULL: nothing is on its way (loader.c) */
    bool unloaded;                 /* it was not loaded to its end: there is nothing to save */
    /* What the folder said of the daemon before; it may not be known. */
    struct folder_state before;
    bool asked_before, knows_before;
    struct token_bytes tokens; /* that were loaded, or the next save has */
    struct persist_left *left; /* from malloc */
    uint64_t left_count;
    bool names_later;              /* than it is loaded: when the journal is replayed */
    bool foretold;                 /* the names below are those that it should have then */
    uint64_t new_instance;         /* that it has if none goes on; 0: not drawn */
    struct journal *journal;       /* NULL: there is none */
    struct journal_end replayed;   /* what there was of one, and was replayed or goes on */
    struct journal_place ended;    /* where it was closed */
    bool has_files;                /* of a journal */
    struct journal_turn file_turn; /* where a save without a journal is */
    uint64_t files_from; /* what is needed when the save is on the disk: it and newer ones */
};

/* ---- the journal (journaling.c) ---- */

/* True if there is a journal, or one is to be written: then all is loaded before anybody writes. */
bool journaling_is_wanted(const struct persist *p);
/* What there is will be replayed over that snapshot; its bytes. */
uint64_t journaling_foretell(struct persist *p, const struct journal_base *base);
/* It was, and went on that far. */
void journaling_replayed(struct persist *p, const struct journal_end *end, uint64_t took_ns);
/* Whether all that was acknowledged is there, and so the instance stays. */
bool journaling_is_whole(const struct persist *p);
/* Begins to write one, if that is wanted: behind what there was, or at the snapshot that was
 * loaded; after_snapshot: at the next one, and nothing is written before that is on the disk. */
enum status journaling_start(struct persist *p, bool after_snapshot, struct failure *f);
/* A snapshot of this instant begins, of everything, in the folder: its number and names. */
enum status journaling_begin_save(struct persist *p, const struct save *s, struct failure *f);
/* It is about to get its name; its thread. */
enum status journaling_before_commit(void *owner, struct failure *f);
/* It has it. */
void journaling_end_save(struct persist *p);

/* The next snapshot in the folder, of everything as it is now, without its items. */
void persist_prepare(const struct persist *p, struct save *s);
/* It was written, and is the last one from now on. */
void persist_take(struct persist *p, struct manifest *m);

#endif
