/* endless: questions that keep a CPU worker busy for longer than any test lasts: who waits for one
 * of them waits until the test's own time is over. They end when they are cancelled.
 * Owner:  the test; endless_make and endless_free pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_ENDLESS_H
#define ENGRAM_TESTS_ENDLESS_H

#include "client/engram_accel.h"

enum { ENDLESS_DIMENSION = 32, ENDLESS_ROWS = 600000, ENDLESS_QUERIES = 160000 };

/* For a daemon that several are asked of on one connection: a connection's bodies are bounded. */
#define ENDLESS_BODIES "limits.request_body_mib=512"

struct endless {
    float *rows; /* the first of them are the queries */
};

/* Creates collection "endless" in c's space. */
void endless_make(struct endless *e, ea_client *c);
/* Drops it, which waits for its readers. */
void endless_free(struct endless *e, ea_client *c);
/* Asks; timeout_us: as in ea_send_options. Returns the request's id. */
uint64_t endless_ask(const struct endless *e, ea_client *c, ea_callback callback, void *user,
                     uint64_t timeout_us);
/* The same, of so many of the queries, from a raw connection that is greeted, and with the daemon's
 * own deadline. */
void endless_ask_raw(const struct endless *e, int fd, uint64_t id, uint64_t queries,
                     uint32_t deadline_us);
/* Writes out what was asked, and waits until the daemon has all of it. Returns how many requests
 * are in flight there. */
uint64_t endless_arrive(ea_client *c);

#endif
