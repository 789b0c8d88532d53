/* run_pairs: what requests that bind pairs of rows share: their two operands, each rows of a
 * replica or rows that come with the order, the tables of a dimension, and one pass over pairs.
 * Owner:  the task.
 * Thread: the device thread.
 * Errors: as each function says. */
#ifndef ENGRAM_GPU_RUN_PAIRS_H
#define ENGRAM_GPU_RUN_PAIRS_H

#include "daemon/gpu/run.h"

/* What comes back first: which row of an operand is not finite, which pair has no result, which
 * result no norm. UINT64_MAX: none. */
enum { CHECK_FIRST, CHECK_OTHER, CHECK_PAIRS, CHECK_NORMS, BIND_CHECKS };

/* A number of a result takes about as long as so many multiply-adds of scores: an H200 binds
 * 100,000 pairs of 1,024 numbers in some 0.4 ms. */
enum { BIND_NUMBER_MULTIPLY_ADDS = 256 };

/* Returns how many pairs the order's operands make. */
uint64_t run_pairs_count(const struct order_run *r);

/* Adds operands and tables to t's input and the checks to its results, all of which come back as
 * one copy. */
enum order_result run_pairs_plan(struct gpu *g, struct task *t);

/* Returns the scratch for a pass of so many pairs; after run_pairs_plan. */
struct cuda_hrr_scratch run_pairs_scratch(const struct gpu *g, const struct task *t,
                                          uint64_t pairs);

/* Enqueues t->pass_queries pairs from t->first_query on; before the first of them the check of rows
 * that come. out: rows, padded, of the pass; scratch: 256-byte aligned. */
enum device_result run_pairs_launch(struct gpu *g, struct task *t, float *out, void *scratch,
                                    uint64_t scratch_bytes);
/* Where that check of the results' norms goes. */
uint64_t *run_pairs_norms_check(const struct gpu *g, const struct task *t);

/* Of a pass of pairs or lists: enqueues the norms of its results, and the search for one that has
 * none; and what divides them by those. */
enum device_result run_measure_results(struct gpu *g, struct task *t, const float *out,
                                       float *norms, uint64_t *bad);
enum device_result run_normalize(struct gpu *g, struct task *t, float *out, float *norms,
                                 uint64_t *bad);

/* OK, or BAD_ROW if a pair has no result, whose number is in t->number then, of what came back.
 * measured: results must have a norm. */
enum order_result run_pairs_checked(struct task *t, const char *small, bool measured);

#endif
