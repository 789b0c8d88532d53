#include "daemon/exec/steps.h"

#include <assert.h>

#include "daemon/base/clock.h"
#include "daemon/base/yield.h"
#include "daemon/exec/digest.h"
#include "daemon/exec/operation.h"

static bool job_dead(struct job *j)
{
    return j->failure.code || atomic_load_explicit(&j->cancelled, memory_order_relaxed);
}

/* Work that is being done for a job; what the thread does for others meanwhile does not count. */
struct effort {
    uint64_t since_ns, lent_ns;
};

static uint64_t lent_ns(void)
{
    return yield_now ? yield_now->lent_ns : 0;
}

/* A worker that stands still because other processes have its processor uses nothing up: who is
 * unlucky must not be served less for it. The loop, whose runs last microseconds, and a virtual
 * clock have one kind of time. */
static uint64_t effort_ns(const struct job *j)
{
    return yield_now && (!j->clock || j->clock == &clock_real) ? clock_thread_ns()
                                                               : clock_read_ns(j->clock);
}

static struct effort effort_begin(const struct job *j)
{
    return (struct effort){effort_ns(j), lent_ns()};
}

/* Must be called before j can end. */
static void effort_end(struct job *j, struct effort e)
{
    uint64_t lent = lent_ns() - e.lent_ns;
    atomic_fetch_add_explicit(&j->worked_ns, effort_ns(j) - e.since_ns - lent,
                              memory_order_relaxed);
}

void steps_try_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct effort e = effort_begin(j);
    if (job_dead(j))
        atomic_store_explicit(&j->skipped, true, memory_order_relaxed);
    else
        j->parts.run(j, part, worker);
    effort_end(j, e);
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
    operation_give_scratch(j);
    j->finished_ns = clock_read_ns(j->clock);
}

static void finish_plan(struct job *j)
{
    j->step = end_plan;
    if (j->plan.finish) j->plan.finish(j);
}

void steps_begin_plan(struct job *j)
{
    j->started_ns = clock_read_ns(j->clock);
    atomic_store_explicit(&j->worked_ns, 0, memory_order_relaxed);
    progress_begin(&j->progress, PROGRESS_NONE, 0);
    struct effort e = effort_begin(j);
    if (j->token && !j->has_digest) digest_take(j);
    effort_end(j, e);
    steps_begin_next_plan(j);
}

void steps_begin_next_plan(struct job *j)
{
    j->step = finish_plan;
    struct effort e = effort_begin(j);
    if (!job_dead(j) && j->plan.prepare) {
        enum status st = j->plan.prepare(j);
        assert(!st || j->failure.code == st);
        (void)st;
    }
    effort_end(j, e);
    if (job_dead(j))
        atomic_store_explicit(&j->skipped, true, memory_order_relaxed);
    else
        j->parts = (struct job_parts){j->plan.run_part, j->plan.parts};
}
