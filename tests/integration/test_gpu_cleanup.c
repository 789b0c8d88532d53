/* Cleanups on a GPU: one that is forced to answer them gives the CPU's bits, and what is wrong with
 * them has the CPU's words. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_pair.h"
#include "tests/support/reference.h"

enum { ROWS = 300, MANY = 1000, D_MAX = 1024 };

static float rows_a[MANY * D_MAX], rows_b[MANY * D_MAX];
static uint64_t ids_a[MANY], ids_b[MANY];

static const char *const names[] = {"things", "facts", "roles"};

/* A codebook and two collections of operands, whose ids repeat in the lists. */
static void make(struct gpu_pair *p, uint32_t d, ea_metric metric)
{
    reference_fill(d + 1, rows_a, (size_t)MANY * d);
    reference_fill(d + 2, rows_b, (size_t)MANY * d);
    for (uint64_t i = 0; i < MANY; i++) {
        ids_a[i] = i * 17 % ROWS;
        ids_b[i] = i * 23 % ROWS;
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 3; i++) {
            uint64_t ids[ROWS];
            for (uint64_t n = 0; n < ROWS; n++)
                ids[n] = n;
            ea_rows rows = {.collection = names[i],
                            .ids = ids,
                            .rows = i ? rows_b + (size_t)i * d : rows_a,
                            .count = ROWS,
                            .dimension = d};
            cr_assert_eq(
                ea_collection_create(gpu_pair_of(p, k), names[i], d, i ? EA_COSINE : metric, NULL),
                EA_OK);
            cr_assert_eq(ea_upsert(gpu_pair_of(p, k), &rows, NULL), EA_OK);
        }
}

static void drop(struct gpu_pair *p)
{
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 3; i++)
            cr_assert_eq(ea_collection_drop(gpu_pair_of(p, k), names[i]), EA_OK);
}

static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

/* Both say the same. */
static void expect_same(struct gpu_pair *p, const ea_cleanup_question *q, ea_backend backend)
{
    ea_result got = {0}, want = {0};
    ea_status a = ea_cleanup(p->gpu.a, q, &got), b = ea_cleanup(p->cpu.a, q, &want);
    cr_assert_eq(a, b, "%s, not %s", ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
    if (a) {
        cr_assert_str_eq(ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
        cr_assert_eq(ea_error_detail(p->gpu.a), ea_error_detail(p->cpu.a));
        return;
    }
    cr_assert_eq(got.meta->backend, backend, "%s", ea_reason_name(got.meta->reason));
    cr_assert(got.rows == want.rows && got.columns == want.columns);
    cr_assert(same_bytes(got.counts, want.counts, got.rows * sizeof *got.counts));
    cr_assert(same_bytes(got.ids, want.ids, got.rows * got.columns * sizeof *got.ids));
    cr_assert(same_bytes(got.scores, want.scores, got.rows * got.columns * sizeof *got.scores));
    cr_assert(!got.meta->version == !want.meta->version && !got.a_version == !want.a_version &&
              !got.b_version == !want.b_version);
    ea_result_free(&got);
    ea_result_free(&want);
}

static const ea_operand sent_a = {.rows = rows_a, .count = MANY},
                        sent_b = {.rows = rows_b, .count = MANY},
                        one_sent = {.rows = rows_b, .count = 1},
                        kept_a = {.collection = "facts", .ids = ids_a, .count = MANY},
                        kept_b = {.collection = "roles", .ids = ids_b, .count = MANY},
                        coded = {.collection = "things", .ids = ids_b, .count = MANY},
                        one_kept = {.collection = "roles", .ids = ids_b + 2, .count = 1};

static const struct {
    const ea_operand *a, *b;
} asked[] = {{&sent_a, &sent_b}, {&sent_a, &one_sent}, {&one_kept, &sent_a},
             {&kept_a, &kept_b}, {&kept_a, &kept_a},   {&kept_a, &sent_b},
             {&sent_a, &kept_b}, {&kept_a, &one_kept}, {&coded, &kept_b},
             {&kept_a, &coded},  {&coded, &coded},     {&one_kept, &one_sent}};
enum { ASKED = sizeof asked / sizeof *asked };

Test(gpu_cleanup, as_the_cpu, .timeout = 900)
{
    static const uint32_t dimensions[] = {7, 64, 769, 1024};
    static const float threshold = 0.05f;
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        uint32_t d = dimensions[i];
        make(&p, d, i % 3 == 0 ? EA_COSINE : i % 3 == 1 ? EA_DOT : EA_SQUARED_EUCLIDEAN);
        for (int way = 0; way < ASKED; way++)
            for (uint32_t k = 1; k <= 2 * ROWS; k += 2 * ROWS - 1) {
                ea_cleanup_question q = {.a = asked[way].a,
                                         .b = asked[way].b,
                                         .dimension = d,
                                         .codebook = "things",
                                         .k = k,
                                         .threshold = way % 2 ? &threshold : NULL};
                expect_same(&p, &q, EA_BACKEND_GPU);
            }
        drop(&p);
    }
    gpu_pair_close_unharmed(&p);
}

/* What is wrong, and where, in the words of the CPU. */
Test(gpu_cleanup, bad_input_has_the_cpus_words, .timeout = 900)
{
    enum { D = 64 };
    static uint64_t unknown[MANY];
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    make(&p, D, EA_COSINE);
    memcpy(unknown, ids_a, sizeof unknown);
    unknown[700] = 99999;
    const ea_operand lost = {.collection = "facts", .ids = unknown, .count = MANY};
    ea_cleanup_question q = {
        .a = &lost, .b = &kept_b, .dimension = D, .codebook = "things", .k = 3};
    expect_same(&p, &q, EA_BACKEND_GPU);
    q.a = &sent_a, q.b = &sent_b;
    rows_b[900 * D + 5] = NAN;
    expect_same(&p, &q, EA_BACKEND_GPU);
    rows_b[900 * D + 5] = 1;
    for (uint32_t i = 0; i < D; i++) { /* finite norms, and not that of what is unbound */
        rows_a[600 * D + i] = 2e18f;
        rows_b[600 * D + i] = 2e18f;
    }
    expect_same(&p, &q, EA_BACKEND_GPU);
    for (uint32_t i = 0; i < D; i++)
        rows_b[600 * D + i] = 1;
    q.dimension = D + 1;
    expect_same(&p, &q, EA_BACKEND_GPU);
    q.dimension = D, q.codebook = "nothing";
    expect_same(&p, &q, EA_BACKEND_GPU);
    drop(&p);
    gpu_pair_close_unharmed(&p);
}

/* A write to each of the three between questions is seen by the next. */
Test(gpu_cleanup, reads_what_was_written, .timeout = 900)
{
    enum { D = 96 };
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    make(&p, D, EA_COSINE);
    ea_cleanup_question q = {
        .a = &kept_a, .b = &kept_b, .dimension = D, .codebook = "things", .k = 4};
    for (uint64_t i = 0; i < 30; i++) {
        uint64_t id = i % ROWS;
        ea_rows row = {.collection = names[i % 3],
                       .ids = &id,
                       .rows = rows_b + i * D * 7,
                       .count = 1,
                       .dimension = D};
        for (int k = 0; k < 2; k++)
            cr_assert_eq(ea_upsert(gpu_pair_of(&p, k), &row, NULL), EA_OK);
        expect_same(&p, &q, EA_BACKEND_GPU);
    }
    drop(&p);
    gpu_scene_await_empty(&p.gpu);
    gpu_pair_close_unharmed(&p);
}
