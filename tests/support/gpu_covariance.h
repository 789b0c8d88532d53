/* gpu_covariance: covariances for the GPU process's server, and their answers by the definition.
 * Owner:  tests. Thread: one. Errors: fail the test. */
#ifndef ENGRAM_TESTS_GPU_COVARIANCE_H
#define ENGRAM_TESTS_GPU_COVARIANCE_H

#include "tests/support/gpu_ask.h"

/* Of all rows of r or, if `listed`, of some of them, one twice; of rows that come with the order if
 * `brought`. */
struct order covariance_ask(struct gpu_peer *p, const struct ask_rows *r, bool listed,
                            bool weighted, bool brought);
/* What an answered one left in the heap is right, to the bit. */
bool covariance_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r);

#endif
