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
#include "daemon/base/job_screen.h"
#include "daemon/base/operations.h"
#include "daemon/base/progress.h"
#include "daemon/base/status.h"
#include "daemon/base/ticket.h"
#include "daemon/heap/heap.h"
#include "daemon/heap/order.h"

struct space;
struct edition;
struct graph_edition;
struct attractor_edition;
struct resident;
struct vector_kernels;
struct operation_ops;
struct body;
struct shared_block;
struct token_entry;
struct write_record;

/* As numbered on the wire. */
enum dtype {
    DTYPE_NONE = 0,
    DTYPE_FLOAT32 = 1,
    DTYPE_UINT64 = 2,
    DTYPE_UINT32 = 3,
    DTYPE_UINT8 = 4,
    DTYPE_FLOAT64 = 5,
};
enum spread_decay {
    DECAY_EXPONENTIAL = 1, /* e^(-p d) */
    DECAY_POWER = 2,       /* (d + 1)^-p */
    DECAY_LINEAR = 3,      /* max(0, 1 - p d) */
    DECAY_TABLE = 4,       /* given by the client */
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
    REASON_SHADOW_ONLY = 12,
};
enum { REASON_MAX = 13 };

static inline size_t dtype_bytes(enum dtype d)
{
    switch (d) {
    case DTYPE_FLOAT32:
    case DTYPE_UINT32: return 4;
    case DTYPE_UINT64:
    case DTYPE_FLOAT64: return 8;
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

/* The contents of a request, decoded and with its shapes checked: dtypes are right, columns agree
 * with each other, tensors lie inside the body. It is compared with its collection when that is
 * found. */
/* The parameters of a spread (docs/spreading.md). Seeds are request.ids and .weights (absent: 1
 * each), sets are .offsets; a decay table is .table, a node set is the filter, the best k is .k
 * (0: all). */
struct job_spread {
    uint32_t mode, fan; /* enum spread_mode, spread_fan */
    uint32_t decay;     /* enum spread_decay */
    float decay_parameter;
    uint32_t hops;
    float thresholds[3];
    bool has_thresholds[3]; /* which of them the request has; the check sets the others */
    bool ignore_kinds, last_hop, paths;
    uint64_t touched_max;   /* 0: unlimited */
    uint64_t time_max_us;   /* 0: none */
    uint64_t begun_ns;      /* when that began; 0: when the spread does */
    uint32_t embeddings_at; /* the place of their collection in the table; 0: as spreads have it */
};

/* The parameters of a recall (docs/recall.md), beside k and threshold, by which its seeds are
 * found, and those of its spread. Cues are .queries or .ids, lists of them .offsets. */
struct job_recall {
    uint32_t results; /* of each list */
    float width, activation_min, boost;
    bool has_width, has_activation_min, has_boost; /* the check sets the others */
    bool has_time_max;
    bool ignore_embeddings;
};

/* What a write expects to find, and how it is known again. */
struct job_write {
    uint64_t version; /* 0: whatever there is */
    bool at_least;    /* a later one will do */
    /* 16 bytes by which a repetition is known; all 0: none */
    uint64_t token_low, token_high;
};

/* What names a state of the data; 0: anything. */
struct state_name {
    uint64_t instance, generation, version;
};

/* Of an attractor to create. */
struct job_attractor {
    float sparsity, rate;
    bool has_sparsity, has_rate; /* which of them the request has; the check sets the others */
};

/* The parameters of a clustering (kernels/cluster.h), beside threshold; times are .weights, the
 * first id of what is stored is .offset. The check sets what the request does not have. */
struct job_cluster {
    uint32_t rule; /* enum cluster_rule */
    float threshold_second, score_min;
    uint32_t size_min, clusters_max;
    bool has_threshold_second, has_score_min, has_size_min, has_clusters_max;
};

struct job_request {
    /* of collections and graphs, in the order of the table of operations; "": it names none
     * there */
    char names[OPERATION_OBJECTS_MAX][65];
    struct tensor ids;  /* upsert, delete, fetch, score, weighted average */
    struct tensor rows; /* upsert; inline rows of similarity, score, norms, average */
    struct tensor other_rows, other_ids; /* of a second operand */
    struct tensor into_ids;              /* of results that are stored */
    struct tensor queries;
    struct tensor offsets; /* score; absent: one list of all candidates */
    struct tensor weights; /* of an average, of edges, of seeds; what is added to those of edges */
    /* of edges, whose sources are ids; of a CSR matrix the columns, and ids are those of its
     * rows */
    struct tensor targets;
    struct tensor kinds, factors; /* of nodes */
    struct tensor table;          /* spread: f(1) .. f(hops) */
    struct tensor mask;           /* complete: which numbers of the states are known */
    struct tensor to, spaces;     /* save: a path; names, each ended by a 0; absent: all */
    struct tensor filter_ids;
    struct tensor filter_bitmap;
    uint64_t filter_bitmap_first;
    uint64_t cursor; /* of what is read by position (request/scans.h); 0: none */
    bool keep;       /* and whether one is wanted */
    struct state_name expect;
    uint64_t offset, limit; /* fetch by position; of random rows, the first and how many */
    uint64_t seed;          /* of random rows */
    int64_t shift;          /* of permute */
    uint64_t cancel_request_id;
    uint32_t last; /* explain: how many decisions to return */
    uint32_t k;
    uint32_t dimension; /* of a collection to create */
    uint32_t metric;    /* of a collection to create; of inline rows; 0: the collection's */
    uint32_t object;    /* enum object_kind, of what has no kind of request of its own */
    float threshold;
    bool has_threshold;
    bool normalize;     /* results have norm 1, or are zeros */
    bool dry_run;       /* nothing is done; the reply says what was predicted */
    bool exact;         /* unbind: by division in the spectrum */
    bool replace;       /* edges: existing ones between the same nodes are removed first */
    bool count_doubled; /* edges: those that come beside others are counted */
    bool edges;         /* fetch nodes: return their out-edges, too */
    /* add weights: the bounds of the sums (the check sets those that the request does not have),
     * and whether missing edges are made */
    float low, high;
    bool has_low, has_high, create;
    float scalar; /* scale: the factor; prune: weights below it go */
    bool has_scalar;
    float beta;      /* complete */
    uint32_t rounds; /* complete: at most */
    bool unit;       /* complete: rows count as divided by their norms */
    struct job_write write;
    struct job_spread spread;
    struct job_attractor attractor;
    struct job_recall recall;
    struct job_cluster cluster;
};

/* The place of each tensor of a result, in body order, by the reply that it belongs to:
 * RESULT_KNN_IDS; and how many tensors a reply has: RESULTS_Knn. */
#define NUMBER(M, member, from)
#define RESULT(M, SLOT, member, dtype) RESULT_##SLOT,
#define REPLY(message)                 enum { FIELDS_##message##Reply(message) RESULTS_##message };
#include "proto/operations.def"
#undef NUMBER
#undef RESULT

/* The result that workers leave for wire/encode. Tensors point into `block`, in wire order, each
 * on a 64-byte boundary; all bytes between and inside them are written. */
enum { JOB_TENSORS_MAX = 12 };
struct job_result {
    struct heap_block block;
    uint64_t body_bytes; /* a multiple of 64 */
    struct tensor tensors[JOB_TENSORS_MAX];
    /* counts by operation: upsert: inserted, replaced; delete: deleted, missing; fetch: missing;
     * drop: rows (of a graph: nodes, edges); changes of a graph: the six of struct graph_counts;
     * covariance: its rows */
    uint64_t counts[6];
    double totals[2];           /* covariance: the sum of the weights; the divisor */
    uint64_t rows;              /* in the collection (edges in the graph), after the operation */
    uint64_t nodes;             /* in the graph, after the operation */
    uint64_t cursor, positions; /* of what is read by position; 0: none */
    uint64_t version;           /* of the collection or graph read or written */
    /* of operations that name several things: of each that was read or written; 0: not named */
    uint64_t versions[OPERATION_OBJECTS_MAX];
};

enum job_state {
    JOB_FREE,
    JOB_RECEIVED, /* is decoded or being decoded */
    JOB_WAITING,  /* waits for its resident's turnstile */
    JOB_QUEUED,   /* waits in the scheduler */
    JOB_RUNNING,  /* a backend has it */
    JOB_DONE,     /* is back on the loop */
    JOB_REPLYING, /* its result is being written to the socket */
};

struct job;

/* A collection, graph or attractor that a job names, and its place in the line for it
 * (sched/turnstile.h). */
struct job_object {
    struct resident *resident; /* NULL: it names none here */
    /* The collection's rows, the graph or the attractor, of a reader as they were when it began and
     * of a writer as they are. All NULL: it waits. */
    struct edition *collection;
    struct graph_edition *graph;
    struct attractor_edition *attractor;
    bool writer; /* it writes it; otherwise it reads it */
    bool pinned; /* of a reader: what it sees stays */
    struct job *job;
    struct job_object *next, *previous;
    /* its number in the line, and that of the last writer of its client before it; 0: none */
    uint64_t number, own_write;
};

/* Who took a job from the pool. The job goes back to its owner when no backend has it any more,
 * whether a backend ran it or refused it. Called on the loop. */
struct job_owner {
    void (*done)(void *owner, struct job *j);
    void *owner;
};

/* Parts that a step of a job leaves to all workers: each part runs once, at the same time as
 * others and in any order, unless the job has failed or was cancelled meanwhile. The worker that
 * ends the last part goes on with job->step. */
struct job_parts {
    void (*run)(struct job *j, uint32_t part, uint32_t worker);
    uint32_t count;
};

/* How a job runs on CPU workers, in this order:
 *   prepare   once, alone; may set job->failure (returning its code) and parts
 *   run_part  for each part, on any threads at once and in any order; each part is claimed once
 *             and writes its own places; skipped if job->failure is set or the job was cancelled
 *   finish    always, once, by the worker that ends last, also after a failure; may leave
 *             job->parts
 * Only prepare and finish set job->failure; a part notes a failure in a place of its own. prepare
 * and finish may be NULL. */
struct job_plan {
    enum status (*prepare)(struct job *j);
    void (*run_part)(struct job *j, uint32_t part, uint32_t worker);
    void (*finish)(struct job *j); /* may be NULL */
    uint32_t parts;                /* >= 1 */
    /* About how long the longest part lasts, if that is more than a few ms: inside another job's it
     * is begun only if that has had more. UINT64_MAX: never. */
    uint64_t part_ns;
    struct heap_block scratch;  /* the backend frees it after finish; as is */
    struct heap_block exchange; /* what of it a GPU process may write (exec/operation.h); */
    struct heap_block before;   /* the scratch of a plan that this one follows */
    uint64_t words[12];         /* private to the operation */
};

/* How many collections or graphs a request on a GPU may read. */
enum { JOB_OPERANDS = 3 };

/* How a job runs on a GPU process (cards/cards.c). gpu_plan takes memory and shapes results;
 * prepare does the work that grows with rows or ids (filters, ids to rows); then the order is
 * sent; and finish, if any, makes the result of what comes back. Long work runs on CPU workers:
 * prepare and finish may leave job->parts, and prepare a step to follow them. Plan and prepare
 * refuse nothing: an invalid or unusual request is unfit, and the CPU reports the error. */
struct job_gpu {
    enum status (*prepare)(struct job *j); /* or NULL; any failure counts as unfit */
    /* or NULL; runs on the loop while the GPU works; must be short */
    void (*meanwhile)(struct job *j);
    void (*finish)(struct job *j); /* or NULL; after RESULT_OK */
    bool prepare_is_long, finish_is_long;
    bool unfit; /* set by plan or a step of prepare or finish: the CPU must run this job */
    /* not NONE: a GPU gave the job back for this reason, and the CPU must run it */
    enum reason gave_up;
    bool again; /* of a carrier: a member was refused, and the others were not run */
    struct order order;
    uint64_t pairs; /* of rows to compute, from which its time is estimated */
    /* its exchange says how far a card that is lost has come: job.kept gets it */
    bool keeps;
    /* how many merges it has made so far; or NULL. In the job's own exchange, so it is no more than
     * what the card says */
    const _Atomic uint32_t *merged;
    /* where it is told that nobody wants the result any more; or NULL. In the job's own scratch */
    _Atomic uint32_t *stop;
    /* how a run spreads as well, from each of its lists; or NULL. In the job's own scratch */
    const struct order_spread *spread;
    /* the least that it takes there, so that a job which never fits is recognised; or 0 */
    uint64_t vram_bytes;

    /* private to cards/cards.c */
    uint32_t phase, device, orders_out;
    enum order_result result;
    uint64_t number;      /* of the invalid query or row */
    uint64_t enqueued_ns; /* when its first kernel was; 0: none was, or it is not known */
    /* of what it reads (job_operand): their numbers when the order was sent */
    uint64_t replicas[JOB_OPERANDS];
    struct heap_block staging[JOB_OPERANDS];
    struct row_places *places; /* held, or NULL (cards/row_places.h) */
    enum reason withheld;      /* not NONE: its uploads were ordered, but the run could not be */
};

struct job {
    enum job_state state;
    struct job_owner owner;
    enum operation operation;
    const struct operation_ops *ops; /* how it runs (exec/operation.h); NULL: the loop answers it */
    uint8_t kind;                    /* as in the frame, even if unknown: the reply repeats it */
    struct job_key {
        uint64_t connection; /* a generation-checked id */
        uint64_t request_id;
    } key;
    UT_hash_handle hh; /* in the pipeline's table of jobs in flight, by key */
    struct space *space;
    const struct state_name *data; /* of the daemon's data, version apart; NULL: not known */
    /* What it waits for, reads or writes, in the order of the table of operations. Most operations
     * name one thing, whose members are the job's as well. */
    union {
        struct job_object objects[OPERATION_OBJECTS_MAX];
        struct {
            struct resident *resident;
            struct edition *collection;
            struct graph_edition *graph;
            struct attractor_edition *attractor;
            bool writer;
        };
    };
    struct token_entry *token;   /* of a write under way (request/tokens.h); NULL: none */
    struct write_record *record; /* for what it does (request/records.h); NULL: none is needed */
    uint64_t recorded;           /* the record that its reply waits for; 0: none */
    void *answer;                /* its reply, encoded, which waits; NULL: it does not, or is not */
    size_t answer_bytes;
    uint64_t digest[2]; /* of what it asks, if has_digest (exec/digest.h) */
    bool has_digest;
    bool holds_turnstile;  /* of all that it names */
    uint64_t after_writes; /* how many its connection had sent up to it */
    /* the client cancelled it or vanished, or its time is up: no further parts run */
    atomic_bool cancelled;
    atomic_bool skipped; /* a part did not run for that reason: there is no result */
    bool deadline_passed;
    bool cut_off;   /* a hand-over does not wait for it any longer */
    bool refused;   /* the backend did not take it */
    bool rehearsed; /* it did not do its work, so that its time says nothing */
    /* It runs on the loop on trial: what turns out to be long stops, and outgrew is set. */
    bool on_trial, outgrew;
    bool tells; /* its client wants to know how far it is (request/progress.h) */

    uint64_t body_bytes;
    struct body *body;           /* holds the wire body's memory (net/body.h); NULL: no body */
    struct shared_block *shared; /* that memory, if pieces of it can be kept; NULL: none can */
    struct job_request request;
    struct job_result result;
    struct failure failure;

    enum backend_id backend;
    enum reason reason;
    uint64_t foreseen_ns; /* how long the backend should take; 0: not predicted */
    uint32_t batch;       /* requests that ran as one, this one included; 0: it ran alone */
    uint64_t deadline_ns; /* absolute; 0: none */
    uint64_t received_ns, started_ns, finished_ns, answered_ns, copy_ns;
    struct job_screen screen;

    const struct vector_kernels *kernels;
    const struct clock *clock; /* for all of its times; NULL: the real one */
    struct heap *heap;
    uint32_t worker_count;
    uint64_t reply_bytes_max;
    uint64_t spread_us_max; /* 0: unlimited */
    /* of a clustering, by rule less 1 */
    uint32_t cluster_rows_max[2];
    struct job_plan plan;
    struct job_gpu gpu;
    struct heap_block kept;      /* of a run on a card that was given up, as job_gpu.keeps */
    void (*step)(struct job *j); /* the next step (exec/workers.h) */
    struct job_parts parts;      /* to be run before that step */
    uint64_t arrival;            /* its number in the workers' queue */
    atomic_ullong worked_ns;     /* of all workers together */
    atomic_uint next_part;
    atomic_uint parts_left;
    struct job_progress progress; /* written by who runs it, read by the loop */

    struct ticket ticket; /* its place in the scheduler */
    bool coming;          /* it will be in the scheduler, and its tenant counts it already */
    bool in_line;         /* it is in the scheduler and waits to be dispatched */
    bool alone;           /* it must not run with others any more, because together they failed */

    /* Several jobs as one: the carrier (job_is_carrier) runs for its members and holds no
     * turnstile, since they hold theirs; when it is done, each member has its own result or
     * failure. One job as several: each part runs a range of the whole's queries and writes its
     * lines of the whole's result. */
    struct job *carrier; /* of a member */
    struct job *members; /* of a carrier, oldest first, linked by member_next */
    struct job *member_next;
    struct job *whole;   /* of a part */
    uint64_t part_first; /* of a part: its first query in the whole */
    uint32_t parts_out;  /* of a whole: parts that are not done */
    unsigned ran_on;     /* of a whole: the backends of those that are */

    struct job *next, *previous; /* in the one list that it is in */
    struct job *connection_next, *connection_previous;
};

_Static_assert(offsetof(struct job, objects[0].resident) == offsetof(struct job, resident) &&
                   offsetof(struct job, objects[0].collection) ==
                       offsetof(struct job, collection) &&
                   offsetof(struct job, objects[0].graph) == offsetof(struct job, graph) &&
                   offsetof(struct job, objects[0].attractor) == offsetof(struct job, attractor) &&
                   offsetof(struct job, objects[0].writer) == offsetof(struct job, writer),
               "a job's own members are those of what it names first");

/* Returns what j names first; NULL: neither a collection nor a graph. */
static inline struct resident *job_resident(const struct job *j)
{
    return j->resident;
}

/* Returns what a request on a GPU reads of the first things that its operation names, i <
 * JOB_OPERANDS, for which it needs replicas; NULL: nothing there. */
static inline struct resident *job_operand(const struct job *j, uint32_t i)
{
    return j->objects[i].writer ? NULL : j->objects[i].resident;
}

static inline bool job_reads_resident(const struct job *j)
{
    for (uint32_t i = 0; i < JOB_OPERANDS; i++)
        if (job_operand(j, i)) return true;
    return false;
}

/* True if j is several jobs that run as one: its members. */
static inline bool job_is_carrier(const struct job *j)
{
    return j->operation == OPERATION_KNN_BATCH || j->operation == OPERATION_RECALL_BATCH;
}

/* Returns which of the things that j names it writes; NULL: it only reads. */
static inline const struct job_object *job_written(const struct job *j)
{
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++)
        if (j->objects[i].writer) return &j->objects[i];
    return NULL;
}

#endif
