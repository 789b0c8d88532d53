/* scheduler: which jobs go where, and when. Jobs come with what they ask for; each is sent to the
 * backend where it should be done first, stands there in its tenant's line, and leaves when the
 * backend has room: by weighted deficit round-robin in predicted nanoseconds, together with others
 * that can run as one.
 * Owner:  the pipeline.
 * Thread: the loop. Time is a parameter; the same calls give the same answers.
 * Errors: scheduler_admit; nothing else fails, and nothing allocates.
 *
 * What a backend has at once is bounded in predicted time (window_ns), so that fairness does not
 * end where its own line begins; but never so that it runs dry. Jobs that are short alone, a few of
 * each tenant at a time, pass a full window, if their tenant owes no more than any other that uses
 * the server. Batchable tickets wait for company while two dispatches of their key are in flight on
 * their server, and at most batch_wait_ns; never while the server has nothing to do. A batch takes
 * no longer than the window, or than two of its first, while other tenants use the server. */
#ifndef ENGRAM_SCHED_SCHEDULER_H
#define ENGRAM_SCHED_SCHEDULER_H

#include "daemon/base/status.h"
#include "daemon/sched/cost.h"
#include "daemon/sched/history.h"
#include "daemon/sched/mates.h"
#include "daemon/sched/choose_backend.h"
#include "daemon/sched/probes.h"
#include "daemon/sched/tenant.h"

struct scheduler_settings {
    enum force force;
    double speedup_min, success_min; /* pick.h */
    uint64_t pairs_min;              /* floor, similarity and kNN */
    uint64_t candidates_min;         /* floor, lists and averages */
    uint64_t nodes_min;              /* floor, spreads */
    uint64_t window_ns;              /* 0: no bound */
    uint64_t age_ns;
    uint64_t quantum_ns; /* the most that a flow saves while it waits for company (fair.h) */
    uint64_t batch_wait_ns;
    uint64_t batch_queries_max, batch_requests_max, batch_bytes_max; /* bytes: of results */
    bool split;       /* may use both backends for one request */
    bool floors_only; /* no predictions decide: what reaches the floors is the GPU's */
};

struct server {
    bool usable;
    uint32_t slots_max;   /* dispatches at once; from the backend */
    uint64_t room_bytes;  /* of VRAM for requests: a batch takes at most 80 % of it; 0: no matter */
    uint32_t in_flight;   /* dispatches */
    uint64_t charged_ns;  /* predicted, of what is in flight */
    uint64_t window_ns;   /* of that, what counts towards the window */
    uint64_t queued_ns;   /* predicted, of what waits */
    uint64_t finished_ns; /* when a run there last ended */
    uint64_t started_ns;  /* since when what is in flight now has had it */
    struct flow *turn;    /* round of flows that have something: whose turn it is; NULL: none */
    uint32_t flow_count;
    uint64_t weights;    /* of the flows in the round */
    uint64_t granted_ns; /* to each unit of weight, ever: rounds that were played (fair.h) */
    struct ticket *oldest, *newest; /* dispatches in flight */
    struct ticket *alone;           /* in flight with no other beside it, ever; or NULL */
};

struct scheduler_counters {
    uint64_t decisions, batches, batched_requests, shrunk_batches, splits, steals, probes, aged,
        passes; /* passes: short jobs past a full window */
};

struct scheduler {
    struct scheduler_settings settings; /* the pipeline may change them at any time */
    struct cost_model model;
    struct probes probes;
    struct decisions decisions;
    struct server servers[SERVERS_MAX];
    uint32_t server_count;
    struct scheduler_counters counters;
    struct mates waiting, running; /* batchable tickets in line; dispatches in flight */
    uint64_t wake_ns;
};

/* What is known, beside the ticket itself, when its backend is picked. */
struct situation {
    enum reason gave_up;
    bool gpu_absent, gpu_down, gpu_full, replica_ready, replica_refused, vram_low;
    uint32_t server;      /* the GPU with its replica, or where that would be; >= SERVER_GPU */
    uint64_t dirty_bytes; /* to upload on its way; of a replica that is not there: all of it */
};

void scheduler_init(struct scheduler *s, const struct scheduler_settings *settings,
                    uint32_t workers);
/* A GPU came or went, has room for so many dispatches and so many bytes (0: no matter). Tickets in
 * line for one that is not usable any more are handed back by scheduler_evacuate. */
void scheduler_set_server(struct scheduler *s, uint32_t server, bool usable, uint32_t slots_max,
                          uint64_t room_bytes);
/* One that waits for a server that is not usable, taken out of line; NULL: none. */
struct ticket *scheduler_evacuate(struct scheduler *s);

/* RESOURCE_EXHAUSTED/QUEUE_FULL when the tenant has quotas.queue_max in line or coming:
 * retry_after_ms is when, by prediction, half of what is in line will be gone. */
enum status scheduler_admit(struct scheduler *s, struct tenant *t, struct failure *f);

/* Picks a server for t and puts it in line there. Returns whether a replica should be made
 * (pick.h: wants_replica). */
bool scheduler_enqueue(struct scheduler *s, struct ticket *t, const struct situation *now_known,
                       uint64_t now_ns);
/* t, which waits, leaves its line. */
void scheduler_withdraw(struct scheduler *s, struct ticket *t);

/* What to start now. first: oldest; the other members linked by next; first->whole, charge_ns and
 * members are set, and first stands for all of them until scheduler_finish. split_queries: not 0:
 * better as two, that many queries (from the first) on the GPU `server`, the rest on the CPU: the
 * caller makes two tickets and calls scheduler_place for both, or scheduler_place(first) if it
 * cannot; first itself is not in flight then. */
struct dispatch {
    struct ticket *first;
    uint32_t count;
    uint32_t server;
    enum reason reason;
    uint64_t split_queries;
};
/* False: nothing now. */
bool scheduler_next(struct scheduler *s, uint64_t now_ns, struct dispatch *out);
/* t, which is in no line, counts as started on the server. */
void scheduler_place(struct scheduler *s, struct ticket *t, uint32_t server, enum reason reason,
                     uint64_t now_ns);

/* Nothing can be taken now for want of memory: what scheduler_next handed out goes back to the head
 * of its line, as if it had not. */
void scheduler_put_back(struct scheduler *s, struct ticket *first);

/* A dispatch ended. LET_DOWN: the backend's fault (counts against its success rate); REFUSED: it
 * was not taken or not run to its end, and nothing can be learnt of it. run: when it ran; NULL: not
 * at all. What stands in first, its members and their links stay. */
enum scheduler_end { END_WELL, END_LET_DOWN, END_REFUSED };
struct scheduler_run {
    uint64_t started_ns, ended_ns;
    uint64_t back_ns; /* when its end was noticed; 0: at once */
    uint64_t busy_ns; /* of the whole server, that it had to itself in effect: on the CPU the time
                         of all workers over their number. 0: not known */
};
void scheduler_finish(struct scheduler *s, struct ticket *first, enum scheduler_end how,
                      const struct scheduler_run *run);

/* When to call scheduler_next again though nothing ended or came; UINT64_MAX: no need. As of the
 * last scheduler_next, which was false. */
uint64_t scheduler_wake_ns(const struct scheduler *s);

/* Predicted, until half of what the tenant has in line is done, at its share. */
uint64_t scheduler_drain_ns(const struct scheduler *s, const struct tenant *t);

#endif
