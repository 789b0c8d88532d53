/* recall_gpu: a recall on a GPU process: one order of all lists of cues, whose stages follow each
 * other there; what comes back is the best of each list, of which the reply is made here. */
#include "daemon/base/yield.h"
#include "daemon/ops/filter.h"
#include "daemon/ops/recall_inside.h"
#include "daemon/ops/work.h"

enum {
    CUES_SHORT_MAX = 32,       /* most rows that are copied on the loop */
    ENTRIES_SHORT_MAX = 2048,  /* and most places of a reply that is made there */
    ENTRIES_MAX = 1 << 20,     /* of all lists together, 24 MiB */
    PATH_NODES_MAX = 16 << 20, /* places, 64 MiB */
    YIELD_EVERY = 1 << 12,
};

/* In scratch, with what the GPU process reads; what it writes lies in the exchange. */
struct recall_gpu {
    struct spread_ask ask;
    struct order_recall asked;
    struct recall_times *times; /* the first of what it writes */
    uint64_t lists;
    uint32_t results;
    float *fetched;    /* the rows of cue_ids, or the cues of a carrier's members */
    uint64_t *offsets; /* lists + 1: where each list's cues begin */
    struct recall_outcome *outcomes;
    struct recall_entry *entries; /* `results` places a list */
    uint32_t *path_nodes;         /* hops + 1 places an entry, with paths */
};

static struct recall_gpu *gpu_of(const struct job *j)
{
    return j->plan.scratch.data;
}

uint64_t recall_cues_of(const struct job *j)
{
    return is_present(&j->request.ids) ? j->request.ids.rows : j->request.queries.rows;
}

uint64_t recall_lists_of(const struct job *j)
{
    return is_present(&j->request.offsets) ? j->request.offsets.rows - 1 : recall_cues_of(j);
}

static uint32_t k_of(const struct job *j)
{
    const struct edition *rows = j->objects[RECALL_ROWS].collection;
    return (uint32_t)smaller(j->request.k, collection_rows(rows));
}

/* False: some list has more cues than one pass may have. */
static bool lists_fit(const struct job *j)
{
    const uint64_t *offsets = j->request.offsets.data;
    uint64_t most = smaller(ORDER_RECALL_CUES_MAX, ORDER_RECALL_SEEDS_MAX / k_of(j));
    for (uint64_t list = 0; is_present(&j->request.offsets) && list < recall_lists_of(j); list++)
        if (offsets[list + 1] - offsets[list] > most) return false;
    return true;
}

uint64_t recall_gpu_pairs(const struct job *j)
{
    const struct job_request *r = &j->request;
    const struct edition *rows = j->objects[RECALL_ROWS].collection;
    const struct edition *embeddings = spread_ask_collection(j);
    uint64_t count = collection_rows(rows), lists = recall_lists_of(j), hops = r->spread.hops;
    uint64_t entries = work_times(lists, r->recall.results);
    bool some = count && count <= ORDER_SPREAD_ROWS_MAX && graph_nodes(j->graph) &&
                (!embeddings || (collection_rows(embeddings) &&
                                 collection_rows(embeddings) <= ORDER_SPREAD_ROWS_MAX));
    if (!some || r->recall.results > ORDER_RECALL_RESULTS_MAX || lists > ORDER_RECALL_LISTS_MAX ||
        entries > ENTRIES_MAX || (r->spread.paths && entries * (hops + 1) > PATH_NODES_MAX) ||
        !lists_fit(j))
        return 0;
    return work_times(recall_cues_of(j), count);
}

/* ---------------------------------------------------------------- the order */

static void gpu_order(struct job *j)
{
    struct recall_gpu *w = gpu_of(j);
    const struct job_request *r = &j->request;
    const struct edition *rows = j->objects[RECALL_ROWS].collection;
    bool paths = r->spread.paths;
    struct order *o = &j->gpu.order;
    *o = (struct order){.kind = ORDER_RUN, .space = operation_owner(j)};
    o->run = order_run_of(RUN_RECALL);
    o->run.metric = METRIC_COSINE;
    o->run.dimension = collection_dimension(rows);
    o->run.row_count = collection_rows(rows);
    o->run.k = k_of(j);
    o->run.has_threshold = 1;
    o->run.threshold = r->threshold;
    o->run.query_count = recall_cues_of(j);
    o->run.queries = operation_gpu_place(j, w->fetched ? w->fetched : r->queries.data);
    o->run.list_count = w->lists;
    o->run.offsets = operation_gpu_place(j, w->offsets);
    o->run.segments = operation_gpu_place(j, &w->asked);
    o->run.out_ids = operation_gpu_place(j, w->outcomes);
    o->run.out_scores = operation_gpu_place(j, w->entries);
    if (paths) o->run.out_counts = operation_gpu_place(j, w->path_nodes);
    w->asked = (struct order_recall){.spread = spread_gpu_rule(j, &w->ask),
                                     .results = w->results,
                                     .width = r->recall.width,
                                     .activation_min = r->recall.activation_min,
                                     .boost = r->recall.boost,
                                     .out_times = operation_gpu_place(j, w->times)};
    j->gpu.spread = &w->asked.spread;
}

static enum status gpu_prepare(struct job *j)
{
    struct recall_gpu *w = gpu_of(j);
    const struct tensor *given = &j->request.offsets;
    enum status st = spread_ask_prepare_rule(j, &w->ask);
    if (!st && is_present(&j->request.ids))
        st = recall_fetch_cues(j, j->objects[RECALL_ROWS].collection, w->fetched);
    if (st) return st;
    if (j->members) recall_batch_gather(j, w->fetched, w->offsets);
    for (uint64_t list = 0; list <= w->lists && !j->members; list++)
        w->offsets[list] = is_present(given) ? ((const uint64_t *)given->data)[list] : list;
    gpu_order(j);
    return STATUS_OK;
}

/* ---------------------------------------------------------------- the way back */

/* What is written of a reply so far, and how much there is room for: the other process may change
 * what was checked. */
struct written {
    uint64_t entries, entries_max, path_nodes, path_nodes_max;
};

/* Checks what another process wrote of a job's lists: the counts. Counts entries and the nodes of
 * their paths. */
static bool is_sound(const struct job *j, const struct recall_gpu *w, uint64_t first,
                     struct written *out)
{
    uint64_t most = j->request.spread.hops + UINT64_C(1);
    uint64_t end = first + recall_lists_of(j);
    for (uint64_t list = first; list < end; list++) {
        uint32_t kept = w->outcomes[list].kept;
        if (kept > w->results) return false;
        out->entries_max += kept;
        for (uint32_t i = 0; j->request.spread.paths && i < kept; i++) {
            uint64_t at = list * w->results + i, length = w->entries[at].path;
            if (at % YIELD_EVERY == 0) yield_check();
            if (length > most) return false;
            out->path_nodes_max += length ? length : 1;
        }
    }
    return true;
}

/* Writes what is said of j's list, which is o; returns how many entries it has. */
static uint64_t write_list(struct job *j, const struct recall_outcome *o, uint64_t list,
                           uint64_t left)
{
    const struct tensor *t = j->result.tensors;
    uint64_t kept = smaller(o->kept, left);
    uint64_t *offsets = t[RESULT_RECALL_OFFSETS].data;
    uint32_t *seeds = (uint32_t *)t[RESULT_RECALL_SEEDS].data + 2 * list;
    offsets[list + 1] = offsets[list] + kept;
    seeds[0] = o->seeds;
    seeds[1] = o->spread;
    ((uint32_t *)t[RESULT_RECALL_HOPS].data)[list] = o->hops;
    ((uint64_t *)t[RESULT_RECALL_TOUCHED].data)[list] = o->touched;
    ((uint8_t *)t[RESULT_RECALL_TRUNCATED].data)[list] = o->truncated != 0;
    return kept;
}

/* The ids of an entry's path. False: it leads to no node. */
static bool write_path(const struct job *j, const struct recall_gpu *w, uint64_t from,
                       struct written *so_far)
{
    uint64_t *ids = (uint64_t *)j->result.tensors[RESULT_RECALL_PATH_IDS].data + so_far->path_nodes;
    const struct recall_entry *e = &w->entries[from];
    uint64_t most = j->request.spread.hops + UINT64_C(1);
    const uint32_t *nodes = w->path_nodes + from * most;
    uint64_t left = so_far->path_nodes_max - so_far->path_nodes;
    uint64_t length = smaller(e->path, smaller(most, left));
    bool sound = true;
    for (uint64_t n = 0; n < length; n++) {
        uint32_t node = nodes[n];
        sound &= node < w->ask.graph.nodes;
        ids[n] = node < w->ask.graph.nodes ? w->ask.graph.ids[node] : 0;
    }
    if (!length && left) ids[length++] = e->id;
    so_far->path_nodes += length;
    ((uint64_t *)j->result.tensors[RESULT_RECALL_PATH_OFFSETS].data)[so_far->entries + 1] =
        so_far->path_nodes;
    return sound;
}

/* False: a path leads to no node. */
static bool write_entries(struct job *j, const struct recall_gpu *w, uint64_t first,
                          struct written so_far)
{
    const struct tensor *t = j->result.tensors;
    bool sound = true;
    for (uint64_t list = 0; list < recall_lists_of(j); list++) {
        uint64_t left = so_far.entries_max - so_far.entries;
        uint64_t kept = write_list(j, &w->outcomes[first + list], list, left);
        for (uint64_t i = 0; i < kept; i++, so_far.entries++) {
            uint64_t entry = so_far.entries;
            uint64_t from = (first + list) * w->results + i;
            const struct recall_entry *e = &w->entries[from];
            if (entry % YIELD_EVERY == 0) yield_check();
            ((uint64_t *)t[RESULT_RECALL_IDS].data)[entry] = e->id;
            ((float *)t[RESULT_RECALL_ACTIVATIONS].data)[entry] = e->activation;
            ((float *)t[RESULT_RECALL_SCORES].data)[entry] = e->score;
            ((uint8_t *)t[RESULT_RECALL_MARKS].data)[entry] = e->marks;
            ((uint32_t *)t[RESULT_RECALL_DEPTHS].data)[entry] = e->depth;
            if (j->request.spread.paths) sound &= write_path(j, w, from, &so_far);
        }
    }
    return sound;
}

/* Splits the run's time as the device did. */
static void note_times(struct job *j, const struct job *ran, const struct recall_gpu *w)
{
    uint64_t all = ran->finished_ns > ran->started_ns ? ran->finished_ns - ran->started_ns : 0;
    j->result.counts[0] = smaller(w->times->seeds_ns, all);
    j->result.counts[1] = smaller(w->times->best_ns, all - j->result.counts[0]);
    j->result.counts[2] = all - j->result.counts[0] - j->result.counts[1];
}

bool recall_gpu_answer(struct job *j, const struct job *ran, uint64_t first)
{
    const struct recall_gpu *w = gpu_of(ran);
    struct written none = {0};
    if (!is_sound(j, w, first, &none)) return false;
    if (recall_take_result(j, recall_lists_of(j), none.entries_max, none.path_nodes_max))
        return true; /* that is j's failure */
    note_times(j, ran, w);
    return write_entries(j, w, first, none);
}

static void gpu_finish(struct job *j)
{
    j->gpu.unfit = !recall_gpu_answer(j, j, 0);
}

/* ---------------------------------------------------------------- the plan */

/* True if its cues do not lie in one place of its own request. */
static bool is_copied(const struct job *j)
{
    return j->members || is_present(&j->request.ids);
}

/* Returns the bytes of scratch; *there: those of the exchange. */
static uint64_t lay_out(struct job *j, struct recall_gpu *w, uint64_t places[5], uint64_t *there)
{
    uint64_t bytes = 0, hops = j->request.spread.hops, entries;
    const struct edition *rows = j->objects[RECALL_ROWS].collection;
    uint64_t row_bytes = collection_dimension(rows) * sizeof(float);
    w->lists = recall_lists_of(j);
    uint64_t most = work_times(recall_cues_of(j), k_of(j)) + graph_nodes(j->graph);
    w->results = (uint32_t)smaller(j->request.recall.results, most);
    entries = w->lists * w->results;
    layout_add(&bytes, sizeof *w);
    spread_ask_layout_rule(j, &w->ask, &bytes);
    places[0] = layout_add(&bytes, is_copied(j) ? recall_cues_of(j) * row_bytes : 0);
    places[1] = layout_add(&bytes, (w->lists + 1) * sizeof *w->offsets);
    *there = 0;
    layout_add(there, sizeof *w->times);
    places[2] = layout_add(there, w->lists * sizeof *w->outcomes);
    places[3] = layout_add(there, entries * sizeof *w->entries);
    places[4] = layout_add(
        there, j->request.spread.paths ? entries * (hops + 1) * sizeof *w->path_nodes : 0);
    return bytes;
}

enum status recall_gpu_plan(struct job *j)
{
    struct recall_gpu w = {0};
    uint64_t places[5], there;
    enum status st = recall_check_shapes(j);
    if (st) return st;
    st = operation_take_own(j, lay_out(j, &w, places, &there));
    if (!st) st = operation_take_exchange(j, there);
    if (st) return operation_drop_all(j);
    operation_note_objects(j);
    if (!j->members) j->request.spread.begun_ns = j->received_ns;
    spread_ask_place_rule(j, &w.ask);
    w.fetched = is_copied(j) ? scratch_at(j, places[0]) : NULL;
    w.offsets = scratch_at(j, places[1]);
    w.times = exchange_at(j, 0);
    w.outcomes = exchange_at(j, places[2]);
    w.entries = exchange_at(j, places[3]);
    w.path_nodes = exchange_at(j, places[4]);
    *gpu_of(j) = w;
    j->gpu.prepare = gpu_prepare;
    j->gpu.finish = gpu_finish;
    j->gpu.prepare_is_long = filter_is_given(j) || w.lists > YIELD_EVERY ||
                             (is_copied(j) && recall_cues_of(j) > CUES_SHORT_MAX);
    j->gpu.finish_is_long = w.lists * w.results > ENTRIES_SHORT_MAX;
    return STATUS_OK;
}
