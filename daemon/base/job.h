/* job: one request on its way through the daemon, which docs/architecture.md describes. Every
 * folder reads it.
 * Owner:  the pipeline's pool. A backend borrows it between submit and done.
 * Thread: the loop; between submit and done the backend's workers, except `cancelled`, which the
 *         loop sets and anyone reads.
 * Errors: carried in `failure`; a job with failure.code != OK is answered with an Error. */
#ifndef ENGRAM_BASE_JOB_H
#define ENGRAM_BASE_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uthash.h>

#include "daemon/base/clock.h"
#include "daemon/base/operations.h"
#include "daemon/base/status.h"
#include "daemon/base/ticket.h"
#include "daemon/heap/heap.h"
#include "daemon/heap/order.h"

struct space;
struct collection;
struct graph;
struct resident;
struct vector_kernels;
struct operation_ops;
struct body;

/* The wire's numbers. */
enum dtype {
    DTYPE_NONE = 0,
    DTYPE_FLOAT32 = 1,
    DTYPE_UINT64 = 2,
    DTYPE_UINT32 = 3,
    DTYPE_UINT8 = 4,
};
enum spread_decay {
    DECAY_EXPONENTIAL = 1, /* e^(-p d) */
    DECAY_POWER = 2,       /* (d + 1)^-p */
    DECAY_LINEAR = 3,      /* max(0, 1 - p d) */
    DECAY_TABLE = 4,       /* the caller's */
    DECAY_CONSTANT = 5,    /* 1 */
};
enum backend_id { BACKEND_NONE = 0, BACKEND_CPU = 1, BACKEND_GPU = 2, BACKEND_BOTH = 3 };
enum reason {
    REASON_NONE = 0,
    REASON_CHOSEN_FASTER = 1,
    REASON_BELOW_MIN_BATCH = 2,
    REASON_GPU_ABSENT = 3,
    REASON_GPU_DOWN = 4,
    REASON_PREDICTED_SLOWER = 5,
    REASON_LOW_SUCCESS_RATE = 6,
    REASON_VRAM_PRESSURE = 7,
    REASON_QUEUE_FULL = 8,
    REASON_FORCED = 9,
    REASON_FALLBACK_AFTER_ERROR = 10,
    REASON_PROBE = 11,
};
enum { REASON_MAX = 12 };

static inline size_t dtype_bytes(enum dtype d)
{
    switch (d) {
    case DTYPE_FLOAT32:
    case DTYPE_UINT32: return 4;
    case DTYPE_UINT64: return 8;
    case DTYPE_UINT8: return 1;
    case DTYPE_NONE: return 0;
    }
    return 0;
}

/* A tensor in a body: row-major, data 64-byte aligned. dtype NONE: absent. */
struct tensor {
    enum dtype dtype;
    uint64_t rows, columns;
    void *data;
};

/* Decoded and shape-checked by wire/decode: dtypes are right, columns agree with each other,
 * tensors lie inside the body. Against the collection it is checked when that is looked up. */
/* A spread's parameters: docs/spreading.md. Seeds are request.ids and .weights (absent: 1 each), sets
 * by .offsets; a decay table is in .table, a node set in the filter, the best k in .k (0: all). */
struct job_spread {
    uint32_t mode, fan; /* enum spread_mode, spread_fan */
    uint32_t decay;     /* enum spread_decay */
    float decay_parameter;
    uint32_t hops;
    float thresholds[3];
    bool has_thresholds[3]; /* as decoded; its check sets those that are missing */
    bool ignore_kinds, last_hop, paths;
    uint64_t touched_max; /* 0: no bound */
    uint64_t time_max_us; /* 0: none */
};

struct job_request {
    char collection[65]; /* or graph; "" where the request names none */
    struct tensor ids;   /* upsert, delete, fetch, score, weighted average */
    struct tensor rows;  /* upsert; inline rows of similarity, score, norms, average */
    struct tensor queries;
    struct tensor offsets; /* score; absent: one list of everything */
    struct tensor weights; /* of an average, of edges, of seeds */
    struct tensor targets; /* of edges: their sources are ids; of a CSR matrix: its columns, and ids
                              are those of its rows */
    struct tensor kinds, factors; /* of nodes */
    struct tensor table;          /* spread: f(1) .. f(hops) */
    struct tensor filter_ids;
    struct tensor filter_bitmap;
    uint64_t filter_bitmap_first;
    uint64_t offset, limit; /* fetch by position */
    uint64_t cancel_request_id;
    uint32_t last; /* explain: decisions wanted */
    uint32_t k;
    uint32_t dimension; /* create */
    uint32_t metric;    /* create; of inline rows; 0: the collection's */
    float threshold;
    bool has_threshold;
    bool replace; /* edges: those that were there between the same nodes go */
    bool edges;   /* fetch nodes: with their out-edges */
    struct job_spread spread;
};

/* Where each tensor of a result stands, by the reply that it is for, in body order: RESULT_KNN_IDS;
 * and how many a reply has: RESULTS_Knn. */
#define NUMBER(M, member, from)
#define RESULT(M, SLOT, member, dtype) RESULT_##SLOT,
#define REPLY(message)                 enum { FIELDS_##message##Reply(message) RESULTS_##message };
#include "proto/operations.def"
#undef NUMBER
#undef RESULT

/* What the workers leave for wire/encode. Tensors point into `block`, in wire order, each on a
 * 64-byte boundary; bytes between and inside are all written. */
enum { JOB_TENSORS_MAX = 12 };
struct job_result {
    struct heap_block block;
    uint64_t body_bytes; /* a multiple of 64 */
    struct tensor tensors[JOB_TENSORS_MAX];
    /* counts by operation: upsert inserted, replaced; delete deleted, missing; fetch missing;
     * drop rows (a graph's: nodes, edges); changes of a graph: struct graph_counts' five */
    uint64_t counts[5];
    uint64_t rows;    /* in the collection (edges in the graph) afterwards */
    uint64_t nodes;   /* in the graph afterwards */
    uint64_t version; /* of the collection read or written */
};

enum job_state {
    JOB_FREE,
    JOB_RECEIVED, /* decoded or being decoded */
    JOB_WAITING,  /* for its resident's turnstile */
    JOB_QUEUED,   /* in the scheduler */
    JOB_RUNNING,  /* a backend has it */
    JOB_DONE,     /* back on the loop */
    JOB_REPLYING, /* its result is being written to the socket */
};

struct job;

/* Whom a job goes back to when no backend has it any more, whether one ran it or would not take it:
 * who took it from the pool of jobs. On the loop. */
struct job_owner {
    void (*done)(void *owner, struct job *j);
    void *owner;
};

/* What a step of a job leaves to all workers: each part is run once, at once with others and in any
 * order, unless the job has failed or was cancelled meanwhile. When all have ended, whoever ended
 * last goes on with job->step. */
struct job_parts {
    void (*run)(struct job *j, uint32_t part, uint32_t worker);
    uint32_t count;
};

/* How a job runs on CPU workers. In this order:
 *   prepare   once, alone; may set job->failure (returning its code) and may set parts
 *   run_part  for each part, at once on any thread in any order, each claimed once, writing
 *             disjoint places; skipped when job->failure is set or the job was cancelled
 *   finish    always, once, by whoever ended last, also after a failure; may leave job->parts
 * Only prepare and finish set job->failure; a part notes a failure in its own place. prepare and
 * finish may be NULL. */
struct job_plan {
    enum status (*prepare)(struct job *j);
    void (*run_part)(struct job *j, uint32_t part, uint32_t worker);
    void (*finish)(struct job *j); /* may be NULL */
    uint32_t parts;                /* >= 1 */
    struct heap_block scratch;     /* given back by the backend after finish */
    uint64_t words[12];            /* the operation's own numbers */
};

/* How a job runs on the GPU process (cards/cards.c): gpu_plan takes memory and shapes results, prepare
 * does what grows with rows or ids (filters, ids to rows), the order goes out, and finish, if any,
 * makes the result of what came back. Work that is long runs on CPU workers: prepare and finish may
 * leave job->parts, and prepare a step to follow them. Plan and prepare refuse nothing: what is
 * wrong or odd is unfit, and the CPU says why. */
struct job_gpu {
    enum status (*prepare)(struct job *j); /* or NULL; any failure counts as unfit */
    void (*meanwhile)(struct job *j);      /* or NULL; on the loop, while the GPU works; short */
    void (*finish)(struct job *j);         /* or NULL; after RESULT_OK */
    bool prepare_is_long, finish_is_long;
    bool unfit;          /* set by plan or a step of prepare or finish: this one is for the CPU */
    enum reason gave_up; /* not NONE: it has been there, came back, and why; CPU only */
    bool again;          /* of a carrier: one member was refused, the others were not run */
    struct order order;
    uint64_t pairs;      /* of rows that it computes: what it should take */
    uint64_t vram_bytes; /* that it takes there at least, so that what never fits is known; or 0 */

    /* cards/cards.c's own */
    uint32_t phase, device, orders_out;
    enum order_result result;
    uint64_t number;  /* of the bad query */
    uint64_t replica; /* as it was called when the order went out */
    struct heap_block staging;
};

struct job {
    enum job_state state;
    struct job_owner owner;
    enum operation operation;
    const struct operation_ops *ops; /* how it runs (exec/operation.h); NULL: the loop answers it */
    uint8_t kind;                    /* the frame's, known or not: its reply carries it */
    struct job_key {
        uint64_t connection; /* generation-checked id */
        uint64_t request_id;
    } key;
    UT_hash_handle hh; /* the pipeline's table of jobs in flight, by key */
    struct space *space;
    struct collection *collection; /* held through its turnstile, or NULL */
    struct graph *graph;           /* the same; a job has one of the two at most */
    bool holds_turnstile;
    bool writer;
    atomic_bool cancelled; /* client cancelled or vanished, or time is up: no more parts run */
    atomic_bool skipped;   /* a part was not run because of that: there is no result */
    bool deadline_passed;
    bool refused; /* the backend that it was given to would not take it */

    uint64_t body_bytes;
    struct body *body; /* holds the wire body's memory (net/body.h); NULL: no body */
    struct job_request request;
    struct job_result result;
    struct failure failure;

    enum backend_id backend;
    enum reason reason;
    uint32_t batch;       /* requests that ran as one with it, itself included; 0: alone */
    uint64_t deadline_ns; /* absolute, 0: none */
    uint64_t received_ns, started_ns, finished_ns, answered_ns, copy_ns;

    const struct vector_kernels *kernels;
    const struct clock *clock; /* of all its times; NULL: the real one */
    struct heap *heap;
    uint32_t worker_count;
    uint64_t reply_bytes_max;
    uint64_t spread_us_max; /* 0: no bound */
    struct job_plan plan;
    struct job_gpu gpu;
    void (*step)(struct job *j); /* the next (exec/workers.h) */
    struct job_parts parts;      /* to be run before it */
    uint64_t begun_ns;           /* when workers took it up, last */
    atomic_ullong worked_ns;     /* of all workers together */
    atomic_uint next_part;
    atomic_uint parts_left;

    struct ticket ticket; /* its place in the scheduler */
    bool coming;          /* will be, and counts as such for its tenant */
    bool in_line;         /* there, waiting to be dispatched */
    bool alone;           /* it is not to run with others any more: together they failed */

    /* Several as one: the carrier (OPERATION_KNN_BATCH) runs, holding no turnstile, for its members
     * hold it; each member's result, or failure of its own, is in the member when the carrier is
     * done. One as several: each part runs a range of the whole's queries and writes its lines of
     * the whole's result. */
    struct job *carrier; /* of a member */
    struct job *members; /* of a carrier, oldest first, linked by member_next */
    struct job *member_next;
    struct job *whole;   /* of a part */
    uint64_t part_first; /* of a part: its first query in the whole */
    uint32_t parts_out;  /* of a whole: parts that are not done */

    struct job *next, *previous; /* of the one list it is in */
    struct job *connection_next, *connection_previous;
};

/* What j waits for and holds: a collection and a graph both begin with their resident; NULL: neither. */
static inline struct resident *job_resident(const struct job *j)
{
    return j->collection ? (struct resident *)j->collection : (struct resident *)j->graph;
}

#endif
