#include "daemon/sched/probes.h"

#include <math.h>

enum {
    INTERVAL_MIN = 16,
    INTERVAL_MAX = 256,
    INTERVAL_GAIN = 8,
    INTERVAL_BARRED = 64, /* the longest, while probes that should gain time do not succeed */
    INTERVAL_SLOWER = 20, /* the first, after a backend became slower */
    INTERVAL_LOST = 24,   /* the longest, after that */
    HURRIED = 10,         /* how many probes are paid for sooner then, */
    HURRY = 10,           /* by saving so many times as much */
    CONFIRMED = 3,        /* as many surprises in a row are believed */
    HASTE = 5,            /* surprises beyond that do not teach the model either */
    DECISIVE = 8,         /* a backend that takes longer by more than this is probed less */
};

/* a run that took this many times its prediction, or its inverse */
static const double SURPRISE = 3;
static const double SLIDES = 1.3; /* a run slower by this factor continues a slide, */
static const double SLID = 6;     /* and a slide of this much means that the backend has changed */

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

static uint32_t octave_of(uint64_t ns)
{
    return 63 - (uint32_t)__builtin_clzll(ns | 1);
}

/* The part of the share that goes to probes of a backend that should take other_ns. One that is far
 * slower is not chosen after a probe either, unless that surprises; and there each probe costs all
 * workers as much as tens of the requests that it is paid by. */
static double part_for(const struct probe_line *l, uint64_t chosen_ns, uint64_t other_ns)
{
    double ratio = (double)other_ns / (double)(chosen_ns ? chosen_ns : 1);
    bool changing = l->hurried || l->surprises;
    return ratio <= DECISIVE || changing ? 1 : DECISIVE / ratio;
}

bool probes_due(struct probes *p, enum backend_id other, uint32_t operation, uint64_t chosen_ns,
                uint64_t other_ns)
{
    if (p->share <= 0) return false;
    struct probe_line *l = line_of(p, other, operation);
    uint32_t size = octave_of(chosen_ns);
    l->decided++;
    l->saved_ns[size] +=
        (double)chosen_ns * p->share * part_for(l, chosen_ns, other_ns) * (l->hurried ? HURRY : 1);

    /* A backend that should be faster was not chosen for lack of confidence or for its failures.
     * Either changes by trying it, so it is probed often as long as probes succeed. */
    bool gains = other_ns <= chosen_ns;
    double costs = gains ? 0 : (double)(other_ns - chosen_ns);
    uint64_t due_at = l->next_at, octave = UINT64_C(1) << size;
    if (gains)
        due_at = l->last_at + (l->answered ? INTERVAL_GAIN : least(l->interval, INTERVAL_BARRED));
    /* Sizes that were probed already wait for other sizes, and so does work that would take much
     * longer on the other backend, since less depends on it. Only for a while: there may be no
     * others. */
    else if (!l->surprises && !l->hurried)
        due_at += (l->tried & octave ? l->interval : 0) +
                  (costs > 0.5 * (double)chosen_ns ? l->interval : 0);
    if (l->decided < due_at || costs > l->saved_ns[size]) return false;

    if (gains && l->answered)
        l->interval = INTERVAL_MIN;
    else
        l->interval = least(l->interval * 2, l->lost ? INTERVAL_LOST : INTERVAL_MAX);
    l->next_at = l->decided + l->interval;
    l->tried = l->tried & octave ? octave : l->tried | octave;
    l->saved_ns[size] -= costs;
    l->staked_ns = costs;
    l->staked = size;
    l->last_at = l->decided;
    l->answered = false;
    l->hurried -= l->hurried > 0;
    l->probes++;
    return true;
}

/* The backend has changed, and probably for other operations, too: each is probed soon, and then
 * less and less often as long as it does not surprise. */
static void backend_changed(struct probe_line lines[COST_OPERATIONS], bool slower)
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

/* A model that learns fast is surprised only once, so the sum of a slide in a row is watched. */
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
    if (probe && seen_ns < predicted_ns) { /* the probe cost less than was set aside for it */
        double back = fmin((double)(predicted_ns - seen_ns), l->staked_ns);
        l->saved_ns[l->staked] += back;
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
    if (l->surprises == CONFIRMED) backend_changed(p->lines[b == BACKEND_GPU], slower);
}
