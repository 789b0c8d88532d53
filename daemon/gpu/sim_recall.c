#include "daemon/gpu/sim_recall.h"

#include <stdlib.h>
#include <string.h>

static const char *const name = "recall";

/* ---- what it may touch ---- */

static void check(const struct sim_memory *m, const void *address, uint64_t count, uint64_t size,
                  uint64_t alignment)
{
    sim_device_check_array(m, name, address, count, size, alignment);
}

static void check_seeds(const struct cuda_recall *r, const struct sim_memory *m)
{
    uint64_t places = r->cues * r->k;
    check(m, r->nodes, r->node_count, sizeof *r->nodes, 8);
    if (r->allowed) check(m, r->allowed, (r->node_count + UINT64_C(63)) / 64, 8, 8);
    check(m, r->hit_ids, places, sizeof *r->hit_ids, 8);
    check(m, r->hit_scores, places, sizeof *r->hit_scores, 4);
    check(m, r->hit_counts, r->cues, sizeof *r->hit_counts, 4);
    check(m, r->seed_ids, places, sizeof *r->seed_ids, 8);
    check(m, r->seed_activations, places, sizeof *r->seed_activations, 4);
    check(m, r->seeds, places, sizeof *r->seeds, 4);
    check(m, r->set_offsets, r->lists, sizeof *r->set_offsets, 8);
    check(m, r->set_ends, r->lists, sizeof *r->set_ends, 8);
}

static void check_best(const struct cuda_recall *r, const struct sim_memory *m)
{
    uint64_t entries = (uint64_t)r->lists * r->results, row = vector_stride(r->rows.dimension);
    check(m, r->records, r->record_room, sizeof *r->records, 4);
    check(m, r->sets, r->lists, sizeof *r->sets, 8);
    check(m, r->rows.rows, r->rows.count * row, sizeof(float), 64);
    check(m, r->rows.norms, r->rows.count, sizeof(float), 4);
    check(m, r->row_ids, r->rows.count, sizeof *r->row_ids, 8);
    check(m, r->queries.rows, r->cues * row, sizeof(float), 64);
    check(m, r->queries.norms, r->cues, sizeof(float), 4);
    check(m, r->entries, entries, sizeof *r->entries, 8);
    if (r->paths) check(m, r->path_nodes, entries * (r->hops + 1), sizeof *r->path_nodes, 4);
}

void sim_recall_check(const struct device_call *call, const struct sim_memory *m)
{
    const struct cuda_recall *r = &call->recall;
    if (r->lists < 1 || r->lists > CUDA_RECALL_LISTS_MAX || r->k < 1 || r->results < 1 ||
        r->results > CUDA_RECALL_RESULTS_MAX || r->cues != r->queries.count)
        sim_misuse(name, "%u lists of %llu cues, k %u, %u results", r->lists,
                   (unsigned long long)r->cues, r->k, r->results);
    check(m, r->scratch, cuda_recall_layout_of(r).bytes, 1, 256);
    check(m, r->cue_offsets, r->lists + UINT64_C(1), sizeof *r->cue_offsets, 8);
    check(m, r->outcomes, r->lists, sizeof *r->outcomes, 8);
    check(m, r->times, 1, sizeof *r->times, 8);
    check_seeds(r, m);
    check_best(r, m);
}

/* ---- seeds ---- */

static uint64_t *began_of(const struct cuda_recall *r)
{
    return (uint64_t *)((char *)r->scratch + cuda_recall_layout_of(r).began);
}

static uint64_t first_of(const struct cuda_recall *r, uint32_t list)
{
    return r->cue_offsets[list] - r->first_cue;
}

static uint32_t node_of(const struct cuda_recall *r, uint64_t id)
{
    for (uint32_t node = 0; node < r->node_count && id != UINT64_MAX; node++)
        if (r->nodes[node] == id && (!r->allowed || r->allowed[node / 64] >> node % 64 & 1))
            return node;
    return SPREAD_NO_NODE;
}

/* Adds a cue's hits to the seeds of its list, of which there are `count`; returns how many there
 * are then. */
static uint32_t add_hits(const struct cuda_recall *r, uint64_t base, uint64_t cue, uint32_t count)
{
    uint64_t *ids = r->seed_ids + base;
    for (uint64_t i = cue * r->k; i < cue * r->k + r->hit_counts[cue]; i++) {
        float activation = recall_activation(r->hit_scores[i], r->threshold, r->width);
        uint32_t at = 0;
        if (activation < r->activation_min) continue;
        while (at < count && ids[at] != r->hit_ids[i])
            at++;
        float *to = &r->seed_activations[base + at];
        float sum = at < count ? *to + activation : activation;
        ids[at] = r->hit_ids[i];
        *to = sum < 1.0F ? sum : 1.0F;
        count += at == count;
    }
    return count;
}

static int by_node(const void *a, const void *b)
{
    const struct spread_seed *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

static void make_seeds(const struct cuda_recall *r, uint32_t list)
{
    uint64_t first = first_of(r, list), base = first * r->k;
    uint32_t count = 0, nodes = 0;
    for (uint64_t cue = first; cue < first_of(r, list + 1); cue++)
        count = add_hits(r, base, cue, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = node_of(r, r->seed_ids[base + i]);
        if (node != SPREAD_NO_NODE)
            r->seeds[base + nodes++] = (struct spread_seed){node, r->seed_activations[base + i]};
    }
    qsort(r->seeds + base, nodes, sizeof *r->seeds, by_node);
    r->outcomes[list] = (struct recall_outcome){.seeds = count, .spread = nodes};
    r->set_offsets[list] = base;
    r->set_ends[list] = base + nodes;
}

/* ---- the best ---- */

struct best {
    struct recall_entry entry;
    float strength;
    const struct spread_record *record; /* NULL: it has none */
};

static int by_strength(const void *a, const void *b)
{
    const struct best *x = a, *y = b;
    if (x->strength != y->strength) return x->strength < y->strength ? 1 : -1;
    return x->entry.id < y->entry.id ? -1 : x->entry.id > y->entry.id;
}

static const struct spread_record *record_at(const struct spread_record *records, uint64_t count,
                                             uint32_t node)
{
    for (uint64_t i = 0; i < count; i++)
        if (records[i].node == node) return &records[i];
    return NULL;
}

static struct best best_of(const struct cuda_recall *r, const struct spread_record *record)
{
    return (struct best){.entry = {.id = r->nodes[record->node],
                                   .activation = record->activation,
                                   .marks = RECALL_TOUCHED,
                                   .depth = record->depth},
                         .strength = record->activation,
                         .record = record};
}

/* All records, and seeds without one, behind each other. Returns how many. */
static uint64_t gather(const struct cuda_recall *r, uint32_t list, struct best *all)
{
    const struct cuda_spread_set *set = &r->sets[list];
    const struct spread_record *records = r->records + set->first_record;
    uint64_t n = set->record_count, base = first_of(r, list) * r->k;
    for (uint64_t i = 0; i < n; i++)
        all[i] = best_of(r, &records[i]);
    for (uint32_t i = 0; i < r->outcomes[list].seeds; i++) {
        uint32_t node = node_of(r, r->seed_ids[base + i]);
        const struct spread_record *record = record_at(records, set->record_count, node);
        struct best *b = record ? &all[record - records] : &all[n++];
        if (!record)
            *b = (struct best){.entry = {.id = r->seed_ids[base + i],
                                         .activation = r->seed_activations[base + i]}};
        b->entry.marks |= RECALL_SEED;
        b->strength = recall_strength(b->entry.activation, r->boost);
    }
    return n;
}

/* The nodes from a seed to the record's; returns how many. */
static uint16_t write_path(const struct cuda_recall *r, const struct cuda_spread_set *set,
                           const struct spread_record *record, uint32_t *out)
{
    uint32_t nodes[SPREAD_HOPS_MAX + 1];
    uint16_t length = 0;
    while (record && length <= r->hops) {
        nodes[length++] = record->node;
        record = record->parent == SPREAD_NO_NODE
                     ? NULL
                     : record_at(r->records + set->first_record, set->record_count, record->parent);
    }
    for (uint16_t i = 0; i < length; i++)
        out[i] = nodes[length - 1 - i];
    return length;
}

static float score_of(const struct cuda_recall *r, uint32_t list, uint64_t id,
                      const struct vector_kernels *kernels)
{
    static const uint32_t no_score = 0x7fc00000;
    uint64_t row = 0, stride = vector_stride(r->rows.dimension), first = first_of(r, list);
    float best, score;
    memcpy(&best, &no_score, sizeof best);
    while (row < r->rows.count && r->row_ids[row] != id)
        row++;
    if (row == r->rows.count) return best;
    struct row_block block = {r->rows.rows + row * stride, r->rows.norms + row, 1};
    for (uint64_t cue = first; cue < first_of(r, list + 1); cue++) {
        kernels->scan(METRIC_COSINE, r->rows.dimension, r->queries.rows + cue * stride,
                      r->queries.norms[cue], block, &score);
        if (cue == first || best < score) best = score;
    }
    return best;
}

static void choose(const struct cuda_recall *r, uint32_t list, const struct vector_kernels *kernels)
{
    const struct cuda_spread_set *set = &r->sets[list];
    struct recall_outcome *out = &r->outcomes[list];
    uint64_t most = set->record_count + out->seeds, base = (uint64_t)list * r->results;
    struct best *all = set->no_memory || set->no_room ? NULL : malloc((most + 1) * sizeof *all);
    out->undone = !all;
    if (!all) return;
    uint64_t n = gather(r, list, all);
    qsort(all, n, sizeof *all, by_strength);
    out->kept = n < r->results ? (uint32_t)n : r->results;
    for (uint32_t i = 0; i < out->kept; i++) {
        struct recall_entry *e = &r->entries[base + i];
        *e = all[i].entry;
        e->score = score_of(r, list, e->id, kernels);
        if (r->paths && all[i].record)
            e->path = write_path(r, set, all[i].record, r->path_nodes + (base + i) * (r->hops + 1));
    }
    out->touched = set->record_count;
    out->hops = set->hops_done;
    out->truncated = set->truncated;
    free(all);
}

/* ---- doing it ---- */

void sim_recall_run(const struct device_call *call, const struct vector_kernels *kernels,
                    const struct clock *clock)
{
    const struct cuda_recall *r = &call->recall;
    uint64_t now_ns = clock_read_ns(clock);
    if (call->kernel == KERNEL_RECALL_BEGIN) {
        memset(r->scratch, 0xdb, cuda_recall_layout_of(r).bytes);
        *began_of(r) = now_ns;
        return;
    }
    for (uint32_t list = 0; list < r->lists; list++) {
        if (call->kernel == KERNEL_RECALL_SEEDS)
            make_seeds(r, list);
        else
            choose(r, list, kernels);
    }
    if (call->kernel == KERNEL_RECALL_SEEDS)
        r->times->seeds_ns = now_ns - *began_of(r);
    else
        r->times->best_ns = now_ns - *began_of(r) - r->times->seeds_ns;
}
