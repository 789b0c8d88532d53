/* The simulated device's operations against the scalar reference, bit for bit. */
#include <stdlib.h>

#include "tests/kernels/samples.h"
#include "tests/unit/gpu/sim_rig.h"

enum { ROWS = 2500, QUERIES = 5, GAP = 3 };

static const enum metric metrics[] = {METRIC_COSINE, METRIC_DOT, METRIC_SQUARED_EUCLIDEAN};

struct scene {
    struct rig rig;
    uint32_t dimension;
    uint64_t rows;
    float *row_data, *query_data, *row_norms, *query_norms, *expected;
    struct cuda_rows on_device;
    struct cuda_queries queries;
};

static void scene_init(struct scene *s, uint32_t dimension, uint64_t rows)
{
    size_t stride = vector_stride(dimension);
    rig_open(&s->rig, "vram_mib=64 latency_us=0 strict=1");
    s->dimension = dimension;
    s->rows = rows;
    s->row_data = samples_create(dimension, rows, 0, dimension);
    s->query_data = samples_create(dimension, QUERIES, 0, dimension + 77777);
    s->row_norms = samples_allocate(rows);
    s->query_norms = samples_allocate(QUERIES);
    s->expected = samples_allocate(rows * QUERIES);
    vectors_scalar.norms(dimension, s->row_data, rows, s->row_norms);
    vectors_scalar.norms(dimension, s->query_data, QUERIES, s->query_norms);
    s->on_device =
        (struct cuda_rows){dimension, rig_upload(&s->rig, s->row_data, rows * stride * 4),
                           rig_upload(&s->rig, s->row_norms, rows * 4), rows};
    s->queries = (struct cuda_queries){rig_upload(&s->rig, s->query_data, QUERIES * stride * 4),
                                       rig_upload(&s->rig, s->query_norms, QUERIES * 4), QUERIES};
}

static void scene_finish(struct scene *s)
{
    struct device *d = s->rig.d;
    device_sim.release(d, (void *)s->on_device.rows);
    device_sim.release(d, (void *)s->on_device.norms);
    device_sim.release(d, (void *)s->queries.rows);
    device_sim.release(d, (void *)s->queries.norms);
    rig_close(&s->rig);
    samples_free(s->row_data), samples_free(s->query_data), samples_free(s->row_norms);
    samples_free(s->query_norms), samples_free(s->expected);
}

static void scene_expect(struct scene *s, enum metric metric)
{
    struct row_block block = {s->row_data, s->row_norms, s->rows};
    for (size_t q = 0; q < QUERIES; q++)
        vectors_scalar.scan(metric, s->dimension, s->query_data + q * vector_stride(s->dimension),
                            s->query_norms[q], block, s->expected + q * s->rows);
}

static void check_scores(struct scene *s, enum metric metric)
{
    struct device *d = s->rig.d;
    uint64_t stride = s->rows + GAP, count = (QUERIES - 1) * stride + s->rows;
    float *scores = rig_allocate(&s->rig, count * 4), *got = malloc(count * 4);
    cr_assert_eq(
        device_sim.launch(d,
                          CALL(.kernel = KERNEL_SCAN, .metric = metric, .queries = s->queries,
                               .rows = s->on_device, .scores.out = scores),
                          s->rig.stream),
        0);
    rig_download(&s->rig, got, scores, s->rows * 4);
    cr_assert(same_bits(got, s->expected, s->rows));
    cr_assert_eq(
        device_sim.launch(d,
                          CALL(.kernel = KERNEL_TILE, .metric = metric, .queries = s->queries,
                               .rows = s->on_device, .scores = {scores, stride}),
                          s->rig.stream),
        0);
    rig_download(&s->rig, got, scores, count * 4);
    for (uint64_t q = 0; q < QUERIES; q++)
        cr_assert(same_bits(got + q * stride, s->expected + q * s->rows, s->rows));
    device_sim.release(d, scores);
    free(got);
}

static void check_norms(struct scene *s)
{
    float *norms = rig_allocate(&s->rig, s->rows * 4), *got = malloc(s->rows * 4);
    cr_assert_eq(
        device_sim.launch(s->rig.d,
                          CALL(.kernel = KERNEL_NORMS, .rows = s->on_device, .norms.out = norms),
                          s->rig.stream),
        0);
    rig_download(&s->rig, got, norms, s->rows * 4);
    cr_assert(same_bits(got, s->row_norms, s->rows));
    device_sim.release(s->rig.d, norms);
    free(got);
}

/* Lists of no, one and many rows, over the same row more than once. */
static void check_lists(struct scene *s, enum metric metric)
{
    static const uint64_t lengths[QUERIES] = {0, 1, 7, 3000, 0};
    uint64_t offsets[QUERIES + 1] = {0}, seed = 5;
    for (int q = 0; q < QUERIES; q++)
        offsets[q + 1] = offsets[q] + lengths[q];
    uint64_t count = offsets[QUERIES];
    uint32_t *positions = malloc(count * 4);
    float *got = malloc(count * 4);
    for (uint64_t i = 0; i < count; i++)
        positions[i] = (uint32_t)(sample_random(&seed) % s->rows);
    void *lists = rig_upload(&s->rig, positions, count * 4);
    void *ends = rig_upload(&s->rig, offsets, sizeof offsets);
    float *scores = rig_allocate(&s->rig, count * 4);
    cr_assert_eq(device_sim.launch(s->rig.d,
                                   CALL(.kernel = KERNEL_GATHER_LISTS, .metric = metric,
                                        .queries = s->queries, .rows = s->on_device,
                                        .lists = {lists, ends, count, scores}),
                                   s->rig.stream),
                 0);
    rig_download(&s->rig, got, scores, count * 4);
    for (uint64_t q = 0; q < QUERIES; q++)
        for (uint64_t i = offsets[q]; i < offsets[q + 1]; i++)
            cr_assert(same_bits(&got[i], &s->expected[q * s->rows + positions[i]], 1));
    device_sim.release(s->rig.d, lists);
    device_sim.release(s->rig.d, ends);
    device_sim.release(s->rig.d, scores);
    free(positions), free(got);
}

struct variety {
    uint32_t k;
    bool ids, allowed, threshold;
    bool own; /* each query has its own bitmap, but for one that has none */
};

/* Of the bitmaps that lie with a gap between: query q has the one that this says. */
static const uint32_t filter_of[QUERIES] = {2, 0, CUDA_FILTER_NONE, 1, 0};
enum { FILTERS = 3 };

static const uint64_t *allowed_of(const struct variety *v, const uint64_t *allowed, uint64_t words,
                                  uint64_t q)
{
    if (!v->allowed || (v->own && filter_of[q] == CUDA_FILTER_NONE)) return NULL;
    return v->own ? allowed + filter_of[q] * words : allowed;
}

/* The same by kernels/topk.h over all scores at once. */
static uint32_t expect_topk(const struct scene *s, enum metric metric, const struct variety *v,
                            uint64_t q, const uint64_t *ids, const uint64_t *allowed,
                            const float *threshold, uint64_t *best_ids, float *best_scores)
{
    struct topk best;
    void *entries = aligned_alloc(64, topk_bytes(v->k));
    uint32_t *positions = malloc((s->rows + 16) * sizeof *positions);
    topk_init(&best, entries, v->k, metric_lower_is_better(metric), threshold);
    topk_offer(&best, &vectors_scalar, s->expected + q * s->rows, ids, s->rows, allowed, 0,
               positions);
    uint32_t count = topk_finish(&best, best_ids, best_scores);
    free(entries), free(positions);
    return count;
}

static void check_topk(struct scene *s, enum metric metric, struct variety v)
{
    struct rig *r = &s->rig;
    uint64_t *ids = malloc(s->rows * 8), words = (s->rows + 63) / 64 + GAP, seed = 9;
    uint64_t *allowed = malloc(FILTERS * words * 8);
    float threshold = s->expected[s->rows / 2];
    for (uint64_t i = 0; i < s->rows; i++)
        ids[i] = v.ids ? (i * 7919) % s->rows << 33 | 5 : 1000 + i;
    for (uint64_t i = 0; i < FILTERS * words; i++)
        allowed[i] = sample_random(&seed);
    uint64_t places = (uint64_t)QUERIES * v.k;
    struct cuda_topk t = {
        .k = v.k,
        .ids = v.ids ? rig_upload(r, ids, s->rows * 8) : NULL,
        .first_id = 1000,
        .filter = {.allowed = v.allowed ? rig_upload(r, allowed, FILTERS * words * 8) : NULL,
                   .of = v.own ? rig_upload(r, filter_of, sizeof filter_of) : NULL,
                   .words = words},
        .threshold = v.threshold ? &threshold : NULL,
        .scratch_bytes = device_sim.topk_scratch_min(QUERIES, v.k, s->rows),
        .out_ids = rig_allocate(r, places * 8),
        .out_scores = rig_allocate(r, places * 4),
        .out_counts = rig_allocate(r, QUERIES * 4),
    };
    cr_assert(t.scratch_bytes <= device_sim.topk_scratch_best(QUERIES, v.k, s->rows));
    t.scratch = rig_allocate(r, t.scratch_bytes);
    cr_assert_eq(device_sim.launch(r->d,
                                   CALL(.kernel = KERNEL_TOPK, .metric = metric,
                                        .queries = s->queries, .rows = s->on_device, .topk = t),
                                   r->stream),
                 0);
    float read_at_once = threshold;
    threshold = NAN;
    uint64_t *got_ids = malloc(places * 8), *best_ids = malloc(v.k * 8);
    float *got = malloc(places * 4), *best = malloc(v.k * 4);
    uint32_t counts[QUERIES];
    rig_download(r, got_ids, t.out_ids, places * 8);
    rig_download(r, got, t.out_scores, places * 4);
    rig_download(r, counts, t.out_counts, sizeof counts);
    for (uint64_t q = 0; q < QUERIES; q++) {
        uint32_t count = expect_topk(s, metric, &v, q, ids, allowed_of(&v, allowed, words, q),
                                     v.threshold ? &read_at_once : NULL, best_ids, best);
        cr_assert_eq(counts[q], count);
        cr_assert(same_bits(got + q * v.k, best, count));
        cr_assert_eq(memcmp(got_ids + q * v.k, best_ids, count * 8), 0);
    }
    device_sim.release(r->d, (void *)t.ids), device_sim.release(r->d, (void *)t.filter.allowed);
    device_sim.release(r->d, (void *)t.filter.of), device_sim.release(r->d, t.scratch);
    device_sim.release(r->d, t.out_ids), device_sim.release(r->d, t.out_scores);
    device_sim.release(r->d, t.out_counts);
    free(ids), free(allowed), free(got_ids), free(best_ids), free(got), free(best);
}

Test(sim_kernels, equal_the_reference)
{
    static const uint32_t dimensions[] = {1, 31, 33, 96, 1025};
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        struct scene s;
        scene_init(&s, dimensions[i], dimensions[i] > 1000 ? 600 : ROWS);
        check_norms(&s);
        for (int m = 0; m < 3; m++) {
            scene_expect(&s, metrics[m]);
            check_scores(&s, metrics[m]);
            check_lists(&s, metrics[m]);
            check_topk(&s, metrics[m], (struct variety){.k = 10});
            check_topk(&s, metrics[m], (struct variety){.k = 1, .ids = true, .threshold = true});
            check_topk(&s, metrics[m], (struct variety){.k = 4000, .ids = true, .allowed = true});
            check_topk(&s, metrics[m], (struct variety){.k = 40, .allowed = true, .own = true});
        }
        scene_finish(&s);
    }
}

Test(sim_kernels, say_inf_for_norms_that_are_not_finite)
{
    struct rig r;
    rig_open(&r, "latency_us=0");
    _Alignas(64) float rows[3 * 32] = {[0] = NAN, [32] = 3e38f, [64] = 3.0f, [65] = 4.0f};
    struct cuda_rows on_device = {2, rig_upload(&r, rows, sizeof rows), NULL, 3};
    float *norms = rig_allocate(&r, 12), got[3];
    cr_assert_eq(
        device_sim.launch(r.d, CALL(.kernel = KERNEL_NORMS, .rows = on_device, .norms.out = norms),
                          r.stream),
        0);
    rig_download(&r, got, norms, sizeof got);
    cr_assert(got[0] == INFINITY && got[1] == INFINITY && got[2] == 5.0f);
    rig_close(&r);
}

Test(sim_kernels, find_the_first_bad_norm)
{
    enum { COUNT = 70 };
    struct rig r;
    rig_open(&r, "latency_us=0");
    uint64_t *first = rig_allocate(&r, sizeof *first), got;
    for (int bad = -1; bad < COUNT; bad += 7) {
        float norms[COUNT];
        for (int i = 0; i < COUNT; i++)
            norms[i] = bad >= 0 && i >= bad && i % 7 == 6 ? INFINITY : (float)i;
        struct cuda_rows rows = {.norms = rig_upload(&r, norms, sizeof norms), .count = COUNT};
        cr_assert_eq(device_sim.launch(
                         r.d, CALL(.kernel = KERNEL_FIND_BAD, .rows = rows, .find_bad.out = first),
                         r.stream),
                     0);
        rig_download(&r, &got, first, sizeof got);
        cr_assert_eq(got, bad < 0 ? UINT64_MAX : (uint64_t)bad);
        device_sim.release(r.d, (void *)rows.norms);
    }
    struct cuda_rows none = {0};
    device_sim.launch(r.d, CALL(.kernel = KERNEL_FIND_BAD, .rows = none, .find_bad.out = first),
                      r.stream);
    rig_download(&r, &got, first, sizeof got);
    cr_assert_eq(got, UINT64_MAX);
    device_sim.release(r.d, first);
    rig_close(&r);
}

Test(sim_kernels, nothing_is_a_result_too)
{
    struct scene s;
    scene_init(&s, 8, 4);
    struct rig *r = &s.rig;
    struct cuda_rows none = {8, NULL, NULL, 0};
    struct cuda_queries nobody = {NULL, NULL, 0};
    cr_assert_eq(device_sim.launch(r->d,
                                   CALL(.kernel = KERNEL_SCAN, .metric = METRIC_DOT,
                                        .queries = s.queries, .rows = none, .scores.out = NULL),
                                   r->stream),
                 0);
    cr_assert_eq(
        device_sim.launch(r->d,
                          CALL(.kernel = KERNEL_TILE, .metric = METRIC_DOT, .queries = nobody,
                               .rows = s.on_device, .scores = {NULL, 4}),
                          r->stream),
        0);
    cr_assert_eq(device_sim.launch(r->d,
                                   CALL(.kernel = KERNEL_NORMS, .rows = none, .norms.out = NULL),
                                   r->stream),
                 0);
    cr_assert_eq(device_sim.copy_in(r->d, NULL, NULL, 0, r->stream), 0);
    cr_assert_eq(device_sim.clear(r->d, NULL, 0, r->stream), 0);
    uint64_t scratch_bytes = device_sim.topk_scratch_min(QUERIES, 3, 0);
    struct cuda_topk t = {.k = 3,
                          .scratch = rig_allocate(r, scratch_bytes),
                          .scratch_bytes = scratch_bytes,
                          .out_ids = rig_allocate(r, 3 * QUERIES * 8),
                          .out_scores = rig_allocate(r, 3 * QUERIES * 4),
                          .out_counts = rig_upload(r, "abcdefghijklmnopqrst", QUERIES * 4)};
    cr_assert_eq(device_sim.launch(r->d,
                                   CALL(.kernel = KERNEL_TOPK, .metric = METRIC_DOT,
                                        .queries = s.queries, .rows = none, .topk = t),
                                   r->stream),
                 0);
    uint32_t counts[QUERIES];
    rig_download(r, counts, t.out_counts, sizeof counts);
    for (int q = 0; q < QUERIES; q++)
        cr_assert_eq(counts[q], 0);
    device_sim.release(r->d, t.scratch), device_sim.release(r->d, t.out_ids);
    device_sim.release(r->d, t.out_scores), device_sim.release(r->d, t.out_counts);
    scene_finish(&s);
}

Test(sim_kernels, average_in_order)
{
    enum { COUNT = 300 };
    struct scene s;
    scene_init(&s, 33, 100);
    uint32_t positions[COUNT];
    float weights[COUNT], total = 0.0f, sums[33], got[33];
    const float *rows[COUNT];
    uint64_t seed = 3;
    for (int i = 0; i < COUNT; i++) {
        positions[i] = (uint32_t)(sample_random(&seed) % s.rows);
        weights[i] = sample_uniform(&seed);
        total += weights[i];
        rows[i] = s.row_data + positions[i] * vector_stride(33);
    }
    vectors_scalar.weighted_sum(rows, weights, COUNT, 0, 33, sums);
    void *where = rig_upload(&s.rig, positions, sizeof positions);
    void *how = rig_upload(&s.rig, weights, sizeof weights);
    float *average = rig_allocate(&s.rig, sizeof got);
    static const struct {
        uint64_t count;
        bool total;
    } cases[] = {{COUNT, true}, {0, true}, {COUNT, false}};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(device_sim.launch(s.rig.d,
                                       CALL(.kernel = KERNEL_AVERAGE, .rows = s.on_device,
                                            .average = {where, how, cases[i].count,
                                                        cases[i].total ? total : 0.0f, average}),
                                       s.rig.stream),
                     0);
        rig_download(&s.rig, got, average, sizeof got);
        for (int c = 0; c < 33; c++) {
            float expected = i == 0 ? sums[c] / total : 0.0f;
            cr_assert(same_bits(&got[c], &expected, 1));
        }
    }
    device_sim.release(s.rig.d, where), device_sim.release(s.rig.d, how);
    device_sim.release(s.rig.d, average);
    scene_finish(&s);
}
