/* run_recall: recalls in one run: the rows nearest to the cues, the seeds that they make, a spread
 * from those and the best of what it touched, one after the other on one stream, without anything
 * coming back between them. A pass has as many lists of cues as take some milliseconds. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/gpu/replica_shadow.h"
#include "daemon/gpu/run.h"

enum { IN_CUES, IN_OFFSETS, IN_DECAY, IN_ALLOWED };
enum { OUT_TIMES, OUT_OUTCOMES, OUT_ENTRIES, OUT_PATHS };
/* Lists and cues of a pass; a longer list is one of its own. */
enum { PASS_LISTS_MAX = 256, PASS_CUES_MIN = 16, PASS_CUES_MAX = 1024 };
/* Results that are copied with the outcomes, whole or not: some microseconds, in place of another
 * way to the device and back. */
enum { EARLY_BYTES = 256 << 10 };
/* Records of all lists of a pass; but always enough for any one list. */
#define PASS_RECORDS_MAX (UINT64_C(2) << 20)

_Static_assert((int)ORDER_RECALL_RESULTS_MAX == (int)CUDA_RECALL_RESULTS_MAX &&
                   (int)PASS_LISTS_MAX <= (int)CUDA_RECALL_LISTS_MAX,
               "the kernels take what an order may ask");

/* What lies in the heap, copied once, so that what was checked is what is used. */
struct recall_asked {
    struct order_recall how;
    uint64_t *offsets;                   /* where each list's cues begin; behind this struct */
    uint32_t lists, lists_max, rows_max; /* of all; of a pass; likewise its cues */
    uint64_t room;                       /* records of a pass */
    struct recall_times times;           /* of the passes so far */
};

/* Where what a pass needs lies behind the scratch's start, a multiple of 256 each. The search's
 * scratch and the spread's share their place: one ends before the other begins. */
struct recall_places {
    uint64_t hit_ids, hit_scores, hit_counts, seed_ids, seed_activations, seeds, set_offsets;
    uint64_t set_ends, records, sets, own, tables, shared;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- out of the heap ---- */

static bool copy_offsets(const struct gpu *g, const struct order_run *r, struct recall_asked *a)
{
    const uint64_t *from =
        gpu_heap(g, r->offsets, (r->list_count + UINT64_C(1)) * sizeof *a->offsets);
    if (!from || r->offsets % sizeof *from) return false;
    memcpy(a->offsets, from, (r->list_count + 1) * sizeof *a->offsets);
    for (uint64_t i = 0; i < r->list_count; i++)
        if (a->offsets[i] > a->offsets[i + 1] ||
            a->offsets[i + 1] - a->offsets[i] > ORDER_RECALL_CUES_MAX ||
            (a->offsets[i + 1] - a->offsets[i]) * r->k > ORDER_RECALL_SEEDS_MAX)
            return false;
    return a->offsets[0] == 0 && a->offsets[r->list_count] == r->query_count;
}

static bool makes_sense(const struct task *t, const struct recall_asked *a)
{
    const struct order_run *r = &t->order.run;
    const struct order_recall *h = &a->how;
    const struct order_spread *s = &h->spread;
    bool rows = r->dimension == t->third->dimension && r->row_count == t->third->rows &&
                r->row_count >= 1 && r->row_count <= ORDER_SPREAD_ROWS_MAX;
    bool embeddings = !t->other || (t->other->dimension == s->dimension &&
                                    t->other->rows == s->row_count && s->dimension);
    if (!t->other && s->dimension)
        embeddings = s->dimension == r->dimension && s->row_count == r->row_count;
    return rows && embeddings && r->metric == METRIC_COSINE && r->k >= 1 && r->k <= TOPK_K_MAX &&
           h->results >= 1 && h->results <= ORDER_RECALL_RESULTS_MAX && h->width > 0 &&
           h->activation_min >= 0 && h->boost >= 0 && h->boost <= RECALL_BOOST_MAX &&
           r->threshold >= -1 && r->threshold <= 1 && run_spread_makes_sense(s) &&
           run_spread_fits(s, t->replica);
}

static enum order_result read_asked(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    const void *from = gpu_heap(g, r->segments, sizeof(struct order_recall));
    if (!from || r->list_count < 1 || r->list_count > ORDER_RECALL_LISTS_MAX || r->query_count < 1)
        return RESULT_REFUSED;
    uint64_t bytes = sizeof(struct recall_asked) + (r->list_count + 1) * sizeof(uint64_t);
    struct recall_asked *a = fault_here("run_recall: asked") ? NULL : malloc(bytes);
    if (!a) return RESULT_NO_MEMORY;
    *a = (struct recall_asked){.offsets = (uint64_t *)(a + 1), .lists = (uint32_t)r->list_count};
    t->recall = a;
    memcpy(&a->how, from, sizeof a->how);
    struct order_spread *s = &a->how.spread;
    s->set_count = 1;
    s->seed_count = 0;
    s->record_room = smaller(s->nodes, s->touched_max);
    return plan_sense(copy_offsets(g, r, a) && makes_sense(t, a));
}

/* ---- the plan ---- */

/* How many lists from `first` on a pass has. */
static uint32_t lists_of_pass(const struct recall_asked *a, uint32_t first, uint64_t cues_max)
{
    uint32_t end = first + 1;
    while (end < a->lists && end - first < a->lists_max &&
           a->offsets[end + 1] - a->offsets[first] <= cues_max)
        end++;
    return end - first;
}

static uint64_t cues_max_of(struct gpu *g, const struct order_run *r)
{
    uint64_t products = g->ops->multiply_adds(g->device) * (ORDER_PASS_NS / 1000);
    uint64_t cues = products / (r->row_count * r->dimension + 1);
    uint64_t held = ORDER_RECALL_SEEDS_MAX / r->k;
    if (cues > PASS_CUES_MAX) cues = PASS_CUES_MAX;
    if (cues < PASS_CUES_MIN) cues = PASS_CUES_MIN;
    return smaller(cues, held ? held : 1);
}

static uint64_t pass_cues(const struct task *t)
{
    const uint64_t *offsets = t->recall->offsets;
    return offsets[t->first_query + t->pass_queries] - offsets[t->first_query];
}

/* Cuts all lists into passes; sets what the largest of them needs. */
static void plan_passes(struct gpu *g, struct task *t)
{
    struct recall_asked *a = t->recall;
    const struct order_spread *s = &a->how.spread;
    uint64_t cues_max = cues_max_of(g, &t->order.run), most = 0, lists = 0;
    a->lists_max = PASS_LISTS_MAX;
    for (uint32_t first = 0, n; first < a->lists; first += n) {
        n = lists_of_pass(a, first, cues_max);
        uint64_t cues = a->offsets[first + n] - a->offsets[first];
        if (cues > most) most = cues;
        if (n > lists) lists = n;
    }
    a->lists_max = (uint32_t)lists;
    a->rows_max = (uint32_t)(most ? most : 1);
    uint64_t each = s->record_room;
    a->room = each > PASS_RECORDS_MAX / lists ? (each > PASS_RECORDS_MAX ? each : PASS_RECORDS_MAX)
                                              : each * lists;
    t->pass_queries = lists_of_pass(a, (uint32_t)t->first_query, a->rows_max);
    t->plan.paced = t->pass_queries < a->lists;
    /* What finds no room is tried again in a smaller pass. */
    t->plan.rereads = a->lists > 1;
}

static uint64_t add(uint64_t *bytes, uint64_t count, uint64_t size)
{
    return cuda_recall_add(bytes, count, size);
}

/* The shapes of the largest pass. */
static struct cuda_recall largest_of(const struct task *t)
{
    const struct recall_asked *a = t->recall;
    return (struct cuda_recall){.lists = a->lists_max,
                                .cues = a->rows_max,
                                .k = t->order.run.k,
                                .results = a->how.results,
                                .record_room = a->room,
                                .paths = (a->how.spread.flags & ORDER_SPREAD_PATHS) != 0,
                                .hops = a->how.spread.hops};
}

static struct recall_places places_of(const struct task *t)
{
    const struct recall_asked *a = t->recall;
    const struct cuda_recall r = largest_of(t);
    uint64_t seeds = r.cues * r.k, bytes = 0;
    struct recall_places p;
    p.hit_ids = add(&bytes, seeds, sizeof(uint64_t));
    p.hit_scores = add(&bytes, seeds, sizeof(float));
    p.hit_counts = add(&bytes, r.cues, sizeof(uint32_t));
    p.seed_ids = add(&bytes, seeds, sizeof(uint64_t));
    p.seed_activations = add(&bytes, seeds, sizeof(float));
    p.seeds = add(&bytes, seeds, sizeof(struct spread_seed));
    p.set_offsets = add(&bytes, r.lists, sizeof(uint64_t));
    p.set_ends = add(&bytes, r.lists, sizeof(uint64_t));
    p.records = add(&bytes, r.record_room, sizeof(struct spread_record));
    p.sets = add(&bytes, r.lists, sizeof(struct cuda_spread_set));
    p.own = add(&bytes, cuda_recall_layout_of(&r).bytes, 1);
    p.tables = add(&bytes, run_spread_table_bytes(&a->how.spread), 1);
    p.shared = bytes;
    return p;
}

static void plan_scratch(struct gpu *g, struct task *t)
{
    const struct recall_asked *a = t->recall;
    const struct order_spread *s = &a->how.spread;
    const struct order_run *r = &t->order.run;
    enum spread_mode mode = (enum spread_mode)s->mode;
    uint64_t own = places_of(t).shared;
    uint64_t search = g->ops->topk_scratch_min(a->rows_max, r->k, r->row_count);
    uint64_t spread = g->ops->spread_scratch_min(mode, s->nodes, s->edges, a->lists_max);
    t->plan.scratch_least = own + (search > spread ? search : spread);
    search = g->ops->topk_scratch_best(a->rows_max, r->k, r->row_count);
    if (a->rows_max == 1 && replica_shadow_helps(g, t->third, 1, r->k)) {
        uint64_t shadow = g->ops->shadow_scratch(1, r->k, r->row_count, r->dimension);
        if (shadow > search) search = shadow;
    }
    spread = g->ops->spread_scratch_best(mode, s->nodes, s->edges, a->lists_max);
    t->plan.scratch_best = own + (search > spread ? search : spread);
}

static bool plan_in_all(struct gpu *g, struct task *t)
{
    const struct recall_asked *a = t->recall;
    const struct order_spread *s = &a->how.spread;
    struct task_plan *p = &t->plan;
    uint64_t words = (s->nodes + UINT64_C(63)) / 64;
    if (!plan_queries(g, t)) return false;
    plan_in(p, (struct section){.host = (char *)a->offsets,
                                .bytes = (a->lists + UINT64_C(1)) * sizeof *a->offsets});
    return plan_in_at(g, p, s->decay, (s->hops + UINT64_C(1)) * sizeof(float)) &&
           (s->allowed == PLACE_NONE || plan_in_at(g, p, s->allowed, words * sizeof(uint64_t)));
}

static uint64_t path_bytes(const struct recall_asked *a)
{
    const struct order_spread *s = &a->how.spread;
    uint64_t bytes = a->how.results * (s->hops + UINT64_C(1)) * sizeof(uint32_t);
    return s->flags & ORDER_SPREAD_PATHS ? bytes : 0;
}

static bool plan_out_all(struct gpu *g, struct task *t)
{
    const struct order_run *r = &t->order.run;
    const struct recall_asked *a = t->recall;
    struct task_plan *p = &t->plan;
    uint64_t outcome = sizeof(struct recall_outcome);
    uint64_t entries = a->how.results * sizeof(struct recall_entry);
    if (!gpu_heap(g, a->how.out_times, sizeof(struct recall_times)) ||
        !gpu_heap(g, r->out_ids, r->list_count * outcome) ||
        !gpu_heap(g, r->out_scores, r->list_count * entries) ||
        (path_bytes(a) && !gpu_heap(g, r->out_counts, r->list_count * path_bytes(a))))
        return false;
    plan_out(p, (struct section){.bytes = sizeof(struct recall_times)});
    plan_out(p, (struct section){.bytes = a->lists_max * outcome});
    p->out_small = p->out_bytes;
    plan_out(p, (struct section){.bytes = a->lists_max * entries});
    if (path_bytes(a)) plan_out(p, (struct section){.bytes = a->lists_max * path_bytes(a)});
    if (p->out_bytes <= EARLY_BYTES) p->out_small = p->out_bytes;
    return true;
}

static enum order_result recall_plan(struct gpu *g, struct task *t)
{
    enum order_result result = t->recall ? RESULT_OK : read_asked(g, t);
    if (!result && !makes_sense(t, t->recall)) result = RESULT_REFUSED; /* while it waited */
    if (result) return result;
    plan_passes(g, t);
    if (!plan_in_all(g, t) || !plan_out_all(g, t)) return RESULT_REFUSED;
    plan_scratch(g, t);
    return RESULT_OK;
}

/* What its plan finds out: it knows the whole question. */
static bool recall_fits(const struct task *t, const struct replica *r)
{
    return r->dimension == 0;
}

/* ---- launching ---- */

static struct cuda_recall stages_of(const struct gpu *g, const struct task *t)
{
    const struct recall_asked *a = t->recall;
    const struct order_run *run = &t->order.run;
    const struct task_plan *p = &t->plan;
    const struct recall_places at = places_of(t);
    char *scratch = run_device_at(g, t, p->scratch_at);
    struct cuda_recall r = largest_of(t);
    bool filtered = a->how.spread.allowed != PLACE_NONE;
    r.lists = (uint32_t)t->pass_queries;
    r.first_cue = a->offsets[t->first_query];
    r.cues = pass_cues(t);
    r.cue_offsets = (const uint64_t *)run_device_at(g, t, p->in[IN_OFFSETS].at) + t->first_query;
    r.threshold = run->threshold;
    r.width = a->how.width;
    r.activation_min = a->how.activation_min;
    r.boost = a->how.boost;
    r.nodes = (const uint64_t *)t->replica->ranges[PART_IDS].base;
    r.node_count = a->how.spread.nodes;
    if (filtered) r.allowed = (const uint64_t *)run_device_at(g, t, p->in[IN_ALLOWED].at);
    r.hit_ids = (uint64_t *)(scratch + at.hit_ids);
    r.hit_scores = (float *)(scratch + at.hit_scores);
    r.hit_counts = (uint32_t *)(scratch + at.hit_counts);
    r.seed_ids = (uint64_t *)(scratch + at.seed_ids);
    r.seed_activations = (float *)(scratch + at.seed_activations);
    r.seeds = (struct spread_seed *)(scratch + at.seeds);
    r.set_offsets = (uint64_t *)(scratch + at.set_offsets);
    r.set_ends = (uint64_t *)(scratch + at.set_ends);
    r.records = (const struct spread_record *)(scratch + at.records);
    r.sets = (const struct cuda_spread_set *)(scratch + at.sets);
    r.rows = replica_rows(t->third);
    r.row_ids = replica_ids(t->third);
    r.queries = run_queries(g, t, r.first_cue, r.cues);
    r.scratch = scratch + at.own;
    r.outcomes = (struct recall_outcome *)run_out_at(g, t, OUT_OUTCOMES);
    r.entries = (struct recall_entry *)run_out_at(g, t, OUT_ENTRIES);
    if (r.paths) r.path_nodes = (uint32_t *)run_out_at(g, t, OUT_PATHS);
    r.times = (struct recall_times *)run_out_at(g, t, OUT_TIMES);
    return r;
}

/* The rows near to one cue are found through their shadow, where that helps; of several cues it
 * might leave some unanswered. */
static bool through_shadow(const struct gpu *g, const struct task *t, uint64_t cues,
                           uint64_t scratch_bytes)
{
    const struct order_run *r = &t->order.run;
    return cues == 1 && replica_shadow_helps(g, t->third, 1, r->k) &&
           g->ops->shadow_scratch(1, r->k, r->row_count, r->dimension) <= scratch_bytes;
}

static struct device_call search_of(const struct gpu *g, const struct task *t,
                                    const struct cuda_recall *r)
{
    uint64_t shared = places_of(t).shared;
    bool shadow = through_shadow(g, t, r->queries.count, t->plan.scratch_bytes - shared);
    struct device_call call = {
        .kernel = KERNEL_TOPK, .metric = METRIC_COSINE, .rows = r->rows, .queries = r->queries};
    if (shadow) call.kernel = KERNEL_SHADOW_TOPK;
    if (shadow) call.shadow = replica_shadow(t->third);
    call.topk = (struct cuda_topk){
        .k = r->k,
        .ids = r->row_ids,
        .threshold = &t->order.run.threshold,
        .scratch = run_device_at(g, t, t->plan.scratch_at + shared),
        .scratch_bytes = t->plan.scratch_bytes - shared,
        .out_ids = r->hit_ids,
        .out_scores = r->hit_scores,
        .out_counts = r->hit_counts,
    };
    return call;
}

static struct device_call spread_of(const struct gpu *g, const struct task *t,
                                    const struct cuda_recall *r)
{
    const struct order_spread *s = &t->recall->how.spread;
    const struct recall_places at = places_of(t);
    char *scratch = run_device_at(g, t, t->plan.scratch_at);
    const struct replica *embeddings = t->other ? t->other : s->dimension ? t->third : NULL;
    struct device_call call = {.kernel = KERNEL_SPREAD};
    call.spread = (struct cuda_spread){
        .graph = run_spread_graph(s, t->replica),
        .question = run_spread_question(s),
        .time_ns = run_spread_time_left(g, s->deadline_ns),
        .began_ns = cuda_recall_began(r),
        .set_offsets = r->set_offsets,
        .set_ends = r->set_ends,
        .set_count = r->lists,
        .record_room = r->record_room,
        .out_records = (struct spread_record *)(scratch + at.records),
        .out_sets = (struct cuda_spread_set *)(scratch + at.sets),
        .scratch = scratch + at.shared,
        .scratch_bytes = t->plan.scratch_bytes - at.shared,
        .embeddings = run_spread_embeddings(embeddings, scratch + at.tables),
    };
    call.spread.question.decay = (const float *)run_device_at(g, t, t->plan.in[IN_DECAY].at);
    call.spread.question.allowed = r->allowed;
    call.spread.question.seeds = r->seeds;
    call.spread.question.seed_count = r->cues * r->k;
    return call;
}

static enum device_result recall_launch(struct gpu *g, struct task *t)
{
    const struct cuda_recall r = stages_of(g, t);
    const struct device_call stages[] = {
        {.kernel = KERNEL_RECALL_BEGIN, .recall = r}, search_of(g, t, &r),
        {.kernel = KERNEL_RECALL_SEEDS, .recall = r}, spread_of(g, t, &r),
        {.kernel = KERNEL_RECALL_BEST, .recall = r},
    };
    enum device_result result = DEVICE_OK;
    for (size_t i = 0; result == DEVICE_OK && i < sizeof stages / sizeof *stages; i++)
        result = g->ops->launch(g->device, &stages[i], t->lane->stream);
    return result;
}

/* ---- the way back ---- */

static bool is_whole(const struct task *t, const char *small)
{
    const char *at = small + t->plan.out[OUT_OUTCOMES].at;
    for (uint64_t i = 0; i < t->pass_queries; i++) {
        struct recall_outcome o;
        memcpy(&o, at + i * sizeof o, sizeof o);
        if (o.undone) return false;
    }
    return true;
}

/* Gives what a pass has of a result, `each` bytes for each list. */
static void give(struct gpu *g, struct task *t, uint32_t out, uint64_t place, uint64_t each,
                 const char *small)
{
    struct section s = t->plan.out[out];
    s.bytes = t->pass_queries * each;
    s.host = gpu_heap(g, place + t->first_query * each, s.bytes);
    run_give(g, t, &s, small);
}

static void add_times(struct gpu *g, struct task *t, const char *small)
{
    struct recall_asked *a = t->recall;
    struct recall_times took;
    memcpy(&took, small + t->plan.out[OUT_TIMES].at, sizeof took);
    a->times.seeds_ns += took.seeds_ns;
    a->times.best_ns += took.best_ns;
    memcpy(gpu_heap(g, a->how.out_times, sizeof a->times), &a->times, sizeof a->times);
}

/* Several lists, of which some found no room, are tried again in smaller passes. */
static enum order_result recall_drain(struct gpu *g, struct task *t, const char *small)
{
    const struct order_run *r = &t->order.run;
    struct recall_asked *a = t->recall;
    add_times(g, t, small);
    if (!is_whole(t, small)) {
        if (t->pass_queries == 1) return RESULT_NO_MEMORY;
        a->lists_max = (uint32_t)t->pass_queries / 2;
        t->pass_queries = 0; /* this pass has no lists to go on behind */
        return RESULT_OK;
    }
    give(g, t, OUT_OUTCOMES, r->out_ids, sizeof(struct recall_outcome), small);
    give(g, t, OUT_ENTRIES, r->out_scores, a->how.results * sizeof(struct recall_entry), small);
    if (path_bytes(a)) give(g, t, OUT_PATHS, r->out_counts, path_bytes(a), small);
    return RESULT_OK;
}

static bool recall_next(struct gpu *g, struct task *t)
{
    struct recall_asked *a = t->recall;
    t->first_query += t->pass_queries;
    if (t->first_query == a->lists) return false;
    t->pass_queries = lists_of_pass(a, (uint32_t)t->first_query, a->rows_max);
    return true;
}

static double recall_part(const struct task *t)
{
    return (double)pass_cues(t) / (double)t->order.run.query_count;
}

const struct run_kind run_recall = {
    .plan = recall_plan,
    .fits = recall_fits,
    .launch = recall_launch,
    .drain = recall_drain,
    .next = recall_next,
    .part = recall_part,
};
