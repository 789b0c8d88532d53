/* journal: writes that were done, on their way to the disk, in a thread of its own. Each is written
 * from where its tensors lie, which stay until journal_poll gives its entry back.
 *
 * Where the disk has no room, the thread tries again each second, and nothing is lost. A snapshot
 * that begins meanwhile has what waits, and does not wait for room: what waits is given up for it.
 * Then, and after any other failure, since nobody knows what is on the disk, only a snapshot of
 * everything, with a file that begins at its instant, makes the journal sound again. Writes are to
 * be refused meanwhile.
 * Owner:  persist.
 * Thread: the loop; journal_wait_file: any.
 * Errors: journal_create: as journal_file.h says; later ones: journal_counters.health. */
#ifndef ENGRAM_PERSIST_JOURNAL_H
#define ENGRAM_PERSIST_JOURNAL_H

#include "daemon/persist/journal_file.h"
#include "daemon/store/edition.h"

struct journal;

/* The instant at which a file begins: that of a snapshot, which gets this name. */
struct journal_turn {
    uint64_t snapshot, instance, generation;
};
struct journal_entry {
    struct journal_write write;
    const struct edition
        *rows_of;            /* its matrix is rows of that, by its ids; NULL: it has its own */
    const uint64_t *row_ids; /* of these */
    struct journal_entry *next;
    uint64_t added_ns;
    bool lost;        /* it could not be described: the journal fails */
    bool begins_file; /* the journal's own: there a new file begins */
    struct journal_turn turn;
};

struct journal_options {
    int folder;
    struct journal_head head; /* of the first file; its salt is set by journal_create */
    uint64_t files_before;    /* that are kept, with the numbers before it, */
    uint64_t bytes_before;    /* and what they have */
    /* Nothing can be written before a snapshot is on the disk: the journal begins with it, and
     * head.number is the last one that is taken. */
    bool after_snapshot;
    void (*wake)(void *owner); /* journal_poll has something; any thread; or NULL */
    void *owner;
};
enum journal_health {
    JOURNAL_SOUND,
    JOURNAL_NO_ROOM, /* the disk is full: it is tried again */
    JOURNAL_FAILED,  /* only a snapshot helps */
};
struct journal_counters {
    enum journal_health health;
    char why[160];              /* it is not sound; "": it is */
    uint64_t records, bytes;    /* written */
    uint64_t syncs, group_last; /* records that the last sync was for */
    uint64_t added;             /* the last record */
    /* The last record that is in the file, which outlives the daemon; that is on the disk. After a
     * failure they stay where they are until a snapshot has what was given up. */
    uint64_t written, synced;
    uint64_t queued_bytes; /* not written yet */
    uint64_t oldest_ns;    /* when the oldest record was added that is not synced; 0: none */
    uint64_t file_bytes;   /* of all files since the last snapshot */
    uint64_t files;        /* in the folder */
};

/* Where it ended. */
struct journal_place {
    bool sound;      /* all that was added is on the disk */
    uint64_t number; /* of the last file; 0: there was no journal */
    uint64_t salt, bytes;
    uint64_t sequence; /* of the record that would have come next */
};

/* Makes the first file, and starts the thread. */
enum status journal_create(const struct journal_options *options, struct journal **out,
                           struct failure *f);
/* Writes and syncs what is left; entries that were not given back are given to `give`. *out: how it
 * is then; *place: where. NULL is fine. */
void journal_destroy(struct journal *j, void (*give)(void *owner, struct journal_entry *e),
                     struct journal_counters *out, struct journal_place *place, void *owner);

/* Takes an entry; its record's number. Numbers rise by one. */
uint64_t journal_add(struct journal *j, struct journal_entry *e);
/* What is added from now on comes into another file, for a snapshot of this instant, which must not
 * get its name before journal_wait_file. RESOURCE_EXHAUSTED. */
enum status journal_begin_file(struct journal *j, const struct journal_turn *turn,
                               struct failure *f);
/* Waits until that file is there, and what was before is synced. */
enum status journal_wait_file(struct journal *j, struct failure *f);
/* The file that what is added now comes into. */
uint64_t journal_file_now(const struct journal *j);
/* That snapshot is on the disk: files older than `before` go. */
void journal_snapshot_done(struct journal *j, uint64_t before);

/* *out: how it is now. Returns entries that nobody reads any more, linked by next. */
struct journal_entry *journal_poll(struct journal *j, struct journal_counters *out);

#endif
