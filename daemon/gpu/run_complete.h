/* run_complete: how many states are completed at once, so that a round of them lasts not long.
 * Owner, thread: none; pure functions. Errors: none. */
#ifndef ENGRAM_GPU_RUN_COMPLETE_H
#define ENGRAM_GPU_RUN_COMPLETE_H

#include <stdint.h>

/* How many multiply-adds of a round a device does in a microsecond, about, that does so many of
 * many kNN queries; at least 1. */
uint64_t run_complete_rate(uint64_t multiply_adds);
/* States of which a round over `rows` >= 1 rows lasts some ORDER_PASS_NS at that rate: 8, 16 or a
 * multiple of 32 up to CUDA_COMPLETION_STATES_MAX. Eight may take longer: the rows are read twice,
 * however few states there are. */
uint64_t run_complete_states(uint64_t rate, uint64_t rows, uint32_t dimension);

#endif
