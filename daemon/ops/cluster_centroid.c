/* cluster_centroid: rule centroid. Each cluster keeps its nearest (kernels/cluster_near.h), found
 * by scoring all against all once. A merge makes one cluster, whose centroid is scored against all
 * others in one scan, which also tells it to their lists. A list that has run out while something
 * beyond it may still reach the threshold is only filled again, by another scan, when no known pair
 * precedes what may be there. */
#include <math.h>

#include "daemon/base/yield.h"
#include "daemon/ops/cluster_inside.h"

static cluster_stage centroid_pick, centroid_scanned, centroid_meant;

static const struct cluster_best no_pair = {.value = -INFINITY};

static struct cluster_best best_of(struct cluster_job *w, uint32_t id)
{
    return cluster_near_best(&w->near[id], id, w->births);
}

/* ---------------------------------------------------------------- all against all */

static float cosine_floor(const struct cluster_job *w)
{
    return w->second ? w->threshold_second : w->threshold;
}

/* Offers a block's scores against one cluster. */
static void offer_block(struct cluster_job *w, uint32_t slot, const float *scores, uint32_t first,
                        size_t count, uint32_t *positions)
{
    struct cluster_near *near = &w->near[w->slots.ids[slot]];
    float floor = fmaxf(cosine_floor(w), near->bound.value);
    size_t passed = w->vectors->pass(scores, count, floor, false, positions);
    for (size_t i = 0; i < passed; i++) {
        uint32_t other = first + positions[i];
        if (other == slot) continue;
        uint32_t id = w->slots.ids[other];
        const struct cluster_pair p = {scores[positions[i]], id, w->births[id]};
        cluster_near_offer(near, p, w->births);
    }
}

static void near_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct cluster_job *w = cluster_of(j);
    const struct cluster_room room = cluster_room(w, worker);
    const uint32_t block_rows = cluster_block_rows(w->dimension);
    uint32_t live = w->slots.count, begin = part * CLUSTER_GROUP;
    uint32_t count = (uint32_t)smaller(CLUSTER_GROUP, live - begin);
    w->vectors->pack(w->dimension, cluster_row(w, begin), count, room.packed);
    const struct query_pack pack = {room.packed, w->slots.norms + begin, count};
    for (uint32_t q = 0; q < count; q++)
        cluster_near_clear(&w->near[w->slots.ids[begin + q]]);
    for (uint32_t first = 0; first < live && !is_cancelled(j); first += block_rows) {
        size_t some = (size_t)smaller(block_rows, live - first);
        const struct row_block block = {cluster_row(w, first), w->slots.norms + first, some};
        yield_check();
        w->vectors->tile(METRIC_COSINE, w->dimension, &pack, block, room.scores, CLUSTER_BLOCK);
        for (uint32_t q = 0; q < count; q++)
            offer_block(w, begin + q, room.scores + q * CLUSTER_BLOCK, first, some, room.positions);
    }
    for (uint32_t q = 0; q < count; q++)
        w->slots.best[begin + q] = best_of(w, w->slots.ids[begin + q]);
    progress_add(&j->progress, (uint64_t)count * live);
}

/* All pairs' bests, once; a scan tells them of its parts afterwards. */
static bool near_found(struct job *j, struct cluster_job *w)
{
    struct cluster_best best = no_pair;
    for (uint32_t slot = 0; slot < w->slots.count; slot++) {
        if (slot % 4096 == 0) yield_check();
        if (cluster_best_before(&w->slots.best[slot], &best)) best = w->slots.best[slot];
    }
    w->bests[0] = best;
    w->scan.part_slots = w->slots.count;
    progress_begin(&j->progress, PROGRESS_MERGES, w->slots.count - 1);
    return centroid_pick(j, w);
}

bool cluster_begin_pass(struct job *j, struct cluster_job *w)
{
    progress_begin(&j->progress, PROGRESS_PAIRS, (uint64_t)w->slots.count * w->slots.count);
    return cluster_go(j, w, near_part, pieces_of(w->slots.count, CLUSTER_GROUP), near_found);
}

bool cluster_centroid(struct job *j, struct cluster_job *w)
{
    struct cluster_slots *s = &w->slots;
    s->count = w->rows;
    for (uint32_t i = 0; i < w->rows; i++) {
        if (i % 4096 == 0) yield_check();
        s->ids[i] = s->at[i] = i;
        s->norms[i] = w->row_norms[i];
    }
    return cluster_begin_pass(j, w);
}

/* ---------------------------------------------------------------- one cluster against all */

static void score_slots(struct cluster_job *w, uint32_t first, size_t count, float *scores)
{
    uint32_t slot = w->scan.slot;
    const struct row_block block = {cluster_row(w, first), w->slots.norms + first, count};
    w->vectors->scan(METRIC_COSINE, w->dimension, cluster_row(w, slot), w->slots.norms[slot], block,
                     scores);
}

/* Tells one slot of the cluster that is scanned for, and that of it. */
static void take_score(struct cluster_job *w, uint32_t slot, float score, struct cluster_near *near)
{
    const struct cluster_scan *s = &w->scan;
    struct cluster_best *best = &w->slots.best[slot];
    uint32_t id = w->slots.ids[slot], own = w->slots.ids[s->slot];
    bool reaches = score >= cosine_floor(w);
    if (reaches) {
        const struct cluster_pair p = {score, id, w->births[id]};
        cluster_near_offer(near, p, w->births);
    }
    if (!s->merged) return;
    if (reaches) {
        const struct cluster_pair p = {score, own, w->births[own]};
        cluster_near_offer(&w->near[id], p, w->births);
    }
    uint32_t other = best->low == id ? best->high : best->low;
    bool gone = best->certain && (other == s->low || other == s->high);
    if (reaches || gone) *best = best_of(w, id);
}

static void scan_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct cluster_job *w = cluster_of(j);
    float *scores = cluster_room(w, worker).scores;
    struct cluster_near *near = &w->nears[part];
    struct cluster_best best = no_pair;
    uint64_t first = part * w->scan.part_slots;
    uint64_t end = smaller(first + w->scan.part_slots, w->slots.count);
    cluster_near_clear(near);
    for (; first < end && !is_cancelled(j); first += CLUSTER_BLOCK) {
        size_t count = (size_t)smaller(CLUSTER_BLOCK, end - first);
        yield_check();
        score_slots(w, (uint32_t)first, count, scores);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t slot = (uint32_t)first + i;
            if (slot == w->scan.slot) continue;
            take_score(w, slot, scores[i], near);
            if (cluster_best_before(&w->slots.best[slot], &best)) best = w->slots.best[slot];
        }
    }
    w->bests[part] = best;
}

/* A part reads about a MiB. */
static bool begin_scan(struct job *j, struct cluster_job *w)
{
    enum { PART_BYTES = 1 << 20 };
    uint64_t slots = PART_BYTES / (w->stride * sizeof(float)) / CLUSTER_BLOCK * CLUSTER_BLOCK;
    w->scan.part_slots = slots < CLUSTER_BLOCK ? CLUSTER_BLOCK : slots;
    w->scans++;
    return cluster_go(j, w, scan_part, pieces_of(w->slots.count, w->scan.part_slots),
                      centroid_scanned);
}

static bool centroid_scanned(struct job *j, struct cluster_job *w)
{
    uint32_t slot = w->scan.slot, id = w->slots.ids[slot];
    uint64_t parts = pieces_of(w->slots.count, w->scan.part_slots);
    struct cluster_near *near = &w->near[id];
    cluster_near_clear(near);
    for (uint64_t part = 0; part < parts; part++)
        cluster_near_join(near, &w->nears[part], w->births);
    w->slots.best[slot] = best_of(w, id);
    if (cluster_best_before(&w->slots.best[slot], &w->bests[0])) w->bests[0] = w->slots.best[slot];
    return centroid_pick(j, w);
}

/* ---------------------------------------------------------------- a merge */

static void mean_part(struct job *j, uint32_t part, uint32_t worker)
{
    enum { ROWS = 256 };
    struct cluster_job *w = cluster_of(j);
    size_t first = (size_t)part * CLUSTER_COLUMNS;
    size_t columns = (size_t)smaller(CLUSTER_COLUMNS, w->dimension - first);
    uint32_t slot = w->scan.slot, count = w->sizes[w->slots.ids[slot]];
    float *sums = w->sums + first;
    double *corrections = w->corrections + first;
    (void)worker;
    for (size_t c = 0; c < columns; c++)
        sums[c] = 0.0f, corrections[c] = 0.0;
    for (uint32_t row = 0; row < count && !is_cancelled(j); row += ROWS) {
        yield_check();
        w->kernels->add(w->members + row, (size_t)smaller(ROWS, count - row), first, columns, sums,
                        corrections);
    }
    w->kernels->divide(sums, corrections, columns, count, cluster_row(w, slot) + first);
}

static bool centroid_meant(struct job *j, struct cluster_job *w)
{
    float *norm = &w->slots.norms[w->scan.slot];
    w->vectors->norms(w->dimension, cluster_row(w, w->scan.slot), 1, norm);
    *norm = cluster_norm(*norm);
    return begin_scan(j, w);
}

/* The last slot's cluster moves to this one. */
static void free_slot(struct cluster_job *w, uint32_t slot)
{
    struct cluster_slots *s = &w->slots;
    uint32_t last = --s->count;
    if (slot == last) return;
    memcpy(cluster_row(w, slot), cluster_row(w, last), w->stride * sizeof(float));
    s->norms[slot] = s->norms[last];
    s->best[slot] = s->best[last];
    s->ids[slot] = s->ids[last];
    s->at[s->ids[slot]] = slot;
}

static bool merge(struct job *j, struct cluster_job *w, const struct cluster_best *pair)
{
    enum { ALONE = 1 << 16 }; /* numbers that are added before another worker is awake */
    uint32_t low = pair->low, high = pair->high, count = 0;
    cluster_link(w, low, high);
    progress_add(&j->progress, 1);
    w->births[low] = ++w->merges;
    w->births[high] = CLUSTER_GONE;
    free_slot(w, w->slots.at[high]);
    w->scan =
        (struct cluster_scan){.slot = w->slots.at[low], .merged = true, .low = low, .high = high};
    for (uint32_t row = low; row != CLUSTER_NO_ROW; row = w->next[row]) {
        if (count % 4096 == 0) yield_check();
        w->members[count++] = w->sources[row];
    }
    uint64_t parts = pieces_of(w->dimension, CLUSTER_COLUMNS);
    if ((uint64_t)count * w->dimension > ALONE)
        return cluster_go(j, w, mean_part, parts, centroid_meant);
    for (uint64_t part = 0; part < parts; part++)
        mean_part(j, (uint32_t)part, 0);
    return centroid_meant(j, w);
}

/* Of fewer than size_min, whatever merges would come; their ids are gone. */
static void drop_small(struct cluster_job *w)
{
    for (uint32_t slot = w->slots.count; slot-- > 0;) {
        uint32_t id = w->slots.ids[slot];
        if (slot % 64 == 0) yield_check();
        if (w->sizes[id] >= w->size_min) continue;
        w->births[id] = CLUSTER_GONE;
        free_slot(w, slot);
    }
}

/* No pair reaches the first threshold any more, so none reaches a higher one. */
static bool end_pass(struct job *j, struct cluster_job *w)
{
    if (w->second) return cluster_score(j, w);
    drop_small(w);
    w->second = true;
    if (w->threshold_second >= w->threshold || w->slots.count < 2) return cluster_score(j, w);
    return cluster_begin_pass(j, w);
}

static bool centroid_pick(struct job *j, struct cluster_job *w)
{
    uint64_t parts = pieces_of(w->slots.count, w->scan.part_slots);
    struct cluster_best best = w->bests[0];
    for (uint64_t part = 1; part < parts; part++)
        if (cluster_best_before(&w->bests[part], &best)) best = w->bests[part];
    if (best.value == -INFINITY) return end_pass(j, w);
    if (best.certain) return merge(j, w, &best);
    w->scan = (struct cluster_scan){.slot = w->slots.at[best.owner]};
    return begin_scan(j, w);
}
