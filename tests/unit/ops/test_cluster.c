/* cluster: both rules give what their definition gives, bit for bit, for every kind of instance,
 * number of workers and variant of the kernels. */
#include <math.h>
#include <stdio.h>

#include "daemon/base/fault.h"
#include "daemon/ops/cluster_inside.h"
#include "tests/support/cluster_reference.h"
#include "tests/support/sweep.h"
#include "tests/unit/ops/ops_bench.h"

static struct job job_of(struct bench *b, const struct cluster_instance *c)
{
    struct job j = make_job(b, OPERATION_CLUSTER, true);
    struct job_cluster *to = &j.request.cluster;
    j.ops = operation_find(OPERATION_CLUSTER);
    j.cluster_rows_max[0] = j.cluster_rows_max[1] = CLUSTER_ROWS_MAX;
    j.request.rows = floats(c->data, c->rows, c->dimension);
    if (c->times) j.request.weights = floats(c->times, c->rows, 1);
    to->rule = c->average ? CLUSTER_AVERAGE : CLUSTER_CENTROID;
    j.request.has_threshold = true, j.request.threshold = c->threshold;
    to->has_threshold_second = !c->average, to->threshold_second = c->threshold_second;
    to->has_score_min = true, to->score_min = c->score_min;
    to->has_size_min = true, to->size_min = c->size_min;
    to->has_clusters_max = true, to->clusters_max = c->clusters_max;
    return j;
}

static void assert_equals(const struct job *j, const struct cluster_instance *c,
                          const struct cluster_answer *a, const char *what)
{
    const struct tensor *t = j->result.tensors;
    cr_assert_eq(j->result.counts[0], a->merges, "%s: %d merges for %d", what,
                 (int)j->result.counts[0], (int)a->merges);
    cr_assert_eq(t[RESULT_CLUSTER_SIZES].rows, a->count, "%s: %d clusters for %d", what,
                 (int)t[RESULT_CLUSTER_SIZES].rows, (int)a->count);
    cr_assert_eq(memcmp(t[RESULT_CLUSTER_LABELS].data, a->labels, c->rows * 4), 0, "%s", what);
    if (!a->count) return;
    cr_assert_eq(memcmp(t[RESULT_CLUSTER_SIZES].data, a->sizes, a->count * 4), 0, "%s", what);
    cr_assert_eq(memcmp(t[RESULT_CLUSTER_SCORES].data, a->scores, a->count * 4), 0, "%s", what);
    cr_assert_eq(
        memcmp(t[RESULT_CLUSTER_CENTROIDS].data, a->centroids, (size_t)a->count * c->dimension * 4),
        0, "%s", what);
}

/* Returns how many scans there were. */
static uint64_t try_instance(struct bench *b, const struct cluster_instance *c, uint32_t workers,
                             const char *variant, const char *what)
{
    struct cluster_answer a = cluster_reference(c);
    struct job j = job_of(b, c);
    j.kernels = vectors_choose(variant);
    j.worker_count = workers;
    cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
    cr_assert_eq(run_job(&j, workers), STATUS_OK, "%s", j.failure.text);
    assert_equals(&j, c, &a, what);
    uint64_t scans = j.result.counts[1];
    run_job_reset(&j);
    cluster_answer_free(&a);
    return scans;
}

static const char *variant_of(unsigned i)
{
    size_t count = 0;
    while (vectors_variant(count))
        count++;
    return vectors_variant(i % count)->name;
}

enum { INSTANCES = 560 };

static struct cluster_instance instance_of(unsigned seed, bool average, float **data, float **times)
{
    static const uint32_t dimensions[] = {3, 8, 17, 32, 40, 64};
    unsigned random = seed * 7919 + 13;
    enum cluster_shape shape = (enum cluster_shape)(seed % CLUSTER_SHAPES);
    struct cluster_instance c = {
        .rows = 2 + (uint32_t)rand_r(&random) % 58,
        .dimension = dimensions[(uint32_t)rand_r(&random) % 6],
        .average = average,
        .threshold = average ? 0.55f : 0.8f,
        .threshold_second = 0.9f,
        .score_min = average ? 0.65f : -1.0f,
        .size_min = 3,
        .clusters_max = average ? UINT32_MAX : 100,
    };
    *data = cluster_make(shape, c.rows, c.dimension, 2 + (uint32_t)rand_r(&random) % 9, random);
    *times = NULL;
    c.data = *data;
    if (average && rand_r(&random) % 3) {
        *times = malloc(c.rows * sizeof **times);
        for (uint32_t i = 0; i < c.rows; i++)
            (*times)[i] = (float)(rand_r(&random) % 400) / 10.0f;
        c.times = *times;
    }
    if (rand_r(&random) % 3 == 0) { /* limits that are not the defaults */
        c.threshold = -1.0f + (float)(rand_r(&random) % 21) / 10.0f;
        c.threshold_second = (float)(rand_r(&random) % 10) / 10.0f;
        c.score_min = -1.0f + (float)(rand_r(&random) % 20) / 10.0f;
        c.size_min = 1 + (uint32_t)rand_r(&random) % 4;
        c.clusters_max = 1 + (uint32_t)rand_r(&random) % 6;
    }
    return c;
}

static void try_many(bool average)
{
    struct bench b = open_bench(4, 1);
    for (unsigned seed = 0; seed < INSTANCES; seed += sweep_stride(5)) {
        char what[64];
        float *data, *times;
        struct cluster_instance c = instance_of(seed, average, &data, &times);
        snprintf(what, sizeof what, "seed %u: %u x %u", seed, c.rows, c.dimension);
        try_instance(&b, &c, 1 + seed % 16, variant_of(seed), what);
        free(data), free(times);
    }
    close_bench(&b);
}

Test(cluster, centroid_equals_its_definition, .timeout = 300)
{
    try_many(false);
}

Test(cluster, average_equals_its_definition, .timeout = 300)
{
    try_many(true);
}

/* A sum begins with +0, so that of rows of -0 is +0, however few there are. */
Test(cluster, no_centroid_has_a_negative_zero)
{
    enum { ROWS = 6, D = 40 };
    static float data[ROWS * D]; /* two alike, three alike, and one that stays alone */
    static const uint32_t kinds[ROWS] = {0, 1, 1, 2, 0, 1};
    struct bench b = open_bench(4, 1);
    for (uint32_t i = 0; i < ROWS * D; i++)
        data[i] = i % D % 3 == kinds[i / D] ? (float)(i % D + 1) : -0.0f;
    for (unsigned i = 0; i < 2 * CLUSTER_SHAPES; i++) {
        bool average = i % 2;
        const struct cluster_instance c = {.rows = ROWS,
                                           .dimension = D,
                                           .data = data,
                                           .average = average,
                                           .threshold = 0.8f,
                                           .threshold_second = 0.9f,
                                           .score_min = -1,
                                           .size_min = 1,
                                           .clusters_max = 100};
        struct cluster_answer a = cluster_reference(&c);
        cr_assert_eq(a.count, 3);
        for (uint32_t k = 0; k < a.count * D; k++)
            cr_assert_neq(canonical_bits(a.centroids[k]), CANONICAL_SIGN_BIT, "%u", k);
        cluster_answer_free(&a);
        try_instance(&b, &c, 1 + i, variant_of(i), average ? "average" : "centroid");
    }
    close_bench(&b);
}

/* Several parts of a scan, and more neighbours than a list holds. */
Test(cluster, larger_instances_equal_the_definition, .timeout = 300)
{
    static const uint32_t planted[] = {600, 40, 7};
    struct bench b = open_bench(4, 1);
    for (unsigned i = 0; i < 3 * CLUSTER_SHAPES; i++) {
        enum cluster_shape shape = (enum cluster_shape)(i % CLUSTER_SHAPES);
        float *data = cluster_make(shape, 600, 24, planted[i / CLUSTER_SHAPES], i);
        char what[64];
        snprintf(what, sizeof what, "shape %d, planted %u", (int)shape,
                 planted[i / CLUSTER_SHAPES]);
        struct cluster_instance c = {.rows = 600,
                                     .dimension = 24,
                                     .data = data,
                                     .threshold = 0.8f,
                                     .threshold_second = 0.5f,
                                     .score_min = -1,
                                     .size_min = 2,
                                     .clusters_max = 100};
        uint64_t scans = try_instance(&b, &c, 1 + i % 5, variant_of(i), what);
        printf("%s: %d scans\n", what, (int)scans);
        free(data);
    }
    close_bench(&b);
}

static struct cluster_instance small_instance(float *data, bool average)
{
    return (struct cluster_instance){.rows = 60,
                                     .dimension = 24,
                                     .data = data,
                                     .average = average,
                                     .threshold = 0.6f,
                                     .threshold_second = 0.5f,
                                     .score_min = -1,
                                     .size_min = 2,
                                     .clusters_max = 100};
}

/* Scratch, reply, and what storing the centroids takes: each fails once, and nothing is stored or
 * left over. */
Test(cluster, every_failure_in_turn)
{
    for (int average = 0; average < 2; average++) {
        struct bench b = open_bench(24, 5);
        float *data = cluster_make(CLUSTER_PLANTED, 60, 24, 6, 3);
        struct cluster_instance c = small_instance(data, average);
        struct job j = job_of(&b, &c);
        uint32_t nth = 0;
        for (bool fired = true; fired;) {
            uint64_t blocks = heap_usage(b.heap).blocks;
            j.objects[CLUSTER_INTO] =
                (struct job_object){.resident = collection_resident(b.collection),
                                    .collection = collection_now(b.collection),
                                    .writer = true};
            j.request.offset = UINT64_C(1) << 60;
            collection_expect_write(b.collection);
            fault_arm(++nth);
            enum status st = run_job(&j, 1);
            fired = fault_hits() >= nth;
            fault_arm(0);
            collection_publish(b.collection);
            cr_assert_eq(st, fired ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK, "site %u: %s", nth,
                         j.failure.text);
            cr_assert_eq(collection_rows(collection_now(b.collection)),
                         fired ? 5 : 5 + j.result.counts[2]);
            cr_assert(fired || j.result.counts[2] > 1);
            run_job_reset(&j);
            if (fired) cr_assert_eq(heap_usage(b.heap).blocks, blocks);
            cr_assert_lt(nth, 100);
        }
        cr_assert_gt(nth, 3);
        free(data);
        close_bench(&b);
    }
}

/* With no merge and every row a cluster, the reply is as large as it may be: that is the least
 * limit which is enough, and a lower one is said before anything is computed. */
Test(cluster, a_reply_that_might_be_too_large_is_refused_at_once)
{
    struct bench b = open_bench(24, 60);
    for (int kind = 0; kind < 4; kind++) {
        struct cluster_instance c = small_instance(b.data, kind % 2);
        c.size_min = 1;
        c.threshold = c.threshold_second = 1;
        struct job j = job_of(&b, &c);
        if (kind / 2) { /* of a whole collection, whose ids are told as well */
            j.request.rows = (struct tensor){0};
            strcpy(j.request.names[0], "c");
            j.resident = collection_resident(b.collection);
            j.collection = collection_now(b.collection);
        }
        cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
        cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
        cr_assert_eq(j.result.tensors[RESULT_CLUSTER_SIZES].rows, 60);
        uint64_t whole = j.result.body_bytes;
        run_job_reset(&j);
        j.reply_bytes_max = whole;
        cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
        run_job_reset(&j);
        j.reply_bytes_max = whole - 1;
        cr_assert_eq(operation_cluster.plan(&j), STATUS_RESOURCE_EXHAUSTED);
        cr_assert_eq(j.failure.detail, DETAIL_REPLY_TOO_LARGE);
        cr_assert(strstr(j.failure.text, "up to 60 clusters"), "%s", j.failure.text);
        memset(&j.failure, 0, sizeof j.failure);
        j.request.cluster.clusters_max = 10;
        cr_assert_eq(run_job(&j, 1), STATUS_OK, "%s", j.failure.text);
        run_job_reset(&j);
    }
    close_bench(&b);
}

/* Whatever its stage, a cancelled one leaves no result and no memory. A part cancels it. */
static uint32_t parts_left;
static void (*run_part)(struct job *j, uint32_t part, uint32_t worker);

static void run_and_cancel(struct job *j, uint32_t part, uint32_t worker)
{
    if (!parts_left--) atomic_store(&j->cancelled, true);
    run_part(j, part, worker);
}

Test(cluster, cancelled_in_any_stage)
{
    struct bench b = open_bench(4, 1);
    float *data = cluster_make(CLUSTER_PLANTED, 60, 24, 6, 3);
    uint32_t ended = 0;
    for (uint32_t at = 0; at < 200; at++) {
        struct cluster_instance c = small_instance(data, at % 2);
        struct job j = job_of(&b, &c);
        uint64_t blocks = heap_usage(b.heap).blocks;
        cr_assert_eq(operation_cluster.plan(&j), STATUS_OK);
        cr_assert_eq(j.plan.prepare(&j), STATUS_OK);
        parts_left = at / 2;
        j.step = j.plan.finish;
        do {
            run_part = j.plan.run_part;
            for (uint32_t part = 0; part < j.plan.parts; part++)
                if (!atomic_load(&j.cancelled)) run_and_cancel(&j, part, 0);
            j.step = NULL;
            j.plan.finish(&j);
        } while (j.step);
        bool through = !atomic_load(&j.cancelled);
        cr_assert_eq(through, j.result.block.data != NULL);
        ended += through;
        heap_give(b.heap, &j.plan.scratch);
        heap_give(b.heap, &j.result.block);
        cr_assert_eq(heap_usage(b.heap).blocks, blocks);
    }
    cr_assert(ended > 0 && ended < 150, "%u of 200 ended", ended);
    free(data);
    close_bench(&b);
}
