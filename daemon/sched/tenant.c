#include "daemon/sched/tenant.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"

struct tenant *tenant_create(uint32_t space, const struct quotas *quotas)
{
    struct tenant *t = fault_here("tenant: create") ? NULL : calloc(1, sizeof *t);
    if (!t) return NULL;
    t->space = space;
    t->quotas = *quotas;
    return t;
}

void tenant_destroy(struct tenant *t)
{
    if (!t) return;
    assert(!t->queued && !t->tenancies);
    free(t);
}
