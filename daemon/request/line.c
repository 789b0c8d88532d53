#include "daemon/request/line.h"

#include "daemon/cards/cards.h"
#include "daemon/ops/operation.h"
#include "daemon/request/jobs.h"
#include "daemon/request/situation.h"
#include "daemon/request/uploads.h"
#include "daemon/store/shadow.h"

/* Where more than one row in so many is wanted, no card asks int8 first. */
enum { SCREENED_K_SHARE = 12 };

void line_expect(struct job *j)
{
    j->coming = true;
    j->space->tenant->coming++;
    j->ticket.tenancy->principal->coming++;
    j->ticket.tenancy->coming++;
}

void line_expect_no_more(struct job *j)
{
    if (!j->coming) return;
    j->space->tenant->coming--;
    j->ticket.tenancy->principal->coming--;
    j->ticket.tenancy->coming--;
    j->coming = false;
}

/* What a kNN can expect of its replica's rows in int8. */
static void expect_screen(const struct pipeline *p, struct job *j)
{
    struct work *w = &j->ticket.work;
    if (j->operation != OPERATION_KNN || !p->gpu || !w->gpu_able || w->listed) return;
    if (j->whole) { /* a part of one that was in line */
        w->screen[1] = j->whole->ticket.work.screen[1];
        return;
    }
    const struct resident *of = job_operand(j, 0);
    if (!of || w->k > w->rows / SCREENED_K_SHARE) return;
    struct shadow_info shadow = replica_info(p->gpu, of).shadow;
    if (shadow.rows && !shadow.rests)
        w->screen[1] = (struct work_screen){
            1, (float)collection_screens_of(j->collection, SCREENS_GPU)->passed};
}

void line_enter(struct pipeline *p, struct job *j, uint64_t now_ns)
{
    struct ticket *t = &j->ticket;
    line_expect_no_more(j);
    t->work = operation_work(j);
    expect_screen(p, j);
    t->batch_key = !j->alone && !j->whole ? operation_batch_key(j) : NULL;
    t->batch_on_cards = j->ops && j->ops->batches_on_cards;
    t->splits = operation_splits(j);
    t->arrived_ns = j->received_ns;
    t->deadline_ns = j->deadline_ns;
    struct situation now_known = situation_of(p, j);
    bool wants_replica = scheduler_enqueue(&p->scheduler, t, &now_known, now_ns);
    j->in_line = true;
    p->in_line++;
    if (p->config->observe.enabled) stats_decided(&p->stats, clock_read_ns(p->clock) - now_ns);
    bool faster = p->scheduler.settings.floors_only || t->gpu_ns < t->cpu_ns;
    if (t->reason == REASON_VRAM_PRESSURE && t->gpu_ns && faster) replicas_miss_rows(p->gpu, j);
    if (!wants_replica) return;
    replicas_put_together(p->gpu, j);
    for (uint32_t i = 0; i < JOB_OPERANDS; i++)
        if (job_operand(j, i)) uploads_start(p, job_operand(j, i));
}

void line_leave(struct pipeline *p, struct job *j)
{
    j->in_line = false;
    p->in_line--;
}

void line_withdraw(struct pipeline *p, struct job *j)
{
    scheduler_withdraw(&p->scheduler, &j->ticket);
    line_leave(p, j);
}

void line_put_back(struct pipeline *p, struct ticket *first, bool put_off)
{
    for (struct ticket *t = first; t; t = t->next) {
        job_of(t)->in_line = true;
        p->in_line++;
    }
    if (put_off)
        scheduler_put_off(&p->scheduler, first);
    else
        scheduler_put_back(&p->scheduler, first);
}

void line_begin(struct pipeline *p, struct job *j)
{
    job_move(j, JOB_RUNNING);
    for (struct job *m = job_is_carrier(j) ? j->members : NULL; m; m = m->member_next)
        job_move(m, JOB_RUNNING);
    p->running += j->backend == BACKEND_CPU;
}

static enum scheduler_end end_of(const struct job *j)
{
    bool let_down = j->backend == BACKEND_GPU && (j->gpu.gave_up == REASON_FALLBACK_AFTER_ERROR ||
                                                  j->gpu.gave_up == REASON_GPU_DOWN);
    if (j->refused || j->rehearsed || j->operation == OPERATION_TABLES) return END_REFUSED;
    if (let_down) return END_LET_DOWN;
    bool cut = j->failure.code || j->gpu.again || atomic_load(&j->cancelled) || !j->started_ns;
    return cut || (j->backend == BACKEND_GPU && j->gpu.gave_up) ? END_REFUSED : END_WELL;
}

void line_end(struct pipeline *p, struct job *j)
{
    struct scheduler_run run = {
        .started_ns = j->started_ns,
        .ended_ns = j->finished_ns,
        .back_ns = clock_read_ns(p->clock),
        .enqueued_ns = j->backend == BACKEND_GPU ? j->gpu.enqueued_ns : 0,
        .screen = j->screen,
    };
    p->running -= j->backend == BACKEND_CPU;
    if (j->backend == BACKEND_CPU) run.busy_ns = atomic_load(&j->worked_ns) / p->worker_count;
    scheduler_finish(&p->scheduler, job_ticket(j), end_of(j), run.ended_ns ? &run : NULL);
}
