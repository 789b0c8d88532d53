/* scheduler_state: the struct of the scheduler: settings, servers, queues, and what it has learnt.
 * Owner:  the pipeline, which has it for the files of daemon/sched; others only read it.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_SCHEDULER_STATE_H
#define ENGRAM_SCHED_SCHEDULER_STATE_H

#include "daemon/sched/batch_groups.h"
#include "daemon/sched/choose_backend.h"
#include "daemon/sched/cost.h"
#include "daemon/sched/history.h"
#include "daemon/sched/principal.h"
#include "daemon/sched/probes.h"

struct scheduler_settings {
    enum force force;
    double speedup_min, success_min; /* see choose_backend.h */
    uint64_t pairs_min;              /* the least for the GPU: similarity and kNN */
    uint64_t candidates_min;         /* the least for the GPU: lists and averages */
    uint64_t nodes_min;              /* the least for the GPU: spreads */
    uint64_t window_ns;              /* 0: unlimited */
    uint64_t age_ns;
    uint64_t quantum_ns; /* the most that a flow may save while it waits for others to join */
    uint64_t batch_wait_ns;
    uint64_t batch_queries_max, batch_requests_max, batch_bytes_max; /* bytes: of results */
    bool split; /* one request may run on both backends at once */
    /* with FORCE_GPU: every request that can be split is split, whatever is predicted */
    bool force_split;
    bool forgets;     /* past decisions are not kept for explain */
    bool floors_only; /* predictions are ignored: the GPU has everything above the minimums */
};

/* How long before a card is done it has to be handed the next batch, so that it never stands idle:
 * until a timer has woken the loop, the batch is made, and its kernels are enqueued; and by how
 * much predictions are wrong. */
struct lead {
    double mean_ns, spread_ns; /* 0, 0: not measured */
};

enum { IN_FLIGHT_MIN = 2 }; /* as many may always be in flight: one runs, one is ready */

struct server {
    bool usable;
    uint32_t slots_max; /* dispatches at once, as the backend allows */
    /* of VRAM for requests, of which a batch takes at most 80 %; 0: unlimited */
    uint64_t room_bytes;
    uint32_t in_flight;             /* dispatches */
    uint64_t charged_ns;            /* predicted time of all that is in flight */
    uint64_t window_ns;             /* the part of it that counts towards the window */
    uint64_t ahead_ns;              /* the part of it that others may have to wait for */
    uint64_t queued_ns;             /* predicted time of all that is queued */
    uint64_t finished_ns;           /* when a run there last ended */
    uint64_t started_ns;            /* since when it has worked on what is in flight now */
    struct round principals;        /* those with tickets: of each a stake */
    uint32_t flow_count;            /* flows with tickets, of all of them */
    struct ticket *oldest, *newest; /* of the dispatches in flight */
    struct lead lead;
    struct ticket *alone; /* in flight, and never another beside it; or NULL */
};

struct scheduler_counters {
    uint64_t decisions, batches, batched_requests, shrunk_batches, splits, steals, probes, aged,
        passes; /* passes: short jobs that passed a full window */
};

struct scheduler {
    struct scheduler_settings settings; /* the pipeline may change them at any time */
    struct cost_model model;
    struct probes probes;
    struct decisions decisions;
    struct server servers[SERVERS_MAX];
    uint32_t server_count;
    struct scheduler_counters counters;
    struct batch_groups waiting,
        running; /* batchable tickets in the queues; dispatches in flight */
    uint64_t wake_ns;
    uint32_t put_off_round; /* of scheduler_put_off, until scheduler_resume; from 1 */
};

#endif
