/* Holographic operations on a GPU: one that is forced to answer them gives the CPU's bits, and what
 * is wrong with them has the CPU's words. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_pair.h"
#include "tests/support/reference.h"

enum { ROWS = 40, MANY = 1200, D_MAX = 1024 };

static float rows_a[MANY * D_MAX], rows_b[MANY * D_MAX];
static uint64_t ids_a[MANY], ids_b[MANY], into[MANY];

/* "a" and "b" with ROWS rows each, whose ids repeat in the lists, and "c" without any. */
static void make(struct gpu_pair *p, uint32_t d)
{
    static const char *const names[] = {"a", "b", "c"};
    reference_fill(d + 1, rows_a, (size_t)MANY * d);
    reference_fill(d + 2, rows_b, (size_t)MANY * d);
    for (uint64_t i = 0; i < MANY; i++) {
        ids_a[i] = i * 17 % ROWS + 5;
        ids_b[i] = i * 23 % ROWS * 1000;
        into[i] = i * 3;
    }
    for (int k = 0; k < 2; k++) {
        uint64_t ids[2][ROWS];
        for (uint64_t i = 0; i < ROWS; i++)
            ids[0][i] = i + 5, ids[1][i] = i * 1000;
        for (int i = 0; i < 3; i++)
            cr_assert_eq(ea_collection_create(gpu_pair_of(p, k), names[i], d, EA_COSINE, NULL),
                         EA_OK);
        for (int i = 0; i < 2; i++) {
            ea_rows rows = {.collection = names[i],
                            .ids = ids[i],
                            .rows = i ? rows_b : rows_a,
                            .count = ROWS,
                            .dimension = d};
            cr_assert_eq(ea_upsert(gpu_pair_of(p, k), &rows, NULL), EA_OK);
        }
    }
}

static void drop(struct gpu_pair *p)
{
    static const char *const names[] = {"a", "b", "c"};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 3; i++)
            cr_assert_eq(ea_collection_drop(gpu_pair_of(p, k), names[i]), EA_OK);
}

static ea_status ask(ea_client *c, bool unbind, const ea_bind_question *q, ea_hrr_result *out)
{
    return unbind ? ea_unbind(c, q, out) : ea_bind(c, q, out);
}

/* Both say the same. */
static void expect_same(struct gpu_pair *p, bool unbind, const ea_bind_question *q,
                        ea_backend backend)
{
    ea_hrr_result got = {0}, want = {0};
    ea_status a = ask(p->gpu.a, unbind, q, &got), b = ask(p->cpu.a, unbind, q, &want);
    cr_assert_eq(a, b, "%s, not %s", ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
    if (a) {
        cr_assert_str_eq(ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
        cr_assert_eq(ea_error_detail(p->gpu.a), ea_error_detail(p->cpu.a));
        return;
    }
    cr_assert_eq(got.meta->backend, backend, "%s", ea_reason_name(got.meta->reason));
    cr_assert(got.rows == want.rows && got.columns == want.columns);
    cr_assert_eq(memcmp(got.vectors, want.vectors, got.rows * got.columns * sizeof(float)), 0);
    cr_assert(got.inserted == want.inserted && got.replaced == want.replaced &&
              got.into_rows == want.into_rows);
    cr_assert(!got.a_version == !want.a_version && !got.b_version == !want.b_version &&
              !got.into_version == !want.into_version);
    ea_hrr_result_free(&got);
    ea_hrr_result_free(&want);
}

static const ea_operand sent_a = {.rows = rows_a, .count = MANY},
                        sent_b = {.rows = rows_b, .count = MANY},
                        one_sent = {.rows = rows_b, .count = 1},
                        kept_a = {.collection = "a", .ids = ids_a, .count = MANY},
                        kept_b = {.collection = "b", .ids = ids_b, .count = MANY},
                        one_kept = {.collection = "b", .ids = ids_b + 2, .count = 1};

static const struct {
    const ea_operand *a, *b;
} asked[] = {{&sent_a, &sent_b},    {&sent_a, &one_sent}, {&one_kept, &sent_a},
             {&kept_a, &kept_b},    {&kept_a, &kept_a},   {&kept_a, &sent_b},
             {&sent_a, &kept_b},    {&kept_a, &one_kept}, {&one_sent, &kept_b},
             {&one_kept, &one_sent}};
enum { ASKED = sizeof asked / sizeof *asked };

Test(gpu_hrr, pairs_as_the_cpu, .timeout = 900)
{
    static const uint32_t dimensions[] = {1, 7, 64, 100, 769, 1024};
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        uint32_t d = dimensions[i];
        make(&p, d);
        for (int way = 0; way < ASKED; way++)
            for (int form = 0; form < 4; form++) {
                ea_bind_question q = {
                    .a = asked[way].a, .b = asked[way].b, .dimension = d, .normalize = form & 1};
                expect_same(&p, form & 2, &q, EA_BACKEND_GPU);
            }
        drop(&p);
    }
    gpu_pair_close_unharmed(&p);
}

static void expect_stored(struct gpu_pair *p, const char *name, uint64_t count)
{
    ea_result got = {0}, want = {0};
    cr_assert_eq(ea_fetch(p->gpu.a, name, into, count, &got), EA_OK);
    cr_assert_eq(ea_fetch(p->cpu.a, name, into, count, &want), EA_OK);
    cr_assert(got.rows == want.rows && got.missing == want.missing);
    cr_assert_eq(memcmp(got.vectors, want.vectors, got.rows * got.columns * sizeof(float)), 0);
    ea_result_free(&got);
    ea_result_free(&want);
}

/* Results are stored, are read by the next bind, and replace what it read. */
Test(gpu_hrr, into_collections, .timeout = 900)
{
    const ea_into into_c = {.collection = "c", .ids = into},
                  into_a = {.collection = "a", .ids = ids_a};
    const ea_operand kept_c = {.collection = "c", .ids = into, .count = ROWS};
    const ea_operand some_a = {.collection = "a", .ids = ids_a, .count = ROWS};
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    make(&p, 96);
    for (int i = 0; i < 6; i++) {
        ea_bind_question q = {.a = &kept_a, .b = &kept_b, .normalize = i % 2, .into = &into_c};
        expect_same(&p, false, &q, EA_BACKEND_GPU);
        q = (ea_bind_question){.a = &sent_a, .b = &sent_b, .dimension = 96, .into = &into_c};
        if (i == 3) expect_same(&p, true, &q, EA_BACKEND_GPU);
        expect_stored(&p, "c", MANY);
        q = (ea_bind_question){.a = &some_a, .b = &kept_c, .normalize = true, .into = &into_a};
        expect_same(&p, i % 2, &q, EA_BACKEND_GPU);
        q = (ea_bind_question){.a = &kept_a, .b = &kept_a};
        expect_same(&p, false, &q, EA_BACKEND_GPU);
    }
    drop(&p);
    gpu_scene_await_empty(&p.gpu);
    gpu_pair_close_unharmed(&p);
}

/* ---- sums of lists ---- */

typedef ea_status list_call(ea_client *c, const ea_list_question *q, ea_hrr_result *out);

static void expect_same_lists(struct gpu_pair *p, list_call *ask_list, const ea_list_question *q,
                              ea_backend backend)
{
    ea_hrr_result got = {0}, want = {0};
    ea_status a = ask_list(p->gpu.a, q, &got), b = ask_list(p->cpu.a, q, &want);
    cr_assert_eq(a, b, "%s, not %s", ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
    if (a) {
        cr_assert_str_eq(ea_error_text(p->gpu.a), ea_error_text(p->cpu.a));
        return;
    }
    cr_assert_eq(got.meta->backend, backend, "%s", ea_reason_name(got.meta->reason));
    cr_assert(got.rows == want.rows && got.columns == want.columns &&
              got.inserted == want.inserted && got.replaced == want.replaced);
    cr_assert_eq(memcmp(got.vectors, want.vectors, got.rows * got.columns * sizeof(float)), 0);
    ea_hrr_result_free(&got);
    ea_hrr_result_free(&want);
}

static void expect_same_sums(struct gpu_pair *p, const ea_list_question *q, ea_backend backend)
{
    expect_same_lists(p, ea_superpose, q, backend);
}

static float weights[MANY];
static const uint64_t offsets[] = {0, 1, 3, 260, 261, 900, MANY};
enum { LISTS = sizeof offsets / sizeof *offsets - 1 };

Test(gpu_hrr, sums_as_the_cpu, .timeout = 900)
{
    static const uint32_t dimensions[] = {1, 33, 64, 1024};
    const ea_into into_c = {.collection = "c", .ids = into};
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    reference_fill(9, weights, MANY);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        make(&p, dimensions[i]);
        for (int way = 0; way < 32; way++) {
            ea_list_question q = {.a = way & 1 ? &sent_a : &kept_a,
                                  .dimension = dimensions[i],
                                  .offsets = way & 2 ? offsets : NULL,
                                  .lists = way & 2 ? LISTS : 1,
                                  .weights = way & 4 ? weights : NULL,
                                  .normalize = way & 8,
                                  .into = way & 16 ? &into_c : NULL};
            expect_same_sums(&p, &q, EA_BACKEND_GPU);
            if (way & 16) expect_stored(&p, "c", LISTS);
        }
        drop(&p);
    }
    gpu_pair_close_unharmed(&p);
}

/* Lists of up to 100 rows; one of more is the CPU's. */
Test(gpu_hrr, products_as_the_cpu, .timeout = 900)
{
    static const uint32_t dimensions[] = {1, 33, 64, 1000};
    static const uint64_t lists[] = {0, 1, 3, 103, 104, 120, MANY};
    static uint64_t many[MANY / 3 + 1];
    const ea_into into_c = {.collection = "c", .ids = into};
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    for (uint64_t i = 0; i <= MANY / 3; i++)
        many[i] = i * 3;
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        make(&p, dimensions[i]);
        for (int way = 0; way < 8; way++) {
            ea_list_question q = {.a = way & 1 ? &sent_a : &kept_a,
                                  .dimension = dimensions[i],
                                  .offsets = many,
                                  .lists = MANY / 3,
                                  .normalize = way & 2,
                                  .into = way & 4 ? &into_c : NULL};
            expect_same_lists(&p, ea_bind_many, &q, EA_BACKEND_GPU);
            if (way & 4) expect_stored(&p, "c", MANY / 3);
        }
        ea_list_question q = {
            .a = &kept_a, .dimension = dimensions[i], .offsets = lists, .lists = 6};
        expect_same_lists(&p, ea_bind_many, &q, EA_BACKEND_CPU);
        drop(&p);
    }
    gpu_pair_close_unharmed(&p);
}

Test(gpu_hrr, bad_sums_have_the_cpus_words, .timeout = 900)
{
    enum { D = 64 };
    static uint64_t unknown[MANY], falling[LISTS + 1];
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    make(&p, D);
    for (int i = 0; i < MANY; i++)
        weights[i] = 1;
    memcpy(unknown, ids_a, sizeof unknown);
    memcpy(falling, offsets, sizeof falling);
    unknown[700] = 3;
    falling[2] = falling[1];
    const ea_operand lost = {.collection = "a", .ids = unknown, .count = MANY};
    ea_list_question q = {
        .a = &lost, .dimension = D, .offsets = offsets, .lists = LISTS, .weights = weights};
    expect_same_sums(&p, &q, EA_BACKEND_GPU);
    q.a = &sent_a;
    rows_a[900 * D + 5] = NAN;
    expect_same_sums(&p, &q, EA_BACKEND_GPU);
    rows_a[900 * D + 5] = 1;
    weights[800] = INFINITY;
    expect_same_sums(&p, &q, EA_BACKEND_GPU);
    weights[800] = 3e38f; /* times 1, it has no norm */
    expect_same_sums(&p, &q, EA_BACKEND_GPU);
    weights[800] = 1;
    q.offsets = falling;
    expect_same_sums(&p, &q, EA_BACKEND_GPU);
    drop(&p);
    gpu_pair_close_unharmed(&p);
}

/* By division, also where there is no inverse, or no spectrum. */
Test(gpu_hrr, exact_inverses_as_the_cpu, .timeout = 900)
{
    static const uint32_t dimensions[] = {4, 96, 1000, 1024, 100, 7};
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        uint32_t d = dimensions[i];
        make(&p, d);
        for (int way = 0; way < ASKED; way++) {
            ea_bind_question q = {.a = asked[way].a,
                                  .b = asked[way].b,
                                  .dimension = d,
                                  .exact = true,
                                  .normalize = way & 1};
            expect_same(&p, true, &q, EA_BACKEND_GPU);
        }
        ea_bind_question q = {.a = &sent_a, .b = &sent_b, .dimension = d, .exact = true};
        for (uint32_t n = 0; n < d; n++) /* all of its spectrum but the mean is zero */
            rows_b[(size_t)333 * d + n] = 1;
        expect_same(&p, true, &q, EA_BACKEND_GPU);
        memset(rows_b + (size_t)222 * d, 0, d * sizeof *rows_b);
        expect_same(&p, true, &q, EA_BACKEND_GPU);
        drop(&p);
    }
    gpu_pair_close_unharmed(&p);
}

/* Spectra that no block of a card can hold both of, and what never fits its memory. */
Test(gpu_hrr, long_rows_and_little_memory, .timeout = 900)
{
    enum { LONG = 16383 };
    struct gpu_pair p;
    if (gpu_scene_is_real()) cr_skip_test("SKIP a real card's memory is larger than any request");
    gpu_pair_open(&p, "vram_mib=16");
    make(&p, 512);
    ea_bind_question q = {.a = &sent_a, .b = &sent_b, .dimension = 512};
    expect_same(&p, false, &q, EA_BACKEND_CPU); /* 5 MiB, of 2 for requests */
    const ea_operand few_a = {.rows = rows_a, .count = 3}, few_b = {.rows = rows_b, .count = 3};
    q = (ea_bind_question){.a = &few_a, .b = &few_b, .dimension = LONG};
    expect_same(&p, false, &q, EA_BACKEND_GPU);
    q.dimension = 12289;
    expect_same(&p, true, &q, EA_BACKEND_GPU);
    q.dimension = 16384;
    expect_same(&p, true, &q, EA_BACKEND_GPU);
    drop(&p);
    gpu_pair_close_unharmed(&p);
}

/* What is wrong, and where, in the words of the CPU; nothing is stored. */
Test(gpu_hrr, bad_input_has_the_cpus_words, .timeout = 900)
{
    enum { D = 64 };
    static uint64_t unknown[MANY];
    const ea_into into_c = {.collection = "c", .ids = into};
    struct gpu_pair p;
    gpu_pair_open(&p, NULL);
    make(&p, D);
    memcpy(unknown, ids_a, sizeof unknown);
    unknown[700] = 3;
    const ea_operand lost = {.collection = "a", .ids = unknown, .count = MANY};
    for (int stored = 0; stored < 2; stored++) {
        const ea_into *where = stored ? &into_c : NULL;
        ea_bind_question q = {.a = &lost, .b = &kept_b, .into = where};
        expect_same(&p, false, &q, EA_BACKEND_GPU);
        q = (ea_bind_question){.a = &sent_a, .b = &sent_b, .dimension = D, .into = where};
        rows_b[900 * D + 5] = NAN;
        expect_same(&p, false, &q, EA_BACKEND_GPU);
        rows_a[1100 * D + 63] = INFINITY;
        rows_a[800 * D] = 3e38f; /* its norm */
        expect_same(&p, false, &q, EA_BACKEND_GPU);
        rows_b[900 * D + 5] = rows_a[1100 * D + 63] = rows_a[800 * D] = 1;
        for (uint32_t i = 0; i < D; i++) { /* finite norms, and not their product */
            rows_a[600 * D + i] = 1e18f;
            rows_b[600 * D + i] = 1e20f;
        }
        expect_same(&p, true, &q, EA_BACKEND_GPU);
        for (uint32_t i = 0; i < D; i++)
            rows_b[600 * D + i] = 1e18f;
        q.normalize = true; /* only the result's norm is not finite */
        expect_same(&p, false, &q, EA_BACKEND_GPU);
        for (uint32_t i = 0; i < D; i++)
            rows_b[600 * D + i] = 1;
        q = (ea_bind_question){.a = &kept_a, .b = &sent_b, .dimension = D + 1, .into = where};
        expect_same(&p, false, &q, EA_BACKEND_GPU);
        expect_stored(&p, "c", MANY);
    }
    drop(&p);
    gpu_pair_close_unharmed(&p);
}

/* Two collections that are larger than the card together: bits are right whoever answers. */
Test(gpu_hrr, replicas_that_do_not_fit_together, .timeout = 900)
{
    struct gpu_scene s;
    enum { D = 1024, LARGE = 1000 };
    static uint64_t ids[LARGE];
    ea_hrr_result first = {0}, r = {0};
    if (gpu_scene_is_real()) cr_skip_test("SKIP a real card's memory is larger");
    gpu_scene_open(&s, "vram_mib=10", (const char *[]){"gpu.heartbeat_ms=10000", NULL});
    gpu_scene_await(&s, EA_GPU_READY);
    reference_fill(1, rows_a, (size_t)MANY * D);
    for (uint64_t i = 0; i < LARGE; i++)
        ids[i] = i;
    for (int i = 0; i < 2; i++) {
        ea_rows rows = {.collection = i ? "b" : "a",
                        .ids = ids,
                        .rows = rows_a,
                        .count = LARGE,
                        .dimension = D};
        cr_assert_eq(ea_collection_create(s.a, rows.collection, D, EA_COSINE, NULL), EA_OK);
        cr_assert_eq(ea_upsert(s.a, &rows, NULL), EA_OK);
    }
    const ea_operand a = {.collection = "a", .ids = ids, .count = 50};
    const ea_operand b = {.collection = "b", .ids = ids + 100, .count = 50};
    for (int i = 0; i < 20; i++) {
        ea_bind_question q = {.a = &a, .b = i % 4 ? &b : &a};
        cr_assert_eq(ea_bind(s.a, &q, i == 1 ? &first : &r), EA_OK, "%s", ea_error_text(s.a));
        if (i > 1 && i % 4)
            cr_assert_eq(memcmp(r.vectors, first.vectors, r.rows * r.columns * sizeof(float)), 0);
    }
    ea_hrr_result_free(&first);
    ea_hrr_result_free(&r);
    gpu_scene_close(&s);
}

/* Of several cards, one gets what is bound to each other. */
Test(gpu_hrr, on_one_of_several_cards, .timeout = 900)
{
    enum { CARDS = 3, D = 128 };
    struct gpu_pair p;
    if (gpu_scene_is_real()) cr_skip_test("SKIP there may be one card only");
    gpu_scene_open(&p.gpu, NULL,
                   (const char *[]){"gpu.devices=sim,sim,sim", "gpu.heartbeat_ms=10000", NULL});
    gpu_scene_open(&p.cpu, NULL, (const char *[]){"gpu.devices=none", NULL});
    static ea_info info;
    int64_t until = give_up_ms();
    for (uint32_t ready = 0; ready < CARDS;) {
        cr_assert_eq(ea_get_info(p.gpu.a, &info), EA_OK);
        ready = 0;
        for (uint32_t i = 0; i < info.gpu_count; i++)
            ready += info.gpus[i].state == EA_GPU_READY;
        cr_assert(now_ms() < until, "the cards do not start");
    }
    make(&p, D);
    for (int i = 0; i < 5; i++) {
        ea_bind_question q = {.a = &kept_a, .b = &kept_b};
        expect_same(&p, false, &q, EA_BACKEND_GPU);
    }
    gpu_scene_close(&p.gpu);
    gpu_scene_close(&p.cpu);
}
