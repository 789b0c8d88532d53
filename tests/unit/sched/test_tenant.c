/* A tenant: made with its quotas, all lines its own and empty; no memory is said. */
#include "daemon/sched/tenant.h"

#include <criterion/criterion.h>

#include "daemon/base/fault.h"

Test(tenant, begins_with_its_quotas_and_nothing_else)
{
    const struct quotas quotas = {.host_bytes = 1, .vram_bytes = 2, .queue_max = 3, .weight = 1000};
    struct tenant *t = tenant_create(7, &quotas);
    cr_assert(t);
    cr_assert_eq(t->space, 7);
    cr_assert_eq(t->quotas.weight, 1000);
    cr_assert_eq(t->quotas.queue_max, 3);
    cr_assert_eq(t->queued, 0);
    for (uint32_t i = 0; i < SERVERS_MAX; i++) {
        cr_assert_eq(t->flows[i].tenant, t);
        cr_assert(!t->flows[i].head && !t->flows[i].depth && !t->flows[i].deficit_ns);
    }
    tenant_destroy(t);
    tenant_destroy(NULL);
}

Test(tenant, no_memory_is_null)
{
    const struct quotas quotas = {.weight = 1};
    fault_arm(1);
    struct tenant *t = tenant_create(1, &quotas);
    cr_assert_geq(fault_hits(), 1);
    fault_arm(0);
    cr_assert_null(t);
}
