/* complete_cases: one round of pattern completion by the tables of a variant, as the daemon runs
 * it, for the kernel tests and benches.
 * Owner:  included by them; everything is static inline.
 * Thread: any.
 * Errors: a failed allocation ends the process. */
#ifndef ENGRAM_TESTS_KERNELS_COMPLETE_CASES_H
#define ENGRAM_TESTS_KERNELS_COMPLETE_CASES_H

#include "kernels/complete.h"
#include "kernels/superpose.h"
#include "tests/kernels/samples.h"

/* Rows, of which `norms` are the canonical ones, and states; all padded. */
struct complete_case {
    uint32_t dimension;
    size_t stride, rows, states;
    bool unit;
    float beta;
    float *row, *norm, *state;
};

/* What a round leaves for each state. */
struct complete_round {
    float *scores; /* states x rows: the shares, in the end */
    float *largest;
    double *totals;
    float *sums; /* states x blocks x stride; block 0: the sums of all */
    float *next; /* states x stride */
    float *moved;
};

static inline struct complete_round complete_round_create(const struct complete_case *c)
{
    size_t blocks = (size_t)complete_blocks(c->rows);
    struct complete_round r = {
        .scores = samples_allocate(c->states * c->rows),
        .largest = samples_allocate(c->states),
        .totals = (double *)(void *)samples_allocate(2 * c->states * blocks),
        .sums = samples_allocate(c->states * blocks * c->stride),
        .next = samples_allocate(c->states * c->stride),
        .moved = samples_allocate(c->states * c->stride),
    };
    return r;
}

static inline void complete_round_destroy(struct complete_round *r)
{
    samples_free(r->scores), samples_free(r->largest), samples_free((float *)(void *)r->totals);
    samples_free(r->sums), samples_free(r->next), samples_free(r->moved);
}

/* Steps 1 to 4 of complete.h with the tables called `name`; rows are added `piece` at a time, a
 * multiple of COMPLETE_RUN. Totals: one a state, `blocks` apart. */
static inline void complete_round_run(const struct complete_case *c, const char *name, size_t piece,
                                      struct complete_round *r)
{
    const struct vector_kernels *vectors = vectors_choose(name);
    const struct complete_kernels *k = complete_choose(name);
    size_t blocks = (size_t)complete_blocks(c->rows), n = c->rows, stride = c->stride;
    struct row_block block = {c->row, c->norm, n};
    const float *norms = c->unit ? c->norm : NULL;
    for (size_t q = 0; q < c->states; q++) {
        float *scores = r->scores + q * n;
        vectors->scan(METRIC_DOT, c->dimension, c->state + q * stride, 0.0f, block, scores);
        r->largest[q] = k->score(norms, n, scores);
    }
    memset(r->sums, 0, c->states * blocks * stride * sizeof *r->sums);
    for (size_t b = 0; b < blocks; b++) {
        size_t first = b * COMPLETE_BLOCK;
        size_t count = n - first < COMPLETE_BLOCK ? n - first : COMPLETE_BLOCK;
        for (size_t q = 0; q < c->states; q++)
            r->totals[q * blocks + b] = k->weigh(norms ? norms + first : NULL, count, r->largest[q],
                                                 c->beta, r->scores + q * n + first);
        for (size_t at = 0; at < count; at += piece) {
            struct complete_shares shares = {r->scores + first + at, n, c->states};
            k->add(c->dimension, c->row + (first + at) * stride,
                   count - at < piece ? count - at : piece, &shares, r->sums + b * stride,
                   blocks * stride);
        }
    }
    for (size_t q = 0; q < c->states; q++) {
        float *sums = r->sums + q * blocks * stride;
        superpose_choose(name)->fold(c->dimension, sums, blocks);
        complete_fold_totals(r->totals + q * blocks, blocks);
        memcpy(r->next + q * stride, c->state + q * stride, stride * sizeof(float));
        k->settle(c->dimension, sums, r->totals[q * blocks], NULL, NULL, r->next + q * stride,
                  r->moved + q * stride);
    }
}

#endif
