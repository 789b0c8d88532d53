#include "daemon/request/tables.h"

#include "daemon/request/jobs.h"
#include "daemon/request/line.h"
#include "daemon/request/principals.h"
#include "daemon/request/turnstiles.h"
#include "daemon/sched/turnstile.h"
#include "daemon/store/attractor.h"
#include "daemon/store/dentate.h"

static struct attractor *attractor_of(const struct job *j)
{
    return (struct attractor *)j->resident;
}

static struct dentate *dentate_of(const struct job *j)
{
    return attractor_dentate(attractor_of(j));
}

/* Its attractor has its tables, or nobody wants it any more. */
static void end(struct pipeline *p, struct job *j)
{
    attractor_open(attractor_of(j));
    job_move(j, JOB_DONE);
    turnstiles_leave(p, j);
    principals_discount_job(p, j);
    job_give(p, j);
}

/* Whoever was making the dentate matrix was cancelled. */
static void begin_again(struct pipeline *p, struct job *j)
{
    if (p->draining) {
        end(p, j);
        return;
    }
    j->started_ns = j->finished_ns = 0;
    job_move(j, JOB_QUEUED);
    line_enter(p, j, clock_read_ns(p->clock));
}

/* Looks at those whose weights were there before their dentate matrix. */
static void look_at_waiting(struct pipeline *p, const struct dentate *d)
{
    struct queue waited = p->tables;
    p->tables = (struct queue){0};
    for (struct job *j; (j = queue_pop(&waited));) {
        if (dentate_of(j) != d)
            queue_push(&p->tables, j);
        else if (d->made)
            end(p, j);
        else
            begin_again(p, j);
    }
}

static void made_on_done(void *owner, struct job *j)
{
    struct pipeline *p = owner;
    struct dentate *d = dentate_of(j);
    bool skipped = atomic_load(&j->skipped);
    line_end(p, j);
    if (d->maker == j) {
        d->maker = NULL;
        d->made = !skipped;
        look_at_waiting(p, d);
    }
    if (skipped || d->made)
        end(p, j); /* d may go with it */
    else if (d->maker)
        queue_push(&p->tables, j);
    else
        begin_again(p, j);
}

bool tables_make(struct pipeline *p, struct tenancy *by, struct attractor *a)
{
    struct resident *r = attractor_resident(a);
    struct job *j =
        job_take_own(p, r->space, OPERATION_TABLES, (struct job_owner){made_on_done, p});
    if (!j) return false;
    principals_count_job(j, by);
    r->ops->lend(r, j);
    j->writer = true;
    turnstile_enter(j); /* nobody else knows of it yet, so it passes */
    job_move(j, JOB_QUEUED);
    line_enter(p, j, clock_read_ns(p->clock));
    return true;
}

void tables_cancel(struct pipeline *p, struct resident *of)
{
    struct job *j = of->turnstile.writer;
    if (!j || j->operation != OPERATION_TABLES || of->turnstile.waiting_head) return;
    for (const struct job *at = p->tables.head; at; at = at->next) {
        if (at != j) continue;
        queue_remove(&p->tables, j);
        end(p, j);
        return;
    }
    if (j->in_line)
        tables_withdraw(p, j);
    else
        atomic_store(&j->cancelled, true);
}

void tables_withdraw(struct pipeline *p, struct job *j)
{
    if (j->in_line) line_withdraw(p, j);
    end(p, j);
}
