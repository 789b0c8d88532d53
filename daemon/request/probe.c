#include "daemon/request/probe.h"

#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/ops/operation.h"
#include "daemon/request/jobs.h"
#include "daemon/request/pipeline_inside.h"
#include "kernels/vectors.h"

enum { PROBE_ROWS = 3, PROBE_COLUMNS = 16 };
#define PROBE_GAP_NS UINT64_C(1000000000)

/* A name that no client can ask for (space_name_parse). */
static const char probe_space[] = ".probe";

/* Small whole numbers: their dot products are exact, so their bits are known. */
static _Alignas(64) float query[PROBE_COLUMNS] = {1, -2, 3, -4, 5, -6, 7, -8,
                                                  8, -7, 6, -5, 4, -3, 2, -1};
static _Alignas(64) float rows[PROBE_ROWS][PROBE_COLUMNS] = {
    {1, -2, 3, -4, 5, -6, 7, -8, 8, -7, 6, -5, 4, -3, 2, -1},
    {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8},
    {.5f, .25f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16},
};
static const float right[PROBE_ROWS] = {408, -36, -16};

static void probe_on_done(void *owner, struct job *j)
{
    struct pipeline *p = owner;
    struct readiness *told = p->probe.told;
    const float *scores = j->result.tensors[RESULT_SIMILARITY_SCORES].data;
    bool stopped = atomic_load(&j->cancelled);
    bool answered = !j->failure.code && !stopped && scores;
    bool is_right = answered && memcmp(scores, right, sizeof right) == 0;
    if (fault_here("probe: answer")) is_right = false;
    if (answered) atomic_store(&told->wrong, !is_right);
    if (is_right) atomic_store(&told->right_ns, clock_read_ns(p->clock));
    atomic_store(&told->asked_ns, 0);
    p->probe.out = false;
    p->trials--;
    job_move(j, JOB_DONE);
    job_give(p, j);
}

static struct job *make_probe(struct pipeline *p)
{
    if (!p->probe.space && store_space(p->store, probe_space, &p->probe.space)) return NULL;
    struct job *j =
        job_take_own(p, p->probe.space, OPERATION_SIMILARITY, (struct job_owner){probe_on_done, p});
    if (!j) return NULL;
    j->request.queries = (struct tensor){DTYPE_FLOAT32, 1, PROBE_COLUMNS, query};
    j->request.rows = (struct tensor){DTYPE_FLOAT32, PROBE_ROWS, PROBE_COLUMNS, rows};
    j->request.metric = METRIC_DOT;
    j->backend = BACKEND_CPU;
    j->reason = REASON_FORCED;
    j->ticket.work = operation_work(j);
    return j;
}

void pipeline_probe(struct pipeline *p, struct readiness *told)
{
    uint64_t now_ns = clock_read_ns(p->clock);
    atomic_store(&told->turned_ns, now_ns);
    if (p->draining || p->probe.out || now_ns < p->probe.next_ns) return;
    p->probe.next_ns = now_ns + PROBE_GAP_NS;
    p->probe.told = told;
    struct job *j = make_probe(p);
    if (!j) return; /* none is answered meanwhile, which is what the readiness looks at */
    p->trials++;
    p->probe.out = true;
    atomic_store(&told->asked_ns, now_ns);
    job_move(j, JOB_QUEUED);
    if (p->cpu->ops->submit(p->cpu, j))
        probe_on_done(p, j);
    else
        job_move(j, JOB_RUNNING);
}

void probe_finish(struct pipeline *p)
{
    if (p->probe.space) store_space_release(p->store, p->probe.space);
    p->probe.space = NULL;
}
