/* run_plan: the input of a request, the memory that it takes on the device, and its results. */
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
    if (r->queries == PLACE_WITH_ORDER && order_run_is_direct(r, ORDER_DIRECT_DIMENSION_MAX))
        host = (char *)t->query;
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

bool plan_positions(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    return plan_numbers(g, &t->plan, r->positions, r->list_count * sizeof(uint32_t),
                        NUMBERS_POSITIONS, r->row_count);
}

bool plan_rows(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    struct task_plan *p = &t->plan;
    if (r->rows == PLACE_NONE) return true;
    char *host = gpu_heap(g, r->rows, r->row_count * r->dimension * sizeof(float));
    p->rows_in = p->in_count;
    plan_in(p, (struct section){.host = host,
                                .bytes = r->row_count * vector_stride(r->dimension) * sizeof(float),
                                .rows = r->row_count,
                                .dimension = r->dimension,
                                .bare = true});
    plan_out(p, (struct section){.bytes = sizeof(uint64_t)});
    p->out_small = p->out_bytes;
    return host || !r->row_count;
}

enum order_result plan_sense(bool sound)
{
    return sound ? RESULT_OK : RESULT_REFUSED;
}

/* True if products of these numbers cannot overflow and the parts of the order belong together. */
static bool makes_sense(const struct order *o)
{
    const struct order_run *r = &o->run;
    const uint64_t most = UINT64_C(1) << 40;
    bool bounded = r->dimension >= 1 && r->dimension <= VECTOR_DIMENSION_MAX &&
                   r->query_count <= ORDER_QUERIES_MAX && r->row_count <= UINT64_C(1) << 32 &&
                   r->list_count <= most && r->metric >= METRIC_COSINE &&
                   r->metric <= METRIC_SQUARED_EUCLIDEAN;
    if (!bounded || (r->segment_count && r->operation != RUN_KNN)) return false;
    if (r->rows == PLACE_NONE) return true;
    bool listed = r->operation == RUN_LISTS || r->operation == RUN_AVERAGE ||
                  r->operation == RUN_SUPERPOSE || r->operation == RUN_PRODUCT;
    return !o->replica && r->operation != RUN_KNN && r->positions == PLACE_NONE &&
           (!listed || r->list_count == r->row_count);
}

enum order_result run_plan(struct gpu *g, struct task *t)
{
    struct task_plan *p = &t->plan;
    memset(p, 0, sizeof *p);
    if (t->order.kind == ORDER_RUN && !makes_sense(&t->order)) return RESULT_REFUSED;
    enum order_result result = t->kind->plan(g, t);
    if (p->out_bytes <= SMALL_BYTES) p->out_small = p->out_bytes;
    p->out_at = p->bytes = p->in_bytes;
    place(&p->bytes, p->out_bytes);
    p->scratch_at = p->bytes;
    return result;
}
