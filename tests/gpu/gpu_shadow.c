/* gpu_shadow [--small|--tiny]: rows in int8 (kernels/shadow.h) on the device. The codes are the
 * literal ones; no row is outside its bound; and the k best found with a shadow are those found
 * without one, bit for bit. Exit 1 unless all hold. --small is for compute-sanitizer, --tiny for
 * its racecheck. */
#include "tests/gpu/shadow_kinds.h"

enum { QUERIES = 150, ALONE = 12, OUTSIDE_ROWS = 1000000 };

/* ---- codes ---- */

static uint64_t check_codes(const struct scene *s, size_t rows)
{
    size_t stride = vector_stride(s->dimension), code_stride = shadow_stride(s->dimension);
    size_t step = s->rows.count / rows, differ = 0;
    float *centre = samples_allocate(stride), centre_norm, norm;
    int *codes = malloc(stride * sizeof *codes);
    int8_t *got = malloc(code_stride);
    if (!codes || !got) abort();
    device_read(centre, s->shadow.centre, stride * sizeof(float));
    device_read(&centre_norm, s->shadow.centre_norm, sizeof centre_norm);
    vectors_scalar.norms(s->dimension, centre, 1, &norm);
    differ += memcmp(&norm, &centre_norm, sizeof norm) != 0;
    for (size_t r = 0; r < s->rows.count; r += step) {
        struct shadow_row want = shadow_measure(s->dimension, s->host_rows + r * stride, centre,
                                                centre_norm, SHADOW_LEVELS, codes);
        struct shadow_row have;
        device_read(got, s->shadow.codes + r * code_stride, code_stride);
        device_read(&have.scale, s->shadow.scales + r, sizeof(float));
        device_read(&have.lost, s->shadow.losts + r, sizeof(float));
        device_read(&have.length, s->shadow.lengths + r, sizeof(float));
        bool same = memcmp(&want, &have, sizeof want) == 0;
        for (size_t i = 0; i < code_stride; i++)
            same = same && got[i] == (i < stride ? codes[i] : 0);
        differ += !same;
    }
    free(codes), free(got), samples_free(centre);
    if (differ) printf("codes %-10s %5u: %zu rows differ  FAIL\n", s->name, s->dimension, differ);
    return differ;
}

/* ---- bounds ---- */

struct check {
    uint64_t differ, questions, pairs, survivors, redone;
    unsigned long long outside;
};

static void check_outside(const struct scene *s, size_t queries, struct check *check)
{
    uint64_t bytes = cuda_shadow_scratch(1, 1, s->rows.count, s->dimension);
    void *scratch = device_allocate(bytes);
    float *above = device_allocate(s->rows.count * sizeof(float));
    unsigned long long outside = 0, *counter = device_copy_of(&outside, sizeof outside);
    for (size_t q = 0; q < queries; q++) {
        struct cuda_queries one = s->queries;
        one.rows += q * vector_stride(s->dimension);
        one.norms += q;
        one.count = 1;
        DEVICE(cuda_shadow_bounds(&one, &s->rows, &s->shadow, scratch, above, NULL));
        enum metric metric = (enum metric)(METRIC_COSINE + (int)(q % 3));
        DEVICE(cuda_shadow_outside(metric, &one, &s->rows, above, counter, NULL));
        check->pairs += s->rows.count;
    }
    device_read(&outside, counter, sizeof outside);
    if (outside)
        printf("bound %-10s %5u: %llu rows are outside  FAIL\n", s->name, s->dimension, outside);
    check->outside += outside;
    cudaFree(scratch), cudaFree(above), cudaFree(counter);
}

/* ---- the k best ---- */

struct question {
    uint32_t k;
    enum metric metric;
    bool ids, allowed, threshold;
};

/* Places on the device and on the host for both answers. */
struct desk {
    void *scratch;
    uint64_t scratch_bytes, ids_bytes;
    uint64_t *out_ids, *ids[2], *row_ids, *allowed;
    float *out_scores, *scores[2];
    uint32_t *out_counts, counts[2];
    struct cuda_topk_work *work;
};

static uint64_t quarter_of(uint64_t a, uint64_t b)
{
    return a & b;
}

static struct desk desk_create(const struct scene *s, uint32_t k)
{
    size_t rows = s->rows.count, words = rows / 64 + 1;
    struct desk d = {.scratch_bytes = cuda_shadow_scratch(1, k, rows, s->dimension)};
    uint64_t exact = cuda_topk_scratch_best(1, k, rows), state = 9;
    uint64_t *ids = malloc(rows * 8), *allowed = malloc(words * 8);
    if (!ids || !allowed) abort();
    for (size_t r = 0; r < rows; r++)
        ids[r] = r * 0x9e3779b97f4a7c15u;
    for (size_t w = 0; w < words; w++)
        allowed[w] = w % 5 == 2 ? 0 : quarter_of(sample_random(&state), sample_random(&state));
    if (exact > d.scratch_bytes) d.scratch_bytes = exact;
    d.scratch = device_allocate(d.scratch_bytes);
    d.out_ids = device_allocate(k * sizeof *d.out_ids);
    d.out_scores = device_allocate(k * sizeof *d.out_scores);
    d.out_counts = device_allocate(sizeof *d.out_counts);
    d.work = device_allocate(sizeof *d.work);
    d.row_ids = device_copy_of(ids, rows * 8);
    d.allowed = device_copy_of(allowed, words * 8);
    for (int n = 0; n < 2; n++) {
        d.ids[n] = malloc(k * sizeof *d.ids[n]);
        d.scores[n] = malloc(k * sizeof *d.scores[n]);
        if (!d.ids[n] || !d.scores[n]) abort();
    }
    free(ids), free(allowed);
    return d;
}

static void desk_destroy(struct desk *d)
{
    cudaFree(d->scratch), cudaFree(d->out_ids), cudaFree(d->out_scores), cudaFree(d->out_counts);
    cudaFree(d->work), cudaFree(d->row_ids), cudaFree(d->allowed);
    for (int n = 0; n < 2; n++)
        free(d->ids[n]), free(d->scores[n]);
}

static uint64_t ask_both(const struct scene *s, struct desk *d, size_t query, struct question q,
                         const float *threshold)
{
    struct cuda_queries one = s->queries;
    one.rows += query * vector_stride(s->dimension);
    one.norms += query;
    one.count = 1;
    struct cuda_topk topk = {.k = q.k,
                             .ids = q.ids ? d->row_ids : NULL,
                             .first_id = 1000,
                             .filter.allowed = q.allowed ? d->allowed : NULL,
                             .threshold = threshold,
                             .scratch = d->scratch,
                             .scratch_bytes = d->scratch_bytes,
                             .out_ids = d->out_ids,
                             .out_scores = d->out_scores,
                             .out_counts = d->out_counts,
                             .work = d->work};
    uint64_t differ = 0;
    for (int with = 0; with < 2; with++) {
        DEVICE(cudaMemset(d->out_ids, 0xee, q.k * sizeof *d->out_ids));
        DEVICE(cudaMemset(d->out_counts, 0xee, sizeof *d->out_counts));
        DEVICE(with ? cuda_shadow_topk(q.metric, &one, &s->rows, &s->shadow, &topk, NULL)
                    : cuda_topk(q.metric, &one, &s->rows, &topk, NULL));
        device_read(&d->counts[with], d->out_counts, sizeof d->counts[with]);
        device_read(d->ids[with], d->out_ids, q.k * sizeof *d->ids[with]);
        device_read(d->scores[with], d->out_scores, q.k * sizeof *d->scores[with]);
    }
    uint32_t count = d->counts[0] <= q.k ? d->counts[0] : 0;
    differ += d->counts[0] != d->counts[1] || d->counts[0] > q.k;
    differ += memcmp(d->ids[0], d->ids[1], count * sizeof *d->ids[0]) != 0;
    differ += memcmp(d->scores[0], d->scores[1], count * sizeof *d->scores[0]) != 0;
    return differ;
}

static void check_best(const struct scene *s, struct desk *d, struct question q, size_t queries,
                       struct check *check)
{
    struct cuda_topk_work work = {0, 0};
    float threshold = q.metric == METRIC_COSINE ? 0.05f : 1.5f;
    uint64_t differ = 0;
    DEVICE(cudaMemcpy(d->work, &work, sizeof work, cudaMemcpyHostToDevice));
    for (size_t n = 0; n < queries; n++)
        differ += ask_both(s, d, n, q, q.threshold ? &threshold : NULL);
    device_read(&work, d->work, sizeof work);
    if (differ)
        printf("best %-10s %5u %-9s k %5u%s%s%s: %llu differ, passed %.1f a query  FAIL\n", s->name,
               s->dimension, metric_names[q.metric], q.k, q.ids ? " ids" : "",
               q.allowed ? " allowed" : "", q.threshold ? " threshold" : "",
               (unsigned long long)differ, (double)work.passed / (double)queries);
    check->differ += differ;
    check->questions += queries;
    check->survivors += work.passed;
}

static void check_scene(const struct scene *s, bool small, struct check *check)
{
    const uint32_t ks[] = {10, 1, 100, 1000, 129, 16384};
    for (size_t n = 0; n < (small ? 3 : sizeof ks / sizeof *ks); n++) {
        if (!cuda_shadow_suits(1, ks[n], s->rows.count)) continue;
        cuda_shadow_without_few(n == 0 && s->dimension % 2 != 0); /* some in many launches */
        struct desk d = desk_create(s, ks[n]);
        for (int metric = METRIC_COSINE; metric <= METRIC_SQUARED_EUCLIDEAN; metric++)
            for (int how = 0; how < (small ? 2 : 4); how++)
                check_best(s, &d,
                           (struct question){.k = ks[n],
                                             .metric = (enum metric)metric,
                                             .ids = n % 2 == 0,
                                             .allowed = how % 2 == 1,
                                             .threshold = how >= 2},
                           small ? 2 : ALONE, check);
        desk_destroy(&d);
    }
    cuda_shadow_without_few(false);
}

/* ---- several queries at a time ---- */

struct answer {
    uint64_t *ids;
    float *scores;
    uint32_t *counts;
};

static struct answer batch_ask(const struct scene *s, const struct cuda_queries *queries,
                               struct cuda_topk topk, enum metric metric, bool with)
{
    size_t count = queries->count, places = count * topk.k;
    struct answer a = {malloc(places * 8), malloc(places * 4), malloc(count * 4)};
    if (!a.ids || !a.scores || !a.counts) abort();
    topk.scratch_bytes = with ? cuda_shadow_scratch(count, topk.k, s->rows.count, s->dimension)
                              : cuda_topk_scratch_best(count, topk.k, s->rows.count);
    topk.scratch = device_allocate(topk.scratch_bytes);
    topk.out_ids = device_allocate(places * 8);
    topk.out_scores = device_allocate(places * 4);
    topk.out_counts = device_allocate(count * 4);
    if (!with) topk.work = NULL;
    DEVICE(with ? cuda_shadow_topk(metric, queries, &s->rows, &s->shadow, &topk, NULL)
                : cuda_topk(metric, queries, &s->rows, &topk, NULL));
    device_read(a.ids, topk.out_ids, places * 8);
    device_read(a.scores, topk.out_scores, places * 4);
    device_read(a.counts, topk.out_counts, count * 4);
    cudaFree(topk.scratch), cudaFree(topk.out_ids), cudaFree(topk.out_scores);
    cudaFree(topk.out_counts);
    return a;
}

static void answer_free(struct answer *a)
{
    free(a->ids), free(a->scores), free(a->counts);
}

static uint64_t batch_differing(const struct answer *a, const struct answer *b, size_t queries,
                                uint32_t k, uint64_t *redone)
{
    uint64_t differ = 0;
    for (size_t q = 0; q < queries; q++) {
        uint32_t count = a->counts[q] <= k ? a->counts[q] : 0;
        *redone += b->counts[q] == CUDA_SHADOW_REDO;
        if (b->counts[q] == CUDA_SHADOW_REDO) continue;
        differ += a->counts[q] != b->counts[q] || a->counts[q] > k ||
                  memcmp(a->ids + q * k, b->ids + q * k, count * sizeof *a->ids) != 0 ||
                  memcmp(a->scores + q * k, b->scores + q * k, count * sizeof *a->scores) != 0;
    }
    return differ;
}

/* how: 0 all rows; 1 a bitmap for all; 2 of three queries the first has one bitmap, the second
 * another, the third none; 3 a threshold. */
static void check_batch(const struct scene *s, size_t count, struct question q, int how,
                        struct check *check)
{
    const size_t words = s->rows.count / 64 + 1;
    const float threshold = q.metric == METRIC_COSINE ? 0.05f : 1.5f;
    uint64_t *allowed = malloc(2 * words * 8), state = 9, redone = 0;
    uint32_t *of = malloc(count * sizeof *of);
    struct cuda_queries queries = s->queries;
    struct cuda_topk_work work = {0, 0};
    queries.count = count;
    if (!allowed || !of || !cuda_shadow_suits(count, q.k, s->rows.count)) abort();
    for (size_t w = 0; w < 2 * words; w++)
        allowed[w] = w % 5 == 2 ? 0 : ~quarter_of(sample_random(&state), sample_random(&state));
    for (size_t n = 0; n < count; n++)
        of[n] = n % 3 == 2 ? CUDA_FILTER_NONE : (uint32_t)(n % 3);
    struct cuda_topk topk = {.k = q.k, .first_id = 77, .work = device_copy_of(&work, sizeof work)};
    if (how == 1 || how == 2) topk.filter.allowed = device_copy_of(allowed, 2 * words * 8);
    if (how == 2) topk.filter.of = device_copy_of(of, count * sizeof *of);
    topk.filter.words = words;
    if (how == 3) topk.threshold = &threshold;
    struct answer exact = batch_ask(s, &queries, topk, q.metric, false);
    struct answer got = batch_ask(s, &queries, topk, q.metric, true);
    device_read(&work, topk.work, sizeof work);
    uint64_t differ = batch_differing(&exact, &got, count, q.k, &redone);
    differ += redone != work.redone;
    if (differ)
        printf("batch %-10s %5u %-9s queries %zu k %u how %d: %llu differ, redone %llu  FAIL\n",
               s->name, s->dimension, metric_names[q.metric], count, q.k, how,
               (unsigned long long)differ, (unsigned long long)redone);
    check->differ += differ, check->redone += redone;
    check->questions += count - redone, check->survivors += work.passed;
    answer_free(&exact), answer_free(&got);
    cudaFree(topk.work), cudaFree((void *)topk.filter.allowed), cudaFree((void *)topk.filter.of);
    free(allowed), free(of);
}

static void check_batches(const struct scene *s, bool small, struct check *check)
{
    const struct {
        size_t queries;
        uint32_t k;
    } sizes[] = {{40, 10}, {2, 10}, {8, 10}, {5, 64}, {3, 1}, {16, 100}, {150, 1}};
    for (size_t n = 0; n < (small ? 3 : sizeof sizes / sizeof *sizes); n++) {
        if (!cuda_shadow_suits(sizes[n].queries, sizes[n].k, s->rows.count)) continue;
        for (int metric = METRIC_COSINE; metric <= METRIC_SQUARED_EUCLIDEAN; metric++)
            for (int how = 0; how < (small ? 2 : 4); how++)
                check_batch(s, sizes[n].queries,
                            (struct question){.k = sizes[n].k, .metric = (enum metric)metric}, how,
                            check);
    }
}

/* By warpgroups where the device has them, a few in one launch, and without. */
static void check_batches_both(const struct scene *s, bool small, struct check *check)
{
    for (int without = 0; without < 2; without++) {
        cuda_shadow_without_wgmma(without);
        cuda_shadow_without_few(without);
        check_batches(s, small, check);
    }
    cuda_shadow_without_few(false);
    cuda_shadow_without_wgmma(false);
}

/* More queries than one launch takes. */
static void check_many(struct check *check)
{
    struct scene s = scene_random(64, 50000, 2300);
    s.name = "many";
    for (int how = 0; how < 3; how++)
        check_batch(&s, 2300, (struct question){.k = 10, .metric = METRIC_DOT}, how, check);
    scene_destroy(&s);
}

static void check_kind(enum kind kind, uint32_t dimension, size_t rows, bool small,
                       struct check *all)
{
    struct check check = {0};
    struct scene s = scene_create(kind, dimension, rows, QUERIES);
    check.differ += check_codes(&s, small ? 50 : 1000);
    check_outside(&s, small ? 3 : ALONE, &check);
    check_scene(&s, small, &check);
    check_batches_both(&s, small, &check);
    printf("%-10s %5u x %6zu: %5llu questions, passed %9.1f of each, redone %llu, %llu differ, "
           "%llu outside%s\n",
           s.name, dimension, rows, (unsigned long long)check.questions,
           (double)check.survivors / (double)(check.questions ? check.questions : 1),
           (unsigned long long)check.redone, (unsigned long long)check.differ, check.outside,
           check.differ || check.outside ? "  FAIL" : "");
    fflush(stdout);
    all->differ += check.differ, all->questions += check.questions;
    all->pairs += check.pairs, all->outside += check.outside;
    scene_destroy(&s);
}

static void check_all(bool small, bool tiny, struct check *all)
{
    const uint32_t dimensions[] = {33, 768, 1100};
    const size_t rows = tiny ? 33000 : small ? 34000 : 40000, step = tiny ? KINDS : small ? 3 : 1;
    for (size_t kind = 0; kind < KINDS; kind += step)
        for (size_t d = 0; d < (tiny ? 1 : small || kind % 3 ? 2 : 3); d++)
            check_kind((enum kind)kind, dimensions[d], rows + d, small || tiny, all);
    if (small || tiny) return;
    check_kind(RANDOM, 64, 300007, false, all);
    check_kind(EQUAL, 64, 300007, false, all);
    check_kind(DUPLICATES, 5, 300007, false, all);
    check_kind(RANDOM, 16384, 4500, false, all);
    check_many(all);
    struct scene s = scene_random(768, OUTSIDE_ROWS, 1000);
    check_outside(&s, 1000, all);
    scene_destroy(&s);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    struct check all = {0};
    device_open();
    check_all(strcmp(how, "--small") == 0, strcmp(how, "--tiny") == 0, &all);
    printf("shadow: %llu questions, %llu differ; %llu bounds, %llu rows outside: %s\n",
           (unsigned long long)all.questions, (unsigned long long)all.differ,
           (unsigned long long)all.pairs, all.outside, all.differ || all.outside ? "FAIL" : "ok");
    return all.differ || all.outside;
}
