/* cost_inside: what cost.c and cost_fit.c share.
 * Owner:  cost.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_SCHED_COST_INSIDE_H
#define ENGRAM_SCHED_COST_INSIDE_H

#include "daemon/sched/cost.h"

enum { COST_READERS_MAX = 12 /* so many cores use all of the memory's bandwidth */ };

/* Computes the features of work on a backend, in the units of the coefficients. */
void cost_features(const struct cost_model *m, const struct work *w, enum backend_id b,
                   double features[COST_FEATURES]);

struct cost_line *cost_line_at(struct cost_model *m, enum backend_id b, uint32_t operation);

/* The variance of a prediction that consists of coefficients in these shares. */
double cost_doubt(const struct cost_line *l, const double shares[COST_FEATURES]);
/* The covariance of each coefficient with that prediction: covariance matrix times shares. */
void cost_doubt_along(const struct cost_line *l, const double shares[COST_FEATURES],
                      double along[COST_FEATURES]);
/* Reduces the uncertainty after an observation; all: the variance of the whole prediction. */
void cost_doubt_less(struct cost_line *l, const double along[COST_FEATURES], double all);
/* Makes the coefficients as uncertain as built-in ones. */
void cost_doubt_all(struct cost_line *l);

/* Forgets the times that were seen, but not how runs ended. spread: the value to start from. */
void cost_clear(struct cost_line *l, double spread);

#endif
