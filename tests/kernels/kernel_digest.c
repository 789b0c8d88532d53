/* kernel_digest: one 64-bit digest of the result bits per variant, dimension, metric and operation,
 * over inputs that depend on nothing but integer arithmetic. Two machines that print the same lines
 * (but for the variant) computed the same bits; run_neon.sh compares this machine with an emulated
 * AArch64. Exits 1 if two variants of this machine differ. No Criterion: it must link statically
 * with a cross compiler. */
#include "kernels/complete.h"
#include "kernels/attractor.h"
#include "kernels/cluster.h"
#include "kernels/covariance.h"
#include "kernels/hrr.h"
#include "kernels/random.h"
#include "kernels/shadow_scan.h"
#include "kernels/superpose.h"
#include "kernels/topk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 11, QUERIES = 6, SCORES = ROWS * QUERIES };

static const uint32_t dimensions[] = {1,   2,   15,  16,   17,   31,   32,   33,   63,  64,
                                      65,  96,  100, 127,  128,  129,  130,  384,  767, 768,
                                      769, 992, 993, 1023, 1024, 1025, 1056, 1536, 4096};

struct input {
    uint32_t dimension;
    float *rows, *queries, *row_norms, *query_norms;
    const float *scattered[ROWS];
    void *packed;
};

static uint64_t mix(uint64_t h)
{
    h ^= h >> 30, h *= 0xbf58476d1ce4e5b9u;
    h ^= h >> 27, h *= 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

static uint64_t digest_floats(const float *values, size_t count)
{
    uint64_t h = 0x9e3779b97f4a7c15u + count;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        h = mix(h + bits + 1);
    }
    return h;
}

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) exit(2);
    return memset(p, 0, (bytes + 63) / 64 * 64);
}

/* Row i: ordinary numbers, numbers of widely different exponents, or subnormal ones. */
static void fill(float *to, size_t count, uint32_t dimension, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; c < dimension; c++) {
            uint64_t random = mix(seed + i * 65536 + c);
            uint32_t sign = (uint32_t)(random >> 63) << 31;
            uint32_t exponent = i % 4 == 3   ? 127 - 20 + random % 40
                                : i % 4 == 2 ? random % 3
                                             : 120 + random % 7;
            uint32_t bits = sign | exponent << 23 | (uint32_t)(random >> 20 & 0x7fffff);
            memcpy(&to[i * vector_stride(dimension) + c], &bits, sizeof bits);
        }
    }
}

static struct input input_create(uint32_t dimension)
{
    size_t stride = vector_stride(dimension);
    struct input in = {
        .dimension = dimension,
        .rows = allocate(ROWS * stride * sizeof(float)),
        .queries = allocate(QUERIES * stride * sizeof(float)),
        .row_norms = allocate(ROWS * sizeof(float)),
        .query_norms = allocate(QUERIES * sizeof(float)),
    };
    fill(in.rows, ROWS - 1, dimension, 1); /* the last row stays zero */
    fill(in.queries, QUERIES, dimension, 2);
    for (size_t i = 0; i < ROWS; i++)
        in.scattered[i] = in.rows + (i * 7 % ROWS) * stride;
    return in;
}

static void input_destroy(struct input *in)
{
    free(in->rows), free(in->queries), free(in->row_norms), free(in->query_norms);
    free(in->packed);
}

static void line(const char *variant, uint32_t dimension, int metric, const char *operation,
                 const float *values, size_t count)
{
    printf("%s %u %d %s %016llx\n", variant, dimension, metric, operation,
           (unsigned long long)digest_floats(values, count));
}

static uint64_t digest_metric(const struct vector_kernels *k, const struct input *in,
                              enum metric metric)
{
    size_t stride = vector_stride(in->dimension);
    float scores[SCORES], norms[ROWS];
    struct row_block block = {in->rows, in->row_norms, ROWS};
    struct query_pack pack = {in->packed, in->query_norms, QUERIES};
    for (size_t q = 0; q < QUERIES; q++)
        k->scan(metric, in->dimension, in->queries + q * stride, in->query_norms[q], block,
                scores + q * ROWS);
    line(k->name, in->dimension, metric, "scan", scores, SCORES);
    uint64_t all = digest_floats(scores, SCORES);
    for (size_t i = 0; i < ROWS; i++)
        norms[i] = in->row_norms[i * 7 % ROWS];
    for (size_t q = 0; q < QUERIES; q++)
        k->gather(metric, in->dimension, in->queries + q * stride, in->query_norms[q],
                  in->scattered, norms, ROWS, scores + q * ROWS);
    line(k->name, in->dimension, metric, "gather", scores, SCORES);
    all = mix(all + digest_floats(scores, SCORES));
    k->tile(metric, in->dimension, &pack, block, scores, ROWS);
    line(k->name, in->dimension, metric, "tile", scores, SCORES);
    return mix(all + digest_floats(scores, SCORES));
}

/* `screen` itself may sum in any order. */
static uint64_t digest_screen_pass(const struct vector_kernels *k, const struct input *in)
{
    float passed[ROWS];
    uint32_t positions[ROWS + 16];
    size_t count =
        k->screen_pass(in->rows, in->row_norms, ROWS, in->query_norms[0], in->rows[2], positions);
    for (size_t i = 0; i < count; i++)
        passed[i] = (float)positions[i];
    line(k->name, in->dimension, 0, "screen_pass", passed, count);
    return digest_floats(passed, count);
}

/* Two lists, one of three blocks. */
static uint64_t digest_superposed(const struct vector_kernels *k, const struct input *in)
{
    enum { COUNT = 700 };
    static const float *rows[COUNT];
    static const uint64_t offsets[] = {0, 11, COUNT};
    size_t stride = vector_stride(in->dimension);
    for (size_t i = 0; i < COUNT; i++)
        rows[i] = in->rows + i * 5 % ROWS * stride;
    float *scratch = allocate(superpose_scratch(in->dimension, COUNT) * sizeof(float));
    float *sums = allocate(2 * stride * sizeof(float));
    struct superpose_lists lists = {rows, NULL, offsets, 2};
    superpose_choose(k->name)->sums(in->dimension, &lists, scratch, sums);
    line(k->name, in->dimension, 0, "superposed", sums, 2 * stride);
    uint64_t digest = digest_floats(sums, 2 * stride);
    free(scratch), free(sums);
    return digest;
}

/* Queries with rows in all forms, and the product of four rows. */
static uint64_t digest_bound(const struct vector_kernels *k, const struct input *in)
{
    static float out[QUERIES * 4096];
    static const char *const names[] = {"bind", "unbind", "unbind_exact"};
    const struct hrr_kernels *kernels = hrr_choose(k->name);
    const float *queries[QUERIES];
    void *plan = allocate(hrr_plan_bytes(in->dimension));
    void *scratch = allocate(hrr_scratch_bytes(in->dimension));
    struct hrr_pairs work = {.plan = hrr_plan_make(in->dimension, plan),
                             .scratch = scratch,
                             .a = in->scattered,
                             .b = queries,
                             .count = QUERIES,
                             .out = out,
                             .out_step = in->dimension};
    uint64_t all = 0;
    for (size_t q = 0; q < QUERIES; q++)
        queries[q] = in->queries + q * vector_stride(in->dimension);
    for (int form = HRR_BIND; form <= HRR_UNBIND_EXACT; form++) {
        if (form == HRR_UNBIND_EXACT && !hrr_has_plan(in->dimension)) continue;
        work.form = (enum hrr_form)form;
        struct hrr_fault fault = kernels->pairs(&work);
        size_t done = fault.status == HRR_OK ? QUERIES : fault.pair;
        line(k->name, in->dimension, 0, names[form], out, done * in->dimension);
        all = mix(all + digest_floats(out, done * in->dimension) + fault.index);
    }
    struct hrr_product product = {
        .plan = work.plan, .scratch = scratch, .rows = in->scattered, .count = 4, .out = out};
    (void)kernels->many(&product);
    line(k->name, in->dimension, 0, "bind_many", out, in->dimension);
    free(plan), free(scratch);
    return mix(all + digest_floats(out, in->dimension));
}

/* A round of completion over four runs of rows, the last of them short. */
static uint64_t digest_completed(const struct vector_kernels *k, const struct input *in, bool unit)
{
    enum { COUNT = 3 * COMPLETE_RUN + 1, STATES = 3 };
    static float shares[STATES * COUNT], norms[COUNT], out[STATES * 4096];
    const struct complete_kernels *kernels = complete_choose(k->name);
    size_t stride = vector_stride(in->dimension);
    float *rows = allocate(COUNT * stride * sizeof(float));
    float *sums = allocate(STATES * stride * sizeof(float)),
          *moved = allocate(stride * sizeof(float));
    const struct complete_shares all = {shares, COUNT, STATES};
    double totals[STATES];
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(rows + i * stride, in->rows + i * 5 % ROWS * stride, stride * sizeof(float));
        norms[i] = in->row_norms[i * 5 % ROWS];
    }
    for (size_t q = 0; q < STATES; q++) {
        float *scores = shares + q * COUNT;
        k->scan(METRIC_DOT, in->dimension, in->queries + q * stride, 0.0f,
                (struct row_block){rows, norms, COUNT}, scores);
        float largest = kernels->score(unit ? norms : NULL, COUNT, scores);
        totals[q] = kernels->weigh(unit ? norms : NULL, COUNT, largest, 0.5f, scores);
    }
    kernels->add(in->dimension, rows, COUNT, &all, sums, stride);
    for (size_t q = 0; q < STATES; q++) {
        memcpy(out + q * in->dimension, in->queries + q * stride, in->dimension * sizeof(float));
        kernels->settle(in->dimension, sums + q * stride, totals[q], NULL, NULL,
                        out + q * in->dimension, moved);
    }
    line(k->name, in->dimension, unit, "shares", shares, STATES * COUNT);
    line(k->name, in->dimension, unit, "completed", out, STATES * in->dimension);
    free(rows), free(sums), free(moved);
    return mix(digest_floats(shares, STATES * COUNT) + digest_floats(out, STATES * in->dimension));
}

/* An attractor's tables, what it learns from the first row, and what it makes of the second. */
static uint64_t digest_attractor(const struct vector_kernels *k, const struct input *in)
{
    uint32_t d = in->dimension;
    if (d > 130 && d != 1056) return 0; /* emulated, larger tables take minutes */
    size_t stride = vector_stride(d), rows = 10 * d < 64 ? 10 * d : 64;
    const struct attractor_kernels *kernels = attractor_choose(k->name);
    float *dentate = allocate(rows * stride * sizeof *dentate);
    float *columns = allocate(d * stride * sizeof *columns);
    float *state = allocate(stride * sizeof *state);
    void *scratch = allocate(attractor_settle_bytes(d));
    struct attractor_range range = {-1.0f, 1.0f};
    kernels->dentate(d, 0, rows, dentate);
    kernels->weights(d, 0, d, columns);
    kernels->learn(d, in->rows, in->queries, 1.0f, columns, d, columns, &range);
    kernels->learn(d, in->rows, in->queries, 3.0f, columns, d, columns, &range);
    for (uint32_t i = 0; i < d; i++)
        state[i] = i % 3 ? in->rows[stride + i] : 0.0f;
    (void)attractor_settle(kernels, k, d, attractor_kept(d, 0.3f), columns, scratch, state);
    line(k->name, d, 0, "dentate", dentate, rows * stride);
    line(k->name, d, 0, "weights", columns, d * stride);
    line(k->name, d, 0, "settled", state, stride);
    uint64_t digest = mix(digest_floats(dentate, rows * stride) + digest_floats(state, stride));
    digest = mix(digest + digest_floats(columns, d * stride));
    free(dentate), free(columns), free(state), free(scratch);
    return digest;
}

/* Sums and products of all rows with weights, of the first columns and of the last ones. */
static uint64_t digest_covariance(const struct vector_kernels *k, const struct input *in)
{
    const struct covariance_kernels *kernels = covariance_choose(k->name);
    size_t d = in->dimension, most = COVARIANCE_TILE, count = d < most ? d : most;
    const struct covariance_columns first = {0, count}, last = {d - count, count};
    double *left = allocate(COVARIANCE_PACK_NUMBERS * sizeof *left);
    double *right = allocate(COVARIANCE_PACK_NUMBERS * sizeof *right);
    double *tile = allocate(COVARIANCE_TILE_NUMBERS * sizeof *tile);
    double *sums = allocate(d * sizeof *sums);
    const struct covariance_rows all = {in->scattered, in->row_norms, ROWS};
    kernels->sum(&all, 0, d, sums);
    for (size_t at = 0; at < ROWS; at += 4) {
        struct covariance_rows some = {in->scattered + at, in->row_norms + at,
                                       ROWS - at < 4 ? ROWS - at : 4};
        kernels->pack_left(&some, first, sums, left);
        kernels->pack_right(&some, last, sums, right);
        kernels->add(left, count, right, count, some.count, false, tile);
    }
    for (size_t i = 0; i < count; i++) /* without what lies beyond the columns */
        memmove(tile + i * count, tile + i * COVARIANCE_TILE, count * sizeof *tile);
    line(k->name, in->dimension, 0, "sums", (const float *)sums, 2 * d);
    line(k->name, in->dimension, 0, "products", (const float *)tile, 2 * count * count);
    uint64_t digest = mix(digest_floats((const float *)sums, 2 * d) +
                          digest_floats((const float *)tile, 2 * count * count));
    free(left), free(right), free(tile), free(sums);
    return digest;
}

/* The mean of all rows, and the similarities of its numbers, with and without times. */
static uint64_t digest_clusters(const struct vector_kernels *k, const struct input *in)
{
    const struct cluster_kernels *kernels = cluster_choose(k->name);
    size_t d = in->dimension;
    float *sums = allocate(d * sizeof *sums), *means = allocate(d * sizeof *means);
    double *corrections = allocate(d * sizeof *corrections);
    for (size_t i = 0; i < d; i++)
        sums[i] = 0.0f, corrections[i] = 0.0;
    kernels->add(in->scattered, ROWS, 0, d, sums, corrections);
    kernels->divide(sums, corrections, d, ROWS, means);
    line(k->name, in->dimension, 0, "means", means, d);
    uint64_t digest = digest_floats(means, d);
    for (size_t i = 0; i < d; i++)
        means[i] = canonical_clamp(means[i]), sums[i] = (float)i * 0.37f;
    kernels->similarities(11.5f, sums, d, means);
    line(k->name, in->dimension, 0, "similarities", means, d);
    digest = mix(digest + digest_floats(means, d));
    kernels->similarities(0.0f, NULL, d, means);
    digest = mix(digest + digest_floats(means, d) + kernels->largest(means, d, &sums[0]));
    free(sums), free(means), free(corrections);
    return mix(digest);
}

/* Codes of the rows around the first of them, bounds of a query, and who passes them. */
static uint64_t digest_shadow(const struct shadow_kernels *kernels, const struct input *in)
{
    uint32_t d = in->dimension, masks[(QUERIES + SHADOW_GROUP - 1) / SHADOW_GROUP * ROWS];
    size_t apart = shadow_stride(d), padded = shadow_padded(QUERIES);
    float *beside = allocate(4 * ROWS * sizeof *beside), *lines = allocate(2 * padded * 4);
    int8_t *codes = allocate(ROWS * apart), *planes = allocate(2 * apart);
    void *packed = allocate(shadow_pack_bytes(d, QUERIES));
    struct shadow_centre centre = {in->rows, in->row_norms[0]};
    struct shadow_places places = {codes, beside, beside + ROWS, beside + 2 * ROWS};
    struct shadow_rows rows = {codes, beside, beside + ROWS, beside + 2 * ROWS, ROWS};
    struct shadow_lines bounds = {lines, lines + padded};
    struct shadow_query query;
    kernels->measure(d, in->rows, ROWS, &centre, &places);
    kernels->prepare(d, in->queries, in->query_norms[0], &centre, planes, &query);
    kernels->scan(d, &query, planes, &rows, beside + 3 * ROWS);
    line(kernels->name, d, 0, "shadow", beside, 4 * ROWS);
    uint64_t digest = digest_floats(beside, 4 * ROWS);
    for (size_t q = 0; q < QUERIES; q++)
        lines[q] = 0.1f * in->query_norms[q];
    kernels->pack(d, in->queries, in->query_norms, QUERIES, &centre, packed);
    kernels->tile(d, packed, QUERIES, &bounds, &rows, in->row_norms, masks);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        digest = mix(digest + masks[i] + 1);
    free(beside), free(lines), free(codes), free(planes), free(packed);
    return digest;
}

/* The sum of all tables of one name if they agree, as it is of one; each adds its line. */
static uint64_t digest_shadows(const struct vector_kernels *k, const struct input *in)
{
    uint64_t digest = digest_shadow(shadow_choose(k->name), in);
    const struct shadow_kernels *other;
    for (size_t i = 0; (other = shadow_variant(i)); i++)
        if (!strcmp(other->name, k->name) && digest_shadow(other, in) != digest) digest++;
    return digest;
}

static uint64_t digest_variant(const struct vector_kernels *k, uint32_t dimension)
{
    struct input in = input_create(dimension);
    float sums[4096 + 1] = {0}, passed[ROWS] = {0};
    uint32_t positions[ROWS + 16];
    k->norms(dimension, in.rows, ROWS, in.row_norms);
    k->norms(dimension, in.queries, QUERIES, in.query_norms);
    in.packed = allocate(k->pack_bytes(dimension, QUERIES));
    k->pack(dimension, in.queries, QUERIES, in.packed);
    line(k->name, dimension, 0, "norms", in.row_norms, ROWS);
    uint64_t all = digest_floats(in.row_norms, ROWS);
    for (int metric = METRIC_COSINE; metric <= METRIC_SQUARED_EUCLIDEAN; metric++)
        all = mix(all + digest_metric(k, &in, (enum metric)metric));
    all = mix(all + digest_screen_pass(k, &in));
    k->weighted_sum(in.scattered, in.query_norms, QUERIES, 0, dimension, sums);
    line(k->name, dimension, 0, "weighted_sum", sums, dimension);
    all = mix(all + digest_floats(sums, dimension));
    all = mix(all + digest_superposed(k, &in));
    all = mix(all + digest_bound(k, &in));
    all = mix(all + digest_attractor(k, &in));
    all = mix(all + digest_completed(k, &in, false) + 3 * digest_completed(k, &in, true));
    all = mix(all + digest_covariance(k, &in));
    all = mix(all + digest_clusters(k, &in));
    all = mix(all + digest_shadows(k, &in));
    random_choose(k->name)->normal(mix(dimension), dimension, UINT32_MAX, ROWS, in.rows);
    line(k->name, dimension, 0, "random", in.rows, ROWS * vector_stride(dimension));
    all = mix(all + digest_floats(in.rows, ROWS * vector_stride(dimension)));
    k->normalize(dimension, in.rows, in.row_norms, ROWS);
    line(k->name, dimension, 0, "normalize", in.rows, ROWS * vector_stride(dimension));
    all = mix(all + digest_floats(in.rows, ROWS * vector_stride(dimension)));
    size_t count = k->pass(in.row_norms, ROWS, in.row_norms[1], dimension % 2, positions);
    for (size_t i = 0; i < count; i++)
        passed[i] = (float)positions[i];
    line(k->name, dimension, 0, "pass", passed, count);
    all = mix(all + digest_floats(passed, count));
    input_destroy(&in);
    return all;
}

/* Numbers of every exponent and both signs. */
static uint64_t digest_functions(const struct vector_kernels *k)
{
    enum { NUMBERS = 65536 };
    static float from[NUMBERS], to[NUMBERS];
    const struct function_kernels *functions = functions_choose(k->name);
    for (uint32_t i = 0; i < NUMBERS; i++)
        from[i] = canonical_from_bits(i << 16 | (uint32_t)(mix(i) & 0xffff));
    functions->exponentials(from, NUMBERS, to);
    line(k->name, 0, 0, "exponentials", to, NUMBERS);
    uint64_t all = digest_floats(to, NUMBERS);
    functions->logistics(from, NUMBERS, to);
    line(k->name, 0, 0, "logistics", to, NUMBERS);
    all = mix(all + digest_floats(to, NUMBERS));
    functions->logarithms(from, NUMBERS, to);
    line(k->name, 0, 0, "logarithms", to, NUMBERS);
    all = mix(all + digest_floats(to, NUMBERS));
    functions->sines(from, NUMBERS, to);
    line(k->name, 0, 0, "sines", to, NUMBERS);
    all = mix(all + digest_floats(to, NUMBERS));
    functions->cosines(from, NUMBERS, to);
    line(k->name, 0, 0, "cosines", to, NUMBERS);
    return mix(all + digest_floats(to, NUMBERS));
}

int main(void)
{
    int differing = 0;
    uint64_t functions = digest_functions(vectors_variant(0));
    for (size_t v = 1; vectors_variant(v); v++) {
        if (digest_functions(vectors_variant(v)) == functions) continue;
        fprintf(stderr, "%s differs from scalar in functions\n", vectors_variant(v)->name);
        differing = 1;
    }
    for (size_t d = 0; d < sizeof dimensions / sizeof *dimensions; d++) {
        uint64_t reference = digest_variant(vectors_variant(0), dimensions[d]);
        for (size_t v = 1; vectors_variant(v); v++) {
            if (digest_variant(vectors_variant(v), dimensions[d]) == reference) continue;
            fprintf(stderr, "%s differs from scalar at dimension %u\n", vectors_variant(v)->name,
                    dimensions[d]);
            differing = 1;
        }
    }
    return differing;
}
