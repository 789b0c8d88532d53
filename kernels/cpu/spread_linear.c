/* spread_linear: the hops of mode linear. Where few edges leave the active nodes they are pushed along
 * those, else every node pulls over its in-list; both give the same sums. */
#include "kernels/cpu/spread_inside.h"

#include <string.h>

enum {
    /* Pulling all edges takes as long as pushing along this part of them: measured on 400,000 edges
     * (a third), 8 and 10 million (a fifth), one thread. Several share a pull, but not a push. */
    ALONE_SHARE = 5,
    PULL_SHARE = 12,
    MANY_SHARE = 4, /* this part of the nodes is enough to pull, whatever leaves them */
    NODE_EDGES = 2  /* a node costs as much as so many edges of its list */
};

/* ---------------------------------------------------------------- what a hop brings a node */

/* A node is active after a hop of that depth. */
static inline void touch(struct spread_record *record, float activation, uint32_t depth,
                         bool last_hop)
{
    record->visits++;
    record->reserved[0] = (uint8_t)depth;
    record->activation = last_hop ? activation : spread_accumulated(record->activation, activation);
}

/* The record of a node that was not touched before. */
static struct spread_record *begin_record(struct spread_batch *b, uint32_t node, uint32_t parent,
                                          uint32_t depth)
{
    struct spread_record *record = &b->fresh[b->fresh_count++];
    *record = (struct spread_record){.node = node,
                                     .parent = parent,
                                     .depth = (uint8_t)depth,
                                     .tier = (uint8_t)spread_tier_of(depth)};
    return record;
}

/* Hop 0. */
void spread_linear_seeds(struct spread_run *r)
{
    struct spread_batch b;
    spread_batch_open(&b);
    const struct spread_question *q = r->question;
    for (uint64_t i = 0; i < q->seed_count; i++) {
        struct spread_seed seed = q->seeds[i];
        b.fresh[b.fresh_count++] = (struct spread_record){.node = seed.node,
                                                          .parent = SPREAD_NO_NODE,
                                                          .activation = seed.activation,
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
    struct spread_batch b;
    spread_batch_open(&b);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = s->targets[i];
        struct spread_place *place = &s->places[node];
        float activation = spread_received(place->sum, r->question->decay[s->depth]);
        if (spread_kept(activation, r->question->thresholds[0])) {
            uint32_t parent = r->question->paths ? place->source - 1 : SPREAD_NO_NODE;
            touch(place->slot ? &s->records[place->slot - 1]
                              : begin_record(&b, node, parent, s->depth),
                  activation, s->depth, r->question->last_hop);
            b.touched = true;
            b.nodes[b.active] = node;
            b.gains[0][b.active] = spread_sent(activation, spread_factor(r->graph, node));
            b.active += b.gains[0][b.active] > 0.0f;
        }
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

/* The slots of nodes, from places far apart; known (0: not yet): what was found before. What will be
 * written for the nodes is on its way then. */
static void find_slots(struct spread_state *s, const uint32_t *nodes, uint32_t count,
                       uint32_t *known, uint32_t *slots)
{
    enum { AHEAD = 16 };
    const float *sends = spread_receivers(s)->sent;
    for (uint32_t i = 0; i < count; i++) {
        __builtin_prefetch(&sends[nodes[i]], 1);
        uint32_t later = i + AHEAD < count ? i + AHEAD : i;
        if (!known || !known[later]) __builtin_prefetch(&s->places[nodes[later]].slot);
        slots[i] = known && known[i] ? known[i] : s->places[nodes[i]].slot;
        if (known) known[i] = slots[i];
        if (slots[i]) __builtin_prefetch(&s->records[slots[i] - 1], 1);
    }
}

/* The hop's activations into records; what is sent goes to sends. How many nodes send. */
static uint32_t touch_all(const struct spread_run *r, struct spread_batch *b, const uint32_t *nodes,
                          const uint32_t *slots, const float *activations, uint32_t count)
{
    struct spread_state *s = spread_state_of(r);
    const struct spread_question *q = r->question;
    const float *factors = r->graph->factors, *sent = spread_senders(s)->sent;
    struct spread_record *records = s->records;
    float *sends = spread_receivers(s)->sent, threshold = q->thresholds[0];
    uint32_t active = 0, depth = s->depth;
    bool last_hop = q->last_hop, touched = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = nodes[i], slot = slots[i];
        float activation = activations[i];
        if (!spread_kept(activation, threshold)) {
            sends[node] = 0.0f;
            continue;
        }
        struct spread_record *record =
            slot ? &records[slot - 1]
                 : begin_record(b, node,
                                q->paths ? parent_of(r->graph, node, sent) : SPREAD_NO_NODE, depth);
        touch(record, activation, depth, last_hop);
        touched = true;
        if (factors) activation = spread_sent(activation, factors[node]);
        sends[node] = activation;
        active += activation > 0.0f;
    }
    b->touched |= touched;
    return active;
}

/* Nodes of graph->order; known: of what is known of their slots, by place in it, or NULL. */
static uint32_t pull_chunk(struct spread_run *r, struct spread_batch *b, const uint32_t *order,
                           uint32_t count, uint32_t *known)
{
    struct spread_state *s = spread_state_of(r);
    float decay = r->question->decay[s->depth], activations[SPREAD_CHUNK];
    struct spread_sum sums[SPREAD_CHUNK];
    uint32_t chosen[SPREAD_CHUNK], slots[SPREAD_CHUNK];
    if (r->question->allowed) {
        count = choose_allowed(r, order, count, spread_receivers(s)->sent, chosen);
        order = chosen;
        known = NULL;
    }
    r->kernels->pull(r->graph, order, count, spread_senders(s)->sent, sums);
    find_slots(s, order, count, known, slots);
    for (uint32_t i = 0; i < count; i++)
        activations[i] = spread_received(sums[i], decay);
    uint32_t active = touch_all(r, b, order, slots, activations, count);
    spread_batch_flush(r, b, 1);
    return active;
}

/* Which nodes send is seen from what they send; they are not listed. */
void spread_linear_pull(struct spread_run *r, uint32_t part)
{
    struct spread_state *s = spread_state_of(r);
    uint32_t active = 0;
    struct spread_batch b;
    spread_batch_open(&b);
    for (uint32_t i = s->starts[part], last = s->starts[part + 1]; i < last; i += SPREAD_CHUNK)
        active += pull_chunk(r, &b, r->graph->order + i,
                             last - i < SPREAD_CHUNK ? last - i : SPREAD_CHUNK, s->targets + i);
    spread_reserve(&spread_receivers(s)->count, active, r->alone);
}

/* ---------------------------------------------------------------- which of both */

/* After a pull the senders are not listed yet. */
static void list_senders(const struct spread_run *r, struct spread_front *senders)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < r->graph->nodes; n++) {
        if (senders->sent[n] == 0.0f) continue;
        senders->nodes[count] = n;
        senders->gains[0][count++] = senders->sent[n];
    }
    if (count > senders->count_max) senders->count_max = count;
}

static bool many_leave(const struct spread_run *r, const struct spread_front *senders)
{
    uint64_t most = r->graph->edges / (r->alone ? ALONE_SHARE : PULL_SHARE), leave = 0;
    uint32_t count = senders->count;
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

static bool pulls(const struct spread_run *r, struct spread_state *s)
{
    struct spread_front *senders = spread_senders(s);
    if (s->depth == 0) return false;
    if (s->hop == SPREAD_HOP_PULL) return true;
    if (s->hop == SPREAD_HOP_CHOSEN && senders->count > r->graph->nodes / MANY_SHARE) return true;
    if (senders->sent_full) list_senders(r, senders);
    return s->hop == SPREAD_HOP_CHOSEN && many_leave(r, senders);
}

uint32_t spread_linear_start(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    struct spread_front *senders = spread_senders(s), *receivers = spread_receivers(s);
    receivers->sent_full = pulls(r, s);
    s->step = s->depth == 0          ? SPREAD_STEP_SEEDS
              : receivers->sent_full ? SPREAD_STEP_PULL
                                     : SPREAD_STEP_PUSH;
    if (!receivers->sent_full) return 1;
    spread_out(r, senders);
    receivers->sent_soiled = true;
    if (s->targets_are_nodes) memset(s->targets, 0, s->targets_max * sizeof *s->targets);
    s->targets_are_nodes = false;
    s->targets_max = r->graph->nodes;
    if (!s->pull_parts) cut_parts(r, s);
    return s->pull_parts;
}
