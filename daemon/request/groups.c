#include "daemon/request/groups.h"

#include <assert.h>
#include <string.h>

#include "daemon/cards/cards.h"
#include "daemon/exec/parts.h"
#include "daemon/ops/operation.h"
#include "daemon/request/finish.h"
#include "daemon/request/jobs.h"
#include "daemon/request/line.h"

/* ---------------------------------------------------------------- several as one */

struct job *groups_next_member(struct pipeline *p, struct job *carrier, const struct ticket *first,
                               enum batch_end *end)
{
    struct job *m = batch_take(carrier, end);
    if (m) {
        m->backend = carrier->backend;
        m->reason = carrier->reason;
        /* Members of a batch that failed as a whole run alone from now on. If one member's query
         * was bad, the others are batched once more, but not a second time, because bad queries may
         * keep coming. A member that runs alone can wait for memory. */
        bool starved = *end == BATCH_DONE && m->failure.detail == DETAIL_MEMORY;
        bool again = *end == BATCH_AGAIN && m->batch;
        m->alone |= starved || again || carrier->failure.code != STATUS_OK;
        m->batch = first->members;
        if (starved) {
            memset(&m->failure, 0, sizeof m->failure);
            *end = BATCH_AGAIN;
        }
        return m;
    }
    memset(carrier->objects, 0, sizeof carrier->objects);
    job_move(carrier, JOB_DONE);
    job_give(p, carrier);
    return NULL;
}

/* A backend has run the carrier, or refused it: its members are answered, or run again. */
static void on_carrier_done(void *owner, struct job *carrier)
{
    struct pipeline *p = owner;
    /* A copy, because line_end forgets how many members there were, and members are freed. */
    struct ticket stood = *job_ticket(carrier);
    enum batch_end end;
    line_end(p, carrier);
    finish_count_screen(carrier);
    for (struct job *m; (m = groups_next_member(p, carrier, &stood, &end));)
        if (end == BATCH_DONE)
            finish_job(p, m);
        else
            finish_again(p, m);
}

struct job *groups_carrier(struct pipeline *p, struct ticket *first)
{
    struct job *oldest = job_of(first);
    struct job *carrier = job_take_own(p, oldest->space, oldest->ops->carrier,
                                       (struct job_owner){on_carrier_done, p});
    if (!carrier) return NULL;
    struct job *last = NULL;
    for (struct ticket *t = first; t; t = t->next) {
        batch_add(carrier, last, job_of(t));
        last = job_of(t);
    }
    carrier->received_ns = oldest->received_ns;
    job_move(carrier, JOB_QUEUED);
    return carrier;
}

/* ---------------------------------------------------------------- one as several */

/* Frees the part. True: no other part of the whole is out. */
static bool give_part(struct pipeline *p, struct job *part)
{
    struct job *whole = part->whole;
    struct job **at = &whole->members;
    while (*at != part)
        at = &(*at)->member_next;
    *at = part->member_next;
    bool last = parts_take(whole, part);
    job_move(part, JOB_DONE);
    job_give(p, part);
    return last;
}

void groups_end_part(struct pipeline *p, struct job *part)
{
    struct job *whole = part->whole;
    finish_count_screen(part);
    whole->result.version = part->result.version;
    whole->result.rows = part->result.rows;
    /* If one part came back from the GPU, the whole ran on one backend in the end. */
    whole->ran_on |= part->backend;
    if (part->gpu.gave_up) whole->reason = part->gpu.gave_up;
    if (!give_part(p, part)) return;
    whole->backend = whole->ran_on;
    finish_job(p, whole);
}

static void on_part_done(void *owner, struct job *part)
{
    struct pipeline *p = owner;
    line_end(p, part);
    if (part->backend == BACKEND_GPU && cards_gave_up(part))
        finish_again(p, part);
    else
        groups_end_part(p, part);
}

static struct job *take_part(struct pipeline *p, struct job *whole, uint64_t first, uint64_t count)
{
    struct job *part =
        job_take_own(p, whole->space, whole->operation, (struct job_owner){on_part_done, p});
    if (!part) return NULL;
    parts_make_request(whole, part, first, count);
    part->received_ns = whole->received_ns;
    part->ticket = (struct ticket){
        .tenancy = whole->ticket.tenancy,
        .work = operation_work(part),
        .arrived_ns = whole->ticket.arrived_ns,
        .other = SERVERS_MAX,
    };
    part->ticket.work.screen[1] = whole->ticket.work.screen[1];
    part->member_next = whole->members;
    whole->members = part;
    job_move(part, JOB_QUEUED);
    return part;
}

bool groups_split(struct pipeline *p, struct job *whole, uint64_t queries, struct job *parts[2])
{
    uint64_t all = whole->request.queries.rows;
    assert(queries > 0 && queries < all);
    parts[0] = take_part(p, whole, 0, queries);
    if (!parts[0]) return false;
    parts[1] = take_part(p, whole, queries, all - queries);
    if (parts[1]) return true;
    give_part(p, parts[0]);
    parts_forget(whole);
    return false;
}

/* ---------------------------------------------------------------- both */

void groups_cancel(struct job *j)
{
    for (struct job *part = j->parts_out ? j->members : NULL; part; part = part->member_next)
        atomic_store(&part->cancelled, true);
    if (!j->carrier) return;
    for (const struct job *m = j->carrier->members; m; m = m->member_next)
        if (!atomic_load(&m->cancelled)) return;
    atomic_store(&j->carrier->cancelled, true);
}
