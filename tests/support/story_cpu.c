/* The CPU backend of a story: each worker has one step or part of a job at a time, which takes a
 * while and has then been done, all at once. Which job is worked on next is up to chance. */
#include <stdlib.h>

#include "daemon/exec/steps.h"
#include "daemon/ops/operation.h"
#include "tests/support/story.h"

#define PART_NS UINT64_C(20000)

/* A job that the CPU has. */
struct story_unit {
    struct job *job;
    bool in_parts;      /* else its next step is to be run */
    uint32_t next_part; /* that nobody has */
    uint32_t left;      /* parts that are not done */
    bool stepping;      /* a worker has its step */
};

/* What a worker does, until it has been done. */
struct story_turn {
    struct story_unit *unit;
    uint32_t worker, part;
    bool is_part;
};

static struct story *story_of(struct backend *b)
{
    return (struct story *)((char *)b - offsetof(struct story, cpu));
}

static bool has_work(const struct story_unit *u)
{
    return u->in_parts ? u->next_part < u->job->parts.count : !u->stepping;
}

static void done(struct story *s, struct story_turn *t);

static void happen(struct story *s, void *subject)
{
    done(s, subject);
}

/* Idle workers take what there is. */
static void go_on(struct story *s)
{
    for (uint32_t w = 0; w < s->settings.workers; w++) {
        if (s->worker_busy[w]) continue;
        struct story_unit *unit = NULL;
        uint32_t first = s->unit_count ? (uint32_t)story_random(s, s->unit_count) : 0;
        for (uint32_t i = 0; i < s->unit_count && !unit; i++) {
            struct story_unit *u = s->units[(first + i) % s->unit_count];
            if (has_work(u)) unit = u;
        }
        if (!unit) return;
        struct story_turn *t = calloc(1, sizeof *t);
        if (!t) abort();
        *t = (struct story_turn){unit, w, 0, unit->in_parts};
        if (unit->in_parts)
            t->part = unit->next_part++;
        else
            unit->stepping = true;
        s->worker_busy[w] = true;
        story_at(s, s->now_ns + story_about(s, story_chance(s, 20) ? 50 * PART_NS : PART_NS),
                 happen, t);
    }
}

static void end(struct story *s, struct story_unit *u)
{
    struct job *j = u->job;
    for (uint32_t i = 0; i < s->unit_count; i++)
        if (s->units[i] == u) s->units[i] = s->units[--s->unit_count];
    free(u);
    /* One that no backend has was compared with the first of its token (request/compare.h); and an
     * attractor's tables are no request's. */
    if (job_written(j) && j->backend != BACKEND_NONE && j->operation != OPERATION_TABLES)
        story_wrote(s, j);
    done_push(&s->done, j);
}

static void done(struct story *s, struct story_turn *t)
{
    struct story_unit *u = t->unit;
    struct job *j = u->job;
    bool over = false;
    story_note(s, t->is_part ? "part" : "step", j->operation, t->part);
    s->worker_busy[t->worker] = false;
    if (t->is_part) {
        steps_try_part(j, t->part, t->worker);
        if (--u->left == 0) u->in_parts = u->stepping = false;
    } else if (steps_run(j)) {
        u->in_parts = true;
        u->next_part = 0;
        u->left = j->parts.count;
    } else {
        over = true;
    }
    free(t);
    if (over) end(s, u);
    go_on(s);
}

static void run(struct backend *b, struct job *j, void (*step)(struct job *j))
{
    struct story *s = story_of(b);
    struct story_unit *u = calloc(1, sizeof *u);
    if (!u) abort();
    STORY_CHECK(s, s->unit_count < STORY_UNITS_MAX, "the CPU has too many jobs");
    u->job = j;
    j->step = step;
    s->units[s->unit_count++] = u;
    go_on(s);
}

static enum status submit(struct backend *b, struct job *j)
{
    enum status st = operation_find(j->operation)->plan(j);
    if (!st) run(b, j, steps_begin_plan);
    return st;
}

void story_cpu_open(struct story *s)
{
    static const struct backend_ops ops = {.name = "story", .submit = submit, .run = run};
    s->cpu.ops = &ops;
}

uint32_t story_cpu_jobs(const struct story *s)
{
    return s->unit_count;
}
