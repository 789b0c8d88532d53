/* tenant: a space as the scheduler sees it: its share, its quotas, what it has in line and in
 * flight, what it used.
 * Owner:  the space holds it (store/space.h); the pipeline makes and ends it with the space.
 * Thread: the loop, but for what says otherwise.
 * Errors: tenant_create: NULL, no memory. */
#ifndef ENGRAM_SCHED_TENANT_H
#define ENGRAM_SCHED_TENANT_H

#include "daemon/base/ticket.h"

/* 0: no bound. Set from the configuration (quotas.*, spaces.NAME.*), and anew on SIGHUP. */
struct quotas {
    uint64_t host_bytes; /* of the heap: collections, request bodies, results, scratch */
    uint64_t vram_bytes; /* of replicas */
    uint32_t queue_max;  /* requests in line for a backend */
    uint32_t connections_max;
    uint32_t weight; /* its share of each backend against others': 1..1000 */
};

/* A tenant's line for one server: first come, first served; between tenants by deficit. */
struct flow {
    struct ticket *head, *tail;
    uint32_t depth;
    uint32_t in_flight;   /* dispatches, a batch is one */
    uint32_t passing;     /* of these, short ones that passed a full window */
    int64_t deficit_ns;   /* may be negative: it had more than its turn */
    uint64_t granted_ns;  /* the server's, up to which the deficit counts (fair.h) */
    uint32_t weight;      /* in the round: as it counts in the server's weights */
    struct ticket *ready; /* within scheduler_next: what it could start now */
    uint64_t served_ns;   /* when it was last served, or came from nothing */
    uint64_t queued_ns;   /* charges of all that wait */
    struct flow *next,
        *previous; /* the server's round of flows that have something; NULL: not in */
    struct tenant *tenant;
};

struct tenant {
    uint32_t space; /* number */
    struct quotas quotas;
    struct flow flows[SERVERS_MAX];
    uint32_t queued;      /* tickets in all flows */
    uint32_t coming;      /* requests that will be, once they may pass; the pipeline counts */
    uint32_t connections; /* the pipeline counts */
    /* Used, by backend: [0] CPU, [1] GPU. ns: what it held the backend up. */
    uint64_t busy_ns[2], requests[2], batches[2], batched_requests[2];
    uint64_t refused_queue, refused_connections;
};

struct tenant *tenant_create(uint32_t space, const struct quotas *quotas);
/* Nothing of it may be in line or in flight. NULL is fine. */
void tenant_destroy(struct tenant *t);

#endif
