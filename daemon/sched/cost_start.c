/* cost_start: the built-in figures, from which a model starts that knows nothing of the machine. */
#include <string.h>

#include "daemon/sched/cost_inside.h"

static const double SPREAD_FRESH = 0.3;

static void line_start(struct cost_line *l, const double coefficients[COST_FEATURES])
{
    memcpy(l->coefficients, coefficients, sizeof l->coefficients);
    cost_doubt_all(l);
    cost_clear(l, SPREAD_FRESH);
}

/* On a core, following an edge takes edge_ns, which depends on how sequential the edges lie. A GPU
 * follows several edges in a nanosecond, but each hop costs some microseconds, and each set's
 * records must be copied back. On both, one worker makes the reply from the touched nodes. */
static void spread_start(struct cost_model *m, enum operation operation, double edge_ns)
{
    double n = m->workers;
    const double cpu[COST_FEATURES] = {5e3, 1, 10 / n, 2e3 / n, 1 / 5.0, edge_ns / n, 25e3};
    const double gpu[COST_FEATURES] = {110e3, 1, 1.2 + 6 / n, 300, 1 / 40.0, edge_ns / 60, 0};
    line_start(&m->lines[0][cost_line_of(operation)], cpu);
    line_start(&m->lines[1][cost_line_of(operation)], gpu);
}

/* Holographic operations count their work so that a number's product takes 0.1 ns on a core
 * (ops/holographic.c), and read and write no more than they name. Rows that came along are read
 * where they lie. tests/unit/ops/test_holographic_cost.c has what was measured. */
static void holographic_start(struct cost_model *m, double readers)
{
    double n = m->workers;
    const double bind[COST_FEATURES] = {0.7e3, 0.02 / readers, 0.14 / n, 0, 0.03, 0, 12e3};
    const double sums[COST_FEATURES] = {0.7e3, 0.06 / readers, 0.02 / n, 0, 0.03, 0.3 / n, 8e3};
    const double bytes[COST_FEATURES] = {0.5e3, 0.02 / readers, 0.1 / n, 0, 0.07, 0, 25e3};
    line_start(&m->lines[0][COST_BIND], bind);
    line_start(&m->lines[0][COST_WEIGHTED_AVERAGE], sums);
    line_start(&m->lines[0][COST_BYTES], bytes);
    /* An H200 convolves 100,000 pairs of 1,024 numbers in 0.4 ms, and each request copies tables of
     * its dimension, too. */
    const double bind_there[COST_FEATURES] = {45e3, 1 / 4e3, 2.5e-4, 0, 1 / 40.0, 0, 0};
    line_start(&m->lines[1][COST_BIND], bind_there);
}

/* Of its two completions. */
static void completion_start(struct cost_model *m, double readers)
{
    double n = m->workers;
    /* Each round reads the rows twice, once for the scores and once for the sums. */
    const double rounds[COST_FEATURES] = {
        10e3, 2 / (10 * readers), 4 / (80 * n), 2e3 / n, 1 / 10.0, 0.5 / n, 25e3};
    /* An H200 completes 1, 32 and 128 states from 1,000,000 rows of 768 in 1.4, 5.1 and 15.7 ms. */
    const double rounds_there[COST_FEATURES] = {60e3, 1.7 / 4e3, 4 / 27e3, 20, 1 / 40.0, 0, 0};
    /* By an attractor: the dentate's products, and CA3 for each cue, alike for all. */
    const double engine[COST_FEATURES] = {
        10e3, 1 / (20 * readers), 3 / (100 * n), 60e3 / n, 1 / 10.0, 0, 25e3};
    const double engine_there[COST_FEATURES] = {90e3, 1 / 4e3, 2 / 20e3, 500, 1 / 20.0, 0, 0};
    line_start(&m->lines[0][COST_COMPLETE], rounds);
    line_start(&m->lines[1][COST_COMPLETE], rounds_there);
    line_start(&m->lines[0][COST_COMPLETE_ENGINE], engine);
    line_start(&m->lines[1][COST_COMPLETE_ENGINE], engine_there);
}

void cost_init(struct cost_model *m, uint32_t workers)
{
    memset(m, 0, sizeof *m);
    m->workers = workers ? workers : 1;
    m->window = COST_WINDOW;
    m->upload_ns = 50e3;
    m->upload_ns_per_byte = 1 / 40.0;

    /* A core reads 10 bytes a nanosecond, and a dozen cores use all of the memory's bandwidth;
     * each does 100 flops a nanosecond if rows are reused. A GPU: 4 TB/s, 20 TFLOP/s exact, three
     * times that if it may screen. */
    double n = m->workers, readers = n < COST_READERS_MAX ? n : COST_READERS_MAX;
    for (uint32_t i = 0; i < COST_OPERATIONS; i++) {
        bool screened = i == COST_KNN;
        const double cpu[COST_FEATURES] = {
            3e3, 1 / (10 * readers), 2 / (100 * n), 500 / n, 1 / 10.0, 0.3 / n, 25e3};
        const double gpu[COST_FEATURES] = {
            35e3, 1 / 4e3, screened ? 2 / 60e3 : 2 / 20e3, 20, 1 / 40.0, 1e-4, 0};
        line_start(&m->lines[0][i], cpu);
        line_start(&m->lines[1][i], gpu);
    }
    holographic_start(m, readers);
    completion_start(m, readers);
    /* Rows are read twice, and once more for each tile of the products, which come from the caches;
     * a core adds some 16 products a nanosecond. */
    const double covariance[COST_FEATURES] = {
        20e3, 2 / (10 * readers), 1 / (16 * n), 0, 1 / 10.0, 0, 25e3};
    line_start(&m->lines[0][COST_COVARIANCE], covariance);
    const double covariance_there[COST_FEATURES] = {150e3, 2 / 4e3, 1 / 8e3, 0, 1 / 40.0, 0, 0};
    line_start(&m->lines[1][COST_COVARIANCE], covariance_there);
    /* Scans of clusters read them from memory or the last cache; a pair of sums is added once. */
    const double cluster[COST_FEATURES] = {50e3, 1 / (10 * readers), 2 / (80 * n), 0, 1 / 10.0, 10,
                                           25e3};
    line_start(&m->lines[0][COST_CLUSTER], cluster);
    const double cluster_there[COST_FEATURES] = {3e6, 1 / 4e3, 2 / 40e3, 0, 1 / 40.0, 0.6, 0};
    line_start(&m->lines[1][COST_CLUSTER], cluster_there);
    spread_start(m, OPERATION_SPREAD, 10);
    spread_start(m, OPERATION_SPREAD_ENGRAM, 25);
}
