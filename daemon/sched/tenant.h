/* tenant: a space as the scheduler sees it: its share, its quotas, what it has queued and in
 * flight, and what it has used.
 * Owner:  the space holds it (store/space.h); the pipeline makes and destroys it with the space.
 * Thread: the loop, except where noted.
 * Errors: tenant_create: NULL, no memory. */
#ifndef ENGRAM_SCHED_TENANT_H
#define ENGRAM_SCHED_TENANT_H

#include "daemon/base/ticket.h"

/* 0: unlimited. Set from the configuration (quotas.*, spaces.NAME.*), and again on SIGHUP. */
struct quotas {
    uint64_t host_bytes; /* of the heap: collections, request bodies, results, scratch */
    uint64_t vram_bytes; /* of replicas */
    uint32_t queue_max;  /* requests queued for a backend */
    uint32_t connections_max;
    uint32_t weight; /* its share of each backend, relative to others': 1..1000 */
};

/* A tenant's queue for one server: first in, first out; between tenants the deficit decides. */
struct flow {
    struct ticket *head, *tail;
    uint32_t depth;
    uint32_t in_flight;   /* dispatches; a batch counts once */
    uint32_t passing;     /* the short ones among them that passed a full window */
    int64_t deficit_ns;   /* negative: it was served more than its share */
    uint64_t granted_ns;  /* the server's granted_ns up to which the deficit is computed (fair.h) */
    uint32_t weight;      /* its part of the server's weights while it is in the round-robin */
    struct ticket *ready; /* during scheduler_next: the ticket that it could start now */
    uint64_t served_ns;   /* when it was last served, or became non-empty */
    uint64_t queued_ns;   /* charges of all queued tickets */
    struct flow *next, *previous; /* in the server's round-robin; NULL: it is not in it */
    struct tenant *tenant;
};

struct tenant {
    uint32_t space; /* the space's number */
    struct quotas quotas;
    struct flow flows[SERVERS_MAX];
    uint32_t queued; /* tickets queued in all flows */
    uint32_t coming; /* requests that will be queued after their turnstile; the pipeline counts */
    uint32_t connections; /* the pipeline counts */
    /* Use, by backend: [0] CPU, [1] GPU. ns: how long it kept the backend from others. */
    uint64_t busy_ns[2], requests[2], batches[2], batched_requests[2];
    uint64_t refused_queue, refused_connections;
};

struct tenant *tenant_create(uint32_t space, const struct quotas *quotas);
/* No ticket of it may be queued or in flight. NULL is fine. */
void tenant_destroy(struct tenant *t);

#endif
