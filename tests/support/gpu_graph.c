#include "tests/support/gpu_graph.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/reference.h"

static uint64_t random_of(uint64_t *seed)
{
    *seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *seed;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* ---- the graph ---- */

static void take_part(struct gpu_graph *g, int part, uint64_t bytes)
{
    g->bytes[part] = bytes;
    g->parts[part] = aligned_alloc(64, (bytes + 127) / 64 * 64);
    cr_assert_not_null(g->parts[part]);
    memset(g->parts[part], 0xff, bytes);
}

/* Where no list is, what spoils whatever adds it up. */
static void take_edges(struct gpu_graph *g, int part, uint64_t places)
{
    take_part(g, part, places * sizeof(struct spread_edge));
    struct spread_edge *edges = g->parts[part];
    for (uint64_t i = 0; i < places; i++)
        edges[i] = (struct spread_edge){0, NAN};
}

/* Lists one after the other, each with some room. Returns the places of all. */
static uint64_t place_lists(struct spread_list *lists, const uint32_t *counts, uint32_t nodes)
{
    uint64_t at = 0;
    for (uint32_t n = 0; n < nodes; n++) {
        uint32_t room = (counts[n] + n % 3 + 1) / 2 * 2;
        lists[n] = (struct spread_list){.first = at, .room = room};
        at += room;
    }
    return at;
}

static void add_edge(struct spread_list *list, struct spread_edge *edges, uint32_t node,
                     float weight)
{
    edges[list->first + list->count++] = (struct spread_edge){node, weight};
}

static float weight_of(uint64_t *seed)
{
    return (float)(random_of(seed) % 2000) / 1000.0f - 0.3f;
}

static void fill_nodes(struct gpu_graph *g, bool plain, uint64_t *seed)
{
    uint64_t *ids = g->parts[PART_IDS];
    uint32_t *order = g->parts[PART_ORDER];
    uint8_t *kinds = g->parts[PART_KINDS];
    float *factors = g->parts[PART_FACTORS];
    for (uint32_t n = 0; n < g->nodes; n++) {
        ids[n] = (uint64_t)n * 7919 % g->nodes + 5;
        uint32_t first = n / SPREAD_WINDOW * SPREAD_WINDOW, left = g->nodes - first;
        order[n] = first + (left < SPREAD_WINDOW ? left : SPREAD_WINDOW) - 1 - (n - first);
        if (plain) continue;
        kinds[n] = (uint8_t)(random_of(seed) % 3);
        factors[n] = (float)(random_of(seed) % 1500) / 1000.0f;
    }
}

struct gpu_graph graph_make(uint32_t space, uint64_t replica, uint64_t version, uint32_t nodes,
                            uint32_t degree, bool plain, uint64_t seed)
{
    struct gpu_graph g = {.space = space,
                          .replica = replica,
                          .version = version,
                          .nodes = nodes,
                          .edges = (uint64_t)nodes * degree,
                          .grid = spread_grid_of(1, 1, 1 << 20)};
    uint32_t *from = malloc(g.edges * sizeof *from + 1), *to = malloc(g.edges * sizeof *to + 1);
    uint32_t *counts = calloc(nodes * (size_t)2, sizeof *counts);
    cr_assert(from && to && counts);
    for (uint64_t i = 0; i < g.edges; i++) {
        from[i] = (uint32_t)(random_of(&seed) % nodes);
        to[i] = (uint32_t)(random_of(&seed) % (i % 4 ? nodes : nodes / 8 + 1));
        counts[from[i]]++;
        counts[nodes + to[i]]++;
    }
    for (int side = 0; side < 2; side++) {
        take_part(&g, PART_OUT + side, nodes * sizeof(struct spread_list));
        uint64_t places = place_lists(g.parts[PART_OUT + side], counts + side * nodes, nodes);
        take_edges(&g, PART_OUT_EDGES + side, places);
    }
    for (uint64_t i = 0; i < g.edges; i++) {
        float weight = weight_of(&seed);
        add_edge((struct spread_list *)g.parts[PART_OUT] + from[i], g.parts[PART_OUT_EDGES], to[i],
                 weight);
        add_edge((struct spread_list *)g.parts[PART_IN] + to[i], g.parts[PART_IN_EDGES], from[i],
                 weight);
    }
    take_part(&g, PART_IDS, nodes * sizeof(uint64_t));
    take_part(&g, PART_ORDER, nodes * sizeof(uint32_t));
    take_part(&g, PART_KINDS, plain ? 0 : nodes * sizeof(uint8_t));
    take_part(&g, PART_FACTORS, plain ? 0 : nodes * sizeof(float));
    fill_nodes(&g, plain, &seed);
    free(from), free(to), free(counts);
    return g;
}

struct gpu_graph graph_copy(const struct gpu_graph *g)
{
    struct gpu_graph c = *g;
    for (int part = 0; part < ORDER_PARTS_MAX; part++) {
        take_part(&c, part, g->bytes[part]);
        memcpy(c.parts[part], g->parts[part], g->bytes[part]);
    }
    return c;
}

void graph_free(struct gpu_graph *g)
{
    for (int part = 0; part < ORDER_PARTS_MAX; part++)
        free(g->parts[part]);
    *g = (struct gpu_graph){0};
}

struct spread_graph graph_seen(const struct gpu_graph *g)
{
    return (struct spread_graph){
        .nodes = g->nodes,
        .edges = g->edges,
        .out = g->parts[PART_OUT],
        .in = g->parts[PART_IN],
        .out_edges = g->parts[PART_OUT_EDGES],
        .in_edges = g->parts[PART_IN_EDGES],
        .ids = g->parts[PART_IDS],
        .kinds = g->bytes[PART_KINDS] ? g->parts[PART_KINDS] : NULL,
        .factors = g->bytes[PART_FACTORS] ? g->parts[PART_FACTORS] : NULL,
        .order = g->parts[PART_ORDER],
        .grid = g->grid,
    };
}

/* Both orientations of an edge get the same: it goes by the two nodes. */
void graph_reweigh(struct gpu_graph *g, uint64_t seed)
{
    for (int side = 0; side < 2; side++) {
        const struct spread_list *lists = g->parts[PART_OUT + side];
        struct spread_edge *edges = g->parts[PART_OUT_EDGES + side];
        for (uint32_t n = 0; n < g->nodes; n++)
            for (uint32_t i = 0; i < lists[n].count; i++) {
                struct spread_edge *e = &edges[lists[n].first + i];
                uint64_t source = side ? e->node : n, target = side ? n : e->node;
                uint64_t pair = seed + source * 1000003 + target;
                e->weight = weight_of(&pair);
            }
    }
}

/* ---- orders ---- */

struct order graph_upload(struct gpu_peer *p, const struct gpu_graph *g, bool fresh, uint32_t part,
                          uint64_t first, uint64_t count, uint64_t version)
{
    uint64_t place = peer_take(p, count);
    if (count) memcpy(peer_at(p, place), (const char *)g->parts[part] + first, count);
    struct order o = {.kind = ORDER_UPLOAD_PART,
                      .space = g->space,
                      .replica = g->replica,
                      .version = version,
                      .part = {.part = part,
                               .fresh = fresh,
                               .first = first,
                               .count = count,
                               .bytes = count ? place : PLACE_NONE}};
    memcpy(o.part.part_bytes, g->bytes, sizeof g->bytes);
    return o;
}

uint32_t graph_upload_all(struct gpu_peer *p, const struct gpu_graph *g, struct order *orders)
{
    for (uint32_t part = 0; part < ORDER_PARTS_MAX; part++)
        orders[part] = graph_upload(p, g, part == 0, part, 0, g->bytes[part],
                                    part + 1 == ORDER_PARTS_MAX ? g->version : 0);
    return ORDER_PARTS_MAX;
}

struct order graph_forget(const struct gpu_graph *g)
{
    return (struct order){.kind = ORDER_FORGET, .space = g->space, .replica = g->replica};
}

/* ---- spreads ---- */

static uint64_t take_filled(struct gpu_peer *p, uint64_t bytes)
{
    uint64_t place = peer_take(p, bytes);
    memset(peer_at(p, place), 0xee, bytes);
    return place;
}

/* Of rising nodes, each once. */
static void fill_seeds(struct gpu_peer *p, const struct gpu_graph *g, struct order_spread *s,
                       const struct spread_asked *asked, const uint64_t *allowed)
{
    struct spread_seed *seeds = peer_at(p, s->seeds);
    uint64_t *offsets = peer_at(p, s->set_offsets), random = asked->seed, count = 0;
    for (uint32_t set = 0; set < s->set_count; set++) {
        uint32_t step = g->nodes / (asked->seeds ? asked->seeds : 1);
        uint32_t node = (uint32_t)(random_of(&random) % (step ? step : 1));
        offsets[set] = count;
        for (uint32_t i = 0; i < asked->seeds && node < g->nodes; i++, node += step ? step : 1) {
            if (allowed && !(allowed[node / 64] >> node % 64 & 1)) continue;
            seeds[count++] =
                (struct spread_seed){node, (float)(1 + random_of(&random) % 1000) / 1000.0f};
        }
    }
    offsets[s->set_count] = s->seed_count = count;
}

struct order graph_ask(struct gpu_peer *p, const struct gpu_graph *g, struct spread_asked asked)
{
    if (!asked.mode) asked.mode = SPREAD_LINEAR;
    if (!asked.hops) asked.hops = 4;
    if (!asked.sets) asked.sets = 1;
    if (!asked.seeds) asked.seeds = 1;
    uint64_t words = (g->nodes + UINT64_C(63)) / 64, random = asked.seed + 17;
    struct order o = {.kind = ORDER_SPREAD,
                      .space = g->space,
                      .replica = g->replica,
                      .version = g->version,
                      .spread = {.mode = asked.mode,
                                 .fan = asked.fan,
                                 .flags = asked.flags,
                                 .hops = asked.hops,
                                 .nodes = g->nodes,
                                 .set_count = asked.sets,
                                 .edges = g->edges,
                                 .grid_high = g->grid.high,
                                 .grid_low = g->grid.low,
                                 .thresholds = {0.01f, 0.05f, 0.1f},
                                 .allowed = PLACE_NONE,
                                 .touched_max = asked.touched_max ? asked.touched_max : UINT64_MAX,
                                 .record_room = asked.room}};
    struct order_spread *s = &o.spread;
    if (asked.mode == SPREAD_LINEAR) s->thresholds[0] = asked.threshold;
    uint64_t each =
        asked.touched_max && asked.touched_max < g->nodes ? asked.touched_max : g->nodes;
    if (!asked.room) s->record_room = asked.sets * each;
    s->seeds = peer_take(p, (uint64_t)asked.sets * asked.seeds * sizeof(struct spread_seed));
    s->set_offsets = peer_take(p, (asked.sets + UINT64_C(1)) * sizeof(uint64_t));
    s->decay = peer_take(p, (asked.hops + UINT64_C(1)) * sizeof(float));
    for (uint32_t d = 0; d <= asked.hops; d++)
        ((float *)peer_at(p, s->decay))[d] = 1.0f / (float)(d + 1);
    if (asked.filtered) {
        s->allowed = peer_take(p, words * sizeof(uint64_t));
        for (uint64_t i = 0; i < words; i++)
            ((uint64_t *)peer_at(p, s->allowed))[i] = random_of(&random) | random_of(&random);
    }
    fill_seeds(p, g, s, &asked, asked.filtered ? peer_at(p, s->allowed) : NULL);
    s->out_records = take_filled(p, s->record_room * sizeof(struct spread_record));
    s->out_sets = take_filled(p, s->set_count * sizeof(struct order_spread_set));
    return o;
}

/* ---- answers ---- */

enum { TAKEN_MAX = 64 };

struct taken {
    void *pieces[TAKEN_MAX];
    uint32_t count;
};

static void *take(void *owner, uint64_t bytes)
{
    struct taken *t = owner;
    cr_assert(t->count < TAKEN_MAX);
    return t->pieces[t->count++] = aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static int by_node(const void *a, const void *b)
{
    uint32_t x = ((const struct spread_record *)a)->node;
    uint32_t y = ((const struct spread_record *)b)->node;
    return x < y ? -1 : x > y;
}

static struct spread_question question_of(struct gpu_peer *p, const struct order_spread *s,
                                          uint32_t set)
{
    const uint64_t *offsets = peer_at(p, s->set_offsets);
    return (struct spread_question){
        .mode = (enum spread_mode)s->mode,
        .fan = (enum spread_fan)s->fan,
        .ignore_kinds = s->flags & ORDER_SPREAD_IGNORE_KINDS,
        .last_hop = s->flags & ORDER_SPREAD_LAST_HOP,
        .paths = s->flags & ORDER_SPREAD_PATHS,
        .hops = s->hops,
        .decay = peer_at(p, s->decay),
        .thresholds = {s->thresholds[0], s->thresholds[1], s->thresholds[2]},
        .allowed = s->allowed == PLACE_NONE ? NULL : peer_at(p, s->allowed),
        .touched_max = s->touched_max,
        .seeds = (const struct spread_seed *)peer_at(p, s->seeds) + offsets[set],
        .seed_count = offsets[set + 1] - offsets[set],
    };
}

/* Each set's records in a place of their own, inside the room, and what lies behind them as it was.
 * *count: of all of them. */
static bool places_right(struct gpu_peer *p, const struct order_spread *s, uint64_t *count)
{
    const struct order_spread_set *got = (const struct order_spread_set *)peer_at(p, s->out_sets);
    const unsigned char *bytes = peer_at(p, s->out_records);
    unsigned char *whose = calloc(s->record_room + 1, 1);
    cr_assert_not_null(whose);
    uint64_t end = 0;
    bool right = true;
    *count = 0;
    for (uint32_t set = 0; set < s->set_count && right; set++) {
        uint64_t first = got[set].first_record, many = got[set].record_count;
        right = first <= s->record_room && many <= s->record_room - first;
        for (uint64_t i = 0; i < many && right; i++)
            right = !whose[first + i]++;
        if (many && first + many > end) end = first + many;
        *count += many;
    }
    for (uint64_t i = end * sizeof(struct spread_record);
         i < s->record_room * sizeof(struct spread_record) && right; i++)
        right = bytes[i] == 0xee;
    free(whose);
    return right;
}

/* given: records of all sets that found room. */
static bool set_right(struct gpu_peer *p, const struct order_spread *s, struct spread_run *run,
                      uint32_t set, uint64_t given)
{
    const struct order_spread_set *got =
        (const struct order_spread_set *)peer_at(p, s->out_sets) + set;
    const struct spread_record *records =
        (struct spread_record *)peer_at(p, s->out_records) + got->first_record;
    if (got->no_room == NO_ROOM_WORK) return !got->record_count;
    if (got->cycles != run->cycles || got->hops_done != run->hops_done ||
        got->truncated != run->truncated)
        return false;
    if (got->no_room) return !got->record_count && run->record_count > s->record_room - given;
    if (got->record_count != run->record_count) return false;
    uint64_t bytes = run->record_count * sizeof *records;
    struct spread_record *sorted = malloc(bytes + 1);
    cr_assert_not_null(sorted);
    memcpy(sorted, records, bytes);
    qsort(sorted, run->record_count, sizeof *sorted, by_node);
    qsort(run->records, run->record_count, sizeof *sorted, by_node);
    bool right = memcmp(sorted, run->records, bytes) == 0;
    free(sorted);
    return right;
}

bool graph_right(struct gpu_peer *p, const struct order *o, const struct gpu_graph *g)
{
    if (o->kind != ORDER_SPREAD) return true;
    const struct order_spread *s = &o->spread;
    struct spread_graph seen = graph_seen(g);
    uint64_t bytes = (spread_workspace_bytes(g->nodes) + 63) / 64 * 64;
    void *memory = aligned_alloc(64, bytes);
    cr_assert_not_null(memory);
    memset(memory, 0, bytes);
    uint64_t given;
    bool right = places_right(p, s, &given);
    for (uint32_t set = 0; set < s->set_count && right; set++) {
        struct spread_question q = question_of(p, s, set);
        struct taken taken = {.count = 0};
        struct spread_run run = {.graph = &seen,
                                 .question = &q,
                                 .kernels = &spread_scalar,
                                 .workspace = {memory, g->nodes},
                                 .memory = {take, &taken},
                                 .alone = true};
        spread_run_begin(&run);
        spread_run_through(&run);
        cr_assert(!run.no_memory);
        right = set_right(p, s, &run, set, given);
        spread_run_end(&run);
        for (uint32_t i = 0; i < taken.count; i++)
            free(taken.pieces[i]);
    }
    free(memory);
    return right;
}
