/* journal_house: journals of a few writes of every kind, in a folder of the test's.
 * Owner:  the test. Thread: one. Errors: fail the test. */
#ifndef ENGRAM_TESTS_JOURNAL_HOUSE_H
#define ENGRAM_TESTS_JOURNAL_HOUSE_H

#include "daemon/persist/journal.h"
#include "daemon/persist/journal_chain.h"
#include "tests/support/persist_house.h"

struct journal_house {
    struct persist_house in;
    struct folder folder;
    struct journal *journal;
    char path[64];
    uint64_t given;             /* entries that came back */
    struct journal_place place; /* where the journal was stopped */
};

/* Opens the folder; without a journal. */
void journal_house_open(struct journal_house *h, const char *path);
void journal_house_close(struct journal_house *h);
/* Makes the first file of a journal that follows nothing. */
enum status journal_house_start(struct journal_house *h, bool always, struct failure *f);
/* Takes an entry back; owner: the house. */
void journal_house_give(void *owner, struct journal_entry *e);
/* Ends the journal, in order. */
void journal_house_stop(struct journal_house *h);

/* How many different writes there are; the nth one follows those before it. */
enum { JOURNAL_HOUSE_WRITES = 21 };
/* Does the nth write to the store; adds it to the journal, and returns its record's number;
 * both. */
void journal_house_do(struct journal_house *h, uint32_t nth);
uint64_t journal_house_add(struct journal_house *h, uint32_t nth);
uint64_t journal_house_write(struct journal_house *h, uint32_t nth);
/* Waits until record `number` is on the disk, or the journal is not sound. */
void journal_house_wait(struct journal_house *h, uint64_t number, struct journal_counters *out);
void journal_house_wait_sound(struct journal_house *h, struct journal_counters *out);

/* Replays what is in the folder into a store of its own; how many writes. NULL h: compares with
 * nothing; otherwise with its store. */
enum status journal_house_replay(const char *path, const struct journal_base *base, bool salvage,
                                 const struct journal_house *h, struct journal_end *end,
                                 struct failure *f);

#endif
