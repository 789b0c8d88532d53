/* fault: places that tests can make fail, one after the other (tests/torture). A fallible step
 * asks `if (fault_here("heap: take"))` and then acts as if the call had failed.
 * Owner:  base. Unarmed it costs one load and one branch that is never taken.
 * Thread: any; arm and disarm while nothing else runs.
 * Errors: none. */
#ifndef ENGRAM_BASE_FAULT_H
#define ENGRAM_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the nth place that is reached from now on (1-based) fail; UINT32_MAX: only count; 0:
 * disarm. */
void fault_arm(uint32_t nth);
/* Returns how many places were reached since arming; if at least nth, the fault has fired. */
uint32_t fault_hits(void);
/* Returns the name of the place that failed, or NULL. */
const char *fault_fired(void);

extern bool fault_armed;
bool fault_reach(const char *site);

static inline bool fault_here(const char *site)
{
    return __builtin_expect(__atomic_load_n(&fault_armed, __ATOMIC_RELAXED), 0) &&
           fault_reach(site);
}

#endif
