/* recall_seeds: the nearest rows of each cue, and the seeds that they make. */
#include "daemon/base/yield.h"
#include "daemon/ops/recall_inside.h"
#include "daemon/ops/work.h"
#include "kernels/recall.h"

enum { YIELD_EVERY = 1 << 12 };

/* Where arrays lie in scratch. */
struct places {
    uint64_t fetched, hit_ids, hit_scores, hit_counts;
    uint64_t seed_offsets, seed_ids, seed_activations, seed_nodes, items, room, lists, scorers;
};

struct seeking {
    struct recall recall; /* first: recall_seeking finds it */
    void (*follow)(struct job *j);
};

/* ---------------------------------------------------------------- cues */

enum status recall_fetch_cues(struct job *j, const struct edition *rows, float *to)
{
    size_t row_bytes = collection_dimension(rows) * sizeof(float);
    uint64_t count = j->request.ids.rows;
    enum status st = STATUS_OK;
    for (uint64_t first = 0; first < count && !st; first += FIND_BATCH) {
        uint32_t found[FIND_BATCH];
        size_t n = (size_t)smaller(FIND_BATCH, count - first);
        st = operation_find_rows(j, "cue_ids", rows, j->request.ids.data, first, n, found);
        for (size_t i = 0; i < n && !st; i++)
            memcpy((char *)to + (first + i) * row_bytes, collection_row(rows, found[i]), row_bytes);
    }
    return st;
}

static enum status prepare(struct job *j)
{
    struct recall *w = recall_seeking(j);
    enum status st = w->cue_ids ? recall_fetch_cues(j, w->rows, w->fetched) : STATUS_OK;
    if (st) return st;
    w->search.owners = &w->owner;
    return knn_start(&w->search, j) ? STATUS_OK : grid_refuse(&w->search.grid, j);
}

static void run_part(struct job *j, uint32_t part, uint32_t worker)
{
    knn_part(&recall_seeking(j)->search, j, part, worker);
}

/* ---------------------------------------------------------------- seeds */

/* Adds the seeds of one cue behind `to`; returns the end. */
static uint64_t add_hits(struct recall *w, uint64_t cue, uint64_t to)
{
    const struct job_request *r = w->request;
    const uint64_t *ids = w->hit_ids + cue * w->owner.k;
    const float *scores = w->hit_scores + cue * w->owner.k;
    for (uint32_t i = 0; i < w->hit_counts[cue]; i++) {
        float activation = recall_activation(scores[i], r->threshold, r->recall.width);
        if (activation < r->recall.activation_min) continue;
        w->seed_ids[to] = ids[i];
        w->seed_activations[to++] = activation;
    }
    return to;
}

/* Sums up what several cues gave each memory. The seeds from `first` on are then by id; returns
 * their end. */
static uint64_t add_up(struct recall *w, uint64_t first, uint64_t end)
{
    uint64_t count = end - first;
    for (uint64_t i = 0; i < count; i++) {
        if (i % YIELD_EVERY == 0) yield_check();
        w->items[i].key = w->seed_ids[first + i];
        memcpy(&w->items[i].value, &w->seed_activations[first + i], sizeof(float));
    }
    const struct radix_item *sorted = radix_sort(w->items, w->room, count);
    uint64_t to = first;
    for (uint64_t i = 0; i < count;) {
        uint64_t id = sorted[i].key;
        double sum = 0;
        for (; i < count && sorted[i].key == id; i++) {
            float activation;
            if (i % YIELD_EVERY == 0) yield_check();
            memcpy(&activation, &sorted[i].value, sizeof activation);
            sum += (double)activation;
        }
        float all = (float)sum;
        w->seed_ids[to] = id;
        w->seed_activations[to++] = all < 1.0f ? all : 1.0f;
    }
    return to;
}

static void make_seeds(struct job *j, struct recall *w)
{
    uint64_t to = 0;
    w->seed_offsets[0] = 0;
    for (uint64_t list = 0; list < w->list_count && !is_cancelled(j); list++) {
        uint64_t first = to, cue = recall_cue(w, list), end = recall_cue(w, list + 1);
        bool several = end - cue > 1;
        for (; cue < end; cue++) {
            yield_check();
            to = add_hits(w, cue, to);
        }
        if (several) to = add_up(w, first, to);
        w->seed_offsets[list + 1] = to;
    }
}

static void finish(struct job *j)
{
    struct recall *w = recall_seeking(j);
    if (!j->failure.code) grid_refuse(&w->search.grid, j);
    bool stopped = j->failure.code || is_cancelled(j);
    if (!stopped) knn_end(&w->search, j);
    if (!stopped) make_seeds(j, w);
    operation_drop_result(j); /* kNN wrote through it; the reply is another one */
    if (stopped || is_cancelled(j)) return;
    w->seeds_known_ns = clock_read_ns(j->clock);
    ((struct seeking *)w)->follow(j);
}

/* ---------------------------------------------------------------- the plan */

enum status recall_check_shapes(struct job *j)
{
    const struct edition *rows = j->objects[RECALL_ROWS].collection;
    const struct tensor *cues = &j->request.queries;
    uint32_t dimension = collection_dimension(rows);
    if (collection_metric(rows) != METRIC_COSINE)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC,
                           "collection %s: its metric is %s, cosine wanted",
                           j->request.names[RECALL_ROWS],
                           collection_metric(rows) == METRIC_DOT ? "dot" : "squared euclidean");
    if (!is_present(cues) || cues->columns == dimension) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                       "cues have %" PRIu64 " columns, the collection's dimension is %" PRIu32,
                       cues->columns, dimension);
}

/* Returns the cues of the longest list that has several. */
static uint64_t longest_list(const struct recall *w)
{
    uint64_t longest = 0;
    for (uint64_t list = 0; w->list_offsets && list < w->list_count; list++) {
        uint64_t cues = w->list_offsets[list + 1] - w->list_offsets[list];
        if (cues > longest) longest = cues;
    }
    return longest > 1 ? longest : 0;
}

static void lay_out(const struct job *j, struct recall *w, struct places *p, uint64_t *bytes)
{
    uint32_t k = w->owner.k, dimension = collection_dimension(w->rows);
    uint64_t hits = work_times(w->cue_count, k), most = work_times(longest_list(w), k);
    struct knn_size size = {
        .queries = w->cue_count,
        .entries = w->cue_count * w->owner.entry_bytes,
        .entries_max = w->owner.entry_bytes,
        .k = k,
    };
    layout_add(bytes, sizeof(struct seeking));
    knn_layout(&w->search, j, &size, bytes);
    p->fetched = layout_add(bytes, w->cue_ids ? w->cue_count * dimension * sizeof(float) : 0);
    p->hit_ids = layout_add(bytes, work_times(hits, sizeof(uint64_t)));
    p->hit_scores = layout_add(bytes, work_times(hits, sizeof(float)));
    p->hit_counts = layout_add(bytes, w->cue_count * sizeof(uint32_t));
    p->seed_offsets = layout_add(bytes, (w->list_count + 1) * sizeof(uint64_t));
    p->seed_ids = layout_add(bytes, work_times(hits, sizeof(uint64_t)));
    p->seed_activations = layout_add(bytes, work_times(hits, sizeof(float)));
    p->seed_nodes = layout_add(bytes, work_times(hits, sizeof(uint32_t)));
    p->items = layout_add(bytes, work_times(most, sizeof(struct radix_item)));
    p->room = layout_add(bytes, work_times(most, sizeof(struct radix_item)));
    p->lists = layout_add(bytes, w->list_count * sizeof(struct recall_list));
    w->scorer_bytes = recall_scorer_bytes(j->kernels, dimension);
    p->scorers = layout_add(bytes, j->worker_count * w->scorer_bytes);
}

static void place(const struct job *j, struct recall *w, const struct places *p)
{
    w->fetched = scratch_at(j, p->fetched);
    if (w->cue_ids) w->cues = w->fetched;
    w->search.grid.queries = w->cues;
    w->hit_ids = scratch_at(j, p->hit_ids);
    w->hit_scores = scratch_at(j, p->hit_scores);
    w->hit_counts = scratch_at(j, p->hit_counts);
    w->seed_offsets = scratch_at(j, p->seed_offsets);
    w->seed_ids = scratch_at(j, p->seed_ids);
    w->seed_activations = scratch_at(j, p->seed_activations);
    w->seed_nodes = scratch_at(j, p->seed_nodes);
    w->items = scratch_at(j, p->items);
    w->room = scratch_at(j, p->room);
    w->lists = scratch_at(j, p->lists);
    w->scorers = scratch_at(j, p->scorers);
}

/* kNN writes what it finds through the job's result. */
static void place_hits(struct job *j, const struct recall *w)
{
    operation_shape(j, RESULT_KNN_IDS, DTYPE_UINT64, w->cue_count, w->owner.k);
    operation_shape(j, RESULT_KNN_SCORES, DTYPE_FLOAT32, w->cue_count, w->owner.k);
    operation_shape(j, RESULT_KNN_COUNTS, DTYPE_UINT32, w->cue_count, 1);
    j->result.tensors[RESULT_KNN_IDS].data = w->hit_ids;
    j->result.tensors[RESULT_KNN_SCORES].data = w->hit_scores;
    j->result.tensors[RESULT_KNN_COUNTS].data = w->hit_counts;
}

enum status recall_seeds_plan(struct job *j, void (*follow)(struct job *j))
{
    const struct job_request *r = &j->request;
    const struct edition *rows = j->objects[RECALL_ROWS].collection;
    bool by_id = is_present(&r->ids), listed = is_present(&r->offsets);
    struct seeking s = {.follow = follow};
    struct recall *w = &s.recall;
    struct places p;
    uint64_t bytes = 0;
    enum status st = recall_check_shapes(j);
    if (st) return st;
    *w = (struct recall){.request = r,
                         .rows = rows,
                         .kernels = j->kernels,
                         .cue_count = by_id ? r->ids.rows : r->queries.rows,
                         .cues = r->queries.data,
                         .cue_ids = by_id ? r->ids.data : NULL,
                         .list_offsets = listed ? r->offsets.data : NULL};
    w->list_count = listed ? r->offsets.rows - 1 : w->cue_count;
    w->owner = (struct knn_owner){.job = j, .query_count = w->cue_count};
    w->owner.k = (uint32_t)smaller(r->k, collection_rows(rows));
    w->owner.entry_bytes = knn_entry_bytes(rows, r->k);
    knn_search_init(&w->search, j, rows);
    w->search.grid.query_name = "cue";
    w->search.nothing = !w->owner.k;
    lay_out(j, w, &p, &bytes);
    st = operation_take_scratch(j, bytes);
    if (st) return operation_drop_all(j);
    place(j, w, &p);
    place_hits(j, w);
    *(struct seeking *)j->plan.scratch.data = s;
    j->plan.prepare = prepare;
    j->plan.run_part = run_part;
    j->plan.finish = finish;
    j->plan.parts = (uint32_t)grid_parts(&w->search.grid);
    j->plan.part_ns = w->search.alone ? UINT64_MAX : 0;
    return STATUS_OK;
}
