#include "daemon/sched/probes.h"

#include <math.h>

enum {
    INTERVAL_MIN = 16,
    INTERVAL_MAX = 256,
    INTERVAL_GAIN = 8,
    INTERVAL_LOST = 64, /* at most, for a road that became slower */
    CONFIRMED = 3,      /* surprises in a row: it is so */
    HASTE = 5,          /* more than that will not teach the model either */
};

static const double SURPRISE = 3; /* times what was predicted, or its inverse */

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
    l->saved_ns += (double)chosen_ns * p->share;

    /* What should even gain time is held back for want of confidence or of success, and either
     * comes by trying: soon again while probes come back. */
    bool gains = other_ns <= chosen_ns;
    double costs = gains ? 0 : (double)(other_ns - chosen_ns);
    uint64_t due_at = l->next_at, octave = octave_bit(chosen_ns);
    if (gains)
        due_at = l->last_at + (l->answered ? INTERVAL_GAIN : least(l->interval, INTERVAL_LOST));
    /* Sizes that had their turn let others go first, and so does work that the other road would
     * take long over: less hangs on it. Not for ever: there may be none. */
    else if (!l->surprises)
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
        l->interval = INTERVAL_MIN;
        l->next_at = least(l->next_at, l->decided + (slower ? INTERVAL_MIN : 1));
        l->tried = 0;
    }
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
