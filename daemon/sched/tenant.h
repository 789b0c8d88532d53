/* tenant: a space as the scheduler sees it: its quotas, what it has queued, and what it has used.
 * Owner:  the space holds it (store/space.h); the pipeline makes and destroys it with the space.
 * Thread: the loop, except where noted.
 * Errors: tenant_create: NULL, no memory. */
#ifndef ENGRAM_SCHED_TENANT_H
#define ENGRAM_SCHED_TENANT_H

#include <stdint.h>

struct tenancy;

/* 0: unlimited. Set from the configuration (quotas.*, spaces.NAME.*), and again on SIGHUP. */
struct quotas {
    uint64_t host_bytes; /* of the heap: collections, request bodies, results, scratch */
    uint64_t vram_bytes; /* of replicas */
    uint32_t queue_max;  /* requests queued for a backend */
    uint32_t connections_max;
    uint32_t weight; /* its share of each backend, relative to others': 1..1000 */
};

struct tenant {
    uint32_t space; /* the space's number */
    struct quotas quotas;
    struct tenancy *tenancies; /* of all principals that use the space (sched/principal.h) */
    uint32_t queued;           /* tickets queued in all flows */
    uint32_t coming; /* requests that will be queued after their turnstile; the pipeline counts */
    uint32_t connections; /* the pipeline counts */
    /* Use, by backend: [0] CPU, [1] GPU. ns: how long it kept the backend from others. */
    uint64_t busy_ns[2], requests[2], batches[2], batched_requests[2];
    uint64_t refused_queue, refused_connections;
};

struct tenant *tenant_create(uint32_t space, const struct quotas *quotas);
/* No ticket of it may be queued or in flight, and no tenancy may be left. NULL is fine. */
void tenant_destroy(struct tenant *t);

#endif
