/* cost_inside: what cost.c and cost_fit.c share.
 * Owner:  cost.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_COST_INSIDE_H
#define ENGRAM_SCHED_COST_INSIDE_H

#include "daemon/sched/cost.h"

/* Work in the units of coefficients. */
void cost_features(const struct work *w, double features[COST_FEATURES]);

struct cost_line *cost_line_at(struct cost_model *m, enum backend_id b, uint32_t operation);

/* Forgets what was seen of times; how well runs ended is kept. spread: to start from. */
void cost_clear(struct cost_line *l, double spread);

#endif
