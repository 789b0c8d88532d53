#include "daemon/request/uploads.h"

#include "daemon/cards/cards.h"
#include "daemon/ops/operation.h"
#include "daemon/request/jobs.h"
#include "daemon/request/turnstiles.h"

/* A drop is always last in line: what it drops is no longer found by name. */
static bool is_leaving(const struct resident *of)
{
    const struct job_object *last = of->turnstile.waiting_tail;
    return last && job_drops(last->job);
}

/* Returns where to note another upload, or NULL. Two pieces of one replica are under way at once,
 * so that they follow each other without a gap. A resident that has none and finds no place is
 * remembered and gets the next. */
static struct job **free_place(struct pipeline *p, struct resident *of)
{
    enum { AT_ONCE = 2 };
    struct job **place = NULL;
    uint32_t under_way = 0;
    for (uint32_t i = 0; i < UPLOADS_MAX; i++) {
        if (!p->uploads.jobs[i])
            place = &p->uploads.jobs[i];
        else if (job_resident(p->uploads.jobs[i]) == of)
            under_way++;
    }
    if (!place && !under_way && !p->uploads.next) p->uploads.next = of;
    return under_way < AT_ONCE ? place : NULL;
}

static void on_done(void *owner, struct job *j);

void uploads_start(struct pipeline *p, struct resident *of)
{
    if (p->draining || is_leaving(of) || !p->uploads.wants(p->gpu, of)) return;
    struct job **place = free_place(p, of);
    struct job *j =
        place ? job_take_own(p, of->space, OPERATION_UPLOAD, (struct job_owner){on_done, p}) : NULL;
    if (!j) return;
    of->ops->lend(of, j);
    j->backend = BACKEND_GPU;
    *place = j;
    turnstiles_enter(p, j);
}

static void end(struct pipeline *p, struct job *j)
{
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        if (p->uploads.jobs[i] == j) p->uploads.jobs[i] = NULL;
    turnstiles_leave(p, j);
    job_move(j, JOB_DONE);
    job_give(p, j);
}

void uploads_submit(struct pipeline *p, struct job *j)
{
    if (p->draining || atomic_load(&j->cancelled) || !turnstiles_renew(j) ||
        p->gpu->ops->submit(p->gpu, j)) {
        end(p, j);
        return;
    }
    job_move(j, JOB_RUNNING);
    uploads_start(p, job_resident(j));
}

/* A place is free and goes to the resident that found none. Otherwise one that always has more to
 * upload would take it again before any other could ask. */
static void start_next(struct pipeline *p)
{
    struct resident *of = p->uploads.next;
    p->uploads.next = NULL;
    if (of) uploads_start(p, of);
}

/* A piece is uploaded; the next one is of what is there by now. */
static void on_done(void *owner, struct job *j)
{
    struct pipeline *p = owner;
    struct resident *of = job_resident(j);
    bool last = p->draining || atomic_load(&j->cancelled) || is_leaving(of) ||
                !p->uploads.wants(p->gpu, of);
    end(p, j);
    start_next(p);
    if (!last) uploads_start(p, of);
}

void uploads_cancel(struct pipeline *p, const struct resident *of)
{
    if (p->uploads.next == of) p->uploads.next = NULL;
    for (uint32_t i = 0; i < UPLOADS_MAX; i++)
        if (p->uploads.jobs[i] && job_resident(p->uploads.jobs[i]) == of)
            atomic_store(&p->uploads.jobs[i]->cancelled, true);
}
