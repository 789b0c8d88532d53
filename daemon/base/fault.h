/* fault: sites that tests can make fail, one after the other (tests/torture).
 * A fallible step asks `if (fault_here("heap: take")) -> as if the call had failed`.
 * Owner:  base. Unarmed it costs one load and one branch that is never taken.
 * Thread: any; arm and disarm while nothing else runs.
 * Errors: none. */
#ifndef ENGRAM_BASE_FAULT_H
#define ENGRAM_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* Only the nth site reached from now on (1-based) fails; UINT32_MAX: only count. 0 disarms. */
void fault_arm(uint32_t nth);
/* Sites reached since arming; at least nth means that the fault fired. */
uint32_t fault_hits(void);
/* Name of the site that fired, or NULL. */
const char *fault_fired(void);

extern bool fault_armed;
bool fault_reach(const char *site);

static inline bool fault_here(const char *site)
{
    return __builtin_expect(__atomic_load_n(&fault_armed, __ATOMIC_RELAXED), 0) &&
           fault_reach(site);
}

#endif
