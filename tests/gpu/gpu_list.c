/* gpu_list [--small]: the rows that a shadow alone leaves on the card (cuda_shadow_list) against
 * the k best of the rows themselves (cuda_topk): of every list that is whole, all of those are in
 * it; each of its rows is there once, with its id and norm, and may enter. Ends with one line,
 *     list: N questions, N wrong, N not whole: ok */
#include "kernels/cuda/shadow_cuda.h"
#include "tests/gpu/shadow_scene.h"

enum { QUERIES = 150, KINDS_OF_ROWS = 6, PLACES = 1 << 19 };

static const char *const kind_names[KINDS_OF_ROWS] = {"random",     "cluster", "equal",
                                                      "duplicates", "outlier", "lengths"};

static float element(int kind, size_t row, uint32_t i, uint64_t *seed)
{
    uint64_t same = 5 + i, twin = row / 100 * 1000003 + i;
    float u = sample_uniform(seed);
    switch (kind) {
    case 1: return sample_uniform(&same) + 1e-2f * u;
    case 2: return 0.37f;
    case 3: return sample_uniform(&twin);
    case 4: return i == 3 ? 50.0f * u : 0.1f * u;
    case 5: return ldexpf(u, (int)(row % 61) - 30);
    default: return u;
    }
}

static struct scene make(int kind, uint32_t dimension, size_t rows)
{
    const size_t stride = vector_stride(dimension);
    uint64_t seed = 77 + (uint64_t)kind;
    float *all = calloc(rows * stride, sizeof *all), *asked = calloc(QUERIES * stride, 4);
    if (!all || !asked) abort();
    for (size_t r = 0; r < rows; r++)
        for (uint32_t i = 0; i < dimension; i++)
            all[r * stride + i] = element(kind, r, i, &seed);
    for (size_t q = 0; q < QUERIES; q++)
        for (uint32_t i = 0; i < dimension; i++)
            asked[q * stride + i] = element(kind == 2 ? 0 : kind, q * 7, i, &seed);
    struct scene s = {.name = kind_names[kind], .dimension = dimension};
    scene_finish(&s, device_copy_of(all, rows * stride * 4),
                 device_copy_of(asked, QUERIES * stride * 4), rows, QUERIES);
    free(all), free(asked);
    return s;
}

/* ---- asking ---- */

struct asked {
    enum metric metric;
    uint32_t k;
    size_t queries;
    int how; /* 0 all rows; 1 a bitmap; 2 two bitmaps in turn, and none; 3 a threshold */
};

struct answers {
    uint64_t *ids;
    uint32_t *counts, *heads; /* heads: total, firsts, counts */
    struct shadow_survivor *list;
};

struct desk {
    uint64_t *ids, *allowed; /* of the rows, on the host; two bitmaps */
    uint64_t *on_ids, *on_allowed;
    uint32_t *of, *on_of;
    size_t words;
};

static struct desk desk_create(const struct scene *s)
{
    struct desk d = {.words = s->rows.count / 64 + 1};
    uint64_t state = 9;
    d.ids = malloc(s->rows.count * 8), d.allowed = malloc(2 * d.words * 8);
    d.of = malloc(QUERIES * sizeof *d.of);
    if (!d.ids || !d.allowed || !d.of) abort();
    for (size_t r = 0; r < s->rows.count; r++)
        d.ids[r] = r * 0x9e3779b97f4a7c15u;
    for (size_t w = 0; w < 2 * d.words; w++) {
        d.allowed[w] = sample_random(&state);
        d.allowed[w] |= sample_random(&state);
        if (w % 5 == 2) d.allowed[w] = 0;
    }
    for (size_t q = 0; q < QUERIES; q++)
        d.of[q] = q % 3 == 2 ? CUDA_FILTER_NONE : (uint32_t)(q % 3);
    d.on_ids = device_copy_of(d.ids, s->rows.count * 8);
    d.on_allowed = device_copy_of(d.allowed, 2 * d.words * 8);
    d.on_of = device_copy_of(d.of, QUERIES * sizeof *d.of);
    return d;
}

static void desk_destroy(struct desk *d)
{
    cudaFree(d->on_ids), cudaFree(d->on_allowed), cudaFree(d->on_of);
    free(d->ids), free(d->allowed), free(d->of);
}

static struct answers ask(const struct scene *s, const struct desk *d, struct asked a)
{
    const float threshold = a.metric == METRIC_COSINE ? 0.05f : 1.5f;
    struct cuda_queries queries = s->queries;
    struct cuda_rows without = s->rows;
    queries.count = a.queries;
    without.rows = NULL;
    struct cuda_topk topk = {.k = a.k,
                             .ids = d->on_ids,
                             .filter = {.allowed = a.how == 1 || a.how == 2 ? d->on_allowed : NULL,
                                        .of = a.how == 2 ? d->on_of : NULL,
                                        .words = d->words},
                             .threshold = a.how == 3 ? &threshold : NULL,
                             .out_ids = device_allocate(a.queries * a.k * 8),
                             .out_scores = device_allocate(a.queries * a.k * 4),
                             .out_counts = device_allocate(a.queries * 4)};
    uint64_t exact = cuda_topk_scratch_best(a.queries, a.k, s->rows.count);
    uint64_t least = cuda_shadow_list_scratch(a.queries, a.k, s->rows.count, s->dimension);
    size_t heads = 1 + 2 * a.queries;
    struct answers out = {malloc(a.queries * a.k * 8), malloc(a.queries * 4), malloc(heads * 4),
                          malloc(PLACES * sizeof *out.list)};
    if (!out.ids || !out.counts || !out.heads || !out.list) abort();
    topk.scratch = device_allocate(exact);
    topk.scratch_bytes = exact;
    DEVICE(cuda_topk(a.metric, &queries, &s->rows, &topk, NULL));
    cudaFree(topk.scratch);
    topk.scratch = device_allocate(least);
    topk.scratch_bytes = least;
    uint32_t *head = device_allocate(heads * 4);
    struct cuda_shadow_list list = {.out = device_allocate(PLACES * sizeof *out.list),
                                    .out_max = PLACES,
                                    .total = head,
                                    .firsts = head + 1,
                                    .counts = head + 1 + a.queries};
    DEVICE(cudaMemset(head, 0, heads * 4));
    DEVICE(cuda_shadow_list(a.metric, &queries, &without, &s->shadow, &topk, &list, NULL));
    device_read(out.ids, topk.out_ids, a.queries * a.k * 8);
    device_read(out.counts, topk.out_counts, a.queries * 4);
    device_read(out.heads, head, heads * 4);
    device_read(out.list, list.out, PLACES * sizeof *out.list);
    cudaFree(topk.scratch), cudaFree(topk.out_ids), cudaFree(topk.out_scores);
    cudaFree(topk.out_counts), cudaFree(head), cudaFree(list.out);
    return out;
}

/* ---- looking ---- */

struct check {
    uint64_t questions, wrong, part, listed;
};

static bool may_enter(const struct desk *d, struct asked a, size_t query, uint64_t row)
{
    uint32_t bitmap = a.how == 2 ? d->of[query] : 0;
    if (a.how != 1 && a.how != 2) return true;
    if (bitmap == CUDA_FILTER_NONE) return true;
    return d->allowed[bitmap * d->words + row / 64] >> row % 64 & 1;
}

/* marks: a byte of each row, 0 before and after. */
static bool list_is_right(const struct scene *s, const struct desk *d, const float *norms,
                          struct asked a, const struct answers *got, size_t q, unsigned char *marks)
{
    const struct shadow_survivor *list = got->list + got->heads[1 + q];
    uint32_t count = got->heads[1 + a.queries + q], found = 0;
    bool right = true;
    for (uint32_t i = 0; i < count && right; i++) {
        uint64_t row = list[i].row;
        right = row < s->rows.count && !marks[row] && list[i].id == d->ids[row] &&
                memcmp(&list[i].norm, &norms[row], 4) == 0 && may_enter(d, a, q, row);
        if (right) marks[row] = 1;
    }
    for (uint32_t i = 0; i < got->counts[q]; i++) {
        uint64_t id = got->ids[q * a.k + i];
        for (uint32_t n = 0; n < count; n++)
            found += list[n].id == id;
    }
    for (uint32_t i = 0; i < count; i++)
        if (list[i].row < s->rows.count) marks[list[i].row] = 0;
    return right && found == got->counts[q];
}

static void check(const struct scene *s, const struct desk *d, const float *norms, struct asked a,
                  unsigned char *marks, struct check *all)
{
    if (!cuda_shadow_suits(a.queries, a.k, s->rows.count)) return;
    struct answers got = ask(s, d, a);
    uint64_t wrong = 0;
    for (size_t q = 0; q < a.queries; q++) {
        uint64_t first = got.heads[1 + q], count = got.heads[1 + a.queries + q];
        all->questions++;
        if (count == CUDA_SHADOW_REDO || first + count > PLACES) {
            all->part++;
            continue;
        }
        all->listed += count;
        wrong += !list_is_right(s, d, norms, a, &got, q, marks);
    }
    if (wrong)
        printf("%s %u %s k %u, %zu queries, how %d: %llu wrong  FAIL\n", s->name, s->dimension,
               metric_names[a.metric], a.k, a.queries, a.how, (unsigned long long)wrong);
    all->wrong += wrong;
    free(got.ids), free(got.counts), free(got.heads), free(got.list);
}

static void check_scene(int kind, uint32_t dimension, size_t rows, struct check *all)
{
    const struct {
        size_t queries;
        uint32_t k;
    } sizes[] = {{1, 10}, {1, 1}, {1, 100}, {1, 1000}, {2, 10}, {16, 100}, {128, 10}, {150, 1}};
    struct scene s = make(kind, dimension, rows);
    struct desk d = desk_create(&s);
    struct check own = {0};
    float *norms = malloc(rows * sizeof *norms);
    unsigned char *marks = calloc(rows, 1);
    if (!norms || !marks) abort();
    device_read(norms, s.rows.norms, rows * sizeof *norms);
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
        for (int metric = METRIC_COSINE; metric <= METRIC_SQUARED_EUCLIDEAN; metric++)
            for (int how = 0; how < 4; how++)
                check(&s, &d, norms,
                      (struct asked){(enum metric)metric, sizes[n].k, sizes[n].queries, how}, marks,
                      &own);
    printf(
        "%-10s %5u x %6zu: %5llu questions, listed %9.1f of each, %llu not whole, %llu wrong%s\n",
        s.name, dimension, rows, (unsigned long long)own.questions,
        (double)own.listed / (double)(own.questions - own.part + !own.questions),
        (unsigned long long)own.part, (unsigned long long)own.wrong, own.wrong ? "  FAIL" : "");
    fflush(stdout);
    all->questions += own.questions, all->wrong += own.wrong, all->part += own.part;
    desk_destroy(&d);
    free(norms), free(marks);
    scene_destroy(&s);
}

int main(int argc, char **argv)
{
    bool small = argc > 1 && strcmp(argv[1], "--small") == 0;
    static const uint32_t dimensions[] = {64, 768, 1100};
    struct check all = {0};
    device_open();
    for (int without = 0; without < (small ? 1 : 2); without++) {
        cuda_shadow_without_wgmma(without);
        for (int kind = 0; kind < KINDS_OF_ROWS; kind += small ? 2 : 1)
            for (size_t n = 0; n < (small ? 2 : 3); n++)
                check_scene(kind, dimensions[n], 34000 + n, &all);
    }
    printf("list: %llu questions, %llu wrong, %llu not whole: %s\n",
           (unsigned long long)all.questions, (unsigned long long)all.wrong,
           (unsigned long long)all.part, all.wrong ? "FAIL" : "ok");
    return all.wrong != 0;
}
