#include "daemon/exec/steps.h"

#include <assert.h>

#include "daemon/base/clock.h"

static bool job_dead(struct job *j)
{
    return j->failure.code || atomic_load_explicit(&j->cancelled, memory_order_relaxed);
}

/* Must be called before j can end. */
static void count_work(struct job *j, uint64_t since_ns)
{
    atomic_fetch_add_explicit(&j->worked_ns, clock_read_ns(j->clock) - since_ns,
                              memory_order_relaxed);
}

void steps_try_part(struct job *j, uint32_t part, uint32_t worker)
{
    uint64_t since_ns = clock_read_ns(j->clock);
    if (job_dead(j))
        atomic_store_explicit(&j->skipped, true, memory_order_relaxed);
    else
        j->parts.run(j, part, worker);
    count_work(j, since_ns);
}

bool steps_run(struct job *j)
{
    j->parts.count = 0;
    while (j->step && !j->parts.count) {
        void (*step)(struct job *) = j->step;
        j->step = NULL;
        step(j);
    }
    return j->parts.count != 0;
}

static void end_plan(struct job *j)
{
    heap_give(j->heap, &j->plan.scratch);
    j->finished_ns = clock_read_ns(j->clock);
}

static void finish_plan(struct job *j)
{
    j->step = end_plan;
    if (j->plan.finish) j->plan.finish(j);
}

void steps_begin_plan(struct job *j)
{
    j->step = finish_plan;
    j->started_ns = clock_read_ns(j->clock);
    atomic_store_explicit(&j->worked_ns, 0, memory_order_relaxed);
    if (!job_dead(j) && j->plan.prepare) {
        enum status st = j->plan.prepare(j);
        assert(!st || j->failure.code == st);
        (void)st;
    }
    count_work(j, j->started_ns);
    if (job_dead(j))
        atomic_store_explicit(&j->skipped, true, memory_order_relaxed);
    else
        j->parts = (struct job_parts){j->plan.run_part, j->plan.parts};
}
