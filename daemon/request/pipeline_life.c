#include <sys/random.h>

#include "daemon/base/clock.h"
#include "daemon/request/groups.h"
#include "daemon/request/jobs.h"
#include "daemon/request/pipeline_inside.h"
#include "daemon/request/schedule.h"
#include "daemon/request/uploads.h"

void pipeline_expire(struct pipeline *p, uint64_t now_ns)
{
    for (uint32_t i = 1; i < p->fresh_jobs; i++) {
        struct job *j = &p->jobs[i];
        if (j->state == JOB_FREE || !j->deadline_ns || now_ns < j->deadline_ns) continue;
        if (job_drops(j)) continue;
        j->deadline_passed = true;
        pipeline_cancel(p, j);
    }
}

void pipeline_drain(struct pipeline *p)
{
    p->draining = true;
}

/* A job that waits for a backend, out of its line; NULL: none. */
static struct job *pipeline_any_waiting(struct pipeline *p)
{
    struct job *j = queue_pop(&p->arrivals);
    if (j) return j;
    struct ticket *t = scheduler_evacuate(&p->scheduler);
    if (!t) return NULL;
    pipeline_out_of_line(p, job_of(t));
    return job_of(t);
}

void pipeline_abandon(struct pipeline *p)
{
    scheduler_set_server(&p->scheduler, SERVER_CPU, false, 0, 0);
    pipeline_tick(p);
    for (struct job *j; (j = pipeline_any_waiting(p));) {
        if (j->operation == OPERATION_UPLOAD) {
            uploads_submit(p, j);
            continue;
        }
        failure_set(&j->failure, STATUS_UNAVAILABLE, DETAIL_SHUTTING_DOWN, "the daemon stopped");
        if (j->whole) {
            pipeline_complete(p, j);
            continue;
        }
        pipeline_leave(p, j);
        pipeline_reply(p, j);
    }
}

enum status pipeline_init(struct pipeline *p, const struct config *config)
{
    p->config = config;
    enum status st = jobs_init(p);
    if (st) return st;
    struct scheduler_settings none = {0};
    scheduler_init(&p->scheduler, &none, p->worker_count);
    pipeline_configure(p);
    scheduler_set_server(&p->scheduler, SERVER_CPU, true, 2 * p->worker_count + 2, 0);
    p->started_ns = clock_read_ns(p->clock);
    stats_init(&p->stats);
    if (getrandom(&p->instance, sizeof p->instance, 0) != sizeof p->instance)
        p->instance = clock_read_ns(p->clock);
    if (!p->instance) p->instance = 1;
    return STATUS_OK;
}

void pipeline_finish(struct pipeline *p)
{
    jobs_finish(p);
}
