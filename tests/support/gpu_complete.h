/* gpu_complete: completions for the GPU process's server, and their answers by the scalar tables.
 * Owner:  tests. Thread: one. Errors: fail the test. */
#ifndef ENGRAM_TESTS_GPU_COMPLETE_H
#define ENGRAM_TESTS_GPU_COMPLETE_H

#include "tests/support/gpu_ask.h"

/* States that begin as rows of r, of which a third of the numbers is known if `masked`. */
struct order complete_ask(struct gpu_peer *p, const struct ask_rows *r, uint64_t states,
                          uint32_t rounds, bool unit, bool masked);
/* What an answered one left in the heap is right, to the bit. */
bool complete_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r);

#endif
