/* sched_scene: a scheduler whose predictions a test can do in its head, and tickets for it. */
#ifndef ENGRAM_TESTS_SCHED_SCENE_H
#define ENGRAM_TESTS_SCHED_SCENE_H

#include "daemon/sched/scheduler.h"

enum { SCENE_TICKETS = 4096, SCENE_TENANTS = 32 };

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

struct sched_scene {
    struct scheduler *s;
    struct tenant *tenants[SCENE_TENANTS]; /* weight 1 */
    struct principal *principals[SCENE_TENANTS];
    struct tenancy *tenancies[SCENE_TENANTS]; /* each tenant has a principal of its own */
    struct ticket *tickets;                   /* SCENE_TICKETS, zeroed */
    uint32_t taken;
    uint64_t now_ns;
};

/* The CPU, and where gpu is set one GPU; no probes. Costs are set by sched_scene_costs. */
struct sched_scene sched_scene_open(bool gpu);
void sched_scene_close(struct sched_scene *c);

/* A run takes fixed + rows * per_row + pairs * per_pair, in ns, and is sure of it. */
struct scene_cost {
    double fixed, per_row, per_pair;
};
void sched_scene_costs(struct scheduler *s, enum backend_id b, struct scene_cost cost);

/* A kNN of so many queries on 1,000 rows of 32 floats, k = 10. */
struct ticket *sched_scene_ticket(struct sched_scene *c, uint32_t tenant, uint64_t queries);
/* Into line, with a replica that is ready on GPU 1. */
void sched_scene_enqueue(struct sched_scene *c, struct ticket *t);
/* A ticket of so many queries, in line. */
struct ticket *sched_scene_send(struct sched_scene *c, uint32_t tenant, uint64_t queries);
/* NULL: nothing now. */
struct ticket *sched_scene_next(struct sched_scene *c);
/* It ends now, after just what it was charged for, or as much as there was. */
void sched_scene_finish(struct sched_scene *c, struct ticket *first);

/* Runs everything that there is; it leaves nothing behind. */
void sched_scene_drain(struct sched_scene *c);
/* Nothing is in line or in flight and every sum is back at zero. */
bool sched_scene_is_clean(const struct sched_scene *c);

#endif
