/* run_plan: what a request brings to the device, what it takes there, and what it brings back. */
#include <string.h>

#include "daemon/gpu/run.h"

enum { ALIGN = 256 };

static uint64_t place(uint64_t *at, uint64_t bytes)
{
    uint64_t from = *at;
    *at = from + (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return from;
}

void plan_in(struct task_plan *p, struct section s)
{
    s.at = place(&p->in_bytes, s.bytes);
    if (s.rows) s.norms_at = place(&p->in_bytes, s.rows * sizeof(float));
    p->in[p->in_count++] = s;
}

void plan_out(struct task_plan *p, struct section s)
{
    s.at = place(&p->out_bytes, s.bytes);
    p->out[p->out_count++] = s;
}

bool plan_in_at(struct gpu *g, struct task_plan *p, uint64_t heap_place, uint64_t bytes)
{
    char *host = gpu_heap(g, heap_place, bytes);
    plan_in(p, (struct section){.host = host, .bytes = bytes});
    return host || !bytes;
}

bool plan_out_at(struct gpu *g, struct task_plan *p, uint64_t heap_place, uint64_t bytes)
{
    char *host = gpu_heap(g, heap_place, bytes);
    plan_out(p, (struct section){.host = host, .bytes = bytes});
    return host || !bytes;
}

bool plan_queries(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    char *host = gpu_heap(g, r->queries, r->query_count * r->dimension * sizeof(float));
    plan_in(&t->plan,
            (struct section){.host = host,
                             .bytes = r->query_count * vector_stride(r->dimension) * sizeof(float),
                             .rows = r->query_count,
                             .dimension = r->dimension});
    return host || !r->query_count;
}

bool plan_numbers(struct gpu *g, struct task_plan *p, uint64_t heap_place, uint64_t bytes,
                  enum numbers numbers, uint64_t limit)
{
    if (!plan_in_at(g, p, heap_place, bytes)) return false;
    p->in[p->in_count - 1].numbers = numbers;
    p->in[p->in_count - 1].limit = limit;
    return true;
}

static bool add_positions(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    return plan_numbers(g, &t->plan, r->positions, r->list_count * sizeof(uint32_t),
                        NUMBERS_POSITIONS, r->row_count);
}

uint64_t run_columns(const struct order_run *r)
{
    return r->positions != PLACE_NONE ? r->list_count : r->row_count;
}

/* The scores of as many queries as fit a quarter of the pool make a pass. */
static bool plan_scores(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    uint64_t columns = run_columns(r), line = columns * sizeof(float);
    if (!gpu_heap(g, r->out_scores, r->query_count * line) || !plan_queries(g, t)) return false;
    bool listed = r->positions != PLACE_NONE;
    if (listed && !add_positions(g, t)) return false;
    uint64_t most = vram_pool_usage(g->pool).slab_bytes / 4;
    t->pass_queries = line ? most / line : r->query_count;
    if (t->pass_queries < 1) t->pass_queries = 1;
    if (t->pass_queries > r->query_count) t->pass_queries = r->query_count;
    if (!listed && r->out_ids != PLACE_NONE && !gpu_heap(g, r->out_ids, columns * sizeof(uint64_t)))
        return false;
    return plan_out_at(g, p, r->out_scores, t->pass_queries * line);
}

static bool plan_lists(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    return plan_queries(g, t) && add_positions(g, t) &&
           plan_numbers(g, &t->plan, r->offsets, (r->query_count + 1) * sizeof(uint64_t),
                        NUMBERS_OFFSETS, r->list_count) &&
           plan_out_at(g, &t->plan, r->out_scores, r->list_count * sizeof(float));
}

static bool plan_average(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    return add_positions(g, t) &&
           plan_in_at(g, &t->plan, r->weights, r->list_count * sizeof(float)) &&
           plan_out_at(g, &t->plan, r->out_scores, r->dimension * sizeof(float));
}

static enum order_result sense_of(bool sound)
{
    return sound ? RESULT_OK : RESULT_REFUSED;
}

static enum order_result plan_rows(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    uint64_t most = UINT64_C(1) << 40; /* of anything: products below cannot overflow */
    if (r->dimension < 1 || r->dimension > VECTOR_DIMENSION_MAX || r->query_count > most >> 16 ||
        r->row_count > UINT64_C(1) << 32 || r->list_count > most || r->metric < METRIC_COSINE ||
        r->metric > METRIC_SQUARED_EUCLIDEAN || (r->segment_count && r->operation != RUN_KNN))
        return RESULT_REFUSED;
    switch (r->operation) {
    case RUN_KNN: return knn_plan(g, t);
    case RUN_SCORES: return sense_of(plan_scores(g, t));
    case RUN_LISTS: return sense_of(plan_lists(g, t));
    case RUN_AVERAGE: return sense_of(plan_average(g, t));
    default: return RESULT_REFUSED;
    }
}

enum order_result run_plan(struct gpu *g, struct task *t)
{
    struct task_plan *p = &t->plan;
    memset(p, 0, sizeof *p);
    enum order_result result = t->order.kind == ORDER_SPREAD ? spread_plan(g, t) : plan_rows(g, t);
    if (p->out_bytes <= SMALL_BYTES) p->out_small = p->out_bytes;
    p->out_at = p->bytes = p->in_bytes;
    place(&p->bytes, p->out_bytes);
    p->scratch_at = p->bytes;
    return result;
}
