#include "daemon/request/sweep.h"

#include "daemon/exec/workers.h"
#include "daemon/request/jobs.h"
#include "daemon/store/resident.h"

enum { WORD_MEMORY, WORD_INDEXES, WORD_OPS };

static void gone_step(struct job *j)
{
    const uint64_t *words = j->plan.words;
    const struct resident_ops *ops = (const void *)(uintptr_t)words[WORD_OPS];
    ops->free_gone(j->heap, (struct leftovers){(void *)(uintptr_t)words[WORD_MEMORY],
                                               (void *)(uintptr_t)words[WORD_INDEXES]});
}

static void gone_on_done(void *owner, struct job *j)
{
    job_move(j, JOB_DONE);
    job_give(owner, j);
}

void sweep_gone(struct pipeline *p, struct resident *r)
{
    struct leftovers gone = r->ops->take_gone(r);
    bool much = r->ops->gone_is_much(&gone) && !p->draining;
    struct job *j =
        much ? job_take_own(p, r->space, OPERATION_NONE, (struct job_owner){gone_on_done, p})
             : NULL;
    if (!j) {
        r->ops->free_gone(p->heap, gone);
        return;
    }
    j->plan.part_ns = 0; /* memory is not kept until a long part of another job ends */
    j->plan.words[WORD_MEMORY] = (uint64_t)(uintptr_t)gone.memory;
    j->plan.words[WORD_INDEXES] = (uint64_t)(uintptr_t)gone.indexes;
    j->plan.words[WORD_OPS] = (uint64_t)(uintptr_t)r->ops;
    job_move(j, JOB_QUEUED);
    job_move(j, JOB_RUNNING);
    workers_run(p->cpu, j, gone_step);
}

void sweep_resident(struct resident *r)
{
    if (resident_is_saved(r))
        r->abandoned = true; /* sweep_unsave destroys it */
    else
        r->ops->destroy(r);
}

void sweep_unsave(struct resident *r)
{
    if (atomic_fetch_sub(&r->saved, 1) == 1 && r->abandoned) r->ops->destroy(r);
}
