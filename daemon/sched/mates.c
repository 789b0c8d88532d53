#include "daemon/sched/mates.h"

#include <stddef.h>

/* By key and server: a key is some tenant's own collection. */
static uint32_t chain_of(const struct ticket *t)
{
    uint64_t mixed = (uint64_t)(uintptr_t)t->batch_key * 0x9E3779B97F4A7C15u;
    mixed += (uint64_t)t->server * 0x165667B19E3779F9u;
    mixed ^= mixed >> 32;
    return (uint32_t)((mixed * 0x9E3779B97F4A7C15u) >> 54);
}

_Static_assert(MATES_CHAINS == 1 << (64 - 54), "chain_of gives its upper bits");

void mates_add(struct mates *m, struct ticket *t)
{
    if (!t->batch_key) return;
    struct mates_chain *c = &m->chains[chain_of(t)];
    t->mate_next = NULL;
    t->mate_previous = c->tail;
    if (c->tail)
        c->tail->mate_next = t;
    else
        c->head = t;
    c->tail = t;
}

void mates_add_front(struct mates *m, struct ticket *t)
{
    if (!t->batch_key) return;
    struct mates_chain *c = &m->chains[chain_of(t)];
    t->mate_previous = NULL;
    t->mate_next = c->head;
    if (c->head)
        c->head->mate_previous = t;
    else
        c->tail = t;
    c->head = t;
}

void mates_remove(struct mates *m, struct ticket *t)
{
    if (!t->batch_key) return;
    struct mates_chain *c = &m->chains[chain_of(t)];
    if (t->mate_previous)
        t->mate_previous->mate_next = t->mate_next;
    else
        c->head = t->mate_next;
    if (t->mate_next)
        t->mate_next->mate_previous = t->mate_previous;
    else
        c->tail = t->mate_previous;
    t->mate_next = t->mate_previous = NULL;
}

struct ticket *mates_first(const struct mates *m, const struct ticket *t)
{
    return m->chains[chain_of(t)].head;
}

struct ticket *mates_last(const struct mates *m, const struct ticket *t)
{
    return m->chains[chain_of(t)].tail;
}
