/* Candidates scored, against a naive reference, and what bad lists get. */
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>

#include "daemon/ops/check.h"
#include "kernels/canonical.h"
#include "kernels/topk.h"
#include "tests/support/sweep.h"
#include "tests/unit/ops/ops_bench.h"

static float cosine(uint32_t d, const float *a, const float *b)
{
    size_t stride = vector_stride(d);
    float *x = calloc(stride, 4), *y = calloc(stride, 4);
    memcpy(x, a, d * 4);
    memcpy(y, b, d * 4);
    float s = canonical_cosine(canonical_dot(d, x, y), canonical_norm(canonical_dot(d, x, x)),
                               canonical_norm(canonical_dot(d, y, y)));
    free(x);
    free(y);
    return s;
}

struct score_case {
    uint32_t dimension, k;
    uint64_t queries, list_max;
    bool in_line;
};

static void check_scores(struct bench *b, struct job *j, const uint64_t *offsets,
                         const uint32_t *rows, const float *queries)
{
    uint64_t count = j->request.queries.rows, k = j->request.k, longest = 0;
    const struct tensor *t = j->result.tensors;
    for (uint64_t q = 0; q < count; q++)
        if (offsets[q + 1] - offsets[q] > longest) longest = offsets[q + 1] - offsets[q];
    uint64_t columns = k < longest ? k : longest;
    if (k) cr_assert(t[0].rows == count && t[0].columns == columns && t[2].rows == count);
    if (!k) cr_assert(t[0].dtype == DTYPE_NONE && t[1].rows == offsets[count]);
    for (uint64_t q = 0; q < count; q++) {
        struct topk_entry best[600];
        uint64_t n = 0;
        for (uint64_t i = offsets[q]; i < offsets[q + 1]; i++) {
            float s = cosine(b->dimension, queries + q * b->dimension,
                             b->data + (size_t)rows[i] * b->dimension);
            if (!k) cr_assert_eq(memcmp((float *)t[1].data + i, &s, 4), 0);
            uint64_t id = j->collection ? b->ids[rows[i]] : i - offsets[q];
            best[n++] = (struct topk_entry){id, topk_key(s, false), s};
        }
        if (!k) continue;
        topk_sort(best, n);
        uint64_t kept = n < columns ? n : columns;
        cr_assert_eq(((uint32_t *)t[2].data)[q], kept);
        for (uint64_t i = 0; i < columns; i++) {
            uint32_t bits;
            memcpy(&bits, (float *)t[1].data + q * columns + i, 4);
            cr_assert_eq(((uint64_t *)t[0].data)[q * columns + i],
                         i < kept ? best[i].id : UINT64_MAX);
            cr_assert(i < kept ? ((float *)t[1].data)[q * columns + i] == best[i].score
                               : bits == 0x7fc00000);
        }
    }
}

static void score_case(struct score_case c)
{
    struct bench b = open_bench(c.dimension, 900);
    unsigned seed = c.dimension + c.k;
    uint64_t *offsets = malloc((c.queries + 1) * 8), n = 0;
    for (uint64_t q = 0; q < c.queries; q++) {
        offsets[q] = n;
        if (rand_r(&seed) % 4 || c.queries == 1) n += 1 + (uint64_t)rand_r(&seed) % c.list_max;
    }
    offsets[c.queries] = n;
    uint32_t *rows = malloc((n + 1) * 4);
    uint64_t *ids = malloc((n + 1) * 8);
    float *queries = make_floats(c.queries * c.dimension, 5),
          *data = make_floats(n * c.dimension, 6);
    for (uint64_t i = 0; i < n; i++) {
        rows[i] = (uint32_t)rand_r(&seed) % 900;
        ids[i] = b.ids[rows[i]];
        memcpy(data + i * c.dimension, b.data + (size_t)rows[i] * c.dimension, c.dimension * 4);
    }
    struct job j = make_job(&b, OPERATION_SCORE_CANDIDATES, c.in_line);
    j.request.queries = floats(queries, c.queries, c.dimension);
    j.request.k = c.k;
    if (c.in_line) {
        j.request.rows = floats(data, n, c.dimension);
        j.request.metric = METRIC_COSINE;
    } else {
        j.request.ids = numbers(ids, n);
    }
    if (c.queries != 1) j.request.offsets = numbers(offsets, c.queries + 1);
    run_all_ways(&j);
    check_scores(&b, &j, offsets, rows, queries);
    run_job_reset(&j);
    free(offsets);
    free(rows);
    free(ids);
    free(queries);
    free(data);
    close_bench(&b);
}

Test(score, equals_the_reference)
{
    const uint32_t dimensions[] = {3, 64, 768, 1500};
    const uint32_t ks[] = {0, 1, 10, 500};
    for (size_t d = 0; d < 4; d += sweep_stride(3))
        for (size_t k = 0; k < 4; k++)
            for (int in_line = 0; in_line < 2; in_line++) {
                score_case((struct score_case){dimensions[d], ks[k], 1, 500, in_line});
                score_case((struct score_case){dimensions[d], ks[k], 40, 60, in_line});
                score_case((struct score_case){dimensions[d], ks[k], 0, 60, in_line});
            }
    for (int in_line = 0; in_line < 2; in_line++) /* so many that the choice has parts */
        score_case((struct score_case){3, 10, 400, 500, in_line});
}

Test(score, says_what_is_wrong)
{
    struct bench b = open_bench(4, 900);
    uint64_t ids[700], offsets[4] = {0, 100, 500, 700};
    for (int i = 0; i < 700; i++)
        ids[i] = b.ids[i];
    float *queries = make_floats(12, 1);
    struct job j = make_job(&b, OPERATION_SCORE_CANDIDATES, false);
    j.request.queries = floats(queries, 3, 4);
    j.request.ids = numbers(ids, 700);
    j.request.offsets = numbers(offsets, 4);
    ids[600] = 6;
    ids[333] = 5;
    expect(&j, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID, "no id 5 (candidate 333)");
    queries[9] = NAN;
    queries[6] = INFINITY;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE, "query 1: column 2");
    offsets[1] = 600;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "offsets");
    offsets[1] = 100;
    offsets[3] = 699;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "offsets");
    j.request.offsets = numbers(offsets, 3);
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "offsets");
    j.request.offsets = numbers(offsets, 4);
    j.request.k = 16385;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K, "k is");
    j.request.k = 0;
    j.request.metric = 9;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC, "metric 9");
    j.request.queries.columns = 3;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION, "3 columns");
    free(queries);
    close_bench(&b);
}

/* The loop does not so much as read long lists, which cannot be read here; a worker refuses them in
 * the words that short ones get. */
Test(score, leaves_long_lists_to_workers)
{
    enum { QUERIES = CHECK_OFFSETS_MAX + 5, BYTES = (QUERIES + 1) * sizeof(uint64_t) };
    struct bench b = open_bench(4, 900);
    float *queries = make_floats(QUERIES * 4, 1);
    uint64_t *offsets =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(offsets, MAP_FAILED);
    struct job j = make_job(&b, OPERATION_SCORE_CANDIDATES, false);
    j.ops = operation_find(OPERATION_SCORE_CANDIDATES);
    snprintf(j.request.names[0], sizeof j.request.names[0], "c");
    j.request.queries = floats(queries, QUERIES, 4);
    j.request.ids = numbers(b.ids, 700);
    j.request.offsets = numbers(offsets, QUERIES + 1);
    for (uint64_t i = 0; i <= QUERIES; i++)
        offsets[i] = i < 700 ? i : 700;

    mprotect(offsets, BYTES, PROT_NONE);
    cr_assert_eq(operation_check(&j), STATUS_OK, "%s", j.failure.text);
    mprotect(offsets, BYTES, PROT_READ | PROT_WRITE);
    cr_assert_eq(run_job(&j, 3), STATUS_OK, "%s", j.failure.text);
    run_job_reset(&j);
    offsets[QUERIES - 1] = 699;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
           "offsets: number 16388 goes back from 700 to 699");
    offsets[QUERIES - 1] = 700;
    offsets[QUERIES] = 701;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
           "offsets: the last is 701, 700 candidates given");
    offsets[0] = 1;
    expect(&j, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "offsets: the first is 1, 0 wanted");
    munmap(offsets, BYTES);
    free(queries);
    close_bench(&b);
}
