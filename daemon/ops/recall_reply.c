/* recall_reply: the reply to a recall: what each list of cues recalled, with the cosines of the
 * rows to its cues. */
#include "daemon/base/yield.h"
#include "daemon/ops/recall_inside.h"

enum { WRITE_PART = ROWS_BLOCK }; /* entries of a part */

/* ---------------------------------------------------------------- scores */

/* What a worker scores with, in its own memory. */
struct scorer {
    struct rows_buffer buffer;
    float *scores;
    uint32_t *found, *at; /* rows, and the entries that they belong to */
    void *query;
};

static struct scorer scorer_at(uint32_t dimension, char *memory, uint64_t *bytes)
{
    struct scorer s;
    s.buffer = rows_buffer_at(dimension, false, memory + *bytes);
    layout_add(bytes, rows_buffer_bytes(dimension, false));
    s.scores = (float *)(memory + layout_add(bytes, ROWS_BLOCK * sizeof *s.scores));
    s.found = (uint32_t *)(memory + layout_add(bytes, ROWS_BLOCK * sizeof *s.found));
    s.at = (uint32_t *)(memory + layout_add(bytes, ROWS_BLOCK * sizeof *s.at));
    s.query = memory + *bytes;
    return s;
}

uint64_t recall_scorer_bytes(const struct vector_kernels *kernels, uint32_t dimension)
{
    struct query_form form = {kernels, dimension, false};
    uint64_t bytes = 0;
    layout_add(&bytes, rows_buffer_bytes(dimension, false));
    layout_add(&bytes, ROWS_BLOCK * sizeof(float));
    layout_add(&bytes, 2 * ROWS_BLOCK * sizeof(uint32_t));
    layout_add(&bytes, queries_bytes(&form, 1));
    return bytes;
}

/* Writes the highest cosine of each of the rows to the list's cues; NaN where there is no row. At
 * most ROWS_BLOCK ids. */
static void score(const struct job *j, const struct recall *w, uint64_t list, const uint64_t *ids,
                  size_t count, uint32_t worker, float *out)
{
    static const uint32_t no_score = 0x7fc00000;
    struct query_form form = {w->kernels, collection_dimension(w->rows), false};
    struct row_source rows = {
        .kernels = w->kernels, .collection = w->rows, .dimension = form.dimension};
    uint64_t bytes = 0;
    struct scorer s = scorer_at(form.dimension, w->scorers + worker * w->scorer_bytes, &bytes);
    size_t n = 0;
    collection_find_rows(w->rows, ids, count, s.found);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&out[i], &no_score, sizeof no_score);
        if (s.found[i] == COLLECTION_NO_ROW) continue;
        s.found[n] = s.found[i];
        s.at[n++] = i;
    }
    uint64_t first = recall_cue(w, list), end = recall_cue(w, list + 1);
    for (uint64_t cue = first; cue < end && n && !is_cancelled(j); cue++) {
        struct query_set query;
        yield_check();
        queries_build(&form, w->cues + cue * form.dimension, 1, s.query, &query);
        rows_gather(&rows, &query, METRIC_COSINE, s.found, n, &s.buffer, s.scores);
        for (size_t i = 0; i < n; i++)
            if (cue == first || out[s.at[i]] < s.scores[i]) out[s.at[i]] = s.scores[i];
    }
}

/* ---------------------------------------------------------------- entries */

static void write_path(const struct job *j, const struct spread_ask *a, const struct spread_set *s,
                       uint64_t id, uint64_t i, uint64_t entry)
{
    const struct tensor *t = j->result.tensors;
    uint64_t *ids = (uint64_t *)t[RESULT_RECALL_PATH_IDS].data + s->path_first;
    for (uint64_t at = i ? s->path_ends[i - 1] : 0; at < s->path_ends[i]; at++) {
        uint32_t node = s->path_nodes[at];
        ids[at] = node == SPREAD_NO_NODE ? id : a->graph.ids[node];
    }
    ((uint64_t *)t[RESULT_RECALL_PATH_OFFSETS].data)[entry + 1] = s->path_first + s->path_ends[i];
}

/* Writes entries [first, first + count) of a list. */
static void write_entries(const struct job *j, uint64_t list, uint64_t first, uint64_t count,
                          uint32_t worker)
{
    const struct recall *w = recall_spreading(j);
    const struct spread_job *spread = spread_of(j);
    const struct spread_set *s = &spread->sets[list];
    const struct recall_list *l = &w->lists[list];
    const struct tensor *t = j->result.tensors;
    uint64_t at = ((uint64_t *)t[RESULT_RECALL_OFFSETS].data)[list];
    for (uint64_t i = first; i < first + count; i++) {
        ((uint64_t *)t[RESULT_RECALL_IDS].data)[at + i] = l->ids[i];
        ((float *)t[RESULT_RECALL_ACTIVATIONS].data)[at + i] = s->records[i].activation;
        ((uint8_t *)t[RESULT_RECALL_MARKS].data)[at + i] = l->marks[i];
        ((uint32_t *)t[RESULT_RECALL_DEPTHS].data)[at + i] = s->records[i].depth;
        if (j->request.spread.paths) write_path(j, &spread->ask, s, l->ids[i], i, at + i);
    }
    score(j, w, list, l->ids + first, count, worker,
          (float *)t[RESULT_RECALL_SCORES].data + at + first);
}

/* A part is of so many entries, whatever the lists. */
static void write_part(struct job *j, uint32_t part, uint32_t worker)
{
    const struct tensor *t = &j->result.tensors[RESULT_RECALL_OFFSETS];
    const uint64_t *offsets = t->data;
    uint64_t entry = (uint64_t)part * WRITE_PART,
             end = smaller(entry + WRITE_PART, offsets[t->rows - 1]);
    uint64_t low = 0, high = t->rows - 1;
    while (high - low > 1) { /* the last list that begins at the entry or before */
        uint64_t middle = low + (high - low) / 2;
        if (offsets[middle] <= entry)
            low = middle;
        else
            high = middle;
    }
    for (uint64_t list = low; entry < end && !is_cancelled(j); list++) {
        uint64_t count = smaller(end, offsets[list + 1]) - entry;
        yield_check();
        if (count) write_entries(j, list, entry - offsets[list], count, worker);
        entry += count;
    }
}

/* ---------------------------------------------------------------- the reply */

/* Lists whose spread found no memory are answered with their seeds. */
static enum status answer_undone(struct job *j, struct recall *w, struct spread_job *spread)
{
    for (uint64_t list = 0; list < w->list_count; list++) {
        struct spread_set *s = &spread->sets[list];
        yield_check();
        if (!s->undone) continue;
        s->undone = false;
        s->truncated = true;
        s->hops = 0;
        s->cycles = 0;
        struct arena *keep = &spread->keep[0], *work = &spread->work[0];
        arena_clear(work);
        if (!recall_rank(w, &spread->ask, list, NULL, 0, keep, work, s))
            return operation_refuse_memory(j, arena_refusal(work, keep), "a recall");
    }
    return STATUS_OK;
}

enum status recall_take_result(struct job *j, uint64_t lists, uint64_t entries, uint64_t path_nodes)
{
    operation_shape(j, RESULT_RECALL_OFFSETS, DTYPE_UINT64, lists + 1, 1);
    operation_shape(j, RESULT_RECALL_IDS, DTYPE_UINT64, entries, 1);
    operation_shape(j, RESULT_RECALL_ACTIVATIONS, DTYPE_FLOAT32, entries, 1);
    operation_shape(j, RESULT_RECALL_SCORES, DTYPE_FLOAT32, entries, 1);
    operation_shape(j, RESULT_RECALL_MARKS, DTYPE_UINT8, entries, 1);
    operation_shape(j, RESULT_RECALL_DEPTHS, DTYPE_UINT32, entries, 1);
    operation_shape(j, RESULT_RECALL_SEEDS, DTYPE_UINT32, lists, 2);
    operation_shape(j, RESULT_RECALL_HOPS, DTYPE_UINT32, lists, 1);
    operation_shape(j, RESULT_RECALL_TOUCHED, DTYPE_UINT64, lists, 1);
    operation_shape(j, RESULT_RECALL_TRUNCATED, DTYPE_UINT8, lists, 1);
    bool paths = j->request.spread.paths;
    if (paths) {
        operation_shape(j, RESULT_RECALL_PATH_OFFSETS, DTYPE_UINT64, entries + 1, 1);
        operation_shape(j, RESULT_RECALL_PATH_IDS, DTYPE_UINT64, path_nodes, 1);
    }
    enum status st = operation_take_result(j, paths ? RESULTS_Recall : RESULT_RECALL_PATH_OFFSETS);
    if (st) return st;
    ((uint64_t *)j->result.tensors[RESULT_RECALL_OFFSETS].data)[0] = 0;
    if (paths) ((uint64_t *)j->result.tensors[RESULT_RECALL_PATH_OFFSETS].data)[0] = 0;
    return STATUS_OK;
}

static void write_list(struct job *j, const struct recall *w, const struct spread_set *s,
                       uint64_t list)
{
    const struct tensor *t = j->result.tensors;
    uint64_t *offsets = t[RESULT_RECALL_OFFSETS].data;
    uint32_t *seeds = (uint32_t *)t[RESULT_RECALL_SEEDS].data + 2 * list;
    offsets[list + 1] = offsets[list] + s->kept;
    seeds[0] = (uint32_t)(w->seed_offsets[list + 1] - w->seed_offsets[list]);
    seeds[1] = w->lists[list].spread;
    ((uint32_t *)t[RESULT_RECALL_HOPS].data)[list] = s->hops;
    ((uint64_t *)t[RESULT_RECALL_TOUCHED].data)[list] = s->touched;
    ((uint8_t *)t[RESULT_RECALL_TRUNCATED].data)[list] = s->truncated;
}

static enum status place_reply(struct job *j, const struct recall *w, struct spread_job *spread)
{
    bool paths = j->request.spread.paths;
    uint64_t entries = 0, path_nodes = 0;
    for (uint64_t list = 0; list < w->list_count; list++) {
        struct spread_set *s = &spread->sets[list];
        if (list % WRITE_PART == 0) yield_check();
        entries += s->kept;
        s->path_first = path_nodes;
        if (paths && s->kept) path_nodes += s->path_ends[s->kept - 1];
    }
    enum status st = recall_take_result(j, w->list_count, entries, path_nodes);
    if (st) return st;
    for (uint64_t list = 0; list < w->list_count; list++) {
        if (list % WRITE_PART == 0) yield_check();
        write_list(j, w, &spread->sets[list], list);
    }
    return STATUS_OK;
}

static void end(struct job *j)
{
    const struct recall *w = recall_spreading(j);
    j->result.counts[0] = w->seeds_known_ns - j->started_ns;
    j->result.counts[1] = w->spread_known_ns - w->seeds_known_ns;
    j->result.counts[2] = clock_read_ns(j->clock) - w->spread_known_ns;
    operation_note_objects(j);
    spread_end(j);
}

void recall_reply(struct job *j)
{
    struct recall *w = recall_spreading(j);
    struct spread_job *spread = spread_of(j);
    j->step = spread_end;
    enum status st = answer_undone(j, w, spread);
    w->spread_known_ns = clock_read_ns(j->clock);
    if (!st) st = place_reply(j, w, spread);
    if (st) return;
    j->step = end;
    uint64_t entries = j->result.tensors[RESULT_RECALL_IDS].rows;
    j->parts = (struct job_parts){write_part, (uint32_t)pieces_of(entries, WRITE_PART)};
}
