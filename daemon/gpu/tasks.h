/* tasks: what the GPU process is made of, for the files of this folder only. An order becomes a task;
 * a task stands in the lane of its space and goes WAIT -> FILL -> RUN -> DRAIN -> DONE:
 *   WAIT   for its turn, and for VRAM and pinned memory
 *   FILL   its input is on the way into pinned memory and on to the device
 *   RUN    all of it is enqueued on the lane's stream; an event tells when it is done
 *   DRAIN  its result is on the way back to the heap
 *   ABORT  it has failed; the device may still be at work for it
 *   DONE   its completion waits for room in the ring
 * Small input and output travel as one copy each, in a pinned block of the task's own; large ones in
 * pieces that copiers fill and empty while others are on the bus (transfer.h).
 * Owner:  main.
 * Thread: the device thread.
 * Errors: a task that fails is answered so; a device that fails for good sets gpu.broken. */
#ifndef ENGRAM_GPU_TASKS_H
#define ENGRAM_GPU_TASKS_H

#include "daemon/gpu/copiers.h"
#include "daemon/gpu/device.h"
#include "daemon/gpu/replica.h"
#include "daemon/gpu/transfer.h"
#include "daemon/gpu/vram_pool.h"

enum {
    TASKS = SHARE_ORDERS,
    LANES_MAX = 128,
    LANE_BEGUN_MAX = 12,            /* tasks of a lane that have memory at once */
    SMALL_BYTES = 256 << 10,        /* input or output that travels as one copy */
    PINNED_BYTES = 32 << 20,        /* pinned memory for these */
    PINNED_PIECES_BYTES = 48 << 20, /* and for pieces, which so never wait for each other */
    ABORT_TRIES_MAX = 16,
};

enum task_state { TASK_WAIT, TASK_FILL, TASK_RUN, TASK_DRAIN, TASK_ABORT, TASK_DONE };

/* Where things lie in a task's block of VRAM (and, small ones, of pinned memory), and what moves. */
struct task_plan {
    struct section in[SECTIONS_MAX], out[SECTIONS_MAX];
    uint32_t in_count, out_count;
    uint64_t in_bytes;          /* from 0 on */
    uint64_t out_at, out_bytes; /* those of one pass */
    uint64_t out_small;         /* of these, from the first on, so many come back as one copy */
    uint64_t scratch_at, scratch_bytes, scratch_best, scratch_least;
    uint64_t bytes;
    uint32_t rows_in; /* run_brings_rows: which of `in` are the rows */
    bool split;       /* the first pass is not the last */
    bool rereads;     /* after the first pass more of the replica will be read */
};

struct task {
    enum task_state state;
    struct order order;
    const struct run_kind *kind; /* run.h; NULL: no request, or one that makes no sense */
    struct task *next;           /* of its lane, or of the free list */
    struct lane *lane;
    struct replica *replica; /* held, or NULL */
    struct task_plan plan;
    struct knn_batch *batch;            /* run.h; NULL: one request, or not read yet */
    uint64_t first_query, pass_queries; /* SCORES: those of this pass */
    bool ids_sent;                      /* SCORES: and with one of the passes, the ids */
    bool rereads;                       /* what is on the device is not yet all it will read */
    struct vram_block block, pinned;
    uint64_t spare_bytes; /* of block: scratch that is not needed, only liked */
    struct transfer in, out;
    device_event event;
    enum order_result result;
    uint64_t number; /* of the bad query or row */
    uint64_t started_ns, finished_ns, copy_ns, copying_since_ns;
    bool counted; /* as being on the device */
    bool abort_recorded;
    uint32_t abort_tries;
};

struct lane {
    device_stream stream; /* NULL until used */
    struct task *head, *tail;
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
    const struct vector_kernels *kernels; /* of the CPU: checks and norms of queries */
    struct lane lanes[LANES_MAX];
    uint32_t lane_count;
    uint32_t first_lane;  /* of the next turn */
    uint64_t spare_bytes; /* of all tasks */
    struct task *hungry; /* waits for memory, since hungry_ns; others do not overtake it for ever */
    uint64_t hungry_ns;
    uint64_t looked_ns; /* when the lifeline and the usage were last looked at */
    uint64_t spin_ns;
    int lifeline_fd;
    struct task *tasks, *free_tasks;
    device_event events[TASKS]; /* spare ones */
    uint32_t event_count;
    uint32_t busy;    /* tasks taken */
    uint32_t running; /* those that are on the device */
    uint32_t uploading;
    uint64_t running_since_ns, uploading_since_ns;
    bool broken;
};

/* True if ok; else notes a broken device. */
static inline bool gpu_ok(struct gpu *g, enum device_result result)
{
    if (result == DEVICE_STICKY) g->broken = true;
    return result == DEVICE_OK;
}

/* bytes of the heap at a place, or NULL when they do not lie inside. */
static inline void *gpu_heap(const struct gpu *g, uint64_t place, uint64_t bytes)
{
    return place <= g->heap_bytes && bytes <= g->heap_bytes - place ? g->heap + place : NULL;
}

/* ---- server.c ---- */

/* It lives: also in the middle of what takes long. */
void gpu_beat(struct gpu *g);

/* ---- task.c: what all tasks do ---- */

/* Takes an order: a task at the end of its lane. False: all tasks are taken. */
bool task_begin(struct gpu *g, const struct order *order);
/* A turn of every task of the lane; true if anything moved. */
bool lane_step(struct gpu *g, struct lane *lane);
/* Ends t: at once, or when the device has let go of it. */
void task_end(struct gpu *g, struct task *t, enum order_result result);
/* Counts the time of what is still on the device as well. */
void task_count_busy(struct gpu *g);

/* ---- run.c and upload.c: what a kind of order does; false: it must wait ---- */

bool run_start(struct gpu *g, struct task *t);
/* Enqueues kernels, and the copy of a small result. */
enum device_result run_launch(struct gpu *g, struct task *t);
/* A pass is done: what is small goes to the heap, the rest becomes moves of t->out; or what ends t. */
enum order_result run_drain(struct gpu *g, struct task *t);
/* All of the pass is in the heap: true if another one is to be launched. */
bool run_next(struct gpu *g, struct task *t);

/* Of rows and of parts alike. */
bool upload_start(struct gpu *g, struct task *t);
enum device_result upload_launch(struct gpu *g, struct task *t);
void upload_finish(struct gpu *g, struct task *t);
bool upload_is_fresh(const struct order *o);
/* Two uploads to one replica write the same places, or may. */
bool upload_overlaps(const struct order *a, const struct order *b);

bool forget_start(struct gpu *g, struct task *t);

#endif
