/* Completions of a story: what is asked, and what must come of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/complete.h"
#include "tests/support/attractor_reference.h"
#include "tests/support/reference.h"
#include "tests/support/story_check.h"
#include "tests/support/story_complete.h"
#include "tests/support/story_draft.h"

enum { CUES_MAX = 3, ENGINE_DIMENSION_MAX = 64, STATE_MAX = 512 };

/* ---------------------------------------------------------------- what is asked */

/* Two thirds of the numbers are known, mostly; odds: with that many chances in a thousand. */
static void choose_mask(struct story *s, struct story_request *r, uint32_t odds)
{
    uint64_t count;
    if (story_chance(s, 300)) return;
    r->mask_lines = story_chance(s, 500) ? 1 : r->query_count;
    count = r->mask_lines * r->dimension;
    r->mask = story_take(s, count);
    for (uint64_t i = 0; i < count; i++)
        r->mask[i] = story_chance(s, odds) ? (uint8_t)(1 + story_random(s, 255)) : 0;
}

static const uint8_t *known_of(const struct story_request *r, uint64_t cue)
{
    if (!r->mask) return NULL;
    return r->mask + (r->mask_lines == 1 ? 0 : cue * r->dimension);
}

struct draft *story_complete(struct story *s, struct story_request *r)
{
    struct draft *d = draft_open(OPERATION_COMPLETE, engram_accel_v1_CompleteRequest_fields);
    engram_accel_v1_CompleteRequest *m = &d->sample.message.complete;
    r->query_count = 1 + story_random(s, CUES_MAX);
    r->queries = draft_floats(s, r->query_count * r->dimension);
    choose_mask(s, r, 660);
    m->beta = r->scalar = (float)(1 + story_random(s, 200)) / 10;
    m->rounds = r->k = 1 + (uint32_t)story_random(s, 5);
    m->unit = r->create = story_chance(s, 500);
    strcpy(m->collection, story_name(r->name));
    PUT(d, m, states, DTYPE_FLOAT32, r->query_count, r->dimension, r->queries);
    if (r->mask) PUT(d, m, mask, DTYPE_UINT8, r->mask_lines, r->dimension, r->mask);
    return d;
}

struct draft *story_complete_engine(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_COMPLETE_ENGINE;
    struct draft *d =
        draft_open(OPERATION_COMPLETE_ENGINE, engram_accel_v1_CompleteEngineRequest_fields);
    engram_accel_v1_CompleteEngineRequest *m = &d->sample.message.complete_engine;
    r->query_count = 1 + story_random(s, CUES_MAX);
    r->queries = draft_floats(s, r->query_count * r->dimension);
    choose_mask(s, r, story_chance(s, 100) ? 300 : 800); /* or too few, now and then */
    for (uint64_t i = 0; r->mask && i < r->dimension; i++)
        if (!r->mask[i]) r->queries[i] = NAN; /* what is not known may be anything */
    strcpy(m->attractor, story_name(r->name));
    if (r->embedded) strcpy(m->collection, story_name(r->reads[0].name));
    PUT(d, m, cues, DTYPE_FLOAT32, r->query_count, r->dimension, r->queries);
    if (r->mask) PUT(d, m, mask, DTYPE_UINT8, r->mask_lines, r->dimension, r->mask);
    return d;
}

/* ---------------------------------------------------------------- what may come of it */

static bool knows_too_little(const struct story_request *r)
{
    uint32_t least = r->dimension / 3 > 1 ? r->dimension / 3 : 1;
    for (uint64_t cue = 0; r->mask && cue < r->query_count; cue++) {
        uint32_t known = 0;
        for (uint32_t i = 0; i < r->dimension; i++)
            known += known_of(r, cue)[i] != 0;
        if (known < least) return true;
    }
    return false;
}

enum status story_engine_fate(const struct story_request *r)
{
    bool reads =
        r->operation == OPERATION_COMPLETE_ENGINE || r->operation == OPERATION_ATTRACTOR_LEARN;
    if (!reads) return STATUS_OK;
    if (r->embedded && r->reads[0].resident->dimension != r->dimension)
        return STATUS_INVALID_ARGUMENT;
    if (r->operation == OPERATION_ATTRACTOR_LEARN) return STATUS_OK;
    return knows_too_little(r) ? STATUS_INVALID_ARGUMENT : STATUS_OK;
}

bool story_complete_may_be_empty(const struct story_request *r)
{
    if (r->operation != OPERATION_COMPLETE || !r->resident) return false;
    for (const struct story_state *at = r->resident->last; at; at = at->before)
        if (!at->count && story_may_see(r, at)) return true;
    return false;
}

/* ---------------------------------------------------------------- the modern rule */

/* A collection's rows in the order in which they are stored; fewer than a block of them. */
struct stored {
    uint32_t dimension;
    uint64_t count;
    const float **rows;
    const uint64_t *ids;
    float *norms; /* 1: rows as they are */
    bool unit;
    float beta, largest_norm;
    float *scores, *shares;
};

struct round {
    float largest, energy;
    uint64_t best; /* row */
    double total;
};

static struct stored open_rows(const struct story_request *r, const struct story_state *seen)
{
    struct stored c = {.dimension = r->dimension,
                       .count = seen->count,
                       .rows = malloc(seen->count * sizeof *c.rows),
                       .ids = seen->order,
                       .norms = malloc(seen->count * sizeof *c.norms),
                       .unit = r->create,
                       .beta = r->scalar,
                       .scores = malloc(seen->count * sizeof *c.scores),
                       .shares = malloc(seen->count * sizeof *c.shares)};
    if (!c.rows || !c.norms || !c.scores || !c.shares || seen->count > COMPLETE_BLOCK) abort();
    for (uint64_t i = 0; i < c.count; i++) {
        c.rows[i] = seen->rows + story_place(seen, c.ids[i]) * c.dimension;
        float norm = reference_norm(c.dimension, c.rows[i]);
        float counted = c.unit && norm != 0.0F ? 1.0F : norm;
        if (counted > c.largest_norm) c.largest_norm = counted;
        c.norms[i] = c.unit ? norm : 1.0F;
    }
    return c;
}

static void close_rows(struct stored *c)
{
    free(c->rows);
    free(c->norms);
    free(c->scores);
    free(c->shares);
}

static bool is_better(const struct stored *c, uint64_t row, uint64_t best)
{
    if (c->scores[row] != c->scores[best]) return c->scores[row] > c->scores[best];
    return c->ids[row] < c->ids[best];
}

static double total_of(const float *weights, uint64_t count)
{
    double partial[32] = {0};
    for (uint64_t i = 0; i < count; i++)
        partial[i % 32] = partial[i % 32] + (double)weights[i];
    for (int step = 16; step; step /= 2)
        for (int k = 0; k < step; k++)
            partial[k] = partial[k] + partial[k + step];
    return partial[0];
}

static float sum_of(const struct stored *c, uint32_t column)
{
    float sum = 0;
    for (uint64_t first = 0; first < c->count; first += COMPLETE_RUN) {
        float run = 0;
        for (uint64_t i = first; i < c->count && i < first + COMPLETE_RUN; i++)
            run = fmaf(c->shares[i], c->rows[i][column], run);
        sum = sum + run;
    }
    return sum;
}

/* One round: state becomes next. */
static struct round run_round(struct stored *c, const float *state, float *next)
{
    struct round out = {.largest = -INFINITY};
    for (uint64_t i = 0; i < c->count; i++) {
        float dot = reference_score(REFERENCE_DOT, c->dimension, state, c->rows[i]);
        c->scores[i] = complete_score(dot, c->norms[i]);
        if (c->scores[i] > out.largest) out.largest = c->scores[i];
        if (is_better(c, i, out.best)) out.best = i;
    }
    for (uint64_t i = 0; i < c->count; i++)
        c->shares[i] = complete_weight(c->scores[i], out.largest, c->beta);
    out.total = total_of(c->shares, c->count);
    for (uint64_t i = 0; i < c->count; i++)
        c->shares[i] = complete_share(c->shares[i], c->norms[i]);
    for (uint32_t k = 0; k < c->dimension; k++)
        next[k] = complete_value(sum_of(c, k), out.total);
    out.energy = complete_energy(reference_norm(c->dimension, state), c->largest_norm, out.largest,
                                 out.total, c->count, c->beta);
    return out;
}

/* What is said of completed states. */
struct completions {
    const float *states, *energies, *cosines;
    const uint32_t *rounds;
    const uint8_t *converged;
    const uint64_t *ids;
};

static void check_state(struct cursor *c, struct stored *rows, uint64_t at,
                        const struct completions *got)
{
    const struct story_request *r = c->r;
    const uint8_t *known = known_of(r, at);
    uint32_t d = r->dimension, rounds = 0;
    const float *cue = r->queries + at * d;
    float state[STATE_MAX], next[STATE_MAX], moved[STATE_MAX];
    struct round last = {0};
    bool still = false;
    for (uint32_t i = 0; i < d; i++)
        state[i] = !known || known[i] ? cue[i] : 0;
    for (; rounds < r->k && !still; rounds++) {
        last = run_round(rows, state, next);
        for (uint32_t i = 0; i < d; i++) {
            if (known && known[i]) next[i] = cue[i];
            moved[i] = next[i] - state[i];
            state[i] = next[i];
        }
        still = reference_norm(d, moved) < COMPLETE_STILL;
    }
    for (uint32_t i = 0; i < d; i++)
        if (!reference_same(got->states[at * d + i], state[i]))
            WRONG(c->s, r, "number %u of state %llu is %.9g, not %.9g", i, (unsigned long long)at,
                  got->states[at * d + i], state[i]);
    float cosine = reference_score(REFERENCE_COSINE, d, state, rows->rows[last.best]);
    if (got->rounds[at] != rounds || got->converged[at] != still ||
        !reference_same(got->energies[at], last.energy) || got->ids[at] != rows->ids[last.best] ||
        !reference_same(got->cosines[at], cosine))
        WRONG(c->s, r, "state %llu: what is said of it", (unsigned long long)at);
}

void story_check_complete(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_CompleteReply m = engram_accel_v1_CompleteReply_init_zero;
    const struct story_request *r = c->r;
    uint64_t n = r->query_count;
    check_decode(c->s, r, reply, engram_accel_v1_CompleteReply_fields, &m);
    check_see(c, m.meta.version);
    check_version(c->s, r, m.meta.version);
    c->s->by_backend[m.meta.backend % 4]++;
    struct completions got = {.states = NEXT(c, &m, states, DTYPE_FLOAT32, n, r->dimension)};
    got.rounds = NEXT(c, &m, rounds, DTYPE_UINT32, n, 1);
    got.converged = NEXT(c, &m, converged, DTYPE_UINT8, n, 1);
    got.energies = NEXT(c, &m, energies, DTYPE_FLOAT32, n, 1);
    got.ids = NEXT(c, &m, ids, DTYPE_UINT64, n, 1);
    got.cosines = NEXT(c, &m, cosines, DTYPE_FLOAT32, n, 1);
    if (!story_seen(r)->count) WRONG(c->s, r, "it was answered, and there were no rows");
    struct stored rows = open_rows(r, story_seen(r));
    for (uint64_t i = 0; i < n; i++)
        check_state(c, &rows, i, &got);
    close_rows(&rows);
    c->s->completed += n;
}

/* ---------------------------------------------------------------- the engine's rule */

/* Made once for all stories. */
static const float *dentate_of(uint32_t dimension)
{
    static const float *made[ENGINE_DIMENSION_MAX + 1];
    if (dimension > ENGINE_DIMENSION_MAX) abort();
    if (!made[dimension]) made[dimension] = reference_dentate(dimension);
    return made[dimension];
}

static void check_nearest(struct cursor *c, const float *state, uint64_t id, float cosine,
                          uint8_t passes)
{
    const struct story_state *rows = c->r->reads[0].seen;
    float best = NAN;
    uint64_t best_id = UINT64_MAX;
    for (uint64_t i = 0; i < rows->count; i++) {
        float to = reference_score(REFERENCE_COSINE, c->r->dimension, state,
                                   rows->rows + i * c->r->dimension);
        if (i && !(to > best)) continue; /* ids rise */
        best = to;
        best_id = rows->ids[i];
    }
    if (id != best_id || !reference_same(cosine, best) || passes != (best > 0.7F))
        WRONG(c->s, c->r, "the nearest is %llu at %.9g, not %llu at %.9g", (unsigned long long)id,
              cosine, (unsigned long long)best_id, best);
}

static void check_settled(struct cursor *c, const engram_accel_v1_CompleteEngineReply *m)
{
    const struct story_request *r = c->r;
    uint64_t n = r->query_count;
    uint32_t d = r->dimension;
    const float *states = NEXT(c, m, states, DTYPE_FLOAT32, n, d);
    const float *confidences = NEXT(c, m, confidences, DTYPE_FLOAT32, n, 1);
    const uint32_t *rounds = NEXT(c, m, rounds, DTYPE_UINT32, n, 1);
    const uint8_t *converged = NEXT(c, m, converged, DTYPE_UINT8, n, 1);
    const uint64_t *ids = r->embedded ? NEXT(c, m, ids, DTYPE_UINT64, n, 1) : NULL;
    const float *cosines = r->embedded ? NEXT(c, m, cosines, DTYPE_FLOAT32, n, 1) : NULL;
    const uint8_t *passes = r->embedded ? NEXT(c, m, passes, DTYPE_UINT8, n, 1) : NULL;
    for (uint64_t q = 0; q < n; q++) {
        const uint8_t *known = known_of(r, q);
        float x[ENGINE_DIMENSION_MAX], state[ENGINE_DIMENSION_MAX];
        for (uint32_t i = 0; i < d; i++)
            x[i] = !known || known[i] ? r->queries[q * d + i] : 0;
        struct reference_outcome o =
            reference_complete(d, dentate_of(d), story_seen(r)->weights,
                               story_attractor_kept(c->s, r->name), x, state);
        for (uint32_t i = 0; i < d; i++)
            if (!reference_same(states[q * d + i], state[i]))
                WRONG(c->s, r, "number %u of cue %llu", i, (unsigned long long)q);
        if (rounds[q] != o.rounds || converged[q] != o.converged ||
            !reference_same(confidences[q], o.confidence))
            WRONG(c->s, r, "cue %llu: what is said of it", (unsigned long long)q);
        if (r->embedded) check_nearest(c, state, ids[q], cosines[q], passes[q]);
    }
    c->s->settled += n;
}

void story_check_engine(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_CompleteEngineReply m = engram_accel_v1_CompleteEngineReply_init_zero;
    check_decode(c->s, c->r, reply, engram_accel_v1_CompleteEngineReply_fields, &m);
    check_see(c, m.attractor_version);
    check_version(c->s, c->r, m.meta.version);
    check_see_embeddings(c, m.collection_version);
    c->s->by_backend[m.meta.backend % 4]++;
    check_settled(c, &m);
}
