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

static void waiting_remove(struct turnstile *t, struct job *j)
{
    if (j->previous)
        j->previous->next = j->next;
    else
        t->waiting_head = j->next;
    if (j->next)
        j->next->previous = j->previous;
    else
        t->waiting_tail = j->previous;
    j->next = j->previous = NULL;
}

/* Lets the jobs in front enter as far as they may: several readers, or one writer. Returns them,
 * linked by next. */
static struct job *let_pass(struct turnstile *t)
{
    struct job *first = NULL, *last = NULL;
    while (t->waiting_head && may_pass(t, t->waiting_head)) {
        struct job *next = t->waiting_head;
        waiting_remove(t, next);
        pass(t, next);
        if (last)
            last->next = next;
        else
            first = next;
        last = next;
    }
    return first;
}

struct job *turnstile_leave(struct turnstile *t, struct job *j)
{
    assert(j->holds_turnstile);
    j->holds_turnstile = false;
    if (j->writer)
        t->writer = false;
    else
        t->readers--;
    return let_pass(t);
}

struct job *turnstile_withdraw(struct turnstile *t, struct job *j)
{
    assert(!j->holds_turnstile);
    waiting_remove(t, j);
    return let_pass(t);
}

bool turnstile_idle(const struct turnstile *t)
{
    return !t->readers && !t->writer && !t->waiting_head;
}

bool turnstile_has_writers(const struct turnstile *t)
{
    const struct job *j = t->waiting_head;
    while (j && !j->writer)
        j = j->next;
    return t->writer || j;
}
