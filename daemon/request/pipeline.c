#include "daemon/request/pipeline.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/request/answers.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/cards/cards.h"
#include "daemon/learn/calibrate.h"
#include "daemon/ops/operation.h"
#include "daemon/exec/workers.h"
#include "daemon/request/groups.h"
#include "daemon/request/jobs.h"
#include "daemon/request/pipeline_inside.h"
#include "daemon/sched/turnstile.h"
#include "daemon/request/schedule.h"
#include "daemon/store/graph.h"
#include "daemon/request/uploads.h"
#include "daemon/wire/decode.h"
#include "daemon/wire/encode.h"

enum { RETRY_QUEUE_MS = 20, RETRY_MEMORY_MS = 100 }; /* hints to clients */

/* ---------------------------------------------------------------- replies */

/* It is on its way to the scheduler's lines: for its collection it may wait long, and many may come
 * in one read. */
static void pipeline_comes(struct job *j)
{
    j->coming = true;
    j->space->tenant->coming++;
}

/* It is there, or will not be. */
static void pipeline_came(struct job *j)
{
    if (j->coming) j->space->tenant->coming--;
    j->coming = false;
}

void pipeline_reply(struct pipeline *p, struct job *j)
{
    pipeline_came(j);
    job_move(j, JOB_DONE);
    j->answered_ns = clock_read_ns(p->clock);
    stats_add(&p->stats, j->operation, j->answered_ns - j->received_ns, j->failure.code);
    struct connection *c = net_find(p->net, j->key.connection);
    if (!c) {
        job_give(p, j);
        return;
    }
    if (j->failure.code) {
        if (j->failure.detail == DETAIL_MEMORY && !j->failure.retry_after_ms)
            j->failure.retry_after_ms = RETRY_MEMORY_MS;
        answer_error(p, c, j->kind, j->key.request_id, &j->failure);
        job_give(p, j);
        return;
    }
    void *at = connection_reserve(c, ENCODE_RESULT_BYTES_MAX);
    if (!at) { /* reserving closed c: nobody is there any more */
        job_give(p, j);
        return;
    }
    connection_commit(c, encode_result(j, at));
    if (!j->result.body_bytes) {
        job_give(p, j);
        return;
    }
    job_move(j, JOB_REPLYING);
    connection_send_body(c, j, j->result.block.data, j->result.body_bytes);
}

bool pipeline_wanted(struct pipeline *p, struct job *j)
{
    if (j->failure.code) return false;
    if (j->deadline_passed || (j->deadline_ns && clock_read_ns(p->clock) >= j->deadline_ns)) {
        failure_set(&j->failure, STATUS_DEADLINE_EXCEEDED, DETAIL_DEADLINE,
                    "the request's deadline passed");
        return false;
    }
    if (atomic_load(&j->cancelled)) {
        failure_set(&j->failure, STATUS_CANCELLED, DETAIL_CANCELLED_BY_CLIENT,
                    "cancelled by the client");
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- leaving early */

void pipeline_arrive(struct pipeline *p, struct job *j)
{
    job_move(j, JOB_QUEUED);
    queue_push(&p->arrivals, j);
}

/* Those that a turnstile let pass. */
static void pipeline_arrive_all(struct pipeline *p, struct job *next)
{
    while (next) {
        struct job *after = next->next;
        pipeline_arrive(p, next);
        next = after;
    }
}

void pipeline_enter(struct pipeline *p, struct job *j)
{
    if (turnstile_enter(&job_resident(j)->turnstile, j))
        pipeline_arrive(p, j);
    else
        job_move(j, JOB_WAITING);
}

void pipeline_leave(struct pipeline *p, struct job *j)
{
    if (!j->holds_turnstile) return;
    struct job *next = turnstile_leave(&job_resident(j)->turnstile, j);
    assert(!next || !job_drops(j)); /* it was unlinked first, so nobody is behind it */
    if (job_drops(j) && p->gpu) gpu_forget(p->gpu, job_resident(j));
    if (j->operation == OPERATION_COLLECTION_DROP) collection_destroy(j->collection);
    if (j->operation == OPERATION_GRAPH_DROP) graph_destroy(j->graph);
    j->collection = NULL;
    j->graph = NULL;
    pipeline_arrive_all(p, next);
}

void pipeline_out_of_line(struct pipeline *p, struct job *j)
{
    j->in_line = false;
    p->in_line--;
}

/* Answers j at once if it has not started and nobody wants it any more. */
static void pipeline_withdraw(struct pipeline *p, struct job *j)
{
    if ((j->state != JOB_WAITING && j->state != JOB_QUEUED) || pipeline_wanted(p, j)) return;
    if (j->state == JOB_WAITING) {
        pipeline_arrive_all(p, turnstile_withdraw(&job_resident(j)->turnstile, j));
    } else {
        if (j->in_line) {
            scheduler_withdraw(&p->scheduler, &j->ticket);
            pipeline_out_of_line(p, j);
        } else {
            queue_remove(&p->arrivals, j);
        }
        pipeline_leave(p, j);
    }
    pipeline_reply(p, j);
}

void pipeline_cancel(struct pipeline *p, struct job *j)
{
    atomic_store(&j->cancelled, true);
    groups_cancel(j);
    pipeline_withdraw(p, j);
}

/* ---------------------------------------------------------------- the way in */

static enum status pipeline_find(struct pipeline *p, struct job *j, enum needs needs)
{
    const char *name = j->request.collection;
    if (needs == NEEDS_GRAPH)
        return store_graph_find(p->store, j->space, name, &j->failure, &j->graph);
    return store_collection_find(p->store, j->space, name, &j->failure, &j->collection);
}

/* Nobody finds it from now on. */
static void pipeline_unlink(struct pipeline *p, struct job *j)
{
    if (j->graph)
        store_graph_unlink(p->store, j->space, j->graph);
    else
        store_collection_unlink(p->store, j->space, j->collection);
    uploads_cancel(p, job_resident(j));
}

/* Looks up what the request names, and stands in line for it. */
static enum status pipeline_admit(struct pipeline *p, struct job *j)
{
    const struct operation_row *row = operation_row(j->operation);
    if (!j->request.collection[0] && row->needs == NEEDS_ROWS) {
        pipeline_arrive(p, j);
        return STATUS_OK;
    }
    enum status st = pipeline_find(p, j, row->needs);
    if (st) return st;
    j->writer = row->access != ACCESS_READ;
    if (job_drops(j)) pipeline_unlink(p, j);
    pipeline_enter(p, j);
    return STATUS_OK;
}

static void refuse_frame(struct pipeline *p, struct connection *c, const struct frame *f,
                         enum status code, enum detail detail, const char *text)
{
    struct failure why;
    failure_set(&why, code, detail, "%s", text);
    if (code == STATUS_RESOURCE_EXHAUSTED) why.retry_after_ms = RETRY_QUEUE_MS;
    answer_error(p, c, f->header->kind, f->header->request_id, &why);
}

static bool request_id_in_use(struct pipeline *p, struct connection *c, uint64_t request_id)
{
    struct job_key key = {c->id, request_id};
    struct job *j;
    HASH_FIND(hh, p->in_flight, &key, sizeof key, j);
    return j != NULL;
}

static void pipeline_on_frame(void *owner, struct connection *c, const struct frame *f)
{
    struct pipeline *p = owner;
    p->stats.requests_total++;
    if (!c->greeted) {
        answer_hello(p, c, f);
        return;
    }
    if (p->draining) {
        refuse_frame(p, c, f, STATUS_UNAVAILABLE, DETAIL_SHUTTING_DOWN, "the daemon is stopping");
        return;
    }
    if (f->header->kind == OPERATION_PING && !f->header->body_bytes) {
        answer_ping(p, c, f);
        return;
    }
    if (request_id_in_use(p, c, f->header->request_id)) {
        refuse_frame(p, c, f, STATUS_INVALID_ARGUMENT, DETAIL_REQUEST_ID_IN_USE,
                     "a request with this id is still in flight");
        return;
    }
    struct job *j = job_take(p, c, f);
    if (!j) {
        refuse_frame(p, c, f, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUEUE_FULL,
                     "too many requests in flight (limits.requests_total)");
        return;
    }
    enum status st = decode_request(f->header, f->message, f->body, j);
    if (!st && answer_now(p, c, j)) {
        job_move(j, JOB_DONE);
        job_give(p, j);
        return;
    }
    if (!st && !pipeline_wanted(p, j)) st = j->failure.code;
    if (!st) st = scheduler_admit(&p->scheduler, j->space->tenant, &j->failure);
    if (!st) st = pipeline_admit(p, j);
    if (st)
        pipeline_reply(p, j);
    else
        pipeline_comes(j);
}

static void pipeline_on_bad_frame(void *owner, struct connection *c, const struct frame_header *h,
                                  const struct failure *why)
{
    struct pipeline *p = owner;
    if (c->id) log_info("net: bad frame from %s: %s", c->peer, why->text);
    answer_error(p, c, h->kind, h->request_id, why);
}

static void pipeline_on_close(void *owner, struct connection *c)
{
    struct pipeline *p = owner;
    while (c->jobs) {
        struct job *j = c->jobs;
        job_detach(p, c, j);
        if (!job_drops(j)) pipeline_cancel(p, j);
    }
    answer_goodbye(p, c);
}

static void pipeline_on_written(void *owner, struct job *j)
{
    job_give(owner, j);
}

struct net_events pipeline_net_events(struct pipeline *p)
{
    return (struct net_events){
        .owner = p,
        .on_frame = pipeline_on_frame,
        .on_bad_frame = pipeline_on_bad_frame,
        .on_close = pipeline_on_close,
        .on_written = pipeline_on_written,
    };
}

/* ---------------------------------------------------------------- into line */

void pipeline_line_up(struct pipeline *p, struct job *j)
{
    uint64_t now_ns = clock_read_ns(p->clock);
    struct ticket *t = &j->ticket;
    pipeline_came(j);
    t->tenant = j->space->tenant;
    t->work = operation_work(j);
    t->batch_key = !j->alone && !j->whole && operation_batches(j) ? j->collection : NULL;
    t->arrived_ns = j->received_ns;
    t->deadline_ns = j->deadline_ns;
    struct situation now_known = schedule_look(p, j);
    bool wants_replica = scheduler_enqueue(&p->scheduler, t, &now_known, now_ns);
    j->in_line = true;
    p->in_line++;
    stats_decided(&p->stats, clock_read_ns(p->clock) - now_ns);
    if (wants_replica) uploads_start(p, job_resident(j));
}

static bool pipeline_still_wanted(struct pipeline *p, struct job *j)
{
    if (job_drops(j) || j->whole || pipeline_wanted(p, j)) return true;
    pipeline_leave(p, j);
    pipeline_reply(p, j);
    return false;
}

/* Those that may pass; the pipeline's own uploads wait until requests are on their way. */
static void pipeline_line_up_all(struct pipeline *p, struct queue *uploads)
{
    for (struct job *j; (j = queue_pop(&p->arrivals));) {
        if (j->operation == OPERATION_UPLOAD)
            queue_push(uploads, j);
        else if (pipeline_still_wanted(p, j))
            pipeline_line_up(p, j);
    }
}

/* ---------------------------------------------------------------- to a backend and back */

/* j, which a backend had or refused, is to be run anew: by the CPU if a GPU let it down. */
static void pipeline_again(struct pipeline *p, struct job *j)
{
    j->backend = BACKEND_NONE;
    j->started_ns = j->finished_ns = j->copy_ns = 0;
    job_move(j, JOB_QUEUED);
    pipeline_line_up(p, j);
}

void pipeline_complete(struct pipeline *p, struct job *j)
{
    if (j->whole) {
        struct job *whole = j->whole;
        if (groups_part_done(p, j)) pipeline_complete(p, whole);
        return;
    }
    stats_route(&p->stats, j->backend, j->reason);
    pipeline_leave(p, j);
    /* What was written stays written, so a writer tells how it ended; anything else may have
     * stopped in the middle. */
    bool late = !j->writer && j->deadline_ns && j->finished_ns >= j->deadline_ns;
    bool stopped = atomic_load(j->writer ? &j->skipped : &j->cancelled);
    if (!j->failure.code && (late || stopped)) pipeline_wanted(p, j);
    pipeline_reply(p, j);
}

/* The carrier is through, or was not taken: its members are done, or run anew. */
static void pipeline_carrier_done(struct pipeline *p, struct job *carrier,
                                  const struct ticket *first)
{
    enum batch_end end;
    for (struct job *m; (m = groups_next_member(p, carrier, first, &end));)
        if (end == BATCH_DONE)
            pipeline_complete(p, m);
        else
            pipeline_again(p, m);
}

static enum scheduler_end end_of(const struct job *j)
{
    bool let_down = j->backend == BACKEND_GPU && (j->gpu.gave_up == REASON_FALLBACK_AFTER_ERROR ||
                                                  j->gpu.gave_up == REASON_GPU_DOWN);
    if (let_down) return END_LET_DOWN;
    bool cut = j->failure.code || j->gpu.again || atomic_load(&j->cancelled) || !j->started_ns;
    return cut || (j->backend == BACKEND_GPU && j->gpu.gave_up) ? END_REFUSED : END_WELL;
}

void pipeline_back(struct pipeline *p, struct job *j, bool refused)
{
    enum scheduler_end how = refused ? END_REFUSED : end_of(j);
    struct ticket *first = pipeline_ticket(j),
                  stood = *first; /* members go, and finish forgets them */
    bool gave_up = j->backend == BACKEND_GPU && gpu_gave_up(j);
    struct scheduler_run run = {.started_ns = j->started_ns,
                                .ended_ns = j->finished_ns,
                                .back_ns = clock_read_ns(p->clock)};
    if (j->backend == BACKEND_CPU) run.busy_ns = atomic_load(&j->worked_ns) / p->worker_count;
    scheduler_finish(&p->scheduler, first, how, run.ended_ns ? &run : NULL);
    if (j->operation == OPERATION_KNN_BATCH)
        pipeline_carrier_done(p, j, &stood);
    else if (gave_up)
        pipeline_again(p, j);
    else
        pipeline_complete(p, j);
}

static void pipeline_on_done(struct pipeline *p, struct job *j)
{
    if (j->backend == BACKEND_GPU && gpu_resume(p->gpu, j)) return;
    if (j->trial) {
        calibrate_done(p->calibrate, j);
        return;
    }
    if (j->operation == OPERATION_UPLOAD) {
        uploads_done(p, j);
        return;
    }
    p->running -= j->backend == BACKEND_CPU;
    pipeline_back(p, j, false);
}

/* Those whose backend is gone look for another. */
static void pipeline_look_at_servers(struct pipeline *p)
{
    schedule_look_at_servers(p);
    if (!p->scheduler.servers[SERVER_CPU].usable) return;
    for (struct ticket *t; (t = scheduler_evacuate(&p->scheduler));) {
        pipeline_out_of_line(p, job_of(t));
        pipeline_line_up(p, job_of(t));
    }
}

void pipeline_tick(struct pipeline *p)
{
    struct queue uploads = {0};
    struct dispatch d;
    if (p->gpu) gpu_poll(p->gpu);
    /* Again, for a trial that follows another may be done at once. */
    for (struct job *j, *next; (j = done_take(&p->done));)
        for (; j; j = next) {
            next = j->next;
            pipeline_on_done(p, j);
        }
    pipeline_look_at_servers(p);
    pipeline_line_up_all(p, &uploads);
    while (scheduler_next(&p->scheduler, clock_read_ns(p->clock), &d)) {
        if (!pipeline_start(p, &d)) break;
        pipeline_line_up_all(p, &uploads); /* who goes may let others pass */
    }
    for (struct job *j; (j = queue_pop(&uploads));)
        uploads_submit(p, j);
}

uint64_t pipeline_wake_ns(const struct pipeline *p)
{
    return scheduler_wake_ns(&p->scheduler);
}

bool pipeline_trial(struct pipeline *p, struct job *j, enum backend_id backend)
{
    struct backend *b = backend == BACKEND_GPU ? p->gpu : p->cpu;
    j->backend = backend;
    j->reason = REASON_FORCED;
    job_move(j, JOB_QUEUED);
    j->ticket.work = operation_work(j);
    bool now = backend == BACKEND_CPU && p->config->worker_inline && work_is_brief(&j->ticket.work);
    if (p->draining || (now ? workers_run_now(j) : b->ops->submit(b, j))) return false;
    job_move(j, JOB_RUNNING);
    if (now) done_add(&p->done, j);
    return true;
}
