#include "daemon/sched/history.h"

void decisions_add(struct decisions *d, const struct decision *one)
{
    d->kept[d->count++ % DECISIONS_KEPT] = *one;
}

uint32_t decisions_of(const struct decisions *d, uint32_t space, struct decision *out, uint32_t max)
{
    uint64_t kept = d->count < DECISIONS_KEPT ? d->count : DECISIONS_KEPT;
    uint32_t found = 0;
    for (uint64_t back = 1; back <= kept && found < max; back++) {
        const struct decision *one = &d->kept[(d->count - back) % DECISIONS_KEPT];
        if (one->space == space) out[found++] = *one;
    }
    return found;
}
