#include "tests/support/gpu_cluster.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cluster_reference.h"

enum { SIZE_MIN = 2 };

struct order cluster_ask(struct gpu_peer *p, const struct ask_rows *r,
                         const struct cluster_asked *how)
{
    uint64_t bytes = r->count * r->dimension * sizeof(float);
    struct order o = {.kind = ORDER_RUN,
                      .space = r->space,
                      .replica = how->brought ? 0 : r->replica,
                      .version = how->brought ? 0 : r->version,
                      .run = order_run_of(RUN_CLUSTER)};
    struct order_run *run = &o.run;
    run->metric = METRIC_COSINE;
    run->dimension = r->dimension;
    run->row_count = run->list_count = r->count;
    run->form = how->average ? ORDER_CLUSTER_AVERAGE : ORDER_CLUSTER_CENTROID;
    run->threshold = how->threshold;
    run->total = nextafterf(how->threshold_second, INFINITY);
    run->k = SIZE_MIN;
    if (how->brought && how->few) run->row_count = run->list_count = how->few;
    if (how->brought) {
        run->rows = peer_take(p, bytes);
        memcpy(peer_at(p, run->rows), r->plain, run->row_count * r->dimension * sizeof(float));
    } else if (how->listed) {
        run->list_count = how->few ? how->few : r->count - r->count / 4;
        run->positions = peer_take(p, run->list_count * sizeof(uint32_t));
        for (uint64_t i = 0; i < run->list_count; i++)
            ((uint32_t *)peer_at(p, run->positions))[i] = (uint32_t)(r->count - 1 - i);
    }
    if (how->timed) {
        run->weights = peer_take(p, run->list_count * sizeof(float));
        for (uint64_t i = 0; i < run->list_count; i++)
            ((float *)peer_at(p, run->weights))[i] = (float)(i % 7);
    }
    run->segments = peer_take(p, sizeof(uint32_t));
    memset(peer_at(p, run->segments), 0, sizeof(uint32_t));
    run->out_ids =
        peer_take(p, sizeof(struct order_cluster) + run->list_count * sizeof(struct order_merge));
    struct order_cluster *so_far = peer_at(p, run->out_ids);
    memset(so_far, 0, sizeof *so_far);
    so_far->first_merges = UINT32_MAX;
    return o;
}

static uint32_t root_of(const uint32_t *owners, uint32_t row)
{
    while (owners[row] != row)
        row = owners[row];
    return row;
}

/* Whether rows that the reference has put together are, and no others. */
static bool together(const struct cluster_answer *a, const uint32_t *owners, uint32_t count)
{
    bool right = true;
    uint32_t *roots = malloc((a->count + 1) * sizeof *roots), *sizes = calloc(count, sizeof *sizes);
    cr_assert(roots && sizes);
    memset(roots, 0xff, (a->count + 1) * sizeof *roots);
    for (uint32_t row = 0; row < count; row++)
        sizes[root_of(owners, row)]++;
    for (uint32_t row = 0; row < count && right; row++) {
        uint32_t label = a->labels[row], root = root_of(owners, row);
        if (label == UINT32_MAX) {
            right = sizes[root] < SIZE_MIN;
            continue;
        }
        if (roots[label] == UINT32_MAX) roots[label] = root;
        right = roots[label] == root && sizes[root] == a->sizes[label];
    }
    free(roots), free(sizes);
    return right;
}

bool cluster_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r)
{
    const struct order_run *run = &o->run;
    const uint32_t *positions = run->positions == PLACE_NONE ? NULL : peer_at(p, run->positions);
    const struct order_cluster *got = peer_at(p, run->out_ids);
    const struct order_merge *merges = (const struct order_merge *)(got + 1);
    uint32_t count = (uint32_t)run->list_count;
    float *rows = malloc(count * run->dimension * sizeof *rows);
    uint32_t *owners = malloc(count * sizeof *owners);
    cr_assert(rows && owners);
    for (uint32_t i = 0; i < count; i++) {
        owners[i] = i;
        memcpy(rows + (size_t)i * run->dimension,
               r->plain + (positions ? positions[i] : i) * run->dimension,
               run->dimension * sizeof *rows);
    }
    struct cluster_answer a = cluster_reference(&(struct cluster_instance){
        .rows = count,
        .dimension = run->dimension,
        .data = rows,
        .times = run->weights == PLACE_NONE ? NULL : peer_at(p, run->weights),
        .average = run->form == ORDER_CLUSTER_AVERAGE,
        .threshold = run->threshold,
        .threshold_second = nextafterf(run->total, -INFINITY),
        .score_min = -1.0F,
        .size_min = SIZE_MIN,
        .clusters_max = UINT32_MAX});
    bool right = got->ended == 1 && got->merges == a.merges;
    for (uint32_t i = 0; right && i < got->merges; i++) {
        right = merges[i].low < merges[i].high && merges[i].high < count &&
                owners[merges[i].low] == merges[i].low && owners[merges[i].high] == merges[i].high;
        if (right) owners[merges[i].high] = merges[i].low;
    }
    right = right && together(&a, owners, count);
    cluster_answer_free(&a);
    free(rows), free(owners);
    return right;
}
