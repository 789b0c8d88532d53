#include "daemon/sched/flows.h"

#include <assert.h>

#include "daemon/sched/fair.h"

static void count_in(struct scheduler *s, struct ticket *t, uint64_t now_ns)
{
    struct flow *f = flows_of(t);
    assert(!t->members && t->server < s->server_count);
    if (!f->depth++) fair_join(&s->servers[t->server], f, now_ns);
    f->queued_ns += t->charge_ns;
    f->stake->queued_ns += t->charge_ns;
    s->servers[t->server].queued_ns += t->charge_ns;
    t->tenancy->tenant->queued++;
    t->tenancy->principal->queued++;
    t->tenancy->queued++;
}

void flows_push(struct scheduler *s, struct ticket *t, uint64_t now_ns)
{
    struct flow *f = flows_of(t);
    t->next = NULL;
    t->previous = f->tail;
    if (f->tail)
        f->tail->next = t;
    else
        f->head = t;
    f->tail = t;
    batch_groups_add(&s->waiting, t);
    count_in(s, t, now_ns);
}

void flows_push_front(struct scheduler *s, struct ticket *t, uint64_t now_ns)
{
    struct flow *f = flows_of(t);
    t->previous = NULL;
    t->next = f->head;
    if (f->head)
        f->head->previous = t;
    else
        f->tail = t;
    f->head = t;
    batch_groups_add_front(&s->waiting, t);
    count_in(s, t, now_ns);
}

void flows_remove(struct scheduler *s, struct ticket *t)
{
    struct flow *f = flows_of(t);
    assert(f->depth && (t->previous || f->head == t) && (t->next || f->tail == t));
    if (t->previous)
        t->previous->next = t->next;
    else
        f->head = t->next;
    if (t->next)
        t->next->previous = t->previous;
    else
        f->tail = t->previous;
    t->next = t->previous = NULL;
    batch_groups_remove(&s->waiting, t);
    f->queued_ns -= t->charge_ns;
    f->stake->queued_ns -= t->charge_ns;
    s->servers[t->server].queued_ns -= t->charge_ns;
    t->tenancy->tenant->queued--;
    t->tenancy->principal->queued--;
    t->tenancy->queued--;
    if (!--f->depth) fair_leave(&s->servers[t->server], f);
}
