#include "daemon/request/pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/cards/cards.h"
#include "daemon/ops/operation.h"
#include "daemon/request/admit.h"
#include "daemon/request/answers.h"
#include "daemon/request/cancel.h"
#include "daemon/request/compare.h"
#include "daemon/request/drops.h"
#include "daemon/request/expects.h"
#include "daemon/request/finish.h"
#include "daemon/request/jobs.h"
#include "daemon/request/journals.h"
#include "daemon/request/line.h"
#include "daemon/request/loads.h"
#include "daemon/request/principals.h"
#include "daemon/request/probe.h"
#include "daemon/request/progress.h"
#include "daemon/request/quotas.h"
#include "daemon/request/reply.h"
#include "daemon/request/saved_tokens.h"
#include "daemon/request/saves.h"
#include "daemon/request/scans.h"
#include "daemon/request/settings.h"
#include "daemon/request/situation.h"
#include "daemon/request/start.h"
#include "daemon/request/turnstiles.h"
#include "daemon/request/uploads.h"
#include "daemon/request/writes.h"
#include "daemon/wire/decode.h"

/* ---------------------------------------------------------------- a frame comes */

static void pipeline_on_frame(void *owner, struct connection *c, const struct frame *f)
{
    struct pipeline *p = owner;
    p->stats.requests_total++;
    if (admit_no_job(p, c, f)) return;
    struct job *j = job_take(p, c, f, (struct job_owner){finish_on_done, p});
    if (!j) {
        admit_refuse_full(p, c, f);
        return;
    }
    j->ops = operation_find(f->header->kind);
    enum status st = decode_request(f->header, f->message, f->body, operation_check, j);
    if (!st) st = loads_begin(p, j);
    if (!st) st = expects_begin(p, j);
    if (!st && saves_take(p, c, j)) return;
    if (!st && answer_now(p, c, j)) {
        if (j->answer) return; /* it waits for the disk */
        job_move(j, JOB_DONE);
        job_give(p, j);
        return;
    }
    if (!st && compare_start(p, j)) return;
    if (!st && writes_recall(p, j)) {
        reply_send(p, j);
        return;
    }
    /* Later moves check the deadlines of other jobs; a drop cannot be refused any more then. */
    if (!st && job_drops(j) && !job_is_wanted(j, clock_read_ns(p->clock))) st = j->failure.code;
    if (!st) {
        st = scheduler_admit(&p->scheduler, c->tenancy, &j->failure);
        ration_took(c, !st);
    }
    if (!st) st = admit_job(p, c, j);
    if (st)
        reply_send(p, j);
    else
        line_expect(j);
}

/* ---------------------------------------------------------------- a turn of the loop */

static void pipeline_on_done(struct pipeline *p, struct job *j)
{
    if (j->backend == BACKEND_GPU && cards_resume(p->gpu, j)) return;
    j->owner.done(j->owner.owner, j);
}

static void pipeline_take_done(struct pipeline *p)
{
    /* More than once, because a trial that follows another one may be done at once. */
    for (struct job *j, *next; (j = done_take(p->done));)
        for (; j; j = next) {
            next = j->next;
            pipeline_on_done(p, j);
        }
}

/* Jobs whose backend is gone get another. */
static void pipeline_look_at_servers(struct pipeline *p)
{
    situation_look_at_servers(p);
    if (!p->scheduler.servers[SERVER_CPU].usable) return;
    for (struct ticket *t; (t = scheduler_evacuate(&p->scheduler));) {
        line_leave(p, job_of(t));
        line_enter(p, job_of(t), clock_read_ns(p->clock));
    }
}

static bool pipeline_still_wanted(struct pipeline *p, struct job *j, uint64_t now_ns)
{
    if (job_drops(j) || j->whole || job_is_wanted(j, now_ns)) return true;
    turnstiles_leave(p, j);
    reply_send(p, j);
    return false;
}

/* Whether a job that writes may do so. Drops were looked at before their names went. */
static bool pipeline_may_write(struct pipeline *p, struct job *j)
{
    if (!job_written(j) || job_drops(j)) return true;
    if (compare_start(p, j)) return false;
    if (writes_begin(p, j)) return true;
    turnstiles_leave(p, j);
    reply_send(p, j);
    return false;
}

/* Whether j finds the version that it expects, or that its cursor keeps. */
static bool pipeline_finds(struct pipeline *p, struct job *j)
{
    if (job_drops(j) || (!scans_begin(p, j) && !expects_version(j))) return true;
    turnstiles_leave(p, j);
    reply_send(p, j);
    return false;
}

/* Gives the jobs that may pass to the scheduler. Uploads wait in `uploads` until all requests that
 * can have been started. */
static void pipeline_line_up(struct pipeline *p, struct queue *uploads)
{
    for (struct job *j; (j = queue_pop(&p->arrivals));) {
        if (j->operation == OPERATION_UPLOAD) {
            queue_push(uploads, j);
            continue;
        }
        uint64_t now_ns = clock_read_ns(p->clock);
        if (pipeline_still_wanted(p, j, now_ns) && pipeline_finds(p, j) && pipeline_may_write(p, j))
            line_enter(p, j, now_ns);
    }
}

void pipeline_collect(struct pipeline *p)
{
    if (p->gpu) cards_poll(p->gpu);
    pipeline_take_done(p);
    journals_poll(p);
}

void pipeline_tick(struct pipeline *p)
{
    struct queue uploads = {0};
    struct dispatch d;
    pipeline_collect(p);
    pipeline_look_at_servers(p);
    pipeline_line_up(p, &uploads);
    for (;;) {
        uint64_t now_ns = clock_read_ns(p->clock);
        if (!scheduler_next(&p->scheduler, now_ns, &d) || !start_dispatch(p, &d, now_ns)) break;
        pipeline_line_up(p, &uploads); /* a job that is answered may let others pass */
    }
    for (struct job *j; (j = queue_pop(&uploads));)
        uploads_submit(p, j);
    drops_go_on(p);
    saves_turn(p);
    if (p->telling) progress_tell(p, clock_read_ns(p->clock));
    uint64_t now_ns = p->expire_ns || p->scans.count ? clock_read_ns(p->clock) : 0;
    if (p->expire_ns && now_ns >= p->expire_ns) pipeline_expire(p, now_ns);
    if (p->scans.count) scans_expire(p, now_ns);
}

void pipeline_memory_freed(struct pipeline *p)
{
    scheduler_resume(&p->scheduler);
    net_memory_freed(p->net);
}

bool pipeline_has_arrivals(const struct pipeline *p)
{
    return p->arrivals.depth > 0;
}

uint64_t pipeline_wake_ns(const struct pipeline *p)
{
    uint64_t told_ns = progress_wake_ns(p), ns = scheduler_wake_ns(&p->scheduler);
    if (p->expire_ns && p->expire_ns < ns) ns = p->expire_ns;
    if (saves_wake_ns(p) < ns) ns = saves_wake_ns(p);
    if (scans_wake_ns(p) < ns) ns = scans_wake_ns(p);
    return told_ns < ns ? told_ns : ns;
}

/* ---------------------------------------------------------------- what net tells */

static void pipeline_on_bad_frame(void *owner, struct connection *c, const struct frame_header *h,
                                  const struct failure *why)
{
    struct pipeline *p = owner;
    reply_error(p, c, h->kind, h->request_id, why);
}

static void pipeline_on_close(void *owner, struct connection *c)
{
    struct pipeline *p = owner;
    while (c->jobs) {
        struct job *j = c->jobs;
        job_detach(p, c, j);
        if (!job_drops(j)) cancel_job(p, j);
    }
    scans_leave(p, c);
    drops_leave(p, c);
    answer_goodbye(p, c);
}

static bool pipeline_on_idle_peer(void *owner, struct peer *peer)
{
    return principals_forget(owner, peer);
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
        .on_idle_peer = pipeline_on_idle_peer,
    };
}

/* ---------------------------------------------------------------- what the engine asks */

struct pipeline_counts pipeline_count(const struct pipeline *p)
{
    struct pipeline_counts counts = {
        .clients = jobs_of_clients(p),
        .jobs = p->job_count - p->trials - p->scans.count,
        .trials = p->trials,
        .stopping = p->job_count - (p->gpu ? cards_in_flight(p->gpu) : 0),
        .requests = p->stats.requests_total,
    };
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        if (p->uploads.jobs[i]) counts.stopping--;
    return counts;
}

struct cost_model *pipeline_cost_model(struct pipeline *p)
{
    return &p->scheduler.model;
}

bool pipeline_save_tokens(struct pipeline *p)
{
    return !p->saves.persist || !saved_tokens_keep(p);
}

/* ---------------------------------------------------------------- life */

static uint64_t random_instance(const struct pipeline *p)
{
    uint64_t instance;
    if (getrandom(&instance, sizeof instance, 0) != sizeof instance)
        instance = clock_read_ns(p->clock);
    return instance ? instance : 1;
}

static void pipeline_take_options(struct pipeline *p, const struct pipeline_options *o)
{
    p->config = o->config;
    p->clock = o->clock;
    p->heap = o->heap;
    p->store = o->store;
    p->net = o->net;
    p->kernels = o->kernels;
    p->done = o->done;
    p->cpu = o->cpu;
    p->gpu = o->gpu;
    p->worker_count = o->worker_count;
    p->uploads.wants = replica_wants_upload;
    p->wants_token = o->token != NULL;
    if (o->token) p->token = *o->token;
    p->state.instance = o->instance ? o->instance : random_instance(p);
    p->asked = o->asked;
    p->set_setting = o->set_setting;
    p->reload_settings = o->reload_settings;
    p->reloads = o->reloads;
    p->settings_owner = o->settings_owner;
    p->started_ns = clock_read_ns(p->clock);
}

enum status pipeline_create(const struct pipeline_options *options, struct pipeline **out)
{
    struct scheduler_settings none = {0};
    struct pipeline *p = fault_here("pipeline: allocate") ? NULL : calloc(1, sizeof *p);
    if (!p) return STATUS_RESOURCE_EXHAUSTED;
    pipeline_take_options(p, options);
    enum status st = jobs_init(p);
    if (!st) st = space_counts_init(&p->spaces, p->config->metrics_spaces, p->config);
    if (st) {
        pipeline_destroy(p);
        return st;
    }
    quotas_init(p->store, p->heap);
    scheduler_init(&p->scheduler, &none, p->worker_count);
    settings_apply(p);
    scheduler_set_server(&p->scheduler, SERVER_CPU, true, 2 * p->worker_count + 2, 0);
    stats_init(&p->stats, p->config->metrics_buckets);
    *out = p;
    return STATUS_OK;
}

void pipeline_destroy(struct pipeline *p)
{
    if (!p) return;
    probe_finish(p);
    tokens_finish(&p->tokens);
    jobs_finish(p);
    principals_finish(p);
    space_counts_finish(&p->spaces);
    free(p);
}
