/* covariance: mean and covariance of rows (kernels/covariance.h), in three plans that follow each
 * other: sums of columns, block by block; products, a tile of a range of blocks in each part; and
 * what becomes of each tile. */
#include "daemon/base/yield.h"
#include "daemon/exec/steps.h"
#include "daemon/ops/check.h"
#include "daemon/ops/covariance_inside.h"

/* ---------------------------------------------------------------- sums */

static void check_part(struct job *j, struct covariance_job *w, uint64_t part, uint32_t worker)
{
    uint64_t row = part * w->check_rows, end = smaller(row + w->check_rows, w->rows.count);
    struct rows_buffer buffer = rows_buffer_at(
        w->rows.dimension, true, scratch_at(j, w->buffers + worker * w->buffer_bytes));
    uint64_t bad = rows_find_bad(&w->rows, row, end, &buffer);
    if (bad != NO_ROW) note_smallest(&w->bad_row, bad);
}

/* Rows from `first` on, as many as are added at once. */
static struct covariance_rows some_rows(const struct job *j, const struct covariance_job *w,
                                        uint64_t first, size_t count, const float **rows)
{
    covariance_point(j, w, first, count, rows);
    return (struct covariance_rows){rows, w->weights ? w->weights + first : NULL, count};
}

static void sum_part(struct job *j, uint32_t part, uint32_t worker)
{
    const float *pointers[COVARIANCE_DEPTH];
    struct covariance_job *w = covariance_of(j);
    if (part < w->check_parts) {
        check_part(j, w, part, worker);
        return;
    }
    uint64_t block = (part - w->check_parts) / w->strips, d = w->rows.dimension;
    uint64_t column = (part - w->check_parts) % w->strips * COVARIANCE_STRIP;
    size_t columns = (size_t)smaller(COVARIANCE_STRIP, d - column);
    double *sums = (double *)scratch_at(j, w->sums) + block * d + column;
    uint64_t first = block * COVARIANCE_BLOCK;
    uint64_t end = smaller(first + COVARIANCE_BLOCK, w->rows.count);
    memset(sums, 0, columns * sizeof *sums);
    while (first < end && !is_cancelled(j)) {
        size_t count = (size_t)smaller(COVARIANCE_DEPTH, end - first);
        struct covariance_rows rows = some_rows(j, w, first, count, pointers);
        yield_check();
        w->kernels->sum(&rows, column, columns, sums);
        first += count;
    }
}

/* Folds the blocks' sums by the tree, and divides. */
static void set_mean(struct job *j, const struct covariance_job *w)
{
    uint64_t d = w->rows.dimension;
    double *sums = scratch_at(j, w->sums), *mean = j->result.tensors[RESULT_COVARIANCE_MEAN].data;
    for (uint64_t step = 1; step < w->blocks; step *= 2)
        for (uint64_t i = 0; i + step < w->blocks; i += 2 * step) {
            yield_check();
            for (uint64_t c = 0; c < d; c++)
                sums[i * d + c] += sums[(i + step) * d + c];
        }
    for (uint64_t c = 0; c < d; c++)
        mean[c] = sums[c] / w->total;
}

/* ---------------------------------------------------------------- products */

struct tile {
    struct covariance_columns left, right;
    bool diagonal;
};

static struct tile tile_at(const struct covariance_job *w, uint64_t number)
{
    uint64_t left = 0, d = w->rows.dimension;
    for (; number >= w->sides - left; left++)
        number -= w->sides - left;
    uint64_t i = left * COVARIANCE_TILE, k = (left + number) * COVARIANCE_TILE;
    return (struct tile){.left = {i, (size_t)smaller(COVARIANCE_TILE, d - i)},
                         .right = {k, (size_t)smaller(COVARIANCE_TILE, d - k)},
                         .diagonal = number == 0};
}

/* Where a part's work goes on. */
struct workplace {
    double *left, *right; /* packed sides */
    double *node;         /* the tile that it returns */
    double *stack;        /* `levels` tiles more */
    uint64_t tile_numbers;
};

static struct workplace place_of(const struct job *j, const struct covariance_job *w, uint64_t part,
                                 uint32_t worker)
{
    struct workplace p;
    p.left = (double *)scratch_at(j, w->packs) + 2 * worker * (size_t)COVARIANCE_PACK_NUMBERS;
    p.right = p.left + COVARIANCE_PACK_NUMBERS;
    p.stack = (double *)scratch_at(j, w->stacks) + worker * w->levels * w->tile_numbers;
    p.node = (double *)scratch_at(j, w->nodes) + part * w->tile_numbers;
    p.tile_numbers = w->tile_numbers;
    return p;
}

/* The tile at a height of the stack, whose lowest is the one that is returned. */
static double *at_height(const struct workplace *p, uint32_t height)
{
    return height ? p->stack + (height - 1) * p->tile_numbers : p->node;
}

static void add_block(struct job *j, const struct covariance_job *w, const struct tile *t,
                      uint64_t block, const struct workplace *p, double *products)
{
    const float *pointers[COVARIANCE_DEPTH];
    const double *mean = j->result.tensors[RESULT_COVARIANCE_MEAN].data;
    uint64_t first = block * COVARIANCE_BLOCK;
    uint64_t end = smaller(first + COVARIANCE_BLOCK, w->rows.count);
    memset(products, 0, covariance_used(t->right.count) * sizeof *products);
    while (first < end && !is_cancelled(j)) {
        size_t count = (size_t)smaller(w->kernels->depth, end - first);
        struct covariance_rows rows = some_rows(j, w, first, count, pointers);
        yield_check();
        w->kernels->pack_left(&rows, t->left, mean, p->left);
        w->kernels->pack_right(&rows, t->right, mean, p->right);
        w->kernels->add(p->left, t->left.count, p->right, t->right.count, count, t->diagonal,
                        products);
        first += count;
        progress_add(&j->progress, count);
    }
}

/* Blocks come one by one, and neighbours of one level are folded as soon as both are there. */
static void product_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct covariance_job *w = covariance_of(j);
    struct tile t = tile_at(w, part % w->tiles);
    struct workplace p = place_of(j, w, part, worker);
    uint64_t first = part / w->tiles * w->range_blocks;
    uint64_t count = smaller(w->range_blocks, w->blocks - first);
    size_t used = covariance_used(t.right.count);
    uint32_t height = 0;
    for (uint64_t i = 0; i < count && !is_cancelled(j); i++) {
        add_block(j, w, &t, first + i, &p, at_height(&p, height++));
        for (uint64_t ends = i; ends & 1; ends >>= 1, height--)
            w->kernels->fold(at_height(&p, height - 1), used, at_height(&p, height - 2));
    }
    for (; height > 1; height--)
        w->kernels->fold(at_height(&p, height - 1), used, at_height(&p, height - 2));
}

/* ---------------------------------------------------------------- tiles */

static void write_part(struct job *j, uint32_t part, uint32_t worker)
{
    (void)worker;
    struct covariance_job *w = covariance_of(j);
    struct tile t = tile_at(w, part);
    uint64_t next = w->tiles * w->tile_numbers;
    double *nodes = (double *)scratch_at(j, w->nodes) + part * w->tile_numbers;
    size_t used = covariance_used(t.right.count);
    for (uint64_t step = 1; step < w->ranges; step *= 2)
        for (uint64_t i = 0; i + step < w->ranges; i += 2 * step) {
            yield_check();
            w->kernels->fold(nodes + (i + step) * next, used, nodes + i * next);
        }
    covariance_write(nodes, t.left, t.right, w->divisor, w->rows.dimension,
                     j->result.tensors[RESULT_COVARIANCE_COVARIANCE].data);
}

/* ---------------------------------------------------------------- the plan */

static void begin_products(struct job *j, struct covariance_job *w)
{
    enum { PRODUCTS_A_NS = 20 };
    set_mean(j, w);
    j->result.totals[0] = w->total;
    j->result.totals[1] = w->divisor;
    w->stage = COVARIANCE_PRODUCTS;
    progress_begin(&j->progress, PROGRESS_PRODUCTS, w->tiles * w->rows.count);
    j->plan.run_part = product_part;
    j->plan.parts = (uint32_t)(w->tiles * w->ranges);
    j->plan.part_ns = smaller(w->range_blocks * COVARIANCE_BLOCK, w->rows.count) *
                      COVARIANCE_TILE_NUMBERS / PRODUCTS_A_NS;
}

static void begin_write(struct job *j, struct covariance_job *w)
{
    w->stage = COVARIANCE_WRITE;
    progress_begin(&j->progress, PROGRESS_REPLY, 0);
    j->plan.run_part = write_part;
    j->plan.parts = (uint32_t)w->tiles;
    j->plan.part_ns = 0;
}

static void finish(struct job *j)
{
    struct covariance_job *w = covariance_of(j);
    uint64_t bad = atomic_load(&w->bad_row);
    uint32_t d = w->rows.dimension;
    if (!j->failure.code && bad != NO_ROW)
        operation_refuse_row(j, "row", bad, w->rows.inline_rows + bad * d, d);
    if (j->failure.code || is_cancelled(j) || atomic_load(&j->skipped)) {
        operation_drop_result(j);
        return;
    }
    switch (w->stage) {
    case COVARIANCE_SUMS: begin_products(j, w); break;
    case COVARIANCE_PRODUCTS: begin_write(j, w); break;
    case COVARIANCE_WRITE: return;
    }
    j->plan.prepare = NULL;
    j->step = steps_begin_next_plan;
}

static enum status prepare(struct job *j)
{
    progress_begin(&j->progress, PROGRESS_MEAN, 0);
    return covariance_prepare(j, covariance_of(j));
}

static enum status covariance_plan(struct job *j)
{
    struct covariance_job w;
    enum status st = covariance_begin(j, &w);
    if (st) return st;
    if (j->request.dry_run) return operation_rehearse(j);
    uint64_t bytes = covariance_layout(j, &w);
    st = operation_take_result(j, RESULTS_Covariance);
    if (!st) st = operation_take_scratch(j, bytes);
    if (st) return operation_drop_all(j);
    *covariance_of(j) = w;
    j->plan.prepare = prepare;
    j->plan.run_part = sum_part;
    j->plan.finish = finish;
    j->plan.parts = (uint32_t)(w.check_parts + w.blocks * w.strips);
    return STATUS_OK;
}

const struct operation_ops operation_covariance = {
    .check = covariance_check_request,
    .work = covariance_work,
    .plan = covariance_plan,
    .gpu_plan = covariance_gpu_plan,
    .gpu_pairs = covariance_gpu_pairs,
};
