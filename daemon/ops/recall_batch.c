/* recall_batch: recalls that ask the same of the same things, mostly of several connections, as one
 * run on a GPU: their lists of cues behind each other, and of what comes back each member's lists
 * are its reply, bit for bit what it would get alone. The CPU, which would gain nothing, runs them
 * one by one. */
#include "daemon/exec/batch.h"
#include "daemon/ops/filter.h"
#include "daemon/ops/recall_inside.h"
#include "daemon/ops/work.h"

enum { BATCH_CUES_MAX = 64, ENTRIES_MAX = 1 << 18 /* of all members */ };

/* ---------------------------------------------------------------- which belong together */

/* Few cues, and nothing that is its own: a budget of time counts from its own arrival. */
bool recall_batches(const struct job *j)
{
    const struct job_request *r = &j->request;
    uint64_t entries = work_times(recall_lists_of(j), r->recall.results);
    return recall_cues_of(j) <= BATCH_CUES_MAX && !filter_is_given(j) &&
           r->spread.decay != DECAY_TABLE && !r->recall.has_time_max && !r->spread.time_max_us &&
           work_times(entries, sizeof(struct recall_entry)) <= BATCH_RESULT_BYTES_MAX &&
           recall_gpu_pairs(j);
}

static bool spread_alike(const struct job_spread *a, const struct job_spread *b)
{
    bool same = true;
    for (int i = 0; i < SPREAD_TIERS; i++)
        same &= a->thresholds[i] == b->thresholds[i];
    return same && a->mode == b->mode && a->fan == b->fan && a->decay == b->decay &&
           a->decay_parameter == b->decay_parameter && a->hops == b->hops &&
           a->ignore_kinds == b->ignore_kinds && a->last_hop == b->last_hop &&
           a->paths == b->paths && a->touched_max == b->touched_max &&
           a->embeddings_at == b->embeddings_at;
}

/* True if a and b ask the same of the same editions, whatever their cues are. */
static bool are_alike(const struct job *a, const struct job *b)
{
    const struct job_recall *x = &a->request.recall, *y = &b->request.recall;
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++)
        if (a->objects[i].collection != b->objects[i].collection ||
            a->objects[i].graph != b->objects[i].graph)
            return false;
    return spread_alike(&a->request.spread, &b->request.spread) && x->results == y->results &&
           x->width == y->width && x->activation_min == y->activation_min && x->boost == y->boost &&
           x->ignore_embeddings == y->ignore_embeddings && a->request.k == b->request.k &&
           a->request.threshold == b->request.threshold && a->spread_us_max == b->spread_us_max;
}

static uint64_t mix(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* A hash of what are_alike compares; the plan leaves out what is not alike after all. */
const void *recall_batch_key(const struct job *j)
{
    const struct job_request *r = &j->request;
    uint64_t hash = mix(r->spread.mode, r->k);
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++) {
        hash = mix(hash, (uint64_t)(uintptr_t)j->objects[i].collection);
        hash = mix(hash, (uint64_t)(uintptr_t)j->objects[i].graph);
    }
    hash = mix(hash, r->recall.results);
    hash = mix(hash, canonical_bits(r->threshold));
    hash = mix(hash, (uint64_t)r->spread.hops << 32 | r->spread.fan << 8 | r->spread.decay);
    hash = mix(hash, r->spread.touched_max);
    hash = mix(hash, (uint64_t)r->spread.paths << 1 | r->recall.ignore_embeddings);
    hash = mix(hash, canonical_bits(r->spread.decay_parameter));
    for (int i = 0; i < SPREAD_TIERS; i++)
        hash = mix(hash, canonical_bits(r->spread.thresholds[i]));
    hash = mix(hash, (uint64_t)r->spread.ignore_kinds << 1 | r->spread.last_hop);
    hash = mix(hash, r->spread.embeddings_at);
    hash = mix(hash, (uint64_t)canonical_bits(r->recall.width) << 32 |
                         canonical_bits(r->recall.activation_min));
    hash = mix(hash, canonical_bits(r->recall.boost));
    hash = mix(hash, j->spread_us_max);
    return (const void *)(uintptr_t)(hash | 1);
}

/* ---------------------------------------------------------------- on the GPU process */

/* Excludes a member: the CPU runs it, or says what is wrong. */
static void leave_out(struct job *m)
{
    memset(&m->failure, 0, sizeof m->failure);
    m->gpu.gave_up = REASON_CHOSEN_FASTER;
}

/* A member that names a row that is not there has that as its answer; what its cues find, which are
 * zeros then, is nobody's. */
static void gather_cues(struct job *m, float *to)
{
    const struct edition *rows = m->objects[RECALL_ROWS].collection;
    uint64_t bytes = recall_cues_of(m) * collection_dimension(rows) * sizeof *to;
    if (is_present(&m->request.queries))
        memcpy(to, m->request.queries.data, bytes);
    else if (recall_fetch_cues(m, rows, to))
        memset(to, 0, bytes);
}

void recall_batch_gather(const struct job *c, float *cues, uint64_t *offsets)
{
    uint64_t cue = 0, list = 0;
    offsets[0] = 0;
    for (struct job *m = c->members; m; m = m->member_next) {
        const struct edition *rows = m->objects[RECALL_ROWS].collection;
        const uint64_t *own = is_present(&m->request.offsets) ? m->request.offsets.data : NULL;
        if (m->gpu.gave_up) continue;
        gather_cues(m, cues + cue * collection_dimension(rows));
        for (uint64_t i = 1; i <= recall_lists_of(m); i++)
            offsets[++list] = cue + (own ? own[i] : i);
        cue += recall_cues_of(m);
    }
}

static void batch_finish(struct job *c)
{
    uint64_t list = 0;
    for (struct job *m = c->members; m; m = m->member_next) {
        if (m->gpu.gave_up) continue;
        uint64_t first = list;
        list += recall_lists_of(m);
        if (is_cancelled(m) || m->failure.code) continue;
        operation_note_objects(m);
        if (recall_gpu_answer(m, c, first)) continue;
        operation_drop_result(m);
        m->gpu.gave_up = REASON_FALLBACK_AFTER_ERROR;
    }
}

/* What all members ask, with the shapes of all their cues and lists. */
static void ask_as(struct job *c, const struct job *first, uint64_t cues, uint64_t lists)
{
    c->request = first->request;
    c->request.ids = (struct tensor){.data = NULL};
    c->request.queries =
        (struct tensor){.dtype = DTYPE_FLOAT32,
                        .rows = cues,
                        .columns = collection_dimension(first->objects[RECALL_ROWS].collection)};
    c->request.offsets = (struct tensor){.dtype = DTYPE_UINT64, .rows = lists + 1, .columns = 1};
    c->spread_us_max = first->spread_us_max;
    c->deadline_ns = 0;
}

static enum status batch_gpu_plan(struct job *c)
{
    uint64_t cues = 0, lists = 0;
    const struct job *first = NULL;
    for (struct job *m = c->members; m; m = m->member_next) {
        memset(&m->gpu, 0, sizeof m->gpu);
        bool fits = !recall_check_shapes(m) && operation_gpu_pairs(m);
        if (!fits || (first && !are_alike(first, m))) {
            leave_out(m);
            continue;
        }
        if (!first) first = m;
        cues += recall_cues_of(m);
        lists += recall_lists_of(m);
    }
    c->gpu.unfit = !first;
    if (!first) return STATUS_OK;
    /* Each of them runs by itself, on the card if that is best for it. */
    if (lists > ORDER_RECALL_LISTS_MAX ||
        work_times(lists, first->request.recall.results) > ENTRIES_MAX)
        return failure_set(&c->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "too many lists of cues to run as one");
    ask_as(c, first, cues, lists);
    enum status st = recall_gpu_plan(c);
    c->gpu.finish = batch_finish;
    return st;
}

/* It is never the CPU's; its members would be run alone. */
static enum status batch_plan(struct job *c)
{
    return failure_set(&c->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                       "recalls run together on a GPU only");
}

const struct operation_ops operation_recall_batch = {
    .plan = batch_plan,
    .gpu_plan = batch_gpu_plan,
    .gpu_pairs = operation_batch_pairs,
};
