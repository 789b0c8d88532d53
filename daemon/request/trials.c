#include "daemon/request/trials.h"

#include "daemon/exec/workers.h"
#include "daemon/ops/operation.h"
#include "daemon/request/jobs.h"
#include "daemon/request/pipeline_inside.h"

static struct job *trials_take(void *owner, struct space *space, struct job_owner back)
{
    struct pipeline *p = owner;
    struct job *j = job_take_own(p, space, OPERATION_NONE, back);
    if (j) p->trials++;
    return j;
}

static void trials_give(void *owner, struct job *j)
{
    struct pipeline *p = owner;
    p->trials--;
    job_move(j, JOB_DONE);
    job_give(p, j);
}

static bool trials_run(void *owner, struct job *j, enum backend_id backend)
{
    struct pipeline *p = owner;
    struct backend *b = backend == BACKEND_GPU ? p->gpu : p->cpu;
    j->backend = backend;
    j->reason = REASON_FORCED;
    job_move(j, JOB_QUEUED);
    j->ticket.work = operation_work(j);
    bool now = backend == BACKEND_CPU && p->config->worker_inline && work_is_brief(&j->ticket.work);
    if (p->draining || (now ? workers_run_now(j) : b->ops->submit(b, j))) return false;
    job_move(j, JOB_RUNNING);
    if (now) done_add(p->done, j);
    return true;
}

static void trials_run_step(void *owner, struct job *j, void (*step)(struct job *j))
{
    struct pipeline *p = owner;
    job_move(j, JOB_QUEUED);
    job_move(j, JOB_RUNNING);
    workers_run(p->cpu, j, step);
}

static uint64_t trials_requests(void *owner)
{
    const struct pipeline *p = owner;
    return p->stats.requests_total;
}

static bool trials_is_idle(void *owner)
{
    const struct pipeline *p = owner;
    return p->job_count == p->trials + p->scans.count;
}

struct trial_runner trials_runner(struct pipeline *p)
{
    return (struct trial_runner){
        .owner = p,
        .take = trials_take,
        .give = trials_give,
        .run = trials_run,
        .run_step = trials_run_step,
        .requests = trials_requests,
        .is_idle = trials_is_idle,
    };
}
