/* Attractors of a story: what is asked of them, and what they hold after each write. */
#include "daemon/store/attractor.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/attractor_reference.h"
#include "tests/support/reference.h"
#include "tests/support/story_check.h"
#include "tests/support/story_complete.h"
#include "tests/support/story_draft.h"

enum { DIMENSION_MAX = 64, PATTERNS_MAX = 4 };

/* ---------------------------------------------------------------- what there is */

/* That of a collection, whose rows can be learned. */
uint32_t story_attractor_dimension(const struct story *s, uint32_t name)
{
    uint32_t dimension = s->model.dimension[1 + (name - STORY_ATTRACTOR) % 2];
    return dimension <= DIMENSION_MAX ? dimension : 8;
}

static struct attractor_shape shape_of(const struct story *s, uint32_t name)
{
    bool first = name == STORY_ATTRACTOR;
    return (struct attractor_shape){story_attractor_dimension(s, name),
                                    first ? ATTRACTOR_SPARSITY : 0.3F,
                                    first ? ATTRACTOR_RATE : 0.2F};
}

/* Halves are rounded up; one stays at least. */
uint32_t story_attractor_kept(const struct story *s, uint32_t name)
{
    struct attractor_shape shape = shape_of(s, name);
    double kept = floor((double)shape.sparsity * shape.dimension + 0.5);
    return kept < 1 ? 1 : (uint32_t)kept;
}

static float *copy_weights(struct story *s, uint32_t dimension, const float *weights)
{
    size_t bytes = (size_t)dimension * dimension * sizeof *weights;
    return memcpy(story_take(s, bytes), weights, bytes);
}

void story_attractor_begin(struct story *s, struct story_collection *made)
{
    float *weights;
    made->dimension = story_attractor_dimension(s, made->name);
    weights = reference_weights(made->dimension);
    made->last->weights = copy_weights(s, made->dimension, weights);
    free(weights);
}

/* ---------------------------------------------------------------- what is asked */

/* A collection of the same dimension, mostly. */
static uint32_t choose_rows(struct story *s, uint32_t dimension)
{
    uint32_t name = (uint32_t)story_random(s, STORY_NAMES);
    for (int i = 0; i < 8 && s->model.dimension[name] != dimension; i++)
        name = (uint32_t)story_random(s, STORY_NAMES);
    return name;
}

static struct draft *create(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_ATTRACTOR_CREATE;
    struct draft *d =
        draft_open(OPERATION_ATTRACTOR_CREATE, engram_accel_v1_AttractorCreateRequest_fields);
    engram_accel_v1_AttractorCreateRequest *m = &d->sample.message.attractor_create;
    struct attractor_shape shape = shape_of(s, r->name);
    strcpy(m->name, story_name(r->name));
    m->dimension = shape.dimension;
    m->has_sparsity = m->has_rate = r->name != STORY_ATTRACTOR;
    m->sparsity = shape.sparsity;
    m->rate = shape.rate;
    return d;
}

struct draft *story_attractor_drop(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_ATTRACTOR_DROP;
    struct draft *d =
        draft_open(OPERATION_ATTRACTOR_DROP, engram_accel_v1_AttractorDropRequest_fields);
    strcpy(d->sample.message.attractor_drop.name, story_name(r->name));
    return d;
}

static struct draft *learn_ids(struct story *s, struct story_request *r, struct draft *d)
{
    engram_accel_v1_AttractorLearnRequest *m = &d->sample.message.attractor_learn;
    struct story_read *read = &r->reads[0];
    r->embedded = true; /* it names a second thing */
    read->name = r->reads[1].name = choose_rows(s, r->dimension);
    const struct story_collection *found = story_find(s, r->client->space, read->name);
    read->ids = draft_ids(s, r->row_count, STORY_IDS);
    for (uint64_t i = 0; found && found->last->count && i < r->row_count; i++)
        if (!story_chance(s, 20))
            read->ids[i] = found->last->ids[story_random(s, found->last->count)];
    strcpy(m->collection, story_name(read->name));
    PUT(d, m, ids, DTYPE_UINT64, r->row_count, 1, read->ids);
    return d;
}

static struct draft *learn(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_ATTRACTOR_LEARN;
    struct draft *d =
        draft_open(OPERATION_ATTRACTOR_LEARN, engram_accel_v1_AttractorLearnRequest_fields);
    engram_accel_v1_AttractorLearnRequest *m = &d->sample.message.attractor_learn;
    strcpy(m->attractor, story_name(r->name));
    r->row_count = story_random(s, PATTERNS_MAX + 1);
    if (r->row_count && story_chance(s, 500)) return learn_ids(s, r, d);
    r->rows = draft_floats(s, r->row_count * r->dimension);
    for (uint64_t i = 0; i < r->row_count * r->dimension; i++)
        r->rows[i] *= 4; /* so that weights reach their end, and are divided */
    PUT(d, m, rows, DTYPE_FLOAT32, r->row_count, r->dimension, r->rows);
    return d;
}

static struct draft *set(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_ATTRACTOR_SET;
    struct draft *d =
        draft_open(OPERATION_ATTRACTOR_SET, engram_accel_v1_AttractorSetRequest_fields);
    engram_accel_v1_AttractorSetRequest *m = &d->sample.message.attractor_set;
    strcpy(m->attractor, story_name(r->name));
    r->rows = draft_floats(s, (uint64_t)r->dimension * r->dimension);
    PUT(d, m, weights, DTYPE_FLOAT32, r->dimension, r->dimension, r->rows);
    return d;
}

static struct draft *fetch(struct story *s, struct story_request *r)
{
    r->operation = OPERATION_ATTRACTOR_FETCH;
    struct draft *d =
        draft_open(OPERATION_ATTRACTOR_FETCH, engram_accel_v1_AttractorFetchRequest_fields);
    strcpy(d->sample.message.attractor_fetch.attractor, story_name(r->name));
    return d;
}

static struct draft *complete(struct story *s, struct story_request *r)
{
    if (story_chance(s, 600)) {
        r->embedded = true;
        r->reads[0].name = r->reads[1].name = choose_rows(s, r->dimension);
    }
    return story_complete_engine(s, r);
}

struct draft *story_attractor_request(struct story *s, struct story_request *r)
{
    r->dimension = story_attractor_dimension(s, r->name);
    if (!story_find(s, r->client->space, r->name) && story_chance(s, 700)) return create(s, r);
    uint64_t at = story_random(s, 1000);
    return at < 500   ? complete(s, r)
           : at < 750 ? learn(s, r)
           : at < 850 ? fetch(s, r)
           : at < 930 ? set(s, r)
           : at < 960 ? create(s, r)
                      : story_attractor_drop(s, r);
}

/* ---------------------------------------------------------------- what comes of it */

/* Learns one pattern. False: a weight would leave its range. */
static bool learn_one(const struct attractor_shape *shape, const float *pattern, float *w)
{
    uint32_t d = shape->dimension;
    float most = -INFINITY, least = INFINITY;
    for (size_t at = 0; at < (size_t)d * d; at++) {
        float to = fmaf(shape->rate * pattern[at / d], pattern[at % d], w[at]);
        most = fmaxf(most, to);
        least = fminf(least, to);
    }
    float divisor = most > 1.0F ? most : 1.0F;
    if (!(most <= FLT_MAX) || !(least / divisor >= ATTRACTOR_WEIGHT_MIN)) return false;
    reference_learn(d, shape->rate, pattern, w);
    return true;
}

/* Learns what r asks for, of these rows if it names ids, into w. */
static enum status learn_all(const struct story_request *r, const struct story_state *rows,
                             const struct attractor_shape *shape, float *w)
{
    for (uint64_t i = 0; i < r->row_count; i++) {
        const float *pattern = r->rows ? r->rows + i * shape->dimension : NULL;
        if (!pattern) {
            uint64_t at = story_place(rows, r->reads[0].ids[i]);
            if (at == rows->count) return STATUS_NOT_FOUND;
            pattern = rows->rows + at * shape->dimension;
        }
        if (!learn_one(shape, pattern, w)) return STATUS_INVALID_ARGUMENT;
    }
    return STATUS_OK;
}

static bool learning_comes_to(const struct story_request *r, const struct story_state *rows,
                              enum status code)
{
    struct attractor_shape shape = shape_of(r->client->story, r->name);
    size_t bytes = (size_t)shape.dimension * shape.dimension * sizeof(float);
    float *w = malloc(bytes);
    if (!w) abort();
    memcpy(w, story_seen(r)->weights, bytes);
    bool does = learn_all(r, rows, &shape, w) == code;
    free(w);
    return does;
}

bool story_learn_may(const struct story_request *r, enum status code)
{
    const struct story_read *read = &r->reads[0];
    if (r->operation != OPERATION_ATTRACTOR_LEARN || !r->resident) return false;
    if (!r->embedded) return learning_comes_to(r, NULL, code);
    if (!read->resident || read->resident->dimension != r->dimension) return false;
    for (const struct story_state *at = read->resident->last; at; at = at->before)
        if (story_read_may_see(r, read, at) && learning_comes_to(r, at, code)) return true;
    return false;
}

static void see_rows(struct story *s, struct story_request *r, uint64_t version)
{
    struct story_read *read = &r->reads[0];
    for (const struct story_state *at = read->resident->last; at && !read->seen; at = at->before)
        if (at->version == version && story_read_may_see(r, read, at)) read->seen = at;
    STORY_CHECK(s, read->seen, "patterns were read at version %llu, and may not",
                (unsigned long long)version);
}

void story_attractor_wrote(struct story *s, struct story_request *r, const struct job *j)
{
    struct story_state *was = r->resident->last, *now = story_take(s, sizeof *now);
    struct attractor_shape shape = shape_of(s, r->name);
    STORY_CHECK(s, was->seq < r->seq, "a write of an attractor overtook an earlier one");
    story_take_version(s, was->version, j->result.version);
    now->weights = copy_weights(s, shape.dimension, was->weights);
    if (r->operation == OPERATION_ATTRACTOR_SET) {
        memcpy(now->weights, r->rows, sizeof(float) * shape.dimension * shape.dimension);
    } else {
        if (r->embedded) see_rows(s, r, j->result.versions[1]);
        STORY_CHECK(s, !learn_all(r, r->reads[0].seen, &shape, now->weights),
                    "patterns were learned that cannot be");
        now->count = was->count + r->row_count;
    }
    now->seq = r->seq;
    now->version = r->version = j->result.version;
    now->by = r;
    now->wrote = ++s->model.moments;
    now->before = was;
    r->rows_after = now->count;
    r->applied = true;
    r->resident->last = now;
}

/* ---------------------------------------------------------------- what is answered */

static void check_create(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_AttractorCreateReply m = engram_accel_v1_AttractorCreateReply_init_zero;
    check_decode(c->s, c->r, reply, engram_accel_v1_AttractorCreateReply_fields, &m);
    struct attractor_shape shape = shape_of(c->s, c->r->name);
    if (!c->r->made || m.attractor.dimension != shape.dimension || m.attractor.patterns ||
        m.attractor.kept != story_attractor_kept(c->s, c->r->name) ||
        !reference_same(m.attractor.rate, shape.rate))
        WRONG(c->s, c->r, "an attractor that is not as asked for");
}

static void check_drop(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_AttractorDropReply m = engram_accel_v1_AttractorDropReply_init_zero;
    check_decode(c->s, c->r, reply, engram_accel_v1_AttractorDropReply_fields, &m);
    if (!c->r->made || !c->r->applied || m.patterns != story_seen(c->r)->count)
        WRONG(c->s, c->r, "a drop of %llu patterns", (unsigned long long)m.patterns);
}

static void check_learn(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_AttractorLearnReply m = engram_accel_v1_AttractorLearnReply_init_zero;
    const struct story_request *r = c->r;
    check_decode(c->s, r, reply, engram_accel_v1_AttractorLearnReply_fields, &m);
    if (!r->applied) WRONG(c->s, r, "it was said to be done, and was not");
    if (m.learned != r->row_count || m.patterns != r->rows_after || m.meta.version != r->version ||
        m.attractor_version != r->version ||
        m.collection_version != (r->embedded ? r->reads[0].seen->version : 0))
        WRONG(c->s, r, "what it learned is miscounted");
    c->s->learned += r->row_count;
}

static void check_set(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_AttractorSetReply m = engram_accel_v1_AttractorSetReply_init_zero;
    check_decode(c->s, c->r, reply, engram_accel_v1_AttractorSetReply_fields, &m);
    if (!c->r->applied) WRONG(c->s, c->r, "it was said to be done, and was not");
    if (m.patterns || m.meta.version != c->r->version)
        WRONG(c->s, c->r, "weights that were set have learned");
}

static void check_fetch(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_AttractorFetchReply m = engram_accel_v1_AttractorFetchReply_init_zero;
    const struct story_request *r = c->r;
    check_decode(c->s, r, reply, engram_accel_v1_AttractorFetchReply_fields, &m);
    check_see(c, m.meta.version);
    check_version(c->s, r, m.meta.version);
    const struct story_state *seen = story_seen(r);
    const float *w = NEXT(c, &m, weights, DTYPE_FLOAT32, r->dimension, r->dimension);
    if (m.patterns != seen->count) WRONG(c->s, r, "its patterns are miscounted");
    for (uint32_t i = 0; i < r->dimension * r->dimension; i++)
        if (!reference_same(w[i], seen->weights[i])) WRONG(c->s, r, "weight %u is %.9g", i, w[i]);
}

bool story_check_attractor(struct story *s, struct story_request *r,
                           const struct story_reply *reply)
{
    void (*check)(struct cursor * c, const struct story_reply *reply) =
        r->name < STORY_ATTRACTOR                    ? NULL
        : r->operation == OPERATION_ATTRACTOR_CREATE ? check_create
        : r->operation == OPERATION_ATTRACTOR_DROP   ? check_drop
        : r->operation == OPERATION_ATTRACTOR_LEARN  ? check_learn
        : r->operation == OPERATION_ATTRACTOR_SET    ? check_set
        : r->operation == OPERATION_ATTRACTOR_FETCH  ? check_fetch
                                                     : story_check_engine;
    if (!check) return false;
    struct cursor c = {s, r, reply->body, reply->body + reply->header->body_bytes};
    check(&c, reply);
    check_end(&c);
    return true;
}
