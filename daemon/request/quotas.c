#include "daemon/request/quotas.h"

#include <assert.h>

#include "daemon/base/log.h"
#include "daemon/request/principals.h"

static void forget(void *owner, struct space *space)
{
    struct heap *heap = owner;
    heap_quota(heap, space->number, 0);
    if (space->tenant) principals_forget_tenant(space->tenant);
    tenant_destroy(space->tenant);
    space->tenant = NULL;
}

void quotas_init(struct store *store, struct heap *heap)
{
    store_on_forget(store, forget, heap);
}

struct quotas quotas_of(const struct pipeline *p, const char *space)
{
    struct space_quotas q = config_quotas(p->config, space);
    return (struct quotas){
        .host_bytes = q.host_mib << 20,
        .vram_bytes = q.vram_mib << 20,
        .queue_max = q.queue,
        .connections_max = q.connections,
        .weight = q.weight,
    };
}

struct tenant *quotas_tenant(struct pipeline *p, struct space *space)
{
    if (space->tenant) return space->tenant;
    struct quotas q = quotas_of(p, space->name);
    if (heap_quota(p->heap, space->number, q.host_bytes)) return NULL;
    space->vram_bytes_max = q.vram_bytes;
    space->tenant = tenant_create(space->number, &q);
    return space->tenant;
}

enum status quotas_admit_connection(struct pipeline *p, struct connection *c, struct failure *f)
{
    struct tenant *t = quotas_tenant(p, c->space);
    if (!t)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for another space");
    uint32_t max = t->quotas.connections_max;
    if (max && t->connections >= max) {
        t->refused_connections++;
        if (p->config->observe.enabled)
            space_counts_of(&p->spaces, c->space)->refused_connections++;
        failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_QUOTA,
                    "the space has %u connections, its quota is %u (quotas.connections)",
                    t->connections, max);
        f->retry_after_ms = RETRY_CONNECTION_MS;
        return f->code;
    }
    enum status st = principals_enter(p, c, c->space, f);
    if (!st) t->connections++;
    return st;
}

void quotas_release_connection(struct pipeline *p, struct connection *c)
{
    assert(c->space->tenant && c->space->tenant->connections > 0);
    c->space->tenant->connections--;
    principals_leave(p, c);
}

void quotas_refresh(struct pipeline *p)
{
    for (struct space *s = store_space_next(p->store, NULL); s; s = store_space_next(p->store, s)) {
        if (!s->tenant) continue; /* its quotas come with it */
        struct quotas q = quotas_of(p, s->name);
        if (heap_quota(p->heap, s->number, q.host_bytes))
            log_warning("quotas: no memory to bound space %s; its old quota of memory stays",
                        s->name);
        s->vram_bytes_max = q.vram_bytes;
        s->tenant->quotas = q;
    }
}
