/* progress: how far a job is, for clients that ask.
 * Owner:  the job. An operation that says nothing is measured by its parts.
 * Thread: progress_begin: one that alone has the job; progress_add: those that run it;
 *         progress_read: any.
 * Errors: none. */
#ifndef ENGRAM_BASE_PROGRESS_H
#define ENGRAM_BASE_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

/* As numbered on the wire. */
enum progress_phase {
    PROGRESS_NONE = 0,
    PROGRESS_WAITING = 1,
    PROGRESS_RUNNING = 2,
    PROGRESS_ROWS = 3,
    PROGRESS_MEAN = 4,
    PROGRESS_PRODUCTS = 5,
    PROGRESS_PAIRS = 6,
    PROGRESS_MERGES = 7,
    PROGRESS_SCORES = 8,
    PROGRESS_REPLY = 9,
    PROGRESS_SAVING = 10,
};

struct job_progress {
    atomic_uint phase;
    atomic_ullong done, total; /* total 0: parts are counted */
    atomic_uint parts;         /* of the step that it is in */
};

/* How far it is at one instant: done <= total; total 0: not known. */
struct progress_view {
    enum progress_phase phase;
    uint64_t done, total;
};

static inline void progress_begin(struct job_progress *p, enum progress_phase phase, uint64_t total)
{
    atomic_store(&p->phase, PROGRESS_NONE);
    atomic_store(&p->done, 0);
    atomic_store(&p->total, total);
    atomic_store(&p->phase, phase);
}

static inline void progress_add(struct job_progress *p, uint64_t done)
{
    atomic_fetch_add_explicit(&p->done, done, memory_order_relaxed);
}

/* parts_left: of the step that it is in. */
static inline struct progress_view progress_read(const struct job_progress *p, uint32_t parts_left)
{
    struct progress_view v = {.phase = (enum progress_phase)atomic_load(&p->phase)};
    v.done = atomic_load(&p->done);
    v.total = atomic_load(&p->total);
    if (!v.total) {
        v.total = atomic_load(&p->parts);
        v.done = parts_left < v.total ? v.total - parts_left : 0;
    }
    if (v.done > v.total) v.done = v.total; /* a phase may have ended between two of the loads */
    if (v.phase == PROGRESS_NONE) v.phase = PROGRESS_RUNNING;
    return v;
}

#endif
