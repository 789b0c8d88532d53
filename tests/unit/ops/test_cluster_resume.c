/* cluster_resume: a clustering that a card began goes on from the merges that the card had made, as
 * if nothing had happened; what those say that cannot be is not believed. */
#include <stdio.h>

#include "daemon/ops/cluster_inside.h"
#include "tests/support/cluster_reference.h"
#include "tests/unit/ops/ops_bench.h"

static struct job job_of(struct bench *b, const struct cluster_instance *c)
{
    struct job j = make_job(b, OPERATION_CLUSTER, true);
    struct job_cluster *to = &j.request.cluster;
    j.ops = operation_find(OPERATION_CLUSTER);
    j.cluster_rows_max[0] = j.cluster_rows_max[1] = CLUSTER_ROWS_MAX;
    j.request.rows = floats(c->data, c->rows, c->dimension);
    to->rule = c->average ? CLUSTER_AVERAGE : CLUSTER_CENTROID;
    j.request.has_threshold = true, j.request.threshold = c->threshold;
    to->has_threshold_second = !c->average, to->threshold_second = c->threshold_second;
    to->has_score_min = true, to->score_min = c->score_min;
    to->has_size_min = true, to->size_min = c->size_min;
    to->has_clusters_max = true, to->clusters_max = c->clusters_max;
    return j;
}

/* What a card leaves that has made so many merges. */
static struct heap_block left_by_card(struct bench *b, const struct cluster_instance *c,
                                      const struct cluster_answer *a, uint32_t merges)
{
    struct heap_block block = {0};
    cr_assert_eq(heap_take(b->heap,
                           sizeof(struct order_cluster) + c->rows * sizeof(struct order_merge), 1,
                           &block),
                 STATUS_OK);
    struct order_cluster *so_far = block.data;
    bool second = !c->average && c->threshold_second < c->threshold && merges > a->first_merges;
    memset(so_far, 0, sizeof *so_far);
    so_far->merges = merges;
    so_far->first_merges = second ? a->first_merges : UINT32_MAX;
    memcpy(so_far + 1, a->pairs, merges * sizeof *a->pairs);
    return block;
}

static void expect_answer(struct job *j, const struct cluster_instance *c,
                          const struct cluster_answer *a, uint32_t workers, uint32_t known)
{
    cr_assert_eq(operation_check(j), STATUS_OK, "%s", j->failure.text);
    cr_assert_eq(run_job(j, workers), STATUS_OK, "%s", j->failure.text);
    const struct tensor *t = j->result.tensors;
    cr_assert_eq(j->result.counts[0], a->merges, "%u known: %d merges for %d", known,
                 (int)j->result.counts[0], (int)a->merges);
    cr_assert_eq(t[RESULT_CLUSTER_SIZES].rows, a->count, "%u known", known);
    cr_assert_eq(memcmp(t[RESULT_CLUSTER_LABELS].data, a->labels, c->rows * 4), 0, "%u", known);
    if (!a->count) return;
    cr_assert_eq(memcmp(t[RESULT_CLUSTER_SIZES].data, a->sizes, a->count * 4), 0, "%u", known);
    cr_assert_eq(memcmp(t[RESULT_CLUSTER_SCORES].data, a->scores, a->count * 4), 0, "%u", known);
    cr_assert_eq(
        memcmp(t[RESULT_CLUSTER_CENTROIDS].data, a->centroids, (size_t)a->count * c->dimension * 4),
        0, "%u", known);
}

static struct cluster_instance instance_of(enum cluster_shape shape, bool average, unsigned seed)
{
    enum { ROWS = 70, D = 24 };
    return (struct cluster_instance){.rows = ROWS,
                                     .dimension = D,
                                     .data = cluster_make(shape, ROWS, D, 7, seed),
                                     .average = average,
                                     .threshold = seed % 2 ? 0.7f : 0.9f,
                                     .threshold_second = seed % 2 ? 0.5f : 0.95f,
                                     .score_min = -1,
                                     .size_min = 1 + seed % 3,
                                     .clusters_max = 100};
}

/* Resumed once more than there are merges: after every one of them. What is known is not done
 * again: a merge of rule centroid takes a scan. */
Test(cluster_resume, after_every_merge, .timeout = 300)
{
    struct bench b = open_bench(4, 1);
    for (unsigned i = 0; i < 4 * CLUSTER_SHAPES; i++) {
        enum cluster_shape shape = (enum cluster_shape)(i % CLUSTER_SHAPES);
        struct cluster_instance c = instance_of(shape, i % 4 >= 2, i);
        struct cluster_answer a = cluster_reference(&c);
        for (uint32_t known = 0; known <= a.merges; known++) {
            struct job j = job_of(&b, &c);
            j.kept = left_by_card(&b, &c, &a, known);
            expect_answer(&j, &c, &a, 1 + known % 3, known);
            if (!c.average && known == a.merges)
                cr_assert_lt(j.result.counts[1], a.merges / 2 + 2, "%d scans", (int)known);
            run_job_reset(&j);
            heap_give(b.heap, &j.kept);
        }
        cluster_answer_free(&a);
        free((void *)c.data);
    }
    close_bench(&b);
}

/* A process that was told to write there may have written anything. */
Test(cluster_resume, nonsense, .timeout = 300)
{
    struct bench b = open_bench(4, 1);
    for (unsigned i = 0; i < 2 * 12; i++) {
        struct cluster_instance c = instance_of(CLUSTER_PLANTED, i % 2, 3);
        struct cluster_answer a = cluster_reference(&c);
        struct job j = job_of(&b, &c);
        uint32_t known = a.merges / 2;
        cr_assert_gt(known, 10);
        j.kept = left_by_card(&b, &c, &a, known);
        struct order_cluster *so_far = j.kept.data;
        struct order_merge *merges = (struct order_merge *)(so_far + 1);
        switch (i / 2) {
        case 0: so_far->merges = c.rows; break;
        case 1: so_far->merges = UINT32_MAX; break;
        case 2: so_far->first_merges = known + 1; break;
        case 3: merges[known - 1].high = c.rows; break;
        case 4: merges[3].low = UINT32_MAX; break;
        case 5: merges[3] = merges[2]; break;
        case 6: merges[4].high = merges[4].low; break;
        case 7: merges[5] = (struct order_merge){merges[5].high, merges[5].low}; break;
        case 8: merges[6] = (struct order_merge){merges[2].high, 69}; break;
        case 9: memset(merges, 0xff, known * sizeof *merges); break;
        case 10: memset(merges, 0, known * sizeof *merges); break;
        case 11: so_far->merges = 0; break;
        }
        expect_answer(&j, &c, &a, 2, known);
        run_job_reset(&j);
        heap_give(b.heap, &j.kept);
        cluster_answer_free(&a);
        free((void *)c.data);
    }
    close_bench(&b);
}
