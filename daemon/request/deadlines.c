#include "daemon/request/cancel.h"
#include "daemon/request/jobs.h"

void pipeline_expire(struct pipeline *p, uint64_t now_ns)
{
    for (uint32_t i = 1; i < p->fresh_jobs; i++) {
        struct job *j = &p->jobs[i];
        if (j->state == JOB_FREE || !j->deadline_ns || now_ns < j->deadline_ns) continue;
        if (job_drops(j)) continue;
        j->deadline_passed = true;
        cancel_job(p, j);
    }
}
