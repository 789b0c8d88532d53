#include "daemon/sched/batch_groups.h"

#include <stddef.h>

/* A hash of key and server; a key belongs to one tenant's collection. */
static uint32_t chain_of(const struct ticket *t)
{
    uint64_t mixed = (uint64_t)(uintptr_t)t->batch_key * 0x9E3779B97F4A7C15u;
    mixed += (uint64_t)t->server * 0x165667B19E3779F9u;
    mixed ^= mixed >> 32;
    return (uint32_t)((mixed * 0x9E3779B97F4A7C15u) >> 54);
}

_Static_assert(BATCH_GROUPS_CHAINS == 1 << (64 - 54), "chain_of gives its upper bits");

/* Returns the first ticket of t's group. */
static struct ticket *group_of(const struct batch_groups *m, const struct ticket *t)
{
    struct ticket *first = m->chains[chain_of(t)];
    while (first && !batch_groups_are(first, t))
        first = first->group_next;
    return first;
}

/* Makes `first` the first ticket of its group, in place of `before` (NULL: the group is new). */
static void group_set(struct batch_groups *m, struct ticket *first, const struct ticket *before)
{
    struct ticket **head = &m->chains[chain_of(first)];
    first->group_next = before ? before->group_next : *head;
    first->group_previous = before ? before->group_previous : NULL;
    first->group_last = before ? before->group_last : first;
    first->group_queries = before ? before->group_queries : first->work.queries;
    if (first->group_next) first->group_next->group_previous = first;
    if (first->group_previous)
        first->group_previous->group_next = first;
    else
        *head = first;
}

static void group_end(struct batch_groups *m, const struct ticket *first)
{
    if (first->group_next) first->group_next->group_previous = first->group_previous;
    if (first->group_previous)
        first->group_previous->group_next = first->group_next;
    else
        m->chains[chain_of(first)] = first->group_next;
}

void batch_groups_add(struct batch_groups *m, struct ticket *t)
{
    if (!t->batch_key) return;
    struct ticket *first = group_of(m, t);
    t->mate_next = t->mate_previous = NULL;
    if (!first) {
        group_set(m, t, NULL);
        return;
    }
    t->mate_previous = first->group_last;
    first->group_last->mate_next = t;
    first->group_last = t;
    first->group_queries += t->work.queries;
}

void batch_groups_add_front(struct batch_groups *m, struct ticket *t)
{
    if (!t->batch_key) return;
    struct ticket *first = group_of(m, t);
    t->mate_previous = NULL;
    t->mate_next = first;
    group_set(m, t, first);
    if (!first) return;
    first->mate_previous = t;
    t->group_queries += t->work.queries;
}

void batch_groups_remove(struct batch_groups *m, struct ticket *t)
{
    if (!t->batch_key) return;
    struct ticket *next = t->mate_next, *previous = t->mate_previous;
    if (next) next->mate_previous = previous;
    if (previous) {
        struct ticket *first = group_of(m, t);
        previous->mate_next = next;
        if (!next) first->group_last = previous;
        first->group_queries -= t->work.queries;
    } else if (next) {
        group_set(m, next, t);
        next->group_queries -= t->work.queries;
    } else {
        group_end(m, t);
    }
    t->mate_next = t->mate_previous = NULL;
}

struct ticket *batch_groups_first(const struct batch_groups *m, const struct ticket *t)
{
    return group_of(m, t);
}

uint64_t batch_groups_queries(const struct batch_groups *m, const struct ticket *t)
{
    struct ticket *first = group_of(m, t);
    return first ? first->group_queries : 0;
}

struct ticket *batch_groups_last(const struct batch_groups *m, const struct ticket *t)
{
    struct ticket *first = group_of(m, t);
    return first ? first->group_last : NULL;
}
