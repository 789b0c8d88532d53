#include "daemon/sched/probes.h"

#include <math.h>

enum {
    INTERVAL_MIN = 16,
    INTERVAL_MAX = 256,
    INTERVAL_GAIN = 8,
    INTERVAL_BARRED = 64, /* at most, while what should gain does not come back */
    INTERVAL_SLOWER = 20, /* of a road that became slower, at first */
    INTERVAL_LOST = 24,   /* and at most */
    HURRIED = 10,         /* its first probes then, for which */
    HURRY = 10,           /* so many times as much is saved */
    CONFIRMED = 3,        /* surprises in a row: it is so */
    HASTE = 5,            /* more than that will not teach the model either */
};

static const double SURPRISE = 3; /* times what was predicted, or its inverse */
static const double SLIDES = 1.3; /* times: so much slower in a row, */
static const double SLID = 6;     /* and so much together: it is another road now */

void probes_init(struct probes *p, double share)
{
    *p = (struct probes){.share = share};
    for (uint32_t b = 0; b < 2; b++)
        for (uint32_t i = 0; i < COST_OPERATIONS; i++) {
            p->lines[b][i].interval = INTERVAL_MIN;
            p->lines[b][i].answered = true;
            p->lines[b][i].next_at = INTERVAL_MIN;
        }
}

static struct probe_line *line_of(struct probes *p, enum backend_id b, uint32_t operation)
{
    return &p->lines[b == BACKEND_GPU][cost_line_of(operation)];
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t octave_bit(uint64_t ns)
{
    return UINT64_C(1) << (63 - __builtin_clzll(ns | 1));
}

bool probes_due(struct probes *p, enum backend_id other, uint32_t operation, uint64_t chosen_ns,
                uint64_t other_ns)
{
    if (p->share <= 0) return false;
    struct probe_line *l = line_of(p, other, operation);
    l->decided++;
    l->saved_ns += (double)chosen_ns * p->share * (l->hurried ? HURRY : 1);

    /* What should even gain time is held back for want of confidence or of success, and either
     * comes by trying: soon again while probes come back. */
    bool gains = other_ns <= chosen_ns;
    double costs = gains ? 0 : (double)(other_ns - chosen_ns);
    uint64_t due_at = l->next_at, octave = octave_bit(chosen_ns);
    if (gains)
        due_at = l->last_at + (l->answered ? INTERVAL_GAIN : least(l->interval, INTERVAL_BARRED));
    /* Sizes that had their turn let others go first, and so does work that the other road would
     * take long over: less hangs on it. Not for ever: there may be none. */
    else if (!l->surprises && !l->hurried)
        due_at += (l->tried & octave ? l->interval : 0) +
                  (costs > 0.5 * (double)chosen_ns ? l->interval : 0);
    if (l->decided < due_at || costs > l->saved_ns) return false;

    if (gains && l->answered)
        l->interval = INTERVAL_MIN;
    else
        l->interval = least(l->interval * 2, l->lost ? INTERVAL_LOST : INTERVAL_MAX);
    l->next_at = l->decided + l->interval;
    l->tried = l->tried & octave ? octave : l->tried | octave;
    l->saved_ns -= costs;
    l->staked_ns = costs;
    l->last_at = l->decided;
    l->answered = false;
    l->hurried -= l->hurried > 0;
    l->probes++;
    return true;
}

/* The backend is not what it was, for other operations neither, it seems: each has a look soon, and
 * if that does not surprise, ever less often. */
static void road_changed(struct probe_line lines[COST_OPERATIONS], bool slower)
{
    for (uint32_t i = 0; i < COST_OPERATIONS; i++) {
        struct probe_line *l = &lines[i];
        l->lost = slower;
        l->hurried = slower ? HURRIED : 0;
        l->slid = 0;
        l->interval = slower ? INTERVAL_SLOWER : INTERVAL_MIN;
        l->next_at = least(l->next_at, l->decided + (slower ? INTERVAL_SLOWER : 1));
        l->tried = 0;
    }
}

/* A model that learns fast is surprised once: what counts is how far it slid in a row. */
static void watch_slide(struct probe_line *l, double ratio)
{
    if (ratio < SLIDES) {
        l->slid = 0;
        return;
    }
    bool again = l->slid > 0;
    l->slid += log(ratio);
    if (!again || l->slid < log(SLID)) return;
    l->lost = true;
    l->hurried = HURRIED;
    l->interval = INTERVAL_SLOWER;
    l->next_at = least(l->next_at, l->decided + INTERVAL_SLOWER);
    l->slid = 0;
}

void probes_saw(struct probes *p, enum backend_id b, uint32_t operation, uint64_t predicted_ns,
                uint64_t seen_ns, bool probe)
{
    if (!predicted_ns || !seen_ns) return;
    struct probe_line *l = line_of(p, b, operation);
    l->answered |= probe;
    if (probe && seen_ns < predicted_ns) { /* it cost less than was set aside */
        double back = fmin((double)(predicted_ns - seen_ns), l->staked_ns);
        l->saved_ns += back;
        l->staked_ns -= back;
    }
    double ratio = (double)seen_ns / (double)predicted_ns;
    watch_slide(l, ratio);
    if (ratio < SURPRISE && ratio > 1 / SURPRISE) {
        l->surprises = 0;
        return;
    }
    bool slower = ratio > 1;
    if (l->surprises && slower != l->slower) l->surprises = 0;
    l->slower = slower;
    l->surprising++;
    l->surprises++;
    if (l->surprises > HASTE || (l->surprises < 2 && !probe)) return;
    l->next_at = least(l->next_at, l->decided + 1);
    if (l->surprises == CONFIRMED) road_changed(p->lines[b == BACKEND_GPU], slower);
}
