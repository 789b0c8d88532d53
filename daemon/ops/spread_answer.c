#include "daemon/ops/spread_answer.h"

#include "daemon/base/yield.h"
#include "daemon/ops/operation_inside.h"
#include "daemon/ops/radix.h"

/* Of so many records, one after the other, the first looks at what others wait for; of so many
 * entries of a reply; of so many paths, each of which leads anywhere in memory. */
enum { YIELD_EVERY = 1 << 12, YIELD_ENTRIES = 1 << 11, YIELD_PATHS = 1 << 7 };

static void yield_at(uint64_t i)
{
    if (i % YIELD_EVERY == 0) yield_check();
}

/* ---- order ---- */

/* Activations lie in [0, 1], so keys are below 2^30; the highest activation has the lowest key. */
enum { ONE_BITS = 0x3f800000, BUCKET_SHIFT = 19, BUCKETS = 1 << (30 - BUCKET_SHIFT) };

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static uint32_t key_of(float activation)
{
    uint32_t bits = bits_of(activation);
    return bits < ONE_BITS ? ONE_BITS - bits : 0;
}

/* Returns the lowest bucket border below which the k highest activations lie. */
static uint32_t cut_of(const struct spread_record *records, uint64_t count, uint64_t k)
{
    uint32_t held[BUCKETS] = {0}; /* records are fewer than 2^32 */
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        yield_at(i);
        held[key_of(records[i].activation) >> BUCKET_SHIFT]++;
    }
    uint32_t bucket = 0;
    while (bucket < BUCKETS && (sum += held[bucket++]) < k)
        ;
    return bucket << BUCKET_SHIFT;
}

static uint64_t collect(const struct spread_record *records, uint64_t count, uint64_t k,
                        struct radix_item *items)
{
    uint32_t cut = k < count ? cut_of(records, count, k) : UINT32_MAX;
    uint64_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        yield_at(i);
        uint32_t key = key_of(records[i].activation);
        if (key < cut) items[n++] = (struct radix_item){key, (uint32_t)i};
    }
    return n;
}

/* Sorts runs of equal activation by rising id, as far as they are kept. */
static void sort_ties(const struct spread_ask *a, const struct spread_record *records,
                      struct radix_item *items, struct radix_item *room, uint64_t n, uint64_t kept)
{
    for (uint64_t first = 0, end; first < kept; first = end) {
        yield_at(first);
        end = first + 1;
        while (end < n && items[end].key == items[first].key)
            yield_at(end++);
        uint64_t run = end - first;
        if (run == 1) continue;
        for (uint64_t i = first; i < end; i++) {
            yield_at(i);
            items[i].key = a->graph.ids[records[items[i].value].node];
        }
        struct radix_item *sorted = radix_sort(items + first, room + first, run);
        for (uint64_t i = 0; sorted != items + first && i < run; i++) {
            yield_at(i);
            items[first + i] = sorted[i];
        }
    }
}

/* ---- sums by tier ---- */

/* True if the binary64 sum of so many activations is exact in any order: all of them are multiples
 * of one power of 2, and the sum is at most their number. */
static bool sums_are_exact(const struct spread_record *records, uint64_t count)
{
    uint32_t least = ONE_BITS;
    for (uint64_t i = 0; i < count; i++) {
        yield_at(i);
        uint32_t bits = bits_of(records[i].activation);
        if (bits && bits < least) least = bits;
    }
    uint32_t exponent = least >> 23 ? least >> 23 : 1; /* multiples of 2^(exponent - 150) */
    uint32_t carry = count ? 64 - (uint32_t)__builtin_clzll(count) : 0;
    return carry + 150 <= 53 + exponent;
}

static void add_to(double sums[SPREAD_TIERS], const struct spread_record *r)
{
    sums[spread_tier_of(r->depth)] += (double)r->activation;
}

/* True if the sums of so many non-negative numbers round to the same floats in whatever order they
 * were added. In binary64 any order comes within n 2^-53 (and a little) of the exact sum,
 * relatively, so two orders within twice that of each other. A somewhat larger interval is
 * tested. */
static bool sums_are_sure(const double sums[SPREAD_TIERS], uint64_t count)
{
    for (int tier = 0; tier < SPREAD_TIERS; tier++) {
        double off = sums[tier] * (((double)count + 8) * 0x1.1p-52);
        if ((float)(sums[tier] - off) != (float)(sums[tier] + off)) return false;
    }
    return true;
}

static void sum_tiers(const struct spread_ask *a, const struct spread_record *records,
                      uint64_t count, struct radix_item *items, struct radix_item *room,
                      struct spread_set *out)
{
    double sums[SPREAD_TIERS] = {0};
    for (uint64_t i = 0; i < count; i++) {
        yield_at(i);
        add_to(sums, &records[i]);
    }
    if (!sums_are_sure(sums, count) && !sums_are_exact(records, count)) {
        memset(sums, 0, sizeof sums);
        for (uint64_t i = 0; i < count; i++) {
            yield_at(i);
            items[i] = (struct radix_item){a->graph.ids[records[i].node], (uint32_t)i};
        }
        const struct radix_item *sorted = radix_sort(items, room, count);
        for (uint64_t i = 0; i < count; i++) {
            yield_at(i);
            add_to(sums, &records[sorted[i].value]);
        }
    }
    for (int tier = 0; tier < SPREAD_TIERS; tier++)
        out->tier_sums[tier] = (float)sums[tier];
}

/* ---- paths ---- */

/* Finds the record of a node: a table by hash, or by node if the table is large enough. */
struct trail {
    const struct spread_record *records;
    uint32_t *slots; /* place + 1; 0: empty */
    uint64_t mask;
    bool by_node;
};

static uint64_t slot_of(const struct trail *t, uint32_t node)
{
    return t->by_node ? node : (node * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & t->mask;
}

static const struct spread_record *trail_find(const struct trail *t, uint32_t node)
{
    for (uint64_t s = slot_of(t, node); t->slots[s]; s = (s + 1) & t->mask)
        if (t->records[t->slots[s] - 1].node == node) return &t->records[t->slots[s] - 1];
    return NULL;
}

static bool trail_init(struct trail *t, const struct spread_ask *a,
                       const struct spread_record *records, uint64_t count, struct arena *work)
{
    uint64_t slots = 64;
    while (slots < 2 * count)
        slots *= 2;
    *t = (struct trail){.records = records, .mask = slots - 1, .by_node = slots >= a->graph.nodes};
    t->slots = arena_take(work, slots * sizeof *t->slots);
    if (!t->slots) return false;
    yield_clear(t->slots, slots * sizeof *t->slots);
    for (uint64_t i = 0; i < count; i++) {
        yield_at(i);
        uint64_t s = slot_of(t, records[i].node);
        while (t->slots[s])
            s = (s + 1) & t->mask;
        t->slots[s] = (uint32_t)i + 1;
    }
    return true;
}

/* Walks from a record to a seed. Each parent was touched before, so a path has at most hops + 1
 * nodes. */
static uint32_t walk(const struct trail *t, uint32_t hops, const struct spread_record *r,
                     uint32_t nodes[SPREAD_HOPS_MAX + 1])
{
    uint32_t length = 0;
    for (; r && length <= hops; length++) {
        nodes[length] = r->node;
        r = r->parent == SPREAD_NO_NODE ? NULL : trail_find(t, r->parent);
    }
    return length;
}

static const struct spread_record *kept_record(const struct spread_set *s, uint64_t i)
{
    return &s->records[s->order ? s->order[i] : i];
}

bool spread_answer_paths(const struct spread_ask *a, const struct spread_record *records,
                         uint64_t count, struct arena *keep, struct arena *work,
                         struct spread_set *out)
{
    struct trail t;
    uint32_t nodes[SPREAD_HOPS_MAX + 1], hops = a->question.hops;
    uint64_t *ends = arena_take(keep, out->kept * sizeof *ends), sum = 0;
    if (!ends || !trail_init(&t, a, records, count, work)) return false;
    for (uint64_t i = 0; i < out->kept; i++) {
        if (i % YIELD_PATHS == 0) yield_check();
        ends[i] = sum += walk(&t, hops, kept_record(out, i), nodes);
    }
    uint32_t *path_nodes = arena_take(keep, sum * sizeof *path_nodes);
    if (!path_nodes) return false;
    uint64_t at = 0;
    for (uint64_t i = 0; i < out->kept; i++) {
        if (i % YIELD_PATHS == 0) yield_check();
        for (uint32_t left = walk(&t, hops, kept_record(out, i), nodes); left; left--)
            path_nodes[at++] = nodes[left - 1];
    }
    out->path_ends = ends;
    out->path_nodes = path_nodes;
    return true;
}

/* ---- one set ---- */

/* Copies the kept records, or only notes their places. */
static bool keep_best(const struct spread_record *records, const struct radix_item *items,
                      bool copy, struct arena *keep, struct spread_set *out)
{
    if (!copy) {
        uint32_t *order = arena_take(keep, out->kept * sizeof *order);
        for (uint64_t i = 0; order && i < out->kept; i++) {
            yield_at(i);
            order[i] = items[i].value;
        }
        out->records = records;
        out->order = order;
        return order;
    }
    struct spread_record *copies = arena_take(keep, out->kept * sizeof *copies);
    for (uint64_t i = 0; copies && i < out->kept; i++) {
        yield_at(i);
        copies[i] = records[items[i].value];
    }
    out->records = copies;
    out->order = NULL;
    return copies;
}

bool spread_answer_set(const struct spread_ask *a, const struct spread_record *records,
                       uint64_t count, bool copy, struct arena *keep, struct arena *work,
                       struct spread_set *out)
{
    struct radix_item *items = arena_take(work, count * sizeof *items);
    struct radix_item *room = arena_take(work, count * sizeof *room);
    if (!items || !room) return false;
    out->touched = count;
    sum_tiers(a, records, count, items, room, out);
    uint64_t n = collect(records, count, a->k, items);
    out->kept = smaller(n, a->k);
    struct radix_item *sorted = radix_sort(items, room, n);
    sort_ties(a, records, sorted, sorted == items ? room : items, n, out->kept);
    return keep_best(records, sorted, copy, keep, out) &&
           (!a->question.paths || spread_answer_paths(a, records, count, keep, work, out));
}

/* ---- the reply, in the order of SpreadReply's fields ---- */

static enum status take_result(struct job *j, uint64_t sets, uint64_t entries, uint64_t path_nodes)
{
    operation_shape(j, RESULT_SPREAD_OFFSETS, DTYPE_UINT64, sets + 1, 1);
    operation_shape(j, RESULT_SPREAD_IDS, DTYPE_UINT64, entries, 1);
    operation_shape(j, RESULT_SPREAD_ACTIVATIONS, DTYPE_FLOAT32, entries, 1);
    operation_shape(j, RESULT_SPREAD_CONFIDENCES, DTYPE_FLOAT32, entries, 1);
    operation_shape(j, RESULT_SPREAD_VISITS, DTYPE_UINT32, entries, 1);
    operation_shape(j, RESULT_SPREAD_DEPTHS, DTYPE_UINT32, entries, 1);
    operation_shape(j, RESULT_SPREAD_TOUCHED, DTYPE_UINT64, sets, 1);
    operation_shape(j, RESULT_SPREAD_CYCLES, DTYPE_UINT64, sets, 1);
    operation_shape(j, RESULT_SPREAD_TRUNCATED, DTYPE_UINT8, sets, 1);
    operation_shape(j, RESULT_SPREAD_TIER_SUMS, DTYPE_FLOAT32, sets, SPREAD_TIERS);
    if (!j->request.spread.paths) return operation_take_result(j, RESULT_SPREAD_PATH_OFFSETS);
    operation_shape(j, RESULT_SPREAD_PATH_OFFSETS, DTYPE_UINT64, entries + 1, 1);
    operation_shape(j, RESULT_SPREAD_PATH_IDS, DTYPE_UINT64, path_nodes, 1);
    return operation_take_result(j, RESULTS_Spread);
}

enum status spread_answer_place(struct job *j, const struct spread_ask *a, struct spread_set *sets)
{
    bool paths = j->request.spread.paths;
    uint64_t entries = 0, path_nodes = 0;
    for (uint64_t i = 0; i < a->set_count; i++) {
        yield_at(i);
        sets[i].first = entries;
        entries += sets[i].kept;
        sets[i].path_first = path_nodes;
        if (paths && sets[i].kept) path_nodes += sets[i].path_ends[sets[i].kept - 1];
    }
    enum status st = take_result(j, a->set_count, entries, path_nodes);
    if (st) return st;
    const struct tensor *t = j->result.tensors;
    uint64_t *offsets = t[RESULT_SPREAD_OFFSETS].data;
    offsets[0] = 0;
    for (uint64_t i = 0; i < a->set_count; i++) {
        yield_at(i);
        offsets[i + 1] = offsets[i] + sets[i].kept;
        ((uint64_t *)t[RESULT_SPREAD_TOUCHED].data)[i] = sets[i].touched;
        ((uint64_t *)t[RESULT_SPREAD_CYCLES].data)[i] = sets[i].cycles;
        ((uint8_t *)t[RESULT_SPREAD_TRUNCATED].data)[i] = sets[i].truncated;
        memcpy((float *)t[RESULT_SPREAD_TIER_SUMS].data + i * SPREAD_TIERS, sets[i].tier_sums,
               sizeof sets[i].tier_sums);
    }
    if (paths) ((uint64_t *)t[RESULT_SPREAD_PATH_OFFSETS].data)[0] = 0;
    return STATUS_OK;
}

uint64_t spread_answer_entries(const struct job *j)
{
    return j->result.tensors[RESULT_SPREAD_IDS].rows;
}

static float confidence_of(const struct spread_ask *a, const struct spread_record *r)
{
    static const float factors[SPREAD_TIERS] = {1.0f, 0.95f, 0.9f};
    if (a->question.mode != SPREAD_ENGRAM) return r->confidence;
    return canonical_multiply(r->confidence, factors[spread_tier_of(r->depth)]);
}

static void write_path(struct job *j, const struct spread_ask *a, const struct spread_set *s,
                       uint64_t i, uint64_t entry)
{
    const struct tensor *t = j->result.tensors;
    uint64_t *ids = (uint64_t *)t[RESULT_SPREAD_PATH_IDS].data + s->path_first;
    for (uint64_t at = i ? s->path_ends[i - 1] : 0; at < s->path_ends[i]; at++)
        ids[at] = a->graph.ids[s->path_nodes[at]];
    ((uint64_t *)t[RESULT_SPREAD_PATH_OFFSETS].data)[entry + 1] = s->path_first + s->path_ends[i];
}

static void write_entry(struct job *j, const struct spread_ask *a, const struct spread_record *r,
                        uint64_t entry)
{
    const struct tensor *t = j->result.tensors;
    ((uint64_t *)t[RESULT_SPREAD_IDS].data)[entry] = a->graph.ids[r->node];
    ((float *)t[RESULT_SPREAD_ACTIVATIONS].data)[entry] = r->activation;
    ((float *)t[RESULT_SPREAD_CONFIDENCES].data)[entry] = confidence_of(a, r);
    ((uint32_t *)t[RESULT_SPREAD_VISITS].data)[entry] = r->visits;
    ((uint32_t *)t[RESULT_SPREAD_DEPTHS].data)[entry] = r->depth;
}

/* Returns the set that an entry of the reply belongs to. */
static uint64_t set_of(const struct spread_set *s, uint64_t sets, uint64_t entry)
{
    uint64_t low = 0, high = sets;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (s[middle].first + s[middle].kept > entry)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void spread_answer_write(struct job *j, const struct spread_ask *a, const struct spread_set *sets,
                         uint64_t first, uint64_t end)
{
    uint64_t set = set_of(sets, a->set_count, first);
    uint64_t often = j->request.spread.paths ? YIELD_PATHS : YIELD_ENTRIES;
    for (uint64_t entry = first; entry < end; entry++) {
        if (entry % often == 0) yield_check();
        while (sets[set].first + sets[set].kept <= entry)
            set++;
        uint64_t i = entry - sets[set].first;
        write_entry(j, a, kept_record(&sets[set], i), entry);
        if (j->request.spread.paths) write_path(j, a, &sets[set], i, entry);
    }
}
