/* spread_gpu: a spread on a GPU process. Its parameters are prepared as for the CPU, and the same
 * code makes the reply from the records that come back. The records of all sets share one array;
 * the CPU runs sets that find no room in it. */
#include "daemon/base/yield.h"
#include "daemon/ops/filter.h"
#include "daemon/ops/spread_inside.h"

enum {
    SHORT_MAX = 1024,     /* most seeds that are looked up on the loop */
    ANSWER_PARTS = 64,    /* most parts: there may be thousands of small sets */
    RECORDS_MAX = 2 << 20 /* for all sets together, 48 MiB; but always enough for any one set */
};

/* The arrays in which a GPU process writes lie in the exchange, this in scratch. */
struct spread_gpu {
    const struct order_spread_set *sets;
    const struct spread_record *records;
    uint64_t room;          /* for all sets */
    _Atomic uint64_t taken; /* records of the sets that were checked */
    atomic_bool mad;        /* invalid numbers came back, or there was no memory to use them */
};

static struct spread_gpu *gpu_of(const struct job *j)
{
    return spread_of(j)->more;
}

static uint64_t sets_of(const struct job *j)
{
    const struct tensor *offsets = &j->request.offsets;
    return is_present(offsets) ? offsets->rows - 1 : 1;
}

uint64_t spread_gpu_pairs(const struct job *j)
{
    const struct edition *e = spread_ask_collection(j);
    uint64_t rows = e ? collection_rows(e) : 1;
    /* without any row there is no replica */
    if (!rows || rows > ORDER_SPREAD_ROWS_MAX) return 0;
    return sets_of(j) <= ORDER_SPREAD_SETS_MAX ? graph_nodes(j->graph) : 0;
}

/* ---- the order ---- */

struct order_spread spread_gpu_rule(struct job *j, const struct spread_ask *a)
{
    const struct spread_question *q = &a->question;
    const struct edition *embeddings = spread_ask_collection(j);
    return (struct order_spread){
        .mode = q->mode,
        .fan = q->fan,
        .flags = (q->ignore_kinds ? ORDER_SPREAD_IGNORE_KINDS : 0) |
                 (q->last_hop ? ORDER_SPREAD_LAST_HOP : 0) | (q->paths ? ORDER_SPREAD_PATHS : 0),
        .hops = q->hops,
        .nodes = a->graph.nodes,
        .edges = a->graph.edges,
        .grid_high = a->graph.grid.high,
        .grid_low = a->graph.grid.low,
        .thresholds = {q->thresholds[0], q->thresholds[1], q->thresholds[2]},
        .dimension = embeddings ? collection_dimension(embeddings) : 0,
        .row_count = embeddings ? collection_rows(embeddings) : 0,
        .decay = operation_gpu_place(j, a->decay),
        .allowed = a->allowed ? operation_gpu_place(j, a->allowed) : PLACE_NONE,
        .touched_max = q->touched_max,
        .deadline_ns = q->deadline_ns,
    };
}

static void gpu_order(struct job *j)
{
    const struct spread_ask *a = &spread_of(j)->ask;
    const struct spread_gpu *w = gpu_of(j);
    struct order *o = &j->gpu.order;
    *o = (struct order){.kind = ORDER_SPREAD, .space = operation_owner(j)};
    o->spread = spread_gpu_rule(j, a);
    o->spread.set_count = (uint32_t)a->set_count;
    o->spread.seeds = operation_gpu_place(j, a->seeds);
    o->spread.seed_count = a->set_offsets[a->set_count];
    o->spread.set_offsets = operation_gpu_place(j, a->set_offsets);
    o->spread.record_room = w->room;
    o->spread.out_records = operation_gpu_place(j, w->records);
    o->spread.out_sets = operation_gpu_place(j, w->sets);
}

static enum status gpu_prepare(struct job *j)
{
    enum status st = spread_prepare(j);
    if (!st) gpu_order(j);
    return st;
}

/* ---- the way back ---- */

/* Checks the counts that another process wrote: no set may have more records than possible, nor all
 * sets together more than there is room for. */
static bool is_sound(struct spread_gpu *w, const struct order_spread_set *set,
                     const struct spread_question *q, uint32_t nodes)
{
    uint64_t count = set->record_count;
    if (set->first_record > w->room || count > w->room - set->first_record) return false;
    if (count > smaller(nodes, q->touched_max)) return false;
    if (atomic_fetch_add_explicit(&w->taken, count, memory_order_relaxed) > w->room - count)
        return false;
    return true;
}

/* Copies a set's records from where the process may still write, in pieces, and checks the copies:
 * what is checked is what is used. False: invalid numbers. */
static bool copy_sound(const struct spread_record *from, uint64_t count, uint32_t nodes,
                       struct spread_record *to)
{
    enum { PIECE = 1 << 12 };
    bool sound = true;
    for (uint64_t first = 0; first < count && sound; first += PIECE) {
        uint64_t n = smaller(PIECE, count - first);
        struct spread_record *r = to + first;
        yield_check();
        memcpy(r, from + first, n * sizeof *r);
        for (uint64_t i = 0; i < n; i++)
            sound &= r[i].node < nodes && (r[i].parent < nodes || r[i].parent == SPREAD_NO_NODE);
    }
    return sound;
}

/* False: what came is invalid, or there is no memory for it. Copies are kept if the reply has all
 * of them. */
static bool answer_sound(struct job *j, const struct order_spread_set *came, uint64_t set,
                         uint32_t worker)
{
    struct spread_job *w = spread_of(j);
    struct spread_gpu *g = gpu_of(j);
    const struct spread_ask *a = &w->ask;
    struct arena *keep = &w->keep[worker], *work = &w->work[worker];
    uint64_t count = came->record_count;
    if (!is_sound(g, came, &a->question, a->graph.nodes)) return false;
    bool some = a->k < count;
    struct spread_record *records = arena_take(some ? work : keep, count * sizeof *records);
    return records && copy_sound(g->records + came->first_record, count, a->graph.nodes, records) &&
           spread_answer_set(a, records, count, some, keep, work, &w->sets[set]);
}

static void answer_set(struct job *j, uint64_t set, uint32_t worker)
{
    struct spread_job *w = spread_of(j);
    struct spread_gpu *g = gpu_of(j);
    struct order_spread_set came; /* a copy: what is checked is what is used */
    memcpy(&came, &g->sets[set], sizeof came);
    struct spread_set *s = &w->sets[set];
    s->cycles = came.cycles;
    s->truncated = came.truncated != 0;
    s->undone = came.no_room != 0;
    if (s->undone) return;
    if (!answer_sound(j, &came, set, worker))
        atomic_store_explicit(&g->mad, true, memory_order_relaxed);
    arena_clear(&w->work[worker]);
}

static void answer_part(struct job *j, uint32_t part, uint32_t worker)
{
    const struct spread_job *w = spread_of(j);
    uint64_t first = part * w->part_sets, sets = w->ask.set_count;
    for (uint64_t i = first; i < smaller(first + w->part_sets, sets); i++)
        answer_set(j, i, worker);
}

/* If the records do not suffice for the reply, the CPU runs the whole request. */
static void answered(struct job *j)
{
    j->gpu.unfit |= spread_any_undone(spread_of(j)) || atomic_load(&gpu_of(j)->mad);
    if (j->gpu.unfit || is_cancelled(j))
        spread_end(j);
    else
        spread_reply(j);
}

/* The CPU runs only the sets that found no room. */
static void read_all(struct job *j)
{
    j->step = answered;
    if (spread_any_undone(spread_of(j)) && !atomic_load(&gpu_of(j)->mad)) spread_run_undone(j);
}

static void gpu_finish(struct job *j)
{
    struct spread_job *w = spread_of(j);
    w->after = j->step;
    j->step = read_all;
    w->part_sets = pieces_of(w->ask.set_count, ANSWER_PARTS);
    j->parts = (struct job_parts){answer_part, (uint32_t)pieces_of(w->ask.set_count, w->part_sets)};
}

enum status spread_gpu_plan(struct job *j)
{
    uint64_t sets = sets_of(j), nodes = graph_view(j->graph).nodes;
    uint64_t touched_max = j->request.spread.touched_max;
    uint64_t each = touched_max && touched_max < nodes ? touched_max : nodes;
    uint64_t most = each > RECORDS_MAX ? each : RECORDS_MAX;
    uint64_t room = each > most / sets ? most : sets * each;
    uint64_t bytes = 0;
    uint64_t out_sets = layout_add(&bytes, sets * sizeof(struct order_spread_set));
    uint64_t records = layout_add(&bytes, room * sizeof(struct spread_record));
    enum status st = spread_begin(j, sizeof(struct spread_gpu));
    if (!st && operation_take_exchange(j, bytes)) st = operation_drop_all(j);
    if (st) return st;
    j->gpu.vram_bytes = bytes;
    struct spread_gpu *w = gpu_of(j);
    *w = (struct spread_gpu){
        .sets = exchange_at(j, out_sets), .records = exchange_at(j, records), .room = room};
    j->gpu.prepare = gpu_prepare;
    j->gpu.finish = gpu_finish;
    j->gpu.prepare_is_long = filter_is_given(j) || j->request.ids.rows > SHORT_MAX;
    j->gpu.finish_is_long = true;
    return STATUS_OK;
}
