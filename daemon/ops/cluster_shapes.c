/* cluster_shapes: what is known of a clustering before it runs. */
#include <math.h>

#include "daemon/ops/check.h"
#include "daemon/ops/cluster_inside.h"
#include "daemon/ops/work.h"

static enum status check_score(struct job *j, const char *name, float value)
{
    if (value >= -1.0f && value <= 1.0f) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD,
                       "%s: %g, -1 to 1 wanted", name, (double)value);
}

static enum status check_numbers(struct job *j)
{
    struct job_request *r = &j->request;
    struct job_cluster *c = &r->cluster;
    if (c->rule == 0) c->rule = CLUSTER_CENTROID;
    if (c->rule > CLUSTER_AVERAGE)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_RULE,
                           "rule: %" PRIu32 "; 1 centroid, 2 average", c->rule);
    bool average = c->rule == CLUSTER_AVERAGE;
    if (!r->has_threshold) r->threshold = average ? 0.55f : 0.8f;
    if (!c->has_threshold_second) c->threshold_second = 0.9f;
    if (!c->has_score_min) c->score_min = average ? 0.65f : -1.0f;
    if (!c->has_size_min) c->size_min = 3;
    if (!c->has_clusters_max) c->clusters_max = average ? UINT32_MAX : 100;
    enum status st = check_score(j, "threshold", r->threshold);
    if (!st) st = check_score(j, "threshold_second", c->threshold_second);
    if (!st) st = check_score(j, "score_min", c->score_min);
    if (st) return st;
    if (average && c->has_threshold_second)
        return check_refuse(j, DETAIL_BAD_THRESHOLD, "threshold_second: rule average has none");
    if (!average && is_present(&r->weights))
        return check_refuse(j, DETAIL_BAD_TIMES, "times: rule centroid has none");
    if (!c->size_min) return check_refuse(j, DETAIL_BAD_SIZE, "size_min: 0, at least 1 wanted");
    if (!c->clusters_max)
        return check_refuse(j, DETAIL_BAD_SIZE, "clusters_max: 0, at least 1 wanted");
    return STATUS_OK;
}

/* True if the reply names the rows. */
static bool lists_all(const struct job *j)
{
    return j->collection && !is_present(&j->request.ids);
}

static uint64_t count_rows(const struct job *j)
{
    return is_present(&j->request.ids) ? j->request.ids.rows : work_rows(j);
}

static enum status check_times(struct job *j, uint64_t rows)
{
    const struct job_request *r = &j->request;
    if (!is_present(&r->weights) || r->weights.rows == rows) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                       "times: %" PRIu64 " for %" PRIu64 " rows", r->weights.rows, rows);
}

static enum status check_two(struct job *j, uint64_t rows)
{
    if (rows >= 2) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                       "rows: %" PRIu64 ", at least 2 wanted", rows);
}

static enum status check_into(struct job *j)
{
    const struct job_request *r = &j->request;
    const struct job_write *w = &r->write;
    if (r->names[CLUSTER_INTO][0]) return STATUS_OK;
    if (r->offset) return check_refuse(j, DETAIL_BAD_NAME, "into: empty, and into_first is given");
    if (w->version || w->token_low || w->token_high)
        return check_refuse(j, DETAIL_BAD_NAME, "into: empty, and a write is described");
    return STATUS_OK;
}

enum status cluster_check(struct job *j)
{
    const struct job_request *r = &j->request;
    enum status st = check_numbers(j);
    if (!st) st = check_target(j);
    if (!st && is_present(&r->ids) && !r->names[0][0])
        st = check_refuse(j, DETAIL_BAD_NAME, "collection: empty, and ids are given");
    if (!st) st = check_into(j);
    if (st || (!is_present(&r->ids) && !is_present(&r->rows))) return st;
    uint64_t rows = is_present(&r->ids) ? r->ids.rows : r->rows.rows;
    st = check_two(j, rows);
    return st ? st : check_times(j, rows);
}

/* How many merges there will be, only the rows tell; every second row is a guess. */
void cluster_work(const struct job *j, struct work *w)
{
    uint64_t rows = count_rows(j), pairs = work_times(rows, rows);
    w->queries = 1;
    w->pairs = pairs;
    w->rows = j->request.cluster.rule == CLUSTER_AVERAGE ? rows : pairs / 4;
    w->unbounded = true;
    w->bytes_out = work_times(rows, sizeof(uint32_t) + sizeof(uint64_t));
}

/* Seconds that an idle machine's workers may take, as cost.c has it before anything is known. */
static double seconds_of(const struct job *j, uint64_t rows, uint32_t dimension)
{
    double pairs = (double)rows * (double)rows, floats = (double)vector_stride(dimension);
    double products = pairs * floats / 40, scans = pairs * floats / 10;
    bool average = j->request.cluster.rule == CLUSTER_AVERAGE;
    double shared = average ? products : products + scans;
    return (shared / j->worker_count + (average ? pairs * 10 : 0)) * 1e-9;
}

static enum status check_rows(struct job *j, uint64_t rows, uint32_t dimension)
{
    bool average = j->request.cluster.rule == CLUSTER_AVERAGE;
    uint64_t most = j->cluster_rows_max[average];
    if (rows <= most) return check_two(j, rows);
    enum { BYTES_A_ROW = 300, BYTES_A_PAIR = 14 };
    uint64_t bytes = work_times(rows, vector_stride(dimension) * sizeof(float) + BYTES_A_ROW);
    if (average) bytes = work_times(rows, rows) / 2 * BYTES_A_PAIR;
    double seconds = seconds_of(j, rows, dimension);
    failure_set(
        &j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_ROWS,
        "%" PRIu64 " rows would take some %.*f s and %.*f MiB; the limit is %" PRIu64 " (%s)", rows,
        seconds < 10 ? 2 : 0, seconds, bytes < 10 << 20 ? 2 : 0, (double)bytes / (1 << 20), most,
        average ? "limits.cluster_average_rows" : "limits.cluster_rows");
    return j->failure.code;
}

/* How many clusters there will be is known at the end, so there must be room for as many as there
 * may be: nobody waits for work whose reply is refused. */
static enum status check_reply(struct job *j, uint64_t rows, uint32_t dimension)
{
    const struct job_cluster *c = &j->request.cluster;
    uint64_t most = smaller(c->clusters_max, rows / c->size_min), bytes = 0;
    layout_add(&bytes, rows * sizeof(uint32_t));                   /* labels */
    layout_add(&bytes, most * sizeof(uint32_t));                   /* sizes */
    layout_add(&bytes, most * sizeof(float));                      /* scores */
    layout_add(&bytes, most * dimension * sizeof(float));          /* centroids */
    if (lists_all(j)) layout_add(&bytes, rows * sizeof(uint64_t)); /* ids */
    if (bytes <= j->reply_bytes_max) return STATUS_OK;
    return failure_set(&j->failure, STATUS_RESOURCE_EXHAUSTED, DETAIL_REPLY_TOO_LARGE,
                       "a reply of up to %" PRIu64 " clusters would take %" PRIu64
                       " bytes, the limit is %" PRIu64
                       " (limits.reply_body_mib); a lower clusters_max takes less",
                       most, bytes, j->reply_bytes_max);
}

enum status cluster_begin(struct job *j, struct cluster_job *w)
{
    const struct job_request *r = &j->request;
    const struct job_object *into = &j->objects[CLUSTER_INTO];
    uint32_t dimension = 0;
    enum status st = STATUS_OK;
    if (j->collection)
        dimension = collection_dimension(j->collection);
    else
        st = operation_check_dimension(j, &r->rows, "rows", &dimension);
    uint64_t rows = count_rows(j);
    if (!st) st = check_rows(j, rows, dimension);
    if (!st) st = check_times(j, rows);
    if (!st) st = check_reply(j, rows, dimension);
    if (st) return st;
    if (into->resident && collection_dimension(into->collection) != dimension)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                           "centroids have %" PRIu32 " dimensions, %s has %" PRIu32, dimension,
                           r->names[CLUSTER_INTO], collection_dimension(into->collection));
    w->vectors = j->kernels;
    w->kernels = cluster_choose(j->kernels->name);
    w->collection = j->collection;
    w->rule = (enum cluster_rule)r->cluster.rule;
    w->dimension = dimension;
    w->rows = (uint32_t)rows;
    w->stride = vector_stride(dimension);
    w->threshold = r->threshold;
    w->threshold_second = nextafterf(r->cluster.threshold_second, INFINITY); /* above it */
    w->score_min = r->cluster.score_min;
    w->size_min = r->cluster.size_min;
    w->best = r->cluster.clusters_max;
    w->times = is_present(&r->weights) ? r->weights.data : NULL;
    if (r->offset > UINT64_MAX - rows)
        return check_refuse(j, DETAIL_BAD_SHAPE, "into_first: ids would pass 2^64 - 1");
    return STATUS_OK;
}

/* Where each array lies, as an offset in its pointer. */
static void *add(uint64_t *bytes, uint64_t wanted)
{
    return (void *)(uintptr_t)layout_add(bytes, wanted);
}

static uint64_t room_bytes(const struct cluster_job *w)
{
    uint64_t bytes = 0;
    layout_add(&bytes, w->vectors->pack_bytes(w->dimension, CLUSTER_GROUP));
    layout_add(&bytes, CLUSTER_GROUP * CLUSTER_BLOCK * sizeof(float));
    layout_add(&bytes, (CLUSTER_BLOCK + 16) * sizeof(uint32_t));
    layout_add(&bytes, CLUSTER_TOGETHER * w->stride * sizeof(float));
    layout_add(&bytes, w->stride * sizeof(float));
    layout_add(&bytes, w->stride * sizeof(double));
    return bytes;
}

struct cluster_room cluster_room(const struct cluster_job *w, uint32_t worker)
{
    char *memory = w->workers + worker * w->worker_bytes;
    struct cluster_room r;
    uint64_t bytes = 0;
    r.packed = memory + layout_add(&bytes, w->vectors->pack_bytes(w->dimension, CLUSTER_GROUP));
    r.scores = (float *)(memory + layout_add(&bytes, CLUSTER_GROUP * CLUSTER_BLOCK * 4));
    r.positions = (uint32_t *)(memory + layout_add(&bytes, (CLUSTER_BLOCK + 16) * 4));
    r.padded = (float *)(memory + layout_add(&bytes, CLUSTER_TOGETHER * w->stride * 4));
    r.sums = (float *)(memory + layout_add(&bytes, w->stride * sizeof(float)));
    r.corrections = (double *)(memory + bytes);
    return r;
}

static void layout_centroid(struct cluster_job *w, uint64_t *bytes)
{
    uint64_t rows = w->rows;
    w->parts_max = pieces_of(rows, CLUSTER_BLOCK);
    w->slots.ids = add(bytes, rows * sizeof(uint32_t));
    w->slots.at = add(bytes, rows * sizeof(uint32_t));
    w->slots.norms = add(bytes, rows * sizeof(float));
    if (w->on_card) return;
    w->slots.best = add(bytes, rows * sizeof *w->slots.best);
    w->near = add(bytes, rows * sizeof *w->near);
    w->nears = add(bytes, w->parts_max * sizeof *w->nears);
    w->bests = add(bytes, w->parts_max * sizeof *w->bests);
    w->members = add(bytes, rows * sizeof *w->members);
    w->sums = add(bytes, w->stride * sizeof *w->sums);
    w->corrections = add(bytes, w->stride * sizeof *w->corrections);
}

static void layout_average(struct cluster_job *w, uint64_t *bytes)
{
    uint64_t rows = w->rows, pairs = rows * (rows - 1) / 2;
    w->units = add(bytes, rows * sizeof *w->units);
    if (w->on_card) return;
    w->means = add(bytes, pairs * sizeof *w->means);
    w->lows = add(bytes, pairs * sizeof *w->lows);
    w->highs = add(bytes, pairs * sizeof *w->highs);
    w->nearest = add(bytes, rows * sizeof *w->nearest);
}

uint64_t cluster_layout(const struct job *j, struct cluster_job *w)
{
    uint64_t bytes = 0, rows = w->rows;
    layout_add(&bytes, sizeof *w);
    w->sources = add(&bytes, rows * sizeof *w->sources);
    w->padded = add(&bytes, rows * w->stride * sizeof(float));
    w->row_norms = add(&bytes, rows * sizeof(float));
    w->births = add(&bytes, rows * sizeof(uint32_t));
    w->next = add(&bytes, rows * sizeof(uint32_t));
    w->sizes = add(&bytes, rows * sizeof(uint32_t));
    w->order = add(&bytes, rows * sizeof(uint32_t));
    w->owners = add(&bytes, rows * sizeof(uint32_t));
    w->places = add(&bytes, rows * sizeof(uint32_t));
    w->cosines = add(&bytes, rows * sizeof(float));
    w->scores = add(&bytes, rows * sizeof(float));
    w->items = add(&bytes, rows * sizeof *w->items);
    if (w->on_card) w->stop = add(&bytes, sizeof *w->stop);
    if (w->on_card && w->collection) w->positions = add(&bytes, rows * sizeof *w->positions);
    w->room = add(&bytes, rows * sizeof *w->room);
    if (lists_all(j)) w->ids = add(&bytes, rows * sizeof(uint64_t));
    if (w->rule == CLUSTER_CENTROID)
        layout_centroid(w, &bytes);
    else
        layout_average(w, &bytes);
    w->worker_bytes = room_bytes(w);
    w->workers = add(&bytes, j->worker_count * w->worker_bytes);
    return bytes;
}

/* Offset 0 is the state's, so that it stands for no array. */
static void *at(const struct job *j, const void *offset)
{
    return offset ? scratch_at(j, (uintptr_t)offset) : NULL;
}

void cluster_place(struct job *j)
{
    struct cluster_job *w = cluster_of(j);
    w->sources = at(j, w->sources);
    w->padded = at(j, w->padded);
    w->row_norms = at(j, w->row_norms);
    w->births = at(j, w->births);
    w->next = at(j, w->next);
    w->sizes = at(j, w->sizes);
    w->order = at(j, w->order);
    w->owners = at(j, w->owners);
    w->places = at(j, w->places);
    w->cosines = at(j, w->cosines);
    w->scores = at(j, w->scores);
    w->items = at(j, w->items);
    w->stop = at(j, w->stop);
    w->positions = at(j, w->positions);
    w->room = at(j, w->room);
    w->ids = at(j, w->ids);
    w->slots.ids = at(j, w->slots.ids);
    w->slots.at = at(j, w->slots.at);
    w->slots.norms = at(j, w->slots.norms);
    w->slots.best = at(j, w->slots.best);
    w->near = at(j, w->near);
    w->nears = at(j, w->nears);
    w->bests = at(j, w->bests);
    w->members = at(j, w->members);
    w->sums = at(j, w->sums);
    w->corrections = at(j, w->corrections);
    w->means = at(j, w->means);
    w->lows = at(j, w->lows);
    w->highs = at(j, w->highs);
    w->units = at(j, w->units);
    w->nearest = at(j, w->nearest);
    w->workers = at(j, w->workers);
}
