/* bench_shadow: rows in int8 (kernels/shadow_scan.h) beside the same rows in float32, on one
 * thread: one query, the tile of many, and coding. */
#include <string.h>

#include "kernels/shadow_scan.h"
#include "tests/bench/bench.h"

enum { ROWS = 100000, DIMENSION = 768, BLOCK = 256, QUERIES = 128, ROUNDS = 9 };

static float *rows, *norms, *queries, *query_norms;
static struct shadow_places places;
static double sink;

static void *take(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) bench_fail("bench_shadow", "no memory");
    return p;
}

static void fill(float *to, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        to[i] = bench_random_float(&seed);
}

static struct shadow_rows block(size_t first, size_t count)
{
    return (struct shadow_rows){places.codes + first * shadow_stride(DIMENSION),
                                places.scales + first, places.losts + first, places.lengths + first,
                                count};
}

static size_t block_rows(size_t first)
{
    return ROWS - first < BLOCK ? ROWS - first : BLOCK;
}

static void scan_floats(const struct vector_kernels *v, const struct shadow_kernels *s)
{
    (void)s;
    float scores[BLOCK];
    for (size_t first = 0; first < ROWS; first += BLOCK) {
        struct row_block b = {rows + first * DIMENSION, norms + first, block_rows(first)};
        v->scan(METRIC_COSINE, DIMENSION, queries, query_norms[0], b, scores);
        sink += (double)scores[0];
    }
}

static void scan_codes(const struct vector_kernels *v, const struct shadow_kernels *s)
{
    (void)v;
    float above[BLOCK];
    int8_t planes[2 * DIMENSION] __attribute__((aligned(64)));
    struct shadow_query q;
    struct shadow_centre centre = {NULL, 0};
    s->prepare(DIMENSION, queries, query_norms[0], &centre, planes, &q);
    for (size_t first = 0; first < ROWS; first += BLOCK) {
        struct shadow_rows b = block(first, block_rows(first));
        s->scan(DIMENSION, &q, planes, &b, above);
        sink += (double)above[0];
    }
}

static void code_rows(const struct vector_kernels *v, const struct shadow_kernels *s)
{
    (void)v;
    struct shadow_centre centre = {NULL, 0};
    s->measure(DIMENSION, rows, ROWS, &centre, &places);
}

static void tile_floats(const struct vector_kernels *v, const struct shadow_kernels *s)
{
    (void)s;
    void *packed = take(v->pack_bytes(DIMENSION, QUERIES));
    float *scores = take((size_t)QUERIES * BLOCK * sizeof *scores);
    v->pack(DIMENSION, queries, QUERIES, packed);
    struct query_pack pack = {packed, query_norms, QUERIES};
    for (size_t first = 0; first < ROWS; first += BLOCK) {
        struct row_block b = {rows + first * DIMENSION, norms + first, block_rows(first)};
        v->tile(METRIC_COSINE, DIMENSION, &pack, b, scores, BLOCK);
        sink += (double)scores[0];
    }
    free(packed), free(scores);
}

static void tile_codes(const struct vector_kernels *v, const struct shadow_kernels *s)
{
    (void)v;
    void *packed = take(shadow_pack_bytes(DIMENSION, QUERIES));
    static uint32_t masks[QUERIES / SHADOW_GROUP * BLOCK];
    static float scales[QUERIES], offsets[QUERIES];
    struct shadow_centre centre = {NULL, 0};
    struct shadow_lines lines = {scales, offsets};
    for (size_t q = 0; q < QUERIES; q++)
        scales[q] = query_norms[q] * 0.14f, offsets[q] = 0.0f;
    s->pack(DIMENSION, queries, query_norms, QUERIES, &centre, packed);
    for (size_t first = 0; first < ROWS; first += BLOCK) {
        struct shadow_rows b = block(first, block_rows(first));
        s->tile(DIMENSION, packed, QUERIES, &lines, &b, norms + first, masks);
        sink += masks[0];
    }
    free(packed);
}

static void measure(const char *what, double bytes,
                    void (*run)(const struct vector_kernels *v, const struct shadow_kernels *s),
                    const struct vector_kernels *v, const struct shadow_kernels *s)
{
    double best = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        double begun = bench_now_s();
        run(v, s);
        double took = bench_now_s() - begun;
        best = took < best ? took : best;
    }
    printf("  %-28s %9.3f ms  %6.1f GB/s\n", what, best * 1e3, bytes / best * 1e-9);
}

int main(void)
{
    double codes = (double)ROWS * (double)shadow_stride(DIMENSION), floats = 4.0 * ROWS * DIMENSION;
    rows = take((size_t)ROWS * DIMENSION * 4), norms = take(ROWS * 4);
    queries = take((size_t)QUERIES * DIMENSION * 4), query_norms = take(QUERIES * 4);
    places =
        (struct shadow_places){take((size_t)codes), take(ROWS * 4), take(ROWS * 4), take(ROWS * 4)};
    fill(rows, (size_t)ROWS * DIMENSION, 1), fill(queries, (size_t)QUERIES * DIMENSION, 2);
    vectors_choose("auto")->norms(DIMENSION, rows, ROWS, norms);
    vectors_choose("auto")->norms(DIMENSION, queries, QUERIES, query_norms);
    printf("%d x %d, one thread\n", ROWS, DIMENSION);
    const struct shadow_kernels *s;
    for (size_t i = 1; (s = shadow_variant(i)); i++) {
        const struct vector_kernels *v = vectors_choose(s->name);
        printf("%s%s\n", s->name, s->tiles ? ", vnni" : "");
        measure("code the rows", floats, code_rows, v, s);
        measure("1 query, float32", floats, scan_floats, v, s);
        measure("1 query, int8", codes, scan_codes, v, s);
        measure("128 queries, float32", floats, tile_floats, v, s);
        measure("128 queries, int8", codes, tile_codes, v, s);
    }
    return sink == 0.5;
}
