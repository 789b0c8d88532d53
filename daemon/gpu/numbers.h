/* numbers: checks of numbers that kernels use as indices, as they come in: a wrong one would be an
 * invalid access on the device, and the end of the process.
 * Owner:  nobody; no state.
 * Thread: any.
 * Errors: false. */
#ifndef ENGRAM_GPU_NUMBERS_H
#define ENGRAM_GPU_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* u32 below a limit; u64 that never fall, up to it; struct spread_list whose edges are below it;
 * struct spread_edge and spread_seed whose nodes are. */
enum numbers {
    NUMBERS_ANY,
    NUMBERS_POSITIONS,
    NUMBERS_OFFSETS,
    NUMBERS_LISTS,
    NUMBERS_EDGES,
    NUMBERS_SEEDS
};

/* True if the numbers that begin at `at` are valid; offsets: none less than `before`. limit <
 * 2^63. */
bool numbers_sound(enum numbers numbers, uint64_t limit, const void *at, uint64_t bytes,
                   uint64_t before);

#endif
