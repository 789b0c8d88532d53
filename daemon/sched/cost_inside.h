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

/* The shares of a prediction that the coefficients have, times their covariance; returned is the
 * prediction's variance because of them. */
double cost_doubt_along(const struct cost_line *l, const double shares[COST_FEATURES],
                        double along[COST_FEATURES]);
/* A prediction with such shares was told right, but for a variance of other causes. */
void cost_doubt_less(struct cost_line *l, const double along[COST_FEATURES], double all);

/* Forgets what was seen of times; how well runs ended is kept. spread: to start from. */
void cost_clear(struct cost_line *l, double spread);

#endif
