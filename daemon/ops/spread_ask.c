#include "daemon/ops/spread_ask.h"

#include <math.h>

#include "daemon/base/clock.h"
#include "daemon/base/yield.h"
#include "daemon/ops/filter.h"
#include "daemon/ops/operation_inside.h"
#include "daemon/ops/radix.h"

/* Looking an id up costs about as much as testing LOOKUP_NODES ids against a bitmap. */
enum { BATCH = 64, LOOKUP_NODES = 16, CHECK_EVERY = 4096 };
enum { PLACE_SETS, PLACE_SEEDS, PLACE_DECAY, PLACE_ALLOWED, PLACE_ITEMS, PLACE_ROOM };

struct edition *spread_ask_collection(const struct job *j)
{
    uint32_t at = j->request.spread.embeddings_at;
    return j->objects[at ? at : SPREAD_EMBEDDINGS].collection;
}

static bool find_embeddings(void *owner, const uint64_t *ids, size_t count, const float **rows,
                            float *norms)
{
    const struct edition *e = owner;
    uint32_t places[BATCH];
    for (size_t first = 0; first < count; first += BATCH) {
        size_t n = (size_t)smaller(BATCH, count - first);
        if (collection_find_rows(e, ids + first, n, places) < n) return false;
        for (size_t i = 0; i < n; i++) {
            rows[first + i] = collection_row(e, places[i]);
            norms[first + i] = collection_norm(e, places[i]);
        }
    }
    return true;
}

static bool merges(const struct job *j)
{
    return j->request.spread.mode == SPREAD_LINEAR;
}

static uint64_t sets_of(const struct job *j)
{
    const struct tensor *offsets = &j->request.offsets;
    return is_present(offsets) ? offsets->rows - 1 : 1;
}

void spread_ask_layout_rule(const struct job *j, struct spread_ask *a, uint64_t *bytes)
{
    const struct job_spread *s = &j->request.spread;
    *a = (struct spread_ask){
        .graph = graph_view(j->graph),
        .question =
            {
                .mode = (enum spread_mode)s->mode,
                .fan = (enum spread_fan)s->fan,
                .ignore_kinds = s->ignore_kinds,
                .last_hop = s->last_hop,
                .paths = s->paths,
                .hops = s->hops,
                .touched_max = s->touched_max ? s->touched_max : UINT64_MAX,
            },
    };
    memcpy(a->question.thresholds, s->thresholds, sizeof a->question.thresholds);
    uint64_t bitmap = filter_is_given(j) ? pieces_of(a->graph.nodes, 64) * sizeof(uint64_t) : 0;
    a->places[PLACE_DECAY] = layout_add(bytes, (s->hops + 1) * sizeof *a->decay);
    a->places[PLACE_ALLOWED] = layout_add(bytes, bitmap);
}

void spread_ask_layout(const struct job *j, struct spread_ask *a, uint64_t *bytes)
{
    uint64_t seeds = j->request.ids.rows, merged = merges(j) ? seeds : 0;
    spread_ask_layout_rule(j, a, bytes);
    a->set_count = sets_of(j);
    a->k = j->request.k ? j->request.k : UINT64_MAX;
    a->places[PLACE_SETS] = layout_add(bytes, (a->set_count + 1) * sizeof *a->set_offsets);
    a->places[PLACE_SEEDS] = layout_add(bytes, seeds * sizeof *a->seeds);
    a->places[PLACE_ITEMS] = layout_add(bytes, merged * sizeof *a->items);
    a->places[PLACE_ROOM] = layout_add(bytes, merged * sizeof *a->room);
}

void spread_ask_place_rule(const struct job *j, struct spread_ask *a)
{
    a->decay = scratch_at(j, a->places[PLACE_DECAY]);
    a->allowed = filter_is_given(j) ? scratch_at(j, a->places[PLACE_ALLOWED]) : NULL;
    a->question.decay = a->decay;
    a->question.allowed = a->allowed;
}

void spread_ask_place(const struct job *j, struct spread_ask *a)
{
    spread_ask_place_rule(j, a);
    a->set_offsets = scratch_at(j, a->places[PLACE_SETS]);
    a->seeds = scratch_at(j, a->places[PLACE_SEEDS]);
    a->items = scratch_at(j, a->places[PLACE_ITEMS]);
    a->room = scratch_at(j, a->places[PLACE_ROOM]);
}

/* ---- f(d) ---- */

double spread_ask_decay(const struct job_spread *s, const float *table, uint32_t d)
{
    double p = (double)s->decay_parameter, left;
    switch ((enum spread_decay)s->decay) {
    case DECAY_EXPONENTIAL: return exp(-p * d);
    case DECAY_POWER: return pow(d + 1.0, -p);
    case DECAY_LINEAR: left = 1 - p * d; return left > 0 ? left : 0;
    case DECAY_TABLE: return (double)table[d - 1];
    case DECAY_CONSTANT: return 1;
    }
    return 1;
}

static void fill_decay(const struct job *j, struct spread_ask *a)
{
    const struct job_spread *s = &j->request.spread;
    a->decay[0] = 1;
    for (uint32_t d = 1; d <= s->hops; d++)
        a->decay[d] = (float)spread_ask_decay(s, j->request.table.data, d);
}

/* ---- the node set: ids -> a bitmap over nodes ---- */

static void set_bit(uint64_t *bitmap, uint64_t i)
{
    bitmap[i / 64] |= UINT64_C(1) << i % 64;
}

static bool has_bit(const uint64_t *bitmap, uint64_t i)
{
    return bitmap[i / 64] >> i % 64 & 1;
}

static enum status unknown(struct job *j, uint64_t id, const char *what, uint64_t number)
{
    return failure_set(&j->failure, STATUS_NOT_FOUND, DETAIL_UNKNOWN_NODE,
                       "there is no node %" PRIu64 " (%s %" PRIu64 ")", id, what, number);
}

static enum status allow_ids(struct job *j, uint64_t *allowed)
{
    const uint64_t *ids = j->request.filter_ids.data;
    uint64_t count = j->request.filter_ids.rows;
    for (uint64_t first = 0; first < count; first += BATCH) {
        uint32_t nodes[BATCH];
        size_t n = (size_t)smaller(BATCH, count - first);
        yield_check();
        graph_find_many(j->graph, ids + first, n, nodes);
        for (size_t i = 0; i < n; i++) {
            if (nodes[i] == SPREAD_NO_NODE)
                return unknown(j, ids[first + i], "id of the node set", first + i);
            set_bit(allowed, nodes[i]);
        }
    }
    return STATUS_OK;
}

/* Looks up each id whose bit is set. */
static enum status allow_by_bits(struct job *j, uint64_t *allowed)
{
    const uint8_t *bytes = j->request.filter_bitmap.data;
    for (uint64_t at = 0; at < j->request.filter_bitmap.rows; at++) {
        if (at % BATCH == 0) yield_check();
        for (unsigned bits = bytes[at]; bits; bits &= bits - 1) {
            uint64_t bit = at * 8 + (unsigned)__builtin_ctz(bits);
            uint64_t id = j->request.filter_bitmap_first + bit;
            uint32_t node = id < bit ? SPREAD_NO_NODE : graph_find(j->graph, id);
            if (node == SPREAD_NO_NODE) return unknown(j, id, "bit of the node set", bit);
            set_bit(allowed, node);
        }
    }
    return STATUS_OK;
}

/* Tests the id of every node. Returns how many were in it. */
static uint64_t allow_by_nodes(const struct job *j, const struct spread_graph *g, uint64_t *allowed)
{
    const uint8_t *bytes = j->request.filter_bitmap.data;
    uint64_t first = j->request.filter_bitmap_first, count = j->request.filter_bitmap.rows * 8;
    uint64_t found = 0;
    for (uint32_t node = 0; node < g->nodes; node++) {
        if (node % CHECK_EVERY == 0) yield_check();
        uint64_t bit = g->ids[node] - first;
        if (g->ids[node] < first || g->ids[node] == UINT64_MAX || bit >= count) continue;
        if (!(bytes[bit / 8] >> bit % 8 & 1)) continue;
        set_bit(allowed, node);
        found++;
    }
    return found;
}

static uint64_t count_bits(const struct tensor *bitmap)
{
    const uint8_t *bytes = bitmap->data;
    uint64_t bits = 0;
    for (uint64_t i = 0; i < bitmap->rows; i++) {
        if (i % (64 * CHECK_EVERY) == 0) yield_check();
        bits += (unsigned)__builtin_popcount(bytes[i]);
    }
    return bits;
}

static enum status allow_bitmap(struct job *j, const struct spread_graph *g, uint64_t *allowed)
{
    uint64_t bits = count_bits(&j->request.filter_bitmap);
    bool by_nodes = bits >= g->nodes / LOOKUP_NODES;
    if (by_nodes && allow_by_nodes(j, g, allowed) == bits) return STATUS_OK;
    return allow_by_bits(j, allowed);
}

static enum status fill_allowed(struct job *j, struct spread_ask *a)
{
    if (!a->allowed) return STATUS_OK;
    yield_clear(a->allowed, pieces_of(a->graph.nodes, 64) * sizeof *a->allowed);
    return is_present(&j->request.filter_ids) ? allow_ids(j, a->allowed)
                                              : allow_bitmap(j, &a->graph, a->allowed);
}

/* ---- seeds ---- */

static float capped(float activation)
{
    return activation < 1.0f ? activation : 1.0f;
}

/* Checked on a worker: there may be millions, too many for the loop. */
static enum status check_activations(struct job *j)
{
    const float *values = j->request.weights.data;
    uint64_t count = is_present(&j->request.weights) ? j->request.weights.rows : 0;
    for (uint64_t i = 0; i < count; i++) {
        if (i % (16 * CHECK_EVERY) == 0) yield_check();
        if (!(values[i] > 0 && values[i] < INFINITY))
            return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SEED,
                               "activations: number %" PRIu64 " is %g, finite and above 0 wanted",
                               i, (double)values[i]);
    }
    return STATUS_OK;
}

/* Checks the node of a seed, which becomes SPREAD_NO_NODE if the seed is to be left out. */
static enum status check_node(struct job *j, const struct spread_ask *a, uint64_t at,
                              uint32_t *node)
{
    const uint64_t *ids = j->request.ids.data;
    bool known = *node != SPREAD_NO_NODE, inside = known;
    if (known && a->allowed) inside = has_bit(a->allowed, *node);
    if (!inside) *node = SPREAD_NO_NODE;
    if (a->seed_nodes) a->seed_nodes[at] = *node;
    if (inside || a->seed_nodes) return STATUS_OK;
    if (!known) return unknown(j, ids[at], "seed", at);
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SEED,
                       "seed %" PRIu64 ": node %" PRIu64 " is not in the node set", at, ids[at]);
}

static enum status find_seeds(struct job *j, struct spread_ask *a)
{
    const uint64_t *ids = j->request.ids.data;
    const float *activations = is_present(&j->request.weights) ? j->request.weights.data : NULL;
    uint64_t count = j->request.ids.rows;
    for (uint64_t first = 0; first < count; first += BATCH) {
        uint32_t nodes[BATCH];
        size_t n = (size_t)smaller(BATCH, count - first);
        yield_check();
        graph_find_many(j->graph, ids + first, n, nodes);
        for (size_t i = 0; i < n; i++) {
            uint64_t at = first + i;
            enum status st = check_node(j, a, at, &nodes[i]);
            if (st) return st;
            a->seeds[at] =
                (struct spread_seed){nodes[i], activations ? capped(activations[at]) : 1.0f};
        }
    }
    return STATUS_OK;
}

/* Merges the seeds of a set: one for each node, with the sum. They are written to `to`, behind
 * those of earlier sets; returns the end. */
static uint64_t merge_set(struct spread_ask *a, uint64_t first, uint64_t count, uint64_t to)
{
    for (uint64_t i = 0; i < count; i++) {
        if (i % CHECK_EVERY == CHECK_EVERY - 1) yield_check();
        struct spread_seed s = a->seeds[first + i];
        a->items[i].key = s.node;
        memcpy(&a->items[i].value, &s.activation, sizeof s.activation);
    }
    const struct radix_item *sorted = radix_sort(a->items, a->room, count);
    for (uint64_t i = 0, nodes = 0; i < count;) {
        uint64_t node = sorted[i].key;
        double sum = 0;
        if (++nodes % CHECK_EVERY == 0) yield_check();
        for (; i < count && sorted[i].key == node; i++) {
            float activation;
            memcpy(&activation, &sorted[i].value, sizeof activation);
            sum += (double)activation;
        }
        a->seeds[to++] = (struct spread_seed){(uint32_t)node, capped((float)sum)};
    }
    return to;
}

/* Moves a set behind the earlier ones; returns the end. */
static uint64_t move_set(struct spread_ask *a, uint64_t first, uint64_t count, uint64_t to)
{
    if (to != first) memmove(a->seeds + to, a->seeds + first, count * sizeof *a->seeds);
    return to + count;
}

/* Drops seeds without a node; returns how many are left. */
static uint64_t leave_out(struct spread_seed *seeds, uint64_t count)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (i % CHECK_EVERY == CHECK_EVERY - 1) yield_check();
        if (seeds[i].node != SPREAD_NO_NODE) seeds[kept++] = seeds[i];
    }
    return kept;
}

static void fill_sets(const struct job *j, struct spread_ask *a)
{
    const uint64_t whole[] = {0, j->request.ids.rows};
    const uint64_t *offsets = is_present(&j->request.offsets) ? j->request.offsets.data : whole;
    for (uint64_t set = 0; set <= a->set_count; set++) {
        if (set % CHECK_EVERY == 0) yield_check();
        a->set_offsets[set] = offsets[set];
    }
    if (!merges(j) && !a->seed_nodes) return;
    uint64_t to = 0;
    for (uint64_t set = 0; set < a->set_count; set++) {
        uint64_t first = a->set_offsets[set], count = offsets[set + 1] - first;
        if (set % BATCH == 0) yield_check();
        a->set_offsets[set] = to;
        if (a->seed_nodes) count = leave_out(a->seeds + first, count);
        if (merges(j))
            to = merge_set(a, first, count, to);
        else
            to = move_set(a, first, count, to);
    }
    a->set_offsets[a->set_count] = to;
}

static void name_embeddings(const struct job *j, struct spread_ask *a)
{
    struct edition *e = spread_ask_collection(j);
    if (!e) return;
    a->embeddings = (struct spread_embeddings){.dimension = collection_dimension(e),
                                               .kernels = j->kernels,
                                               .find = find_embeddings,
                                               .owner = e};
    a->question.embeddings = &a->embeddings;
}

/* Returns when the spread ends for lack of time; 0: never. */
static uint64_t deadline_of(const struct job *j)
{
    const uint64_t forever_us = UINT64_C(1) << 50;
    const struct job_spread *s = &j->request.spread;
    uint64_t now_ns = clock_read_ns(j->clock),
             then_ns = j->deadline_ns ? j->deadline_ns : UINT64_MAX;
    if (s->time_max_us && s->time_max_us < forever_us)
        then_ns = smaller(then_ns, (s->begun_ns ? s->begun_ns : now_ns) + s->time_max_us * 1000);
    if (j->spread_us_max && j->spread_us_max < forever_us)
        then_ns = smaller(then_ns, now_ns + j->spread_us_max * 1000);
    return then_ns == UINT64_MAX ? 0 : then_ns;
}

enum status spread_ask_prepare_rule(struct job *j, struct spread_ask *a)
{
    a->question.deadline_ns = deadline_of(j);
    fill_decay(j, a);
    name_embeddings(j, a);
    return fill_allowed(j, a);
}

enum status spread_ask_prepare(struct job *j, struct spread_ask *a)
{
    enum status st = check_activations(j);
    if (!st) st = spread_ask_prepare_rule(j, a);
    if (!st) st = find_seeds(j, a);
    if (!st) fill_sets(j, a);
    return st;
}
