/* What the scheduler expects holographic operations to take before it has seen one run: within
 * twice of what the CPU takes, or 3 us. The figures are of the build machine (2 cores, AVX-512) on
 * 2026-11-23, `run_ns` of a daemon with 2 workers in its middle between the least and the median of
 * some hundred requests each; no clock is read here. */
#include "daemon/sched/cost.h"
#include "tests/unit/ops/ops_bench.h"

#include <math.h>

enum { WORKERS = 2, OFFSETS_MAX = 1001 };

static const struct measured {
    enum operation operation;
    bool by_id; /* of a collection; otherwise rows come along */
    uint32_t dimension;
    uint64_t rows, lists; /* lists 0: no offsets are given */
    double us;
} table[] = {
    {OPERATION_BIND, false, 16, 100, 0, 50},
    {OPERATION_BIND, false, 64, 1, 0, 1.2},
    {OPERATION_BIND, false, 64, 20, 0, 20},
    {OPERATION_BIND, false, 64, 200, 0, 196},
    {OPERATION_BIND, false, 64, 2000, 0, 1120},
    {OPERATION_BIND, false, 128, 100, 0, 71},
    {OPERATION_BIND, false, 512, 1, 0, 1.6},
    {OPERATION_BIND, false, 512, 100, 0, 79},
    {OPERATION_BIND, false, 769, 1, 0, 5.2},
    {OPERATION_BIND, false, 769, 100, 0, 245},
    {OPERATION_BIND, false, 1024, 1, 0, 2.5},
    {OPERATION_BIND, false, 1024, 5, 0, 11},
    {OPERATION_BIND, false, 1024, 100, 0, 127},
    {OPERATION_BIND, false, 1024, 1000, 0, 1200},
    {OPERATION_BIND, false, 4096, 1, 0, 11.5},
    {OPERATION_BIND, false, 4096, 100, 0, 675},
    {OPERATION_BIND, false, 16384, 2, 0, 108},
    {OPERATION_BIND, true, 64, 100, 0, 93},
    {OPERATION_BIND, true, 1024, 1, 0, 2.6},
    {OPERATION_BIND, true, 1024, 100, 0, 120},
    {OPERATION_BIND, true, 1024, 1000, 0, 950},
    {OPERATION_UNBIND, false, 1024, 100, 0, 144},
    {OPERATION_BIND_MANY, false, 1024, 10, 0, 11},
    {OPERATION_SUPERPOSE, false, 64, 20, 0, 0.9},
    {OPERATION_SUPERPOSE, false, 64, 1000, 0, 33},
    {OPERATION_SUPERPOSE, false, 64, 1000, 100, 38},
    {OPERATION_SUPERPOSE, false, 1024, 10, 0, 2.1},
    {OPERATION_SUPERPOSE, false, 1024, 100, 0, 20},
    {OPERATION_SUPERPOSE, false, 1024, 100, 10, 20},
    {OPERATION_SUPERPOSE, false, 1024, 1000, 0, 193},
    {OPERATION_SUPERPOSE, false, 1024, 1000, 100, 146},
    {OPERATION_SUPERPOSE, true, 64, 1000, 0, 15.1},
    {OPERATION_SUPERPOSE, true, 64, 1000, 100, 19.6},
    {OPERATION_SUPERPOSE, true, 1024, 10, 0, 2.0},
    {OPERATION_SUPERPOSE, true, 1024, 1000, 0, 110},
    {OPERATION_SUPERPOSE, true, 1024, 1000, 100, 99},
    {OPERATION_SUPERPOSE, true, 512, 1000, 0, 54},
    {OPERATION_PERMUTE, false, 64, 20, 0, 1.0},
    {OPERATION_PERMUTE, false, 64, 1000, 0, 57},
    {OPERATION_PERMUTE, false, 512, 10, 0, 1.5},
    {OPERATION_PERMUTE, false, 1024, 1, 0, 0.3},
    {OPERATION_PERMUTE, false, 1024, 100, 0, 110},
    {OPERATION_PERMUTE, false, 1024, 1000, 0, 700},
    {OPERATION_RANDOM, false, 64, 20, 0, 8.8},
    {OPERATION_RANDOM, false, 64, 1000, 0, 266},
    {OPERATION_RANDOM, false, 512, 8, 0, 7.6},
    {OPERATION_RANDOM, false, 1024, 1, 0, 2.1},
    {OPERATION_RANDOM, false, 1024, 100, 0, 123},
    {OPERATION_RANDOM, false, 1024, 1000, 0, 950},
    {OPERATION_RANDOM, false, 4096, 1, 0, 7.7},
};

static uint64_t offsets[OFFSETS_MAX];

static void set_request(const struct measured *m, struct job *j)
{
    struct job_request *r = &j->request;
    const struct tensor rows = {DTYPE_FLOAT32, m->rows, m->dimension, NULL};
    const struct tensor ids = {DTYPE_UINT64, m->rows, 1, NULL};
    bool pairs = m->operation == OPERATION_BIND || m->operation == OPERATION_UNBIND;
    if (m->operation == OPERATION_RANDOM) {
        r->dimension = m->dimension;
        r->limit = m->rows;
        return;
    }
    if (m->by_id) {
        r->ids = ids;
        if (pairs) r->other_ids = ids;
    } else {
        r->rows = rows;
        if (pairs) r->other_rows = rows;
    }
    if (m->lists) r->offsets = (struct tensor){DTYPE_UINT64, m->lists + 1, 1, offsets};
    uint64_t bytes = m->rows * (m->by_id ? sizeof(uint64_t) : m->dimension * sizeof(float));
    j->body_bytes = (pairs ? 2 : 1) * bytes + (m->lists + 1) * sizeof(uint64_t);
}

static struct work work_of(const struct measured *m)
{
    struct bench b = open_bench(m->dimension, 1);
    struct job j = {.operation = m->operation, .space = b.space};
    if (m->by_id) {
        j.resident = collection_resident(b.collection);
        j.collection = collection_now(b.collection);
        j.objects[0] = (struct job_object){.resident = j.resident, .collection = j.collection};
        j.objects[1] = j.objects[0];
    }
    set_request(m, &j);
    struct work w = operation_work(&j);
    close_bench(&b);
    return w;
}

static double predicted_us(const struct cost_model *m, const struct work *w)
{
    return (double)cost_predict(m, BACKEND_CPU, w).ns / 1e3;
}

Test(holographic_cost, is_foreseen_before_anything_ran)
{
    struct cost_model *m = malloc(sizeof *m);
    cost_init(m, WORKERS);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct work w = work_of(&table[i]);
        double seen = table[i].us, said = predicted_us(m, &w);
        cr_expect(
            fabs(said - seen) <= 3 || (said <= 2 * seen && seen <= 2 * said),
            "operation %d, %u dimensions, %d rows, %d lists: %.1f us are foreseen, %.1f measured",
            (int)table[i].operation, table[i].dimension, (int)table[i].rows, (int)table[i].lists,
            said, seen);
    }
    free(m);
}

/* Few rows run where they were received. */
Test(holographic_cost, few_rows_run_on_the_loop)
{
    static const enum operation few[] = {OPERATION_BIND,      OPERATION_UNBIND,
                                         OPERATION_BIND_MANY, OPERATION_SUPERPOSE,
                                         OPERATION_PERMUTE,   OPERATION_RANDOM};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        struct work w = work_of(&(struct measured){few[i], false, 1024, 4, 0, 0});
        cr_assert(work_is_brief(&w), "operation %d", (int)few[i]);
        w = work_of(&(struct measured){few[i], false, 1024, 64, 0, 0});
        cr_assert_not(work_is_brief(&w), "operation %d", (int)few[i]);
    }
}

/* A dimension that is padded takes as long as it does. */
Test(holographic_cost, counts_the_length_that_is_transformed)
{
    struct work whole = work_of(&(struct measured){OPERATION_BIND, false, 1024, 1, 0, 0});
    struct work padded = work_of(&(struct measured){OPERATION_BIND, false, 1021, 1, 0, 0});
    cr_assert_eq(whole.pairs, 18);
    cr_assert_geq(padded.pairs, 3 * whole.pairs / 2);
    whole = work_of(&(struct measured){OPERATION_BIND, false, 1, 1, 0, 0});
    cr_assert_geq(whole.pairs, 1);
}
