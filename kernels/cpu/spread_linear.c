/* spread_linear: the hops of mode linear. If few edges leave the active nodes, activation is
 * pushed along them; otherwise every node pulls over its in-list (spread_dense.c). Both give the
 * same sums. */
#include "kernels/cpu/spread_inside.h"

enum {
    /* Pulling all edges takes as long as pushing along one in so many: measured on 400,000 edges
     * (one in three), 8 and 10 million (one in five), one thread. Several threads speed up a pull,
     * but not a push. */
    ALONE_SHARE = 5,
    PULL_SHARE = 12,
    MANY_SHARE = 4 /* if one in so many nodes is active, pull, however few edges leave them */
};

/* ---------------------------------------------------------------- what a hop brings a node */

/* Notes that a node is active after a hop at this depth. */
static inline void touch(struct spread_record *record, float activation, uint32_t depth,
                         bool last_hop)
{
    record->visits++;
    record->reserved[0] = (uint8_t)depth;
    record->activation = last_hop ? activation : spread_accumulated(record->activation, activation);
}

/* Begins the record of a node that was not touched before. */
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

/* Runs hop 0: the seeds. */
void spread_linear_seeds(struct spread_run *r)
{
    struct spread_batch b;
    spread_batch_open(&b);
    const struct spread_question *q = r->question;
    for (uint64_t i = 0; i < q->seed_count; i++) {
        struct spread_seed seed = q->seeds[i];
        spread_give_way_at(r, i);
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

/* Keeps the source of the best product; of equal ones, the lowest id. */
static void offer_source(const struct spread_graph *g, struct spread_place *place, uint32_t source,
                         double product)
{
    if (product > place->best ||
        (product == place->best && g->ids[source] < g->ids[place->source - 1])) {
        place->best = product;
        place->source = source + 1;
    }
}

/* Pushes along some edges of a node; count: how many targets there are so far. Returns how many
 * after it. */
static uint32_t push_edges(const struct spread_run *r, const struct spread_edge *edges,
                           uint32_t edge_count, struct spread_seed source, uint32_t count)
{
    const struct spread_graph *g = r->graph;
    struct spread_state *s = spread_state_of(r);
    for (uint32_t e = 0; e < edge_count; e++) {
        uint32_t target = edges[e].node;
        if (!spread_is_allowed(r->question, target)) continue;
        struct spread_place *place = &s->places[target];
        double product = (double)source.activation * (double)edges[e].weight;
        if (!place->source) {
            place->source = source.node + 1;
            place->best = product;
            s->targets[count++] = target;
        } else if (r->question->paths) {
            offer_source(g, place, source.node, product);
        }
        spread_add(&place->sum, g->grid, source.activation, edges[e].weight);
    }
    return count;
}

/* Pushes along all edges of the senders, in pieces. Returns how many targets there are. */
static uint32_t push_all(const struct spread_run *r)
{
    const struct spread_front *senders = spread_senders(spread_state_of(r));
    uint32_t sending = senders->count, count = 0;
    uint64_t since = 0;
    for (uint32_t i = 0; i < sending; i++) {
        struct spread_seed source = {senders->nodes[i], senders->gains[0][i]};
        struct spread_list list = *spread_out_list(r->graph, source.node);
        const struct spread_edge *edges = r->graph->out_edges + list.first;
        for (uint32_t n; list.count; edges += n, list.count -= n) {
            n = list.count < SPREAD_WAY ? list.count : SPREAD_WAY;
            count = push_edges(r, edges, n, source, count);
            spread_pace(r, &since, n);
        }
        spread_pace(r, &since, 1);
    }
    return count;
}

/* Makes a node active that was pushed to and reaches the threshold. */
static void receive(struct spread_run *r, struct spread_batch *b, uint32_t node, float activation)
{
    struct spread_state *s = spread_state_of(r);
    const struct spread_place *place = &s->places[node];
    uint32_t parent = r->question->paths ? place->source - 1 : SPREAD_NO_NODE;
    if (s->dense)
        spread_dense_touch(r, node, activation, parent);
    else
        touch(place->slot ? &s->records[place->slot - 1] : begin_record(b, node, parent, s->depth),
              activation, s->depth, r->question->last_hop);
    b->touched = true;
    b->nodes[b->active] = node;
    b->gains[0][b->active] = spread_sent(activation, spread_factor(r->graph, node));
    b->active += b->gains[0][b->active] > 0.0f;
}

void spread_linear_push(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    uint32_t count = push_all(r);
    if (s->dense && r->question->last_hop)
        spread_clear(r, s->activations, r->graph->nodes * sizeof *s->activations);
    struct spread_batch b;
    spread_batch_open(&b);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = s->targets[i];
        struct spread_place *place = &s->places[node];
        float activation = spread_received(place->sum, r->question->decay[s->depth]);
        if (spread_kept(activation, r->question->thresholds[0])) receive(r, &b, node, activation);
        place->sum = (struct spread_sum){0, 0};
        place->best = 0;
        place->source = 0;
        if (i % SPREAD_CHUNK == SPREAD_CHUNK - 1) spread_batch_flush(r, &b, 1);
        spread_give_way_at(r, i + 1);
    }
    spread_batch_flush(r, &b, 1);
    if (count > s->targets_max) s->targets_max = count;
}

/* ---------------------------------------------------------------- which of both */

/* Lists the nodes that send, after a pull, which does not list them. */
static void list_senders(const struct spread_run *r, struct spread_front *senders)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < r->graph->nodes; n++) {
        spread_give_way_at(r, n);
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
    for (uint32_t i = 0; i < count && leave <= most; i++) {
        spread_give_way_at(r, i + 1);
        leave += spread_out_list(r->graph, senders->nodes[i])->count;
    }
    return leave > most;
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
    struct spread_front *receivers = spread_receivers(s);
    receivers->sent_full = pulls(r, s);
    s->step = s->depth == 0          ? SPREAD_STEP_SEEDS
              : receivers->sent_full ? SPREAD_STEP_PULL
                                     : SPREAD_STEP_PUSH;
    if (receivers->sent_full && !s->dense) spread_dense_open(r);
    return receivers->sent_full ? spread_dense_start(r) : 1;
}
