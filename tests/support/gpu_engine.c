#include "tests/support/gpu_engine.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/canonical.h"
#include "tests/support/reference.h"

static uint64_t matrix_rows(const struct ask_engine *e)
{
    return (uint64_t)(ATTRACTOR_SPREAD + 1) * e->dimension;
}

struct ask_engine engine_make(uint32_t space, uint64_t replica, uint64_t version,
                              uint32_t dimension)
{
    struct ask_engine e = {space, dimension, replica, version, vector_stride(dimension), NULL};
    e.matrix = aligned_alloc(64, matrix_rows(&e) * e.stride * sizeof *e.matrix);
    cr_assert(e.matrix);
    attractor_scalar.weights(dimension, 0, dimension, e.matrix);
    attractor_scalar.dentate(dimension, 0, (size_t)ATTRACTOR_SPREAD * dimension,
                             e.matrix + dimension * e.stride);
    return e;
}

void engine_free(struct ask_engine *e)
{
    free(e->matrix);
    *e = (struct ask_engine){0};
}

void engine_change(struct ask_engine *e, uint64_t version, uint64_t seed)
{
    float *column = malloc(e->dimension * sizeof *column);
    cr_assert(column);
    for (uint32_t j = 0; j < e->dimension; j++) {
        reference_fill(seed + j, column, e->dimension);
        memcpy(e->matrix + j * e->stride, column, e->dimension * sizeof *column);
    }
    free(column);
    e->version = version;
}

struct order engine_upload(struct gpu_peer *p, const struct ask_engine *e, bool fresh,
                           uint64_t first, uint64_t count)
{
    uint64_t bytes = count * e->stride * sizeof(float), place = peer_take(p, bytes);
    if (count) memcpy(peer_at(p, place), e->matrix + first * e->stride, bytes);
    return (struct order){.kind = ORDER_UPLOAD,
                          .space = e->space,
                          .replica = e->replica,
                          .version = e->version,
                          .upload = {.dimension = e->dimension,
                                     .fresh = fresh,
                                     .row_count = matrix_rows(e),
                                     .first = first,
                                     .count = count,
                                     .rows = place,
                                     .ids = PLACE_NONE,
                                     .bare = 1}};
}

struct order engine_ask(struct gpu_peer *p, const struct ask_engine *e,
                        const struct ask_rows *stored, uint64_t cues, bool masked, uint64_t seed)
{
    uint64_t numbers = cues * e->dimension;
    struct order o = {.kind = ORDER_RUN,
                      .space = e->space,
                      .replica = e->replica,
                      .version = e->version,
                      .run = order_run_of(RUN_COMPLETE_ENGINE)};
    o.run.metric = METRIC_DOT;
    o.run.dimension = e->dimension;
    o.run.row_count = matrix_rows(e);
    o.run.k = attractor_kept(e->dimension, 0.05f);
    o.run.query_count = cues;
    o.run.queries = peer_take(p, numbers * sizeof(float));
    reference_fill(seed, peer_at(p, o.run.queries), numbers);
    o.run.out_scores = peer_take(p, numbers * sizeof(float));
    o.run.out_ids = peer_take(p, cues * sizeof(struct order_engine_end));
    if (stored) {
        o.other_replica = stored->replica;
        o.other_version = stored->version;
        o.run.other.row_count = stored->count;
    }
    if (!masked) return o;
    o.run.list_count = cues;
    o.run.weights = peer_take(p, numbers);
    for (uint64_t i = 0; i < numbers; i++)
        ((uint8_t *)peer_at(p, o.run.weights))[i] = i % e->dimension % 2 == 0;
    return o;
}

/* The nearest row to a state. */
static bool nearest_right(const struct order_engine_end *got, const float *state,
                          const struct ask_rows *stored)
{
    struct reference_rows all = {stored->dimension, REFERENCE_COSINE, stored->count, stored->plain,
                                 stored->ids};
    uint64_t id;
    float cosine;
    return reference_knn(&all, state, 1, NULL, NULL, &id, &cosine) == 1 && got->id == id &&
           memcmp(&got->cosine, &cosine, sizeof cosine) == 0;
}

/* memory: of the settling, the sums and their keys, the cue and the state. */
static bool cue_right(struct gpu_peer *p, const struct order_run *run, uint64_t q,
                      const struct ask_engine *e, const struct ask_rows *stored, float *memory)
{
    uint32_t d = e->dimension;
    const float *cue = (const float *)peer_at(p, run->queries) + q * d;
    const float *settled = (const float *)peer_at(p, run->out_scores) + q * d;
    const uint8_t *known = NULL;
    if (run->list_count)
        known = (const uint8_t *)peer_at(p, run->weights) + (run->list_count > 1 ? q * d : 0);
    float *x = memory + attractor_settle_bytes(d) / sizeof *memory, *state = x + e->stride;
    float *sums = state + e->stride, *keys = sums + (size_t)ATTRACTOR_SPREAD * d;
    struct order_engine_end end;
    memcpy(&end, (const char *)peer_at(p, run->out_ids) + q * sizeof end, sizeof end);
    memset(x, 0, e->stride * sizeof *x);
    for (uint32_t i = 0; i < d; i++)
        if (!known || known[i]) x[i] = cue[i];
    for (size_t i = 0; i < (size_t)ATTRACTOR_SPREAD * d; i++)
        sums[i] = canonical_dot(d, e->matrix + (d + i) * e->stride, x);
    attractor_separate(d, sums, (uint32_t *)(void *)keys, state);
    struct attractor_outcome o =
        attractor_settle(&attractor_scalar, &vectors_scalar, d, run->k, e->matrix, memory, state);
    return end.rounds == o.rounds && end.converged == o.converged &&
           memcmp(settled, state, d * sizeof *state) == 0 &&
           (!stored || nearest_right(&end, state, stored));
}

bool engine_right(struct gpu_peer *p, const struct order *o, const struct ask_engine *e,
                  const struct ask_rows *stored)
{
    size_t floats = attractor_settle_bytes(e->dimension) / sizeof(float) + 2 * e->stride +
                    (size_t)2 * ATTRACTOR_SPREAD * e->dimension;
    float *memory = aligned_alloc(64, (floats * sizeof *memory + 63) / 64 * 64);
    bool right = memory != NULL;
    for (uint64_t q = 0; q < o->run.query_count && right; q++)
        right = cue_right(p, &o->run, q, e, stored, memory);
    free(memory);
    return right;
}
