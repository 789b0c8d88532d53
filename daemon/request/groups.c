#include "daemon/request/groups.h"

#include <assert.h>
#include <string.h>

#include "daemon/ops/operation.h"
#include "daemon/exec/parts.h"
#include "daemon/request/jobs.h"

/* ---------------------------------------------------------------- several as one */

struct job *groups_carrier(struct pipeline *p, struct ticket *first)
{
    struct job *oldest = job_of(first);
    struct job *carrier = job_take_own(p, oldest->space, OPERATION_KNN_BATCH);
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

struct job *groups_next_member(struct pipeline *p, struct job *carrier, const struct ticket *first,
                               enum batch_end *end)
{
    struct job *m = batch_take(carrier, end);
    if (m) {
        m->backend = carrier->backend;
        m->reason = carrier->reason;
        /* What failed together, and not by one's fault, is not tried together again; what was not
         * run for one's fault is, once: there may be more of that kind, and more may come. Alone it
         * may wait for memory. */
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
    carrier->collection = NULL;
    job_move(carrier, JOB_DONE);
    job_give(p, carrier);
    return NULL;
}

/* ---------------------------------------------------------------- one as several */

static struct job *take_part(struct pipeline *p, struct job *whole, uint64_t first, uint64_t count)
{
    struct job *part = job_take_own(p, whole->space, whole->operation);
    if (!part) return NULL;
    parts_make_request(whole, part, first, count);
    part->received_ns = whole->received_ns;
    part->ticket = (struct ticket){
        .tenant = whole->ticket.tenant,
        .work = operation_work(part),
        .arrived_ns = whole->ticket.arrived_ns,
        .other = SERVERS_MAX,
    };
    part->member_next = whole->members;
    whole->members = part;
    job_move(part, JOB_QUEUED);
    return part;
}

static bool end_part(struct pipeline *p, struct job *part)
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

bool groups_split(struct pipeline *p, struct job *whole, uint64_t queries, struct job *parts[2])
{
    uint64_t all = whole->request.queries.rows;
    assert(queries > 0 && queries < all);
    parts[0] = take_part(p, whole, 0, queries);
    if (!parts[0]) return false;
    parts[1] = take_part(p, whole, queries, all - queries);
    if (parts[1]) return true;
    end_part(p, parts[0]);
    parts_forget(whole);
    return false;
}

bool groups_part_done(struct pipeline *p, struct job *part)
{
    struct job *whole = part->whole;
    whole->result.version = part->result.version;
    whole->result.rows = part->result.rows;
    /* One backend in the end, where a part came back from the other. */
    whole->backend |= part->backend;
    if (part->gpu.gave_up) whole->reason = part->gpu.gave_up;
    return end_part(p, part);
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
