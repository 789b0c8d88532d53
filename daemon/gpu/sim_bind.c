#include "daemon/gpu/sim_bind.h"

#include <stdlib.h>
#include <string.h>

static const char *const name = "bind";

enum { AT_ONCE = 64 };

/* ---- what it may touch ---- */

static void check(const struct sim_memory *m, const void *address, uint64_t count, uint64_t size,
                  uint64_t alignment)
{
    sim_device_check_array(m, name, address, count, size, alignment);
}

static void check_step(uint64_t step, uint32_t dimension)
{
    if (step % 2 || (step && step < dimension))
        sim_misuse(name, "rows of %u numbers are %llu apart", dimension, (unsigned long long)step);
}

static void check_operand(const struct cuda_hrr_rows *o, const struct cuda_hrr *work,
                          const struct sim_memory *m)
{
    uint32_t d = work->plan->dimension;
    check_step(o->step, d);
    if (o->positions && o->step) {
        check(m, o->positions, work->count, sizeof *o->positions, 4);
        check(m, o->rows, d, sizeof(float), 8);
    } else {
        check(m, o->rows, (work->count - 1) * o->step + d, sizeof(float), 8);
    }
}

static uint32_t numbers_of_tables(const struct cuda_hrr *work)
{
    return work->form == HRR_UNBIND_EXACT ? work->plan->end : work->plan->exact_roots;
}

void sim_bind_check(const struct cuda_hrr *work, const struct sim_memory *m)
{
    const struct hrr_plan *plan = work->plan;
    check(m, work->failed, 1, sizeof *work->failed, 8);
    if (!hrr_has_form(plan->dimension, work->form))
        sim_misuse(name, "no kernel of dimension %u, form %d", plan->dimension, (int)work->form);
    check(m, work->tables, numbers_of_tables(work), sizeof(float), 64);
    if (work->count == 0) return;
    if (work->scratch_bytes < sim_bind_scratch(plan, work->count).least)
        sim_misuse(name, "%llu bytes of scratch", (unsigned long long)work->scratch_bytes);
    check(m, work->scratch, work->scratch_bytes, 1, work->scratch_bytes ? 256 : 1);
    if (work->offsets) check(m, work->offsets, work->count + 1, sizeof *work->offsets, 8);
    if (!work->offsets) check_operand(&work->a, work, m);
    if (!work->offsets) check_operand(&work->b, work, m);
    if (!work->out_step) sim_misuse(name, "results have one place");
    check_step(work->out_step, plan->dimension);
    check(m, work->out, (work->count - 1) * work->out_step + plan->dimension, sizeof(float), 8);
}

/* ---- doing it ---- */

/* As a card whose blocks have 227 KiB of shared memory. */
struct cuda_hrr_scratch sim_bind_scratch(const struct hrr_plan *plan, uint64_t count)
{
    enum { SHARED_BYTES = 227 << 10, PROCESSORS = 8 };
    return hrr_scratch_of(plan, count, SHARED_BYTES, PROCESSORS);
}

uint64_t sim_bind_scratch_bytes(void)
{
    uint64_t unplanned = hrr_scratch_bytes(HRR_DIMENSION_MAX - 1);
    uint64_t planned = hrr_scratch_bytes(HRR_DIMENSION_MAX);
    return unplanned > planned ? unplanned : planned;
}

static const float *row_of(const struct cuda_hrr_rows *o, uint64_t i, uint32_t dimension,
                           const struct sim_memory *m)
{
    if (o->step == 0) return o->rows;
    const float *row = o->rows + o->step * (o->positions ? o->positions[i] : i);
    if (o->positions) check(m, row, dimension, sizeof(float), 8);
    return row;
}

/* Returns the first pair that has no result, or its count; those behind it are made, too. */
static uint64_t bind_some(const struct cuda_hrr *work, const struct hrr_pairs *pairs)
{
    uint64_t failed = UINT64_MAX;
    struct hrr_pairs left = *pairs;
    for (;;) {
        struct hrr_fault fault = hrr_choose("auto")->pairs(&left);
        if (fault.status == HRR_OK) return failed;
        if (failed == UINT64_MAX) failed = (uint64_t)(left.a - pairs->a) + fault.pair;
        size_t done = fault.pair + 1;
        left.a += done;
        left.b += done;
        left.out += done * work->out_step;
        left.count -= done;
        if (!left.count) return failed;
    }
}

/* The product of a list; false: it is not finite. */
static bool bind_list(const struct cuda_hrr *work, uint64_t i, const struct sim_memory *m,
                      const struct hrr_plan *plan, void *scratch)
{
    uint64_t first = work->offsets[i], count = work->offsets[i + 1] - first;
    float *out = work->out + i * work->out_step;
    if (!count) memset(out, 0, plan->dimension * sizeof *out);
    if (!count) return true;
    const float **rows = malloc(count * sizeof *rows);
    if (!rows) sim_misuse(name, "no memory for a list of %llu rows", (unsigned long long)count);
    for (uint64_t n = 0; n < count; n++) {
        const struct cuda_hrr_rows *a = &work->a;
        if (a->positions) check(m, &a->positions[first + n], 1, sizeof *a->positions, 4);
        rows[n] = a->rows + a->step * (a->positions ? a->positions[first + n] : first + n);
        check(m, rows[n], plan->dimension, sizeof(float), 8);
    }
    struct hrr_product product = {
        .plan = plan, .scratch = scratch, .rows = rows, .count = count, .out = out};
    bool finite = hrr_choose("auto")->many(&product).status == HRR_OK;
    free(rows);
    return finite;
}

void sim_bind_run(const struct cuda_hrr *work, const struct sim_memory *m, void *scratch)
{
    const struct hrr_plan *plan = (const struct hrr_plan *)(const void *)work->tables;
    *work->failed = UINT64_MAX;
    if (work->scratch_bytes) memset(work->scratch, 0xff, work->scratch_bytes); /* NaN */
    if (memcmp(plan, work->plan, numbers_of_tables(work) * sizeof(float)) != 0)
        sim_misuse(name, "other tables than the plan's");
    for (uint64_t i = 0; work->offsets && i < work->count; i++) {
        bool finite = bind_list(work, i, m, plan, scratch);
        if (!finite && *work->failed == UINT64_MAX) *work->failed = i;
    }
    for (uint64_t first = 0; !work->offsets && first < work->count; first += AT_ONCE) {
        const float *a[AT_ONCE], *b[AT_ONCE];
        uint64_t left = work->count - first;
        struct hrr_pairs pairs = {.plan = plan,
                                  .scratch = scratch,
                                  .form = work->form,
                                  .a = a,
                                  .b = b,
                                  .count = (size_t)(left < AT_ONCE ? left : AT_ONCE),
                                  .out = work->out + first * work->out_step,
                                  .out_step = work->out_step};
        for (size_t i = 0; i < pairs.count; i++) {
            a[i] = row_of(&work->a, first + i, plan->dimension, m);
            b[i] = row_of(&work->b, first + i, plan->dimension, m);
        }
        uint64_t failed = bind_some(work, &pairs);
        if (failed != UINT64_MAX && *work->failed == UINT64_MAX) *work->failed = first + failed;
    }
}

/* ---- norms of 1 ---- */

void sim_normalize_check(const struct device_call *call, const struct sim_memory *m)
{
    uint64_t count = call->rows.count;
    check(m, call->normalize.rows, count, vector_stride(call->rows.dimension) * sizeof(float), 64);
    check(m, call->normalize.norms, count, sizeof(float), 4);
}

void sim_normalize_run(const struct device_call *call, const struct vector_kernels *kernels)
{
    kernels->normalize(call->rows.dimension, call->normalize.rows, call->normalize.norms,
                       call->rows.count);
}
