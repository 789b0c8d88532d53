/* cluster_loops: the loops of clustering, which the compiler vectorises with the instructions of
 * the file that includes them.
 * Owner:  included once by each cluster_VARIANT.c; everything is static.
 * Thread: any; no state.
 * Errors: none. */
#ifndef ENGRAM_KERNELS_CPU_CLUSTER_LOOPS_H
#define ENGRAM_KERNELS_CPU_CLUSTER_LOOPS_H

#include "kernels/cluster.h"

enum { CLUSTER_CHUNK = 512 };

static void add_row(const float *restrict row, size_t columns, float *restrict sums,
                    double *restrict corrections)
{
    for (size_t c = 0; c < columns; c++) {
        struct cluster_sum s = {sums[c], corrections[c]};
        cluster_sum_take(&s, row[c]);
        sums[c] = s.sum, corrections[c] = s.correction;
    }
}

static void add(const float *const *rows, size_t count, size_t first, size_t columns, float *sums,
                double *corrections)
{
    for (size_t i = 0; i < count; i++)
        add_row(rows[i] + first, columns, sums, corrections);
}

static void divide(const float *sums, const double *corrections, size_t columns, uint64_t count,
                   float *means)
{
    for (size_t c = 0; c < columns; c++) {
        const struct cluster_sum s = {sums[c], corrections[c]};
        means[c] = cluster_sum_mean(&s, count);
    }
}

/* Results are staged, so that the loop is vectorised although it works in place. */
static void similarities(float time, const float *times, size_t count, float *cosines)
{
    float p[CLUSTER_CHUNK];
    for (size_t some; count > 0; cosines += some, count -= some) {
        some = count < CLUSTER_CHUNK ? count : CLUSTER_CHUNK;
        for (size_t i = 0; times && i < some; i++)
            p[i] = cluster_decayed(cosines[i], time, times[i]);
        if (times)
            times += some;
        else
            memcpy(p, cosines, some * sizeof *p);
        for (size_t i = 0; i < some; i++)
            p[i] = cluster_similarity(p[i]);
        memcpy(cosines, p, some * sizeof *p);
    }
}

/* Lanes keep the largest of theirs; the first place that has the largest of all is then looked
 * for. */
static size_t largest(const float *values, size_t count, float *value)
{
    enum { LANES = 64 };
    float best[LANES], most = -INFINITY;
    size_t i = 0;
    for (int l = 0; l < LANES; l++)
        best[l] = -INFINITY;
    for (; i + LANES <= count; i += LANES) {
        for (int l = 0; l < LANES; l++)
            best[l] = values[i + l] > best[l] ? values[i + l] : best[l];
    }
    for (int l = 0; l < LANES; l++)
        most = best[l] > most ? best[l] : most;
    for (; i < count; i++)
        most = values[i] > most ? values[i] : most;
    *value = most;
    for (i = 0; i < count && values[i] != most; i++)
        ;
    return i < count ? i : 0;
}

#endif
