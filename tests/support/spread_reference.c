/* spread_reference: see there. */
#include "tests/support/spread_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All of a spread that is under way, by node number. */
struct scene {
    const struct spread_graph *g;
    const struct spread_question *q;
    struct spread_record *nodes; /* visits 0: not touched */
    uint64_t touched;
    struct spread_answer answer;
};

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (!memory) abort();
    return memory;
}

static bool may_touch(const struct scene *s, uint32_t node)
{
    return !s->q->allowed || (s->q->allowed[node / 64] >> node % 64 & 1) == 1;
}

static uint32_t tier_at(uint32_t depth)
{
    if (depth == 0) return 0;
    return depth == 1 || depth == 2 ? 1 : 2;
}

static void first_touch(struct scene *s, uint32_t node, uint32_t depth)
{
    s->nodes[node].depth = (uint8_t)depth;
    s->nodes[node].tier = (uint8_t)tier_at(depth);
    s->touched++;
}

/* After a hop: the nodes first touched in it give way, the highest ids first. */
static bool cut(struct scene *s, uint32_t depth)
{
    bool any = false;
    for (; s->touched > s->q->touched_max; s->touched--, any = true) {
        uint32_t highest = SPREAD_NO_NODE;
        for (uint32_t n = 0; n < s->g->nodes; n++) {
            bool fresh = s->nodes[n].visits > 0 && s->nodes[n].depth == depth;
            if (fresh && (highest == SPREAD_NO_NODE || s->g->ids[n] > s->g->ids[highest]))
                highest = n;
        }
        memset(&s->nodes[highest], 0, sizeof *s->nodes);
    }
    s->answer.truncated = any;
    return any;
}

/* ---------------------------------------------------------------- mode linear */

struct sum {
    double high, low;
    long double plain, magnitudes;
    uint64_t edges;
};

static void add(struct sum *s, struct spread_grid grid, double product)
{
    double coarse = product + grid.high;
    coarse -= grid.high;
    double rest = product - coarse;
    double fine = rest + grid.low;
    fine -= grid.low;
    s->high += coarse;
    s->low += fine;
    s->plain += product;
    s->magnitudes += fabs(product);
    s->edges++;
}

static float sends(const struct scene *s, const float *active, uint32_t node)
{
    return active[node] * (s->g->factors ? s->g->factors[node] : 1.0f);
}

static void judge(struct scene *s, const struct sum *sum)
{
    if (sum->magnitudes == 0) return;
    double error = (double)fabsl(sum->plain - ((long double)sum->high + sum->low));
    /* Half a fine step for each product. */
    double lost = (double)sum->edges * ldexp(s->g->grid.low / 1.5, -53);
    double relative = error / (double)sum->magnitudes;
    double excess = (error - lost) / (double)sum->magnitudes;
    if (relative > s->answer.error_max) s->answer.error_max = relative;
    if (excess > s->answer.excess_max) s->answer.excess_max = excess;
}

static void find_parent(struct scene *s, uint32_t node, const float *before)
{
    double best = 0;
    struct spread_record *r = &s->nodes[node];
    for (uint32_t from = 0; from < s->g->nodes; from++) {
        struct spread_list list = *spread_out_list(s->g, from);
        if (before[from] <= 0.0f) continue;
        for (uint32_t e = 0; e < list.count; e++) {
            struct spread_edge edge = s->g->out_edges[list.first + e];
            double product = (double)sends(s, before, from) * edge.weight;
            if (edge.node != node) continue;
            bool better = r->parent == SPREAD_NO_NODE || product > best ||
                          (product == best && s->g->ids[from] < s->g->ids[r->parent]);
            if (!better) continue;
            best = product;
            r->parent = from;
        }
    }
}

static void gather(struct scene *s, const float *before, struct sum *sums)
{
    memset(sums, 0, s->g->nodes * sizeof *sums);
    for (uint32_t from = 0; from < s->g->nodes; from++) {
        struct spread_list list = *spread_out_list(s->g, from);
        if (before[from] <= 0.0f) continue;
        for (uint32_t e = 0; e < list.count; e++) {
            struct spread_edge edge = s->g->out_edges[list.first + e];
            add(&sums[edge.node], s->g->grid, (double)sends(s, before, from) * (double)edge.weight);
        }
    }
}

static bool hop(struct scene *s, uint32_t depth, const float *before, float *after)
{
    struct sum *sums = allocate(s->g->nodes, sizeof *sums);
    bool any = false;
    gather(s, before, sums);
    for (uint32_t n = 0; n < s->g->nodes; n++) {
        after[n] = 0;
        if (!may_touch(s, n)) continue;
        judge(s, &sums[n]);
        float a = (float)((double)s->q->decay[depth] * (sums[n].low + sums[n].high));
        if (a > 1.0f) a = 1.0f;
        if (a <= 0.0f || a < s->q->thresholds[0]) continue;
        any = true;
        after[n] = a;
        struct spread_record *r = &s->nodes[n];
        if (r->visits++ == 0) {
            first_touch(s, n, depth);
            if (s->q->paths) find_parent(s, n, before);
        }
        float sum = r->activation + a;
        r->activation = s->q->last_hop ? a : sum > 1.0f ? 1.0f : sum;
    }
    free(sums);
    return any;
}

static void drop_inactive(struct scene *s, const float *active, bool ended)
{
    for (uint32_t n = 0; n < s->g->nodes; n++)
        if (!ended || active[n] <= 0.0f) memset(&s->nodes[n], 0, sizeof *s->nodes);
}

static void linear(struct scene *s)
{
    float *now = allocate(s->g->nodes, sizeof *now), *next = allocate(s->g->nodes, sizeof *next);
    for (uint64_t i = 0; i < s->q->seed_count; i++) {
        uint32_t node = s->q->seeds[i].node;
        now[node] = s->nodes[node].activation = s->q->seeds[i].activation;
        s->nodes[node].visits = 1;
        first_touch(s, node, 0);
    }
    bool over = cut(s, 0);
    uint32_t depth = 0;
    while (!over && depth < s->q->hops) {
        bool any = hop(s, ++depth, now, next);
        if (any) s->answer.hops_done = depth;
        over = cut(s, depth) || !any;
        float *kept = now;
        now = next;
        next = kept;
    }
    if (s->q->last_hop) drop_inactive(s, now, depth == s->q->hops);
    for (uint32_t n = 0; n < s->g->nodes; n++)
        s->nodes[n].confidence = s->nodes[n].activation;
    free(now);
    free(next);
}

/* ---------------------------------------------------------------- mode engram */

struct contribution {
    uint32_t target, source;
    uint64_t id; /* the source's */
    float value;
};

struct contributions {
    struct contribution *all;
    uint64_t count, room;
};

static void append(struct contributions *c, struct contribution one)
{
    if (c->count == c->room) {
        c->room = 2 * c->room + 64;
        c->all = realloc(c->all, c->room * sizeof *c->all);
        if (!c->all) abort();
    }
    c->all[c->count++] = one;
}

static int compare(const void *left, const void *right)
{
    const struct contribution *a = left, *b = right;
    if (a->target != b->target) return a->target < b->target ? -1 : 1;
    if (a->value != b->value) return a->value > b->value ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static float direction_of(uint8_t from, uint8_t to)
{
    if (from == SPREAD_EPISODE && to == SPREAD_CONCEPT) return 0.8f;
    if (from == SPREAD_CONCEPT && to == SPREAD_EPISODE) return 0.6f;
    if (from == SPREAD_CONCEPT && to == SPREAD_CONCEPT) return 0.4f;
    if (from == SPREAD_EPISODE && to == SPREAD_EPISODE) return 0.3f;
    return 1.0f;
}

static bool embedding_of(const struct scene *s, uint32_t node, const float **row, float *norm)
{
    const struct spread_embeddings *e = s->q->embeddings;
    return e->find(e->owner, &s->g->ids[node], 1, row, norm);
}

/* On the way from depth 1 to depth 2, at least 16 neighbours, all with embeddings. */
static bool is_similar(const struct scene *s, uint32_t node, uint32_t depth)
{
    struct spread_list list = *spread_out_list(s->g, node);
    const float *row;
    float norm;
    if (!s->q->embeddings || depth != 1 || list.count < 16) return false;
    if (!embedding_of(s, node, &row, &norm)) return false;
    for (uint32_t e = 0; e < list.count; e++)
        if (!embedding_of(s, s->g->out_edges[list.first + e].node, &row, &norm)) return false;
    return true;
}

/* 1 / (1 + e^-((cos(source, target) - threshold) / 0.5)); norms are those of the rows. */
static float similarity(const struct scene *s, uint32_t source, uint32_t target)
{
    uint32_t dimension = s->q->embeddings->dimension;
    const float *a, *b;
    float norm;
    if (!embedding_of(s, source, &a, &norm) || !embedding_of(s, target, &b, &norm)) abort();
    float cosine = canonical_cosine(canonical_dot(dimension, a, b),
                                    canonical_norm(canonical_dot(dimension, a, a)),
                                    canonical_norm(canonical_dot(dimension, b, b)));
    float x = (cosine - s->q->thresholds[0]) / 0.5f;
    return 1.0f / (1.0f + canonical_exponential(-x));
}

static void expand(const struct scene *s, uint32_t node, float gain, uint32_t depth,
                   struct contributions *next)
{
    const struct spread_graph *g = s->g;
    struct spread_list list = *spread_out_list(g, node);
    uint8_t kind = g->kinds ? g->kinds[node] : SPREAD_PLAIN;
    bool similar = is_similar(s, node, depth);
    for (uint32_t e = 0; e < list.count; e++) {
        struct spread_edge edge = g->out_edges[list.first + e];
        if (!may_touch(s, edge.node)) continue;
        float w = edge.weight;
        if (!s->q->ignore_kinds)
            w *= direction_of(kind, g->kinds ? g->kinds[edge.node] : SPREAD_PLAIN);
        if (s->q->fan == SPREAD_FAN_DIVIDE && kind == SPREAD_CONCEPT) w /= (float)list.count;
        if (s->q->fan == SPREAD_FAN_SQRT && kind == SPREAD_CONCEPT) w /= sqrtf((float)list.count);
        if (s->q->fan != SPREAD_FAN_NONE && kind == SPREAD_EPISODE) w *= 1.2f;
        if (similar) w = similarity(s, node, edge.node);
        w *= g->factors ? g->factors[node] : 1.0f;
        float value = gain * w;
        value *= s->q->decay[depth + 1];
        if (isnan(value)) value = 0;
        append(next, (struct contribution){edge.node, node, g->ids[node], value});
    }
}

/* One contribution; true: it counted. */
static bool visit(struct scene *s, struct contribution c, uint32_t depth,
                  struct contributions *next)
{
    static const uint32_t budgets[] = {2, 3, 4};
    struct spread_record *r = &s->nodes[c.target];
    uint32_t tier = r->visits ? r->tier : tier_at(depth);
    float threshold = s->q->thresholds[tier];
    float after = r->activation + c.value;
    if (after > 1.0f) after = 1.0f;
    if (after < threshold) return false;
    float gain = after - r->activation;
    if (r->visits == 0) {
        first_touch(s, c.target, depth);
        if (s->q->paths && depth > 0) r->parent = c.source;
    }
    r->visits++;
    r->activation = r->confidence = after;
    if (r->visits >= budgets[tier]) {
        r->activation = r->confidence = after * 0.93f;
        s->answer.cycles++;
    } else if (depth < s->q->hops && c.value > threshold) {
        expand(s, c.target, gain, depth, next);
    }
    return true;
}

static void engram(struct scene *s)
{
    struct contributions now = {0}, next = {0};
    for (uint64_t i = 0; i < s->q->seed_count; i++)
        append(&now, (struct contribution){s->q->seeds[i].node, SPREAD_NO_NODE, 0,
                                           s->q->seeds[i].activation});
    for (uint32_t depth = 0; now.count > 0; depth++) {
        bool any = false;
        qsort(now.all, now.count, sizeof *now.all, compare);
        for (uint64_t i = 0; i < now.count; i++)
            any |= visit(s, now.all[i], depth, &next);
        if (any) s->answer.hops_done = depth;
        if (cut(s, depth)) break;
        struct contributions done = now;
        now = next;
        next = done;
        next.count = 0;
    }
    free(now.all);
    free(next.all);
}

/* ---------------------------------------------------------------- answers */

struct spread_answer spread_reference(const struct spread_graph *g, const struct spread_question *q)
{
    struct scene s = {.g = g, .q = q, .nodes = allocate(g->nodes, sizeof *s.nodes)};
    for (uint32_t n = 0; n < g->nodes; n++)
        s.nodes[n].parent = SPREAD_NO_NODE;
    if (q->mode == SPREAD_LINEAR)
        linear(&s);
    else
        engram(&s);
    struct spread_answer answer = s.answer;
    answer.records = s.nodes;
    for (uint32_t n = 0; n < g->nodes; n++) {
        if (s.nodes[n].visits == 0) continue;
        answer.records[answer.count] = s.nodes[n];
        answer.records[answer.count++].node = n;
    }
    return answer;
}

void spread_answer_free(struct spread_answer *a)
{
    free(a->records);
    a->records = NULL;
}

static int compare_records(const void *left, const void *right)
{
    const struct spread_record *a = left, *b = right;
    return (a->node > b->node) - (a->node < b->node);
}

void spread_answer_sort(struct spread_answer *a)
{
    qsort(a->records, a->count, sizeof *a->records, compare_records);
}

const char *spread_answers_differ(const struct spread_answer *a, const struct spread_answer *b)
{
    static char text[400];
    if (a->count != b->count || a->cycles != b->cycles || a->hops_done != b->hops_done ||
        a->truncated != b->truncated) {
        snprintf(text, sizeof text,
                 "touched %llu and %llu, cycles %llu and %llu, hops %u and %u, truncated %d and %d",
                 (unsigned long long)a->count, (unsigned long long)b->count,
                 (unsigned long long)a->cycles, (unsigned long long)b->cycles, a->hops_done,
                 b->hops_done, a->truncated, b->truncated);
        return text;
    }
    for (uint64_t i = 0; i < a->count; i++) {
        const struct spread_record *x = &a->records[i], *y = &b->records[i];
        if (memcmp(x, y, sizeof *x) == 0) continue;
        snprintf(text, sizeof text,
                 "node %u and %u: activation %a and %a, confidence %a and %a, visits %u and %u, "
                 "depth %u and %u, tier %u and %u, parent %x and %x",
                 x->node, y->node, x->activation, y->activation, x->confidence, y->confidence,
                 x->visits, y->visits, x->depth, y->depth, x->tier, y->tier, x->parent, y->parent);
        return text;
    }
    return NULL;
}
