/* tasks: the state of the GPU process, for the files of daemon/gpu only. An order becomes a task,
 * which stands in the lane of its space and goes WAIT -> FILL -> RUN -> DRAIN -> DONE:
 *   WAIT   waits for its turn, and for VRAM and pinned memory
 *   FILL   its input is being copied to pinned memory and to the device
 *   RUN    everything is enqueued on the lane's stream; an event tells when it is done
 *   DRAIN  its result is being copied to the heap
 *   ABORT  it has failed; the device may still work for it
 *   DONE   its completion waits for room in the ring
 * Small input and output are one copy each, in a pinned block of the task's own; large ones are
 * copied in pieces, which copiers fill and empty while others are on the bus (transfer.h).
 * Owner:  main.
 * Thread: the device thread.
 * Errors: a failed task is answered with its error; a device that fails for good sets
 * gpu.broken. */
#ifndef ENGRAM_GPU_TASKS_H
#define ENGRAM_GPU_TASKS_H

#include "daemon/gpu/bind_tables.h"
#include "daemon/gpu/copiers.h"
#include "daemon/gpu/device.h"
#include "daemon/gpu/pieces.h"
#include "daemon/gpu/replica_list.h"
#include "daemon/gpu/vram_pool.h"
#include "proto/foresight.h"

enum {
    TASKS = SHARE_ORDERS,
    LANES_MAX = 128,
    LANE_BEGUN_MAX = 12,            /* tasks of a lane that may have memory at the same time */
    SMALL_BYTES = 256 << 10,        /* input or output up to this size is one copy */
    PINNED_BYTES = 32 << 20,        /* pinned memory for such copies */
    PINNED_PIECES_BYTES = 48 << 20, /* and for pieces, which so never wait for the others */
    ABORT_TRIES_MAX = 16,
};

enum task_state { TASK_WAIT, TASK_FILL, TASK_RUN, TASK_DRAIN, TASK_ABORT, TASK_DONE };

/* The places in a task's block of VRAM (and, of small ones, in pinned memory), and what is
 * copied. */
struct task_plan {
    struct section in[SECTIONS_MAX], out[SECTIONS_MAX];
    uint32_t in_count, out_count;
    uint64_t in_bytes;          /* they begin at 0 */
    uint64_t out_at, out_bytes; /* of one pass */
    uint64_t out_small;         /* as many of these, from the first on, come back as one copy */
    uint64_t scratch_at, scratch_bytes, scratch_best, scratch_least;
    uint64_t bytes;
    uint64_t cell_bytes; /* of pinned memory that the kernel writes; 0: it copies results out */
    uint32_t rows_in;    /* run_brings_rows: the number of the rows among `in` */
    bool split;          /* there are several passes, for want of memory */
    bool paced;          /* there are several, each short: others are enqueued between them */
    bool rereads;        /* later passes read the replica again */
};

/* What a BIND has beside its plan. */
struct task_operand {
    uint32_t section; /* of the input: its rows, or their positions; UINT32_MAX: */
    uint32_t row;     /* it is this row of a replica */
};
struct task_bind {
    struct bind_tables *tables; /* held, or NULL */
    uint32_t section;           /* of the input: they */
    struct task_operand operands[2];
};

/* What a CLUSTER has beside its plan. */
enum task_cluster_stage {
    TASK_CLUSTER_ALL,   /* all are compared with all; first_query: up to there they are */
    TASK_CLUSTER_MERGE, /* merges follow each other */
    TASK_CLUSTER_AGAIN  /* small clusters are left out before the second pass */
};
struct task_cluster {
    enum task_cluster_stage stage;
    struct cuda_cluster_state state; /* after the last pass */
    uint32_t steps;                  /* of the next one */
    uint64_t each_ns;                /* about how long one of its steps, or rows, takes at least */
    bool fresh, second;              /* no scan was made yet; the second pass of the rule */
};

/* Rows that come back, which have a pad on the device and none in the heap. */
struct task_lines {
    struct scatter lines;
    struct scatter_part part;
};

struct task {
    enum task_state state;
    struct order order;
    const struct run_kind *kind; /* see run.h; NULL: not a request, or an invalid one */
    struct task *next;           /* in its lane, or in the free list */
    struct lane *lane;
    struct replica *replica; /* held, or NULL */
    struct replica *other;   /* of a second operand: held, and read, or NULL */
    struct replica *third;   /* of a third, likewise */
    bool reads;              /* kernels of this task read the first */
    struct replica *former;  /* held, or NULL: of an upload, as it may copy from it */
    struct replica *unborn;  /* a version that could not be made: the device may still use it */
    struct task_plan plan;
    struct knn_batch *batch;     /* see run.h; NULL: a single request, or not read yet */
    struct recall_asked *recall; /* see run_recall.c; NULL: none, or not read yet */
    struct survivors *survivors; /* see run_shadow_only.c; NULL: none, or not made yet */
    struct task_bind bind;
    struct task_cluster cluster;
    struct task_lines lines;
    uint64_t first_query, pass_queries; /* SCORES, KNN: the queries of this pass; BIND: pairs */
    uint64_t pass_queries_max, pass_began_ns; /* KNN, COMPLETE; began: a spread, too */
    bool shadowed, redoes; /* KNN: the shadow is asked; what it was of no use for is asked again */
    uint64_t passed, redone; /* of a shadow: pairs that were scored; queries that are asked again */
    uint64_t read_bytes;     /* what the shadow and the rows were gone through for it */
    unsigned screen;         /* enum completion_screen */
    uint32_t rounds_done;    /* COMPLETE: of this pass's states; of a spread: passes */
    uint32_t sets_left;      /* of a spread: by its last pass, or all before the first */
    uint32_t width;          /* COMPLETE_ENGINE: of gathered rows; 0: all numbers are multiplied */
    bool ids_sent;           /* SCORES: the ids are sent with one of the passes */
    bool rereads;            /* the device will read more than what is enqueued */
    struct vram_block block, pinned;
    uint64_t spare_bytes; /* the part of block that is optional scratch: the run works with less */
    struct transfer in, out;
    device_event event;
    float *query; /* ORDER_DIRECT_DIMENSION_MAX floats of its own, for a direct request */
    float query_norm;
    struct cells cells; /* of a direct request */
    bool watched;       /* for its cells: no event is recorded */
    enum order_result result;
    uint64_t number; /* of the bad query or row */
    uint64_t started_ns, finished_ns, copy_ns, copying_since_ns;
    uint64_t enqueued_ns;              /* when the first pass was */
    uint64_t launched_ns, foreseen_ns; /* of the last pass: when it was enqueued; see watch.h */
    bool overdue;                      /* it was looked for after it was expected to end */
    bool counted;                      /* as running on the device */
    bool abort_recorded;
    uint32_t abort_tries;
};

struct lane {
    device_stream stream; /* NULL until it is used */
    struct task *head, *tail;
};

/* See watch.h. */
struct gpu_watch {
    struct foresight_table ends;
    struct foresight_sleep sleep;
    struct foresight_budget budget;
    uint64_t ended_ns;   /* when the last run was seen to end */
    uint64_t moved_ns;   /* when anything last moved */
    uint64_t watched_ns; /* the last turn after which this thread watched, */
    bool watching;       /* if it still does */
};

/* See sweep.h. */
struct gpu_sweep {
    uint64_t after_ns;       /* it begins when nothing has moved for so long */
    struct replica *replica; /* held: some of its tiles are looked at; NULL: none are */
    uint64_t id;             /* whose shadow is looked at, or was last */
    uint64_t first, end;     /* the rows */
    uint64_t made_ns;        /* of the shadow */
    uint64_t rows;           /* that have a norm, so far */
    double lost;             /* the sum of lost / norm over them */
    struct vram_block pinned;
    device_event event;
    bool recorded; /* the event, behind the look */
};

struct gpu {
    const struct device_ops *ops;
    struct device *device;
    struct share *share;
    struct ring orders, completions;
    char *heap;
    uint64_t heap_bytes;
    struct vram_pool *pool, *pinned_pool, *piece_pool;
    char *slab, *pinned, *pinned_pieces;
    struct copiers *copiers;
    const struct clock *clock; /* NULL: the real one */
    struct transfers transfers;
    struct replicas replicas;
    const struct vector_kernels *kernels; /* CPU kernels for checks and norms of queries */
    struct lane lanes[LANES_MAX];
    uint32_t lane_count;
    uint32_t first_lane;  /* where the next turn begins */
    uint64_t spare_bytes; /* of all tasks */
    /* a task that has waited for memory since hungry_ns; others may not pass it for ever */
    struct task *hungry;
    uint64_t hungry_ns;
    uint64_t turned_ns; /* when the last turn ended */
    uint64_t looked_ns; /* when the lifeline and the usage were last checked */
    /* when the driver was last asked for the card's free memory, 0: never, and what replicas had */
    uint64_t asked_ns, asked_bytes;
    uint64_t spin_ns;
    struct gpu_watch watch;
    struct gpu_sweep sweep;
    int lifeline_fd;
    struct task *tasks, *free_tasks;
    struct bind_tables *bind_tables;
    float *queries;             /* of all tasks */
    uint32_t tag;               /* of the last direct request */
    device_event events[TASKS]; /* unused ones */
    uint32_t event_count;
    uint32_t busy;    /* tasks in use */
    uint32_t running; /* tasks that run on the device */
    uint32_t uploading;
    uint64_t running_since_ns, uploading_since_ns;
    bool broken;
};

/* Returns true if OK; otherwise notes whether the device is broken. */
static inline bool gpu_ok(struct gpu *g, enum device_result result)
{
    if (result == DEVICE_STICKY) g->broken = true;
    return result == DEVICE_OK;
}

/* Returns `bytes` bytes of the heap at a place, or NULL if they are not inside the heap. */
static inline void *gpu_heap(const struct gpu *g, uint64_t place, uint64_t bytes)
{
    return place <= g->heap_bytes && bytes <= g->heap_bytes - place ? g->heap + place : NULL;
}

/* ---- server.c ---- */

/* Writes the heartbeat; also called during long operations. */
void gpu_beat(struct gpu *g);

/* ---- task.c: what all tasks do ---- */

/* Takes an order: makes a task at the end of its lane. query: what lies beside it, if anything
 * does. False: all tasks are in use. */
bool task_begin(struct gpu *g, const struct order *order, const float *query);
/* Advances every task of the lane; true if anything moved. */
bool lane_step(struct gpu *g, struct lane *lane);
/* Ends t: at once, or when the device is done with it. */
void task_end(struct gpu *g, struct task *t, enum order_result result);
/* A task that finds no memory hungers, and after a while others may not take what it waits for.
 * True if t may take some. */
bool task_may_take(const struct gpu *g, const struct task *t);
void task_hungers(struct gpu *g, struct task *t);
void task_fed(struct gpu *g, const struct task *t);
/* Counts the time of tasks that are still on the device, too. */
void task_count_busy(struct gpu *g);

/* ---- run.c and upload.c: what a kind of order does; false: it must wait ---- */

bool run_start(struct gpu *g, struct task *t);
/* Lets the replicas of further operands go, if there are any, at the end of t. */
void run_let_others_go(struct gpu *g, struct task *t);
/* Enqueues the kernels, and the copy of a small result. */
enum device_result run_launch(struct gpu *g, struct task *t);
/* Returns the part of the order's time that the pass enqueued last takes, 0 to 1. */
double run_part(const struct task *t);
/* Ends a pass: small results are written to the heap, the rest becomes moves of t->out. Returns an
 * error that ends t. */
enum order_result run_drain(struct gpu *g, struct task *t);
/* Called when all of a pass has come: does some of what the CPU has to do with it. True: there was
 * any. */
bool run_settle(struct gpu *g, struct task *t);
/* Called when all of a pass is in the heap: true if another one must be launched. */
bool run_next(struct gpu *g, struct task *t);

/* Starts an upload, of rows or of parts. */
bool upload_start(struct gpu *g, struct task *t);
enum device_result upload_launch(struct gpu *g, struct task *t);
void upload_finish(struct gpu *g, struct task *t);
bool upload_is_fresh(const struct order *o);
/* True if two uploads to one replica write the same places, or may. */
bool upload_overlaps(const struct order *a, const struct order *b);

bool forget_start(struct gpu *g, struct task *t);

#endif
