/* journal_inside: what journal.c and journal_write.c share; nobody else includes it.
 * Owner:  the journal. Thread: as each says. Errors: as journal.h says. */
#ifndef ENGRAM_PERSIST_JOURNAL_INSIDE_H
#define ENGRAM_PERSIST_JOURNAL_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <xxhash.h>

#include "daemon/persist/journal.h"

/* The file that is written; the journal's thread alone uses it. */
struct journal_file {
    int folder, fd;
    struct journal_head head;
    uint64_t at;                        /* its length: behind the last whole record */
    uint64_t synced_at;                 /* so much of it is on the disk */
    uint64_t sequence, synced_sequence; /* of the last record */
    uint64_t begun_at;                  /* so much of it is on its way there */
    uint64_t records, bytes_ever, bytes_since, syncs, group_last;
    uint64_t sync_due_ns; /* 0: all is synced, or each write is */
    uint64_t oldest_ns;   /* when the first record was added that is not synced; 0: all are */
    char *gathered;       /* room for rows that are gathered */
    XXH3_state_t *sum;
};
/* Makes the first one, unless it begins with a snapshot. */
enum status journal_file_start(struct journal_file *file, const struct journal_options *options,
                               struct failure *f);
/* Ends the file, if it is sound, and begins the next. */
enum status journal_file_turn(struct journal_file *file, bool sound,
                              const struct journal_turn *turn, struct failure *f);
/* RESOURCE_EXHAUSTED: there is no room, and the file is as before; others: it may be anyhow. */
enum status journal_file_write(struct journal_file *file, const struct journal_entry *e,
                               struct failure *f);
enum status journal_file_sync(struct journal_file *file, struct failure *f);
void journal_file_end(struct journal_file *file);
void journal_file_finish(struct journal_file *file);

struct journal {
    struct journal_options options;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows, up to the blank line; never held across a call */
    pthread_cond_t wanted, turn_done;
    struct journal_entry *head, **tail, *done, **done_tail;
    uint64_t prune;          /* files older than that go; 0: none are to */
    uint64_t turns_added;    /* files that are to be begun, so far */
    uint64_t turned;         /* that were, or could not be */
    enum status turn_status; /* how that went, the last time */
    struct failure turn_failure;
    struct journal_counters told;
    atomic_bool stop;

    /* Of `always`, the thread's: entries that are written, and given back with the sync; how many
     * records the next sync should be for, and how long the last one took. */
    struct journal_entry *unsynced, **unsynced_tail;
    uint64_t hoped, sync_ns;
    uint64_t hope_ns_max;         /* how long it waits for them at most; tests wait longer */
    uint64_t retry_ns;            /* how long it waits for room; tests wait longer */
    struct journal_file file;     /* the thread's */
    uint64_t first_file;          /* likewise: the oldest that is kept */
    enum journal_health health;   /* likewise: of the file; what is told may be worse */
    uint64_t turns_asked, number; /* the loop's; the first is read while it waits for the thread */
    uint64_t queued_bytes;        /* likewise */
};

#endif
