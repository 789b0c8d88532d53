#include "daemon/sched/turnstile.h"

#include <assert.h>

/* Below, `before` is the last of those that wait before o; NULL: nobody does. What a job names
 * twice, to read and to write it, stands in line twice, and does not wait for itself. */

enum { OBJECTS = OPERATION_OBJECTS_MAX };

static struct turnstile *line_of(const struct job_object *o)
{
    return &o->resident->turnstile;
}

/* ---------------------------------------------------------------- whose turn it is */

static bool same_client(const struct job *a, const struct job *b)
{
    return a != b && a->key.connection && a->key.connection == b->key.connection;
}

/* True if o's client has sent a write before it that is not done. Writers begin in the order of
 * their numbers, so this takes no walk: thousands may wait, and are asked whenever a write ends. */
static bool own_write_waits(const struct turnstile *t, const struct job_object *o)
{
    if (t->writer && same_client(t->writer, o->job)) return true;
    return o->own_write > t->number_passed;
}

/* Returns the number of the last writer among o and what else its job names of that line. */
static uint64_t write_of(const struct job_object *o)
{
    uint64_t number = o->own_write;
    for (uint32_t i = 0; i < OBJECTS; i++) {
        const struct job_object *other = &o->job->objects[i];
        if (other->writer && other->resident == o->resident) number = other->number;
    }
    return number;
}

/* Finds the last write of its client that waits before o, which is not in line yet. */
static void find_own_write(struct job_object *o)
{
    const struct turnstile *t = line_of(o);
    bool may_be = t->waiting_writers && o->job->key.connection;
    const struct job_object *before = may_be ? t->waiting_tail : NULL;
    while (before && !same_client(before->job, o->job))
        before = before->previous;
    o->own_write = before ? write_of(before) : 0;
}

static bool writer_waits(const struct turnstile *t, const struct job_object *o,
                         const struct job_object *before)
{
    if (!t->waiting_writers) return false;
    while (before && (!before->writer || before->job == o->job))
        before = before->previous;
    return before != NULL;
}

/* True if o's client has sent before it what reads, and must not see what o writes. */
static bool own_reader_waits(const struct job_object *o, const struct job_object *before)
{
    for (; before; before = before->previous)
        if (!before->writer && same_client(before->job, o->job)) return true;
    return false;
}

static bool may_pass(const struct job_object *o, const struct job_object *before)
{
    const struct turnstile *t = line_of(o);
    if (!o->writer) return !own_write_waits(t, o);
    if (operation_drops(o->job->operation)) return !before && !t->writer && !t->readers;
    return !t->writer && !writer_waits(t, o, before) && !own_reader_waits(o, before);
}

/* Pins what j reads, as it is now. False: some of it is just written in place. */
static bool pin_all(struct job *j)
{
    bool all = true;
    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct job_object *o = &j->objects[i];
        if (!o->resident || o->writer) continue;
        const struct resident_ops *ops = o->resident->ops;
        bool now = o->pinned ? ops->renew(o) : ops->begin(o);
        o->pinned |= now;
        all &= now;
    }
    return all;
}

static void hold_all(struct job *j)
{
    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct job_object *o = &j->objects[i];
        if (!o->resident) continue;
        if (o->writer) {
            line_of(o)->writer = j;
            o->resident->ops->begin(o);
        } else {
            line_of(o)->readers++;
        }
    }
    j->holds_turnstile = true;
}

/* False: j cannot begin now. waits: it stands in line already. */
static bool pass(struct job *j, bool waits)
{
    for (uint32_t i = 0; i < OBJECTS; i++) {
        const struct job_object *o = &j->objects[i];
        if (o->resident && !may_pass(o, waits ? o->previous : line_of(o)->waiting_tail))
            return false;
    }
    if (!pin_all(j)) return false;
    hold_all(j);
    return true;
}

/* ---------------------------------------------------------------- in line */

static void line_join(struct job_object *o)
{
    struct turnstile *t = line_of(o);
    o->next = NULL;
    o->previous = t->waiting_tail;
    o->number = ++t->number_last;
    if (t->waiting_tail)
        t->waiting_tail->next = o;
    else
        t->waiting_head = o;
    t->waiting_tail = o;
    t->waiting_writers += o->writer;
}

static void line_quit(struct job_object *o)
{
    struct turnstile *t = line_of(o);
    if (o->previous)
        o->previous->next = o->next;
    else
        t->waiting_head = o->next;
    if (o->next)
        o->next->previous = o->previous;
    else
        t->waiting_tail = o->previous;
    o->next = o->previous = NULL;
    t->waiting_writers -= o->writer;
}

/* o begins. */
static void line_begin(struct job_object *o)
{
    struct turnstile *t = line_of(o);
    line_quit(o);
    if (o->writer)
        t->number_passed = o->number;
    else
        t->looks_again = t->waiting_writers > 0;
}

/* o does not wait any more. Its client's jobs up to the next write wait for the write before it, if
 * any. Where somebody may begin now, the line is to be looked at again. */
static void line_withdraw(struct job_object *o)
{
    struct turnstile *t = line_of(o);
    bool kept_readers = false;
    for (struct job_object *later = o->writer ? o->next : NULL; later; later = later->next) {
        if (!same_client(later->job, o->job)) continue;
        if (later->own_write != o->number) break;
        later->own_write = o->own_write;
        kept_readers |= !later->writer;
    }
    line_quit(o);
    t->looks_again |= kept_readers || (!t->writer && t->waiting_writers);
}

static void each_line(struct job *j, void (*change)(struct job_object *o))
{
    for (uint32_t i = 0; i < OBJECTS; i++)
        if (j->objects[i].resident) change(&j->objects[i]);
}

struct passed {
    struct job *first, *last;
};

/* Lets the jobs in one line enter as far as they may. What one names twice stands there
 * together. */
static void line_pass(struct turnstile *t, struct passed *out)
{
    for (struct job_object *o = t->waiting_head, *next; o; o = next) {
        struct job *j = o->job;
        for (next = o->next; next && next->job == j;)
            next = next->next;
        if (!pass(j, true)) continue;
        each_line(j, line_begin);
        j->next = NULL;
        if (out->last)
            out->last->next = j;
        else
            out->first = j;
        out->last = j;
    }
    t->looks_again = false;
}

/* True if others may begin now that o's job has left. Nobody but who drops waits for a reader that
 * has begun. */
static bool left_for_others(const struct job_object *o)
{
    const struct job_object *head = line_of(o)->waiting_head;
    return head && (o->writer || operation_drops(head->job->operation));
}

/* j has left its lines, or what it held. A job that passes several lines may have kept others in
 * those. */
static struct job *let_pass(struct job *j, bool held)
{
    struct passed out = {0};
    for (uint32_t i = 0; i < OBJECTS; i++) {
        const struct job_object *o = &j->objects[i];
        if (o->resident && (held ? left_for_others(o) : line_of(o)->looks_again))
            line_pass(line_of(o), &out);
    }
    for (struct job *in = out.first; in; in = in->next)
        for (uint32_t i = 0; i < OBJECTS; i++) {
            const struct job_object *o = &in->objects[i];
            if (o->resident && line_of(o)->looks_again) line_pass(line_of(o), &out);
        }
    return out.first;
}

/* ---------------------------------------------------------------- for the pipeline */

bool turnstile_enter(struct job *j)
{
    for (uint32_t i = 0; i < OBJECTS; i++)
        j->objects[i].job = j;
    each_line(j, find_own_write);
    if (pass(j, false)) return true;
    each_line(j, line_join);
    return false;
}

void turnstile_share(struct job *j, const struct job *from)
{
    struct job_object *o = &j->objects[0];
    *o = (struct job_object){.resident = from->objects[0].resident, .job = j, .pinned = true};
    o->resident->ops->share(o, &from->objects[0]);
    line_of(o)->readers++;
    j->holds_turnstile = true;
}

void turnstile_adopt(struct job *j, const struct job *from)
{
    struct job_object *o = &j->objects[0];
    assert(j->holds_turnstile && o->pinned && o->resident == from->objects[0].resident);
    o->resident->ops->end(o);
    o->resident->ops->share(o, &from->objects[0]);
}

static void end_reads(struct job *j)
{
    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct job_object *o = &j->objects[i];
        if (o->pinned) o->resident->ops->end(o);
        o->pinned = false;
    }
}

struct job *turnstile_leave(struct job *j)
{
    assert(j->holds_turnstile);
    j->holds_turnstile = false;
    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct job_object *o = &j->objects[i];
        if (!o->resident) continue;
        if (o->writer) {
            line_of(o)->writer = NULL;
            o->resident->ops->end(o);
        } else {
            line_of(o)->readers--;
        }
    }
    end_reads(j);
    return let_pass(j, true);
}

struct job *turnstile_withdraw(struct job *j)
{
    assert(!j->holds_turnstile);
    each_line(j, line_withdraw);
    end_reads(j);
    return let_pass(j, false);
}

bool turnstile_idle(const struct turnstile *t)
{
    return !t->readers && !t->writer && !t->waiting_head;
}

bool turnstile_has_writers(const struct turnstile *t)
{
    return t->writer || t->waiting_writers;
}
