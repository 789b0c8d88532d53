/* fake_inside: what the files of the fake daemon share.
 * Owner:  fake_daemon.c.
 * Thread: the fake's.
 * Errors: none. */
#ifndef ENGRAM_TESTS_FAKE_INSIDE_H
#define ENGRAM_TESTS_FAKE_INSIDE_H

#include "daemon/base/job.h"

/* Appends a tensor of made-up numbers to the body. */
void fake_add(struct job *j, uint8_t *body, size_t slot, enum dtype dtype, uint64_t rows,
              uint64_t columns);

/* ---- fake_recall.c ---- */
void fake_completed(struct job *j, uint8_t *body);
void fake_engine(struct job *j, uint8_t *body);
void fake_recalled(struct job *j, uint8_t *body);
void fake_covariance(struct job *j, uint8_t *body);
void fake_clusters(struct job *j, uint8_t *body);

#endif
