/* principal: a peer (a user, an address) as the scheduler sees it, and its tenancies: what it asks
 * of one space each. Time is shared between principals first, and then between the tenancies of
 * each, so that inventing spaces gains nothing.
 * Owner:  the pipeline (request/principals.h); sim tests make their own.
 * Thread: the loop.
 * Errors: principal_create, tenancy_create: NULL, no memory. */
#ifndef ENGRAM_SCHED_PRINCIPAL_H
#define ENGRAM_SCHED_PRINCIPAL_H

#include "daemon/base/ticket.h"
#include "daemon/sched/round.h"
#include "daemon/sched/tenant.h"

/* A tenancy's queue for one server: first in, first out; between flows the deficit decides. */
struct flow {
    struct turn turn; /* in its stake's round while it has tickets; first, so that it is its flow */
    struct ticket *head, *tail;
    uint32_t depth;
    uint32_t in_flight;   /* dispatches; a batch counts once */
    uint32_t passing;     /* the short ones among them that passed a full window */
    uint64_t queued_ns;   /* charges of all queued tickets */
    struct ticket *ready; /* during scheduler_next: the ticket that it could start now */
    struct tenancy *tenancy;
    struct stake *stake;
};

/* A principal's part of one server: its flows there. */
struct stake {
    struct turn turn; /* in the server's round while a flow has tickets; first, as in struct flow */
    struct round flows;
    uint32_t in_flight;   /* dispatches of all its flows */
    uint64_t queued_ns;   /* of all its flows */
    uint64_t finished_ns; /* when a run of it last ended there */
};

struct principal {
    struct stake stakes[SERVERS_MAX];
    struct tenancy *tenancies; /* newest first */
    uint32_t queued;           /* tickets queued in all flows */
    uint32_t coming;           /* requests that will be queued; the pipeline counts */
    uint32_t jobs;             /* requests that have a job; the pipeline counts */
    uint32_t queue_max;        /* of queued and coming; 0: unlimited. The pipeline sets it */
    uint64_t refused_queue;
    struct principal *next, *previous; /* the pipeline's list */
};

struct tenancy {
    struct flow flows[SERVERS_MAX];
    struct tenant *tenant;
    struct principal *principal;
    struct tenancy *next, *previous; /* the principal's */
    struct tenancy *space_next, *space_previous;
    uint32_t queued, coming; /* as the principal's */
    uint32_t jobs;           /* requests that have a job; the pipeline counts */
    uint32_t connections;    /* the pipeline counts */
    uint64_t left_ns;        /* when the last of both went */
};

struct principal *principal_create(void);
/* All tenancies must be destroyed. NULL is fine. */
void principal_destroy(struct principal *p);

struct tenancy *tenancy_create(struct principal *p, struct tenant *t);
/* No ticket of it may be queued or in flight. NULL is fine. */
void tenancy_destroy(struct tenancy *l);

#endif
