/* work: the features of a job when several run as one, or one as several; and what of its rows it
 * reads where these are asked in int8 first.
 * Owner:  whoever asks.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_SCHED_WORK_H
#define ENGRAM_SCHED_WORK_H

#include "daemon/base/job.h"
#include "daemon/base/ticket.h"

/* Adds `more` to w, as one job: k is the larger of both, filtered if either is. */
void work_merge(struct work *w, const struct work *more);

/* What w expects of int8 on a backend, each part in 0..1. */
struct work_screen work_screen_on(const struct work *w, enum backend_id b);
/* Bytes of rows that are read once, in either form; products of two numbers, of which one of int8
 * counts as the part of a float32 that it reads. */
double work_row_bytes(const struct work *w, enum backend_id b);
double work_products(const struct work *w, enum backend_id b);
/* What w read on that backend is what `did` says, and not what was expected. */
void work_note_screen(struct work *w, enum backend_id b, const struct job_screen *did);

/* Returns the work of that many of w's queries. */
struct work work_part(const struct work *w, uint64_t queries);

#endif
