#include "daemon/exec/work_queue.h"

enum { LEVEL_SHIFT = 21, OTHERS_TIMES = 3 };
#define SLACK_NS UINT64_C(2000000)

static void insert_behind(struct work_queue *q, struct job *before, struct job *j)
{
    j->previous = before;
    j->next = before ? before->next : q->head;
    if (j->next)
        j->next->previous = j;
    else
        q->tail = j;
    if (before)
        before->next = j;
    else
        q->head = j;
    if (q->head == j) q->oldest_ns = q->others_ns = 0;
}

void work_queue_add(struct work_queue *q, struct job *j)
{
    j->arrival = ++q->arrivals;
    insert_behind(q, q->tail, j);
}

void work_queue_add_again(struct work_queue *q, struct job *j)
{
    struct job *before = NULL;
    for (struct job *at = q->head; at && at->arrival < j->arrival; at = at->next)
        before = at;
    insert_behind(q, before, j);
}

void work_queue_remove(struct work_queue *q, struct job *j)
{
    if (q->head == j) q->oldest_ns = q->others_ns = 0;
    if (j->previous)
        j->previous->next = j->next;
    else
        q->head = j->next;
    if (j->next)
        j->next->previous = j->previous;
    else
        q->tail = j->previous;
    j->next = j->previous = NULL;
}

unsigned work_queue_level(uint64_t worked_ns)
{
    uint64_t units = worked_ns >> LEVEL_SHIFT;
    return units ? 64 - (unsigned)__builtin_clzll(units) : 0;
}

static unsigned level_of(struct job *j)
{
    return work_queue_level(atomic_load_explicit(&j->worked_ns, memory_order_relaxed));
}

struct job *work_queue_choose(const struct work_queue *q)
{
    if (!q->head || q->others_ns > OTHERS_TIMES * q->oldest_ns + SLACK_NS) return q->head;
    struct job *best = q->head;
    unsigned least = level_of(best);
    for (struct job *j = best->next; j && least; j = j->next) {
        unsigned level = level_of(j);
        if (level >= least) continue;
        best = j;
        least = level;
    }
    return best;
}

static bool is_among(const struct job *j, struct job *const *others, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (others[i] == j) return true;
    return false;
}

struct job *work_queue_choose_shorter(const struct work_queue *q, unsigned level,
                                      struct job *const *others, unsigned count)
{
    struct job *best = NULL;
    for (struct job *j = q->head; j && level; j = j->next) {
        unsigned own = level_of(j), part = work_queue_level(j->plan.part_ns);
        if (part > own) own = part;
        if (own >= level || is_among(j, others, count)) continue;
        best = j;
        level = own;
    }
    return best;
}

void work_queue_spent(struct work_queue *q, const struct job *j, uint64_t ns)
{
    if (j == q->head)
        q->oldest_ns += ns;
    else if (q->head)
        q->others_ns += ns;
}
