#include "daemon/request/cancel.h"
#include "daemon/request/jobs.h"
#include "daemon/request/saves.h"

/* What runs is stopped at its deadline, and not only when somebody looks next: the loop wakes for
 * the first of those that were running at the last look. */
void pipeline_expire(struct pipeline *p, uint64_t now_ns)
{
    p->expire_ns = 0;
    saves_turn(p);
    for (uint32_t i = 1; i < p->fresh_jobs; i++) {
        struct job *j = &p->jobs[i];
        if (j->state == JOB_FREE || !j->deadline_ns || job_drops(j)) continue;
        if (now_ns >= j->deadline_ns) {
            j->deadline_passed = true;
            cancel_job(p, j);
        } else if (j->state == JOB_RUNNING && (!p->expire_ns || j->deadline_ns < p->expire_ns)) {
            p->expire_ns = j->deadline_ns;
        }
    }
}
