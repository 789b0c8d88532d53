#include "tests/support/pieces.h"

#include <stdlib.h>
#include <time.h>

#include "daemon/exec/steps.h"
#include "daemon/ops/operation.h"

/* Shorter ones are counted, but their times are not kept. */
#define KEPT_MS 0.01

static double own_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void keep(struct pieces *p, double ms)
{
    if (p->capacity <= p->count) {
        p->capacity = p->capacity ? 2 * p->capacity : 1024;
        p->ms = realloc(p->ms, p->capacity * sizeof *p->ms);
        if (!p->ms) abort();
    }
    p->ms[p->count] = ms;
}

static void note(struct yielder *y)
{
    struct pieces *p = (struct pieces *)y;
    if (p->timed) {
        double now_ms = own_ms();
        if (now_ms - p->since_ms < KEPT_MS) return;
        keep(p, now_ms - p->since_ms);
        p->since_ms = now_ms;
    }
    p->count++;
}

enum status pieces_run(struct pieces *p, struct job *j)
{
    p->yielder.check = note;
    yield_now = &p->yielder;
    p->since_ms = own_ms();
    j->ops = operation_find(j->operation);
    enum status st = j->ops->plan(j);
    if (!st) {
        j->step = steps_begin_plan;
        note(&p->yielder);
        while (steps_run(j)) {
            note(&p->yielder);
            for (uint32_t part = 0; part < j->parts.count; part++) {
                steps_try_part(j, part, 0);
                note(&p->yielder);
            }
        }
        note(&p->yielder);
    }
    yield_now = NULL;
    return j->failure.code;
}

void pieces_finish(struct pieces *p)
{
    free(p->ms);
    *p = (struct pieces){0};
}
