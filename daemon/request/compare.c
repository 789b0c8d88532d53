#include "daemon/request/compare.h"

#include "daemon/exec/digest.h"
#include "daemon/exec/workers.h"
#include "daemon/request/finish.h"
#include "daemon/request/jobs.h"
#include "daemon/request/reply.h"
#include "daemon/request/turnstiles.h"

static void compared(void *owner, struct job *j)
{
    struct pipeline *p = owner;
    uint64_t now_ns = clock_read_ns(p->clock);
    j->owner = (struct job_owner){finish_on_done, p};
    if (job_is_wanted(j, now_ns) && !tokens_recall(&p->tokens, j, now_ns)) {
        failure_set(&j->failure, STATUS_UNAVAILABLE, DETAIL_TOKEN_BUSY,
                    "write: its token was forgotten while it was compared with the first one");
        j->failure.retry_after_ms = RETRY_TOKEN_MS;
    }
    turnstiles_leave(p, j);
    reply_send(p, j);
}

bool compare_start(struct pipeline *p, struct job *j)
{
    if (!tokens_want_digest(&p->tokens, j, clock_read_ns(p->clock))) return false;
    if (j->state == JOB_RECEIVED) job_move(j, JOB_QUEUED);
    job_move(j, JOB_RUNNING);
    j->owner = (struct job_owner){compared, p};
    workers_run(p->cpu, j, digest_take);
    return true;
}
