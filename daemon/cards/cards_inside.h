/* cards_inside: the state of the GPU backend, for the files of daemon/cards: cards.c (jobs and
 * life), orders.c (orders out, completions in), replicas.c (which replica is where, and its
 * version), operands.c (those that one job reads), build.c (which card gets a replica, and its
 * pieces), build_rows.c, build_graph.c and build_attractor.c (the orders for that).
 * Owner:  cards/cards.c.
 * Thread: the loop.
 * Errors: none that leave daemon/cards. */
#ifndef ENGRAM_CARDS_CARDS_INSIDE_H
#define ENGRAM_CARDS_CARDS_INSIDE_H

#include "daemon/cards/cards.h"
#include "daemon/cards/row_places.h"
#include "daemon/store/resident.h"
#include "proto/foresight.h"

/* ---- what there is ---- */

/* The copy of a collection, graph or attractor on one GPU. Orders name a build of it by number. A
 * build that was lost or is in doubt is condemned, and the next build has another number, so that
 * no order for the old one can be mistaken for the new. */
struct card_replica {
    /* NULL: it is gone, and only the order to forget the replica is missing */
    struct resident *resident;
    uint32_t space;
    struct card *card;
    uint64_t number;   /* 0: there is no build */
    bool begun;        /* an upload of this build was ordered, and further ones continue it */
    bool shadow_only;  /* of its rows this build has the codes: order_upload.shadow_only */
    bool pressed;      /* the last build with rows found no VRAM, or soon lost it, though it fits */
    uint64_t asked_ns; /* when something was last asked of it; 0: never */
    uint64_t rows_missed_ns;   /* when something last wanted its rows, and these alone; 0: never */
    struct row_places *places; /* of the rows, as a job last asked for them; NULL: none did */
    bool condemned;            /* the process must forget it before the next build */
    uint64_t version; /* the resident's version once all orders in flight are done; 0: incomplete */
    uint32_t out;     /* uploads of this build in flight */
    uint32_t round;   /* they stand on each other: see struct order_upload */
    bool refused;     /* one of this round found no VRAM beside the version that requests read */
    bool held;        /* no upload until one of those requests has ended */
    uint64_t bytes;   /* of VRAM, first as planned, then as its process reports */
    uint64_t used;    /* larger means used later */
    enum reason lost; /* why the last build was lost */
    /* where the next build had best be, beside what is read together with it; NULL: anywhere */
    struct card *beside;
    uint64_t retry_ns; /* no new build before this time */
    uint64_t wait_ns; /* how long the wait was after the last loss; 0: this process has lost none */
    struct card_replica *next, *previous;
};

enum { CARD_NO_SLOT = UINT32_MAX };

/* An order in flight. */
struct card_slot {
    enum order_kind kind; /* 0: free */
    uint32_t generation;
    uint32_t next_free;
    struct job *job;               /* NULL: for FORGET */
    struct card_replica *replica;  /* of an UPLOAD or UPLOAD_PART */
    uint64_t number;               /* of its build */
    struct resident_run run;       /* of an UPLOAD or UPLOAD_PART: what it brings */
    uint64_t limit_ns;             /* after this time the process counts as hung */
    uint64_t sent_ns, foreseen_ns; /* foreseen_ns: how long it should take; 0: not predicted */
    bool overdue;                  /* it was looked for after it was expected to end */
    uint32_t older, newer;         /* the orders given before and after it; CARD_NO_SLOT: none */
};

/* One GPU. */
struct card {
    struct cards *gpu;
    struct gpu_process *process;
    uint32_t number;
    char which[32];
    bool asleep; /* its process writes to the eventfd when it has completions */
    bool mad;    /* it sent something invalid: nothing it says counts any more */
    bool gone; /* on_gone was called since the last start or at the stop, or on_stuck at the stop */
    struct card_slot *slots;
    uint32_t free_slot, out;
    uint32_t oldest, newest; /* of the orders in flight; CARD_NO_SLOT: none */
    uint64_t ended_ns;       /* when the last order ended, as far as was seen */
    uint64_t planned_bytes;  /* sum over its replicas: needed for each request without a replica */
    uint64_t work_until_ns;  /* when all orders in flight should be done, by a generous estimate */
    uint64_t checked_ns;     /* time of the last card_check */
};

/* Whether clients ask again as soon as they are answered (watch.c). */
struct follow_up {
    bool answered; /* an order of a request has ended since the loop last looked for the next one */
    uint32_t missed; /* times in a row that nothing came */
    uint32_t skips;  /* so many answers are not followed by a look */
};

struct cards {
    struct backend backend;
    struct cards_options options;
    struct card cards[GPU_MAX];
    uint32_t card_count;
    bool all_devices, stopping;
    uint32_t jobs;
    struct card_replica *replicas;
    uint32_t condemned; /* replicas whose condemned builds wait for room in the ring */
    uint64_t replica_last, used_last;

    /* watch.c: when completions are watched for */
    struct foresight_table ends;
    struct foresight_sleep sleep;
    struct foresight_budget budget;
    struct follow_up follow_up;
    uint64_t looked_ns; /* when completions were last looked for */
    uint64_t wake_ns;   /* when to be called again, to watch or to nap; 0: no need */
    bool naps;          /* wake_ns is not when the watching begins */
};

/* ---- cards.c ---- */

/* Called when the last order for j has come back. */
void cards_job_back(struct cards *g, struct job *j);

/* ---- orders.c ---- */

bool card_init(struct card *card, struct cards *g, uint32_t number, const char *which);
void card_finish(struct card *card);
bool card_is_ready(const struct card *card);
/* Returns how many orders can be given now. */
uint32_t card_room(struct card *card);
/* Gives an order; there must be room. j and r as in struct card_slot; ns: its expected time. */
void card_order(struct card *card, const struct order *order, struct job *j, struct card_replica *r,
                uint64_t ns);
/* Returns the longest that j's order should take. */
uint64_t order_estimate_ns(const struct job *j);
/* Takes the completions of a process that is ready, or was until now. True: there were some. */
bool card_take(struct card *card);
/* Takes back all orders in flight: the process is gone, or will be. */
void card_lose(struct card *card);
/* Kills the process if an order is past its limit. Completions should be taken before. */
void card_check(struct card *card, uint64_t now_ns);

/* ---- operands.c ---- */

/* True if j can read r's build: one without rows serves kNN alone. */
bool replica_serves(const struct card_replica *r, const struct job *j);
/* Orders the uploads that bring what j reads up to date, and says in j's order what it reads. NONE,
 * or the reason why not. The upload of one may cost another its replica. */
enum reason replicas_make_ready(struct cards *g, struct job *j);
/* True if the replicas that j shall read are those that its orders are about. */
bool replicas_are_there(const struct job *j);
/* Returns what a reply calls the queries of j's order. */
const char *query_name_of(const struct job *j);

/* ---- watch.c ---- */

/* Learns from the end of an order, which still has its slot, how long orders take. */
void card_learn(struct card *card, const struct card_slot *slot, bool well);

/* ---- replicas.c ---- */

static inline struct card_replica *replica_of(const struct resident *of)
{
    return of->replica;
}

/* Makes a replica without a build; NULL: no memory. */
struct card_replica *replica_take(struct cards *g, struct resident *of);

static inline bool replica_has_build(const struct card_replica *r)
{
    return r && r->number && !r->condemned;
}

/* True if this build is still the current one of the resident's replica. */
bool replica_is(const struct card_replica *r, uint64_t number);
bool replica_is_current(const struct card_replica *r);

/* Returns the version that j reads of an operand. */
uint64_t replica_version_of(const struct job *j, uint32_t operand);

/* An upload of r's build was answered with NO_VERSION: what it was to bring is dirty again. The
 * other uploads of its round will be answered likewise. */
void replica_refused(struct card_replica *r, const struct resident_run *run);
/* The last upload of such a round has come back. */
void replica_end_round(struct card_replica *r);
/* A request of j on the card has ended, so that uploads of what it read may find VRAM. One that
 * did not read it (NO_VERSION) changes nothing, unless it was the last. */
void replicas_release(struct card *card, const struct job *j, enum order_result result);

/* Notes the bytes that r, which has a build, holds or will hold. */
void replica_set_bytes(struct card_replica *r, uint64_t bytes);

/* Tells the process to forget the condemned build. False: the ring has no room now. */
bool replica_flush(struct cards *g, struct card_replica *r);

/* How long an evicted replica stays away, so that two collections do not evict each other all the
 * time; longer each time that it is evicted again soon, because uploading a large one may take
 * longer. */
#define REPLICA_RETRY_NS     UINT64_C(500000000)
#define REPLICA_RETRY_MAX_NS UINT64_C(8000000000)
/* Marks the build as lost or in doubt. No new build before delay_ns have passed, or twice the last
 * wait, if that was not long ago. */
void replica_lose(struct cards *g, struct card_replica *r, enum reason why, uint64_t delay_ns);
void replica_evicted(struct cards *g, struct card *card, uint64_t number);
/* Marks every build on the card as lost. */
void replicas_lose_card(struct cards *g, struct card *card);
/* Sends the orders to forget that found no room before. */
void replicas_flush(struct cards *g);
void replicas_free(struct cards *g);

/* ---- build.c ---- */

/* Gives the orders that bring the replica of one of j's operands up to date, up to about bytes_max;
 * leaves room for `spare` more orders. NONE: done (completely only if replica_is_current now);
 * otherwise why not, and no order was given. A second operand's is on the first one's card, or it
 * is refused. */
enum reason replica_upload(struct cards *g, struct job *j, uint32_t operand, uint64_t bytes_max,
                           uint32_t spare);
/* True if no card, or not the space's quota, has room for the rows of a collection that has no
 * build, but a card has for what codes them. */
bool build_is_shadow_only(const struct cards *g, const struct resident *of);
/* Gives up a build without rows, if these fit again with some room left, beside what others are
 * asked for or, where something misses the rows, in place of it; not while it is under way, nor
 * where others than the budget took the VRAM. True: the next one is with rows. */
bool build_give_up_codes(struct cards *g, struct card_replica *r);
/* Something is asked of r. */
void build_note_use(struct cards *g, struct card_replica *r);
/* True if the replicas of several residents of one space fit on a card, and in the space's quota,
 * at the same time. Otherwise each would make room for itself by the other's end. */
bool build_fits_together(const struct cards *g, struct resident *const of[], uint32_t count,
                         uint32_t card);
/* Gives one of them, of this many bytes, after setting whose replica it is. */
void build_order(struct cards *g, struct job *j, struct card_replica *r, struct order *o,
                 uint64_t bytes);

/* VRAM is mapped in pieces of 2 MiB, by every driver so far. */
enum { BUILD_MAPPED_BYTES = 2 << 20 };
static inline uint64_t build_mapped(uint64_t bytes)
{
    return (bytes + BUILD_MAPPED_BYTES - 1) / BUILD_MAPPED_BYTES * BUILD_MAPPED_BYTES;
}

/* ---- build_rows.c, build_graph.c and build_attractor.c ---- */

/* Returns the VRAM of a collection's rows, norms and ids, of a graph's parts, each mapped
 * separately, or of an attractor's matrix. */
/* Returns what r's space may have on r's card, by its quota and what it has on others; 0: any
 * bytes. */
uint64_t build_space_bytes_max(const struct cards *g, const struct card_replica *r);
uint64_t build_rows_bytes(const struct resident *of);
/* The same of a card that maps pieces of this size. */
uint64_t build_rows_bytes_by(const struct resident *of, uint64_t piece);
/* The same without rows, and with what codes them. */
uint64_t build_codes_bytes(const struct resident *of, uint64_t piece);
uint64_t build_graph_bytes(const struct resident *of);
uint64_t build_attractor_bytes(const struct resident *of);
/* Gives orders for up to about bytes_max, at most orders_max orders. False: there is no memory, or
 * everything (UINT64_MAX) was requested and has no room; no order was given. */
bool build_rows(struct cards *g, struct job *j, uint32_t operand, uint64_t bytes_max,
                uint32_t orders_max);
bool build_graph(struct cards *g, struct job *j, uint32_t operand, uint64_t bytes_max,
                 uint32_t orders_max);
bool build_attractor(struct cards *g, struct job *j, uint32_t operand, uint64_t bytes_max,
                     uint32_t orders_max);

#endif
