#include "daemon/heap/card_totals.h"

#include <string.h>

/* More than this cannot pass between two looks: three days in ns, 256 TiB. */
#define RISE_MAX (UINT64_C(1) << 48)

void card_totals_look(struct card_totals *t, const struct share_usage *u)
{
    if (!u) return;
    const uint64_t now[CARD_TOTALS] = {
        [TOTAL_UPLOADS] = atomic_load(&u->uploads),
        [TOTAL_UPLOAD_BYTES] = atomic_load(&u->upload_bytes),
        [TOTAL_UPLOAD_NS] = atomic_load(&u->upload_ns),
        [TOTAL_EVICTIONS] = atomic_load(&u->evictions),
        [TOTAL_RUNS] = atomic_load(&u->runs),
        [TOTAL_RUN_NS] = atomic_load(&u->run_ns),
        [TOTAL_ERRORS] = atomic_load(&u->errors),
        [TOTAL_NO_MEMORY] = atomic_load(&u->no_memory),
        [TOTAL_SHRUNK] = atomic_load(&u->shrunk),
        [TOTAL_SPLIT] = atomic_load(&u->split),
    };
    for (int i = 0; i < CARD_TOTALS; i++)
        if (now[i] > t->last[i] && now[i] - t->last[i] < RISE_MAX) t->last[i] = now[i];
}

void card_totals_end_life(struct card_totals *t, const struct share_usage *u)
{
    card_totals_look(t, u);
    for (int i = 0; i < CARD_TOTALS; i++) {
        t->past[i] += t->last[i];
        t->last[i] = 0;
    }
}
