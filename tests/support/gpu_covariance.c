#include "tests/support/gpu_covariance.h"

#include <string.h>

#include "tests/kernels/covariance_reference.h"

static void add_weights(struct gpu_peer *p, struct order_run *run)
{
    double sums[2];
    run->weights = peer_take(p, run->list_count * sizeof(float));
    float *weights = peer_at(p, run->weights);
    for (uint64_t i = 0; i < run->list_count; i++)
        weights[i] = (float)(i % 5) / 4.0f + (i ? 0.0f : 1.0f);
    /* enough for a test: the right sums in one block, some number in several */
    covariance_weigh(weights, run->list_count, sums);
    run->weight_total = sums[0];
    run->divisor = covariance_divisor(sums[0], sums[1]);
}

struct order covariance_ask(struct gpu_peer *p, const struct ask_rows *r, bool listed,
                            bool weighted, bool brought)
{
    uint64_t d = r->dimension;
    struct order o = {.kind = ORDER_RUN,
                      .space = r->space,
                      .replica = brought ? 0 : r->replica,
                      .version = brought ? 0 : r->version,
                      .run = order_run_of(RUN_COVARIANCE)};
    struct order_run *run = &o.run;
    run->metric = METRIC_DOT;
    run->dimension = r->dimension;
    run->row_count = run->list_count = r->count;
    if (brought) {
        run->rows = peer_take(p, r->count * d * sizeof(float));
        memcpy(peer_at(p, run->rows), r->plain, r->count * d * sizeof(float));
    } else if (listed) {
        run->list_count = r->count / 2 + 2;
        run->positions = peer_take(p, run->list_count * sizeof(uint32_t));
        for (uint64_t i = 0; i < run->list_count; i++)
            ((uint32_t *)peer_at(p, run->positions))[i] = (uint32_t)(i / 2 * 7 % r->count);
    }
    run->weight_total = (double)run->list_count;
    run->divisor = run->weight_total - 1;
    if (weighted) add_weights(p, run);
    run->out_scores = peer_take(p, d * sizeof(double));
    run->out_ids = peer_take(p, d * d * sizeof(double));
    return o;
}

/* With the total and divisor that were ordered. */
bool covariance_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r)
{
    const struct order_run *run = &o->run;
    const uint32_t *positions = run->positions == PLACE_NONE ? NULL : peer_at(p, run->positions);
    size_t d = run->dimension, count = run->list_count;
    float *rows = malloc(count * d * sizeof *rows);
    double *mean = malloc(d * sizeof *mean);
    if (!rows || !mean) abort();
    for (size_t i = 0; i < count; i++)
        memcpy(rows + i * d, r->plain + (positions ? positions[i] : i) * d, d * sizeof *rows);
    const struct covariance_input in = {
        .rows = rows,
        .weights = run->weights == PLACE_NONE ? NULL : peer_at(p, run->weights),
        .stride = d,
        .count = count,
        .dimension = run->dimension};
    const double *got = peer_at(p, run->out_ids);
    bool right = true;
    for (size_t c = 0; c < d; c++) {
        struct covariance_factors f = {.rows = &in, .i = c};
        mean[c] = covariance_expected_sum(&f) / run->weight_total;
    }
    right &= memcmp(mean, peer_at(p, run->out_scores), d * sizeof *mean) == 0;
    for (size_t i = 0; i < d && right; i++)
        for (size_t j = i; j < d && right; j++) {
            struct covariance_factors f = {.rows = &in, .mean = mean, .i = i, .j = j};
            double wanted = covariance_expected_sum(&f) / run->divisor;
            right = memcmp(&wanted, &got[i * d + j], sizeof wanted) == 0 &&
                    memcmp(&wanted, &got[j * d + i], sizeof wanted) == 0;
        }
    free(rows), free(mean);
    return right;
}
