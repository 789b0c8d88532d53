#include "tests/support/gpu_sums.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/superpose.h"
#include "tests/support/reference.h"

static uint64_t take_numbers(struct gpu_peer *p, const uint64_t *numbers, uint64_t count)
{
    uint64_t place = peer_take(p, count * sizeof *numbers);
    memcpy(peer_at(p, place), numbers, count * sizeof *numbers);
    return place;
}

/* Cuts the lists as kernels/cuda/rows_cuda.h wants them. */
static void cut(struct gpu_peer *p, const struct sums *s, struct order_run *run)
{
    uint64_t *offsets = calloc(s->lists + s->rows / SUPERPOSE_BLOCK + 2, sizeof *offsets);
    uint64_t *firsts = calloc(s->lists + 1, sizeof *firsts), pieces = 0, most = 0;
    cr_assert(offsets && firsts);
    for (uint64_t i = 0, at = 0; i < s->lists; i++) {
        for (uint64_t end = (i + 1) * s->rows / s->lists; at < end; offsets[++pieces] = at)
            at = end - at > SUPERPOSE_BLOCK ? at + SUPERPOSE_BLOCK : end;
        firsts[i + 1] = pieces;
        if (pieces - firsts[i] > most) most = pieces - firsts[i];
    }
    run->query_count = s->lists;
    run->piece_count = pieces;
    run->k = (uint32_t)most;
    run->offsets = take_numbers(p, offsets, pieces + 1);
    if (most > 1) run->firsts = take_numbers(p, firsts, s->lists + 1);
    free(offsets);
    free(firsts);
}

struct order sums_ask(struct gpu_peer *p, const struct sums *s)
{
    const struct ask_rows *r = s->of;
    struct order o = {.kind = ORDER_RUN, .space = r->space, .run = order_run_of(RUN_SUPERPOSE)};
    o.run.metric = METRIC_DOT;
    o.run.dimension = r->dimension;
    o.run.row_count = s->comes ? s->rows : r->count;
    o.run.list_count = s->rows;
    o.run.normalize = s->unit;
    if (s->comes) {
        o.run.rows = peer_take(p, s->rows * r->dimension * sizeof(float));
        memcpy(peer_at(p, o.run.rows), r->plain, s->rows * r->dimension * sizeof(float));
    } else {
        o.replica = r->replica;
        o.version = r->version;
        o.run.positions = peer_take(p, s->rows * sizeof(uint32_t));
        for (uint64_t i = 0; i < s->rows; i++)
            ((uint32_t *)peer_at(p, o.run.positions))[i] = (uint32_t)((i * 37 + 11) % r->count);
    }
    cut(p, s, &o.run);
    if (s->weighted) {
        o.run.weights = peer_take(p, s->rows * sizeof(float));
        reference_fill(3, peer_at(p, o.run.weights), s->rows);
    }
    o.run.out_scores = peer_take(p, s->lists * r->dimension * sizeof(float));
    return o;
}

/* The sum of rows [first, end) of the order, padded. */
static void add_up(struct gpu_peer *p, const struct order_run *run, const struct ask_rows *r,
                   uint64_t first, uint64_t end, float *sum)
{
    const struct superpose_kernels *kernels = superpose_choose("scalar");
    uint64_t count = end - first, offsets[2] = {0, count};
    const float **rows = calloc(count + 1, sizeof *rows), *weights = NULL;
    float *levels = aligned_alloc(64, (superpose_scratch(r->dimension, count) + 16) * 4), norm;
    cr_assert(rows && levels);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t *positions = peer_at(p, run->positions);
        rows[i] = run->rows != PLACE_NONE
                      ? (const float *)peer_at(p, run->rows) + (first + i) * r->dimension
                      : r->plain + (uint64_t)positions[first + i] * r->dimension;
    }
    if (run->weights != PLACE_NONE) weights = (const float *)peer_at(p, run->weights) + first;
    const struct superpose_lists list = {
        .rows = rows, .weights = weights, .offsets = offsets, .count = 1};
    kernels->sums(r->dimension, &list, levels, sum);
    vectors_scalar.norms(r->dimension, sum, 1, &norm);
    if (run->normalize) vectors_scalar.normalize(r->dimension, sum, &norm, 1);
    free(rows);
    free(levels);
}

bool sums_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r)
{
    const struct order_run *run = &o->run;
    const uint64_t *offsets = peer_at(p, run->offsets);
    const uint64_t *firsts = run->firsts == PLACE_NONE ? NULL : peer_at(p, run->firsts);
    const float *got = peer_at(p, run->out_scores);
    float *sum = aligned_alloc(64, vector_stride(r->dimension) * sizeof *sum);
    bool right = sum != NULL;
    for (uint64_t i = 0; i < run->query_count && right; i++, got += r->dimension) {
        uint64_t first = firsts ? firsts[i] : i, end = firsts ? firsts[i + 1] : i + 1;
        add_up(p, run, r, offsets[first], offsets[end], sum);
        right = memcmp(got, sum, r->dimension * sizeof *sum) == 0;
    }
    free(sum);
    return right;
}
