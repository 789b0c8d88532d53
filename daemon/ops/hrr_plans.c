#include "daemon/ops/hrr_plans.h"

#include <pthread.h>
#include <stdlib.h>

#include "daemon/base/fault.h"

enum { KEPT = 16 };

/* A place; dimension 0: free. */
struct hrr_tables {
    uint32_t dimension;
    uint32_t users;
    uint64_t used; /* larger means used later */
    void *memory;
    const struct hrr_plan *plan;
};

static struct {
    pthread_mutex_t lock;
    struct hrr_tables places[KEPT];
    uint64_t used_last;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns the place of that dimension, or the one to make it in; NULL: all are in use. */
static struct hrr_tables *find_place(uint32_t dimension)
{
    struct hrr_tables *oldest = NULL;
    for (uint32_t i = 0; i < KEPT; i++) {
        struct hrr_tables *t = &kept.places[i];
        if (t->dimension == dimension) return t;
        if (!t->users && (!oldest || t->used < oldest->used)) oldest = t;
    }
    return oldest;
}

static struct hrr_tables *find(uint32_t dimension)
{
    struct hrr_tables *t = find_place(dimension);
    return t && t->dimension == dimension ? t : NULL;
}

static const struct hrr_plan *use(struct hrr_tables *t)
{
    t->users++;
    t->used = ++kept.used_last;
    return t->plan;
}

/* Keeps new tables, if there is a place, or prefers those that another thread made meanwhile.
 * *spare is what is not needed now. Returns the plan to use. */
static const struct hrr_plan *keep(uint32_t dimension, void *memory, void **spare)
{
    struct hrr_tables *t = find_place(dimension);
    *spare = NULL;
    if (!t) return memory;
    *spare = t->dimension == dimension ? memory : t->memory;
    if (t->dimension != dimension)
        *t = (struct hrr_tables){.dimension = dimension, .memory = memory, .plan = memory};
    return use(t);
}

/* Tables take up to 2 ms to make, so nobody waits for that: the loop takes tables, too. */
const struct hrr_plan *hrr_plans_take(uint32_t dimension)
{
    pthread_mutex_lock(&kept.lock);
    struct hrr_tables *t = find(dimension);
    const struct hrr_plan *plan = t ? use(t) : NULL;
    pthread_mutex_unlock(&kept.lock);
    if (plan) return plan;

    void *memory = fault_here("hrr: plan") ? NULL : aligned_alloc(64, hrr_plan_bytes(dimension));
    if (!memory) return NULL;
    hrr_plan_make(dimension, memory);
    void *spare;
    pthread_mutex_lock(&kept.lock);
    plan = keep(dimension, memory, &spare);
    pthread_mutex_unlock(&kept.lock);
    free(spare);
    return plan;
}

/* Gives it back, if it has a place. */
static bool give_kept(const struct hrr_plan *plan)
{
    for (uint32_t i = 0; i < KEPT; i++)
        if (kept.places[i].plan == plan) {
            kept.places[i].users--;
            return true;
        }
    return false;
}

void hrr_plans_give(const struct hrr_plan *plan)
{
    if (!plan) return;
    pthread_mutex_lock(&kept.lock);
    bool there = give_kept(plan);
    pthread_mutex_unlock(&kept.lock);
    if (!there) free((void *)plan);
}

void hrr_plans_finish(void)
{
    pthread_mutex_lock(&kept.lock);
    for (uint32_t i = 0; i < KEPT; i++) {
        struct hrr_tables *t = &kept.places[i];
        if (t->users) continue;
        free(t->memory);
        *t = (struct hrr_tables){0};
    }
    pthread_mutex_unlock(&kept.lock);
}
