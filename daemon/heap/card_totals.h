/* card_totals: what a card has done over all lives of its process, of which each counts from 0.
 * Owner:  cards/process.c.
 * Thread: the loop.
 * Errors: none. A GPU process may write anything where it counts: what falls, or rises by more than
 *         anything can, is not believed, so a total never falls. */
#ifndef ENGRAM_HEAP_CARD_TOTALS_H
#define ENGRAM_HEAP_CARD_TOTALS_H

#include "daemon/heap/share.h"

enum card_total {
    TOTAL_UPLOADS,
    TOTAL_UPLOAD_BYTES,
    TOTAL_UPLOAD_NS,
    TOTAL_EVICTIONS,
    TOTAL_RUNS,
    TOTAL_RUN_NS,
    TOTAL_ERRORS,
    TOTAL_NO_MEMORY,
    TOTAL_SHRUNK,
    TOTAL_SPLIT,
    CARD_TOTALS,
};

struct card_totals {
    uint64_t past[CARD_TOTALS]; /* of the lives that ended */
    uint64_t last[CARD_TOTALS]; /* as last seen of the present one */
};

/* Reads the counters of the present life; NULL: there is none. */
void card_totals_look(struct card_totals *t, const struct share_usage *u);
/* The present life's counters are read for the last time, and the next one counts from 0. */
void card_totals_end_life(struct card_totals *t, const struct share_usage *u);

static inline uint64_t card_totals_of(const struct card_totals *t, enum card_total which)
{
    return t->past[which] + t->last[which];
}

#endif
