/* cluster_average: rule average. The exact sums of similarities of all pairs of clusters, and their
 * means, as a triangle; each cluster knows the nearest of those with a smaller id. A merge adds two
 * clusters' sums. A cluster whose nearest is gone keeps its value as a bound, since no mean with
 * what it knew rises, and looks again when no other pair precedes that. */
#include <math.h>

#include "daemon/base/yield.h"
#include "daemon/ops/cluster_inside.h"

/* ---------------------------------------------------------------- all against all */

static void keep(struct cluster_job *w, uint32_t row, uint32_t first, size_t count,
                 const float *similarities)
{
    uint64_t at = cluster_pair_at(row, first);
    memcpy(w->means + at, similarities, count * sizeof *similarities);
    for (size_t i = 0; i < count; i++) {
        w->lows[at + i] = cluster_units(similarities[i]);
        w->highs[at + i] = 0;
    }
}

static void look(struct cluster_job *w, uint32_t row)
{
    float value = -INFINITY;
    size_t id = row ? w->kernels->largest(w->means + cluster_pair_at(row, 0), row, &value) : 0;
    w->nearest[row] = (struct cluster_nearest){(uint32_t)id, false};
    w->scores[row] = value;
}

static void pairs_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct cluster_job *w = cluster_of(j);
    const struct cluster_room room = cluster_room(w, worker);
    const uint32_t block_rows = cluster_block_rows(w->dimension);
    uint32_t begin = part * CLUSTER_GROUP;
    uint32_t count = (uint32_t)smaller(CLUSTER_GROUP, w->rows - begin), end = begin + count;
    w->vectors->pack(w->dimension, cluster_row(w, begin), count, room.packed);
    const struct query_pack pack = {room.packed, w->row_norms + begin, count};
    for (uint32_t first = 0; first < end && !is_cancelled(j); first += block_rows) {
        size_t some = (size_t)smaller(block_rows, end - first);
        const struct row_block block = {cluster_row(w, first), w->row_norms + first, some};
        yield_check();
        w->vectors->tile(METRIC_COSINE, w->dimension, &pack, block, room.scores, CLUSTER_BLOCK);
        for (uint32_t row = begin; row < end; row++) {
            float *scores = room.scores + (row - begin) * CLUSTER_BLOCK;
            if (row <= first) continue;
            size_t before = (size_t)smaller(some, row - first);
            w->kernels->similarities(w->times ? w->times[row] : 0.0f,
                                     w->times ? w->times + first : NULL, before, scores);
            keep(w, row, first, before, scores);
        }
    }
    for (uint32_t row = begin; row < end && !is_cancelled(j); row++)
        look(w, row);
    progress_add(&j->progress, cluster_pair_at(end, 0) - cluster_pair_at(begin, 0));
}

/* ---------------------------------------------------------------- merges */

static uint64_t place_of(uint32_t a, uint32_t b)
{
    return a > b ? cluster_pair_at(a, b) : cluster_pair_at(b, a);
}

/* Tells `row`, which is above low, its new mean to it. That is more than it had where high was
 * nearer, but above it. */
static void renew(struct cluster_job *w, uint32_t row, uint32_t low, uint32_t high, float mean)
{
    struct cluster_nearest *n = &w->nearest[row];
    float value = w->scores[row];
    bool gone = n->id == low || n->id == high;
    if (mean > value || (!n->stale && mean == value && low <= n->id)) {
        w->scores[row] = mean;
        *n = (struct cluster_nearest){low, false};
    } else if (!n->stale && gone) {
        *n = (struct cluster_nearest){0, true};
    }
}

static void add_sums(struct cluster_job *w, uint32_t low, uint32_t high)
{
    uint64_t size = (uint64_t)w->sizes[low] + w->sizes[high];
    for (uint32_t id = 0; id < w->rows; id++) {
        if (id % CLUSTER_BLOCK == 0) yield_check();
        if (w->births[id] == CLUSTER_GONE || id == low || id == high) continue;
        uint64_t to = place_of(id, low), from = place_of(id, high);
        const struct cluster_total total =
            cluster_total_add((struct cluster_total){w->lows[to], w->highs[to]},
                              (struct cluster_total){w->lows[from], w->highs[from]});
        float mean = cluster_total_mean(total, size * w->sizes[id]);
        w->lows[to] = total.low, w->highs[to] = total.high;
        w->means[to] = mean;
        if (id > high) w->means[from] = -INFINITY;
        if (id > low) renew(w, id, low, high, mean);
    }
}

static void merge(struct cluster_job *w, uint32_t low, uint32_t high)
{
    add_sums(w, low, high);
    cluster_link(w, low, high);
    w->births[low] = ++w->merges;
    w->births[high] = CLUSTER_GONE;
    w->scores[high] = -INFINITY;
    look(w, low);
}

/* Of all with the largest value the one whose nearest has the lowest id, which counts as 0 where it
 * is stale. Returns the row; *value: what it has. */
static uint32_t best_row(const struct cluster_job *w, float *value)
{
    uint32_t best = (uint32_t)w->kernels->largest(w->scores, w->rows, value);
    for (uint32_t row = best; row < w->rows; row++) {
        if (w->scores[row] != *value) continue;
        if (w->nearest[row].id < w->nearest[best].id) best = row;
    }
    return best;
}

/* Merges what a card is known to have merged. */
static void merge_known(struct job *j, struct cluster_job *w)
{
    for (uint32_t i = 0; w->known.merges && i < w->known.count && !is_cancelled(j); i++) {
        yield_check();
        merge(w, (uint32_t)(w->items[i].key >> 32), (uint32_t)w->items[i].key);
    }
}

/* Merges until no pair reaches the threshold. */
static void merge_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct cluster_job *w = cluster_of(j);
    (void)part, (void)worker;
    merge_known(j, w);
    while (!is_cancelled(j)) {
        float value;
        uint32_t row = best_row(w, &value);
        yield_check();
        if (!(value >= w->threshold)) return;
        if (w->nearest[row].stale)
            look(w, row), w->scans++;
        else
            merge(w, w->nearest[row].id, row), progress_add(&j->progress, 1);
    }
}

static bool average_merged(struct job *j, struct cluster_job *w)
{
    for (uint32_t id = 0; id < w->rows; id++)
        if (w->sizes[id] < w->size_min) w->births[id] = CLUSTER_GONE;
    return cluster_score(j, w);
}

static bool average_paired(struct job *j, struct cluster_job *w)
{
    progress_begin(&j->progress, PROGRESS_MERGES, w->rows - 1);
    return cluster_go(j, w, merge_part, 1, average_merged);
}

bool cluster_average(struct job *j, struct cluster_job *w)
{
    progress_begin(&j->progress, PROGRESS_PAIRS, cluster_pair_at(w->rows, 0));
    return cluster_go(j, w, pairs_part, pieces_of(w->rows, CLUSTER_GROUP), average_paired);
}
