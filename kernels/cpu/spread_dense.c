/* spread_dense: the hops of mode linear in which every node pulls over its in-list. The state of
 * nodes is then kept in arrays by node number, so that it is read and written sequentially; the
 * records are made from it at the end. */
#include "kernels/cpu/spread_inside.h"

enum { NODE_EDGES = 2 /* a node costs as much as this many edges of its list */ };

/* ---------------------------------------------------------------- from records, and to them */

void spread_dense_open(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    bool paths = r->question->paths;
    uint32_t count = s->record_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct spread_record *record = &s->records[i];
        spread_give_way_at(r, i);
        s->activations[record->node] = record->activation;
        s->visits[record->node] = (uint8_t)record->visits;
        s->depths[record->node] = record->depth;
        if (paths) s->parents[record->node] = record->parent;
        s->places[record->node].slot = 0;
    }
    if (count > s->records_max) s->records_max = count;
    s->record_count = 0;
    s->touched = s->touched_before = count;
    s->dense = true;
}

/* last_hop: true if the node belongs to the result should this hop be the last. */
static bool is_answer(const struct spread_run *r, const struct spread_state *s, uint32_t node)
{
    if (!r->question->last_hop) return s->visits[node] > 0;
    return s->depth == r->question->hops && s->activations[node] > 0.0f;
}

static void record_window(struct spread_run *r, uint32_t first, uint32_t last)
{
    struct spread_state *s = spread_state_of(r);
    bool paths = r->question->paths;
    uint32_t count = 0;
    for (uint32_t n = first; n < last; n++)
        count += is_answer(r, s, n);
    struct spread_record *record = s->records + spread_reserve(&s->record_count, count, r->alone);
    for (uint32_t n = first; n < last; n++) {
        if (!is_answer(r, s, n)) continue;
        *record++ = (struct spread_record){.node = n,
                                           .parent = paths ? s->parents[n] : SPREAD_NO_NODE,
                                           .activation = s->activations[n],
                                           .confidence = s->activations[n],
                                           .visits = s->visits[n],
                                           .depth = s->depths[n],
                                           .tier = (uint8_t)spread_tier_of(s->depths[n])};
    }
}

static uint32_t windows_of(const struct spread_run *r)
{
    return (r->graph->nodes + SPREAD_WINDOW - 1) / SPREAD_WINDOW;
}

static uint32_t window_end(const struct spread_run *r, uint32_t first)
{
    return r->graph->nodes - first < SPREAD_WINDOW ? r->graph->nodes : first + SPREAD_WINDOW;
}

uint32_t spread_dense_records(struct spread_run *r)
{
    enum { PART_WINDOWS = 4 };
    uint32_t parts = r->alone ? 1 : (windows_of(r) + PART_WINDOWS - 1) / PART_WINDOWS;
    return parts < SPREAD_PARTS_MAX ? parts : SPREAD_PARTS_MAX;
}

void spread_dense_record(struct spread_run *r, uint32_t part)
{
    struct spread_range range = spread_share(windows_of(r), part, spread_state_of(r)->parts);
    for (uint32_t w = range.first; w < range.last; w++) {
        record_window(r, w * SPREAD_WINDOW, window_end(r, w * SPREAD_WINDOW));
        spread_give_way(r);
    }
}

/* Moves the nodes first touched in the last hop behind the others; returns how many others there
 * are. */
static uint32_t part_fresh(const struct spread_run *r, struct spread_state *s)
{
    uint32_t before = 0, count = s->record_count;
    for (uint32_t i = 0; i < count; i++) {
        spread_give_way_at(r, i);
        struct spread_record record = s->records[i];
        if (record.depth == s->depth) continue;
        s->records[i] = s->records[before];
        s->records[before++] = record;
    }
    return before;
}

void spread_dense_finish(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    uint64_t most = r->question->touched_max;
    uint32_t count = s->record_count;
    if (count > s->records_max) s->records_max = count;
    if (s->touched <= most || s->step != SPREAD_STEP_RECORDS) return;
    uint32_t before = part_fresh(r, s), keep = (uint32_t)(most - s->touched_before);
    if (count - before <= keep) return;
    spread_keep_lowest(r, s->records + before, count - before, keep);
    s->record_count = before + keep;
}

void spread_dense_soil(const struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    uint64_t nodes = r->graph->nodes;
    spread_soil(s, s->activations, nodes * sizeof *s->activations);
    spread_soil(s, s->visits, nodes * sizeof *s->visits);
    spread_soil(s, s->depths, nodes * sizeof *s->depths);
    if (r->question->paths) spread_soil(s, s->parents, nodes * sizeof *s->parents);
    spread_soil(s, s->pulled, windows_of(r) * sizeof *s->pulled);
}

/* ---------------------------------------------------------------- a hop */

static uint32_t parent_of(const struct spread_run *r, uint32_t node, const float *sent,
                          uint64_t *since)
{
    const struct spread_graph *g = r->graph;
    struct spread_list list = *spread_in_list(g, node);
    const struct spread_edge *edges = g->in_edges + list.first;
    uint32_t parent = SPREAD_NO_NODE;
    double best = 0;
    for (uint32_t e = 0; e < list.count; e++) {
        uint32_t source = edges[e].node;
        double product = (double)sent[source] * (double)edges[e].weight;
        spread_pull_pace(r, since, 1);
        if (sent[source] == 0.0f) continue;
        if (parent == SPREAD_NO_NODE || product > best ||
            (product == best && g->ids[source] < g->ids[parent])) {
            parent = source;
            best = product;
        }
    }
    return parent;
}

/* Sets the parents of fresh nodes: those visited once, at this depth. */
static void find_parents(struct spread_run *r, uint32_t first, uint32_t last)
{
    struct spread_state *s = spread_state_of(r);
    const float *sent = spread_senders(s)->sent;
    uint64_t since = 0;
    for (uint32_t n = first; n < last; n++)
        if (s->visits[n] == 1 && s->depths[n] == s->depth)
            s->parents[n] = parent_of(r, n, sent, &since);
}

/* Updates the state of a window whose nodes have all received their sums. */
static void settle_window(struct spread_run *r, uint32_t first)
{
    struct spread_state *s = spread_state_of(r);
    const struct spread_question *q = r->question;
    uint32_t last = window_end(r, first);
    struct spread_settling settling = {.sends = spread_receivers(s)->sent,
                                       .activations = s->activations,
                                       .visits = s->visits,
                                       .depths = s->depths,
                                       .factors = r->graph->factors,
                                       .threshold = q->thresholds[0],
                                       .depth = s->depth,
                                       .last_hop = q->last_hop};
    struct spread_settled all = r->kernels->settle(&settling, first, last);
    if (q->paths && all.fresh) find_parents(r, first, last);
    if (all.active) atomic_store_explicit(&s->active, true, memory_order_relaxed);
    spread_reserve(&s->touched, all.fresh, r->alone);
    spread_reserve(&spread_receivers(s)->count, all.sending, r->alone);
}

/* As a pull, but nodes of graph->order that may not be touched receive nothing. */
static void pull_allowed(struct spread_run *r, const uint32_t *order, uint32_t count)
{
    struct spread_state *s = spread_state_of(r);
    float *received = spread_receivers(s)->sent;
    uint32_t chosen[SPREAD_CHUNK], kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        chosen[kept] = order[i];
        if (spread_is_allowed(r->question, order[i]))
            kept++;
        else
            received[order[i]] = 0.0f;
        if (kept < SPREAD_CHUNK && i + 1 < count) continue;
        r->kernels->pull(r, chosen, kept, spread_senders(s)->sent, r->question->decay[s->depth],
                         received);
        kept = 0;
    }
}

/* Pulls for the places first .. last - 1 of graph->order, all in one window. */
static void pull_places(struct spread_run *r, uint32_t first, uint32_t last)
{
    struct spread_state *s = spread_state_of(r);
    const uint32_t *order = r->graph->order + first;
    uint32_t window = first / SPREAD_WINDOW, start = window * SPREAD_WINDOW;
    uint32_t nodes = window_end(r, start) - start, count = last - first;
    if (r->question->allowed)
        pull_allowed(r, order, count);
    else
        r->kernels->pull(r, order, count, spread_senders(s)->sent, r->question->decay[s->depth],
                         spread_receivers(s)->sent);
    if (count < nodes) {
        _Atomic(uint32_t) *pulled = &s->pulled[window];
        if (atomic_fetch_add_explicit(pulled, count, memory_order_acq_rel) + count < nodes) return;
        atomic_store_explicit(pulled, 0, memory_order_relaxed);
    }
    settle_window(r, start);
}

void spread_dense_pull(struct spread_run *r, uint32_t part)
{
    const struct spread_state *s = spread_state_of(r);
    uint32_t last = s->starts[part + 1];
    for (uint32_t first = s->starts[part]; first < last;) {
        uint32_t end = window_end(r, first / SPREAD_WINDOW * SPREAD_WINDOW);
        if (end > last) end = last;
        pull_places(r, first, end);
        spread_give_way(r);
        first = end;
    }
}

/* ---------------------------------------------------------------- between hops */

/* Cuts graph->order into parts of similar work. Degrees fall roughly within a window, so that a
 * sample of its nodes predicts the work of the rest. */
static void cut_parts(const struct spread_run *r, struct spread_state *s)
{
    enum { STEP = 16 };
    const struct spread_graph *g = r->graph;
    uint64_t work = g->edges + (uint64_t)g->nodes * NODE_EDGES, done = 0;
    uint64_t most = r->alone ? SPREAD_ALONE_EDGES : SPREAD_PART_EDGES;
    if (most < work / (SPREAD_PARTS_MAX / 2)) most = work / (SPREAD_PARTS_MAX / 2);
    for (uint32_t i = 0; i < g->nodes; i += STEP) {
        spread_give_way_at(r, i / STEP);
        uint32_t nodes = g->nodes - i < STEP ? g->nodes - i : STEP;
        done += ((uint64_t)spread_in_list(g, g->order[i])->count + NODE_EDGES) * nodes;
        if (done < most || s->pull_parts == SPREAD_PARTS_MAX - 1) continue;
        s->starts[++s->pull_parts] = i + nodes;
        done = 0;
    }
    if (s->starts[s->pull_parts] < g->nodes) s->starts[++s->pull_parts] = g->nodes;
}

/* Writes what each node sends into the array by node number. */
static void spread_out(const struct spread_run *r, struct spread_front *senders)
{
    if (senders->sent_full) return;
    if (senders->sent_soiled)
        spread_clear(r, senders->sent, r->graph->nodes * sizeof *senders->sent);
    uint32_t count = senders->count;
    for (uint32_t i = 0; i < count; i++) {
        spread_give_way_at(r, i);
        senders->sent[senders->nodes[i]] = senders->gains[0][i];
    }
    senders->sent_soiled = true;
}

uint32_t spread_dense_start(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    spread_out(r, spread_senders(s));
    spread_receivers(s)->sent_soiled = true;
    if (!s->pull_parts) cut_parts(r, s);
    return s->pull_parts;
}

void spread_dense_touch(struct spread_run *r, uint32_t node, float activation, uint32_t parent)
{
    struct spread_state *s = spread_state_of(r);
    float before = s->activations[node];
    s->activations[node] =
        r->question->last_hop ? activation : spread_accumulated(before, activation);
    if (s->visits[node]++) return;
    s->depths[node] = (uint8_t)s->depth;
    if (r->question->paths) s->parents[node] = parent;
    spread_reserve(&s->touched, 1, true);
}
