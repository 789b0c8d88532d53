/* scheduler: which jobs run where, and when. A job comes with features of its work. It is assigned
 * to the backend where it is expected to end first, waits there in the queue of its tenancy (its
 * peer's requests for its space), and is dispatched when the backend has room: by weighted deficit
 * round-robin in predicted nanoseconds between peers and then between a peer's spaces, together
 * with others that can run as one.
 * Owner:  the pipeline.
 * Thread: the loop. Time is a parameter; the same calls give the same answers.
 * Errors: scheduler_admit; nothing else fails, and nothing allocates.
 *
 * The work that a backend has at once is limited in predicted time (window_ns), because fairness
 * ends where the backend's own queue begins; but a backend never runs dry. Jobs that are short
 * alone may pass a full window, a few of each tenant at a time, and on the CPU the first of a
 * principal that has nothing there, if they owe no more than any other that uses the server. A
 * batchable ticket waits for others to join while two dispatches with its key are in flight on its
 * server, and at most batch_wait_ns; on a card also while there is one, until it is nearly done,
 * for the next would only wait there; never while the server is
 * idle. While other tenants use the server, a batch takes no longer than the window, or than twice
 * its first ticket. */
#ifndef ENGRAM_SCHED_SCHEDULER_H
#define ENGRAM_SCHED_SCHEDULER_H

#include "daemon/base/status.h"
#include "daemon/sched/scheduler_state.h"

/* What is known beside the ticket itself when its backend is chosen. */
struct situation {
    enum reason gave_up;
    bool gpu_absent, gpu_down, gpu_full, replica_ready, replica_refused, vram_low;
    uint32_t server; /* the GPU with the replica, or the one that would get it; >= SERVER_GPU */
    uint64_t dirty_bytes; /* to upload before the run; without a replica, all of it */
};

void scheduler_init(struct scheduler *s, const struct scheduler_settings *settings,
                    uint32_t workers);
/* Sets whether a GPU is usable, and how many dispatches and bytes it has room for (0: unlimited).
 * scheduler_evacuate hands back the tickets queued for one that is not usable any more. */
void scheduler_set_server(struct scheduler *s, uint32_t server, bool usable, uint32_t slots_max,
                          uint64_t room_bytes);
/* Removes and returns a ticket that waits for a server which is not usable; NULL: none. */
struct ticket *scheduler_evacuate(struct scheduler *s);

/* RESOURCE_EXHAUSTED/QUEUE_FULL when the tenancy's tenant or principal has as many tickets queued
 * or coming as it may; retry_after_ms is the predicted time until half of the queued ones are done.
 * A tenancy that has none is not refused because other peers fill its tenant's queue. */
enum status scheduler_admit(struct scheduler *s, const struct tenancy *l, struct failure *f);

/* Chooses a server for t and queues it there. Returns whether a replica should be made (struct
 * pick: wants_replica). */
bool scheduler_enqueue(struct scheduler *s, struct ticket *t, const struct situation *now_known,
                       uint64_t now_ns);
/* Removes t, which waits, from its queue. */
void scheduler_withdraw(struct scheduler *s, struct ticket *t);

/* What to start now. first is the oldest ticket, and next links the other members; first->whole,
 * charge_ns and members are set, and first stands for all of them until scheduler_finish.
 * split_queries, if not 0: it is better run as two, that many queries (from the first) on the GPU
 * `server` and the rest on the CPU. The caller then makes two tickets and calls scheduler_place
 * for both, or scheduler_place(first) if it cannot; first itself is not in flight then. */
struct dispatch {
    struct ticket *first;
    uint32_t count;
    uint32_t server;
    enum reason reason;
    uint64_t split_queries;
};
/* False: there is nothing to start now. */
bool scheduler_next(struct scheduler *s, uint64_t now_ns, struct dispatch *out);
/* Counts t, which is in no queue, as started on the server. */
void scheduler_place(struct scheduler *s, struct ticket *t, uint32_t server, enum reason reason,
                     uint64_t now_ns);

/* Puts what scheduler_next handed out back to the front of its queue, as if it had not: there is
 * no memory to start anything now. */
void scheduler_put_back(struct scheduler *s, struct ticket *first);
/* The same, for want of memory that will be there soon: others are started meanwhile, and these
 * are passed over until scheduler_resume. */
void scheduler_put_off(struct scheduler *s, struct ticket *first);
void scheduler_resume(struct scheduler *s);

/* A dispatch ended. LET_DOWN: by the backend's fault, which lowers its success rate; REFUSED: it
 * was not taken or not completed, and nothing can be learnt from it. run: when it ran; NULL: it
 * did not. What is stored in first, its members and their links remains. */
enum scheduler_end { END_WELL, END_LET_DOWN, END_REFUSED };
struct scheduler_run {
    uint64_t started_ns, ended_ns;
    uint64_t back_ns;     /* when its end was noticed; 0: at once */
    uint64_t enqueued_ns; /* when a card had all that it needs to begin; 0: not known */
    /* time of the whole server that it used: on the CPU the time of all workers, divided by their
     * number. 0: not known */
    uint64_t busy_ns;
    struct job_screen screen; /* what all its members did with rows in int8 */
};
void scheduler_finish(struct scheduler *s, struct ticket *first, enum scheduler_end how,
                      const struct scheduler_run *run);

/* When to call scheduler_next again even if nothing ends or comes; UINT64_MAX: no need. Valid
 * after a scheduler_next that returned false. */
uint64_t scheduler_wake_ns(const struct scheduler *s);

/* Predicts when half of what the tenant has queued will be done, at its share. */
uint64_t scheduler_drain_ns(const struct scheduler *s, const struct tenant *t);

#endif
