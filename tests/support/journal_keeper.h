/* journal_keeper: a daemon with a journal in a folder of the test's, and a client of it.
 * Owner:  the test. Thread: one. Errors: fail the test. */
#ifndef ENGRAM_TESTS_JOURNAL_KEEPER_H
#define ENGRAM_TESTS_JOURNAL_KEEPER_H

#include "client/engram_accel.h"
#include "tests/support/daemon_process.h"

enum { KEEPER_D = 64, KEEPER_ROWS = 12000 };

struct journal_keeper {
    char folder[64], setting[96];
    const char *settings[8];
    struct daemon_process daemon;
    ea_client *client;
    float *rows; /* KEEPER_ROWS x KEEPER_D */
    uint64_t *ids;
};

/* journal: a setting. Nothing is saved at a stop. */
void journal_keeper_open(struct journal_keeper *k, const char *journal);
void journal_keeper_close(struct journal_keeper *k);
/* Fails unless st is OK. */
void journal_keeper_need(const struct journal_keeper *k, ea_status st, const char *what);
/* Until the daemon answers again. */
void journal_keeper_wait(const struct journal_keeper *k);
/* Rows [first, first + count) of its own, into a collection. */
void journal_keeper_put(const struct journal_keeper *k, const char *name, uint64_t first,
                        uint64_t count);
void journal_keeper_create(const struct journal_keeper *k, const char *name);
/* Kills the daemon, and starts it again. */
void journal_keeper_kill(struct journal_keeper *k);

#endif
