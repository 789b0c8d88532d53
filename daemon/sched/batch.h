/* batch: which tickets run as one job, and when a ticket waits so that others can join it.
 * Owner:  the scheduler.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_BATCH_H
#define ENGRAM_SCHED_BATCH_H

#include "daemon/sched/scheduler_state.h"

enum { BATCH_LOOK = 1024, BATCH_COMPANY = 2 };

/* Bytes of the results, and of VRAM while the work runs. */
uint64_t batch_result_bytes(const struct work *w);
uint64_t batch_room_bytes(const struct work *w);

/* Takes the tickets that run as one with `first` on `server` out of the queue that `first` was in
 * (it is in none any more) and links them to it by next and previous, in their order. All of them
 * then belong to that server. Returns how many there are, with first; *whole: their work
 * together. */
uint32_t batch_form(struct scheduler *s, struct ticket *first, uint32_t server, struct work *whole);

/* How many dispatches with t's key are in flight on its server, counted up to BATCH_COMPANY. */
uint32_t batch_company(const struct scheduler *s, const struct ticket *t);

/* True if t, which is queued, should wait until *until_ns for others to join: enough dispatches
 * with its key are in flight to keep the server busy until then. On a card one is enough, as long
 * as it is not nearly done; what nearly is follows from batch_learn_lead. */
bool batch_held(const struct scheduler *s, struct ticket *t, uint64_t now_ns, uint64_t *until_ns);

/* Learns how long before sv, a card, is done a batch has to be handed over: the kernels of `first`,
 * which has ended and maybe was held, were enqueued at enqueued_ns (0: not known), and those before
 * it ended at sv->finished_ns. */
void batch_learn_lead(struct server *sv, const struct ticket *first, uint64_t enqueued_ns);

#endif
