/* spread_run: the steps of a spread: which one is next, when the spread ends, and its result. */
#include "kernels/cpu/spread_inside.h"

#include <string.h>

/* ---------------------------------------------------------------- the workspace */

enum { ALIGNMENT = 64 };

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void *take(char *memory, uint64_t *used, uint64_t bytes)
{
    void *at = memory ? memory + *used : NULL;
    *used += aligned(bytes);
    return at;
}

/* Lays out s's arrays behind it; memory NULL: only computes the size. Returns the bytes of all. */
static uint64_t lay_out(struct spread_state *s, char *memory, uint64_t nodes)
{
    uint64_t used = aligned(sizeof *s);
    s->starts = take(memory, &used, (SPREAD_PARTS_MAX + 1) * sizeof *s->starts);
    s->start_edges = take(memory, &used, (SPREAD_PARTS_MAX + 1) * sizeof *s->start_edges);
    s->scratch = take(memory, &used, SPREAD_SCRATCH * sizeof *s->scratch);
    s->places = take(memory, &used, nodes * sizeof *s->places);
    s->records = take(memory, &used, nodes * sizeof *s->records);
    s->targets = take(memory, &used, nodes * sizeof *s->targets);
    for (uint32_t f = 0; f < 2; f++) {
        struct spread_front *front = &s->fronts[f];
        front->nodes = take(memory, &used, nodes * sizeof *front->nodes);
        for (uint32_t i = 0; i < SPREAD_GAINS; i++)
            front->gains[i] = take(memory, &used, nodes * sizeof *front->gains[i]);
        front->sent = front->gains[1];
    }
    s->activations = s->fronts[0].gains[2];
    s->parents = (uint32_t *)s->fronts[1].gains[2];
    s->visits = take(memory, &used, nodes * sizeof *s->visits);
    s->depths = take(memory, &used, nodes * sizeof *s->depths);
    s->similar = s->depths;
    s->pulled = take(memory, &used, (nodes / SPREAD_WINDOW + 1) * sizeof *s->pulled);
    return used;
}

uint64_t spread_workspace_bytes(uint32_t nodes)
{
    struct spread_state s;
    return lay_out(&s, NULL, nodes);
}

/* ---------------------------------------------------------------- what parts gather */

static void flush_records(struct spread_run *r, struct spread_batch *b)
{
    struct spread_state *s = spread_state_of(r);
    uint32_t first = spread_reserve(&s->record_count, b->fresh_count, r->alone);
    for (uint32_t i = 0; i < b->fresh_count; i++) {
        s->records[first + i] = b->fresh[i];
        s->places[b->fresh[i].node].slot = first + i + 1;
    }
    b->fresh_count = 0;
}

static void flush_senders(struct spread_run *r, struct spread_batch *b, uint32_t gains)
{
    struct spread_front *front = spread_receivers(spread_state_of(r));
    uint32_t first = spread_reserve(&front->count, b->active, r->alone);
    memcpy(front->nodes + first, b->nodes, b->active * sizeof *b->nodes);
    for (uint32_t i = 0; i < gains; i++)
        memcpy(front->gains[i] + first, b->gains[i], b->active * sizeof *b->gains[i]);
    b->active = 0;
}

void spread_batch_flush(struct spread_run *r, struct spread_batch *b, uint32_t gains)
{
    struct spread_state *s = spread_state_of(r);
    if (b->fresh_count) flush_records(r, b);
    if (b->active) flush_senders(r, b, gains);
    if (b->cycles) atomic_fetch_add_explicit(&s->cycles, b->cycles, memory_order_relaxed);
    if (b->touched) atomic_store_explicit(&s->active, true, memory_order_relaxed);
    b->cycles = 0;
    b->touched = false;
}

/* ---------------------------------------------------------------- between steps */

static bool time_is_up(const struct spread_run *r)
{
    uint64_t deadline = r->question->deadline_ns;
    return deadline && r->now_ns && r->now_ns(r->now_owner) >= deadline;
}

static bool is_cancelled(const struct spread_run *r)
{
    return r->cancelled && atomic_load_explicit(r->cancelled, memory_order_relaxed);
}

/* Keeps only the nodes that were active after the last hop; none if the run ended earlier. */
static void keep_last(struct spread_run *r, struct spread_state *s)
{
    uint32_t kept = 0, hops = r->question->hops, count = s->record_count;
    for (uint32_t i = 0; i < count; i++) {
        spread_give_way_at(r, i);
        struct spread_record record = s->records[i];
        struct spread_place *place = &s->places[record.node];
        place->slot = 0;
        if (record.reserved[0] != hops) continue;
        s->records[kept++] = record;
        place->slot = kept;
    }
    s->record_count = kept;
}

static void finish_linear(struct spread_run *r, struct spread_state *s)
{
    if (r->question->last_hop) keep_last(r, s);
    uint32_t count = s->record_count;
    for (uint32_t i = 0; i < count; i++) {
        spread_give_way_at(r, i);
        s->records[i].reserved[0] = 0;
        s->records[i].confidence = s->records[i].activation;
    }
}

static uint32_t finish(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    if (s->record_count > s->records_max) s->records_max = s->record_count;
    if (s->dense)
        spread_dense_finish(r);
    else if (r->question->mode == SPREAD_LINEAR)
        finish_linear(r, s);
    s->step = SPREAD_STEP_ENDED;
    r->records = s->records;
    r->record_count = s->record_count;
    r->cycles = s->cycles;
    return 0;
}

/* Drops the nodes first touched in this hop that exceed touched_max. */
static bool trim(struct spread_run *r, struct spread_state *s)
{
    uint64_t most = r->question->touched_max;
    uint32_t count = s->record_count, before = s->records_before;
    if (s->dense) return s->touched > most; /* they are dropped when the records are made */
    if (count <= most) return false;
    uint32_t keep = (uint32_t)(most - before);
    spread_keep_lowest(r, s->records + before, count - before, keep);
    for (uint32_t i = before + keep; i < count; i++) {
        spread_give_way_at(r, i);
        s->places[s->records[i].node].slot = 0;
    }
    s->records_max = count;
    s->record_count = before + keep;
    return true;
}

/* Ends the hop. True: the spread ends with it. */
static bool close_hop(struct spread_run *r, struct spread_state *s)
{
    if (s->active) r->hops_done = s->depth;
    s->active = false;
    r->truncated = trim(r, s);
    return r->truncated || s->depth == r->question->hops || spread_receivers(s)->count == 0;
}

static uint32_t start_hop(struct spread_run *r, struct spread_state *s)
{
    struct spread_front *receivers = spread_receivers(s);
    if (!receivers->sent_full && receivers->count > receivers->count_max)
        receivers->count_max = receivers->count;
    receivers->count = 0;
    s->records_before = s->record_count;
    s->touched_before = s->touched;
    if (r->question->mode == SPREAD_LINEAR) return spread_linear_start(r);
    return spread_engram_start(r);
}

void spread_run_begin(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    lay_out(s, r->workspace.memory, r->workspace.nodes);
    r->records = NULL;
    r->record_count = r->cycles = 0;
    r->hops_done = 0;
    r->truncated = r->no_memory = r->outgrown = false;
    r->edges_followed = 0;
}

void spread_run_force(struct spread_run *r, enum spread_hop hop)
{
    spread_state_of(r)->hop = hop;
}

/* Ends the run: there is no further hop. */
static uint32_t conclude(struct spread_run *r, struct spread_state *s)
{
    if (!s->dense) return finish(r);
    s->step = SPREAD_STEP_RECORDS;
    return s->parts = spread_dense_records(r);
}

/* Returns how many edges this sender of the hop counts for. */
static uint64_t edges_counted(const struct spread_run *r, uint32_t node)
{
    uint32_t count = spread_out_list(r->graph, node)->count;
    bool similar = spread_similar_level(r) && count >= SPREAD_SIMILAR_EDGES;
    return similar ? (uint64_t)count * spread_similar_cost(r->question->embeddings) : count;
}

/* True if the hop would follow more edges than the run may. After a pull, senders are not listed,
 * and all edges count. */
static bool outgrows(struct spread_run *r, struct spread_state *s)
{
    const struct spread_front *senders = spread_senders(s);
    if (!r->edges_max || !s->depth) return false;
    uint64_t edges = r->edges_followed;
    uint32_t listed = senders->sent_full ? 0 : senders->count;
    if (senders->sent_full) edges += r->graph->edges;
    for (uint32_t i = 0; i < listed && edges <= r->edges_max; i++)
        edges += edges_counted(r, senders->nodes[i]);
    r->edges_followed = edges;
    r->outgrown = edges > r->edges_max || listed > r->edges_max;
    return r->outgrown;
}

/* Returns the parts of the next step; 0: there was no memory for it. */
static uint32_t next_step(struct spread_run *r, struct spread_state *s)
{
    if (s->step == SPREAD_STEP_COUNT || s->step == SPREAD_STEP_SCATTER)
        return spread_engram_onward(r);
    if (s->step != SPREAD_STEP_NONE) s->depth++;
    return outgrows(r, s) ? 0 : start_hop(r, s);
}

/* Results of a level become final in its last step only, so that a level can be abandoned
 * before. */
uint32_t spread_run_next(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    if (s->step >= SPREAD_STEP_CLOSED) return spread_clear_next(r);
    if (s->step == SPREAD_STEP_ENDED) return 0;
    if (s->step == SPREAD_STEP_RECORDS) return finish(r);
    bool first = s->step == SPREAD_STEP_NONE;
    bool within = s->step == SPREAD_STEP_COUNT || s->step == SPREAD_STEP_SCATTER;
    if (is_cancelled(r)) return finish(r);
    if (!first && !within && close_hop(r, s)) return conclude(r, s);
    if (!first && time_is_up(r)) {
        r->truncated = true;
        return conclude(r, s);
    }
    s->parts = next_step(r, s);
    if (r->outgrown) return finish(r);
    if (s->parts == 0) {
        r->no_memory = true;
        return finish(r);
    }
    return s->parts;
}

void spread_run_part(struct spread_run *r, uint32_t part)
{
    switch (spread_state_of(r)->step) {
    case SPREAD_STEP_SEEDS: spread_linear_seeds(r); break;
    case SPREAD_STEP_PUSH: spread_linear_push(r); break;
    case SPREAD_STEP_PULL: spread_dense_pull(r, part); break;
    case SPREAD_STEP_RECORDS: spread_dense_record(r, part); break;
    case SPREAD_STEP_COUNT:
    case SPREAD_STEP_SCATTER:
    case SPREAD_STEP_FOLD:
    case SPREAD_STEP_LEVEL: spread_engram_part(r, part); break;
    case SPREAD_STEP_CLEAR_PLACES:
    case SPREAD_STEP_CLEAR: spread_clear_part(r, part); break;
    case SPREAD_STEP_NONE:
    case SPREAD_STEP_CLOSED:
    case SPREAD_STEP_ENDED: break;
    }
}
