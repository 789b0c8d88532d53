/* recall_rank: the best of what a list of cues recalled. Seeds rank by their activation times the
 * boost, others by their activation, ties by id. A seed that the spread does not hold (it is no
 * node, or was dropped) is there with the activation that it was given. */
#include "daemon/base/yield.h"
#include "daemon/ops/recall_inside.h"
#include "kernels/recall.h"

enum { YIELD_EVERY = 1 << 12 };
#define NO_PLACE UINT32_MAX

/* The seeds of one list, and where their records are. */
struct recall_seeds {
    const uint64_t *ids;
    const float *activations;
    const uint32_t *nodes;
    uint64_t count, spread;
    uint32_t *places; /* of their records; NO_PLACE: there is none */
    uint32_t *slots;  /* a table by node: number + 1; 0: empty */
    uint64_t mask;
};

/* What may be among the best: a record, or a seed without one. */
struct candidate {
    uint64_t id;
    float strength;
    uint32_t record, seed; /* NO_PLACE: none */
};

static uint64_t slot_of(const struct recall_seeds *s, uint32_t node)
{
    return (node * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & s->mask;
}

/* Returns the number of the seed whose node this is, or NO_PLACE. */
static uint32_t seed_at(const struct recall_seeds *s, uint32_t node)
{
    for (uint64_t at = slot_of(s, node); s->slots[at]; at = (at + 1) & s->mask)
        if (s->nodes[s->slots[at] - 1] == node) return s->slots[at] - 1;
    return NO_PLACE;
}

static bool take_seeds(const struct recall *w, uint64_t list, struct arena *work,
                       struct recall_seeds *s)
{
    uint64_t first = w->seed_offsets[list], slots = 64;
    *s = (struct recall_seeds){.ids = w->seed_ids + first,
                               .activations = w->seed_activations + first,
                               .nodes = w->seed_nodes + first,
                               .count = w->seed_offsets[list + 1] - first};
    while (slots < 2 * s->count)
        slots *= 2;
    s->mask = slots - 1;
    s->places = arena_take(work, s->count * sizeof *s->places);
    s->slots = arena_take(work, slots * sizeof *s->slots);
    if (!s->places || !s->slots) return false;
    yield_clear(s->slots, slots * sizeof *s->slots);
    for (uint32_t i = 0; i < s->count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        s->places[i] = NO_PLACE;
        if (s->nodes[i] == SPREAD_NO_NODE) continue;
        uint64_t at = slot_of(s, s->nodes[i]);
        while (s->slots[at])
            at = (at + 1) & s->mask;
        s->slots[at] = i + 1;
        s->spread++;
    }
    return true;
}

/* Finds the records of seeds among those that are at depth 0, or among the others. Returns how
 * many. */
static uint64_t find_records(const struct recall_seeds *s, const struct spread_record *records,
                             uint64_t count, bool at_seed)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        if ((records[i].depth == 0) != at_seed) continue;
        uint32_t seed = seed_at(s, records[i].node);
        if (seed == NO_PLACE) continue;
        s->places[seed] = (uint32_t)i;
        found++;
    }
    return found;
}

/* A spread keeps most seeds at depth 0; one that it dropped there may have been reached later. */
static void find_all_records(const struct recall_seeds *s, const struct spread_record *records,
                             uint64_t count)
{
    if (find_records(s, records, count, true) < s->spread) find_records(s, records, count, false);
}

/* The best by activation, and all seeds: nothing else can be among the best. */
static uint64_t add_candidates(const struct recall *w, const struct spread_ask *a,
                               const struct recall_seeds *s, const struct spread_record *records,
                               const struct spread_set *best, struct candidate *out)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < best->kept; i++) {
        const struct spread_record *r = &records[best->order[i]];
        if (seed_at(s, r->node) != NO_PLACE) continue;
        out[n++] =
            (struct candidate){a->graph.ids[r->node], r->activation, best->order[i], NO_PLACE};
    }
    for (uint32_t i = 0; i < s->count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        bool held = s->places[i] != NO_PLACE;
        float activation = held ? records[s->places[i]].activation : s->activations[i];
        float strength = recall_strength(activation, w->request->recall.boost);
        out[n++] = (struct candidate){s->ids[i], strength, s->places[i], i};
    }
    return n;
}

/* Sorts by falling strength, ties by rising id. */
static const struct radix_item *sort(const struct candidate *c, struct radix_item *items,
                                     struct radix_item *room, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        items[i] = (struct radix_item){c[i].id, (uint32_t)i};
    }
    struct radix_item *sorted = radix_sort(items, room, count);
    for (uint64_t i = 0; i < count; i++) { /* strengths are at least +0, so their bits rise */
        if (i % YIELD_EVERY == 0) yield_check();
        sorted[i].key = UINT32_MAX - canonical_bits(c[sorted[i].value].strength);
    }
    return radix_sort(sorted, sorted == items ? room : items, count);
}

/* What a seed has for a record that the spread does not hold. */
static struct spread_record record_without(float activation)
{
    return (struct spread_record){.node = SPREAD_NO_NODE,
                                  .parent = SPREAD_NO_NODE,
                                  .activation = activation,
                                  .confidence = activation};
}

static bool keep_best(const struct recall_seeds *s, const struct spread_record *records,
                      const struct candidate *c, const struct radix_item *sorted,
                      struct arena *keep, struct recall_list *list, struct spread_set *out)
{
    struct spread_record *kept = arena_take(keep, out->kept * sizeof *kept);
    uint64_t *ids = arena_take(keep, out->kept * sizeof *ids);
    uint8_t *marks = arena_take(keep, out->kept);
    if (!kept || !ids || !marks) return false;
    for (uint64_t i = 0; i < out->kept; i++) {
        const struct candidate *best = &c[sorted[i].value];
        bool seed = best->seed != NO_PLACE, held = best->record != NO_PLACE;
        kept[i] = held ? records[best->record] : record_without(s->activations[best->seed]);
        ids[i] = best->id;
        marks[i] = (uint8_t)((seed ? RECALL_SEED : 0) | (held ? RECALL_TOUCHED : 0));
    }
    *list = (struct recall_list){.ids = ids, .marks = marks, .spread = (uint32_t)s->spread};
    out->records = kept;
    out->order = NULL;
    return true;
}

bool recall_rank(void *owner, const struct spread_ask *a, uint64_t list,
                 const struct spread_record *records, uint64_t count, struct arena *keep,
                 struct arena *work, struct spread_set *out)
{
    struct recall *w = owner;
    struct recall_seeds s;
    struct spread_ask best = *a;
    uint64_t results = w->request->recall.results;
    if (!take_seeds(w, list, work, &s)) return false;
    /* A boost below 1 may put all seeds behind others. */
    best.k = w->request->recall.boost < 1 ? results + s.count : results;
    best.question.paths = false;
    find_all_records(&s, records, count);
    if (!spread_answer_set(&best, records, count, false, keep, work, out)) return false;
    uint64_t most = out->kept + s.count;
    struct candidate *c = arena_take(work, most * sizeof *c);
    struct radix_item *items = arena_take(work, 2 * most * sizeof *items);
    if (!c || !items) return false;
    uint64_t n = add_candidates(w, a, &s, records, out, c);
    const struct radix_item *sorted = sort(c, items, items + most, n);
    out->kept = smaller(n, results);
    return keep_best(&s, records, c, sorted, keep, &w->lists[list], out) &&
           (!a->question.paths || spread_answer_paths(a, records, count, keep, work, out));
}
