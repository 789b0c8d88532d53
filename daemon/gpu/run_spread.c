/* run_spread: spreads over a graph. The results of the sets are copied first, with as many records
 * as cost no extra time; all records follow if there are more. Many sets go in passes: the device
 * begins no further set after ORDER_PASS_NS, and what is left is for the next. */
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/run.h"

enum { IN_SEEDS, IN_OFFSETS, IN_DECAY, IN_ALLOWED };
enum { OUT_SETS, OUT_RECORDS };
#define NODES_MAX   (UINT64_C(1) << 31)
#define RECORDS_MAX (UINT64_C(1) << 40)

/* Records that are copied with the sets, whether they are used or not: some microseconds. An edge
 * is thought to take as long as that many multiply-adds, and a node as two edges. */
enum { EARLY_BYTES = 64 << 10, EDGE_PAIRS = 512 };

/* ---- the plan ---- */

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* True if products of these numbers cannot overflow. */
bool run_spread_makes_sense(const struct order_spread *s)
{
    return (s->mode == SPREAD_LINEAR || s->mode == SPREAD_ENGRAM) && s->fan <= SPREAD_FAN_DIVIDE &&
           s->flags <= (ORDER_SPREAD_IGNORE_KINDS | ORDER_SPREAD_LAST_HOP | ORDER_SPREAD_PATHS) &&
           s->hops >= 1 && s->hops <= SPREAD_HOPS_MAX && s->nodes >= 1 && s->nodes <= NODES_MAX &&
           s->set_count >= 1 && s->set_count <= ORDER_SPREAD_SETS_MAX && s->touched_max >= 1 &&
           s->dimension <= (s->mode == SPREAD_ENGRAM ? VECTOR_DIMENSION_MAX : 0) &&
           (!s->dimension || (s->row_count >= 1 && s->row_count <= ORDER_SPREAD_ROWS_MAX)) &&
           s->seed_count <= UINT64_C(1) << 40 && s->record_room <= RECORDS_MAX &&
           s->record_room >= smaller(s->nodes, s->touched_max);
}

bool run_spread_fits(const struct order_spread *s, const struct replica *r)
{
    uint64_t most = smaller(r->part_bytes[PART_OUT_EDGES], r->part_bytes[PART_IN_EDGES]);
    return r->dimension == 0 &&
           r->part_bytes[PART_OUT] == s->nodes * (uint64_t)sizeof(struct spread_list) &&
           s->edges <= most / sizeof(struct spread_edge);
}

static bool spread_fits(const struct task *t, const struct replica *r)
{
    return run_spread_fits(&t->order.spread, r);
}

/* The tables of embeddings lie before the scratch of the spread itself. */
uint64_t run_spread_table_bytes(const struct order_spread *s)
{
    return s->dimension ? cuda_embeddings_bytes(s->row_count, s->nodes) : 0;
}

static bool plan_in_all(struct gpu *g, struct task *t)
{
    const struct order_spread *s = &t->order.spread;
    struct task_plan *p = &t->plan;
    uint64_t words = (s->nodes + UINT64_C(63)) / 64;
    return plan_numbers(g, p, s->seeds, s->seed_count * sizeof(struct spread_seed), NUMBERS_SEEDS,
                        s->nodes) &&
           plan_numbers(g, p, s->set_offsets, (s->set_count + UINT64_C(1)) * sizeof(uint64_t),
                        NUMBERS_OFFSETS, s->seed_count) &&
           plan_in_at(g, p, s->decay, (s->hops + UINT64_C(1)) * sizeof(float)) &&
           (s->allowed == PLACE_NONE || plan_in_at(g, p, s->allowed, words * sizeof(uint64_t)));
}

/* The multiply-adds that so many sets are worth if each of them reaches all nodes. */
static double worth_of(const struct order_spread *s, uint32_t sets)
{
    return (double)sets * s->hops * ((double)s->edges + 2.0 * s->nodes) * EDGE_PAIRS;
}

/* True if the sets are thought to take several passes: the graph is to stay as it is then. What is
 * known of it are its last spreads, most of which reach some nodes only. */
static bool lasts_long(const struct gpu *g, const struct task *t)
{
    const struct order_spread *s = &t->order.spread;
    uint64_t known = t->replica->spreads;
    double rate = (double)(known ? known : g->ops->multiply_adds(g->device));
    return worth_of(s, s->set_count) > rate * (ORDER_PASS_NS / 1000);
}

static enum order_result spread_plan(struct gpu *g, struct task *t)
{
    const struct order_spread *s = &t->order.spread;
    struct task_plan *p = &t->plan;
    if (!run_spread_makes_sense(s) || !plan_in_all(g, t)) return RESULT_REFUSED;
    uint64_t sets = s->set_count, records = s->record_room * sizeof(struct spread_record);
    char *out_sets = gpu_heap(g, s->out_sets, sets * sizeof(struct order_spread_set));
    if (!out_sets || s->out_sets % sizeof(uint64_t) || s->out_records % sizeof(uint32_t))
        return RESULT_REFUSED;
    plan_out(p, (struct section){.host = out_sets, .bytes = sets * sizeof(struct cuda_spread_set)});
    p->out_small = p->out_bytes + smaller(records, EARLY_BYTES);
    if (!plan_out_at(g, p, s->out_records, records)) return RESULT_REFUSED;
    enum spread_mode mode = (enum spread_mode)s->mode;
    p->scratch_least = run_spread_table_bytes(s) +
                       g->ops->spread_scratch_min(mode, s->nodes, s->edges, s->set_count);
    p->scratch_best = run_spread_table_bytes(s) +
                      g->ops->spread_scratch_best(mode, s->nodes, s->edges, s->set_count);
    p->paced = s->set_count > 1;
    p->rereads = p->paced && lasts_long(g, t);
    return RESULT_OK;
}

/* ---- launching ---- */

struct spread_graph run_spread_graph(const struct order_spread *s, const struct replica *r)
{
    const struct device_range *at = r->ranges;
    return (struct spread_graph){
        .nodes = s->nodes,
        .edges = s->edges,
        .out = (const struct spread_list *)at[PART_OUT].base,
        .in = (const struct spread_list *)at[PART_IN].base,
        .out_edges = (const struct spread_edge *)at[PART_OUT_EDGES].base,
        .in_edges = (const struct spread_edge *)at[PART_IN_EDGES].base,
        .ids = (const uint64_t *)at[PART_IDS].base,
        .kinds = r->part_bytes[PART_KINDS] ? (const uint8_t *)at[PART_KINDS].base : NULL,
        .factors = r->part_bytes[PART_FACTORS] ? (const float *)at[PART_FACTORS].base : NULL,
        .order = (const uint32_t *)at[PART_ORDER].base,
        .grid = {s->grid_high, s->grid_low},
    };
}

struct spread_question run_spread_question(const struct order_spread *s)
{
    return (struct spread_question){
        .mode = (enum spread_mode)s->mode,
        .fan = (enum spread_fan)s->fan,
        .ignore_kinds = s->flags & ORDER_SPREAD_IGNORE_KINDS,
        .last_hop = s->flags & ORDER_SPREAD_LAST_HOP,
        .paths = s->flags & ORDER_SPREAD_PATHS,
        .hops = s->hops,
        .thresholds = {s->thresholds[0], s->thresholds[1], s->thresholds[2]},
        .touched_max = s->touched_max,
        .seed_count = s->seed_count,
    };
}

static struct spread_question question_of(const struct gpu *g, const struct task *t)
{
    const struct order_spread *s = &t->order.spread;
    const struct section *in = t->plan.in;
    struct spread_question q = run_spread_question(s);
    q.decay = (const float *)run_device_at(g, t, in[IN_DECAY].at);
    if (s->allowed != PLACE_NONE)
        q.allowed = (const uint64_t *)run_device_at(g, t, in[IN_ALLOWED].at);
    q.seeds = (const struct spread_seed *)run_device_at(g, t, in[IN_SEEDS].at);
    return q;
}

uint64_t run_spread_time_left(const struct gpu *g, uint64_t deadline_ns)
{
    uint64_t now_ns = clock_read_ns(g->clock);
    if (!deadline_ns) return 0;
    return deadline_ns > now_ns ? deadline_ns - now_ns : 1;
}

struct cuda_embeddings run_spread_embeddings(const struct replica *r, void *tables)
{
    if (!r) return (struct cuda_embeddings){0};
    struct cuda_rows rows = replica_rows(r);
    return (struct cuda_embeddings){.rows = rows.rows,
                                    .norms = rows.norms,
                                    .ids = replica_ids(r),
                                    .count = rows.count,
                                    .dimension = rows.dimension,
                                    .tables = tables};
}

static enum device_result spread_launch(struct gpu *g, struct task *t)
{
    const struct order_spread *s = &t->order.spread;
    const struct task_plan *p = &t->plan;
    struct device_call call = {.kernel = KERNEL_SPREAD};
    if (!t->rounds_done) t->sets_left = s->set_count;
    t->pass_began_ns = clock_read_ns(g->clock);
    call.spread = (struct cuda_spread){
        .graph = run_spread_graph(s, t->replica),
        .question = question_of(g, t),
        .time_ns = run_spread_time_left(g, s->deadline_ns),
        .set_offsets = (const uint64_t *)run_device_at(g, t, p->in[IN_OFFSETS].at),
        .set_count = s->set_count,
        .record_room = s->record_room,
        .out_records = (struct spread_record *)run_out_at(g, t, OUT_RECORDS),
        .out_sets = (struct cuda_spread_set *)run_out_at(g, t, OUT_SETS),
        .scratch = run_device_at(g, t, p->scratch_at + run_spread_table_bytes(s)),
        .scratch_bytes = p->scratch_bytes - run_spread_table_bytes(s),
        .embeddings = run_spread_embeddings(t->other, run_device_at(g, t, p->scratch_at)),
        .pass_ns = p->paced ? ORDER_PASS_NS : 0,
        .again = t->rounds_done > 0,
    };
    return g->ops->launch(g->device, &call, t->lane->stream);
}

/* ---- the way back ---- */

/* *records: the end of the last set's records. */
static enum order_result give_sets(const struct task *t, const struct cuda_spread_set *sets,
                                   uint64_t *records)
{
    const struct order_spread *s = &t->order.spread;
    struct order_spread_set *to = (struct order_spread_set *)t->plan.out[OUT_SETS].host;
    uint32_t left = 0;
    for (uint32_t i = 0; i < s->set_count; i++) {
        if (sets[i].no_memory) {
            to[i] = (struct order_spread_set){.no_room = NO_ROOM_WORK};
            left++;
            continue;
        }
        uint64_t first = sets[i].first_record, count = sets[i].record_count;
        if (first > s->record_room || count > s->record_room - first) return RESULT_ERROR;
        if (count && first + count > *records) *records = first + count;
        to[i] = (struct order_spread_set){.first_record = first,
                                          .record_count = count,
                                          .cycles = sets[i].cycles,
                                          .hops_done = sets[i].hops_done,
                                          .truncated = sets[i].truncated,
                                          .no_room = sets[i].no_room ? NO_ROOM_RECORDS : 0};
        left += to[i].no_room != 0;
    }
    return left == s->set_count ? RESULT_NO_MEMORY : RESULT_OK;
}

/* Remembers how fast the sets of a graph are. A short pass does not fill the device and tells
 * nothing, unless it was faster; a slower one is believed at once. */
static void learn_rate(const struct gpu *g, const struct task *t, uint32_t sets)
{
    uint64_t took_ns = clock_read_ns(g->clock) - t->pass_began_ns, us = took_ns / 1000;
    uint64_t *known = &t->replica->spreads;
    uint64_t rate = us ? (uint64_t)(worth_of(&t->order.spread, sets) / (double)us) : 0;
    if (!rate || (took_ns < ORDER_PASS_NS / 2 && rate < *known)) return;
    *known = rate < *known ? rate : (*known + rate) / 2;
}

static uint32_t count_left(const struct cuda_spread_set *sets, uint32_t count)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++)
        left += sets[i].no_memory >= CUDA_SPREAD_LEFT;
    return left;
}

/* Finds out how many sets are for the next pass. If the graph has changed meanwhile because it was
 * thought that there is none, what is left is the CPU's. */
static enum order_result end_pass(struct gpu *g, struct task *t, const struct cuda_spread_set *sets)
{
    uint32_t before = t->sets_left, left = count_left(sets, t->order.spread.set_count);
    if (left >= before) return RESULT_ERROR; /* each pass runs one at least */
    if (t->plan.paced) learn_rate(g, t, before - left);
    t->sets_left = left && run_reread(t) ? left : 0;
    return RESULT_OK;
}

/* Of what is left as much as a pass is long. */
static double spread_part(const struct task *t)
{
    double left = (double)t->sets_left / t->order.spread.set_count;
    double most = (double)ORDER_PASS_NS / ((double)t->order.foreseen_ns + 1);
    return t->plan.paced && most < left ? most : left;
}

static bool spread_next(struct gpu *g, struct task *t)
{
    t->rounds_done++;
    return t->sets_left > 0;
}

static enum order_result spread_drain(struct gpu *g, struct task *t, const char *out)
{
    const struct task_plan *p = &t->plan;
    const struct cuda_spread_set *sets =
        (const struct cuda_spread_set *)(out + p->out[OUT_SETS].at);
    const struct section *records = &p->out[OUT_RECORDS];
    uint64_t count = 0, early = p->out_small - records->at;
    enum order_result result = end_pass(g, t, sets);
    if (result || t->sets_left) return result;
    result = give_sets(t, sets, &count);
    struct section all = {.host = records->host, .bytes = count * sizeof(struct spread_record)};
    if (result || !count) return result;
    if (all.bytes <= early)
        memcpy(all.host, out + records->at, all.bytes);
    else
        t->out.moves[t->out.move_count++] =
            (struct move){.from = all, .device = run_out_at(g, t, OUT_RECORDS)};
    return RESULT_OK;
}

const struct run_kind run_spread = {
    .plan = spread_plan,
    .fits = spread_fits,
    .launch = spread_launch,
    .drain = spread_drain,
    .next = spread_next,
    .part = spread_part,
};
