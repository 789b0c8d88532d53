/* sweep: how much of an exhaustive test runs. make test runs all of it; make check, which sets
 * ENGRAM_TEST_QUICK, a part.
 * Owner:  nobody.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_TESTS_SWEEP_H
#define ENGRAM_TESTS_SWEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline bool sweep_is_quick(void)
{
    return getenv("ENGRAM_TEST_QUICK") != NULL;
}

/* The step through what is to be tried: 1, or `quick`. */
static inline uint32_t sweep_stride(uint32_t quick)
{
    return sweep_is_quick() ? quick : 1;
}

#endif
