/* run_superpose: weighted sums of lists of rows, in one pass: an H200 reads 16 GB in 4 ms. */
#include <string.h>

#include "daemon/gpu/run.h"

/* Rows that come with the order, or positions, come first; offsets, firsts and weights follow. */
enum { IN_POSITIONS = 0, IN_OFFSETS = 1 };

static bool in_pieces(const struct order_run *r)
{
    return r->firsts != PLACE_NONE;
}

static bool makes_sense(const struct order_run *r)
{
    bool counted = r->query_count >= 1 && r->piece_count <= UINT64_C(1) << 40;
    if (!counted || (r->rows == PLACE_NONE) != (r->positions != PLACE_NONE)) return false;
    return in_pieces(r) ? r->k >= 1 && r->k <= r->piece_count : r->piece_count == r->query_count;
}

/* What is found of the sums' norms is the last but one of the results. */
static uint64_t *check_at(const struct gpu *g, const struct task *t)
{
    return (uint64_t *)run_out_at(g, t, t->plan.out_count - 2);
}

static enum order_result superpose_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t row = vector_stride(r->dimension) * sizeof(float), lists = r->query_count;
    if (!makes_sense(r) || !gpu_heap(g, r->out_scores, lists * r->dimension * sizeof(float)) ||
        !(run_brings_rows(t) ? plan_rows(g, t) : plan_positions(g, t)) ||
        !plan_numbers(g, p, r->offsets, (r->piece_count + 1) * sizeof(uint64_t), NUMBERS_OFFSETS,
                      r->list_count) ||
        (in_pieces(r) && !plan_numbers(g, p, r->firsts, (lists + 1) * sizeof(uint64_t),
                                       NUMBERS_OFFSETS, r->piece_count)) ||
        (r->weights != PLACE_NONE && !plan_in_at(g, p, r->weights, r->list_count * sizeof(float))))
        return RESULT_REFUSED;
    plan_out(p, (struct section){.bytes = sizeof(uint64_t)});
    p->out_small = p->out_bytes;
    plan_out(p, (struct section){.bytes = lists * row});
    uint64_t norms = (lists * sizeof(float) + 255) / 256 * 256;
    p->scratch_best = p->scratch_least = norms + (in_pieces(r) ? r->piece_count * row : 0);
    return RESULT_OK;
}

static const char *in_at(const struct gpu *g, const struct task *t, uint32_t i)
{
    return run_device_at(g, t, t->plan.in[i].at);
}

static enum device_result superpose_launch(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t norm_bytes = (r->query_count * sizeof(float) + 255) / 256 * 256;
    char *scratch = run_device_at(g, t, t->plan.scratch_at);
    uint32_t next = IN_OFFSETS + 1;
    struct device_call call = {
        .kernel = KERNEL_SUPERPOSE,
        .rows = run_rows(g, t),
        .superpose = {.offsets = (const uint64_t *)in_at(g, t, IN_OFFSETS),
                      .pieces = r->piece_count,
                      .most = r->k,
                      .nodes = (float *)(scratch + norm_bytes),
                      .lists = r->query_count,
                      .sums = (float *)run_out_at(g, t, t->plan.out_count - 1),
                      .norms = (float *)scratch,
                      .unit = r->normalize},
    };
    if (!run_brings_rows(t)) call.superpose.positions = (const uint32_t *)in_at(g, t, IN_POSITIONS);
    if (in_pieces(r)) call.superpose.firsts = (const uint64_t *)in_at(g, t, next++);
    if (r->weights != PLACE_NONE) call.superpose.weights = (const float *)in_at(g, t, next);
    enum device_result result = g->ops->launch(g->device, &call, t->lane->stream);
    if (result) return result;
    struct device_call find = {
        .kernel = KERNEL_FIND_BAD,
        .rows = {.dimension = r->dimension, .norms = (float *)scratch, .count = r->query_count},
        .find_bad.out = check_at(g, t)};
    return g->ops->launch(g->device, &find, t->lane->stream);
}

static enum order_result superpose_drain(struct gpu *g, struct task *t, const char *small)
{
    uint64_t bad;
    memcpy(&bad, small + t->plan.out[t->plan.out_count - 2].at, sizeof bad);
    if (bad != UINT64_MAX) {
        t->number = bad;
        return bad < t->order.run.query_count ? RESULT_BAD_ROW : RESULT_ERROR;
    }
    run_give_rows(g, t, 0, t->order.run.query_count, small);
    return RESULT_OK;
}

const struct run_kind run_superpose = {
    .plan = superpose_plan,
    .fits = run_fits_rows,
    .launch = superpose_launch,
    .drain = superpose_drain,
    .next = run_next_none,
};
