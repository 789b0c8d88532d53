#include "tests/support/spread_expect.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/canonical.h"

static char text[200];

#define WRONG(...) (snprintf(text, sizeof text, __VA_ARGS__), text)

/* ---------------------------------------------------------------- the question */

static double decay_of(const struct spread_case *c, uint32_t d)
{
    double p = (double)c->how.decay_parameter;
    switch (c->how.decay) {
    case DECAY_EXPONENTIAL: return exp(-p * d);
    case DECAY_POWER: return pow((double)d + 1, -p);
    case DECAY_LINEAR: return fmax(0, 1 - p * d);
    case DECAY_TABLE: return (double)c->table[d - 1];
    default: return 1;
    }
}

static float capped(double a)
{
    float f = (float)a;
    return f > 1 ? 1 : f;
}

/* Seeds first .. end - 1; of mode linear each node once, in rising number. */
static uint64_t seeds_of(const struct graph *g, const struct spread_case *c, uint64_t first,
                         uint64_t end, struct spread_seed *out)
{
    uint32_t nodes = graph_view(graph_now(g)).nodes;
    uint64_t count = 0;
    if (c->how.mode == SPREAD_ENGRAM) {
        for (uint64_t i = first; i < end; i++)
            out[count++] =
                (struct spread_seed){graph_find(graph_now(g), c->seeds[i]),
                                     capped(c->activations ? (double)c->activations[i] : 1)};
        return count;
    }
    for (uint32_t node = 0; node < nodes; node++) {
        double sum = 0;
        bool named = false;
        for (uint64_t i = first; i < end; i++) {
            if (graph_find(graph_now(g), c->seeds[i]) != node) continue;
            sum += (double)capped(c->activations ? (double)c->activations[i] : 1);
            named = true;
        }
        if (named) out[count++] = (struct spread_seed){node, capped(sum)};
    }
    return count;
}

/* ---------------------------------------------------------------- the answer */

static const uint64_t *order_ids;

static int by_id(const void *a, const void *b)
{
    uint64_t x = order_ids[((const struct spread_record *)a)->node];
    uint64_t y = order_ids[((const struct spread_record *)b)->node];
    return (x > y) - (x < y);
}

static int by_activation(const void *a, const void *b)
{
    float x = ((const struct spread_record *)a)->activation;
    float y = ((const struct spread_record *)b)->activation;
    return x < y ? 1 : x > y ? -1 : by_id(a, b);
}

static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static const char *path_wrong(const struct spread_graph *g, const struct spread_answer *a,
                              const struct spread_record *last, const struct spread_reply *r,
                              uint64_t at)
{
    uint64_t left = r->path_offsets[at + 1];
    for (uint32_t node = last->node; node != SPREAD_NO_NODE;) {
        if (left == r->path_offsets[at] || r->path_ids[--left] != g->ids[node])
            return WRONG("entry %" PRIu64 ": its path", at);
        const struct spread_record *found = NULL;
        for (uint64_t i = 0; i < a->count && !found; i++)
            if (a->records[i].node == node) found = &a->records[i];
        node = found ? found->parent : SPREAD_NO_NODE;
    }
    return left == r->path_offsets[at] ? NULL : WRONG("entry %" PRIu64 ": its path is long", at);
}

static const char *entry_wrong(const struct spread_graph *g, const struct spread_case *c,
                               const struct spread_record *want, const struct spread_reply *r,
                               uint64_t at)
{
    float confidence = want->confidence;
    if (c->how.mode == SPREAD_ENGRAM && want->depth > 0)
        confidence = canonical_multiply(confidence, want->depth <= 2 ? 0.95f : 0.9f);
    if (r->ids[at] != g->ids[want->node])
        return WRONG("entry %" PRIu64 ": id %" PRIu64 ", not %" PRIu64, at, r->ids[at],
                     g->ids[want->node]);
    if (!same(r->activations[at], want->activation))
        return WRONG("entry %" PRIu64 ": activation %a, not %a", at, (double)r->activations[at],
                     (double)want->activation);
    if (!same(r->confidences[at], confidence)) return WRONG("entry %" PRIu64 ": confidence", at);
    if (r->visits[at] != want->visits) return WRONG("entry %" PRIu64 ": visits", at);
    if (r->depths[at] != want->depth) return WRONG("entry %" PRIu64 ": depth", at);
    return NULL;
}

/* a's records change their order. */
static const char *set_wrong(const struct spread_graph *g, const struct spread_case *c,
                             struct spread_answer *a, const struct spread_reply *r, uint64_t set)
{
    double sums[SPREAD_TIERS] = {0};
    order_ids = g->ids;
    qsort(a->records, a->count, sizeof *a->records, by_id);
    for (uint64_t i = 0; i < a->count; i++)
        sums[spread_tier_of(a->records[i].depth)] += (double)a->records[i].activation;
    qsort(a->records, a->count, sizeof *a->records, by_activation);
    uint64_t kept = c->k && c->k < a->count ? c->k : a->count, first = r->offsets[set];
    if (r->touched[set] != a->count)
        return WRONG("set %" PRIu64 ": %" PRIu64 " touched, not %" PRIu64, set, r->touched[set],
                     a->count);
    if (r->cycles[set] != a->cycles) return WRONG("set %" PRIu64 ": cycles", set);
    if (r->truncated[set] != a->truncated) return WRONG("set %" PRIu64 ": truncated", set);
    for (int t = 0; t < SPREAD_TIERS; t++)
        if (!same(r->tier_sums[set * SPREAD_TIERS + (uint64_t)t], (float)sums[t]))
            return WRONG("set %" PRIu64 ": the sum of tier %d", set, t);
    if (r->offsets[set + 1] - first != kept)
        return WRONG("set %" PRIu64 ": %" PRIu64 " entries, not %" PRIu64, set,
                     r->offsets[set + 1] - first, kept);
    const char *wrong = NULL;
    for (uint64_t i = 0; i < kept && !wrong; i++) {
        wrong = entry_wrong(g, c, &a->records[i], r, first + i);
        if (!wrong && c->how.paths) wrong = path_wrong(g, a, &a->records[i], r, first + i);
    }
    return wrong;
}

static struct spread_question question_of(const struct spread_case *c, const float *decay,
                                          const uint64_t *allowed)
{
    struct spread_question q = {
        .mode = (enum spread_mode)c->how.mode,
        .fan = (enum spread_fan)c->how.fan,
        .ignore_kinds = c->how.ignore_kinds,
        .last_hop = c->how.last_hop,
        .paths = c->how.paths,
        .hops = c->how.hops,
        .decay = decay,
        .allowed = allowed,
        .touched_max = c->how.touched_max ? c->how.touched_max : UINT64_MAX,
    };
    memcpy(q.thresholds, c->how.thresholds, sizeof q.thresholds);
    return q;
}

static bool find_row(void *owner, const uint64_t *ids, size_t count, const float **rows,
                     float *norms)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t row = collection_find_row(owner, ids[i]);
        if (row == COLLECTION_NO_ROW) return false;
        rows[i] = collection_row(owner, row);
        norms[i] = collection_norm(owner, row);
    }
    return true;
}

struct spread_answer spread_wanted(const struct graph *g, const struct spread_case *c, uint64_t set)
{
    struct spread_graph view = graph_view(graph_now(g));
    float decay[SPREAD_HOPS_MAX + 1] = {1};
    uint64_t *allowed = c->within ? calloc(view.nodes / 64 + 1, sizeof *allowed) : NULL;
    struct spread_seed *seeds = malloc((c->seed_count + 1) * sizeof *seeds);
    struct spread_question q = question_of(c, decay, allowed);
    const struct spread_embeddings embeddings = {
        .dimension = c->embeddings ? collection_dimension(c->embeddings) : 0,
        .find = find_row,
        .owner = c->embeddings};
    if (c->embeddings) q.embeddings = &embeddings;
    for (uint32_t d = 1; d <= c->how.hops; d++)
        decay[d] = (float)decay_of(c, d);
    for (uint64_t i = 0; allowed && i < c->within_count; i++) {
        uint32_t node = graph_find(graph_now(g), c->within[i]);
        allowed[node / 64] |= UINT64_C(1) << node % 64;
    }
    q.seeds = seeds;
    q.seed_count = seeds_of(g, c, c->offsets ? c->offsets[set] : 0,
                            c->offsets ? c->offsets[set + 1] : c->seed_count, seeds);
    struct spread_answer a = spread_reference(&view, &q);
    free(seeds);
    free(allowed);
    return a;
}

const char *spread_reply_wrong(const struct graph *g, const struct spread_case *c,
                               const struct spread_reply *r)
{
    struct spread_graph view = graph_view(graph_now(g));
    uint64_t sets = c->offsets ? c->sets : 1;
    const char *wrong = r->sets == sets ? NULL : WRONG("%" PRIu64 " sets", r->sets);
    if (!wrong && (r->offsets[0] != 0 || r->offsets[sets] != r->count)) wrong = "offsets";
    if (!wrong && c->how.paths != (r->path_offsets != NULL)) wrong = "whether there are paths";
    for (uint64_t set = 0; set < sets && !wrong; set++) {
        struct spread_answer a = spread_wanted(g, c, set);
        wrong = set_wrong(&view, c, &a, r, set);
        spread_answer_free(&a);
    }
    return wrong;
}
