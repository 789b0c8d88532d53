#include "daemon/base/fault.h"

#include <stdatomic.h>
#include <stddef.h>

bool fault_armed;
static atomic_uint fault_count;
static atomic_uint fault_nth;
static _Atomic(const char *) fault_site;

void fault_arm(uint32_t nth)
{
    atomic_store(&fault_nth, nth);
    atomic_store(&fault_count, 0);
    atomic_store(&fault_site, NULL);
    __atomic_store_n(&fault_armed, nth != 0, __ATOMIC_SEQ_CST);
}

uint32_t fault_hits(void)
{
    return atomic_load(&fault_count);
}

const char *fault_fired(void)
{
    return atomic_load(&fault_site);
}

bool fault_reach(const char *site)
{
    if (atomic_fetch_add(&fault_count, 1) + 1 != atomic_load(&fault_nth)) return false;
    atomic_store(&fault_site, site);
    return true;
}
