/* spread_linear: the hops of mode linear. Where few edges leave the active nodes they are pushed along
 * those, else every node pulls over its in-list; both give the same sums. */
#include "kernels/cpu/spread_inside.h"

#include <string.h>

enum {
    PULL_SHARE = 8, /* pulling all edges takes as long as pushing along this part of them */
    MANY_SHARE = 4, /* this part of the nodes is enough to pull, whatever leaves them */
    NODE_EDGES = 2  /* a node costs as much as so many edges of its list */
};

/* ---------------------------------------------------------------- what a hop brings a node */

/* What a node received, if it is kept, into its record, and what it sends of it. slot: its place's.
 * fresh: made in this hop, without a parent yet. */
static float receive(const struct spread_run *r, struct spread_batch *b, uint32_t node,
                     uint32_t slot, float activation, struct spread_record **fresh)
{
    struct spread_state *s = spread_state_of(r);
    const struct spread_question *q = r->question;
    *fresh = NULL;
    struct spread_record *record = slot ? &s->records[slot - 1] : &b->fresh[b->fresh_count++];
    if (!slot) {
        *record = (struct spread_record){.node = node,
                                         .parent = SPREAD_NO_NODE,
                                         .depth = (uint8_t)s->depth,
                                         .tier = (uint8_t)spread_tier_of(s->depth)};
        *fresh = record;
    }
    record->visits++;
    record->reserved[0] = (uint8_t)s->depth;
    record->activation =
        q->last_hop ? activation : spread_accumulated(record->activation, activation);
    record->confidence = record->activation;
    b->touched = true;
    float sent = spread_sent(activation, spread_factor(r->graph, node));
    if (sent > 0.0f && s->depth < q->hops) {
        b->nodes[b->active] = node;
        b->gains[0][b->active++] = sent;
    }
    return sent;
}

/* Hop 0. */
void spread_linear_seeds(struct spread_run *r)
{
    struct spread_batch b = {.fresh_count = 0};
    const struct spread_question *q = r->question;
    for (uint64_t i = 0; i < q->seed_count; i++) {
        struct spread_seed seed = q->seeds[i];
        b.fresh[b.fresh_count++] = (struct spread_record){.node = seed.node,
                                                          .parent = SPREAD_NO_NODE,
                                                          .activation = seed.activation,
                                                          .confidence = seed.activation,
                                                          .visits = 1};
        b.touched = true;
        float sent = spread_sent(seed.activation, spread_factor(r->graph, seed.node));
        if (sent > 0.0f) {
            b.nodes[b.active] = seed.node;
            b.gains[0][b.active++] = sent;
        }
        if (b.fresh_count == SPREAD_CHUNK) spread_batch_flush(r, &b, 1);
    }
    spread_batch_flush(r, &b, 1);
}

/* ---------------------------------------------------------------- push */

/* The best of the products, ties to the lowest id. */
static void offer_source(const struct spread_graph *g, struct spread_place *place, uint32_t source,
                         double product)
{
    if (product > place->best ||
        (product == place->best && g->ids[source] < g->ids[place->source - 1])) {
        place->best = product;
        place->source = source + 1;
    }
}

/* Along a node's edges; count: of the targets so far, and then. */
static uint32_t push_node(const struct spread_run *r, struct spread_state *s, uint32_t source,
                          float sent, uint32_t count)
{
    const struct spread_graph *g = r->graph;
    struct spread_list list = g->out[source];
    const struct spread_edge *edges = g->out_edges + list.first;
    for (uint32_t e = 0; e < list.count; e++) {
        uint32_t target = edges[e].node;
        if (!spread_is_allowed(r->question, target)) continue;
        struct spread_place *place = &s->places[target];
        double product = (double)sent * (double)edges[e].weight;
        if (!place->source) {
            place->source = source + 1;
            place->best = product;
            s->targets[count++] = target;
        } else if (r->question->paths) {
            offer_source(g, place, source, product);
        }
        spread_add(&place->sum, g->grid, sent, edges[e].weight);
    }
    return count;
}

void spread_linear_push(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    const struct spread_front *senders = spread_senders(s);
    uint32_t sending = senders->count, count = 0;
    for (uint32_t i = 0; i < sending; i++)
        count = push_node(r, s, senders->nodes[i], senders->gains[0][i], count);
    struct spread_batch b = {.fresh_count = 0};
    for (uint32_t i = 0; i < count; i++) {
        struct spread_place *place = &s->places[s->targets[i]];
        struct spread_record *fresh = NULL;
        float activation = spread_received(place->sum, r->question->decay[s->depth]);
        if (spread_kept(activation, r->question->thresholds[0]))
            receive(r, &b, s->targets[i], place->slot, activation, &fresh);
        if (fresh && r->question->paths) fresh->parent = place->source - 1;
        place->sum = (struct spread_sum){0, 0};
        place->best = 0;
        place->source = 0;
        if (i % SPREAD_CHUNK == SPREAD_CHUNK - 1) spread_batch_flush(r, &b, 1);
    }
    spread_batch_flush(r, &b, 1);
    if (count > s->targets_max) s->targets_max = count;
    s->targets_are_nodes = count > 0;
}

/* ---------------------------------------------------------------- pull */

static uint32_t parent_of(const struct spread_graph *g, uint32_t node, const float *sent)
{
    struct spread_list list = g->in[node];
    const struct spread_edge *edges = g->in_edges + list.first;
    uint32_t parent = SPREAD_NO_NODE;
    double best = 0;
    for (uint32_t e = 0; e < list.count; e++) {
        uint32_t source = edges[e].node;
        double product = (double)sent[source] * (double)edges[e].weight;
        if (sent[source] == 0.0f) continue;
        if (parent == SPREAD_NO_NODE || product > best ||
            (product == best && g->ids[source] < g->ids[parent])) {
            parent = source;
            best = product;
        }
    }
    return parent;
}

/* The nodes of order[0 .. count) that may be touched; the others send nothing. */
static uint32_t choose_allowed(const struct spread_run *r, const uint32_t *order, uint32_t count,
                               float *sent, uint32_t *chosen)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        chosen[kept] = order[i];
        if (spread_is_allowed(r->question, order[i]))
            kept++;
        else
            sent[order[i]] = 0.0f;
    }
    return kept;
}

/* The slots of nodes, from places far apart; known (0: not yet): what was found before. */
static void find_slots(const struct spread_state *s, const uint32_t *nodes, uint32_t count,
                       uint32_t *known, uint32_t *slots)
{
    enum { AHEAD = 16 };
    for (uint32_t i = 0; i < count; i++) {
        uint32_t later = i + AHEAD < count ? i + AHEAD : i;
        if (!known || !known[later]) __builtin_prefetch(&s->places[nodes[later]].slot);
        slots[i] = known && known[i] ? known[i] : s->places[nodes[i]].slot;
        if (known) known[i] = slots[i];
        if (slots[i]) __builtin_prefetch(&s->records[slots[i] - 1], 1);
    }
}

/* Nodes of graph->order; known: of what is known of their slots, by place in it, or NULL. */
static void pull_chunk(struct spread_run *r, struct spread_batch *b, const uint32_t *order,
                       uint32_t count, uint32_t *known)
{
    struct spread_state *s = spread_state_of(r);
    const float *sent = spread_senders(s)->sent;
    float *sends = spread_receivers(s)->sent, decay = r->question->decay[s->depth];
    struct spread_sum sums[SPREAD_CHUNK];
    uint32_t chosen[SPREAD_CHUNK], slots[SPREAD_CHUNK];
    if (r->question->allowed) {
        count = choose_allowed(r, order, count, sends, chosen);
        order = chosen;
        known = NULL;
    }
    r->kernels->pull(r->graph, order, count, sent, sums);
    find_slots(s, order, count, known, slots);
    for (uint32_t i = 0; i < count; i++) {
        struct spread_record *fresh = NULL;
        float activation = spread_received(sums[i], decay);
        bool kept = spread_kept(activation, r->question->thresholds[0]);
        sends[order[i]] = kept ? receive(r, b, order[i], slots[i], activation, &fresh) : 0.0f;
        if (fresh && r->question->paths) fresh->parent = parent_of(r->graph, order[i], sent);
    }
    spread_batch_flush(r, b, 1);
}

void spread_linear_pull(struct spread_run *r, uint32_t part)
{
    struct spread_state *s = spread_state_of(r);
    struct spread_batch b = {.fresh_count = 0};
    for (uint32_t i = s->starts[part], last = s->starts[part + 1]; i < last; i += SPREAD_CHUNK)
        pull_chunk(r, &b, r->graph->order + i, last - i < SPREAD_CHUNK ? last - i : SPREAD_CHUNK,
                   s->targets + i);
}

/* ---------------------------------------------------------------- which of both */

static bool many_leave(const struct spread_run *r, const struct spread_front *senders)
{
    uint64_t most = r->graph->edges / PULL_SHARE, leave = 0;
    uint32_t count = senders->count;
    if (count > r->graph->nodes / MANY_SHARE) return true;
    for (uint32_t i = 0; i < count && leave <= most; i++)
        leave += r->graph->out[senders->nodes[i]].count;
    return leave > most;
}

/* Cuts graph->order into parts of like work. It falls in degree, roughly, so that a few of its nodes
 * tell of those between them. */
static void cut_parts(const struct spread_run *r, struct spread_state *s)
{
    enum { STEP = 16 };
    const struct spread_graph *g = r->graph;
    uint64_t work = g->edges + (uint64_t)g->nodes * NODE_EDGES, done = 0;
    uint64_t most = r->alone ? SPREAD_ALONE_EDGES : SPREAD_PART_EDGES;
    if (most < work / (SPREAD_PARTS_MAX / 2)) most = work / (SPREAD_PARTS_MAX / 2);
    for (uint32_t i = 0; i < g->nodes; i += STEP) {
        uint32_t nodes = g->nodes - i < STEP ? g->nodes - i : STEP;
        done += ((uint64_t)g->in[g->order[i]].count + NODE_EDGES) * nodes;
        if (done < most || s->pull_parts == SPREAD_PARTS_MAX - 1) continue;
        s->starts[++s->pull_parts] = i + nodes;
        done = 0;
    }
    if (s->starts[s->pull_parts] < g->nodes) s->starts[++s->pull_parts] = g->nodes;
}

/* What is sent, by node number. */
static void spread_out(const struct spread_run *r, struct spread_front *senders)
{
    if (senders->sent_full) return;
    if (senders->sent_soiled) memset(senders->sent, 0, r->graph->nodes * sizeof *senders->sent);
    uint32_t count = senders->count;
    for (uint32_t i = 0; i < count; i++)
        senders->sent[senders->nodes[i]] = senders->gains[0][i];
    senders->sent_soiled = true;
}

uint32_t spread_linear_start(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    struct spread_front *senders = spread_senders(s), *receivers = spread_receivers(s);
    bool pull = s->hop == SPREAD_HOP_CHOSEN ? many_leave(r, senders) : s->hop == SPREAD_HOP_PULL;
    s->step = s->depth == 0 ? SPREAD_STEP_SEEDS : pull ? SPREAD_STEP_PULL : SPREAD_STEP_PUSH;
    receivers->sent_full = s->step == SPREAD_STEP_PULL;
    if (s->step != SPREAD_STEP_PULL) return 1;
    spread_out(r, senders);
    receivers->sent_soiled = true;
    if (s->targets_are_nodes) memset(s->targets, 0, s->targets_max * sizeof *s->targets);
    s->targets_are_nodes = false;
    s->targets_max = r->graph->nodes;
    if (!s->pull_parts) cut_parts(r, s);
    return s->pull_parts;
}
