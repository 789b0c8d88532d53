#include <math.h>
#include <string.h>

#include "daemon/gpu/sim_cluster.h"

static void look(const struct cuda_cluster *w, const struct cluster_kernels *kernels, uint32_t row)
{
    float value = -INFINITY;
    size_t id = row ? kernels->largest(w->means + cuda_cluster_pair(row, 0), row, &value) : 0;
    w->nearest[row] = (uint32_t)id;
    w->stale[row] = 0;
    w->scores[row] = value;
}

void sim_cluster_pairs(const struct cuda_cluster *w, const struct cluster_kernels *kernels)
{
    for (uint32_t row = w->first; row < w->first + w->some; row++) {
        const float *cosines = w->cosines + (uint64_t)(row - w->first) * (w->first + w->some);
        uint64_t at = row ? cuda_cluster_pair(row, 0) : 0;
        if (row) memcpy(w->means + at, cosines, row * sizeof *cosines);
        kernels->similarities(w->times ? w->times[row] : 0.0f, w->times, row, w->means + at);
        for (uint32_t i = 0; i < row; i++) {
            w->lows[at + i] = cluster_units(w->means[at + i]);
            w->highs[at + i] = 0;
        }
        look(w, kernels, row);
    }
}

static uint64_t pair_of(uint32_t a, uint32_t b)
{
    return a > b ? cuda_cluster_pair(a, b) : cuda_cluster_pair(b, a);
}

static void renew(const struct cuda_cluster *w, uint32_t row, float mean)
{
    const struct cuda_cluster_state *s = w->state;
    bool gone = w->nearest[row] == s->low || w->nearest[row] == s->high;
    float value = w->scores[row];
    if (mean > value || (!w->stale[row] && mean == value && s->low <= w->nearest[row])) {
        w->scores[row] = mean;
        w->nearest[row] = s->low;
        w->stale[row] = 0;
    } else if (!w->stale[row] && gone) {
        w->nearest[row] = 0;
        w->stale[row] = 1;
    }
}

static void add_sums(const struct cuda_cluster *w)
{
    const struct cuda_cluster_state *s = w->state;
    for (uint32_t id = 0; id < w->count; id++) {
        if (w->births[id] == CLUSTER_GONE || id == s->low) continue;
        uint64_t to = pair_of(id, s->low), from = pair_of(id, s->high);
        const struct cluster_total total =
            cluster_total_add((struct cluster_total){w->lows[to], w->highs[to]},
                              (struct cluster_total){w->lows[from], w->highs[from]});
        float mean = cluster_total_mean(total, (uint64_t)s->size * w->sizes[id]);
        w->lows[to] = total.low;
        w->highs[to] = total.high;
        w->means[to] = mean;
        if (id > s->high) w->means[from] = -INFINITY;
        if (id > s->low) renew(w, id, mean);
    }
}

static uint32_t best_row(const struct cuda_cluster *w)
{
    uint32_t best = 0;
    for (uint32_t row = 1; row < w->count; row++) {
        bool more = w->scores[row] > w->scores[best];
        bool same = w->scores[row] == w->scores[best];
        if (more || (same && w->nearest[row] < w->nearest[best])) best = row;
    }
    return best;
}

static void merge(const struct cuda_cluster *w, const struct cluster_kernels *kernels,
                  uint32_t high)
{
    struct cuda_cluster_state *s = w->state;
    uint32_t low = w->nearest[high];
    w->window[s->merges - w->merges] = (struct cuda_cluster_merge){low, high};
    w->births[low] = ++s->merges;
    w->births[high] = CLUSTER_GONE;
    w->scores[high] = -INFINITY;
    w->sizes[low] = s->size = w->sizes[low] + w->sizes[high];
    s->live--;
    s->low = low;
    s->high = high;
    add_sums(w);
    look(w, kernels, low);
}

void sim_cluster_add(const struct cuda_cluster *w, const struct cluster_kernels *kernels)
{
    struct cuda_cluster_state *s = w->state;
    for (uint32_t step = 0; step < w->steps && !s->ended;) {
        uint32_t row = best_row(w);
        if (!(w->scores[row] >= w->threshold)) {
            s->ended = 1;
        } else if (w->stale[row]) {
            look(w, kernels, row);
            s->scans++;
        } else {
            merge(w, kernels, row);
            step++;
        }
    }
}
