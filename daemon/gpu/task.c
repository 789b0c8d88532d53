/* task: advances an order through the states of tasks.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/evict.h"
#include "daemon/gpu/replica.h"
#include "daemon/gpu/tasks.h"
#include "daemon/gpu/transfer.h"
#include "daemon/gpu/watch.h"

/* How long a task that waits for memory lets others pass. */
#define PATIENCE_NS UINT64_C(5000000)
/* How long results are watched for before an event is asked whether they will come. */
#define WATCH_NS UINT64_C(2000000)

/* Takes an event, which the task has until it is put back into g->events. NULL: the device has
 * none left. */
static device_event take_event(struct gpu *g)
{
    if (g->event_count) return g->events[--g->event_count];
    device_event event = NULL;
    return gpu_ok(g, g->ops->event_create(g->device, &event)) ? event : NULL;
}

static bool is_upload(const struct task *t)
{
    return t->order.kind == ORDER_UPLOAD || t->order.kind == ORDER_UPLOAD_PART;
}

static bool is_request(const struct task *t)
{
    return t->order.kind == ORDER_RUN || t->order.kind == ORDER_SPREAD;
}

/* ---- how busy the device is ---- */

static void busy_add(uint32_t *count, uint64_t *since_ns, uint64_t now_ns)
{
    if ((*count)++ == 0) *since_ns = now_ns;
}

static void busy_remove(uint32_t *count, uint64_t since_ns, _Atomic uint64_t *total,
                        uint64_t now_ns)
{
    if (--*count == 0) atomic_fetch_add_explicit(total, now_ns - since_ns, memory_order_relaxed);
}

static void busy_count(uint32_t count, uint64_t *since_ns, _Atomic uint64_t *total, uint64_t now_ns)
{
    if (!count) return;
    atomic_fetch_add_explicit(total, now_ns - *since_ns, memory_order_relaxed);
    *since_ns = now_ns;
}

void task_count_busy(struct gpu *g)
{
    uint64_t now_ns = clock_read_ns(g->clock);
    struct share_usage *u = &g->share->usage;
    busy_count(g->running, &g->running_since_ns, &u->run_ns, now_ns);
    busy_count(g->uploading, &g->uploading_since_ns, &u->upload_ns, now_ns);
}

static void task_on_device(struct gpu *g, struct task *t, bool on)
{
    if (t->counted == on) return;
    t->counted = on;
    uint64_t now_ns = clock_read_ns(g->clock);
    struct share_usage *u = &g->share->usage;
    if (is_upload(t) && on)
        busy_add(&g->uploading, &g->uploading_since_ns, now_ns);
    else if (is_upload(t))
        busy_remove(&g->uploading, g->uploading_since_ns, &u->upload_ns, now_ns);
    else if (on)
        busy_add(&g->running, &g->running_since_ns, now_ns);
    else
        busy_remove(&g->running, g->running_since_ns, &u->run_ns, now_ns);
}

/* ---- memory ---- */

/* Small requests may not take every gap before a large one that waits. */
bool task_may_take(const struct gpu *g, const struct task *t)
{
    return !g->hungry || g->hungry == t || clock_read_ns(g->clock) - g->hungry_ns < PATIENCE_NS;
}

void task_hungers(struct gpu *g, struct task *t)
{
    if (g->hungry) return;
    g->hungry = t;
    g->hungry_ns = clock_read_ns(g->clock);
}

void task_fed(struct gpu *g, const struct task *t)
{
    if (g->hungry == t) g->hungry = NULL;
}

/* ---- beginning ---- */

static enum device_result open_lane(struct gpu *g, struct lane *lane)
{
    if (lane->stream) return DEVICE_OK;
    enum device_result result = g->ops->stream_create(g->device, &lane->stream);
    if (gpu_ok(g, result))
        atomic_fetch_add_explicit(&g->share->usage.streams, 1, memory_order_relaxed);
    return result;
}

/* Copies the query of an order that has it beside it: the place is the next order's soon. */
static void take_query(struct task *t, const float *query)
{
    const struct order_run *r = &t->order.run;
    if (t->order.kind == ORDER_RUN && r->queries == PLACE_WITH_ORDER &&
        order_run_is_direct(r, ORDER_DIRECT_DIMENSION_MAX))
        memcpy(t->query, query, r->dimension * sizeof *query);
}

bool task_begin(struct gpu *g, const struct order *order, const float *query)
{
    struct task *t = g->free_tasks;
    if (!t) return false;
    g->free_tasks = t->next;
    float *own = t->query;
    memset(t, 0, sizeof *t);
    t->query = own;
    t->order = *order;
    take_query(t, query);
    t->state = TASK_WAIT;
    t->lane = &g->lanes[order->space % g->lane_count];
    t->in.owner = t->out.owner = order->space;
    t->out.out = true;
    t->in.moves = t->in.few;
    t->out.moves = t->out.few;
    atomic_init(&t->in.bad_row, UINT64_MAX);
    atomic_init(&t->out.bad_row, UINT64_MAX);
    if (t->lane->tail)
        t->lane->tail->next = t;
    else
        t->lane->head = t;
    t->lane->tail = t;
    g->busy++;
    return true;
}

/* False: it cannot start now. */
static bool start(struct gpu *g, struct task *t)
{
    /* the time of waiting does not count as work */
    t->started_ns = t->copying_since_ns = clock_read_ns(g->clock);
    if (t->order.space < 1 || t->order.space == UINT32_MAX) {
        task_end(g, t, RESULT_REFUSED);
        return true;
    }
    if (open_lane(g, t->lane) != DEVICE_OK || (!t->event && !(t->event = take_event(g)))) {
        task_end(g, t, RESULT_NO_MEMORY);
        return true;
    }
    t->in.stream = t->out.stream = t->lane->stream;
    bool moved = true;
    switch ((enum order_kind)t->order.kind) {
    case ORDER_UPLOAD:
    case ORDER_UPLOAD_PART: moved = upload_start(g, t); break;
    case ORDER_RUN:
    case ORDER_SPREAD: moved = run_start(g, t); break;
    case ORDER_FORGET: moved = forget_start(g, t); break;
    case ORDER_STOP: task_end(g, t, RESULT_REFUSED); break;
    }
    /* it is no known kind of order */
    if (moved && t->state == TASK_WAIT) task_end(g, t, RESULT_REFUSED);
    if (moved && t->state == TASK_FILL) task_on_device(g, t, true);
    return moved;
}

/* ---- ending ---- */

/* Ends t once the device and the copiers are done with it. */
static void finish(struct gpu *g, struct task *t)
{
    transfer_abandon(g, &t->in);
    transfer_abandon(g, &t->out);
    vram_pool_give(g->pool, &t->block);
    g->spare_bytes -= t->spare_bytes;
    t->spare_bytes = 0;
    vram_pool_give(g->pinned_pool, &t->pinned);
    free(t->batch);
    t->batch = NULL;
    free(t->recall);
    t->recall = NULL;
    free(t->survivors);
    t->survivors = NULL;
    if (t->event) g->events[g->event_count++] = t->event;
    t->event = NULL;
    task_fed(g, t);
    if (t->replica) {
        /* An upload that this order builds on has failed. */
        if (t->replica->torn && t->result == RESULT_OK) t->result = RESULT_NO_REPLICA;
        if (is_upload(t)) upload_finish(g, t);
        if (t->rereads) t->replica->rereaders--;
        replica_let_go(g, t->replica, t->reads);
        t->replica = NULL;
    }
    run_let_others_go(g, t);
    bind_tables_give(&g->bind_tables, t->bind.tables);
    t->bind.tables = NULL;
    if (t->former) replica_let_go(g, t->former, false);
    t->former = NULL;
    replica_discard(g, t->unborn);
    t->unborn = NULL;
    task_on_device(g, t, false);
    struct share_usage *u = &g->share->usage;
    if (is_request(t)) atomic_fetch_add_explicit(&u->runs, 1, memory_order_relaxed);
    if (t->result == RESULT_ERROR) atomic_fetch_add_explicit(&u->errors, 1, memory_order_relaxed);
    if (t->result == RESULT_NO_MEMORY)
        atomic_fetch_add_explicit(&u->no_memory, 1, memory_order_relaxed);
    t->finished_ns = clock_read_ns(g->clock);
    t->state = TASK_DONE;
}

static void record_abort(struct gpu *g, struct task *t)
{
    t->abort_recorded = gpu_ok(g, g->ops->event_record(g->device, t->event, t->lane->stream));
    if (!t->abort_recorded && ++t->abort_tries == ABORT_TRIES_MAX) g->broken = true;
}

/* Marks a replica whose upload failed: later uploads would build on missing or old data, however
 * early it failed. */
static void tear(struct gpu *g, const struct task *t)
{
    struct replica *r = t->replica ? t->replica : replica_find(g, t->order.replica);
    if (!r || r->space != t->order.space) return;
    r->torn = true;
    r->version = 0;
}

void task_end(struct gpu *g, struct task *t, enum order_result result)
{
    t->result = result;
    if (is_upload(t) && result != RESULT_NO_VERSION) tear(g, t);
    transfer_stop(&t->in);
    transfer_stop(&t->out);
    if (t->state == TASK_WAIT) {
        finish(g, t);
        return;
    }
    /* Kernels and copies may be running, and pieces being filled will still be sent: the block is
     * kept until they are done. */
    t->state = TASK_ABORT;
}

static bool step_abort(struct gpu *g, struct task *t)
{
    if (!transfer_idle(&t->in) || !transfer_idle(&t->out)) return false;
    if (!t->abort_recorded) {
        record_abort(g, t);
        return t->abort_recorded;
    }
    enum device_result result = g->ops->event_query(g->device, t->event);
    if (result == DEVICE_BUSY) return false;
    if (!gpu_ok(g, result)) {
        if (++t->abort_tries == ABORT_TRIES_MAX) g->broken = true;
        return false;
    }
    finish(g, t);
    return true;
}

/* ---- between ---- */

static void copying(const struct gpu *g, struct task *t, bool now)
{
    uint64_t now_ns = clock_read_ns(g->clock);
    if (now)
        t->copying_since_ns = now_ns;
    else
        t->copy_ns += now_ns - t->copying_since_ns;
}

static void launch(struct gpu *g, struct task *t)
{
    copying(g, t, false);
    enum device_result result = is_upload(t) ? upload_launch(g, t) : run_launch(g, t);
    t->watched = t->plan.cell_bytes && g->spin_ns;
    if (result == DEVICE_OK && !t->watched)
        result = g->ops->event_record(g->device, t->event, t->lane->stream);
    t->state = TASK_RUN;
    if (!is_upload(t)) watch_launched(g, t);
    if (!gpu_ok(g, result))
        task_end(g, t, result == DEVICE_NO_MEMORY ? RESULT_NO_MEMORY : RESULT_ERROR);
}

static bool step_fill(struct gpu *g, struct task *t, bool blocked)
{
    bool moved = transfer_step(g, &t->in);
    uint64_t bad = atomic_load_explicit(&t->in.bad_row, memory_order_acquire);
    if (t->in.failed) {
        task_end(g, t, RESULT_ERROR);
        return true;
    }
    if (!transfer_issued(&t->in)) return moved;
    if (atomic_load_explicit(&t->in.unsound, memory_order_acquire)) {
        task_end(g, t, RESULT_REFUSED);
        return true;
    }
    if (bad != UINT64_MAX) {
        t->number = bad;
        task_end(g, t, RESULT_BAD_QUERY);
        return true;
    }
    if (blocked) return moved;
    launch(g, t);
    return true;
}

/* Asks whether the device is done with t. Cells that have not come for long may never come: then
 * an event behind them tells. */
static enum device_result ask(struct gpu *g, struct task *t)
{
    enum device_result result;
    if (t->watched) {
        result = g->ops->direct_query(g->device, t->lane->stream, &t->cells);
        if (result != DEVICE_BUSY) return result;
        if (clock_read_ns(g->clock) - t->launched_ns < WATCH_NS) return DEVICE_BUSY;
        t->watched = false;
        result = g->ops->event_record(g->device, t->event, t->lane->stream);
        return result == DEVICE_OK ? DEVICE_BUSY : result;
    }
    result = g->ops->event_query(g->device, t->event);
    bool lost = result == DEVICE_OK && t->plan.cell_bytes && !cells_came(&t->cells);
    return lost ? DEVICE_ERROR : result;
}

static bool step_run(struct gpu *g, struct task *t, bool *stream_busy)
{
    enum device_result result = ask(g, t);
    if (result == DEVICE_BUSY) {
        *stream_busy |= !t->plan.paced; /* others may be done between two of its passes */
        return false;
    }
    if (!gpu_ok(g, result) || t->in.failed) {
        task_end(g, t, RESULT_ERROR);
        return true;
    }
    if (is_upload(t)) {
        /* Pieces that were sent before are done, too, but have not been given back. Those of a
         * later upload may have been: it is not told of before this one. */
        if (!transfer_idle(&t->in)) {
            *stream_busy = true;
            return false;
        }
        finish(g, t);
        return true;
    }
    watch_ended(g, t);
    copying(g, t, true);
    t->state = TASK_DRAIN;
    enum order_result drained = run_drain(g, t);
    if (drained) task_end(g, t, drained);
    return true;
}

static bool step_drain(struct gpu *g, struct task *t)
{
    bool moved = transfer_step(g, &t->out);
    if (t->out.failed || t->in.failed) {
        task_end(g, t, RESULT_ERROR);
        return true;
    }
    if (!transfer_issued(&t->out) || !transfer_idle(&t->in)) return moved;
    if (run_settle(g, t)) return true;
    t->out.move = t->out.move_count = 0;
    if (run_next(g, t)) {
        launch(g, t);
    } else {
        copying(g, t, false);
        finish(g, t);
    }
    return true;
}

/* ---- the lane ---- */

static bool tell(struct gpu *g, struct task *t)
{
    /* The front is told of an eviction before it is told of a new replica. */
    evict_tell(g);
    struct completion *c = g->replicas.evicted_count ? NULL : ring_reserve(&g->completions);
    if (!c) return false;
    *c = (struct completion){.kind = COMPLETION_DONE,
                             .result = (uint16_t)t->result,
                             .screen = (uint16_t)t->screen,
                             .token = t->order.token,
                             .replica = t->screen & SCREEN_ASKED ? t->read_bytes : t->order.replica,
                             .number = t->number,
                             .started_ns = t->started_ns,
                             .finished_ns = t->finished_ns,
                             .copy_ns = t->copy_ns,
                             .enqueued_ns = t->enqueued_ns};
    ring_publish(&g->completions);
    return true;
}

/* An upload must not write where an earlier one is still being filled: the copiers would decide
 * which copy comes last. */
static bool is_apart(const struct task *t)
{
    for (const struct task *s = t->lane->head; s != t; s = s->next) {
        bool fills = s->state == TASK_FILL && is_upload(s) && s->order.replica == t->order.replica;
        if (fills && upload_overlaps(&t->order, &s->order)) return false;
    }
    return true;
}

/* blocked: some tasks before t are not enqueued yet. An upload that builds on another need not
 * wait until that is filled, only until it is launched. */
static bool task_step(struct gpu *g, struct task *t, bool blocked, bool after_uploads,
                      bool *stream_busy)
{
    bool on_top = after_uploads && is_upload(t) && !upload_is_fresh(&t->order);
    switch (t->state) {
    case TASK_WAIT: return (!blocked || (on_top && is_apart(t))) && start(g, t);
    case TASK_FILL: return step_fill(g, t, blocked);
    case TASK_RUN: return !*stream_busy && step_run(g, t, stream_busy);
    case TASK_DRAIN: return step_drain(g, t);
    case TASK_ABORT: return step_abort(g, t);
    case TASK_DONE: return false;
    }
    return false;
}

bool lane_step(struct gpu *g, struct lane *lane)
{
    bool moved = false, blocked = false, after_uploads = true, stream_busy = false;
    uint32_t begun = 0;
    struct task *before = NULL;
    for (struct task *t = lane->head, *next; t && !g->broken; t = next) {
        next = t->next;
        while (task_step(g, t, blocked, after_uploads, &stream_busy) && !g->broken)
            moved = true;
        if (t->state == TASK_DONE && tell(g, t)) {
            if (before)
                before->next = next;
            else
                lane->head = next;
            if (lane->tail == t) lane->tail = before;
            t->next = g->free_tasks;
            g->free_tasks = t;
            g->busy--;
            moved = true;
            continue;
        }
        before = t;
        if (t->state == TASK_WAIT || ++begun == LANE_BEGUN_MAX) break;
        if (t->state == TASK_FILL) blocked = true;
        after_uploads &= is_upload(t) || t->state == TASK_DONE;
    }
    return moved;
}
