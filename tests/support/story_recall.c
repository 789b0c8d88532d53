/* Recalls in stories: what is asked, and whether the answer is that of a twin of both things at the
 * versions that it tells. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/collection.h"
#include "kernels/recall.h"
#include "tests/support/recall_expect.h"
#include "tests/support/story_check.h"
#include "tests/support/story_draft.h"

/* One whose metric is cosine, mostly. */
static uint32_t choose_rows(struct story *s)
{
    uint32_t name = (uint32_t)story_random(s, STORY_NAMES);
    for (int i = 0; i < 8 && s->model.metric[name] != METRIC_COSINE; i++)
        name = (uint32_t)story_random(s, STORY_NAMES);
    return name;
}

struct draft *story_recall(struct story *s, struct story_request *r)
{
    struct draft *d = draft_open(OPERATION_RECALL, engram_accel_v1_RecallRequest_fields);
    engram_accel_v1_RecallRequest *m = &d->sample.message.recall;
    r->operation = OPERATION_RECALL;
    r->reads[0].name = r->reads[1].name = choose_rows(s);
    r->embedded = true; /* it names a second thing */
    r->dimension = s->model.dimension[r->reads[0].name];
    r->query_count = 1 + story_random(s, 3);
    r->queries = draft_floats(s, r->query_count * r->dimension);
    r->k = 1 + (uint32_t)story_random(s, 20);
    r->limit = 1 + story_random(s, 30);
    r->threshold = (float)story_random(s, 100) / 100 - 0.5F;
    r->scalar = (float)story_random(s, 200) / 100;
    r->create = r->how.mode == SPREAD_ENGRAM && story_chance(s, 500); /* without embeddings */
    strcpy(m->graph, story_name(r->name));
    strcpy(m->collection, story_name(r->reads[0].name));
    m->results = (uint32_t)r->limit;
    m->k = r->k;
    m->has_threshold = m->has_boost = true;
    m->threshold = r->threshold;
    m->boost = r->scalar;
    m->ignore_embeddings = r->create;
    m->mode = (engram_accel_v1_SpreadMode)r->how.mode;
    m->hops = r->how.hops;
    m->decay = (engram_accel_v1_DecayLaw)r->how.decay;
    m->decay_parameter = r->how.decay_parameter;
    m->has_threshold_hot = m->has_threshold_warm = m->has_threshold_cold = true;
    m->threshold_hot = r->how.thresholds[0];
    m->threshold_warm = r->how.thresholds[1];
    m->threshold_cold = r->how.thresholds[2];
    m->fan = (engram_accel_v1_FanEffect)r->how.fan;
    m->ignore_kinds = r->how.ignore_kinds;
    m->last_hop = r->how.last_hop;
    m->paths = r->how.paths;
    PUT(d, m, cues, DTYPE_FLOAT32, r->query_count, r->dimension, r->queries);
    return d;
}

static struct recall_reply read_reply(struct cursor *c, const engram_accel_v1_RecallReply *m)
{
    struct recall_reply got = {.lists = c->r->query_count, .count = m->ids.rows};
    uint64_t lists = got.lists, n = got.count;
    got.offsets = NEXT(c, m, offsets, DTYPE_UINT64, lists + 1, 1);
    got.ids = NEXT(c, m, ids, DTYPE_UINT64, n, 1);
    got.activations = NEXT(c, m, activations, DTYPE_FLOAT32, n, 1);
    got.scores = NEXT(c, m, scores, DTYPE_FLOAT32, n, 1);
    got.marks = NEXT(c, m, marks, DTYPE_UINT8, n, 1);
    got.depths = NEXT(c, m, depths, DTYPE_UINT32, n, 1);
    got.seeds = NEXT(c, m, seeds, DTYPE_UINT32, lists, 2);
    got.hops = NEXT(c, m, hops, DTYPE_UINT32, lists, 1);
    got.touched = NEXT(c, m, touched, DTYPE_UINT64, lists, 1);
    got.truncated = NEXT(c, m, truncated, DTYPE_UINT8, lists, 1);
    if (!c->r->how.paths) return got;
    got.path_offsets = NEXT(c, m, path_offsets, DTYPE_UINT64, n + 1, 1);
    got.path_ids = NEXT(c, m, path_ids, DTYPE_UINT64, got.path_offsets[n], 1);
    return got;
}

/* A list whose spread found no memory has its ranked seeds alone. */
static bool went_without(const struct story *s, const struct recall_reply *got)
{
    bool truncated = false;
    for (uint64_t list = 0; list < got->lists; list++)
        truncated |= got->truncated[list];
    return truncated && (s->settings.memory_short || s->bytes_limited || fault_fired());
}

void story_check_recall(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_RecallReply m = engram_accel_v1_RecallReply_init_zero;
    const struct story_request *r = c->r;
    check_decode(c->s, r, reply, engram_accel_v1_RecallReply_fields, &m);
    check_see(c, m.graph_version);
    check_version(c->s, r, m.meta.version);
    check_see_embeddings(c, m.collection_version);
    c->s->by_backend[m.meta.backend % 4]++;
    struct recall_reply got = read_reply(c, &m);
    if (went_without(c->s, &got)) return;
    const struct story_state *rows = r->reads[0].seen;
    bool armed = fault_armed; /* the daemon is to fail, not the test */
    fault_armed = false;
    struct graph *twin = check_twin_graph(c->s, story_seen(r));
    struct collection *twin_rows = check_twin_rows(c->s, &r->reads[0]);
    bool similar = r->how.mode == SPREAD_ENGRAM && !r->create;
    struct recall_case asked = {
        .graph = twin,
        .rows = {r->dimension, REFERENCE_COSINE, rows->count, rows->rows, rows->ids},
        .cues = r->queries,
        .cue_count = r->query_count,
        .results = (uint32_t)r->limit,
        .k = r->k,
        .threshold = r->threshold,
        .width = RECALL_WIDTH,
        .activation_min = RECALL_ACTIVATION_MIN,
        .boost = r->scalar,
        .spread = {.how = r->how, .embeddings = similar ? collection_now(twin_rows) : NULL},
    };
    const char *wrong = recall_reply_wrong(&asked, &got);
    if (wrong) WRONG(c->s, r, "%s", wrong);
    c->s->recalled += got.count != 0;
    check_twin_rows_close(c->s, twin_rows);
    check_twin_graph_close(c->s, twin);
    fault_armed = armed;
}
