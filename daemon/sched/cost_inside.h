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

/* The variance of a prediction that is made of coefficients in such shares. */
double cost_doubt(const struct cost_line *l, const double shares[COST_FEATURES]);
/* How far each coefficient goes with that prediction: covariance times shares. */
void cost_doubt_along(const struct cost_line *l, const double shares[COST_FEATURES],
                      double along[COST_FEATURES]);
/* A prediction was told right; all: its variance, of coefficients and all else. */
void cost_doubt_less(struct cost_line *l, const double along[COST_FEATURES], double all);
/* Coefficients are as doubtful as built-in ones. */
void cost_doubt_all(struct cost_line *l);

/* Forgets what was seen of times; how well runs ended is kept. spread: to start from. */
void cost_clear(struct cost_line *l, double spread);

#endif
