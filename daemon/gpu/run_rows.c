/* run_rows: the check of rows that come with the order, and the requests on rows alone: averages
 * and norms. */
#include <string.h>

#include "daemon/gpu/run.h"

/* The first result is what the device found when it checked the rows. */
enum { OUT_CHECK = 0 };

static const struct section *rows_of(const struct task *t)
{
    return &t->plan.in[t->plan.rows_in];
}

bool run_fits_rows(const struct task *t, const struct replica *r)
{
    const struct order_run *run = &t->order.run;
    return !r->bare && r->dimension == run->dimension && r->rows == run->row_count;
}

struct cuda_rows run_rows(const struct gpu *g, const struct task *t)
{
    if (!run_brings_rows(t)) return replica_rows(t->replica);
    const struct section *s = rows_of(t);
    return (struct cuda_rows){.dimension = s->dimension,
                              .rows = (const float *)run_device_at(g, t, s->at),
                              .norms = (const float *)run_device_at(g, t, s->norms_at),
                              .count = s->rows};
}

/* If norms are the result, they are computed where results are. */
static float *norms_of(const struct gpu *g, const struct task *t)
{
    return (float *)(t->order.run.operation == RUN_NORMS
                         ? run_out_at(g, t, OUT_CHECK + 1)
                         : run_device_at(g, t, rows_of(t)->norms_at));
}

enum device_result run_measure(struct gpu *g, struct task *t, const struct cuda_rows *rows,
                               float *norms, uint64_t *bad)
{
    struct device_call measure = {.kernel = KERNEL_NORMS, .rows = *rows, .norms.out = norms};
    enum device_result result = g->ops->launch(g->device, &measure, t->lane->stream);
    if (result) return result;
    struct device_call find = {.kernel = KERNEL_FIND_BAD, .rows = *rows, .find_bad.out = bad};
    find.rows.norms = norms;
    return g->ops->launch(g->device, &find, t->lane->stream);
}

enum device_result run_check_rows(struct gpu *g, struct task *t)
{
    struct cuda_rows rows = run_rows(g, t);
    float *norms = norms_of(g, t);
    rows.norms = NULL;
    return run_measure(g, t, &rows, norms, (uint64_t *)run_out_at(g, t, OUT_CHECK));
}

enum order_result run_checked(struct task *t, const char *small)
{
    uint64_t bad;
    memcpy(&bad, small + t->plan.out[OUT_CHECK].at, sizeof bad);
    if (bad == UINT64_MAX) return RESULT_OK;
    t->number = bad;
    return bad < t->order.run.row_count ? RESULT_BAD_ROW : RESULT_ERROR;
}

/* ---- averages ---- */

/* rows that come with the order take the place of positions */
enum { IN_POSITIONS = 0, IN_WEIGHTS = 1 };

static enum order_result average_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    bool sound = run_brings_rows(t) ? plan_rows(g, t) : plan_positions(g, t);
    return plan_sense(sound && plan_in_at(g, &t->plan, r->weights, r->list_count * sizeof(float)) &&
                      plan_out_at(g, &t->plan, r->out_scores, r->dimension * sizeof(float)));
}

static enum device_result average_launch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    const struct task_plan *p = &t->plan;
    bool brings = run_brings_rows(t);
    struct device_call call = {
        .kernel = KERNEL_AVERAGE,
        .rows = run_rows(g, t),
        .average = {.weights = (const float *)run_device_at(g, t, p->in[IN_WEIGHTS].at),
                    .count = r->list_count,
                    .total = r->total,
                    .out = (float *)run_out_at(g, t, p->out_count - 1)},
    };
    if (!brings)
        call.average.positions = (const uint32_t *)run_device_at(g, t, p->in[IN_POSITIONS].at);
    return g->ops->launch(g->device, &call, t->lane->stream);
}

const struct run_kind run_average = {
    .plan = average_plan,
    .fits = run_fits_rows,
    .launch = average_launch,
    .drain = run_drain_all,
    .next = run_next_none,
};

/* ---- norms ---- */

static enum order_result norms_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    return plan_sense(run_brings_rows(t) && plan_rows(g, t) &&
                      plan_out_at(g, &t->plan, r->out_scores, r->row_count * sizeof(float)));
}

/* The check of the rows has computed them. */
static enum device_result norms_launch(struct gpu *g, struct task *t)
{
    (void)g;
    (void)t;
    return DEVICE_OK;
}

const struct run_kind run_norms = {
    .plan = norms_plan,
    .fits = run_fits_rows,
    .launch = norms_launch,
    .drain = run_drain_all,
    .next = run_next_none,
};
