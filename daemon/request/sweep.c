#include "daemon/request/sweep.h"

#include "daemon/exec/workers.h"
#include "daemon/request/jobs.h"

static void gone_step(struct job *j)
{
    gone_free(j->heap, (struct gone){(struct segment *)(uintptr_t)j->plan.words[0],
                                     (struct row_index *)(uintptr_t)j->plan.words[1]});
}

static void gone_on_done(void *owner, struct job *j)
{
    job_move(j, JOB_DONE);
    job_give(owner, j);
}

void sweep_gone(struct pipeline *p, struct space *space, struct gone gone)
{
    bool much = gone_is_much(&gone) && !p->draining;
    struct job *j =
        much ? job_take_own(p, space, OPERATION_NONE, (struct job_owner){gone_on_done, p}) : NULL;
    if (!j) {
        gone_free(p->heap, gone);
        return;
    }
    j->plan.part_ns = UINT64_MAX;
    j->plan.words[0] = (uint64_t)(uintptr_t)gone.segments;
    j->plan.words[1] = (uint64_t)(uintptr_t)gone.indexes;
    job_move(j, JOB_QUEUED);
    job_move(j, JOB_RUNNING);
    workers_run(p->cpu, j, gone_step);
}
