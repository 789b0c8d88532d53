#include "daemon/sched/turnstile.h"

#include <assert.h>

/* Below, `before` is the last of those that wait before j; NULL: nobody does. */

static bool same_client(const struct job *a, const struct job *b)
{
    return a->key.connection && a->key.connection == b->key.connection;
}

/* True if j's client has sent a write before it that is not done. */
static bool own_write_waits(const struct turnstile *t, const struct job *j,
                            const struct job *before)
{
    if (t->writer && same_client(t->writer, j)) return true;
    if (!t->waiting_writers) return false;
    for (; before; before = before->previous)
        if (before->writer && same_client(before, j)) return true;
    return false;
}

static bool writer_waits(const struct turnstile *t, const struct job *before)
{
    while (before && t->waiting_writers && !before->writer)
        before = before->previous;
    return before && t->waiting_writers;
}

static bool drops(const struct job *j)
{
    return operation_row(j->operation)->access == ACCESS_DROP;
}

static bool may_pass(const struct turnstile *t, const struct job *j, const struct job *before)
{
    if (!t->versions || drops(j)) return !before && !t->writer && (!j->writer || t->readers == 0);
    if (j->writer) return !t->writer && !writer_waits(t, before);
    return !own_write_waits(t, j, before);
}

/* False: it cannot begin now. */
static bool pass(struct turnstile *t, struct job *j, const struct job *before)
{
    if (!may_pass(t, j, before)) return false;
    if (j->resident && !j->resident->ops->begin(j->resident, j)) return false;
    if (j->writer)
        t->writer = j;
    else
        t->readers++;
    j->holds_turnstile = true;
    return true;
}

bool turnstile_enter(struct turnstile *t, struct job *j)
{
    if (pass(t, j, t->waiting_tail)) return true;
    j->next = NULL;
    j->previous = t->waiting_tail;
    if (t->waiting_tail)
        t->waiting_tail->next = j;
    else
        t->waiting_head = j;
    t->waiting_tail = j;
    t->waiting_writers += j->writer;
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
    t->waiting_writers -= j->writer;
}

/* Lets the jobs in line enter as far as they may. Returns them, linked by next. */
static struct job *let_pass(struct turnstile *t)
{
    struct job *first = NULL, *last = NULL;
    for (struct job *j = t->waiting_head, *next; j; j = next) {
        next = j->next;
        if (!pass(t, j, j->previous)) {
            if (t->versions) continue;
            break;
        }
        waiting_remove(t, j);
        if (last)
            last->next = j;
        else
            first = j;
        last = j;
    }
    return first;
}

struct job *turnstile_leave(struct turnstile *t, struct job *j)
{
    assert(j->holds_turnstile);
    j->holds_turnstile = false;
    if (j->writer)
        t->writer = NULL;
    else
        t->readers--;
    if (j->resident) j->resident->ops->end(j->resident, j);
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
    return t->writer || t->waiting_writers;
}
