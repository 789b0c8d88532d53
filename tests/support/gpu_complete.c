#include "tests/support/gpu_complete.h"

#include <string.h>

#include "tests/kernels/complete_cases.h"

struct order complete_ask(struct gpu_peer *p, const struct ask_rows *r, uint64_t states,
                          uint32_t rounds, bool unit, bool masked)
{
    uint64_t d = r->dimension, bytes = states * d * sizeof(float);
    struct order o = {.kind = ORDER_RUN,
                      .space = r->space,
                      .replica = r->replica,
                      .version = r->version,
                      .run = order_run_of(RUN_COMPLETE)};
    o.run.metric = METRIC_DOT;
    o.run.dimension = r->dimension;
    o.run.row_count = r->count;
    o.run.query_count = states;
    o.run.queries = peer_take(p, bytes);
    o.run.k = rounds;
    o.run.threshold = unit ? 8.0f : 0.5f;
    o.run.has_threshold = unit;
    o.run.out_scores = peer_take(p, bytes);
    o.run.out_ids = peer_take(p, states * sizeof(struct complete_record));
    for (uint64_t q = 0; q < states; q++)
        memcpy((float *)peer_at(p, o.run.queries) + q * d, r->plain + q * 7 % r->count * d,
               d * sizeof(float));
    if (!masked) return o;
    o.run.list_count = 1;
    o.run.weights = peer_take(p, d);
    for (uint64_t c = 0; c < d; c++)
        ((uint8_t *)peer_at(p, o.run.weights))[c] = c % 3 == 0;
    return o;
}

static void begin(struct gpu_peer *p, const struct order_run *run, uint64_t q,
                  struct complete_case *c)
{
    const float *cue = (const float *)peer_at(p, run->queries) + q * run->dimension;
    const uint8_t *known = run->list_count ? peer_at(p, run->weights) : NULL;
    memset(c->state, 0, c->stride * sizeof *c->state);
    for (uint32_t k = 0; k < c->dimension; k++)
        if (!known || known[k]) c->state[k] = cue[k];
}

/* Ends a round. Returns whether it left the state where it was. */
static bool settle(struct gpu_peer *p, const struct order_run *run, uint64_t q,
                   struct complete_case *c, struct complete_round *r)
{
    const float *cue = (const float *)peer_at(p, run->queries) + q * run->dimension;
    const uint8_t *known = run->list_count ? peer_at(p, run->weights) : NULL;
    for (uint32_t k = 0; known && k < c->dimension; k++)
        if (known[k]) r->next[k] = cue[k], r->moved[k] = cue[k] - c->state[k];
    memset(r->moved + c->dimension, 0, (c->stride - c->dimension) * sizeof *r->moved);
    memcpy(c->state, r->next, c->stride * sizeof *c->state);
    return canonical_norm(canonical_dot(c->dimension, r->moved, r->moved)) < COMPLETE_STILL;
}

static bool state_right(struct gpu_peer *p, const struct order_run *run, uint64_t q,
                        struct complete_case *c, struct complete_round *r)
{
    const float *got = (const float *)peer_at(p, run->out_scores) + q * run->dimension;
    struct complete_record record;
    memcpy(&record, (const char *)peer_at(p, run->out_ids) + q * sizeof record, sizeof record);
    uint32_t rounds = 0;
    bool still = false;
    begin(p, run, q, c);
    while (!still && rounds < run->k) {
        complete_round_run(c, "scalar", COMPLETE_BLOCK, r);
        still = settle(p, run, q, c, r);
        rounds++;
    }
    return record.rounds == rounds && record.still == still && record.done &&
           memcmp(got, c->state, run->dimension * sizeof *got) == 0;
}

bool complete_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *rows)
{
    const struct order_run *run = &o->run;
    struct complete_case c = {.dimension = run->dimension,
                              .stride = vector_stride(run->dimension),
                              .rows = rows->count,
                              .states = 1,
                              .unit = run->has_threshold,
                              .beta = run->threshold};
    bool right = true;
    c.row = samples_allocate(c.rows * c.stride), c.norm = samples_allocate(c.rows);
    c.state = samples_allocate(c.stride);
    memset(c.row, 0, c.rows * c.stride * sizeof *c.row);
    vectors_pad(c.dimension, rows->plain, c.rows, c.row);
    vectors_scalar.norms(c.dimension, c.row, c.rows, c.norm);
    struct complete_round r = complete_round_create(&c);
    for (uint64_t q = 0; q < run->query_count && right; q++)
        right = state_right(p, run, q, &c, &r);
    complete_round_destroy(&r);
    samples_free(c.row), samples_free(c.norm), samples_free(c.state);
    return right;
}
