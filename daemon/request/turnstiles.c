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
    if (turnstile_enter(j))
        turnstiles_pass(p, j);
    else
        job_move(j, JOB_WAITING);
}

/* j is in no line any more, and has none of its residents; one that it drops is freed. */
static void let_go(struct pipeline *p, struct job *j)
{
    bool drops = job_drops(j);
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++) {
        struct resident *r = j->objects[i].resident;
        if (!r) continue;
        if (drops && p->gpu) replica_forget(p->gpu, r);
        sweep_gone(p, r);
        if (drops) sweep_resident(r);
        j->objects[i].resident = NULL;
    }
}

void turnstiles_withdraw(struct pipeline *p, struct job *j)
{
    struct job *next = turnstile_withdraw(j);
    let_go(p, j);
    pass_all(p, next);
}

void turnstiles_leave(struct pipeline *p, struct job *j)
{
    if (!j->holds_turnstile) return;
    struct job *next = turnstile_leave(j);
    assert(!next || !job_drops(j)); /* it was unlinked first, so nobody is behind it */
    let_go(p, j);
    pass_all(p, next);
}

bool turnstiles_renew(struct job *j)
{
    return j->resident->ops->renew(&j->objects[0]);
}
