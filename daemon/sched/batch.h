/* batch: which tickets run as one, and when one that could waits for company.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_BATCH_H
#define ENGRAM_SCHED_BATCH_H

#include "daemon/sched/scheduler.h"

enum { BATCH_LOOK = 1024, BATCH_COMPANY = 2 };

/* What both ask for together: k the larger, filtered if either is. */
void batch_merge(struct work *w, const struct work *more);

/* Bytes of results, and of VRAM while it runs. */
uint64_t batch_result_bytes(const struct work *w);
uint64_t batch_room_bytes(const struct work *w);

/* Takes from the line that first, which is in none any more, stood in those that run as one with it
 * on `server`, and links them to it by next and previous, in their order. All are that server's
 * then. Returns how many there are with first; *whole is what they ask for together. */
uint32_t batch_form(struct scheduler *s, struct ticket *first, uint32_t server, struct work *whole);

/* Dispatches in flight of t's key, on its server; counted no further than BATCH_COMPANY. */
uint32_t batch_company(const struct scheduler *s, const struct ticket *t);

/* Whether t, in line, waits for company until *until_ns: as many of its key are in flight there as
 * keep the server busy meanwhile. */
bool batch_held(const struct scheduler *s, const struct ticket *t, uint64_t now_ns,
                uint64_t *until_ns);

#endif
