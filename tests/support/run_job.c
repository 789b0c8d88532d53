#include "tests/support/run_job.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ops/operation.h"

struct run {
    struct job *job;
    uint32_t *order;
    uint32_t worker;
};

static void *work(void *arg)
{
    struct run *r = arg;
    struct job *j = r->job;
    for (;;) {
        uint32_t next = atomic_fetch_add(&j->next_part, 1);
        if (next >= j->parts.count) return NULL;
        if (!j->failure.code && !atomic_load(&j->cancelled))
            j->parts.run(j, r->order[next], r->worker);
    }
}

static void run_parts(struct job *j, unsigned seed)
{
    uint32_t parts = j->parts.count, *order = malloc(parts * sizeof *order);
    for (uint32_t i = 0; i < parts; i++)
        order[i] = i;
    for (uint32_t i = parts; i > 1; i--) {
        uint32_t at = (uint32_t)rand_r(&seed) % i, kept = order[at];
        order[at] = order[i - 1];
        order[i - 1] = kept;
    }
    struct run runs[64];
    pthread_t threads[64];
    atomic_store(&j->next_part, 0);
    for (uint32_t i = 0; i < j->worker_count; i++)
        runs[i] = (struct run){j, order, i};
    uint32_t helpers = j->worker_count < parts ? j->worker_count : parts;
    for (uint32_t i = 1; i < helpers; i++)
        pthread_create(&threads[i], NULL, work, &runs[i]);
    work(&runs[0]);
    for (uint32_t i = 1; i < helpers; i++)
        pthread_join(threads[i], NULL);
    free(order);
}

/* And the parts that it leaves. */
static void run_step(struct job *j, void (*step)(struct job *j), unsigned seed)
{
    j->parts.count = 0;
    j->step = NULL;
    if (step) step(j);
    if (j->parts.count) run_parts(j, seed);
}

enum status run_job(struct job *j, unsigned seed)
{
    assert(j->worker_count >= 1 && j->worker_count <= 64);
    enum status st = operation_find(j->operation)->plan(j);
    if (st) {
        assert(st == j->failure.code && !j->plan.scratch.data && !j->result.block.data);
        return st;
    }
    if (j->plan.prepare) {
        st = j->plan.prepare(j);
        assert(st == j->failure.code);
    }
    j->parts = (struct job_parts){j->plan.run_part, j->plan.parts};
    if (!st) run_parts(j, seed);
    j->step = NULL;
    run_step(j, j->plan.finish, seed);
    while (j->step)
        run_step(j, j->step, seed);
    operation_give_scratch(j);
    assert(!j->failure.code || !j->result.block.data);
    return j->failure.code;
}

void run_job_reset(struct job *j)
{
    heap_give(j->heap, &j->result.block);
    memset(&j->result, 0, sizeof j->result);
    memset(&j->failure, 0, sizeof j->failure);
    memset(&j->plan, 0, sizeof j->plan);
}
