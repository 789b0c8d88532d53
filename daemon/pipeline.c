#include "daemon/pipeline.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/answers.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/calibrate.h"
#include "daemon/exec/gpu.h"
#include "daemon/exec/operation.h"
#include "daemon/jobs.h"
#include "daemon/sched/pick.h"
#include "daemon/sched/turnstile.h"
#include "daemon/uploads.h"
#include "daemon/wire/decode.h"
#include "daemon/wire/encode.h"

enum { RETRY_QUEUE_MS = 20, RETRY_MEMORY_MS = 100 }; /* hints to clients */

/* ---------------------------------------------------------------- replies */

/* The last move: answers the client, if it is still there, and lets the job go. */
static void pipeline_reply(struct pipeline *p, struct job *j)
{
    job_move(j, JOB_DONE);
    stats_add(&p->stats, j->operation, clock_now_ns() - j->received_ns, j->failure.code);
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

/* Whether j still has a reader and time; if not, j->failure says so. */
static bool job_wanted(struct pipeline *p, struct job *j)
{
    if (j->failure.code) return false;
    if (j->deadline_passed || (j->deadline_ns && clock_now_ns() >= j->deadline_ns)) {
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

static void pipeline_arrive(struct pipeline *p, struct job *j)
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
    if (turnstile_enter(collection_turnstile(j->collection), j))
        pipeline_arrive(p, j);
    else
        job_move(j, JOB_WAITING);
}

void pipeline_leave(struct pipeline *p, struct job *j)
{
    if (!j->holds_turnstile) return;
    struct job *next = turnstile_leave(collection_turnstile(j->collection), j);
    if (j->operation == OPERATION_COLLECTION_DROP) {
        assert(!next); /* it was unlinked first, so nobody is behind it */
        if (p->gpu) gpu_forget(p->gpu, j->collection);
        collection_destroy(j->collection);
    }
    j->collection = NULL;
    pipeline_arrive_all(p, next);
}

/* Answers j at once if it has not started and nobody wants it any more. */
static void pipeline_withdraw(struct pipeline *p, struct job *j)
{
    if ((j->state != JOB_WAITING && j->state != JOB_QUEUED) || job_wanted(p, j)) return;
    if (j->state == JOB_WAITING) {
        pipeline_arrive_all(p, turnstile_withdraw(collection_turnstile(j->collection), j));
    } else {
        queue_remove(j->backend ? &p->queue : &p->arrivals, j);
        pipeline_leave(p, j);
    }
    pipeline_reply(p, j);
}

void pipeline_cancel(struct pipeline *p, struct job *j)
{
    atomic_store(&j->cancelled, true);
    pipeline_withdraw(p, j);
}

/* ---------------------------------------------------------------- the way in */

static bool operation_writes(enum operation operation)
{
    return operation == OPERATION_UPSERT || operation == OPERATION_DELETE ||
           operation == OPERATION_COLLECTION_DROP;
}

/* Looks up what the request names, and stands in line for it. */
static enum status pipeline_admit(struct pipeline *p, struct job *j)
{
    if (!j->request.collection[0] && !operation_needs_collection(j)) {
        pipeline_arrive(p, j);
        return STATUS_OK;
    }
    enum status st = store_collection_find(p->store, j->space, j->request.collection, &j->failure,
                                           &j->collection);
    if (st) return st;
    j->writer = operation_writes(j->operation);
    if (j->operation == OPERATION_COLLECTION_DROP) {
        store_collection_unlink(p->store, j->space, j->collection);
        uploads_cancel(p, j->collection);
    }
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
    if (!st && !job_wanted(p, j)) st = j->failure.code;
    if (!st) st = pipeline_admit(p, j);
    if (st) pipeline_reply(p, j);
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
        if (j->operation != OPERATION_COLLECTION_DROP) pipeline_cancel(p, j);
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

/* ---------------------------------------------------------------- running */

/* What is known when a backend is picked. */
static struct pick_input pipeline_look(const struct pipeline *p, const struct job *j)
{
    const char *force = p->config->gpu_force;
    enum gpu_state state = p->gpu ? gpu_state(p->gpu) : GPU_ABSENT;
    struct pick_input in = {
        .force = *force == 'c'   ? FORCE_CPU
                 : *force == 'g' ? FORCE_GPU
                                 : FORCE_NONE,
        .gave_up = j->gpu.gave_up,
        .gpu_absent = state == GPU_ABSENT,
        .gpu_down = state != GPU_READY,
        .pairs_min = p->config->gpu_pairs_min,
    };
    if (in.gpu_absent) return in;
    in.pairs = operation_gpu_pairs(j);
    if (in.gpu_down || !in.pairs) return in;
    in.gpu_full = gpu_in_flight(p->gpu) >= GPU_JOBS_MAX;
    in.replica_ready = gpu_replica_ready(p->gpu, j->collection);
    in.replica_refused = gpu_replica_refused(p->gpu, j->collection);
    return in;
}

/* Gives j to the GPU or puts it in line for the CPU. */
static void pipeline_route(struct pipeline *p, struct job *j)
{
    struct pick_input in = pipeline_look(p, j);
    struct pick pick = pick_backend(&in);
    if (pick.reason == REASON_PREDICTED_SLOWER) uploads_start(p, j->collection);
    j->backend = pick.backend;
    j->reason = pick.reason;
    if (pick.backend == BACKEND_GPU) {
        if (!p->gpu->ops->submit(p->gpu, j)) {
            job_move(j, JOB_RUNNING);
            return;
        }
        j->backend = BACKEND_CPU;
        j->reason = j->gpu.gave_up;
    }
    queue_push(&p->queue, j);
}

/* The GPU let these down, or they were not for it: the CPU's turn, before all that came later. */
static void pipeline_fall_back(struct pipeline *p, struct queue *fallen)
{
    for (struct job *j; (j = fallen->tail);) {
        queue_remove(fallen, j);
        j->backend = BACKEND_CPU;
        j->reason = j->gpu.gave_up;
        job_move(j, JOB_QUEUED);
        queue_push_front(&p->queue, j);
    }
}

static void pipeline_on_done(struct pipeline *p, struct job *j, struct queue *fallen)
{
    if (j->backend == BACKEND_GPU && gpu_resume(p->gpu, j)) return;
    if (j->trial) {
        p->running -= j->backend == BACKEND_CPU;
        calibrate_done(p->calibrate, j);
        return;
    }
    if (j->backend == BACKEND_GPU) {
        if (j->operation == OPERATION_UPLOAD) {
            uploads_done(p, j);
            return;
        }
        if (gpu_gave_up(j)) {
            queue_push(fallen, j);
            return;
        }
    } else {
        p->running--;
    }
    stats_route(&p->stats, j->backend, j->reason);
    pipeline_leave(p, j);
    /* What was written stays written, so a writer tells how it ended; anything else may have
     * stopped in the middle. */
    bool late = !j->writer && j->deadline_ns && j->finished_ns >= j->deadline_ns;
    bool stopped = atomic_load(j->writer ? &j->skipped : &j->cancelled);
    if (!j->failure.code && (late || stopped)) job_wanted(p, j);
    pipeline_reply(p, j);
}

/* Hands j to the CPU. False: not now, there is no memory for it until others finish. */
static bool pipeline_submit(struct pipeline *p, struct job *j)
{
    enum status st = p->cpu->ops->submit(p->cpu, j);
    if (!st) {
        job_move(j, JOB_RUNNING);
        p->running++;
        return true;
    }
    bool others = p->running > 0 || (p->gpu && gpu_in_flight(p->gpu) > 0);
    if (j->failure.detail == DETAIL_MEMORY && others) {
        memset(&j->failure, 0, sizeof j->failure);
        return false;
    }
    pipeline_leave(p, j);
    pipeline_reply(p, j);
    return true;
}

enum status pipeline_trial(struct pipeline *p, struct job *j, enum backend_id backend)
{
    struct backend *b = backend == BACKEND_CPU ? p->cpu : p->gpu;
    j->trial = true;
    j->backend = backend;
    j->reason = REASON_FORCED;
    if (j->state == JOB_RECEIVED) job_move(j, JOB_QUEUED);
    enum status st = b ? b->ops->submit(b, j) : STATUS_UNAVAILABLE;
    if (st) return st;
    job_move(j, JOB_RUNNING);
    p->running += backend == BACKEND_CPU;
    return STATUS_OK;
}

static bool pipeline_still_wanted(struct pipeline *p, struct job *j)
{
    if (j->operation == OPERATION_COLLECTION_DROP || job_wanted(p, j)) return true;
    pipeline_leave(p, j);
    pipeline_reply(p, j);
    return false;
}

/* Those that may pass; the pipeline's own uploads wait until requests are on their way. */
static void pipeline_route_all(struct pipeline *p, struct queue *uploads)
{
    for (struct job *j; (j = queue_pop(&p->arrivals));) {
        if (j->operation == OPERATION_UPLOAD)
            queue_push(uploads, j);
        else if (pipeline_still_wanted(p, j))
            pipeline_route(p, j);
    }
}

void pipeline_tick(struct pipeline *p)
{
    struct queue uploads = {0}, fallen = {0};
    if (p->gpu) gpu_poll(p->gpu);
    for (struct job *j = done_take(&p->done), *next; j; j = next) {
        next = j->next;
        pipeline_on_done(p, j, &fallen);
    }
    pipeline_fall_back(p, &fallen);
    pipeline_route_all(p, &uploads);
    while (p->running < p->running_max && p->queue.head) {
        struct job *j = queue_pop(&p->queue);
        if (pipeline_still_wanted(p, j) && !pipeline_submit(p, j)) {
            queue_push_front(&p->queue, j);
            break;
        }
        pipeline_route_all(p, &uploads); /* who goes may let others pass */
    }
    for (struct job *j; (j = queue_pop(&uploads));)
        uploads_submit(p, j);
}

void pipeline_expire(struct pipeline *p, uint64_t now_ns)
{
    for (uint32_t i = 1; i < p->fresh_jobs; i++) {
        struct job *j = &p->jobs[i];
        if (j->state == JOB_FREE || !j->deadline_ns || now_ns < j->deadline_ns) continue;
        if (j->operation == OPERATION_COLLECTION_DROP) continue;
        j->deadline_passed = true;
        pipeline_cancel(p, j);
    }
}

void pipeline_drain(struct pipeline *p)
{
    p->draining = true;
}

void pipeline_abandon(struct pipeline *p)
{
    p->running_max = 0;
    pipeline_tick(p);
    for (struct job *j; (j = queue_pop(&p->queue)) || (j = queue_pop(&p->arrivals));) {
        if (j->operation == OPERATION_UPLOAD) {
            uploads_submit(p, j);
            continue;
        }
        failure_set(&j->failure, STATUS_UNAVAILABLE, DETAIL_SHUTTING_DOWN, "the daemon stopped");
        pipeline_leave(p, j);
        pipeline_reply(p, j);
    }
}

/* ---------------------------------------------------------------- life */

enum status pipeline_init(struct pipeline *p, const struct config *config)
{
    p->config = config;
    enum status st = jobs_init(p);
    if (st) return st;
    p->running_max = 2 * p->worker_count + 2;
    p->started_ns = clock_now_ns();
    cost_init(&p->scheduler.model, p->worker_count);
    stats_init(&p->stats);
    if (getrandom(&p->instance, sizeof p->instance, 0) != sizeof p->instance)
        p->instance = clock_now_ns();
    if (!p->instance) p->instance = 1;
    return STATUS_OK;
}

void pipeline_finish(struct pipeline *p)
{
    jobs_finish(p);
}
