#include "daemon/sched/turnstile.h"

#include <assert.h>

static bool may_pass(const struct turnstile *t, const struct job *j)
{
    return !t->writer && (!j->writer || t->readers == 0);
}

static void pass(struct turnstile *t, struct job *j)
{
    if (j->writer)
        t->writer = true;
    else
        t->readers++;
    j->holds_turnstile = true;
}

bool turnstile_enter(struct turnstile *t, struct job *j)
{
    if (!t->waiting_head && may_pass(t, j)) {
        pass(t, j);
        return true;
    }
    j->next = NULL;
    j->previous = t->waiting_tail;
    if (t->waiting_tail)
        t->waiting_tail->next = j;
    else
        t->waiting_head = j;
    t->waiting_tail = j;
    return false;
}

struct job *turnstile_leave(struct turnstile *t, struct job *j)
{
    assert(j->holds_turnstile);
    j->holds_turnstile = false;
    if (j->writer)
        t->writer = false;
    else
        t->readers--;
    struct job *first = NULL, *last = NULL;
    while (t->waiting_head && may_pass(t, t->waiting_head)) {
        struct job *next = t->waiting_head;
        t->waiting_head = next->next;
        if (t->waiting_head)
            t->waiting_head->previous = NULL;
        else
            t->waiting_tail = NULL;
        next->next = next->previous = NULL;
        pass(t, next);
        if (last)
            last->next = next;
        else
            first = next;
        last = next;
    }
    return first;
}

bool turnstile_idle(const struct turnstile *t)
{
    return !t->readers && !t->writer && !t->waiting_head;
}
