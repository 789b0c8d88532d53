#include "daemon/request/sweep.h"

#include "daemon/exec/workers.h"
#include "daemon/request/jobs.h"
#include "daemon/store/collection.h"

static void sweep_step(struct job *j)
{
    segments_free(j->heap, (struct segment *)(uintptr_t)j->plan.words[0]);
}

static void sweep_on_done(void *owner, struct job *j)
{
    job_move(j, JOB_DONE);
    job_give(owner, j);
}

void sweep_segments(struct pipeline *p, struct space *space, struct segment *list)
{
    bool many = segments_are_many(list) && !p->draining;
    struct job *j =
        many ? job_take_own(p, space, OPERATION_NONE, (struct job_owner){sweep_on_done, p}) : NULL;
    if (!j) {
        segments_free(p->heap, list);
        return;
    }
    j->plan.part_ns = UINT64_MAX;
    j->plan.words[0] = (uint64_t)(uintptr_t)list;
    job_move(j, JOB_QUEUED);
    job_move(j, JOB_RUNNING);
    workers_run(p->cpu, j, sweep_step);
}
