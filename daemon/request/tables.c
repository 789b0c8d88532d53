#include "daemon/request/tables.h"

#include "daemon/exec/workers.h"
#include "daemon/request/jobs.h"
#include "daemon/request/turnstiles.h"
#include "daemon/sched/turnstile.h"
#include "daemon/store/attractor.h"
#include "daemon/store/dentate.h"

enum { PART_NUMBERS = 1 << 15 }; /* some hundred microseconds */
enum { WORD_DENTATE_PARTS };     /* 0: another job makes that matrix, or it is there */

static struct attractor *attractor_of(const struct job *j)
{
    return (struct attractor *)j->resident;
}

static uint32_t rows_of_part(uint32_t dimension)
{
    return PART_NUMBERS / dimension;
}

static uint32_t parts_of(uint64_t rows, uint32_t dimension)
{
    uint32_t each = rows_of_part(dimension);
    return (uint32_t)((rows + each - 1) / each);
}

static void make_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct attractor *a = attractor_of(j);
    struct dentate *d = attractor_dentate(a);
    const struct attractor_kernels *k = attractor_choose(j->kernels->name);
    uint64_t parts = j->plan.words[WORD_DENTATE_PARTS], rows = dentate_rows(d);
    uint64_t each = rows_of_part(d->dimension), first = part * each;
    if (part >= parts) {
        first = (part - parts) * each;
        rows = d->dimension;
    }
    uint64_t count = rows - first < each ? rows - first : each;
    if (part < parts)
        dentate_make(d, k, first, count);
    else
        attractor_make(a, k, (uint32_t)first, (uint32_t)count);
}

static void end(struct job *j) {}

static void begin(struct job *j)
{
    uint32_t dimension = attractor_dentate(attractor_of(j))->dimension;
    uint32_t parts = (uint32_t)j->plan.words[WORD_DENTATE_PARTS] + parts_of(dimension, dimension);
    j->parts = (struct job_parts){make_part, parts};
    j->step = end;
}

static void open_attractor(struct pipeline *p, struct job *j)
{
    attractor_open(attractor_of(j));
    job_move(j, JOB_DONE);
    turnstiles_leave(p, j);
    job_give(p, j);
}

/* Opens those whose weights were there before their dentate matrix, which is there now. */
static void open_waiting(struct pipeline *p, const struct dentate *d)
{
    for (struct job *j = p->tables.head, *next; j; j = next) {
        next = j->next;
        if (attractor_dentate(attractor_of(j)) != d) continue;
        queue_remove(&p->tables, j);
        open_attractor(p, j);
    }
}

static void made_on_done(void *owner, struct job *j)
{
    struct pipeline *p = owner;
    struct dentate *d = attractor_dentate(attractor_of(j));
    if (j->plan.words[WORD_DENTATE_PARTS]) {
        d->made = true;
        open_attractor(p, j);
        open_waiting(p, d);
    } else if (d->made) {
        open_attractor(p, j);
    } else {
        queue_push(&p->tables, j);
    }
}

bool tables_make(struct pipeline *p, struct attractor *a)
{
    struct resident *r = attractor_resident(a);
    struct dentate *d = attractor_dentate(a);
    struct job *j = job_take_own(p, r->space, OPERATION_NONE, (struct job_owner){made_on_done, p});
    if (!j) return false;
    if (!d->making) j->plan.words[WORD_DENTATE_PARTS] = parts_of(dentate_rows(d), d->dimension);
    d->making = true;
    r->ops->lend(r, j);
    j->writer = true;
    turnstile_enter(j); /* nobody else knows of it yet, so it passes */
    job_move(j, JOB_QUEUED);
    job_move(j, JOB_RUNNING);
    workers_run(p->cpu, j, begin);
    return true;
}
