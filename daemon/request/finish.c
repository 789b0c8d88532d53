#include "daemon/request/finish.h"

#include "daemon/cards/cards.h"
#include "daemon/request/jobs.h"
#include "daemon/request/line.h"
#include "daemon/request/records.h"
#include "daemon/request/reply.h"
#include "daemon/request/saves.h"
#include "daemon/request/scans.h"
#include "daemon/request/turnstiles.h"
#include "daemon/store/shadow.h"

void finish_again(struct pipeline *p, struct job *j)
{
    j->backend = BACKEND_NONE;
    j->refused = false;
    j->started_ns = j->finished_ns = j->copy_ns = 0;
    j->screen = (struct job_screen){0};
    job_move(j, JOB_QUEUED);
    line_enter(p, j, clock_read_ns(p->clock));
}

void finish_job(struct pipeline *p, struct job *j)
{
    bool writes = job_written(j) != NULL;
    if (p->config->observe.enabled) stats_route(&p->stats, j->backend, j->reason);
    scans_end_page(p, j);
    records_written(p, j);
    turnstiles_leave(p, j);
    /* Written rows stay written, so a writer reports how it ended even if it is late; any other
     * job may have stopped in the middle. */
    bool late = !writes && j->deadline_ns && j->finished_ns >= j->deadline_ns;
    bool stopped = atomic_load(writes ? &j->skipped : &j->cancelled);
    if (!j->failure.code && (late || stopped)) job_is_wanted(j, clock_read_ns(p->clock));
    reply_send(p, j);
}

void finish_count_screen(const struct job *run)
{
    bool told = run->screen.screened || run->screen.rested;
    if (told && run->collection && !run->failure.code)
        collection_count_screen(
            run->collection, run->backend == BACKEND_GPU ? SCREENS_GPU : SCREENS_CPU, &run->screen);
}

void finish_on_done(void *owner, struct job *j)
{
    struct pipeline *p = owner;
    line_end(p, j);
    if (j->backend == BACKEND_GPU && cards_gave_up(j)) {
        finish_again(p, j);
        return;
    }
    finish_count_screen(j);
    if (!saves_make_room(p, j)) finish_job(p, j);
}
