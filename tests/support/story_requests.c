/* What clients ask, and how it is written on the wire. */
#include <math.h>
#include <pb_encode.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/story_complete.h"
#include "tests/support/story_consolidate.h"
#include "tests/support/story_draft.h"

struct draft *draft_open(uint8_t kind, const pb_msgdesc_t *fields)
{
    static struct draft d;
    memset(&d.sample, 0, sizeof d.sample);
    d.sample.kind = kind;
    d.sample.fields = fields;
    d.body_bytes = 0;
    return &d;
}

void draft_put(struct draft *d, bool *has, engram_accel_v1_Tensor *t, enum dtype dtype,
               uint64_t rows, uint64_t columns, const void *data)
{
    uint64_t bytes = rows * columns * dtype_bytes(dtype), whole = frame_align(bytes);
    if (d->body_bytes + whole > DRAFT_BODY_MAX) abort();
    *has = true;
    *t = sample_tensor((int)dtype, rows, columns);
    memset(d->body + d->body_bytes, 0, whole);
    if (bytes) memcpy(d->body + d->body_bytes, data, bytes);
    d->body_bytes += whole;
}

static char *copy_of(struct story *s, const char *bytes, uint64_t count)
{
    return memcpy(story_take(s, count + 1), bytes, count);
}

static void draft_send(struct draft *d, struct story_client *c, struct story_request *r,
                       uint32_t deadline_us)
{
    static char message[4096];
    pb_ostream_t stream = pb_ostream_from_buffer((pb_byte_t *)message, sizeof message);
    if (!pb_encode(&stream, d->sample.fields, &d->sample.message)) abort();
    draft_append_write(&stream, r);
    r->message_bytes = stream.bytes_written;
    r->body_bytes = d->body_bytes;
    r->message = r->token ? copy_of(c->story, message, r->message_bytes) : message;
    r->body = r->token ? copy_of(c->story, d->body, d->body_bytes) : d->body;
    draft_frame(c, r, d->sample.kind, deadline_us);
}

static struct story_request *request_open(struct story_client *c, enum operation operation)
{
    struct story *s = c->story;
    struct story_request *r = story_take(s, sizeof *r);
    r->client = c;
    r->connection = c->connection_id;
    r->id = c->next_id++;
    r->operation = operation;
    r->sent_ns = s->now_ns;
    r->name = STORY_NAMES;
    r->next = c->requests;
    c->requests = r;
    c->open++;
    r->all_next = s->all;
    s->all = r;
    return r;
}

/* ---------------------------------------------------------------- numbers */

float *draft_floats(struct story *s, uint64_t count)
{
    float *out = story_take(s, count * 4 + 4);
    for (uint64_t i = 0; i < count; i++)
        out[i] = (float)((double)story_random(s, 2001) / 1000 - 1);
    return out;
}

uint64_t *draft_ids(struct story *s, uint64_t count, uint64_t of)
{
    uint64_t *ids = story_take(s, count * 8 + 8), all[STORY_IDS];
    for (uint64_t i = 0; i < of; i++)
        all[i] = 3 + i * 5;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = i + story_random(s, of - i);
        ids[i] = all[at];
        all[at] = all[i];
    }
    return ids;
}

static uint64_t *different_ids(struct story *s, uint64_t count)
{
    return draft_ids(s, count, STORY_IDS);
}

void draft_ids_there(struct story *s, struct story_request *r, uint64_t count)
{
    const struct story_collection *found = story_find(s, r->client->space, r->name);
    uint64_t there = found ? found->last->count : 0;
    if (count > there && story_chance(s, 900)) count = there;
    r->ids = different_ids(s, count);
    r->id_count = count;
    if (count > there) return;
    uint64_t first = story_random(s, there - count + 1);
    for (uint64_t i = 0; i < count; i++)
        r->ids[i] = found->last->ids[first + i];
    if (count && story_chance(s, 30)) r->ids[0] = 1; /* nobody's */
}

static void choose_filter(struct story *s, struct story_request *r)
{
    uint64_t what = story_random(s, 4);
    r->list = what == 0;
    r->bitmap = what == 1;
    r->filter_count = 1 + story_random(s, 100);
    r->filter = different_ids(s, r->filter_count);
    r->filter_first = story_random(s, 100);
    r->bits = story_take(s, r->filter_count);
    for (uint64_t i = 0; i < r->filter_count; i++)
        r->bits[i] = (uint8_t)story_random(s, 256);
}

void draft_put_filter(struct draft *d, const struct story_request *r, bool *has,
                      engram_accel_v1_Filter *f)
{
    *has = r->list || r->bitmap;
    if (r->list) PUT(d, f, ids, DTYPE_UINT64, r->filter_count, 1, r->filter);
    if (r->bitmap) {
        PUT(d, f, bitmap, DTYPE_UINT8, r->filter_count, 1, r->bits);
        f->bitmap_first = r->filter_first;
    }
}

static void choose_queries(struct story *s, struct story_request *r)
{
    r->query_count = story_chance(s, 100) ? 1 + story_random(s, 12) : 1 + story_random(s, 2);
    uint32_t many = s->settings.cards ? 100 : 0; /* several passes on some cards */
    if (story_chance(s, s->settings.many) || story_chance(s, many))
        r->query_count = 64 + story_random(s, 16);
    r->queries = draft_floats(s, r->query_count * r->dimension);
    r->has_threshold = story_chance(s, 200);
    r->threshold = (float)story_random(s, 100) / 100;
}

/* ---------------------------------------------------------------- each kind */

static struct draft *upsert(struct story *s, struct story_request *r)
{
    struct draft *d = draft_open(OPERATION_UPSERT, engram_accel_v1_UpsertRequest_fields);
    engram_accel_v1_UpsertRequest *m = &d->sample.message.upsert;
    strcpy(m->collection, story_name(r->name));
    /* every node that there can be */
    bool embeds = story_chance(s, s->settings.graphs ? 300 : 50);
    r->id_count = embeds ? STORY_NODES : 1 + story_random(s, story_chance(s, 300) ? 100 : 12);
    r->ids = draft_ids(s, r->id_count, embeds ? STORY_NODES : STORY_IDS);
    r->rows = draft_floats(s, r->id_count * r->dimension);
    PUT(d, m, ids, DTYPE_UINT64, r->id_count, 1, r->ids);
    PUT(d, m, rows, DTYPE_FLOAT32, r->id_count, r->dimension, r->rows);
    return d;
}

static struct draft *delete (struct story *s, struct story_request *r)
{
    struct draft *d = draft_open(OPERATION_DELETE, engram_accel_v1_DeleteRequest_fields);
    engram_accel_v1_DeleteRequest *m = &d->sample.message.delete;
    strcpy(m->collection, story_name(r->name));
    r->id_count = 1 + story_random(s, 20);
    r->ids = different_ids(s, r->id_count);
    PUT(d, m, ids, DTYPE_UINT64, r->id_count, 1, r->ids);
    return d;
}

static struct draft *fetch(struct story *s, struct story_request *r)
{
    struct draft *d = draft_open(OPERATION_FETCH, engram_accel_v1_FetchRequest_fields);
    engram_accel_v1_FetchRequest *m = &d->sample.message.fetch;
    strcpy(m->collection, story_name(r->name));
    if (story_chance(s, 300)) {
        m->offset = r->offset = story_random(s, 60);
        m->limit = r->limit = 1 + story_random(s, 100);
        return d;
    }
    r->id_count = 1 + story_random(s, 40);
    r->ids = different_ids(s, r->id_count);
    PUT(d, m, ids, DTYPE_UINT64, r->id_count, 1, r->ids);
    return d;
}

static struct draft *knn(struct story *s, struct story_request *r)
{
    struct draft *d = draft_open(OPERATION_KNN, engram_accel_v1_KnnRequest_fields);
    engram_accel_v1_KnnRequest *m = &d->sample.message.knn;
    strcpy(m->collection, story_name(r->name));
    choose_queries(s, r);
    choose_filter(s, r);
    m->k = r->k = 1 + (uint32_t)story_random(s, 20);
    m->has_threshold = r->has_threshold;
    m->threshold = r->threshold;
    PUT(d, m, queries, DTYPE_FLOAT32, r->query_count, r->dimension, r->queries);
    draft_put_filter(d, r, &m->has_filter, &m->filter);
    return d;
}

static void be_inline(struct story *s, struct story_request *r, uint64_t rows)
{
    r->name = STORY_NAMES;
    r->row_count = rows;
    r->rows = draft_floats(s, rows * r->dimension);
    r->metric = 1 + (uint32_t)story_random(s, 3);
}

static struct draft *similarity(struct story *s, struct story_request *r)
{
    struct draft *d = draft_open(OPERATION_SIMILARITY, engram_accel_v1_SimilarityRequest_fields);
    engram_accel_v1_SimilarityRequest *m = &d->sample.message.similarity;
    choose_queries(s, r);
    if (story_chance(s, 300))
        be_inline(s, r, 1 + story_random(s, 50));
    else
        choose_filter(s, r);
    m->has_threshold = r->has_threshold;
    m->threshold = r->threshold;
    PUT(d, m, queries, DTYPE_FLOAT32, r->query_count, r->dimension, r->queries);
    draft_put_filter(d, r, &m->has_filter, &m->filter);
    if (r->name < STORY_NAMES) {
        strcpy(m->collection, story_name(r->name));
        return d;
    }
    PUT(d, m, rows, DTYPE_FLOAT32, r->row_count, r->dimension, r->rows);
    m->metric = (engram_accel_v1_Metric)r->metric;
    return d;
}

static struct draft *candidates(struct story *s, struct story_request *r)
{
    struct draft *d =
        draft_open(OPERATION_SCORE_CANDIDATES, engram_accel_v1_ScoreCandidatesRequest_fields);
    engram_accel_v1_ScoreCandidatesRequest *m = &d->sample.message.score;
    choose_queries(s, r);
    r->has_threshold = false;
    if (story_chance(s, 300)) {
        be_inline(s, r, 1 + story_random(s, 50));
        m->metric = (engram_accel_v1_Metric)r->metric;
    } else {
        draft_ids_there(s, r, 1 + story_random(s, 50));
        strcpy(m->collection, story_name(r->name));
    }
    uint64_t n = r->name < STORY_NAMES ? r->id_count : r->row_count;
    m->k = r->k = story_chance(s, 500) ? 0 : 1 + (uint32_t)story_random(s, 10);
    r->offsets = story_take(s, (r->query_count + 1) * 8);
    for (uint64_t i = 1; i < r->query_count; i++)
        r->offsets[i] = r->offsets[i - 1] + story_random(s, n - r->offsets[i - 1] + 1);
    r->offsets[r->query_count] = n;
    PUT(d, m, queries, DTYPE_FLOAT32, r->query_count, r->dimension, r->queries);
    PUT(d, m, offsets, DTYPE_UINT64, r->query_count + 1, 1, r->offsets);
    if (r->name < STORY_NAMES)
        PUT(d, m, ids, DTYPE_UINT64, n, 1, r->ids);
    else
        PUT(d, m, rows, DTYPE_FLOAT32, n, r->dimension, r->rows);
    return d;
}

static struct draft *norms(struct story *s, struct story_request *r)
{
    struct draft *d = draft_open(OPERATION_NORMS, engram_accel_v1_NormsRequest_fields);
    engram_accel_v1_NormsRequest *m = &d->sample.message.norms;
    be_inline(s, r, 1 + story_random(s, 60));
    PUT(d, m, rows, DTYPE_FLOAT32, r->row_count, r->dimension, r->rows);
    return d;
}

static struct draft *average(struct story *s, struct story_request *r)
{
    struct draft *d =
        draft_open(OPERATION_WEIGHTED_AVERAGE, engram_accel_v1_WeightedAverageRequest_fields);
    engram_accel_v1_WeightedAverageRequest *m = &d->sample.message.average;
    if (story_chance(s, 300)) {
        be_inline(s, r, 1 + story_random(s, 40));
        r->weights = draft_floats(s, r->row_count);
        PUT(d, m, weights, DTYPE_FLOAT32, r->row_count, 1, r->weights);
        PUT(d, m, rows, DTYPE_FLOAT32, r->row_count, r->dimension, r->rows);
        return d;
    }
    draft_ids_there(s, r, 1 + story_random(s, 40));
    strcpy(m->collection, story_name(r->name));
    r->weights = draft_floats(s, r->id_count);
    PUT(d, m, weights, DTYPE_FLOAT32, r->id_count, 1, r->weights);
    PUT(d, m, ids, DTYPE_UINT64, r->id_count, 1, r->ids);
    return d;
}

static struct draft *create(struct story *s, struct story_request *r)
{
    struct draft *d =
        draft_open(OPERATION_COLLECTION_CREATE, engram_accel_v1_CollectionCreateRequest_fields);
    engram_accel_v1_CollectionCreateRequest *m = &d->sample.message.create;
    strcpy(m->name, story_name(r->name));
    m->dimension = r->dimension;
    m->metric = (engram_accel_v1_Metric)s->model.metric[r->name];
    return d;
}

static struct draft *drop(struct story *s, struct story_request *r)
{
    struct draft *d =
        draft_open(OPERATION_COLLECTION_DROP, engram_accel_v1_CollectionDropRequest_fields);
    strcpy(d->sample.message.drop.name, story_name(r->name));
    return d;
}

static struct draft *describe(struct story *s, struct story_request *r)
{
    struct draft *d =
        draft_open(OPERATION_COLLECTION_DESCRIBE, engram_accel_v1_CollectionDescribeRequest_fields);
    strcpy(d->sample.message.describe.name, story_name(r->name));
    return d;
}

static struct draft *look(struct story *s, struct story_request *r)
{
    r->name = STORY_NAMES;
    switch (story_random(s, 5)) {
    case 0:
        r->operation = OPERATION_PING;
        return draft_open(OPERATION_PING, engram_accel_v1_PingRequest_fields);
    case 1:
        r->operation = OPERATION_INFO;
        return draft_open(OPERATION_INFO, engram_accel_v1_InfoRequest_fields);
    case 2:
        r->operation = OPERATION_EXPLAIN;
        return draft_open(OPERATION_EXPLAIN, engram_accel_v1_ExplainRequest_fields);
    case 3:
        r->operation = OPERATION_COLLECTION_LIST;
        return draft_open(OPERATION_COLLECTION_LIST, engram_accel_v1_CollectionListRequest_fields);
    }
    r->operation = OPERATION_STATS;
    return draft_open(OPERATION_STATS, engram_accel_v1_StatsRequest_fields);
}

struct kind {
    enum operation operation;
    struct draft *(*make)(struct story *s, struct story_request *r);
    uint32_t weight;
};

static const struct kind kinds[] = {
    {OPERATION_KNN, knn, 300},
    {OPERATION_UPSERT, upsert, 170},
    {OPERATION_DELETE, delete, 60},
    {OPERATION_FETCH, fetch, 70},
    {OPERATION_SIMILARITY, similarity, 110},
    {OPERATION_SCORE_CANDIDATES, candidates, 110},
    {OPERATION_NORMS, norms, 30},
    {OPERATION_WEIGHTED_AVERAGE, average, 60},
    {OPERATION_COLLECTION_DROP, drop, 12},
    {OPERATION_COLLECTION_DESCRIBE, describe, 20},
    {OPERATION_COLLECTION_CREATE, create, 10},
    {OPERATION_PING, look, 30},
    {OPERATION_BIND, story_bind, 120},
    {OPERATION_COMPLETE, story_complete, 80},
    {OPERATION_CLUSTER, story_cluster, 50},
    {OPERATION_COVARIANCE, story_covariance, 50},
};

static const struct kind *choose_kind(struct story *s, bool exists)
{
    uint64_t whole = 0;
    if (!exists && story_chance(s, 700)) return &kinds[10];
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        whole += kinds[i].weight;
    uint64_t at = story_random(s, whole);
    const struct kind *k = kinds;
    while (at >= k->weight)
        at -= k++->weight;
    return k;
}

void story_ask(struct story_client *c)
{
    struct story *s = c->story;
    uint32_t name = (uint32_t)story_random(s, STORY_NAMES), deadline_us = 0;
    struct story_request *r = request_open(c, OPERATION_PING);
    struct story_request *first = story_chance(s, 60) ? story_choose_first(c) : NULL;
    struct draft *d;
    if (first) {
        story_repeat(c, r, first);
        return;
    }
    if (story_chance(s, s->settings.graphs)) {
        r->name = STORY_GRAPH + (uint32_t)story_random(s, STORY_GRAPHS);
        d = story_graph_request(s, r);
    } else if (story_chance(s, s->settings.attractors)) {
        r->name = STORY_ATTRACTOR + (uint32_t)story_random(s, STORY_ATTRACTORS);
        d = story_attractor_request(s, r);
    } else {
        const struct kind *k = choose_kind(s, story_find(s, c->space, name));
        r->operation = k->operation;
        r->name = name;
        r->dimension = s->model.dimension[name];
        d = k->make(s, r);
    }
    story_choose_write(s, r);
    if (story_chance(s, s->settings.deadline)) {
        deadline_us = 1 + (uint32_t)story_random(s, story_chance(s, 500) ? 300 : 300000);
        r->deadline_ns = s->now_ns + deadline_us * UINT64_C(1000);
    }
    r->watched = story_chance(s, 200);
    s->sent++;
    draft_send(d, c, r, deadline_us);
}

void story_ask_cancel(struct story_client *c, struct story_request *target)
{
    struct story_request *r = request_open(c, OPERATION_CANCEL);
    struct draft *d = draft_open(OPERATION_CANCEL, engram_accel_v1_CancelRequest_fields);
    d->sample.message.cancel.request_id = r->cancel_id = target->id;
    target->cancelled = true;
    draft_send(d, c, r, 0);
}

void story_greet(struct story_client *c)
{
    struct story_request *r = request_open(c, OPERATION_HELLO);
    struct draft *d = draft_open(OPERATION_HELLO, engram_accel_v1_HelloRequest_fields);
    engram_accel_v1_HelloRequest *m = &d->sample.message.hello;
    m->version_min = m->version_max = FRAME_VERSION;
    strcpy(m->space, story_space_name(c->space));
    draft_send(d, c, r, 0);
}

void story_ask_drops(struct story_client *c)
{
    struct story *s = c->story;
    for (uint32_t name = 0; name < STORY_ATTRACTOR + STORY_ATTRACTORS; name++) {
        if (name == STORY_NAMES || !story_find(s, c->space, name)) continue;
        struct story_request *r = request_open(c, OPERATION_COLLECTION_DROP);
        r->name = name;
        struct draft *d = name < STORY_NAMES       ? drop(s, r)
                          : name < STORY_ATTRACTOR ? story_graph_drop(s, r)
                                                   : story_attractor_drop(s, r);
        draft_send(d, c, r, 0);
    }
}
