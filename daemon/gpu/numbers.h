/* numbers: those that kernels follow, looked at on their way in: one that led out of what it points
 * into would be a fault of the device, and the end of the process.
 * Owner:  nobody; no state.
 * Thread: any.
 * Errors: false. */
#ifndef ENGRAM_GPU_NUMBERS_H
#define ENGRAM_GPU_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* u32 below a limit; u64 that never fall, up to it; struct spread_list whose edges lie below it;
 * struct spread_edge and spread_seed whose nodes do. */
enum numbers {
    NUMBERS_ANY,
    NUMBERS_POSITIONS,
    NUMBERS_OFFSETS,
    NUMBERS_LISTS,
    NUMBERS_EDGES,
    NUMBERS_SEEDS
};

/* Whether those that begin at `at` are as they must be; offsets: after `before`. limit < 2^63. */
bool numbers_sound(enum numbers numbers, uint64_t limit, const void *at, uint64_t bytes,
                   uint64_t before);

#endif
