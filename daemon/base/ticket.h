/* ticket: a job as the scheduler sees it: what it asks for in numbers, whose it is, where it stands.
 * Owner:  the job that it lies in (base/job.h); tests/sim has tickets without jobs.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_BASE_TICKET_H
#define ENGRAM_BASE_TICKET_H

#include <stdbool.h>
#include <stdint.h>

struct tenant;

/* Servers, in the sense of queues: number 0 is the CPU with all its workers, 1 + i is GPU i. */
enum { SERVER_CPU = 0, SERVER_GPU = 1, SERVERS_MAX = 17 };

/* The features that predict a request's time. ops/operation.h fills it. */
struct work {
    uint32_t operation; /* enum operation */
    uint32_t stride;    /* floats of a padded row */
    uint32_t k;         /* 0: all scores */
    bool listed;        /* rows are picked one by one, not scanned */
    bool filtered;      /* there is an id filter to resolve */
    bool gpu_able;      /* a GPU has a form of it */
    bool unbounded;     /* numbers are likely ones: it may turn out to be much more */
    uint64_t queries;
    uint64_t rows;      /* scanned for every query; listed: of all lists together; spread: nodes
                           touched, likely, for every set (which are its queries) */
    uint64_t pairs;     /* scores to compute, edges to walk; 0: none (writes, fetches, norms): bytes
                           tell */
    uint64_t bytes_in;  /* request body */
    uint64_t bytes_out; /* reply body, as far as it is known */
};

/* So little of it that to wake a worker, and to be woken when it is done, takes longer: at most half
 * a MiB to read, and no filter to resolve. What a spread may walk is bounded by exec. */
static inline bool work_is_brief(const struct work *w)
{
    return w->pairs && !w->filtered && !w->unbounded && w->pairs * w->stride <= 1u << 17 &&
           w->bytes_in + w->bytes_out <= 1u << 16;
}

struct ticket {
    /* Set by the pipeline. */
    struct tenant *tenant;
    struct work work;
    const void *batch_key; /* tickets with one key may run as one; NULL: alone */
    uint64_t arrived_ns;
    uint64_t deadline_ns; /* 0: none */

    /* The scheduler's. */
    uint32_t server;
    uint32_t reason;         /* enum reason; of the server */
    uint32_t other;          /* a server that could have it as well; SERVERS_MAX: none */
    uint64_t cpu_ns, gpu_ns; /* predicted, alone on each, uploads included; 0: not asked */
    uint64_t upload_ns;      /* of gpu_ns, to bring the replica up to date */
    uint64_t wait_ns;        /* predicted, for the work ahead, when it was decided */
    uint64_t charge_ns;      /* what it stands for in its flow, or in flight: predicted */
    uint64_t window_ns;      /* in flight: of charge_ns, what counts towards the window */
    uint64_t dispatched_ns;
    bool passes;       /* in flight, past a full window */
    uint32_t members;  /* tickets that run, or ran, as one with it, itself included; 0: in line */
    struct work whole; /* in flight: of all of them together */
    struct ticket *next, *previous;           /* of its flow; of a dispatch: the other members */
    struct ticket *mate_next, *mate_previous; /* sched/mates.h */
    struct ticket *group_next, *group_previous, *group_last; /* of the first of a group of mates */
    struct ticket *flight_next, *flight_previous; /* of its server's dispatches, oldest first */
};

#endif
