#include "daemon/sched/principal.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"

struct principal *principal_create(void)
{
    struct principal *p = fault_here("principal: create") ? NULL : calloc(1, sizeof *p);
    for (uint32_t i = 0; p && i < SERVERS_MAX; i++)
        p->stakes[i].turn.weight = 1;
    return p;
}

void principal_destroy(struct principal *p)
{
    if (!p) return;
    assert(!p->tenancies && !p->queued);
    free(p);
}

struct tenancy *tenancy_create(struct principal *p, struct tenant *t)
{
    struct tenancy *l = fault_here("tenancy: create") ? NULL : calloc(1, sizeof *l);
    if (!l) return NULL;
    l->principal = p;
    l->tenant = t;
    for (uint32_t i = 0; i < SERVERS_MAX; i++) {
        l->flows[i].tenancy = l;
        l->flows[i].stake = &p->stakes[i];
        l->flows[i].turn.weight = 1;
    }
    l->next = p->tenancies;
    if (l->next) l->next->previous = l;
    p->tenancies = l;
    l->space_next = t->tenancies;
    if (l->space_next) l->space_next->space_previous = l;
    t->tenancies = l;
    return l;
}

void tenancy_destroy(struct tenancy *l)
{
    if (!l) return;
    for (uint32_t i = 0; i < SERVERS_MAX; i++)
        assert(!l->flows[i].depth && !l->flows[i].in_flight && !l->flows[i].turn.next);
    if (l->previous)
        l->previous->next = l->next;
    else
        l->principal->tenancies = l->next;
    if (l->next) l->next->previous = l->previous;
    if (l->space_previous)
        l->space_previous->space_next = l->space_next;
    else
        l->tenant->tenancies = l->space_next;
    if (l->space_next) l->space_next->space_previous = l->space_previous;
    free(l);
}
