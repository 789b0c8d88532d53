#include "daemon/request/start.h"

#include <string.h>

#include "daemon/cards/cards.h"
#include "daemon/exec/operation.h"
#include "daemon/exec/workers.h"
#include "daemon/heap/heap.h"
#include "daemon/request/groups.h"
#include "daemon/request/jobs.h"
#include "daemon/request/line.h"
#include "daemon/request/turnstiles.h"

/* The CPU refused j. True: for good. False: for want of memory, and other jobs will free some. */
static bool fails_without_memory(struct pipeline *p, struct job *j)
{
    bool others = p->running > 0 || (p->gpu && cards_in_flight(p->gpu) > 0);
    if (j->failure.detail != DETAIL_MEMORY || !others) return true;
    memset(&j->failure, 0, sizeof j->failure);
    return false;
}

/* Puts j, which no backend took, back where it waited; put_off: as line_put_back. */
static void put_back(struct pipeline *p, struct job *j, bool put_off)
{
    struct ticket *first = job_ticket(j);
    enum batch_end end;
    while (job_is_carrier(j) && groups_next_member(p, j, first, &end))
        ;
    line_put_back(p, first, put_off);
}

/* The loop does not wait for memory that is on its way back to the system. */
static void put_off(struct pipeline *p, struct job *j)
{
    memset(&j->failure, 0, sizeof j->failure);
    if (j->backend == BACKEND_GPU) j->gpu.gave_up = REASON_NONE;
    put_back(p, j, true);
}

/* True if no other job waits for the CPU, so that j may run on the loop. */
static bool may_run_here(const struct pipeline *p, const struct job *j)
{
    const struct server *cpu = &p->scheduler.servers[SERVER_CPU];
    return j->backend == BACKEND_CPU && p->config->worker_inline && !p->running &&
           cpu->in_flight == 1 && !cpu->flow_count && !job_is_carrier(j) && !j->whole;
}

/* Runs j here if that is cheaper than waking a worker. False: it is not, or turned out not to be,
 * or j->failure says why it cannot run. */
static bool run_here(const struct pipeline *p, struct job *j)
{
    if (j->request.dry_run) return !workers_run_now(j); /* whatever backend it would have had */
    if (!may_run_here(p, j)) return false;
    bool brief = work_is_brief(&j->ticket.work);
    if (!brief && !(j->ops->may_be_brief && j->ops->may_be_brief(j))) return false;
    j->on_trial = !brief;
    bool done = !workers_run_now(j) && !j->outgrew;
    j->on_trial = j->outgrew = false;
    return done;
}

static bool names_one(const struct job *j)
{
    for (uint32_t i = 1; i < OPERATION_OBJECTS_MAX; i++)
        if (j->objects[i].resident) return false;
    return j->resident != NULL;
}

/* A card has what is newest: j, which has read nothing yet, sees that, unless its own client has
 * sent a write since, which j must not see. What reads several things sees them as they were at
 * one instant. */
static void read_newest(const struct pipeline *p, struct job *j)
{
    if (j->request.expect.version || j->writer || j->whole || job_is_carrier(j) || !names_one(j))
        return;
    const struct connection *c = net_find(p->net, j->key.connection);
    if (c && c->writes == j->after_writes) turnstiles_renew(j);
}

/* The scheduler gave j, or the members that j carries, to that server. False: nothing can be
 * started now, there is no memory until others finish. */
static bool submit(struct pipeline *p, struct job *j, uint32_t server, enum reason reason)
{
    j->backend = server == SERVER_CPU ? BACKEND_CPU : BACKEND_GPU;
    for (struct job *m = job_is_carrier(j) ? j->members : NULL; m; m = m->member_next)
        m->backend = j->backend;
    if (j->backend == BACKEND_GPU && reason == REASON_CHOSEN_FASTER &&
        replica_is_shadow_only(p->gpu, j))
        job_ticket(j)->reason = reason = REASON_SHADOW_ONLY;
    j->reason = j->backend == BACKEND_CPU && j->gpu.gave_up ? j->gpu.gave_up : reason;
    j->refused = false;
    j->foreseen_ns = job_ticket(j)->run_ns;
    (void)heap_put_off(p->heap); /* what others were refused */
    if (run_here(p, j)) {
        line_begin(p, j);
        j->owner.done(j->owner.owner, j);
        return true;
    }
    struct backend *b = j->backend == BACKEND_CPU ? p->cpu : p->gpu;
    if (j->backend == BACKEND_GPU) read_newest(p, j);
    if (!j->failure.code && !b->ops->submit(b, j)) {
        line_begin(p, j);
        return true;
    }
    if (heap_put_off(p->heap)) {
        put_off(p, j);
        return true;
    }
    if (j->backend == BACKEND_CPU && !fails_without_memory(p, j)) {
        put_back(p, j, false);
        return false;
    }
    j->refused = true;
    line_begin(p, j);
    j->owner.done(j->owner.owner, j);
    return true;
}

/* True if every request in d still has a client and time. Otherwise all are back in line, except
 * those that nobody wants: these are among the arrivals again and are answered from there. They
 * cannot be answered here, because an answer may close its connection, and then all requests of
 * that connection leave where they wait. */
static bool all_are_wanted(struct pipeline *p, const struct dispatch *d, uint64_t now_ns)
{
    struct job *unwanted = NULL;
    for (struct ticket *t = d->first; t; t = t->next) {
        struct job *j = job_of(t);
        if (job_drops(j) || j->whole || job_is_wanted(j, now_ns)) continue;
        j->member_next = unwanted;
        unwanted = j;
    }
    if (!unwanted) return true;
    scheduler_put_back(&p->scheduler, d->first);
    for (struct job *j = unwanted, *next; j; j = next) {
        next = j->member_next;
        j->member_next = NULL;
        line_withdraw(p, j);
        queue_push(&p->arrivals, j);
    }
    return false;
}

/* Starts one request on two backends. False: there is no job for its parts; it runs on one. */
static bool start_split(struct pipeline *p, const struct dispatch *d)
{
    struct job *whole = job_of(d->first), *parts[2];
    if (!groups_split(p, whole, d->split_queries, parts)) return false;
    job_move(whole, JOB_RUNNING);
    whole->backend = BACKEND_BOTH;
    whole->ran_on = BACKEND_NONE;
    enum reason reason = d->reason == REASON_FORCED ? REASON_FORCED : REASON_CHOSEN_FASTER;
    whole->reason = reason;
    uint32_t servers[2] = {d->server, SERVER_CPU};
    for (int i = 0; i < 2; i++)
        scheduler_place(&p->scheduler, &parts[i]->ticket, servers[i], reason,
                        clock_read_ns(p->clock));
    for (int i = 0; i < 2; i++)
        submit(p, parts[i], servers[i], reason);
    return true;
}

/* No job is free to carry the members: each runs by itself. */
static void start_each(struct pipeline *p, const struct dispatch *d)
{
    scheduler_finish(&p->scheduler, d->first, END_REFUSED, NULL);
    for (struct ticket *t = d->first, *next; t; t = next) {
        next = t->next;
        t->next = NULL;
        struct job *j = job_of(t);
        j->alone = true;
        line_enter(p, j, clock_read_ns(p->clock));
    }
}

bool start_dispatch(struct pipeline *p, const struct dispatch *d, uint64_t now_ns)
{
    if (!all_are_wanted(p, d, now_ns)) return true;
    for (struct ticket *t = d->first; t; t = t->next)
        line_leave(p, job_of(t));
    struct job *j = job_of(d->first);
    j->batch = 0; /* it may be left over from a batch that was not run */
    if (d->split_queries) {
        if (start_split(p, d)) return true;
        scheduler_place(&p->scheduler, d->first, d->server, d->reason, clock_read_ns(p->clock));
    }
    if (d->count > 1) j = groups_carrier(p, d->first);
    if (j) return submit(p, j, d->server, d->reason);
    start_each(p, d);
    return true;
}
