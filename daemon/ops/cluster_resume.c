/* cluster_resume: a clustering goes on from merges that are known: what a card has found, or had
 * found when it was lost. Which rows are together follows from the merges alone, so lists of
 * members are made once, and each centroid is computed once. */
#include "daemon/base/yield.h"
#include "daemon/ops/cluster_inside.h"

static cluster_stage means_made;

/* Pairs lie where a GPU process can write, so that each number is read once. */
static bool read_merge(const struct cluster_job *w, uint32_t i, uint32_t *low, uint32_t *high)
{
    const volatile struct order_merge *m = &w->known.merges[i];
    *low = m->low;
    *high = m->high;
    return *low < *high && *high < w->rows && w->births[*low] != CLUSTER_GONE &&
           w->births[*high] != CLUSTER_GONE;
}

bool cluster_know(struct cluster_job *w, const struct heap_block *block)
{
    const struct order_cluster *c = block->data;
    w->known.count = atomic_load_explicit(&c->merges, memory_order_acquire);
    w->known.first = atomic_load_explicit(&c->first_merges, memory_order_relaxed);
    w->known.scans = atomic_load_explicit(&c->scans, memory_order_relaxed);
    w->known.ended = atomic_load_explicit(&c->ended, memory_order_relaxed);
    w->known.merges = (const struct order_merge *)(c + 1);
    bool second = w->known.first != UINT32_MAX;
    return w->known.count < w->rows && (!second || w->known.first <= w->known.count) &&
           (!second || w->rule == CLUSTER_CENTROID);
}

/* Clusters of fewer than size_min are gone. */
static void leave_small(struct cluster_job *w)
{
    for (uint32_t id = 0; id < w->rows; id++) {
        if (id % 4096 == 0) yield_check();
        if (w->sizes[id] < w->size_min) w->births[id] = CLUSTER_GONE;
    }
}

/* Sets sizes, births and, in owners, of what each id became a part. */
static bool replay(struct cluster_job *w)
{
    uint32_t low, high;
    for (uint32_t i = 0; i < w->rows; i++)
        w->owners[i] = i;
    for (uint32_t i = 0; i <= w->known.count; i++) {
        if (i % 4096 == 0) yield_check();
        if (i == w->known.first) leave_small(w);
        if (i == w->known.count) break;
        if (!read_merge(w, i, &low, &high)) return false;
        w->sizes[low] += w->sizes[high];
        w->births[low] = i + 1;
        w->births[high] = CLUSTER_GONE;
        w->owners[high] = low;
        w->items[i] = (struct radix_item){.key = (uint64_t)low << 32 | high};
    }
    w->merges = w->known.count;
    w->scans = w->known.scans;
    w->second = w->known.first != UINT32_MAX;
    return true;
}

/* An id's owner is below it, so owners' owners are found in one turn. */
static void list_members(struct cluster_job *w)
{
    uint32_t *ends = w->places;
    for (uint32_t row = 0; row < w->rows; row++) {
        if (row % 4096 == 0) yield_check();
        uint32_t id = w->owners[row] = w->owners[w->owners[row]];
        ends[row] = row;
        if (id == row) continue;
        w->next[ends[id]] = row;
        ends[id] = row;
    }
}

/* ---------------------------------------------------------------- centroids */

static void fill_slots(struct cluster_job *w)
{
    struct cluster_slots *s = &w->slots;
    s->count = 0;
    for (uint32_t id = 0; id < w->rows; id++) {
        if (id % 4096 == 0) yield_check();
        if (w->births[id] == CLUSTER_GONE) continue;
        s->ids[s->count] = id;
        s->at[id] = s->count++;
    }
}

static void make_mean(struct job *j, struct cluster_job *w, uint32_t slot,
                      const struct cluster_room *room)
{
    enum { ROWS = 64 };
    const float *rows[ROWS];
    uint32_t id = w->slots.ids[slot], row = id;
    memset(room->sums, 0, w->stride * sizeof *room->sums);
    memset(room->corrections, 0, w->stride * sizeof *room->corrections);
    while (row != CLUSTER_NO_ROW && !is_cancelled(j)) {
        size_t n = 0;
        for (; n < ROWS && row != CLUSTER_NO_ROW; row = w->next[row])
            rows[n++] = w->sources[row];
        yield_check();
        w->kernels->add(rows, n, 0, w->dimension, room->sums, room->corrections);
    }
    w->kernels->divide(room->sums, room->corrections, w->stride, w->sizes[id],
                       cluster_row(w, slot));
    w->vectors->norms(w->dimension, cluster_row(w, slot), 1, &w->slots.norms[slot]);
    w->slots.norms[slot] = cluster_norm(w->slots.norms[slot]);
}

static void means_part(struct job *j, uint32_t part, uint32_t worker)
{
    struct cluster_job *w = cluster_of(j);
    const struct cluster_room room = cluster_room(w, worker);
    uint32_t first = part * CLUSTER_MEMBERS;
    uint32_t end = (uint32_t)smaller(first + CLUSTER_MEMBERS, w->slots.count);
    for (uint32_t slot = first; slot < end && !is_cancelled(j); slot++)
        make_mean(j, w, slot, &room);
}

static bool means_made(struct job *j, struct cluster_job *w)
{
    bool none = w->second && w->slots.count < 2;
    return w->known.ended || none ? cluster_score(j, w) : cluster_begin_pass(j, w);
}

/* ---------------------------------------------------------------- going on */

/* The CPU begins again; of rule average it has to add the sums of what it knows. */
static bool begin_again(struct job *j, struct cluster_job *w, bool sound)
{
    if (!sound) w->known.count = 0;
    w->merges = w->scans = 0;
    w->second = false;
    cluster_reset(w);
    return w->rule == CLUSTER_AVERAGE ? cluster_average(j, w) : cluster_centroid(j, w);
}

bool cluster_resume(struct job *j, struct cluster_job *w)
{
    bool sound = replay(w), average = w->rule == CLUSTER_AVERAGE;
    if (!sound && w->on_card) j->gpu.unfit = true;
    if (!sound && w->on_card) return false;
    if (!sound || (average && !w->known.ended)) return begin_again(j, w, sound);
    list_members(w);
    if (w->known.ended) leave_small(w);
    if (average) return cluster_score(j, w);
    fill_slots(w);
    uint64_t parts = pieces_of(w->slots.count, CLUSTER_MEMBERS);
    return parts ? cluster_go(j, w, means_part, parts, means_made) : means_made(j, w);
}
