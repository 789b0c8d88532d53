/* gpu_inside: what the GPU backend is made of, for gpu.c (jobs and life), gpu_orders.c (orders out,
 * completions in), gpu_replicas.c (what lies where, and how fresh), gpu_build.c (where a replica goes,
 * and piece by piece), gpu_build_rows.c and gpu_build_graph.c (the orders for that).
 * Owner:  cards/cards.c.
 * Thread: the loop.
 * Errors: none that leave daemon/cards. */
#ifndef ENGRAM_CARDS_CARDS_INSIDE_H
#define ENGRAM_CARDS_CARDS_INSIDE_H

#include "daemon/cards/cards.h"
#include "daemon/store/resident.h"

/* ---- what there is ---- */

/* A collection's or graph's copy on one GPU. number is what orders call this build of it: a build that was
 * lost or is in doubt is condemned, and the next has another number, so that nothing that was
 * ordered of the old one can be taken for the new. */
struct card_replica {
    struct resident *resident; /* NULL: gone; only the order to forget is missing */
    uint32_t space;
    struct card *card;
    uint64_t number;   /* 0: there is no build */
    bool begun;        /* an upload of this build was ordered: the others go on top of it */
    bool condemned;    /* to be forgotten before the next build */
    uint64_t version;  /* the resident's, once all that is out is done; 0: incomplete */
    uint32_t out;      /* uploads of this build that are not done yet */
    uint64_t bytes;    /* of VRAM, as planned, then as its process says */
    uint64_t used;     /* the larger, the later it was last used */
    enum reason lost;  /* why the last build was */
    uint64_t retry_ns; /* no new build before */
    uint64_t wait_ns;  /* how long that was when it was last lost; 0: not yet, by this process */
    struct card_replica *next, *previous;
};

/* An order that is out. */
struct card_slot {
    enum order_kind kind; /* 0: free */
    uint32_t generation;
    uint32_t next_free;
    struct job *job;              /* NULL: FORGET */
    struct card_replica *replica; /* of an UPLOAD or UPLOAD_PART */
    uint64_t number;              /* of its build */
    uint64_t limit_ns;            /* past it the process counts as hung */
};

/* One GPU. */
struct card {
    struct cards *gpu;
    struct gpu_process *process;
    uint32_t number;
    char which[32];
    bool asleep; /* its completions ring the eventfd */
    bool mad;    /* it said what makes no sense: nothing it says counts any more */
    bool gone;   /* on_gone came, since the last start or at the stop; or on_stuck at the stop */
    struct card_slot *slots;
    uint32_t free_slot, out;
    uint64_t planned_bytes; /* of all its replicas: asked for each request that has none */
    uint64_t work_until_ns; /* when all that is out should be done, by a generous estimate */
    uint64_t checked_ns;    /* the last card_check */
};

struct cards {
    struct backend backend;
    struct gpu_options options;
    struct card cards[GPU_MAX];
    uint32_t card_count;
    bool all_devices, stopping;
    uint32_t jobs;
    struct card_replica *replicas;
    uint32_t condemned; /* replicas that wait for room to say so */
    uint64_t replica_last, used_last;
};

/* ---- gpu.c ---- */

/* The last order for j came back. */
void gpu_job_back(struct cards *g, struct job *j);

/* ---- gpu_orders.c ---- */

bool card_init(struct card *card, struct cards *g, uint32_t number, const char *which);
void card_finish(struct card *card);
bool card_is_ready(const struct card *card);
/* Orders that can be given now. */
uint32_t card_room(struct card *card);
/* Gives an order; there must be room. j and r as in struct card_slot; ns: what it should take. */
void card_order(struct card *card, const struct order *order, struct job *j, struct card_replica *r,
                uint64_t ns);
/* What j's order should take at most. */
uint64_t order_estimate_ns(const struct job *j);
/* Takes completions of a process that is ready, or was until now. True: there were some. */
bool card_take(struct card *card);
/* The process is gone, or as good as gone: all that was out comes back. */
void card_lose(struct card *card);
/* Kills the process if an order is past its limit. Completions should have been taken before. */
void card_check(struct card *card, uint64_t now_ns);

/* ---- gpu_replicas.c ---- */

static inline struct card_replica *replica_of(const struct resident *of)
{
    return of->replica;
}

/* Makes one that has no build; NULL: no memory. */
struct card_replica *replica_take(struct cards *g, struct resident *of);

static inline bool replica_has_build(const struct card_replica *r)
{
    return r && r->number && !r->condemned;
}

/* Whether that build is still what the resident's replica is. */
bool replica_is(const struct card_replica *r, uint64_t number);
bool replica_is_current(const struct card_replica *r);

/* r, which has a build, holds so much, or will. */
void replica_set_bytes(struct card_replica *r, uint64_t bytes);

/* Tells the process to forget the condemned build. False: there is no room for that now. */
bool replica_flush(struct cards *g, struct card_replica *r);

/* What was evicted comes back no sooner, so that two collections do not chase each other out; and
 * each time later, if it does not last, for to upload a large one may take longer than that. */
#define REPLICA_RETRY_NS     UINT64_C(500000000)
#define REPLICA_RETRY_MAX_NS UINT64_C(8000000000)
/* The build is lost or in doubt; nothing again before delay_ns have passed, or twice what it waited
 * the last time, if that was not long ago. */
void replica_lose(struct cards *g, struct card_replica *r, enum reason why, uint64_t delay_ns);
void replica_evicted(struct cards *g, struct card *card, uint64_t number);
/* Every build on the card. */
void replicas_lose_card(struct cards *g, struct card *card);
/* Says what could not be said before. */
void replicas_flush(struct cards *g);
void gpu_replicas_finish(struct cards *g);

/* ---- gpu_build.c ---- */

/* Gives the orders that bring up to date what j is about, up to about bytes_max; leaves room for
 * `spare` more. NONE: done (all of it only if replica_is_current now); else why not, and none was
 * given. */
enum reason replica_upload(struct cards *g, struct job *j, uint64_t bytes_max, uint32_t spare);
/* One of them, of so many bytes: fills in whose it is. */
void build_order(struct cards *g, struct job *j, struct card_replica *r, struct order *o,
                 uint64_t bytes);

/* VRAM is mapped in pieces of 2 MiB, by every driver so far. */
static inline uint64_t build_mapped(uint64_t bytes)
{
    enum { MAPPED_BYTES = 2 << 20 };
    return (bytes + MAPPED_BYTES - 1) / MAPPED_BYTES * MAPPED_BYTES;
}

/* ---- gpu_build_rows.c and gpu_build_graph.c ---- */

/* VRAM that a collection's rows, norms and ids take, or a graph's parts, each mapped for itself. */
uint64_t build_rows_bytes(const struct resident *of);
uint64_t build_graph_bytes(const struct resident *of);
/* Up to about bytes_max and no more than orders_max orders. False: no memory, or all (UINT64_MAX) was
 * asked for and has no room; nothing was given. */
bool build_rows(struct cards *g, struct job *j, struct card_replica *r, uint64_t bytes_max,
                uint32_t orders_max);
bool build_graph(struct cards *g, struct job *j, struct card_replica *r, uint64_t bytes_max,
                 uint32_t orders_max);

#endif
