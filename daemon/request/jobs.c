/* Want of memory for the table of jobs refuses a request; it does not end the process. */
#define HASH_NONFATAL_OOM    1
#define uthash_malloc(bytes) pipeline_table_memory(bytes)

#include "daemon/request/jobs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/ops/operation.h"
#include "daemon/request/principals.h"

static void *pipeline_table_memory(size_t bytes)
{
    return fault_here("pipeline: table") ? NULL : malloc(bytes);
}

static const uint64_t legal_moves[] = {
    [JOB_FREE] = 1 << JOB_RECEIVED,
    [JOB_RECEIVED] = 1 << JOB_WAITING | 1 << JOB_QUEUED | 1 << JOB_DONE,
    [JOB_WAITING] = 1 << JOB_QUEUED | 1 << JOB_DONE,
    [JOB_QUEUED] = 1 << JOB_RUNNING | 1 << JOB_DONE,
    [JOB_RUNNING] = 1 << JOB_QUEUED | 1 << JOB_DONE,
    [JOB_DONE] = 1 << JOB_REPLYING | 1 << JOB_FREE,
    [JOB_REPLYING] = 1 << JOB_FREE,
};

void job_move(struct job *j, enum job_state to)
{
    assert(legal_moves[j->state] >> to & 1);
    j->state = to;
}

void job_fail_stopping(const struct pipeline *p, struct failure *f)
{
    if (p->restarting)
        failure_set(f, STATUS_UNAVAILABLE, DETAIL_RESTARTING, RESTARTING_TEXT);
    else
        failure_set(f, STATUS_UNAVAILABLE, DETAIL_SHUTTING_DOWN, "the daemon is stopping");
}

bool job_is_wanted(struct job *j, uint64_t now_ns)
{
    if (j->failure.code) return false;
    if (j->cut_off) {
        failure_set(&j->failure, STATUS_UNAVAILABLE, DETAIL_RESTARTING, RESTARTING_TEXT);
        return false;
    }
    if (j->deadline_passed || (j->deadline_ns && now_ns >= j->deadline_ns)) {
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

/* Beyond limits.requests_total there is a job for each connection's space that has none, and as
 * many again for peers that have none: so others' requests keep nobody out. */
static uint32_t reserve_of(const struct pipeline *p)
{
    return p->config->connection_max;
}

/* True if one more job may be taken for t; NULL: for the daemon's own work. */
static bool job_allowed(const struct pipeline *p, const struct tenancy *t)
{
    uint32_t most = p->config->job_max;
    if (!t || !t->jobs) most += reserve_of(p);
    if (t && !t->principal->jobs) most += reserve_of(p);
    return p->job_count < most;
}

/* A clean one; NULL: all are in use. */
static struct job *job_fresh(struct pipeline *p, const struct tenancy *t)
{
    struct job *j = p->free_jobs;
    if (!job_allowed(p, t)) return NULL;
    if (j)
        p->free_jobs = j->next;
    else if (!fault_here("pipeline: job"))
        j = &p->jobs[p->fresh_jobs++];
    else
        return NULL;
    memset(j, 0, sizeof *j);
    return j;
}

static void job_begin(struct pipeline *p, struct job *j, struct space *space)
{
    p->job_count++;
    j->space = space;
    j->space->users++;
    j->received_ns = clock_read_ns(p->clock);
    j->clock = p->clock;
    j->data = &p->state;
    j->kernels = p->kernels;
    j->heap = p->heap;
    j->worker_count = p->worker_count;
    j->reply_bytes_max = p->config->reply_mib_max << 20;
    j->spread_us_max = p->config->spread_ms_max * UINT64_C(1000);
    j->cluster_rows_max[0] = p->config->cluster_rows_max;
    j->cluster_rows_max[1] = p->config->cluster_average_rows_max;
    job_move(j, JOB_RECEIVED);
}

struct job *job_take_own(struct pipeline *p, struct space *space, enum operation operation,
                         struct job_owner owner)
{
    struct job *j = job_fresh(p, NULL);
    if (!j) return NULL;
    j->operation = operation;
    j->owner = owner;
    j->ops = operation_find(operation);
    job_begin(p, j, space);
    return j;
}

struct job *job_take(struct pipeline *p, struct connection *c, const struct frame *f,
                     struct job_owner owner)
{
    struct job *j = job_fresh(p, c->tenancy);
    if (!j) return NULL;
    j->key = (struct job_key){c->id, f->header->request_id};
    HASH_ADD(hh, p->in_flight, key, sizeof j->key, j);
    if (!j->hh.tbl) {
        j->next = p->free_jobs;
        p->free_jobs = j;
        return NULL;
    }
    j->owner = owner;
    job_begin(p, j, c->space);
    j->kind = f->header->kind;
    if (f->header->deadline_us) j->deadline_ns = j->received_ns + f->header->deadline_us * 1000ull;
    j->body = f->body ? body_hold(f->hold) : NULL;
    j->shared = j->body ? j->body->shared : NULL;
    principals_count_job(j, c->tenancy);
    j->tells = f->header->flags & FRAME_FLAG_PROGRESS;
    if (j->tells && !p->telling++) p->tell_ns = j->received_ns + TELL_GAP_NS;

    j->connection_next = c->jobs;
    if (c->jobs) c->jobs->connection_previous = j;
    c->jobs = j;
    c->in_flight++;
    c->in_flight_bytes += f->header->body_bytes;
    j->body_bytes = f->header->body_bytes;
    return j;
}

void job_detach(struct pipeline *p, struct connection *c, struct job *j)
{
    if (j->connection_previous)
        j->connection_previous->connection_next = j->connection_next;
    else
        c->jobs = j->connection_next;
    if (j->connection_next) j->connection_next->connection_previous = j->connection_previous;
    j->connection_next = j->connection_previous = NULL;
    c->in_flight--;
    c->in_flight_bytes -= j->body_bytes;
}

void job_give(struct pipeline *p, struct job *j)
{
    assert(!j->token);
    job_move(j, JOB_FREE);
    struct connection *c = net_find(p->net, j->key.connection);
    if (c) {
        job_detach(p, c, j);
        connection_wake(c);
    }
    p->telling -= j->tells;
    if (j->hh.tbl) {
        HASH_DEL(p->in_flight, j);
        principals_discount_job(p, j);
    }
    free(j->record);
    free(j->answer);
    body_drop(j->body);
    heap_give(p->heap, &j->result.block);
    heap_give(p->heap, &j->kept);
    store_space_release(p->store, j->space);
    j->next = p->free_jobs;
    p->free_jobs = j;
    p->job_count--;
}

/* ---------------------------------------------------------------- life */

enum status jobs_init(struct pipeline *p)
{
    uint64_t count = 1 + (uint64_t)p->config->job_max + 2 * (uint64_t)reserve_of(p);
    p->jobs = fault_here("pipeline: jobs") ? NULL : calloc(count, sizeof *p->jobs);
    if (!p->jobs) return STATUS_RESOURCE_EXHAUSTED;
    /* Connection ids start at generation 1, so key 0, 0 is nobody's. An entry that stays keeps
     * uthash from freeing and taking its table again between requests. */
    HASH_ADD(hh, p->in_flight, key, sizeof p->jobs[0].key, &p->jobs[0]);
    if (!p->in_flight) return STATUS_RESOURCE_EXHAUSTED;
    p->fresh_jobs = 1;
    return STATUS_OK;
}

void jobs_finish(struct pipeline *p)
{
    assert(p->job_count == 0);
    if (p->jobs) HASH_CLEAR(hh, p->in_flight);
    free(p->jobs);
    p->jobs = NULL;
}
