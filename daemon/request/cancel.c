#include "daemon/request/cancel.h"

#include "daemon/cards/cards.h"
#include "daemon/request/groups.h"
#include "daemon/request/jobs.h"
#include "daemon/request/line.h"
#include "daemon/request/reply.h"
#include "daemon/request/saves.h"
#include "daemon/request/turnstiles.h"

/* Answers j at once if it has not started. */
static void withdraw(struct pipeline *p, struct job *j)
{
    if ((j->state != JOB_WAITING && j->state != JOB_QUEUED) ||
        job_is_wanted(j, clock_read_ns(p->clock)))
        return;
    if (j->state == JOB_WAITING) {
        turnstiles_withdraw(p, j);
    } else {
        if (j->in_line)
            line_withdraw(p, j);
        else
            queue_remove(&p->arrivals, j);
        turnstiles_leave(p, j);
    }
    reply_send(p, j);
}

void cancel_job(struct pipeline *p, struct job *j)
{
    atomic_store(&j->cancelled, true);
    if (saves_cancel(p, j)) return;
    groups_cancel(j);
    cards_cancel(j);
    withdraw(p, j);
}
