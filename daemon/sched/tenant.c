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
    for (uint32_t i = 0; i < SERVERS_MAX; i++)
        t->flows[i].tenant = t;
    return t;
}

void tenant_destroy(struct tenant *t)
{
    if (!t) return;
    assert(!t->queued);
    for (uint32_t i = 0; i < SERVERS_MAX; i++)
        assert(!t->flows[i].depth && !t->flows[i].in_flight && !t->flows[i].next);
    free(t);
}
