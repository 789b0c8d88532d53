/* run_covariance: mean and covariance of rows. Tiles of products are computed in ranges that fit,
 * and of a range a run of blocks in each pass; the last pass of a range writes its part of the
 * result, which comes back as a whole after the last one. */
#include <string.h>

#include "daemon/gpu/run.h"

/* Where weights and positions come in depends on which of them do; the results come out last. */
enum { BINARY64_SLOWER = 4 }; /* than the binary32 that a device tells of, or a little more */

/* What a pass takes, and how many a range of tiles has. */
struct passes {
    uint64_t tiles, blocks, parts;
};

/* Of the scratch, a multiple of 256 each. */
struct covariance_scratch {
    uint64_t nodes, parts, bytes; /* sums come first */
};

static struct covariance_scratch scratch_of(const struct order_run *r, struct passes p)
{
    const uint64_t node = CUDA_COVARIANCE_TILE_NUMBERS * sizeof(double);
    struct covariance_scratch s;
    s.nodes = covariance_blocks(r->list_count) * vector_stride(r->dimension) * sizeof(double);
    s.parts = s.nodes + p.blocks * p.tiles * node;
    s.bytes = s.parts + p.parts * p.tiles * node;
    return s;
}

static uint64_t pieces(uint64_t count, uint64_t piece)
{
    return (count + piece - 1) / piece;
}

/* ---- the plan ---- */

/* A pass lasts not long, and all together take at most a quarter of the pool; as long as it is
 * many, fewer tiles or blocks are added at once. Depends on the order and the device alone. */
static struct passes passes_of(const struct gpu *g, const struct order_run *r)
{
    enum { TILES_LEAST = 128 };
    const uint64_t blocks = covariance_blocks(r->list_count);
    const uint64_t each = (uint64_t)COVARIANCE_BLOCK * CUDA_COVARIANCE_TILE_NUMBERS;
    const uint64_t soon =
        g->ops->multiply_adds(g->device) / BINARY64_SLOWER * (ORDER_PASS_NS / 1000) / each;
    const uint64_t fit = vram_pool_usage(g->pool).slab_bytes / 4;
    struct passes p = {cuda_covariance_tiles(r->dimension), CUDA_COVARIANCE_BLOCKS_MAX, 0};
    while (p.blocks > 1 && (p.blocks / 2 >= blocks || p.blocks * p.tiles > soon))
        p.blocks /= 2;
    for (;; p.tiles = pieces(p.tiles, 2)) {
        p.parts = pieces(blocks, p.blocks);
        bool fits = scratch_of(r, p).bytes <= fit && (p.tiles <= soon || p.tiles <= TILES_LEAST);
        if (fits || p.tiles == 1) return p;
    }
}

static bool makes_sense(const struct order_run *r)
{
    bool listed = r->rows == PLACE_NONE && r->positions != PLACE_NONE;
    return r->list_count >= 2 && r->list_count <= UINT64_C(1) << 32 && !r->query_count &&
           (listed || r->list_count == r->row_count) && r->weight_total > 0 && r->divisor > 0;
}

static enum order_result covariance_plan(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t d = r->dimension, stride = vector_stride(r->dimension);
    if (!makes_sense(r) || !gpu_heap(g, r->out_scores, d * sizeof(double)) ||
        !gpu_heap(g, r->out_ids, d * d * sizeof(double)) ||
        (run_brings_rows(t) && !plan_rows(g, t)) ||
        (r->positions != PLACE_NONE && !plan_positions(g, t)) ||
        (r->weights != PLACE_NONE && !plan_in_at(g, p, r->weights, r->list_count * sizeof(float))))
        return RESULT_REFUSED;
    struct passes passes = passes_of(g, r);
    plan_out(p, (struct section){.bytes = stride * sizeof(double)});
    plan_out(p, (struct section){.bytes = d * d * sizeof(double)});
    p->paced = p->rereads = passes.parts > 1 || passes.tiles < cuda_covariance_tiles(r->dimension);
    p->scratch_best = p->scratch_least = scratch_of(r, passes).bytes;
    t->pass_queries = passes.tiles;
    t->pass_queries_max = passes.blocks;
    return RESULT_OK;
}

/* ---- launching ---- */

/* As it was planned; first_query counts tiles. */
static struct passes passes_now(const struct task *t)
{
    const struct order_run *r = &t->order.run;
    return (struct passes){t->pass_queries, t->pass_queries_max,
                           pieces(covariance_blocks(r->list_count), t->pass_queries_max)};
}

static uint64_t tiles_left(const struct task *t)
{
    return cuda_covariance_tiles(t->order.run.dimension) - t->first_query;
}

static uint64_t tiles_of_pass(const struct task *t)
{
    return tiles_left(t) < t->pass_queries ? tiles_left(t) : t->pass_queries;
}

static uint64_t blocks_of_pass(const struct task *t)
{
    uint64_t blocks = covariance_blocks(t->order.run.list_count);
    uint64_t left = blocks - t->rounds_done * t->pass_queries_max;
    return left < t->pass_queries_max ? left : t->pass_queries_max;
}

static struct device_call call_of(const struct gpu *g, const struct task *t)
{
    const struct order_run *r = &t->order.run;
    const struct task_plan *p = &t->plan;
    struct passes passes = passes_now(t);
    struct covariance_scratch at = scratch_of(r, passes);
    char *scratch = run_device_at(g, t, p->scratch_at);
    uint32_t next = run_brings_rows(t);
    struct device_call call = {
        .kernel = KERNEL_COVARIANCE,
        .rows = run_rows(g, t),
        .covariance = {.count = r->list_count,
                       .total = r->weight_total,
                       .divisor = r->divisor,
                       .sums = (double *)scratch,
                       .mean = (double *)run_out_at(g, t, p->out_count - 2),
                       .first_tile = t->first_query,
                       .tiles = tiles_of_pass(t),
                       .nodes = (double *)(scratch + at.nodes),
                       .part = (double *)(scratch + at.parts),
                       .parts = passes.parts,
                       .covariance = (double *)run_out_at(g, t, p->out_count - 1)}};
    if (r->positions != PLACE_NONE)
        call.covariance.positions = (const uint32_t *)run_device_at(g, t, p->in[next++].at);
    if (r->weights != PLACE_NONE)
        call.covariance.weights = (const float *)run_device_at(g, t, p->in[next].at);
    return call;
}

static enum device_result launch_stage(struct gpu *g, struct task *t, struct device_call *call,
                                       enum cuda_covariance_stage stage)
{
    call->covariance.stage = stage;
    return g->ops->launch(g->device, call, t->lane->stream);
}

static enum device_result covariance_launch(struct gpu *g, struct task *t)
{
    struct device_call call = call_of(g, t), add = call;
    struct cuda_covariance *w = &add.covariance;
    enum device_result result = DEVICE_OK;
    if (t->first_query == 0 && t->rounds_done == 0) {
        result = launch_stage(g, t, &call, CUDA_COVARIANCE_SUM);
        if (!result) result = launch_stage(g, t, &call, CUDA_COVARIANCE_MEAN);
    }
    w->first_block = t->rounds_done * t->pass_queries_max;
    w->blocks = blocks_of_pass(t);
    w->part += t->rounds_done * w->tiles * CUDA_COVARIANCE_TILE_NUMBERS;
    if (!result) result = launch_stage(g, t, &add, CUDA_COVARIANCE_ADD);
    if (!result && t->rounds_done + 1 == w->parts)
        result = launch_stage(g, t, &call, CUDA_COVARIANCE_WRITE);
    return result;
}

/* ---- the way back ---- */

static enum order_result covariance_drain(struct gpu *g, struct task *t, const char *small)
{
    const struct order_run *r = &t->order.run;
    const uint64_t d = r->dimension;
    if (++t->rounds_done < passes_now(t).parts || tiles_left(t) > t->pass_queries) return RESULT_OK;
    struct section mean = t->plan.out[t->plan.out_count - 2];
    struct section all = t->plan.out[t->plan.out_count - 1];
    mean.bytes = d * sizeof(double); /* without the pad */
    mean.host = gpu_heap(g, r->out_scores, mean.bytes);
    all.host = gpu_heap(g, r->out_ids, all.bytes);
    run_give(g, t, &mean, small);
    run_give(g, t, &all, small);
    return RESULT_OK;
}

static bool covariance_next(struct gpu *g, struct task *t)
{
    (void)g;
    if (t->rounds_done < passes_now(t).parts) return true;
    t->rounds_done = 0;
    if (tiles_left(t) <= t->pass_queries) return false;
    t->first_query += t->pass_queries;
    return true;
}

/* Its tiles, of so many blocks of rows. */
static double covariance_part(const struct task *t)
{
    const struct order_run *r = &t->order.run;
    double all =
        (double)cuda_covariance_tiles(r->dimension) * (double)covariance_blocks(r->list_count);
    return (double)tiles_of_pass(t) * (double)blocks_of_pass(t) / all;
}

const struct run_kind run_covariance = {
    .plan = covariance_plan,
    .fits = run_fits_rows,
    .launch = covariance_launch,
    .drain = covariance_drain,
    .next = covariance_next,
    .part = covariance_part,
};
