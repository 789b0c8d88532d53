#include "daemon/ops/grid.h"

#include "daemon/base/yield.h"

enum { GROUP_BYTES = 512 << 10, GROUP_QUERIES_MIN = 4 };
enum { RANGE_BYTES = 1 << 20, RANGE_ROWS_MIN = 16, UNSHARED_TIMES = 4, PARTS_MAX_LOG2 = 31 };

void grid_cut(struct grid *g, uint32_t worker_count, bool alone, bool listed)
{
    g->copies = rows_want_copies(&g->rows, g->query_count, listed);
    size_t row_bytes = vector_stride(g->rows.dimension) * sizeof(float);
    uint64_t group = GROUP_BYTES / row_bytes;
    if (group < GROUP_QUERIES_MIN) group = GROUP_QUERIES_MIN;
    if (group > GRID_GROUP_MAX) group = GRID_GROUP_MAX;
    if (!g->group_queries || g->group_queries > group) g->group_queries = group;
    if (g->group_queries > g->query_count) g->group_queries = g->query_count;
    g->groups = g->query_count ? pieces_of(g->query_count, g->group_queries) : 0;
    g->shared = !alone && g->groups < 2 * (uint64_t)worker_count;
    g->range_rows = RANGE_ROWS_MIN;
    while (g->range_rows * 2 * row_bytes <= RANGE_BYTES)
        g->range_rows *= 2;
    if (!g->shared) g->range_rows *= UNSHARED_TIMES;
    if (alone) g->range_rows = UINT64_MAX;
    grid_recut(g);
}

void grid_recut(struct grid *g)
{
    g->ranges = g->rows.count ? pieces_of(g->rows.count, smaller(g->range_rows, g->rows.count)) : 1;
    /* Part numbers are u32. */
    while (g->range_rows < g->rows.count &&
           g->groups > (UINT64_C(1) << PARTS_MAX_LOG2) / g->ranges) {
        g->range_rows *= 2;
        g->ranges = pieces_of(g->rows.count, g->range_rows);
    }
}

void grid_keep(struct grid *g, uint64_t query_count)
{
    g->query_count = query_count;
    g->groups = query_count ? pieces_of(query_count, g->group_queries) : 0;
    grid_recut(g);
}

uint64_t grid_parts(const struct grid *g)
{
    uint64_t parts = g->groups * g->ranges;
    return parts ? parts : 1;
}

static struct query_form form_of(const struct grid *g)
{
    return (struct query_form){g->rows.kernels, g->rows.dimension, g->screened};
}

void grid_layout(struct grid *g, uint32_t worker_count, uint64_t *bytes)
{
    struct query_form form = form_of(g);
    g->set_bytes = queries_bytes(&form, (size_t)g->group_queries);
    g->set_bytes = g->set_bytes ? g->set_bytes : 64;
    g->sets = layout_add(bytes, g->set_bytes * (g->shared ? g->groups : worker_count));
    g->set_of_at = layout_add(bytes, g->shared ? g->groups * sizeof *g->set_of : 0);
    g->buffer_bytes = rows_buffer_bytes(g->rows.dimension, g->copies);
    g->buffers = layout_add(bytes, g->buffer_bytes * worker_count);
    atomic_init(&g->bad_query, NO_ROW);
    atomic_init(&g->bad_row, NO_ROW);
}

static bool build_set(struct grid *g, struct job *j, uint64_t group, uint64_t place,
                      struct query_set *out)
{
    uint64_t first = group * g->group_queries;
    size_t count = (size_t)smaller(g->group_queries, g->query_count - first);
    struct query_form form = form_of(g);
    size_t bad = queries_build(&form, g->queries + first * g->rows.dimension, count,
                               scratch_at(j, g->sets + place * g->set_bytes), out);
    if (bad == count) return true;
    note_smallest(&g->bad_query, first + bad);
    return false;
}

bool grid_prepare(struct grid *g, struct job *j)
{
    if (!g->shared) return true;
    g->set_of = scratch_at(j, g->set_of_at);
    for (uint64_t group = 0; group < g->groups; group++)
        if (!build_set(g, j, group, group, &g->set_of[group])) return false;
    return true;
}

/* True if no error is known that comes before any that this part may find. */
static bool worth_doing(struct grid *g, uint64_t first_row)
{
    return atomic_load_explicit(&g->bad_query, memory_order_relaxed) == NO_ROW &&
           atomic_load_explicit(&g->bad_row, memory_order_relaxed) > first_row;
}

bool grid_part(struct grid *g, struct job *j, uint32_t part, uint32_t worker, struct grid_part *out)
{
    if (g->groups == 0) return false;
    uint64_t group = part % g->groups, range = part / g->groups;
    out->first_query = group * g->group_queries;
    out->first_row = range * g->range_rows;
    out->end_row = smaller(g->rows.count, out->first_row + smaller(g->range_rows, g->rows.count));
    out->buffer = rows_buffer_at(g->rows.dimension, g->copies,
                                 scratch_at(j, g->buffers + worker * g->buffer_bytes));
    if (g->shared) {
        out->queries = g->set_of[group];
        return worth_doing(g, out->first_row);
    }
    /* Every group is checked, even after an error in another: the error with the smallest number
     * is reported. */
    return build_set(g, j, group, worker, &out->queries) && worth_doing(g, out->first_row);
}

size_t grid_score(struct grid *g, struct job *j, struct grid_part *p, float *scores,
                  size_t scores_stride, const uint64_t **ids)
{
    yield_check();
    if (p->first_row >= p->end_row || is_cancelled(j)) return 0;
    uint64_t bad = NO_ROW;
    size_t n = rows_score(&g->rows, &p->queries, g->metric, p->first_row, p->end_row - p->first_row,
                          &p->buffer, scores, scores_stride, ids, &bad);
    if (bad != NO_ROW) {
        note_smallest(&g->bad_row, bad);
        return 0;
    }
    p->first_row += n;
    return n;
}

struct row_block grid_block(struct grid *g, struct job *j, struct grid_part *p,
                            const uint64_t **ids)
{
    static const struct row_block nothing = {0};
    yield_check();
    if (p->first_row >= p->end_row || is_cancelled(j)) return nothing;
    uint64_t bad = NO_ROW;
    struct row_block block =
        rows_block(&g->rows, p->first_row, p->end_row - p->first_row, &p->buffer, ids, &bad);
    if (bad != NO_ROW) {
        note_smallest(&g->bad_row, bad);
        return nothing;
    }
    p->first_row += block.count;
    return block;
}

enum status grid_refuse(struct grid *g, struct job *j)
{
    uint64_t query = atomic_load(&g->bad_query), row = atomic_load(&g->bad_row);
    uint32_t dimension = g->rows.dimension;
    if (query != NO_ROW)
        return operation_refuse_row(j, g->query_name ? g->query_name : "query",
                                    j->part_first + query, g->queries + query * dimension,
                                    dimension);
    if (row != NO_ROW)
        return operation_refuse_row(j, "row", row, g->rows.inline_rows + row * dimension,
                                    dimension);
    return STATUS_OK;
}
