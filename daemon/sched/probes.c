#include "daemon/sched/probes.h"

enum {
    INTERVAL_MIN = 16,
    INTERVAL_MAX = 256,
    INTERVAL_GAIN = 8,
    CONFIRMED = 3, /* surprises in a row: no haste any more */
};

void probes_init(struct probes *p, double share)
{
    *p = (struct probes){.share = share};
    for (uint32_t b = 0; b < 2; b++)
        for (uint32_t i = 0; i < COST_OPERATIONS; i++) {
            p->lines[b][i].interval = INTERVAL_MIN;
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

/* Whether it is the turn of work that takes so long. Sizes that had theirs let others go first, but
 * not for ever: there may be none. */
static bool is_turn(const struct probe_line *l, uint64_t chosen_ns, uint64_t due_at)
{
    if (l->decided < due_at) return false;
    bool tried = l->tried >> (63 - __builtin_clzll(chosen_ns | 1)) & 1;
    return !tried || l->decided >= due_at + l->interval;
}

bool probes_due(struct probes *p, enum backend_id other, uint32_t operation, uint64_t chosen_ns,
                uint64_t other_ns)
{
    if (p->share <= 0) return false;
    struct probe_line *l = line_of(p, other, operation);
    l->decided++;
    l->saved_ns += (double)chosen_ns * p->share;

    /* What should even gain time is held back for want of confidence or of success, and either
     * comes by trying: sooner once the last one came back. */
    bool gains = other_ns <= chosen_ns;
    double costs = gains ? 0 : (double)(other_ns - chosen_ns);
    uint64_t gain_at = l->last_at + (l->answered ? INTERVAL_GAIN : INTERVAL_MIN);
    uint64_t due_at = gains ? least(l->next_at, gain_at) : l->next_at;
    if (costs > l->saved_ns || !is_turn(l, chosen_ns, due_at)) return false;

    uint64_t octave = UINT64_C(1) << (63 - __builtin_clzll(chosen_ns | 1));
    l->tried = l->tried & octave ? octave : l->tried | octave;
    l->saved_ns -= costs;
    l->last_at = l->decided;
    l->next_at = l->decided + l->interval;
    l->interval = least(l->interval * 2, INTERVAL_MAX);
    l->answered = false;
    l->probes++;
    return true;
}

void probes_saw(struct probes *p, enum backend_id b, uint32_t operation, uint64_t predicted_ns,
                uint64_t seen_ns)
{
    if (!predicted_ns || !seen_ns) return;
    struct probe_line *l = line_of(p, b, operation);
    l->answered = true;
    double ratio = (double)seen_ns / (double)predicted_ns;
    if (ratio < 1.5 && ratio > 1 / 1.5) {
        l->surprises = 0;
        return;
    }
    /* The road is not what it was: it is looked at until the model has followed; then soon and ever
     * less often, for it may become again what it was. */
    l->surprising++;
    l->surprises++;
    l->interval = INTERVAL_MIN;
    l->next_at =
        least(l->next_at, l->decided + (l->surprises < CONFIRMED ? 1 : (uint64_t)INTERVAL_MIN));
    l->tried = 0;
}
