#include "daemon/request/drops.h"
#include "daemon/request/groups.h"
#include "daemon/request/jobs.h"
#include "daemon/request/journals.h"
#include "daemon/request/line.h"
#include "daemon/request/reply.h"
#include "daemon/request/saves.h"
#include "daemon/request/scans.h"
#include "daemon/request/tables.h"
#include "daemon/request/turnstiles.h"
#include "daemon/request/uploads.h"

void pipeline_drain(struct pipeline *p)
{
    p->draining = true;
    saves_drain(p);
    scans_finish(p);
}

/* Takes a job that waits for a backend out of its queue; NULL: there is none. */
static struct job *any_waiting(struct pipeline *p)
{
    struct job *j = queue_pop(&p->arrivals);
    if (j) return j;
    struct ticket *t = scheduler_evacuate(&p->scheduler);
    if (!t) return NULL;
    line_leave(p, job_of(t));
    return job_of(t);
}

void pipeline_abandon(struct pipeline *p)
{
    saves_abandon(p);
    scheduler_set_server(&p->scheduler, SERVER_CPU, false, 0, 0);
    pipeline_tick(p);
    for (struct job *j; (j = any_waiting(p));) {
        if (j->operation == OPERATION_UPLOAD) {
            uploads_submit(p, j);
            continue;
        }
        if (j->operation == OPERATION_TABLES) {
            tables_withdraw(p, j);
            continue;
        }
        if (drops_own(j)) {
            drops_withdraw(p, j);
            continue;
        }
        job_fail_stopping(p, &j->failure);
        if (j->whole) {
            groups_end_part(p, j);
            continue;
        }
        turnstiles_leave(p, j);
        reply_send(p, j);
    }
    journals_close(p);
    p->gpu = NULL;
}
