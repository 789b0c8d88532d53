/* A tenant: made with its quotas, without tenancies; no memory is said. */
#include "daemon/sched/principal.h"

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
    cr_assert_null(t->tenancies);
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

Test(principal, lanes_are_known_from_both_sides)
{
    const struct quotas quotas = {.weight = 1};
    struct tenant *spaces[2] = {tenant_create(1, &quotas), tenant_create(2, &quotas)};
    struct principal *peers[2] = {principal_create(), principal_create()};
    struct tenancy *tenancies[4];
    for (uint32_t i = 0; i < 4; i++) {
        tenancies[i] = tenancy_create(peers[i / 2], spaces[i % 2]);
        for (uint32_t n = 0; n < SERVERS_MAX; n++) {
            const struct flow *f = &tenancies[i]->flows[n];
            cr_assert(f->tenancy == tenancies[i] && f->stake == &peers[i / 2]->stakes[n]);
            cr_assert(!f->head && !f->depth && !f->turn.deficit_ns && f->turn.weight == 1);
        }
    }
    cr_assert(spaces[0]->tenancies == tenancies[2] && tenancies[2]->space_next == tenancies[0]);
    cr_assert(peers[1]->tenancies == tenancies[3] && tenancies[3]->next == tenancies[2]);
    tenancy_destroy(tenancies[0]);
    tenancy_destroy(tenancies[3]);
    cr_assert(spaces[0]->tenancies == tenancies[2] && !tenancies[2]->space_next &&
              !tenancies[2]->previous);
    cr_assert(spaces[1]->tenancies == tenancies[1] && !tenancies[1]->space_next &&
              !tenancies[1]->next);
    tenancy_destroy(tenancies[1]);
    tenancy_destroy(tenancies[2]);
    tenancy_destroy(NULL);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(!spaces[i]->tenancies && !peers[i]->tenancies);
        principal_destroy(peers[i]);
        tenant_destroy(spaces[i]);
    }
    principal_destroy(NULL);
}

Test(principal, no_memory_is_null)
{
    fault_arm(1);
    struct principal *p = principal_create();
    fault_arm(0);
    cr_assert_null(p);
    p = principal_create();
    struct tenant *t = tenant_create(1, &(const struct quotas){.weight = 1});
    fault_arm(1);
    struct tenancy *l = tenancy_create(p, t);
    fault_arm(0);
    cr_assert(!l && !p->tenancies && !t->tenancies);
    principal_destroy(p);
    tenant_destroy(t);
}
