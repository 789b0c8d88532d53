/* Binds of a story, which read two collections, or rows that are sent along, and write one: what is
 * asked, which states they may have read, and what must come of it. The arithmetic is the kernels'
 * own. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/hrr.h"
#include "tests/support/story_check.h"
#include "tests/support/story_draft.h"

enum { BIND_ROWS_MAX = 12 };

/* ---------------------------------------------------------------- what is asked */

/* A name of the same dimension. */
static uint32_t choose_name(struct story *s, const struct story_request *r)
{
    uint32_t name = (uint32_t)story_random(s, STORY_NAMES);
    return s->model.dimension[name] == r->dimension ? name : r->name;
}

/* Ids that were there lately, mostly. */
static uint64_t *choose_ids(struct story *s, const struct story_request *r, uint32_t name)
{
    const struct story_collection *found = story_find(s, r->client->space, name);
    uint64_t *ids = draft_ids(s, r->id_count, STORY_IDS);
    for (uint64_t i = 0; found && found->last->count && i < r->id_count; i++)
        if (!story_chance(s, 20)) ids[i] = found->last->ids[story_random(s, found->last->count)];
    return ids;
}

struct draft *story_bind(struct story *s, struct story_request *r)
{
    struct draft *d = draft_open(OPERATION_BIND, engram_accel_v1_BindRequest_fields);
    engram_accel_v1_BindRequest *m = &d->sample.message.bind;
    r->id_count = 1 + story_random(s, BIND_ROWS_MAX);
    r->ids = draft_ids(s, r->id_count, STORY_IDS);
    for (int i = 0; i < 2; i++) {
        r->reads[i].name = choose_name(s, r);
        if (story_chance(s, 300))
            r->reads[i].rows = draft_floats(s, r->id_count * r->dimension);
        else
            r->reads[i].ids = choose_ids(s, r, r->reads[i].name);
    }
    const struct story_read *a = &r->reads[0], *b = &r->reads[1];
    if (!a->rows) strcpy(m->a, story_name(a->name));
    if (!b->rows) strcpy(m->b, story_name(b->name));
    strcpy(m->into, story_name(r->name));
    if (a->rows) PUT(d, m, a_rows, DTYPE_FLOAT32, r->id_count, r->dimension, a->rows);
    if (a->ids) PUT(d, m, a_ids, DTYPE_UINT64, r->id_count, 1, a->ids);
    if (b->rows) PUT(d, m, b_rows, DTYPE_FLOAT32, r->id_count, r->dimension, b->rows);
    if (b->ids) PUT(d, m, b_ids, DTYPE_UINT64, r->id_count, 1, b->ids);
    PUT(d, m, into_ids, DTYPE_UINT64, r->id_count, 1, r->ids);
    return d;
}

/* ---------------------------------------------------------------- what it finds */

void story_reads_admitting(struct story *s, struct story_request *r)
{
    for (int i = 0; i < 2; i++) {
        struct story_read *read = &r->reads[i];
        read->resident = read->rows ? NULL : story_find(s, r->client->space, read->name);
        read->known = read->resident ? read->resident->known : NULL;
        read->seen = NULL;
    }
}

bool story_bind_finds_all(const struct story_request *r)
{
    const struct story_read *a = &r->reads[0], *b = &r->reads[1];
    return (a->rows || a->resident) && (b->rows || b->resident);
}

bool story_read_may_see(const struct story_request *r, const struct story_read *read,
                        const struct story_state *state)
{
    struct story_request view = *r;
    view.resident = read->resident;
    view.known = read->known;
    return story_may_see(&view, state);
}

static bool misses_id(const struct story_request *r, const struct story_read *read,
                      const struct story_state *state)
{
    for (uint64_t i = 0; i < r->id_count; i++)
        if (story_place(state, read->ids[i]) == state->count) return true;
    return false;
}

bool story_bind_may_miss(const struct story_request *r)
{
    for (int i = 0; i < 2; i++) {
        const struct story_read *read = &r->reads[i];
        if (read->rows) continue;
        if (!read->resident) return true;
        for (const struct story_state *at = read->resident->last; at; at = at->before)
            if (story_read_may_see(r, read, at) && misses_id(r, read, at)) return true;
    }
    return false;
}

/* ---------------------------------------------------------------- what comes of it */

/* The first state of another version than that one, and of newer ones. A write that changes nothing
 * leaves another state of the same version. NULL: there is none. */
static const struct story_state *replaced_by(const struct story_read *read)
{
    const struct story_state *next = NULL;
    for (const struct story_state *at = read->resident->last; at; at = at->before) {
        if (at->version == read->seen->version) return next;
        next = at;
    }
    return NULL;
}

static uint64_t first_wrote(const struct story_state *state)
{
    while (state->before && state->before->version == state->version)
        state = state->before;
    return state->wrote;
}

/* True if what `a` saw was known to be replaced before what `b` saw was written: no instant had
 * both. */
static bool is_older(const struct story_read *a, const struct story_read *b)
{
    const struct story_state *next = replaced_by(a);
    return next && next->told && next->told < first_wrote(b->seen);
}

bool story_reads_are_apart(const struct story_read *a, const struct story_read *b)
{
    return is_older(a, b) || is_older(b, a);
}

/* The version that the job has pinned is one that r may see. */
static void see(struct story *s, struct story_request *r, struct story_read *read, uint64_t version)
{
    for (const struct story_state *at = read->resident->last; at && !read->seen; at = at->before)
        if (at->version == version && story_read_may_see(r, read, at)) read->seen = at;
    STORY_CHECK(s, read->seen, "a bind read version %llu, and may not",
                (unsigned long long)version);
    STORY_CHECK(s, !misses_id(r, read, read->seen), "a bind found an id that is not there");
}

/* Binds the rows that these states have into out. False: one of them overflows. */
static bool bind_rows(const struct story_request *r, const struct story_state *const seen[2],
                      float *out)
{
    uint32_t d = r->dimension;
    void *memory = aligned_alloc(64, hrr_plan_bytes(d));
    void *scratch = aligned_alloc(64, hrr_scratch_bytes(d));
    if (!memory || !scratch) abort();
    const struct hrr_plan *plan = hrr_plan_make(d, memory);
    bool fits = true;
    for (uint64_t i = 0; i < r->id_count && fits; i++) {
        const float *rows[2];
        for (int k = 0; k < 2; k++)
            rows[k] = r->reads[k].rows
                          ? r->reads[k].rows + i * d
                          : seen[k]->rows + story_place(seen[k], r->reads[k].ids[i]) * d;
        struct hrr_pairs pairs = {.plan = plan,
                                  .scratch = scratch,
                                  .form = HRR_BIND,
                                  .a = &rows[0],
                                  .b = &rows[1],
                                  .count = 1,
                                  .out = out + i * d,
                                  .out_step = d};
        fits = !hrr_choose("scalar")->pairs(&pairs).status;
    }
    free(memory);
    free(scratch);
    return fits;
}

static void bind_all(struct story *s, struct story_request *r)
{
    const struct story_state *const seen[2] = {r->reads[0].seen, r->reads[1].seen};
    r->rows = story_take(s, r->id_count * r->dimension * 4);
    if (!bind_rows(r, seen, r->rows)) abort();
}

/* True if a row's squared norm is about the largest float32, or more. */
static bool is_huge(const float *row, uint32_t dimension)
{
    double sum = 0;
    for (uint32_t i = 0; i < dimension; i++)
        sum += (double)row[i] * (double)row[i];
    return !(sum < 0.999 * (double)FLT_MAX);
}

static bool overflows(const struct story_request *r, const struct story_state *a,
                      const struct story_state *b)
{
    const struct story_state *const seen[2] = {a, b};
    float *out = malloc(r->id_count * r->dimension * sizeof *out);
    if (!out) abort();
    bool huge = !bind_rows(r, seen, out);
    for (uint64_t i = 0; i < r->id_count && !huge; i++)
        huge = is_huge(out + i * r->dimension, r->dimension);
    free(out);
    return huge;
}

/* Rows that are sent along have one state. */
static const struct story_state sent;

static const struct story_state *newest_of(const struct story_read *read)
{
    return read->rows ? &sent : read->resident->last;
}

static bool may_bind(const struct story_request *r, const struct story_read *read,
                     const struct story_state *state)
{
    return state == &sent || (story_read_may_see(r, read, state) && !misses_id(r, read, state));
}

bool story_bind_may_overflow(const struct story_request *r)
{
    const struct story_read *reads = r->reads;
    if (!story_bind_finds_all(r)) return false;
    for (const struct story_state *a = newest_of(&reads[0]); a; a = a->before) {
        if (!may_bind(r, &reads[0], a)) continue;
        for (const struct story_state *b = newest_of(&reads[1]); b; b = b->before)
            if (may_bind(r, &reads[1], b) && overflows(r, a, b)) return true;
    }
    return false;
}

void story_bind_wrote(struct story *s, struct story_request *r, const struct job *j)
{
    STORY_CHECK(s, story_bind_finds_all(r), "a bind of what is not there");
    bool apart = !r->reads[0].rows && !r->reads[1].rows;
    for (int i = 0; i < 2; i++)
        if (!r->reads[i].rows) see(s, r, &r->reads[i], j->result.versions[i]);
    STORY_CHECK(s, !apart || !story_reads_are_apart(&r->reads[0], &r->reads[1]),
                "a bind read versions %llu and %llu, which were never there together",
                (unsigned long long)j->result.versions[0],
                (unsigned long long)j->result.versions[1]);
    bind_all(s, r);
}

static uint64_t version_of(const struct story_read *read)
{
    return read->rows ? 0 : read->seen->version;
}

void story_check_bind(struct cursor *c, const struct story_reply *reply)
{
    engram_accel_v1_HolographicReply m = engram_accel_v1_HolographicReply_init_zero;
    const struct story_request *r = c->r;
    check_decode(c->s, r, reply, engram_accel_v1_HolographicReply_fields, &m);
    check_end(c);
    if (!r->applied) WRONG(c->s, r, "it was said to be done, and was not");
    if (m.inserted != r->counts[0] || m.replaced != r->counts[1] || m.into_rows != r->rows_after ||
        m.into_version != r->version || m.meta.version != r->version || m.has_rows)
        WRONG(c->s, r, "what it did is miscounted");
    c->s->by_backend[m.meta.backend % 4]++;
    c->s->bound += m.meta.backend == engram_accel_v1_Backend_BACKEND_GPU;
    if (m.a_version != version_of(&r->reads[0]) || m.b_version != version_of(&r->reads[1]))
        WRONG(c->s, r, "it tells other versions than it read");
}
