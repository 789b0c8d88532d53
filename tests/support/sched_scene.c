#include "tests/support/sched_scene.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

struct sched_scene sched_scene_open(bool gpu)
{
    const struct scheduler_settings settings = {
        .speedup_min = 1.5,
        .success_min = 0.95,
        .pairs_min = 64,
        .candidates_min = 1024,
        .nodes_min = 512,
        .window_ns = MS,
        .quantum_ns = 500 * US,
        .age_ns = 1000 * MS,
        .batch_wait_ns = 500 * US,
        .batch_queries_max = 256,
        .batch_requests_max = 256,
        .batch_bytes_max = 64 << 20,
    };
    struct sched_scene c = {.s = malloc(sizeof *c.s),
                            .tickets = calloc(SCENE_TICKETS, sizeof *c.tickets)};
    cr_assert(c.s && c.tickets);
    scheduler_init(c.s, &settings, 4);
    c.s->probes.share = 0;
    scheduler_set_server(c.s, SERVER_CPU, true, 16, 0);
    if (gpu) scheduler_set_server(c.s, SERVER_GPU, true, 16, 0);
    const struct quotas quotas = {.weight = 1};
    for (uint32_t i = 0; i < SCENE_TENANTS; i++) {
        c.tenants[i] = tenant_create(i + 1, &quotas);
        c.principals[i] = principal_create();
        cr_assert(c.tenants[i] && c.principals[i]);
        c.tenancies[i] = tenancy_create(c.principals[i], c.tenants[i]);
        cr_assert(c.tenancies[i]);
    }
    return c;
}

void sched_scene_close(struct sched_scene *c)
{
    for (uint32_t i = 0; i < SCENE_TENANTS; i++) {
        tenancy_destroy(c->tenancies[i]);
        principal_destroy(c->principals[i]);
        tenant_destroy(c->tenants[i]);
    }
    free(c->tickets);
    free(c->s);
}

void sched_scene_costs(struct scheduler *s, enum backend_id b, struct scene_cost cost)
{
    s->model.workers = 1; /* so that brief work costs what it is said to */
    for (uint32_t i = 0; i < COST_OPERATIONS; i++) {
        struct cost_line *l = &s->model.lines[b == BACKEND_GPU][i];
        memset(l, 0, sizeof *l);
        l->overlap = 1;
        l->coefficients[0] = cost.fixed;
        l->coefficients[1] = cost.per_row / (32 * sizeof(float));
        l->coefficients[5] = cost.per_pair;
    }
}

struct ticket *sched_scene_ticket(struct sched_scene *c, uint32_t tenant, uint64_t queries)
{
    cr_assert(c->taken < SCENE_TICKETS);
    struct ticket *t = &c->tickets[c->taken++];
    t->tenancy = c->tenancies[tenant];
    t->arrived_ns = c->now_ns;
    t->work = (struct work){
        .operation = OPERATION_KNN,
        .stride = 32,
        .k = 10,
        .gpu_able = true,
        .queries = queries,
        .rows = 1000,
        .pairs = 1000 * queries,
    };
    t->splits = true;
    return t;
}

void sched_scene_enqueue(struct sched_scene *c, struct ticket *t)
{
    const struct situation known = {
        .server = SERVER_GPU, .replica_ready = true, .gpu_absent = c->s->server_count == 1};
    scheduler_enqueue(c->s, t, &known, c->now_ns);
}

struct ticket *sched_scene_send(struct sched_scene *c, uint32_t tenant, uint64_t queries)
{
    struct ticket *t = sched_scene_ticket(c, tenant, queries);
    sched_scene_enqueue(c, t);
    return t;
}

struct ticket *sched_scene_next(struct sched_scene *c)
{
    struct dispatch d;
    return scheduler_next(c->s, c->now_ns, &d) ? d.first : NULL;
}

void sched_scene_finish(struct sched_scene *c, struct ticket *first)
{
    uint64_t took = first->charge_ns < c->now_ns ? first->charge_ns : c->now_ns;
    struct scheduler_run run = {.started_ns = c->now_ns - took, .ended_ns = c->now_ns};
    scheduler_finish(c->s, first, END_WELL, &run);
}

void sched_scene_drain(struct sched_scene *c)
{
    bool more = true;
    while (more) {
        while (sched_scene_next(c))
            continue;
        c->now_ns += 10 * MS;
        more = false;
        for (uint32_t i = 0; i < c->s->server_count; i++) {
            struct server *sv = &c->s->servers[i];
            more |= sv->usable && sv->flow_count;
            while (sv->oldest)
                sched_scene_finish(c, sv->oldest);
        }
    }
    cr_assert(sched_scene_is_clean(c));
}

bool sched_scene_is_clean(const struct sched_scene *c)
{
    for (uint32_t i = 0; i < c->s->server_count; i++) {
        const struct server *sv = &c->s->servers[i];
        if (sv->in_flight || sv->charged_ns || sv->window_ns || sv->queued_ns ||
            sv->principals.count || sv->flow_count || sv->principals.weights || sv->oldest ||
            sv->newest || sv->alone)
            return false;
    }
    for (uint32_t i = 0; i < BATCH_GROUPS_CHAINS; i++) {
        if (c->s->waiting.chains[i] || c->s->running.chains[i]) return false;
    }
    for (uint32_t i = 0; i < SCENE_TENANTS; i++) {
        if (c->tenants[i]->queued || c->principals[i]->queued) return false;
        for (uint32_t n = 0; n < SERVERS_MAX; n++) {
            const struct flow *f = &c->tenancies[i]->flows[n];
            if (f->depth || f->in_flight || f->queued_ns || f->head || f->turn.next) return false;
        }
    }
    return true;
}
