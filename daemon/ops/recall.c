/* recall: the rows nearest to a cue are the seeds of a spread, and the best of what it touches is
 * the answer (kernels/recall.h, docs/recall.md). One job in stages: a search as knn.c has it, then
 * a spread as spread.c has it, from its seeds. */
#include <math.h>

#include "daemon/base/yield.h"
#include "daemon/exec/steps.h"
#include "daemon/ops/check.h"
#include "daemon/ops/recall_inside.h"
#include "daemon/ops/work.h"
#include "kernels/recall.h"

enum { RESULTS_DEFAULT = 100, K_DEFAULT_MAX = 100, LISTS_MAX = 65536 };

/* ---------------------------------------------------------------- the request alone */

static enum status check_cues(struct job *j)
{
    const struct tensor *cues = &j->request.queries, *ids = &j->request.ids;
    const struct tensor *offsets = &j->request.offsets;
    if (is_present(cues) == is_present(ids))
        return check_refuse(j, DETAIL_BAD_SHAPE,
                            is_present(ids) ? "cues: cues and cue_ids exclude each other"
                                            : "cues: neither cues nor cue_ids");
    uint64_t count = is_present(ids) ? ids->rows : cues->rows;
    if (!count) return check_refuse(j, DETAIL_BAD_SHAPE, "cues: there is none");
    uint64_t lists = is_present(offsets) ? offsets->rows - 1 : count;
    if (is_present(offsets) && offsets->rows < 2)
        return check_refuse(j, DETAIL_BAD_OFFSETS, "cue_offsets: no list");
    if (lists > LISTS_MAX)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "cues: %" PRIu64 " lists, 1 to %d wanted", lists, LISTS_MAX);
    return is_present(offsets) ? check_rising(j, "cue_offsets", offsets, count, "cues") : STATUS_OK;
}

/* How many, and sets what is left out. */
static enum status check_counts(struct job *j)
{
    struct job_request *r = &j->request;
    if (!r->recall.results) r->recall.results = RESULTS_DEFAULT;
    if (r->recall.results > TOPK_K_MAX)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K,
                           "results: %" PRIu32 ", 1 to %d wanted, or 0 for %d", r->recall.results,
                           TOPK_K_MAX, RESULTS_DEFAULT);
    if (!r->k) r->k = (uint32_t)smaller(r->recall.results, K_DEFAULT_MAX);
    return check_k(j, 1);
}

static void set_default(bool has, float *value, float otherwise)
{
    if (!has) *value = otherwise;
}

/* What makes rows seeds. */
static enum status check_seeding(struct job *j)
{
    struct job_request *r = &j->request;
    struct job_recall *q = &r->recall;
    set_default(r->has_threshold, &r->threshold, RECALL_THRESHOLD);
    set_default(q->has_width, &q->width, RECALL_WIDTH);
    set_default(q->has_activation_min, &q->activation_min, RECALL_ACTIVATION_MIN);
    set_default(q->has_boost, &q->boost, RECALL_BOOST);
    r->has_threshold = true;
    if (!(r->threshold >= -1 && r->threshold <= 1))
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD,
                           "threshold: %g, a cosine from -1 to 1 wanted", (double)r->threshold);
    if (!(q->width > 0) || !isfinite(q->width))
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SEEDING,
                           "width: %g, finite and above 0 wanted", (double)q->width);
    if (!(q->activation_min >= 0 && q->activation_min <= 1))
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SEEDING,
                           "activation_min: %g, 0 to 1 wanted", (double)q->activation_min);
    if (!(q->boost >= 0 && q->boost <= RECALL_BOOST_MAX))
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SEEDING,
                           "boost: %g, 0 to %g wanted", (double)q->boost, (double)RECALL_BOOST_MAX);
    q->boost = fabsf(q->boost); /* -0 would not sort */
    return STATUS_OK;
}

/* What j names is the nodes' embeddings or, in mode engram, the rows that seeds are sought
 * among. */
static enum status check_embeddings(struct job *j)
{
    struct job_request *r = &j->request;
    bool named = r->names[SPREAD_EMBEDDINGS][0];
    if (named && r->recall.ignore_embeddings)
        return check_refuse(j, DETAIL_BAD_MODE, "ignore_embeddings: a collection of them is named");
    if (r->spread.mode == SPREAD_LINEAR && r->recall.ignore_embeddings)
        return check_refuse(j, DETAIL_BAD_MODE, "ignore_embeddings: only in mode engram");
    if (r->spread.mode == SPREAD_ENGRAM && !named && !r->recall.ignore_embeddings)
        r->spread.embeddings_at = RECALL_ROWS;
    return STATUS_OK;
}

static enum status recall_check(struct job *j)
{
    struct job_spread *s = &j->request.spread;
    enum status st = check_cues(j);
    if (!st) st = check_counts(j);
    if (!st) st = check_seeding(j);
    if (!st && j->request.recall.has_time_max && !s->time_max_us)
        st = check_refuse(j, DETAIL_BAD_BUDGET, "time_max_us: 0, at least 1 wanted");
    if (!st && !s->mode) s->mode = SPREAD_ENGRAM;
    if (!st) st = spread_check_rule(j);
    return st ? st : check_embeddings(j);
}

/* ---------------------------------------------------------------- as work */

static void recall_work(const struct job *j, struct work *w)
{
    enum { ENTRY_BYTES = 21 };
    const struct job_request *r = &j->request;
    const struct edition *rows = j->objects[RECALL_ROWS].collection;
    uint64_t cues = is_present(&r->ids) ? r->ids.rows : r->queries.rows;
    uint64_t lists = is_present(&r->offsets) ? r->offsets.rows - 1 : cues;
    struct work spread = {0};
    w->stride = (uint32_t)vector_stride(collection_dimension(rows));
    w->queries = cues;
    w->rows = collection_rows(rows);
    w->k = r->k;
    w->pairs = work_times(cues, w->rows);
    w->unbounded = true; /* a spread may walk far, so it is not for the loop */
    spread_estimate(j, lists, work_times(cues, smaller(w->k, w->rows)), &spread);
    w->after = (struct work_after){spread.operation, spread.stride, spread.queries, spread.rows,
                                   spread.pairs};
    uint64_t touched = work_times(lists, smaller(r->recall.results, spread.rows + w->k));
    w->bytes_out = work_times(touched, ENTRY_BYTES);
}

/* ---------------------------------------------------------------- the plans */

static struct tensor column(enum dtype dtype, uint64_t rows, void *data)
{
    return (struct tensor){.dtype = dtype, .rows = rows, .columns = 1, .data = data};
}

/* There is no memory to spread: every list is answered with its ranked seeds. j->plan has the seeds
 * as its `before`. */
static void answer_seeds(struct job *j, struct recall *w)
{
    uint64_t seeds = w->seed_offsets[w->list_count];
    struct failure why = j->failure;
    memset(&j->failure, 0, sizeof j->failure);
    for (uint64_t i = 0; i < seeds; i++) {
        if (i % 4096 == 0) yield_check();
        w->seed_nodes[i] = SPREAD_NO_NODE;
    }
    if (spread_begin_undone(j, w->list_count)) {
        j->failure = why;
        return;
    }
    struct spread_job *s = spread_of(j);
    s->answerer = (struct spread_answerer){recall_rank, recall_reply, w};
    s->after = j->step;
    j->step = recall_reply;
}

/* The seeds become those of a spread through the graph, which is what j names first. */
static void spread_from_seeds(struct job *j)
{
    struct recall *w = recall_seeking(j);
    struct job_request *r = &j->request;
    uint64_t seeds = w->seed_offsets[w->list_count];
    struct work expected = {0};
    r->ids = column(DTYPE_UINT64, seeds, w->seed_ids);
    r->weights = column(DTYPE_FLOAT32, seeds, w->seed_activations);
    r->offsets = column(DTYPE_UINT64, w->list_count + 1, w->seed_offsets);
    r->k = 0;
    r->spread.begun_ns = j->received_ns;
    spread_estimate(j, w->list_count, seeds, &expected);
    struct heap_block before = j->plan.scratch;
    j->plan = (struct job_plan){.words = {0}};
    enum status st = operation_spread.plan(j);
    j->plan.before = before;
    if (st == STATUS_RESOURCE_EXHAUSTED) answer_seeds(j, w);
    if (st) return;
    struct spread_job *s = spread_of(j);
    s->ask.seed_nodes = w->seed_nodes;
    s->answerer = (struct spread_answerer){recall_rank, recall_reply, w};
    s->edges_expected = expected.pairs;
    j->step = steps_begin_next_plan;
}

static enum status recall_plan(struct job *j)
{
    return recall_seeds_plan(j, spread_from_seeds);
}

const struct operation_ops operation_recall = {
    .check = recall_check,
    .work = recall_work,
    .plan = recall_plan,
    .batches = recall_batches,
    .carrier = OPERATION_RECALL_BATCH,
    .batch_key = recall_batch_key,
    .batches_on_cards = true,
    .gpu_plan = recall_gpu_plan,
    .gpu_pairs = recall_gpu_pairs,
};
