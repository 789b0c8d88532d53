/* spread_pull: sums over in-lists, and the state of nodes after them, one node at a time: the
 * reference that every variant equals. Also the table of variants. */
#include "kernels/cpu/spread_inside.h"

#include <string.h>

enum { AHEAD = 16 /* how many lists ahead is prefetched */ };

static void pull(const struct spread_run *r, const uint32_t *order, size_t count, const float *sent,
                 float decay, float *received)
{
    const struct spread_graph *g = r->graph;
    struct spread_grid grid = g->grid;
    uint64_t since = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count) __builtin_prefetch(spread_in_list(g, order[i + AHEAD]));
        struct spread_list list = *spread_in_list(g, order[i]);
        const struct spread_edge *edges = g->in_edges + list.first;
        struct spread_sum sum = {0, 0};
        for (uint32_t e = 0; e < list.count;) {
            uint32_t first = e, end = spread_pull_end(e, list.count);
            for (; e < end; e++)
                spread_add(&sum, grid, sent[edges[e].node], edges[e].weight);
            spread_pull_pace(r, &since, e - first);
        }
        received[order[i]] = spread_received(sum, decay);
    }
}

static struct spread_settled settle(const struct spread_settling *s, uint32_t first, uint32_t last)
{
    struct spread_settled all = {0, 0, 0};
    for (uint32_t n = first; n < last; n++)
        spread_settle_one(s, n, &all);
    return all;
}

const struct spread_kernels spread_scalar = {"scalar", pull, settle};

const struct spread_kernels *spread_kernels_for(const char *variant)
{
#if defined(__x86_64__)
    if (strcmp(variant, spread_avx2.name) == 0) return &spread_avx2;
    if (strcmp(variant, spread_avx512.name) == 0) return &spread_avx512;
#endif
    return &spread_scalar;
}
