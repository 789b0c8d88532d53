/* cluster_reply: the strength or coherence of each cluster that is large enough, the best of them,
 * their centroids, and the reply. */
#include "daemon/base/yield.h"
#include "daemon/ops/cluster_inside.h"

static cluster_stage scored, arranged, replied;

/* ---------------------------------------------------------------- strengths */

static void strength_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct cluster_job *w = cluster_of(j);
    const struct cluster_room room = cluster_room(w, worker);
    uint64_t at = (uint64_t)part * CLUSTER_MEMBERS, end = smaller(at + CLUSTER_MEMBERS, w->placed);
    yield_check();
    while (at < end) {
        uint32_t owner = w->owners[at], slot = w->slots.at[owner];
        size_t n = 0;
        float norms[CLUSTER_TOGETHER];
        for (; n < CLUSTER_TOGETHER && at + n < end && w->owners[at + n] == owner; n++) {
            uint32_t row = w->order[at + n];
            vectors_pad(w->dimension, w->sources[row], 1, room.padded + n * w->stride);
            norms[n] = w->row_norms[row];
        }
        const struct row_block block = {room.padded, norms, n};
        w->vectors->scan(METRIC_COSINE, w->dimension, cluster_row(w, slot), w->slots.norms[slot],
                         block, w->cosines + at);
        at += n;
    }
}

static float strength(const struct cluster_job *w, uint32_t id)
{
    struct cluster_sum sum = {0};
    for (uint32_t i = 0; i < w->sizes[id]; i++)
        cluster_sum_take(&sum, w->cosines[w->places[id] + i]);
    return cluster_sum_mean(&sum, w->sizes[id]);
}

/* ---------------------------------------------------------------- coherences */

/* The members of a cluster come to lie behind each other. */
static void arrange_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct cluster_job *w = cluster_of(j);
    uint64_t at = (uint64_t)part * CLUSTER_MEMBERS, end = smaller(at + CLUSTER_MEMBERS, w->placed);
    (void)worker;
    yield_check();
    for (; at < end; at++) {
        vectors_pad(w->dimension, w->sources[w->order[at]], 1, cluster_row(w, at));
        w->cosines[at] = w->row_norms[w->order[at]];
    }
}

/* Adds up the similarities of a member to those of its own before it, of a block. */
static uint64_t units_of(const struct cluster_job *w, uint64_t at, uint64_t first, size_t count,
                         float *scores)
{
    uint64_t begin = w->places[w->owners[at]], end = smaller(first + count, at), units = 0;
    if (begin < first) begin = first;
    if (begin >= end) return 0;
    w->kernels->similarities(0.0f, NULL, (size_t)(end - begin), scores + (begin - first));
    for (uint64_t i = begin; i < end; i++)
        units += cluster_units(scores[i - first]);
    return units;
}

static void cohere_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct cluster_job *w = cluster_of(j);
    const struct cluster_room room = cluster_room(w, worker);
    const uint32_t block_rows = cluster_block_rows(w->dimension);
    uint64_t begin = (uint64_t)part * CLUSTER_GROUP;
    size_t count = (size_t)smaller(CLUSTER_GROUP, w->placed - begin);
    uint64_t end = begin + count;
    w->vectors->pack(w->dimension, cluster_row(w, begin), count, room.packed);
    const struct query_pack pack = {room.packed, w->cosines + begin, count};
    memset(w->units + begin, 0, count * sizeof *w->units);
    for (uint64_t first = w->places[w->owners[begin]]; first < end && !is_cancelled(j);
         first += block_rows) {
        size_t some = (size_t)smaller(block_rows, end - first);
        const struct row_block block = {cluster_row(w, first), w->cosines + first, some};
        yield_check();
        w->vectors->tile(METRIC_COSINE, w->dimension, &pack, block, room.scores, CLUSTER_BLOCK);
        for (size_t q = 0; q < count; q++)
            w->units[begin + q] +=
                units_of(w, begin + q, first, some, room.scores + q * CLUSTER_BLOCK);
    }
}

static bool arranged(struct job *j, struct cluster_job *w)
{
    return cluster_go(j, w, cohere_part, pieces_of(w->placed, CLUSTER_GROUP), scored);
}

static float coherence(const struct cluster_job *w, uint32_t id)
{
    uint64_t size = w->sizes[id];
    struct cluster_total total = {0};
    for (uint64_t i = 0; i < size; i++)
        total = cluster_total_add(total, (struct cluster_total){w->units[w->places[id] + i], 0});
    return size > 1 ? cluster_total_mean(total, size * (size - 1) / 2) : 1.0f;
}

/* ---------------------------------------------------------------- the best */

/* The members of what is left, cluster after cluster. */
bool cluster_score(struct job *j, struct cluster_job *w)
{
    progress_begin(&j->progress, PROGRESS_SCORES, 0);
    for (uint32_t id = 0; id < w->rows; id++) {
        if (id % CLUSTER_BLOCK == 0) yield_check();
        if (w->births[id] == CLUSTER_GONE) continue;
        w->places[id] = w->placed;
        for (uint32_t row = id; row != CLUSTER_NO_ROW; row = w->next[row]) {
            w->order[w->placed] = row;
            w->owners[w->placed++] = id;
        }
    }
    if (!w->placed) return scored(j, w);
    uint64_t parts = pieces_of(w->placed, CLUSTER_MEMBERS);
    return w->rule == CLUSTER_AVERAGE ? cluster_go(j, w, arrange_part, parts, arranged)
                                      : cluster_go(j, w, strength_part, parts, scored);
}

/* Sorts first by size, then by score, both falling; the sort leaves ids as they come. */
static uint64_t rank_key(uint32_t size, float score)
{
    uint32_t bits = canonical_bits(canonical_add(score, 0.0f));
    uint32_t rising = bits & CANONICAL_SIGN_BIT ? ~bits : bits | CANONICAL_SIGN_BIT;
    return (uint64_t)~size << 32 | (uint32_t)~rising;
}

static void choose(struct cluster_job *w)
{
    uint32_t count = 0;
    for (uint32_t id = 0; id < w->rows; id++) {
        if (id % CLUSTER_BLOCK == 0) yield_check();
        if (w->births[id] == CLUSTER_GONE) continue;
        w->scores[id] = w->rule == CLUSTER_AVERAGE ? coherence(w, id) : strength(w, id);
        if (w->scores[id] < w->score_min) continue;
        w->items[count++] = (struct radix_item){rank_key(w->sizes[id], w->scores[id]), id};
    }
    w->ranks = radix_sort(w->items, w->room, count);
    w->kept = (uint32_t)smaller(count, w->best);
}

static enum status take_result(struct job *j, const struct cluster_job *w)
{
    operation_shape(j, RESULT_CLUSTER_LABELS, DTYPE_UINT32, w->rows, 1);
    operation_shape(j, RESULT_CLUSTER_SIZES, DTYPE_UINT32, w->kept, 1);
    operation_shape(j, RESULT_CLUSTER_SCORES, DTYPE_FLOAT32, w->kept, 1);
    operation_shape(j, RESULT_CLUSTER_CENTROIDS, DTYPE_FLOAT32, w->kept, w->dimension);
    if (w->ids) operation_shape(j, RESULT_CLUSTER_IDS, DTYPE_UINT64, w->rows, 1);
    return operation_take_result(j, w->ids ? RESULTS_Cluster : RESULT_CLUSTER_IDS);
}

/* ---------------------------------------------------------------- the reply */

static void mean_of(struct job *j, const struct cluster_job *w, uint32_t id, uint32_t worker,
                    float *mean)
{
    enum { ROWS = 64 };
    const struct cluster_room room = cluster_room(w, worker);
    memset(room.sums, 0, w->dimension * sizeof *room.sums);
    memset(room.corrections, 0, w->dimension * sizeof *room.corrections);
    for (uint32_t first = 0; first < w->sizes[id] && !is_cancelled(j); first += ROWS) {
        const float *rows[ROWS];
        size_t n = (size_t)smaller(ROWS, w->sizes[id] - first);
        for (size_t i = 0; i < n; i++)
            rows[i] = w->sources[w->order[w->places[id] + first + i]];
        yield_check();
        w->kernels->add(rows, n, 0, w->dimension, room.sums, room.corrections);
    }
    w->kernels->divide(room.sums, room.corrections, w->dimension, w->sizes[id], mean);
}

/* A cluster's line of the reply, and its members' labels. */
static void reply_part(struct job *j, uint32_t part, uint32_t worker)
{
    const struct cluster_job *w = cluster_of(j);
    const struct tensor *t = j->result.tensors;
    uint32_t id = w->ranks[part].value;
    uint32_t *labels = t[RESULT_CLUSTER_LABELS].data;
    float *mean = (float *)t[RESULT_CLUSTER_CENTROIDS].data + (size_t)part * w->dimension;
    yield_check();
    ((uint32_t *)t[RESULT_CLUSTER_SIZES].data)[part] = w->sizes[id];
    ((float *)t[RESULT_CLUSTER_SCORES].data)[part] = w->scores[id];
    if (w->rule == CLUSTER_CENTROID && w->sizes[id] > 1)
        memcpy(mean, cluster_row(w, w->slots.at[id]), w->dimension * sizeof *mean);
    else
        mean_of(j, w, id, worker, mean);
    for (uint32_t i = 0; i < w->sizes[id]; i++)
        labels[w->order[w->places[id] + i]] = part;
}

static bool scored(struct job *j, struct cluster_job *w)
{
    choose(w);
    progress_begin(&j->progress, PROGRESS_REPLY, 0);
    if (take_result(j, w)) return false;
    uint32_t *labels = j->result.tensors[RESULT_CLUSTER_LABELS].data;
    for (uint32_t i = 0; i < w->rows; i++)
        labels[i] = CLUSTER_NO_ROW;
    if (w->ids)
        memcpy(j->result.tensors[RESULT_CLUSTER_IDS].data, w->ids, w->rows * sizeof *w->ids);
    return w->kept ? cluster_go(j, w, reply_part, w->kept, replied) : replied(j, w);
}

/* Stores the centroids: that of cluster i with the id offset + i. */
static void store(struct job *j, struct cluster_job *w)
{
    const struct job_object *into = &j->objects[CLUSTER_INTO];
    uint64_t *ids = (uint64_t *)(w->ranks == w->items ? w->room : w->items);
    struct upsert_counts counts = {0};
    for (uint32_t i = 0; i < w->kept; i++)
        ids[i] = j->request.offset + i;
    const struct upsert_rows what = {
        .ids = ids, .rows = j->result.tensors[RESULT_CLUSTER_CENTROIDS].data, .n = w->kept};
    collection_write_rows((struct collection *)into->resident, &what, &counts, &j->failure);
    j->result.counts[2] = counts.inserted;
    j->result.counts[3] = counts.replaced;
}

static bool replied(struct job *j, struct cluster_job *w)
{
    j->result.counts[0] = w->merges;
    j->result.counts[1] = w->scans;
    if (j->objects[CLUSTER_INTO].resident && w->kept) store(j, w);
    if (!j->failure.code) operation_note_objects(j);
    return false;
}
