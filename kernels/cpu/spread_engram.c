/* spread_engram: the levels of mode engram. The contributions of a level are counted by target,
 * placed next to each other, sorted and visited one by one; what a node gains is sent in the next
 * level. A level with few edges is one part; otherwise each of the three is a step of its own. */
#include "kernels/cpu/spread_inside.h"
#include "kernels/topk.h"

#include <string.h>

/* ---------------------------------------------------------------- contributions */

static uint64_t contribution_of(float value, uint32_t source)
{
    return (uint64_t)topk_key(value, false) << 32 | source;
}

static float value_of(uint64_t contribution)
{
    uint32_t rising = ~(uint32_t)(contribution >> 32);
    union {
        uint32_t u;
        float f;
    } v = {rising & 0x80000000u ? rising & 0x7fffffffu : ~rising};
    return v.f;
}

static uint32_t gains_of(const struct spread_front *f, uint32_t i)
{
    return isnan(f->gains[1][i]) ? 1 : isnan(f->gains[2][i]) ? 2 : 3;
}

/* Nodes that a thread found in a level and has not yet added to the common list. */
struct targets {
    uint32_t nodes[SPREAD_CHUNK];
    uint32_t count;
};

static void flush_targets(const struct spread_run *r, struct targets *t)
{
    struct spread_state *s = spread_state_of(r);
    uint32_t first = spread_reserve(&s->target_count, t->count, r->alone);
    memcpy(s->targets + first, t->nodes, t->count * sizeof *t->nodes);
    t->count = 0;
}

static void count_target(const struct spread_run *r, struct targets *t, uint32_t node,
                         uint32_t contributions)
{
    struct spread_place *place = &spread_state_of(r)->places[node];
    if (spread_reserve(&place->count, contributions, r->alone) > 0) return;
    t->nodes[t->count++] = node;
    if (t->count == SPREAD_CHUNK) flush_targets(r, t);
}

static void count_seeds(const struct spread_run *r, struct targets *t)
{
    for (uint64_t i = 0; i < r->question->seed_count; i++) {
        spread_give_way_at(r, i + 1);
        count_target(r, t, r->question->seeds[i].node, 1);
    }
}

/* Prefetches memory that is read soon: the lists of the next nodes, and the places that the edges
 * of the very next node lead to. */
static void fetch_ahead(const struct spread_graph *g, const struct spread_place *places,
                        const uint32_t *nodes, uint32_t now, uint32_t last)
{
    enum { FAR = 16, NEAR = 8, NEXT = 2, EDGES_MAX = 32 };
    if (now + FAR < last) __builtin_prefetch(spread_out_list(g, nodes[now + FAR]));
    if (now + NEAR < last)
        __builtin_prefetch(&g->out_edges[spread_out_list(g, nodes[now + NEAR])->first]);
    if (now + NEXT >= last) return;
    struct spread_list list = *spread_out_list(g, nodes[now + NEXT]);
    uint32_t count = list.count < EDGES_MAX ? list.count : EDGES_MAX;
    for (uint32_t e = 0; e < count; e++)
        __builtin_prefetch(&places[g->out_edges[list.first + e].node], 1);
}

static void count_part(struct spread_run *r, struct spread_range range)
{
    struct spread_state *s = spread_state_of(r);
    const struct spread_front *senders = spread_senders(s);
    struct targets found;
    uint64_t since = 0;
    bool similar = spread_similar_level(r);
    found.count = 0;
    if (s->depth == 0) count_seeds(r, &found);
    for (uint32_t i = range.first; i < range.last; i++) {
        if (similar) s->similar[i] = spread_similar_node(r, senders->nodes[i]);
        fetch_ahead(r->graph, s->places, senders->nodes, i, range.last);
        struct spread_list list = *spread_out_list(r->graph, senders->nodes[i]);
        const struct spread_edge *edges = r->graph->out_edges + list.first;
        uint32_t gains = gains_of(senders, i);
        for (uint32_t e = 0; e < list.count; e++) {
            if (e % SPREAD_WAY == SPREAD_WAY - 1) spread_give_way(r);
            if (spread_is_allowed(r->question, edges[e].node))
                count_target(r, &found, edges[e].node, gains);
        }
        spread_pace(r, &since, list.count % SPREAD_WAY + 1);
    }
    flush_targets(r, &found);
}

/* Computes where the contributions of each target begin. */
static void place_targets(const struct spread_run *r, struct spread_state *s)
{
    uint64_t first = 0;
    uint32_t count = s->target_count;
    for (uint32_t i = 0; i < count; i++) {
        struct spread_place *place = &s->places[s->targets[i]];
        spread_give_way_at(r, i + 1);
        place->first = first;
        first += atomic_load_explicit(&place->count, memory_order_relaxed);
    }
}

static void put(const struct spread_run *r, uint32_t target, float value, uint32_t source)
{
    struct spread_state *s = spread_state_of(r);
    struct spread_place *place = &s->places[target];
    uint64_t at = place->first + spread_reserve(&place->filled, 1, r->alone);
    s->contributions[at] = contribution_of(value, source);
}

/* What a node sends: what it gained, and by which factor that fades. */
struct sending {
    uint32_t node, gains;
    float gain[SPREAD_GAINS], decay;
};

static struct sending sending_of(const struct spread_run *r, uint32_t i)
{
    struct spread_state *s = spread_state_of(r);
    const struct spread_front *senders = spread_senders(s);
    struct sending sending = {.node = senders->nodes[i],
                              .gains = gains_of(senders, i),
                              .decay = r->question->decay[s->depth]};
    for (uint32_t k = 0; k < sending.gains; k++)
        sending.gain[k] = senders->gains[k][i];
    return sending;
}

static void put_all(const struct spread_run *r, const struct sending *from, uint32_t target,
                    float weight)
{
    for (uint32_t k = 0; k < from->gains; k++)
        put(r, target, spread_contribution(from->gain[k], weight, from->decay), from->node);
}

/* A range of a sender's edges. */
static void scatter_node(const struct spread_run *r, uint32_t i, struct spread_range range)
{
    const struct spread_graph *g = r->graph;
    const struct spread_question *q = r->question;
    struct sending from = sending_of(r, i);
    uint32_t node = from.node, kind = g->kinds ? g->kinds[node] : SPREAD_PLAIN;
    struct spread_list list = *spread_out_list(g, node);
    const struct spread_edge *edges = g->out_edges + list.first;
    for (uint32_t e = range.first; e < range.last; e++) {
        uint32_t target = edges[e].node;
        if (e % SPREAD_WAY == SPREAD_WAY - 1) spread_give_way(r);
        if (!spread_is_allowed(q, target)) continue;
        float direction =
            g->kinds && !q->ignore_kinds ? spread_direction(kind, g->kinds[target]) : 1.0f;
        put_all(r, &from, target,
                spread_weight(edges[e].weight, direction, q->fan, kind, list.count,
                              spread_factor(g, node)));
    }
}

/* The same with similarity in the place of weights. */
static void scatter_similar(const struct spread_run *r, uint32_t i, struct spread_range range)
{
    const struct spread_graph *g = r->graph;
    struct sending from = sending_of(r, i);
    const struct spread_edge *edges = g->out_edges + spread_out_list(g, from.node)->first;
    uint32_t targets[SPREAD_SIMILAR_CHUNK], count = 0;
    float weights[SPREAD_SIMILAR_CHUNK];
    for (uint32_t e = range.first; e < range.last; e++) {
        targets[count] = edges[e].node;
        if (e % SPREAD_WAY == SPREAD_WAY - 1) spread_give_way(r);
        count += spread_is_allowed(r->question, edges[e].node);
        if (count < SPREAD_SIMILAR_CHUNK && e + 1 < range.last) continue;
        spread_similar_weights(r, from.node, targets, count, weights);
        for (uint32_t k = 0; k < count; k++)
            put_all(r, &from, targets[k], weights[k]);
        count = 0;
    }
}

static void scatter_seeds(const struct spread_run *r)
{
    const struct spread_question *q = r->question;
    for (uint64_t i = 0; i < q->seed_count; i++) {
        spread_give_way_at(r, i + 1);
        put(r, q->seeds[i].node, q->seeds[i].activation, SPREAD_NO_NODE);
    }
}

/* Whole senders. */
static void scatter_part(struct spread_run *r, struct spread_range range)
{
    struct spread_state *s = spread_state_of(r);
    uint64_t since = 0;
    bool similar = spread_similar_level(r);
    if (s->depth == 0) scatter_seeds(r);
    const struct spread_front *senders = spread_senders(s);
    for (uint32_t i = range.first; i < range.last; i++) {
        uint32_t edges = spread_out_list(r->graph, senders->nodes[i])->count;
        struct spread_range all = {0, edges};
        fetch_ahead(r->graph, s->places, senders->nodes, i, range.last);
        if (similar && s->similar[i])
            scatter_similar(r, i, all);
        else
            scatter_node(r, i, all);
        spread_pace(r, &since, edges % SPREAD_WAY + 1);
    }
}

/* A part that spread_similar_cut has cut: senders may be divided. */
static void scatter_cut(struct spread_run *r, uint32_t part)
{
    struct spread_state *s = spread_state_of(r);
    const struct spread_front *senders = spread_senders(s);
    uint32_t first = s->starts[part], last = s->starts[part + 1], count = senders->count;
    uint64_t since = 0;
    for (uint32_t i = first; i <= last && i < count; i++) {
        uint32_t edges = spread_out_list(r->graph, senders->nodes[i])->count;
        struct spread_range range = {i == first ? s->start_edges[part] : 0,
                                     i == last ? s->start_edges[part + 1] : edges};
        if (s->similar[i])
            scatter_similar(r, i, range);
        else
            scatter_node(r, i, range);
        spread_pace(r, &since, (range.last - range.first) % SPREAD_WAY + 1);
    }
}

/* ---------------------------------------------------------------- visits */

/* Returns the source of the first contribution that counted; among equal ones, which follow it,
 * the one with the lowest id. */
static uint32_t parent_of(const struct spread_run *r, const uint64_t *c, uint64_t count)
{
    const struct spread_graph *g = r->graph;
    uint32_t parent = spread_contribution_source(c[0]);
    for (uint64_t i = 1; i < count && c[i] >> 32 == c[0] >> 32; i++) {
        spread_give_way_at(r, i);
        uint32_t source = spread_contribution_source(c[i]);
        if (g->ids[source] < g->ids[parent]) parent = source;
    }
    return parent;
}

static void visit_all(const struct spread_run *r, struct spread_batch *b,
                      struct spread_record *record, const uint64_t *c, uint64_t count)
{
    const struct spread_question *q = r->question;
    uint32_t depth = spread_state_of(r)->depth, gains = 0;
    for (uint64_t i = 0; i < count; i++) {
        float gain;
        bool expands, first = record->visits == 0;
        spread_give_way_at(r, i + 1);
        if (!spread_visit(record, value_of(c[i]), depth, q->hops, q->thresholds, &b->cycles, &gain,
                          &expands))
            continue;
        b->touched = true;
        if (first && q->paths && depth > 0) record->parent = parent_of(r, c + i, count - i);
        if (expands) b->gains[gains++][b->active] = gain;
    }
    if (gains == 0) return;
    for (uint32_t k = gains; k < SPREAD_GAINS; k++)
        b->gains[k][b->active] = NAN;
    b->nodes[b->active++] = record->node;
}

/* Returns how many contributions it had. */
static uint64_t fold_target(const struct spread_run *r, struct spread_batch *b, uint32_t node)
{
    struct spread_state *s = spread_state_of(r);
    struct spread_place *place = &s->places[node];
    uint64_t *c = s->contributions + place->first;
    uint64_t count = atomic_load_explicit(&place->count, memory_order_relaxed);
    spread_sort(r, c, count);
    if (place->slot) {
        visit_all(r, b, &s->records[place->slot - 1], c, count);
    } else {
        struct spread_record *fresh = &b->fresh[b->fresh_count];
        *fresh = (struct spread_record){.node = node, .parent = SPREAD_NO_NODE};
        visit_all(r, b, fresh, c, count);
        if (fresh->visits) b->fresh_count++;
    }
    place->first = 0;
    atomic_store_explicit(&place->count, 0, memory_order_relaxed);
    atomic_store_explicit(&place->filled, 0, memory_order_relaxed);
    return count;
}

static void fetch_record(const struct spread_state *s, uint32_t node)
{
    const struct spread_place *place = &s->places[node];
    if (place->slot) __builtin_prefetch(&s->records[place->slot - 1], 1);
    __builtin_prefetch(&s->contributions[place->first], 1);
}

static void fold_part(struct spread_run *r, struct spread_range range)
{
    enum { FAR = 16, NEAR = 8 };
    struct spread_state *s = spread_state_of(r);
    struct spread_batch b;
    uint64_t since = 0;
    spread_batch_open(&b);
    for (uint32_t i = range.first; i < range.last; i++) {
        if (i + FAR < range.last) __builtin_prefetch(&s->places[s->targets[i + FAR]], 1);
        if (i + NEAR < range.last) fetch_record(s, s->targets[i + NEAR]);
        spread_pace(r, &since, fold_target(r, &b, s->targets[i]) % SPREAD_WAY + 1);
        if ((i - range.first) % SPREAD_CHUNK == SPREAD_CHUNK - 1)
            spread_batch_flush(r, &b, SPREAD_GAINS);
    }
    spread_batch_flush(r, &b, SPREAD_GAINS);
}

/* ---------------------------------------------------------------- steps */

/* An upper bound of the level's contributions. */
static uint64_t contributions_most(const struct spread_run *r, struct spread_state *s)
{
    const struct spread_front *senders = spread_senders(s);
    uint64_t most = s->depth == 0 ? r->question->seed_count : 0;
    uint32_t count = senders->count;
    for (uint32_t i = 0; i < count; i++) {
        spread_give_way_at(r, i + 1);
        most +=
            (uint64_t)spread_out_list(r->graph, senders->nodes[i])->count * gains_of(senders, i);
    }
    return most;
}

/* Memory is only freed at the end of the run, so each growth at least doubles it. */
static bool make_room(struct spread_run *r, struct spread_state *s, uint64_t contributions)
{
    if (!s->contributions) {
        s->contributions = s->scratch;
        s->contributions_room = SPREAD_SCRATCH;
    }
    s->scratch_soiled |= s->contributions == s->scratch;
    if (contributions <= s->contributions_room) return true;
    uint64_t room = 2 * s->contributions_room;
    if (room < contributions) room = contributions;
    uint64_t *memory = r->memory.take(r->memory.owner, room * sizeof *memory);
    if (!memory) return false;
    s->contributions = memory;
    s->contributions_room = room;
    return true;
}

static void forget_targets(struct spread_state *s)
{
    uint32_t count = s->target_count;
    if (count > s->targets_max) s->targets_max = count;
    s->target_count = 0;
}

static uint32_t parts_for(uint64_t work, uint32_t things)
{
    uint64_t parts = work / SPREAD_PART_EDGES + 1;
    if (parts > SPREAD_PARTS_MAX) parts = SPREAD_PARTS_MAX;
    if (parts > things) parts = things;
    return parts ? (uint32_t)parts : 1;
}

uint32_t spread_engram_start(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    forget_targets(s);
    uint64_t most = contributions_most(r, s);
    if (!make_room(r, s, most)) return 0;
    bool whole = s->depth == 0 || r->alone || most <= SPREAD_PART_EDGES;
    if (spread_similar_level(r)) whole = spread_similar_whole(r, most);
    s->step = whole ? SPREAD_STEP_LEVEL : SPREAD_STEP_COUNT;
    s->work = most;
    return whole ? 1 : parts_for(most, spread_senders(s)->count);
}

uint32_t spread_engram_onward(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    if (s->step == SPREAD_STEP_SCATTER) {
        s->step = SPREAD_STEP_FOLD;
        return parts_for(s->work, s->target_count);
    }
    place_targets(r, s);
    s->step = SPREAD_STEP_SCATTER;
    if (spread_similar_level(r)) return spread_similar_cut(r);
    return parts_for(s->work, spread_senders(s)->count);
}

void spread_engram_part(struct spread_run *r, uint32_t part)
{
    struct spread_state *s = spread_state_of(r);
    bool whole = s->step == SPREAD_STEP_LEVEL;
    struct spread_range senders = spread_share(spread_senders(s)->count, part, s->parts);
    if (whole || s->step == SPREAD_STEP_COUNT) count_part(r, senders);
    if (whole) place_targets(r, s);
    if (s->step == SPREAD_STEP_SCATTER && spread_similar_level(r))
        scatter_cut(r, part);
    else if (whole || s->step == SPREAD_STEP_SCATTER)
        scatter_part(r, senders);
    if (whole || s->step == SPREAD_STEP_FOLD)
        fold_part(r, spread_share(s->target_count, part, s->parts));
}
