/* Holographic operations through the socket, against convolutions in binary64: rows sent along,
 * rows by id, results into collections, and what bad input gets. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/random.h"
#include "tests/support/client_expect.h"
#include "tests/support/sets.h"

enum { PAIRS = 5, DIMENSION_MAX = 1024 };

static struct scene scene;
static ea_client *c;

static void begin(const char *const *settings)
{
    scene_open(&scene, settings);
    c = scene_client(&scene, "facts");
}

/* Nothing may stay behind in the scene. */
static void drop(void)
{
    ea_collection_info *list;
    size_t count;
    OK(ea_collection_list(c, &list, &count));
    for (size_t i = 0; i < count; i++)
        OK(ea_collection_drop(c, list[i].name));
    ea_collection_list_free(list);
}

static void end(void)
{
    drop();
    ea_close(c);
    scene_close(&scene);
}

/* ---- what is right ---- */

static double norm(const float *x, uint32_t d)
{
    double sum = 0;
    for (uint32_t i = 0; i < d; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum);
}

/* step 1: the convolution of a and b; -1: a's with b's involution. */
static void convolve(const float *a, const float *b, uint32_t d, int step, double *out)
{
    for (uint32_t j = 0; j < d; j++) {
        out[j] = 0;
        for (uint32_t i = 0; i < d; i++)
            out[j] += (double)a[i] * b[step > 0 ? (j + d - i) % d : (i + d - j) % d];
    }
}

/* By the bound that kernels/hrr.h states. */
static void expect_convolved(const float *got, const float *a, const float *b, uint32_t d, int step)
{
    static double want[DIMENSION_MAX];
    double most = 4 * 0x1p-24 * (1 + log2(d)) * norm(a, d) * norm(b, d);
    convolve(a, b, d, step, want);
    for (uint32_t j = 0; j < d; j++)
        cr_assert(fabs((double)got[j] - want[j]) <= most, "d %u, number %u: %.9g, %.9g", d, j,
                  (double)got[j], want[j]);
}

static float rows_a[PAIRS * DIMENSION_MAX], rows_b[PAIRS * DIMENSION_MAX];
static const uint64_t ids[PAIRS] = {7, 1000, 3, UINT64_C(1) << 40, 12};

/* Two collections, "a" and "b", and an empty one, "c". */
static void make(uint32_t d)
{
    for (uint32_t i = 0; i < PAIRS; i++) {
        float padded[DIMENSION_MAX + 32];
        random_scalar.normal(5, d, i, 1, padded);
        memcpy(rows_a + (size_t)i * d, padded, d * sizeof *padded);
        random_scalar.normal(6, d, i, 1, padded);
        memcpy(rows_b + (size_t)i * d, padded, d * sizeof *padded);
    }
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        OK(ea_collection_create(c, names[i], d, EA_COSINE, NULL));
    ea_rows rows = {.collection = "a", .ids = ids, .rows = rows_a, .count = PAIRS, .dimension = d};
    OK(ea_upsert(c, &rows, NULL));
    rows.collection = "b";
    rows.rows = rows_b;
    OK(ea_upsert(c, &rows, NULL));
}

static const ea_operand sent_a = {.rows = rows_a, .count = PAIRS},
                        sent_b = {.rows = rows_b, .count = PAIRS},
                        kept_a = {.collection = "a", .ids = ids, .count = PAIRS},
                        kept_b = {.collection = "b", .ids = ids, .count = PAIRS},
                        one_b = {.collection = "b", .ids = ids + 2, .count = 1};
static const ea_into into_c = {.collection = "c", .ids = ids};

static void expect_same(const ea_hrr_result *a, const ea_hrr_result *b)
{
    cr_assert(a->rows == b->rows && a->columns == b->columns);
    cr_assert_eq(memcmp(a->vectors, b->vectors, a->rows * a->columns * sizeof(float)), 0);
}

/* ---- pairs ---- */

static void expect_pairs(uint32_t d)
{
    ea_hrr_result bound = {0}, r = {0};
    OK(ea_bind(c, &(ea_bind_question){.a = &sent_a, .b = &sent_b, .dimension = d}, &bound));
    cr_assert(bound.rows == PAIRS && bound.columns == d);
    for (size_t i = 0; i < PAIRS; i++)
        expect_convolved(bound.vectors + i * d, rows_a + i * d, rows_b + i * d, d, 1);
    OK(ea_bind(c, &(ea_bind_question){.a = &kept_b, .b = &kept_a}, &r));
    expect_same(&bound, &r);
    cr_assert(r.a_version && r.b_version && !r.into_version);
    OK(ea_bind(c, &(ea_bind_question){.a = &sent_a, .b = &one_b, .dimension = d}, &r));
    for (size_t i = 0; i < PAIRS; i++)
        expect_convolved(r.vectors + i * d, rows_a + i * d, rows_b + 2 * d, d, 1);
    OK(ea_bind(c, &(ea_bind_question){.a = &kept_a, .b = &kept_b, .normalize = true}, &r));
    for (size_t i = 0; i < PAIRS; i++)
        cr_assert(fabs(norm(r.vectors + i * d, d) - 1) < 1e-6);
    OK(ea_unbind(c, &(ea_bind_question){.a = &kept_a, .b = &sent_b, .dimension = d}, &r));
    for (size_t i = 0; i < PAIRS; i++)
        expect_convolved(r.vectors + i * d, rows_a + i * d, rows_b + i * d, d, -1);
    ea_hrr_result_free(&bound);
    ea_hrr_result_free(&r);
}

Test(hrr, pairs_are_convolutions)
{
    static const uint32_t dimensions[] = {1, 2, 7, 60, 64, 500, 769, 1024};
    begin(NULL);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        make(dimensions[i]);
        expect_pairs(dimensions[i]);
        drop();
    }
    end();
}

Test(hrr, the_exact_inverse_undoes_a_binding)
{
    enum { D = 512 };
    begin(NULL);
    make(D);
    ea_hrr_result bound = {0}, r = {0};
    OK(ea_bind(c, &(ea_bind_question){.a = &kept_a, .b = &kept_b}, &bound));
    const ea_operand all = {.rows = bound.vectors, .count = bound.rows};
    ea_bind_question q = {.a = &all, .b = &kept_b, .dimension = D, .exact = true};
    OK(ea_unbind(c, &q, &r));
    for (size_t i = 0; i < PAIRS * (size_t)D; i++)
        cr_assert(fabsf(r.vectors[i] - rows_a[i]) < 1e-3F, "number %zu", i);
    static float flat[D]; /* its spectrum is one number and zeros */
    for (int i = 0; i < D; i++)
        flat[i] = 1;
    const ea_operand constant = {.rows = flat, .count = 1};
    q.b = &constant;
    FAILS(ea_unbind(c, &q, &r), EA_FAILED_PRECONDITION, EA_DETAIL_NO_INVERSE,
          "pair 0: b has no exact inverse: its spectrum is");
    ea_hrr_result_free(&bound);
    ea_hrr_result_free(&r);
    end();
}

/* ---- into collections ---- */

static uint64_t version_of(const char *name)
{
    ea_collection_info info;
    OK(ea_collection_describe(c, name, &info));
    return info.version;
}

static void expect_stored(const char *name, const ea_hrr_result *want)
{
    ea_result got = {0};
    OK(ea_fetch(c, name, ids, PAIRS, &got));
    cr_assert(got.rows == want->rows && got.missing == 0);
    cr_assert_eq(memcmp(got.vectors, want->vectors, got.rows * got.columns * sizeof(float)), 0);
    ea_result_free(&got);
}

Test(hrr, results_are_kept_in_a_collection)
{
    enum { D = 64 };
    begin(NULL);
    make(D);
    ea_hrr_result bound = {0}, r = {0};
    ea_bind_question q = {.a = &kept_a, .b = &kept_b};
    OK(ea_bind(c, &q, &bound));
    q.into = &into_c;
    OK(ea_bind(c, &q, &r));
    cr_assert(r.inserted == PAIRS && !r.replaced && r.into_rows == PAIRS && !r.vectors);
    cr_assert(r.into_version == version_of("c") && r.a_version == version_of("a"));
    expect_stored("c", &bound);
    const uint64_t read = r.a_version;
    const ea_write write = {.version = read, .token = {9}};
    q.into = &(ea_into){.collection = "a", .ids = ids, .write = &write};
    for (int i = 0; i < 2; i++) { /* a token: applied once */
        OK(ea_bind(c, &q, &r));
        cr_assert(r.replaced == PAIRS && r.into_version > read);
    }
    expect_stored("a", &bound);
    const ea_write late = {.version = read};
    q.into = &(ea_into){.collection = "a", .ids = ids, .write = &late};
    FAILS(ea_bind(c, &q, &r), EA_ABORTED, EA_DETAIL_VERSION_CHANGED, "version");
    expect_stored("a", &bound);
    ea_hrr_result_free(&bound);
    ea_hrr_result_free(&r);
    end();
}

/* ---- lists, permutations, random vectors, cleanup ---- */

Test(hrr, sums_and_products_of_lists)
{
    enum { D = 60 };
    static const uint64_t offsets[] = {0, 1, 3, PAIRS};
    static const float weights[PAIRS] = {2, 0.5F, -1, 3, 0.25F};
    begin(NULL);
    make(D);
    ea_hrr_result r = {0};
    ea_list_question q = {.a = &kept_a, .offsets = offsets, .lists = 3, .weights = weights};
    OK(ea_superpose(c, &q, &r));
    cr_assert(r.rows == 3 && r.columns == D);
    for (size_t list = 0; list < 3; list++)
        for (size_t j = 0; j < D; j++) {
            double sum = 0;
            for (uint64_t i = offsets[list]; i < offsets[list + 1]; i++)
                sum += (double)weights[i] * rows_a[i * D + j];
            cr_assert(fabs(sum - (double)r.vectors[list * D + j]) < 1e-6);
        }
    q.weights = NULL;
    OK(ea_bind_many(c, &q, &r));
    cr_assert_eq(memcmp(r.vectors, rows_a, D * sizeof(float)), 0, "a product of one");
    expect_convolved(r.vectors + D, rows_a + D, rows_a + (size_t)2 * D, D, 1);
    const ea_operand opposites = {.rows = (const float[]){1, 2, -1, -2}, .count = 2};
    OK(ea_superpose(c, &(ea_list_question){.a = &opposites, .dimension = 2, .normalize = true},
                    &r));
    cr_assert(r.rows == 1 && r.vectors[0] == 0 && r.vectors[1] == 0, "a sum of zero stays zeros");
    ea_hrr_result_free(&r);
    end();
}

Test(hrr, permutations_and_random_vectors)
{
    enum { D = 60 };
    float padded[2 * 64];
    begin(NULL);
    make(D);
    ea_hrr_result r = {0};
    OK(ea_permute(c, &(ea_permute_question){.a = &kept_a, .shift = -62}, &r));
    for (size_t i = 0; i < PAIRS; i++)
        for (size_t j = 0; j < D; j++)
            cr_assert_eq(r.vectors[i * D + j], rows_a[i * D + (j + 2) % D]);
    OK(ea_random(c, &(ea_random_question){.seed = 5, .count = PAIRS, .dimension = D}, &r));
    cr_assert_eq(memcmp(r.vectors, rows_a, sizeof(float) * PAIRS * D), 0, "the seed's bits");
    const ea_random_question some = {.seed = 8, .first = 70, .count = 2, .dimension = D};
    OK(ea_random(c, &some, &r));
    random_scalar.normal(8, D, 70, 2, padded);
    cr_assert_eq(memcmp(r.vectors + D, padded + 64, D * sizeof(float)), 0);
    ea_hrr_result_free(&r);
    end();
}

Test(hrr, cleanup_is_an_unbinding_and_a_search)
{
    enum { D = 512 };
    static const float least = 0.3F;
    begin(NULL);
    make(D);
    ea_hrr_result bound = {0}, noisy = {0};
    ea_result hits = {0}, want = {0};
    OK(ea_bind(c, &(ea_bind_question){.a = &kept_a, .b = &kept_b}, &bound));
    const ea_operand all = {.rows = bound.vectors, .count = PAIRS};
    OK(ea_unbind(c, &(ea_bind_question){.a = &all, .b = &kept_b, .dimension = D}, &noisy));
    ea_knn_question knn = {
        .collection = "a", .queries = noisy.vectors, .query_count = PAIRS, .dimension = D, .k = 3};
    ea_cleanup_question q = {.a = &all, .b = &kept_b, .dimension = D, .codebook = "a", .k = 3};
    for (int i = 0; i < 2; i++) {
        OK(ea_knn(c, &knn, &want));
        OK(ea_cleanup(c, &q, &hits));
        cr_assert(hits.rows == PAIRS && hits.columns == want.columns);
        cr_assert(!hits.a_version && hits.b_version == version_of("b"));
        cr_assert_eq(hits.meta->version, version_of("a"));
        size_t n = hits.rows * hits.columns;
        cr_assert_eq(memcmp(hits.ids, want.ids, n * sizeof *want.ids), 0);
        cr_assert_eq(memcmp(hits.scores, want.scores, n * sizeof *want.scores), 0);
        cr_assert_eq(memcmp(hits.counts, want.counts, PAIRS * sizeof *want.counts), 0);
        for (size_t pair = 0; pair < PAIRS; pair++)
            cr_assert_eq(hits.ids[pair * hits.columns], ids[pair]);
        knn.threshold = q.threshold = &least;
    }
    ea_hrr_result_free(&bound);
    ea_hrr_result_free(&noisy);
    ea_result_free(&hits);
    ea_result_free(&want);
    end();
}

/* ---- bad input ---- */

static const float odd_rows[] = {1, 2, 3, 4, NAN, 6}, huge_rows[] = {3e38F, 3e38F, 3e38F, 3e38F};

Test(hrr, bad_input_is_named_and_changes_nothing)
{
    enum { D = 4 };
    begin((const char *const[]){"quotas.host_mib=16", NULL});
    make(D);
    OK(ea_collection_create(c, "wide", 16384, EA_DOT, NULL));
    const uint64_t before = version_of("c"), twice[PAIRS] = {1, 2, 1, 4, 5}, missing[] = {7, 8};
    const ea_into gone = {.collection = "nobody", .ids = ids},
                  doubled = {.collection = "c", .ids = twice};
    const ea_operand odd = {.rows = odd_rows, .count = 3}, huge = {.rows = huge_rows, .count = 1},
                     large = {.rows = (const float[]){1e19F, 0, 0, 0}, .count = 1},
                     none = {.rows = rows_a},
                     unknown = {.collection = "a", .ids = missing, .count = 2},
                     nobody = {.collection = "nobody", .ids = ids, .count = 1},
                     three = {.rows = rows_a, .count = 3}, short_row = {.rows = rows_a, .count = 1};
    const struct {
        ea_bind_question question;
        ea_status status;
        uint32_t detail;
        const char *words;
    } cases[] = {
        {{&kept_a, &short_row, 2, .into = &into_c},
         3,
         EA_DETAIL_BAD_DIMENSION,
         "b has 2 dimensions"},
        {{&none, &sent_b, D, .into = &into_c}, 3, EA_DETAIL_BAD_SHAPE, "a: no rows"},
        {{&three, &kept_b, D, .into = &into_c}, 3, EA_DETAIL_BAD_SHAPE, "a: 3 rows"},
        {{&odd, &three, 2, .into = NULL},
         3,
         EA_DETAIL_NOT_FINITE,
         "a: row 2: column 0 is not a finite number"},
        {{&kept_a, &huge, D, .into = &into_c}, 3, EA_DETAIL_NORM_OVERFLOW, "b: "},
        {{&large, &large, D, .into = &into_c}, 3, EA_DETAIL_NORM_OVERFLOW, "0"},
        {{&unknown, &one_b, .into = &into_c}, 5, EA_DETAIL_UNKNOWN_ID, "a: there is no id 8"},
        {{&nobody, &kept_b, .into = &into_c}, 5, EA_DETAIL_UNKNOWN_COLLECTION, "nobody"},
        {{&kept_a, &kept_b, .into = &gone}, 5, EA_DETAIL_UNKNOWN_COLLECTION, "nobody"},
        {{&kept_a, &kept_b, .into = &doubled}, 3, EA_DETAIL_DUPLICATE_ID, "1"},
        {{&short_row, &short_row, 2, .into = &into_c}, 3, EA_DETAIL_BAD_DIMENSION, "c has 4"},
    };
    ea_hrr_result r = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        FAILS(ea_bind(c, &cases[i].question, &r), cases[i].status, cases[i].detail, cases[i].words);
    const uint64_t empty[] = {0, 0, 3};
    ea_list_question lists = {.a = &three, .dimension = D, .offsets = empty, .lists = 2};
    FAILS(ea_superpose(c, &lists, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS, "0");
    FAILS(ea_bind_many(c, &lists, &r), EA_INVALID_ARGUMENT, EA_DETAIL_BAD_OFFSETS, "0");
    lists =
        (ea_list_question){.a = &three, .dimension = D, .weights = (const float[]){1, 2, INFINITY}};
    FAILS(ea_superpose(c, &lists, &r), EA_INVALID_ARGUMENT, EA_DETAIL_NOT_FINITE, "weight 2");
    cr_assert_eq(version_of("c"), before, "nothing was stored");

    enum { TOO_MANY = 300 }; /* 64 KiB each */
    static uint64_t many[TOO_MANY];
    for (uint64_t i = 0; i < TOO_MANY; i++)
        many[i] = i;
    const ea_into full = {.collection = "wide", .ids = many};
    const ea_random_question past = {.count = TOO_MANY, .dimension = 16384, .into = &full};
    FAILS(ea_random(c, &past, &r), EA_RESOURCE_EXHAUSTED, EA_DETAIL_QUOTA, "quotas.host_mib");
    ea_collection_info info;
    OK(ea_collection_describe(c, "wide", &info));
    cr_assert_eq(info.rows, 0, "nothing was stored");
    end();
}
