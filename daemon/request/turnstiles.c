#include "daemon/request/turnstiles.h"

#include <assert.h>

#include "daemon/cards/cards.h"
#include "daemon/ops/operation.h"
#include "daemon/request/jobs.h"
#include "daemon/request/sweep.h"
#include "daemon/sched/turnstile.h"
#include "daemon/store/collection.h"

void turnstiles_pass(struct pipeline *p, struct job *j)
{
    job_move(j, JOB_QUEUED);
    queue_push(&p->arrivals, j);
}

/* All that a turnstile let pass, linked by next. */
static void pass_all(struct pipeline *p, struct job *next)
{
    while (next) {
        struct job *after = next->next;
        turnstiles_pass(p, next);
        next = after;
    }
}

void turnstiles_enter(struct pipeline *p, struct job *j)
{
    if (turnstile_enter(&job_resident(j)->turnstile, j))
        turnstiles_pass(p, j);
    else
        job_move(j, JOB_WAITING);
}

void turnstiles_withdraw(struct pipeline *p, struct job *j)
{
    pass_all(p, turnstile_withdraw(&job_resident(j)->turnstile, j));
}

void turnstiles_leave(struct pipeline *p, struct job *j)
{
    if (!j->holds_turnstile) return;
    struct resident *r = job_resident(j);
    struct job *next = turnstile_leave(&r->turnstile, j);
    assert(!next || !job_drops(j)); /* it was unlinked first, so nobody is behind it */
    if (job_drops(j) && p->gpu) replica_forget(p->gpu, r);
    sweep_gone(p, r);
    if (job_drops(j)) r->ops->destroy(r);
    j->resident = NULL;
    pass_all(p, next);
}

bool turnstiles_renew(struct job *j)
{
    return j->resident->ops->renew(j->resident, j);
}
