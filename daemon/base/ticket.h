/* ticket: a job as the scheduler sees it: its work in numbers, whose it is, its place in the
 * queues.
 * Owner:  the job that it lies in (base/job.h); tests/sim has tickets without jobs.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_BASE_TICKET_H
#define ENGRAM_BASE_TICKET_H

#include <stdbool.h>
#include <stdint.h>

struct tenancy;

/* A server, as in queueing theory: number 0 is the CPU with all its workers, 1 + i is GPU i. */
enum { SERVER_CPU = 0, SERVER_GPU = 1, SERVERS_MAX = 17 };

/* What a kNN should have to read on a backend where int8 is asked first (kernels/shadow.h). */
struct work_screen {
    float asked;  /* part of its pairs of a query and a row; 0: none */
    float passed; /* part of those whose rows are scored then */
};

/* The features that predict a request's time; ops/operation.h fills them in. */
struct work {
    uint32_t operation; /* enum operation */
    uint32_t stride;    /* floats of a padded row */
    uint32_t k;         /* 0: every score is returned */
    bool listed;        /* rows are given as lists, not scanned in order */
    bool filtered;      /* an id filter has to be resolved */
    bool gpu_able;      /* a GPU can run this operation */
    bool unbounded;     /* the numbers are estimates, and the work may turn out to be much larger */
    uint64_t queries;
    /* rows scanned for each query; listed: length of all lists together; spread: nodes that each
     * seed set (a query) is expected to touch */
    uint64_t rows;
    /* scores to compute or edges to follow; 0: none (writes, fetches, norms), and the bytes
     * predict the time */
    uint64_t pairs;
    uint64_t bytes_in;            /* request body */
    uint64_t bytes_out;           /* reply body, as far as it can be known before */
    struct work_screen screen[2]; /* on the CPU, on GPUs */
    struct work_after {
        uint32_t operation, stride;
        uint64_t queries, rows, pairs;
    } after; /* what the same job does afterwards; operation 0: nothing */
};

/* True if running it on the loop is cheaper than waking a worker: at most half a MiB to read, and
 * no filter to resolve. What a spread may walk is limited by exec. */
static inline bool work_is_brief(const struct work *w)
{
    return w->pairs && !w->filtered && !w->unbounded && w->pairs * w->stride <= 1u << 17 &&
           w->bytes_in + w->bytes_out <= 1u << 16;
}

struct ticket {
    /* Set by the pipeline. */
    struct tenancy *tenancy; /* whose it is, and of which tenant (sched/principal.h) */
    struct work work;
    const void *batch_key; /* tickets with the same key may run as one job; NULL: only alone */
    bool batch_on_cards;   /* but not on the CPU */
    bool splits;           /* may run in parts, each a range of its queries, on several servers */
    uint64_t arrived_ns;
    uint64_t deadline_ns; /* 0: none */

    /* The scheduler's. */
    uint32_t server;
    uint32_t reason; /* enum reason: why this server */
    uint32_t other;  /* another server that may take it, too; SERVERS_MAX: none */
    /* predicted on each if it ran alone, with its uploads; 0: not predicted */
    uint64_t cpu_ns, gpu_ns;
    uint64_t upload_ns; /* the part of gpu_ns that brings the replica up to date */
    uint64_t wait_ns;   /* predicted waiting time when the server was chosen */
    uint64_t charge_ns; /* predicted time that its flow, or the server, is charged for it */
    uint64_t run_ns;    /* in flight: predicted for all members together, without uploads */
    uint64_t window_ns; /* in flight: the part of charge_ns that counts towards the window */
    uint64_t ahead_ns;  /* in flight: the part that others may have to wait for */
    uint64_t dispatched_ns;
    uint64_t lead_ns;  /* it was held until so long before its card should be done; 0: it was not */
    bool passes;       /* in flight beyond a full window */
    uint32_t put_off;  /* scheduler_put_off: it is passed over until that round is over */
    uint32_t members;  /* tickets that run as one job with it, itself included; 0: still queued */
    struct work whole; /* in flight: the work of all members together */
    struct ticket *next, *previous;           /* in its flow; in a dispatch: the other members */
    struct ticket *mate_next, *mate_previous; /* sched/batch_groups.h */
    /* of the first ticket in a group of mates */
    struct ticket *group_next, *group_previous, *group_last;
    uint64_t group_queries; /* of all its mates together */
    /* in its server's list of dispatches, oldest first */
    struct ticket *flight_next, *flight_previous;
};

/* True if others may run with t on that server. */
static inline bool ticket_joins(const struct ticket *t, uint32_t server)
{
    return t->batch_key && (server != SERVER_CPU || !t->batch_on_cards);
}

#endif
