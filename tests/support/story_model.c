#include "tests/support/story_model.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/story.h"
#include "tests/support/story_complete.h"

bool story_drops(const struct story_request *r)
{
    return r->operation == OPERATION_COLLECTION_DROP || r->operation == OPERATION_GRAPH_DROP ||
           r->operation == OPERATION_ATTRACTOR_DROP;
}

bool story_creates(const struct story_request *r)
{
    return r->operation == OPERATION_COLLECTION_CREATE || r->operation == OPERATION_GRAPH_CREATE ||
           r->operation == OPERATION_ATTRACTOR_CREATE;
}

void *story_take(struct story *s, uint64_t bytes)
{
    struct story_memory *m = aligned_alloc(64, (sizeof *m + bytes + 63) / 64 * 64);
    if (!m) abort();
    m->next = s->model.memory;
    s->model.memory = m;
    return memset(m->bytes, 0, bytes);
}

const char *story_name(uint32_t name)
{
    static const char *const names[] = {"faces", "words", "places", "",
                                        "links", "roads", "minds",  "habits"};
    return names[name];
}

void story_model_open(struct story *s)
{
    for (uint32_t i = 0; i < STORY_NAMES; i++) {
        s->model.dimension[i] = 4 + (uint32_t)story_random(s, story_chance(s, 300) ? 61 : 13);
        s->model.metric[i] = 1 + (uint32_t)story_random(s, 3);
    }
    if (s->settings.quota_mib) s->model.dimension[0] = 512; /* some rows of it fill a quota */
    /* what binds need */
    if (story_chance(s, 700)) s->model.dimension[2] = s->model.dimension[1];
    if (story_chance(s, 500)) s->model.dimension[1] = s->model.dimension[2] = s->model.dimension[0];
}

void story_model_close(struct story *s)
{
    while (s->model.memory) {
        struct story_memory *m = s->model.memory;
        s->model.memory = m->next;
        free(m);
    }
}

const char *story_space_name(uint32_t space)
{
    return space ? "other" : "first";
}

struct story_collection *story_find(struct story *s, uint32_t space, uint32_t name)
{
    for (struct story_collection *c = s->model.collections; c; c = c->next)
        if (c->space == space && c->name == name && !c->dropped) return c;
    return NULL;
}

void story_take_version(struct story *s, uint64_t before, uint64_t version)
{
    STORY_CHECK(s, version >= before && version && version < STORY_VERSIONS_MAX, "version %llu",
                (unsigned long long)version);
    if (version == before) return;
    STORY_CHECK(s, !s->model.version_taken[version], "version %llu is given twice",
                (unsigned long long)version);
    s->model.version_taken[version] = true;
}

struct story_collection *story_create(struct story *s, uint32_t space, uint32_t name,
                                      uint64_t version)
{
    struct story_collection *c = story_take(s, sizeof *c);
    *c = (struct story_collection){.space = space,
                                   .name = name,
                                   .dimension = name < STORY_NAMES ? s->model.dimension[name] : 0,
                                   .metric = name < STORY_NAMES ? s->model.metric[name] : 0,
                                   .last = story_take(s, sizeof *c->last),
                                   .next = s->model.collections};
    c->known = c->last;
    s->model.collections = c;
    story_take_version(s, 0, version);
    c->last->version = version;
    if (name >= STORY_ATTRACTOR) story_attractor_begin(s, c);
    return c;
}

uint64_t story_place(const struct story_state *state, uint64_t id)
{
    uint64_t low = 0, high = state->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (state->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < state->count && state->ids[low] == id ? low : state->count;
}

static bool is_named(const struct story_request *r, uint64_t id)
{
    for (uint64_t i = 0; i < r->id_count; i++)
        if (r->ids[i] == id) return true;
    return false;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* As rows are stored: those that are replaced stay where they are, new ones come behind, and the
 * last one takes the place of one that goes. */
static void reorder(const struct story_state *was, const struct story_request *r, uint64_t *order)
{
    uint64_t count = was->count;
    for (uint64_t i = 0; i < count; i++)
        order[i] = was->order[i];
    for (uint64_t i = 0; i < r->id_count; i++) {
        uint64_t at = 0;
        while (at < count && order[at] != r->ids[i])
            at++;
        if (r->operation != OPERATION_DELETE && at == count) order[count++] = r->ids[i];
        if (r->operation == OPERATION_DELETE && at < count) order[at] = order[--count];
    }
}

/* What was there but for the ids that r names, and, of an upsert, those with their new rows. */
static void change(struct story *s, const struct story_state *was, struct story_request *r,
                   struct story_state *now)
{
    uint32_t d = r->resident->dimension;
    bool upsert = r->operation != OPERATION_DELETE;
    uint64_t most = was->count + (upsert ? r->id_count : 0);
    now->ids = story_take(s, most * 8 + 8);
    now->rows = story_take(s, most * d * 4 + 4);
    now->order = story_take(s, most * 8 + 8);
    reorder(was, r, now->order);
    for (uint64_t i = 0; i < was->count; i++)
        if (!is_named(r, was->ids[i])) now->ids[now->count++] = was->ids[i];
    for (uint64_t i = 0; upsert && i < r->id_count; i++)
        now->ids[now->count++] = r->ids[i];
    qsort(now->ids, now->count, 8, by_id);
    for (uint64_t i = 0; i < now->count; i++) {
        uint64_t at = story_place(was, now->ids[i]);
        const float *row = at < was->count ? was->rows + at * d : NULL;
        for (uint64_t k = 0; upsert && k < r->id_count; k++)
            if (r->ids[k] == now->ids[i]) row = r->rows + k * d;
        memcpy(now->rows + i * d, row, d * 4);
    }
}

void story_apply(struct story *s, struct story_request *r, uint64_t version)
{
    struct story_state *was = r->resident->last, *now = story_take(s, sizeof *now);
    STORY_CHECK(s, was->seq < r->seq, "a write overtook one that was asked before it");
    story_take_version(s, was->version, version);
    now->seq = r->seq;
    now->version = version;
    now->by = r;
    now->wrote = ++s->model.moments;
    now->before = was;
    for (uint64_t i = 0; i < r->id_count; i++)
        r->counts[story_place(was, r->ids[i]) < was->count]++;
    change(s, was, r, now);
    r->rows_after = now->count;
    r->version = version;
    r->applied = true;
    r->resident->last = now;
}

bool story_reads_version(const struct story_request *r)
{
    switch (r->operation) {
    case OPERATION_KNN:
    case OPERATION_SIMILARITY:
    case OPERATION_SCORE_CANDIDATES:
    case OPERATION_WEIGHTED_AVERAGE:
    case OPERATION_COMPLETE:
    case OPERATION_CLUSTER:
    case OPERATION_COVARIANCE:
    case OPERATION_FETCH: return r->name < STORY_NAMES && r->resident;
    case OPERATION_SPREAD:
    case OPERATION_RECALL:
    case OPERATION_COMPLETE_ENGINE:
    case OPERATION_ATTRACTOR_FETCH:
    case OPERATION_GRAPH_FETCH_NODES: return r->resident;
    default: return false;
    }
}

/* Its client wrote it before asking r. */
static bool is_own_before(const struct story_request *r, const struct story_state *state)
{
    return state->by && state->by->connection == r->connection && state->by->seq < r->seq;
}

static bool is_own_after(const struct story_request *r, const struct story_state *state)
{
    return state->by && state->by->connection == r->connection && state->by->seq > r->seq;
}

bool story_may_see(const struct story_request *r, const struct story_state *state)
{
    for (const struct story_state *s = r->resident->last; s != state; s = s->before)
        if (s == r->known || is_own_before(r, s)) return false;
    for (const struct story_state *s = state; s; s = s->before)
        if (is_own_after(r, s)) return false;
    return true;
}

void story_acknowledge(struct story *s, struct story_request *r)
{
    if (!r->applied || r->name == STORY_NAMES || story_drops(r)) return;
    struct story_state *state = r->resident->last;
    while (state != r->resident->known && state->by != r)
        state = state->before;
    if (!state->told) state->told = ++s->model.moments;
    r->resident->known = state;
}

const struct story_state *story_seen(const struct story_request *r)
{
    if (r->seen) return r->seen;
    const struct story_state *state = r->resident->last;
    while (state->seq > r->seq)
        state = state->before;
    return state;
}

enum status story_version_fate(const struct story_request *r)
{
    const struct story_state *found = story_seen(r);
    if (r->applied && found->seq == r->seq) found = found->before; /* what it left is no matter */
    if (!r->expected) return STATUS_OK;
    if (r->expected == STORY_NEVER) return STATUS_INVALID_ARGUMENT;
    bool good = r->at_least ? found->version >= r->expected : found->version == r->expected;
    return good ? STATUS_OK : STATUS_ABORTED;
}

struct story_request *story_done(const struct story_request *r)
{
    return r->first ? r->first->done : r->done;
}
