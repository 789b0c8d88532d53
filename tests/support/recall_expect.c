#include "tests/support/recall_expect.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/functions.h"

static char text[200];

#define WRONG(...) (snprintf(text, sizeof text, __VA_ARGS__), text)

/* What is recalled: a seed, a record of the spread, or both. */
struct memory {
    uint64_t id;
    float activation, strength;
    bool seed, touched;
    uint32_t depth, node;
};

struct wanted_seeds {
    uint64_t *ids;
    float *activations;
    uint64_t count;
};

/* ---------------------------------------------------------------- seeds */

static float activation_of(const struct recall_case *c, float cosine)
{
    float x = cosine - c->threshold;
    x = x / c->width;
    float e = canonical_exponential(-x);
    float below = 1.0f + e;
    return 1.0f / below;
}

/* Adds up in the order of cues: every memory's sum is kept in binary64 until the end. */
static struct wanted_seeds seeds_of(const struct recall_case *c, uint64_t first, uint64_t end)
{
    uint64_t most = (end - first) * c->k;
    struct wanted_seeds s = {malloc((most + 1) * 8), malloc((most + 1) * 4), 0};
    uint64_t *ids = malloc((c->rows.count + 1) * sizeof *ids);
    float *scores = malloc((c->rows.count + 1) * sizeof *scores);
    double *sums = malloc((most + 1) * sizeof *sums);
    for (uint64_t cue = first; cue < end; cue++) {
        size_t n = reference_knn(&c->rows, c->cues + cue * c->rows.dimension, c->k, NULL,
                                 &c->threshold, ids, scores);
        for (size_t i = 0; i < n; i++) {
            float activation = activation_of(c, scores[i]);
            uint64_t at = 0;
            if (activation < c->activation_min) continue;
            while (at < s.count && s.ids[at] != ids[i])
                at++;
            if (at == s.count) {
                s.ids[s.count++] = ids[i];
                sums[at] = 0;
            }
            sums[at] += (double)activation;
        }
    }
    for (uint64_t i = 0; i < s.count; i++) {
        float sum = (float)sums[i];
        s.activations[i] = sum > 1 ? 1 : sum;
    }
    free(ids);
    free(scores);
    free(sums);
    return s;
}

/* True if a spread may begin at the node of this id. */
static bool is_allowed(const struct recall_case *c, uint64_t id)
{
    bool listed = !c->spread.within;
    for (uint64_t i = 0; i < c->spread.within_count && !listed; i++)
        listed = c->spread.within[i] == id;
    return listed && graph_find(graph_now(c->graph), id) != SPREAD_NO_NODE;
}

/* ---------------------------------------------------------------- what is recalled */

static int by_strength(const void *a, const void *b)
{
    const struct memory *x = a, *y = b;
    if (x->strength != y->strength) return x->strength < y->strength ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* All of it, best first; the spread's answer is left in *a. */
static struct memory *recall_all(const struct recall_case *c, const struct wanted_seeds *s,
                                 struct spread_answer *a, uint64_t *count, uint32_t *spread)
{
    struct spread_graph view = graph_view(graph_now(c->graph));
    struct spread_case ask = c->spread;
    struct wanted_seeds begun = {malloc((s->count + 1) * 8), malloc((s->count + 1) * 4), 0};
    for (uint64_t i = 0; i < s->count; i++) {
        if (!is_allowed(c, s->ids[i])) continue;
        begun.ids[begun.count] = s->ids[i];
        begun.activations[begun.count++] = s->activations[i];
    }
    ask.offsets = NULL;
    ask.seeds = begun.ids;
    ask.activations = begun.activations;
    ask.seed_count = begun.count;
    *spread = (uint32_t)begun.count;
    *a = spread_wanted(c->graph, &ask, 0);
    struct memory *all = malloc((a->count + s->count + 1) * sizeof *all);
    uint64_t n = 0;
    for (uint64_t i = 0; i < a->count; i++) {
        const struct spread_record *r = &a->records[i];
        float strength = r->activation;
        bool seed = false;
        for (uint64_t k = 0; k < s->count && !seed; k++)
            seed = s->ids[k] == view.ids[r->node];
        if (seed) strength = strength * c->boost;
        all[n++] = (struct memory){view.ids[r->node], r->activation, strength, seed, true,
                                   r->depth,          r->node};
    }
    for (uint64_t i = 0; i < s->count; i++) {
        bool there = false;
        for (uint64_t k = 0; k < a->count && !there; k++)
            there = view.ids[a->records[k].node] == s->ids[i];
        if (there) continue;
        float strength = s->activations[i] * c->boost;
        all[n++] =
            (struct memory){s->ids[i], s->activations[i], strength, true, false, 0, SPREAD_NO_NODE};
    }
    qsort(all, n, sizeof *all, by_strength);
    *count = n;
    free(begun.ids);
    free(begun.activations);
    return all;
}

/* ---------------------------------------------------------------- whether it is that */

/* The highest cosine of a row to the cues of a list. */
static float score_of(const struct recall_case *c, uint64_t id, uint64_t first, uint64_t end)
{
    float best = NAN;
    size_t row = 0;
    while (row < c->rows.count && c->rows.ids[row] != id)
        row++;
    for (uint64_t cue = first; cue < end && row < c->rows.count; cue++) {
        uint32_t d = c->rows.dimension;
        float score =
            reference_score(REFERENCE_COSINE, d, c->cues + cue * d, c->rows.rows + row * d);
        if (isnan(best) || score > best) best = score;
    }
    return best;
}

static const char *path_wrong(const struct recall_case *c, const struct spread_answer *a,
                              const struct memory *m, const struct recall_reply *r, uint64_t at)
{
    struct spread_graph view = graph_view(graph_now(c->graph));
    uint64_t left = r->path_offsets[at + 1], begin = r->path_offsets[at];
    if (!m->touched)
        return left - begin == 1 && r->path_ids[begin] == m->id ? NULL : "the path of a seed alone";
    for (uint32_t node = m->node; node != SPREAD_NO_NODE;) {
        if (left == begin || r->path_ids[--left] != view.ids[node])
            return WRONG("entry %" PRIu64 ": its path", at);
        const struct spread_record *found = NULL;
        for (uint64_t i = 0; i < a->count && !found; i++)
            if (a->records[i].node == node) found = &a->records[i];
        node = found ? found->parent : SPREAD_NO_NODE;
    }
    return left == begin ? NULL : WRONG("entry %" PRIu64 ": its path is long", at);
}

static const char *entry_wrong(const struct memory *m, const struct recall_reply *r, uint64_t at)
{
    uint8_t marks = (uint8_t)((m->seed ? 1 : 0) | (m->touched ? 2 : 0));
    if (r->ids[at] != m->id)
        return WRONG("entry %" PRIu64 ": id %" PRIu64 ", not %" PRIu64, at, r->ids[at], m->id);
    if (!reference_same(r->activations[at], m->activation))
        return WRONG("entry %" PRIu64 ": activation %a, not %a", at, (double)r->activations[at],
                     (double)m->activation);
    if (r->marks[at] != marks) return WRONG("entry %" PRIu64 ": marks %u", at, r->marks[at]);
    if (r->depths[at] != m->depth) return WRONG("entry %" PRIu64 ": depth", at);
    return NULL;
}

static const char *list_wrong(const struct recall_case *c, const struct recall_reply *r,
                              uint64_t list)
{
    uint64_t first = c->cue_offsets ? c->cue_offsets[list] : list, count;
    uint64_t end = c->cue_offsets ? c->cue_offsets[list + 1] : list + 1, at = r->offsets[list];
    struct wanted_seeds s = seeds_of(c, first, end);
    struct spread_answer a;
    uint32_t spread;
    struct memory *all = recall_all(c, &s, &a, &count, &spread);
    const char *wrong = NULL;
    uint64_t kept = count < c->results ? count : c->results;
    if (r->seeds[2 * list] != s.count) wrong = "seeds found";
    if (r->seeds[2 * list + 1] != spread) wrong = "seeds that are nodes";
    if (r->touched[list] != a.count) wrong = "touched";
    if (r->truncated[list] != a.truncated) wrong = "truncated";
    if (r->hops[list] != a.hops_done) wrong = "hops";
    if (r->offsets[list + 1] - at != kept)
        wrong = WRONG("%" PRIu64 " entries, not %" PRIu64, r->offsets[list + 1] - at, kept);
    for (uint64_t i = 0; i < kept && !wrong; i++) {
        wrong = entry_wrong(&all[i], r, at + i);
        if (!wrong && !reference_same(r->scores[at + i], score_of(c, all[i].id, first, end)))
            wrong = WRONG("entry %" PRIu64 ": score %a", i, (double)r->scores[at + i]);
        if (!wrong && c->spread.how.paths) wrong = path_wrong(c, &a, &all[i], r, at + i);
    }
    spread_answer_free(&a);
    free(all);
    free(s.ids);
    free(s.activations);
    return wrong;
}

const char *recall_reply_wrong(const struct recall_case *c, const struct recall_reply *r)
{
    uint64_t lists = c->cue_offsets ? c->lists : c->cue_count;
    if (r->lists != lists) return WRONG("%" PRIu64 " lists", r->lists);
    if (r->offsets[0] != 0 || r->offsets[lists] != r->count) return "offsets";
    if (c->spread.how.paths != (r->path_offsets != NULL)) return "whether there are paths";
    const char *wrong = NULL;
    for (uint64_t list = 0; list < lists && !wrong; list++)
        wrong = list_wrong(c, r, list);
    return wrong;
}
