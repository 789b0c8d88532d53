#include "daemon/gpu/sim_spread.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"

enum {
    SCRATCH_SPOILT = 65536,  /* most bytes of scratch that are overwritten at each end */
    CONTRIBUTION_BYTES = 32, /* what the engine takes for a contribution, about */
    TAKEN_MAX = 4096,        /* most pieces of memory taken in one run */
};

static const char *const call = "spread";

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- scratch: about what the real one asks for ---- */

uint64_t sim_spread_scratch_min(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                uint32_t set_count)
{
    uint64_t contributions = mode == SPREAD_ENGRAM ? edges + nodes : 0;
    return (nodes * UINT64_C(8) + contributions * CONTRIBUTION_BYTES + 65536) / 256 * 256;
}

uint64_t sim_spread_scratch_best(enum spread_mode mode, uint32_t nodes, uint64_t edges,
                                 uint32_t set_count)
{
    return sim_spread_scratch_min(mode, nodes, edges, set_count) * smaller(set_count, 8) * 2;
}

/* ---- what it may touch ---- */

static void check(const struct sim_memory *m, const void *address, uint64_t count, uint64_t size,
                  uint64_t alignment)
{
    sim_device_check_array(m, call, address, count, size, alignment);
}

static void check_graph(const struct spread_graph *g, const struct sim_memory *m)
{
    if (g->nodes == 0) sim_misuse(call, "a graph without nodes");
    check(m, g->out, g->nodes, sizeof *g->out, 16);
    check(m, g->in, g->nodes, sizeof *g->in, 16);
    check(m, g->ids, g->nodes, sizeof *g->ids, 8);
    check(m, g->order, g->nodes, sizeof *g->order, 4);
    if (g->kinds) check(m, g->kinds, g->nodes, 1, 1);
    if (g->factors) check(m, g->factors, g->nodes, sizeof *g->factors, 4);
}

static void check_embeddings(const struct cuda_embeddings *e, uint32_t nodes,
                             const struct sim_memory *m)
{
    if (!e->rows) return;
    if (e->count < 1 || e->dimension < 1 || e->dimension > VECTOR_DIMENSION_MAX)
        sim_misuse(call, "embeddings: %llu rows of %u", (unsigned long long)e->count, e->dimension);
    check(m, e->rows, e->count, vector_stride(e->dimension) * sizeof *e->rows, 64);
    check(m, e->norms, e->count, sizeof *e->norms, 4);
    check(m, e->ids, e->count, sizeof *e->ids, 8);
    check(m, e->tables, cuda_embeddings_bytes(e->count, nodes), 1, 256);
}

void sim_spread_check(const struct cuda_spread *s, const struct sim_memory *m)
{
    const struct spread_question *q = &s->question;
    uint64_t sets = s->set_count;
    check_graph(&s->graph, m);
    check_embeddings(&s->embeddings, s->graph.nodes, m);
    if (s->embeddings.rows && q->mode != SPREAD_ENGRAM)
        sim_misuse(call, "embeddings in mode linear");
    if (q->mode != SPREAD_LINEAR && q->mode != SPREAD_ENGRAM)
        sim_misuse(call, "mode %d", (int)q->mode);
    if (q->hops < 1 || q->hops > SPREAD_HOPS_MAX) sim_misuse(call, "%u hops", q->hops);
    if (q->touched_max < 1 || s->record_room < smaller(s->graph.nodes, q->touched_max))
        sim_misuse(call, "room for %llu records", (unsigned long long)s->record_room);
    uint64_t least = sim_spread_scratch_min(q->mode, s->graph.nodes, s->graph.edges, s->set_count);
    if (s->scratch_bytes < least)
        sim_misuse(call, "%llu bytes of scratch, %llu are needed",
                   (unsigned long long)s->scratch_bytes, (unsigned long long)least);
    check(m, s->scratch, s->scratch_bytes, 1, 256);
    check(m, q->decay, q->hops + UINT64_C(1), sizeof *q->decay, 4);
    check(m, q->seeds, q->seed_count, sizeof *q->seeds, 4);
    if (q->allowed) check(m, q->allowed, (s->graph.nodes + UINT64_C(63)) / 64, 8, 8);
    check(m, s->set_offsets, s->set_ends ? sets : sets + 1, sizeof *s->set_offsets, 8);
    if (s->set_ends) check(m, s->set_ends, sets, sizeof *s->set_ends, 8);
    if (s->began_ns) check(m, s->began_ns, 1, sizeof *s->began_ns, 8);
    if (s->again && !s->pass_ns) sim_misuse(call, "the rest of sets that no call has left");
    check(m, s->out_records, s->record_room, sizeof *s->out_records, 4);
    check(m, s->out_sets, sets, sizeof *s->out_sets, 8);
}

/* Checks that every list is within device memory and leads to nodes. */
static void check_edges(const struct spread_graph *g, const struct spread_list *lists,
                        const struct spread_edge *edges, const struct sim_memory *m)
{
    uint64_t end = 0, total = 0;
    for (uint32_t n = 0; n < g->nodes; n++) {
        if (lists[n].count && lists[n].first + lists[n].count > end)
            end = lists[n].first + lists[n].count;
        total += lists[n].count;
    }
    if (total != g->edges)
        sim_misuse(call, "%llu edges, the lists have %llu", (unsigned long long)g->edges,
                   (unsigned long long)total);
    check(m, edges, end, sizeof *edges, 16);
    for (uint32_t n = 0; n < g->nodes; n++)
        for (uint32_t i = 0; i < lists[n].count; i++)
            if (edges[lists[n].first + i].node >= g->nodes)
                sim_misuse(call, "an edge to node %u of %u", edges[lists[n].first + i].node,
                           g->nodes);
}

static uint64_t end_of(const struct cuda_spread *s, uint32_t set)
{
    return s->set_ends ? s->set_ends[set] : s->set_offsets[set + 1];
}

static void check_contents(const struct cuda_spread *s, const struct sim_memory *m)
{
    const struct spread_graph *g = &s->graph;
    check_edges(g, g->out, g->out_edges, m);
    check_edges(g, g->in, g->in_edges, m);
    for (uint32_t i = 0; i < g->nodes; i++)
        if (g->order[i] >= g->nodes || g->order[i] / SPREAD_WINDOW != i / SPREAD_WINDOW)
            sim_misuse(call, "order has node %u in place %u", g->order[i], i);
    for (uint32_t i = 0; i < s->set_count; i++) {
        uint64_t first = s->set_offsets[i], end = end_of(s, i);
        if (first > end || end > s->question.seed_count)
            sim_misuse(call, "set %u has seeds %llu to %llu", i, (unsigned long long)first,
                       (unsigned long long)end);
        for (uint64_t at = first; at < end; at++)
            if (s->question.seeds[at].node >= g->nodes)
                sim_misuse(call, "seed %u of %u nodes", s->question.seeds[at].node, g->nodes);
    }
}

/* ---- doing it ---- */

static void spoil(void *scratch, uint64_t all)
{
    uint64_t bytes = smaller(all, SCRATCH_SPOILT);
    memset(scratch, 0xdb, bytes);
    memset((char *)scratch + all - bytes, 0xdb, bytes);
}

/* An index of ids in the tables, of which the device's kernels make the same use. */
static uint32_t *index_entry(const struct cuda_embeddings *e, uint64_t id)
{
    uint32_t bits = cuda_embeddings_bits(e->count), *entries = e->tables;
    uint64_t mask = (UINT64_C(1) << bits) - 1,
             at = id * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits);
    while (entries[at] && e->ids[entries[at] - 1] != id)
        at = (at + 1) & mask;
    return &entries[at];
}

static void make_index(const struct cuda_embeddings *e)
{
    memset(e->tables, 0, sizeof(uint32_t) << cuda_embeddings_bits(e->count));
    for (uint64_t row = 0; row < e->count; row++)
        *index_entry(e, e->ids[row]) = (uint32_t)row + 1;
}

static bool find_rows(void *owner, const uint64_t *ids, size_t count, const float **rows,
                      float *norms)
{
    const struct cuda_embeddings *e = owner;
    for (size_t i = 0; i < count; i++) {
        uint32_t row = *index_entry(e, ids[i]);
        if (!row) return false;
        rows[i] = e->rows + (row - 1) * vector_stride(e->dimension);
        norms[i] = e->norms[row - 1];
    }
    return true;
}

/* The memory that a run took, at most what its scratch would have held. */
struct taken {
    void *pieces[TAKEN_MAX];
    uint32_t count;
    uint64_t left;
};

static void *take(void *owner, uint64_t bytes)
{
    struct taken *t = owner;
    if (bytes > t->left || t->count == TAKEN_MAX) return NULL;
    void *piece = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!piece) return NULL;
    t->left -= bytes;
    return t->pieces[t->count++] = piece;
}

static bool make_room(struct sim_spread_room *room, uint32_t nodes)
{
    if (room->workspace.memory && room->workspace.nodes >= nodes) return true;
    sim_spread_room_finish(room);
    uint64_t bytes = (spread_workspace_bytes(nodes) + 63) / 64 * 64;
    void *memory = aligned_alloc(64, bytes);
    if (!memory) return false;
    memset(memory, 0, bytes);
    room->workspace = (struct spread_workspace){memory, nodes};
    return true;
}

void sim_spread_room_finish(struct sim_spread_room *room)
{
    free(room->workspace.memory);
    room->workspace = (struct spread_workspace){0};
}

/* Writes records where *given says, if there is room. */
static void give_records(const struct cuda_spread *s, struct cuda_spread_set *out,
                         const struct spread_run *run, uint64_t *given)
{
    if (run->no_memory) return;
    out->no_room = run->record_count > s->record_room - *given;
    if (out->no_room || run->record_count == 0) return;
    out->first_record = *given;
    out->record_count = run->record_count;
    *given += run->record_count;
    memcpy(s->out_records + out->first_record, run->records,
           run->record_count * sizeof *run->records);
}

static void run_set(const struct cuda_spread *s, uint32_t i, uint64_t deadline_ns,
                    const struct sim_spread_room *room, uint64_t *given)
{
    const struct clock *clock = room->clock ? room->clock : &clock_real;
    struct taken taken = {.left = s->scratch_bytes};
    struct spread_question q = s->question;
    const struct spread_embeddings embeddings = {.dimension = s->embeddings.dimension,
                                                 .kernels = &vectors_scalar,
                                                 .find = find_rows,
                                                 .owner = (void *)&s->embeddings};
    q.embeddings = s->embeddings.rows ? &embeddings : NULL;
    uint64_t first = s->set_offsets[i];
    q.seeds += first;
    q.seed_count = end_of(s, i) - first;
    q.deadline_ns = deadline_ns;
    struct spread_run run = {.graph = &s->graph,
                             .question = &q,
                             .kernels = &spread_scalar,
                             .workspace = room->workspace,
                             .memory = {take, &taken},
                             .now_ns = clock->now_ns,
                             .now_owner = clock->owner,
                             .alone = true};
    spread_run_begin(&run);
    spread_run_through(&run);
    struct cuda_spread_set *out = &s->out_sets[i];
    *out = (struct cuda_spread_set){.cycles = run.cycles,
                                    .hops_done = run.hops_done,
                                    .truncated = run.truncated,
                                    .no_memory = run.no_memory};
    give_records(s, out, &run, given);
    spread_run_end(&run);
    for (uint32_t p = 0; p < taken.count; p++)
        free(taken.pieces[p]);
}

/* Where the records end of the sets that earlier calls have run. */
static uint64_t given_before(const struct cuda_spread *s)
{
    uint64_t given = 0;
    for (uint32_t i = 0; s->again && i < s->set_count; i++) {
        const struct cuda_spread_set *set = &s->out_sets[i];
        uint64_t end = set->first_record + set->record_count;
        if (set->no_memory < CUDA_SPREAD_LEFT && end > given) given = end;
    }
    return given;
}

/* True if the call, which has run `sets`, may not begin another. */
static bool is_over(const struct cuda_spread *s, const struct sim_spread_room *room, uint32_t sets,
                    uint64_t call_ns)
{
    if (!s->pass_ns || !sets) return false;
    return (room->pass_sets && sets >= room->pass_sets) ||
           clock_read_ns(room->clock) - call_ns >= s->pass_ns;
}

void sim_spread_run(const struct cuda_spread *s, const struct sim_memory *m,
                    struct sim_spread_room *room)
{
    uint64_t call_ns = clock_read_ns(room->clock), began_ns = s->began_ns ? *s->began_ns : call_ns;
    uint64_t deadline_ns = s->time_ns ? began_ns + s->time_ns : 0;
    bool roomy = make_room(room, s->graph.nodes);
    check_contents(s, m);
    spoil(s->scratch, s->scratch_bytes);
    if (s->embeddings.rows && !s->again) make_index(&s->embeddings);
    uint64_t given = given_before(s);
    for (uint32_t i = 0, sets = 0; i < s->set_count; i++) {
        if (s->again && s->out_sets[i].no_memory < CUDA_SPREAD_LEFT) continue;
        if (!roomy) {
            s->out_sets[i] = (struct cuda_spread_set){.no_memory = 1};
        } else if (is_over(s, room, sets, call_ns)) {
            s->out_sets[i] = (struct cuda_spread_set){.no_memory = CUDA_SPREAD_LEFT};
        } else {
            run_set(s, i, deadline_ns, room, &given);
            sets++;
        }
    }
}
