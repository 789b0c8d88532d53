/* A collection three times as large as the card's budget: its rows stay in the host's memory, what
 * codes them goes to the card, and a kNN is answered there, with the CPU's bits. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/reference.h"

enum { D = 256, ROWS = 3 * 8192, QUERIES = 128, K = 10, CHANGED = 500, LOOKED_AT = 8 };

struct large {
    struct gpu_scene s;
    uint64_t *ids;
    float *values, *queries;
};

static void upsert(const struct large *l, uint64_t first, uint64_t count)
{
    ea_rows rows = {.collection = "large",
                    .ids = l->ids + first,
                    .rows = l->values + first * D,
                    .count = count,
                    .dimension = D};
    cr_assert_eq(ea_upsert(l->s.a, &rows, NULL), EA_OK, "%s", ea_error_text(l->s.a));
}

static void open_large(struct large *l)
{
    l->ids = malloc(ROWS * sizeof *l->ids);
    l->values = malloc((size_t)ROWS * D * sizeof *l->values);
    l->queries = malloc((size_t)QUERIES * D * sizeof *l->queries);
    reference_fill(1, l->values, (size_t)ROWS * D);
    reference_fill(2, l->queries, (size_t)QUERIES * D);
    for (uint64_t i = 0; i < ROWS; i++)
        l->ids[i] = i * 5 + 1;
    gpu_scene_open(&l->s, "vram_mib=64 strict=1",
                   (const char *[]){"gpu.memory_mib=8", "gpu.force=none", "sched.predict=false",
                                    "sched.success_percent=0", "sched.probe_percent=0",
                                    "gpu.heartbeat_ms=10000", "gpu.job_ms=60000", NULL});
    gpu_scene_await(&l->s, EA_GPU_READY);
    cr_assert_eq(ea_collection_create(l->s.a, "large", D, EA_COSINE, NULL), EA_OK);
    upsert(l, 0, ROWS);
}

static void close_large(struct large *l)
{
    free(l->ids);
    free(l->values);
    free(l->queries);
    gpu_scene_close(&l->s);
}

static ea_result ask(const struct large *l, uint64_t first, uint64_t count)
{
    ea_result r = {0};
    ea_knn_question q = {.collection = "large",
                         .queries = l->queries + first * D,
                         .query_count = count,
                         .dimension = D,
                         .k = K};
    cr_assert_eq(ea_knn(l->s.a, &q, &r), EA_OK, "%s", ea_error_text(l->s.a));
    return r;
}

/* Until it is answered by what codes the rows. */
static ea_result ask_card(const struct large *l, uint64_t first, uint64_t count)
{
    int64_t until = give_up_ms();
    ea_result r = ask(l, first, count);
    for (; r.meta->reason != EA_REASON_SHADOW_ONLY; r = ask(l, first, count)) {
        cr_assert(now_ms() < until, "%s", ea_reason_name(r.meta->reason));
        cr_assert_eq(r.meta->backend, EA_BACKEND_CPU);
        ea_result_free(&r);
        wait_ms(2);
    }
    cr_assert_eq(r.meta->backend, EA_BACKEND_GPU);
    return r;
}

static void expect_equal(const ea_result *r, const ea_result *want, uint64_t first, uint64_t count)
{
    for (uint64_t q = 0; q < count; q++)
        cr_assert_eq(r->counts[q], want->counts[first + q]);
    cr_assert_eq(memcmp(r->ids, want->ids + first * K, count * K * sizeof *r->ids), 0);
    cr_assert_eq(memcmp(r->scores, want->scores + first * K, count * K * sizeof *r->scores), 0);
}

static void expect_right(const struct large *l, const ea_result *r, uint64_t query)
{
    struct reference_rows all = {D, REFERENCE_COSINE, ROWS, l->values, l->ids};
    uint64_t ids[K];
    float scores[K];
    reference_knn(&all, l->queries + query * D, K, NULL, NULL, ids, scores);
    cr_assert_eq(memcmp(r->ids + query * K, ids, sizeof ids), 0, "query %u", (unsigned)query);
    cr_assert_eq(memcmp(r->scores + query * K, scores, sizeof scores), 0);
}

static uint64_t counted(const struct large *l, ea_backend backend, ea_reason reason)
{
    ea_stats stats;
    uint64_t found = 0;
    cr_assert_eq(ea_get_stats(l->s.a, &stats), EA_OK);
    for (uint32_t i = 0; i < stats.route_count; i++)
        if (stats.routes[i].backend == backend && stats.routes[i].reason == reason)
            found = stats.routes[i].requests;
    return found;
}

/* What reads the rows themselves is the CPU's. */
static void expect_scores_on_cpu(const struct large *l)
{
    static const float threshold = 0.2f;
    ea_result r = {0};
    ea_similarity_question q = {.collection = "large",
                                .queries = l->queries,
                                .query_count = 2,
                                .dimension = D,
                                .threshold = &threshold};
    cr_assert_eq(ea_similarity(l->s.a, &q, &r), EA_OK, "%s", ea_error_text(l->s.a));
    cr_assert_eq(r.meta->backend, EA_BACKEND_CPU);
    cr_assert_eq(r.meta->reason, EA_REASON_VRAM_PRESSURE, "%s", ea_reason_name(r.meta->reason));
    ea_result_free(&r);
}

Test(gpu_shadow_only, three_times_the_budget, .timeout = 900)
{
    struct large l;
    open_large(&l);
    ea_result cpu = ask(&l, 0, QUERIES);
    cr_assert_eq(cpu.meta->backend, EA_BACKEND_CPU, "there is no replica yet");
    ea_result many = ask_card(&l, 0, QUERIES), one = ask_card(&l, 77, 1);
    expect_equal(&many, &cpu, 0, QUERIES);
    expect_equal(&one, &cpu, 77, 1);
    for (uint64_t q = 0; q < LOOKED_AT; q++)
        expect_right(&l, &many, q * 16);
    cr_assert_geq(counted(&l, EA_BACKEND_GPU, EA_REASON_SHADOW_ONLY), 2);
    expect_scores_on_cpu(&l);
    ea_result_free(&one);
    ea_result_free(&many);
    ea_result_free(&cpu);

    reference_fill(3, l.values + (size_t)5000 * D, CHANGED * D); /* others, in the midst of it */
    upsert(&l, 5000, CHANGED);
    memcpy(l.queries, l.values + (size_t)5100 * D, D * sizeof(float));
    many = ask_card(&l, 0, QUERIES);
    for (uint64_t q = 0; q < LOOKED_AT; q++)
        expect_right(&l, &many, q);
    cr_assert_eq(many.ids[0], l.ids[5100]);
    ea_result_free(&many);
    cr_assert_eq(gpu_scene_stats(l.s.a).restarts, 0);
    close_large(&l);
}

/* The card's process ends while requests are under way: none is lost. */
Test(gpu_shadow_only, the_process_is_killed, .timeout = 900)
{
    struct large l;
    open_large(&l);
    ea_result first = ask_card(&l, 0, 4);
    for (int i = 0; i < 3; i++) {
        pid_t gpu = gpu_process_of(l.s.daemon.pid);
        if (gpu) kill(gpu, SIGKILL);
        ea_result r = ask(&l, 0, 4);
        expect_equal(&r, &first, 0, 4);
        ea_result_free(&r);
    }
    ea_result again = ask_card(&l, 0, 4);
    expect_equal(&again, &first, 0, 4);
    ea_result_free(&again);
    ea_result_free(&first);
    close_large(&l);
}

/* ---------------------------------------------------------------- rivals */

enum { RIVALS = 4, RIVAL_ROWS = 4000, STILL = 30 };

/* Four collections of 4 MB each, of which the budget has room for one; and for the codes of all. */
struct rivals {
    struct gpu_scene s;
    float *values, queries[D];
    uint64_t ids[RIVAL_ROWS];
    ea_result want[RIVALS];
};

static const char *rival_name(int i)
{
    static const char *const names[RIVALS] = {"one", "two", "three", "four"};
    return names[i];
}

static ea_result ask_rival(const struct rivals *r, int i)
{
    ea_result got = {0};
    ea_knn_question q = {.collection = rival_name(i),
                         .queries = r->queries,
                         .query_count = 1,
                         .dimension = D,
                         .k = K};
    cr_assert_eq(ea_knn(r->s.a, &q, &got), EA_OK, "%s", ea_error_text(r->s.a));
    return got;
}

static void open_rivals(struct rivals *r)
{
    r->values = malloc((size_t)RIVAL_ROWS * D * sizeof *r->values);
    gpu_scene_open(&r->s, "vram_mib=64 strict=1",
                   (const char *[]){"gpu.memory_mib=8", "gpu.force=none", "sched.predict=false",
                                    "sched.success_percent=0", "sched.probe_percent=0",
                                    "gpu.heartbeat_ms=10000", "gpu.job_ms=60000", NULL});
    gpu_scene_await(&r->s, EA_GPU_READY);
    reference_fill(99, r->queries, D);
    for (int i = 0; i < RIVALS; i++) {
        reference_fill(10 + (uint64_t)i, r->values, (size_t)RIVAL_ROWS * D);
        for (uint64_t n = 0; n < RIVAL_ROWS; n++)
            r->ids[n] = n * 7 + (uint64_t)i;
        cr_assert_eq(ea_collection_create(r->s.a, rival_name(i), D, EA_COSINE, NULL), EA_OK);
        ea_rows rows = {.collection = rival_name(i),
                        .ids = r->ids,
                        .rows = r->values,
                        .count = RIVAL_ROWS,
                        .dimension = D};
        cr_assert_eq(ea_upsert(r->s.a, &rows, NULL), EA_OK);
        r->want[i] = ask_rival(r, i);
        cr_assert_eq(r->want[i].meta->backend, EA_BACKEND_CPU, "there is no replica yet");
        struct reference_rows all = {D, REFERENCE_COSINE, RIVAL_ROWS, r->values, r->ids};
        uint64_t ids[K];
        float scores[K];
        reference_knn(&all, r->queries, K, NULL, NULL, ids, scores);
        cr_assert_eq(memcmp(r->want[i].ids, ids, sizeof ids), 0);
        cr_assert_eq(memcmp(r->want[i].scores, scores, sizeof scores), 0);
    }
}

static void close_rivals(struct rivals *r)
{
    for (int i = 0; i < RIVALS; i++)
        ea_result_free(&r->want[i]);
    free(r->values);
    gpu_scene_close(&r->s);
}

/* Asks each once. Returns how many a card answered, *alone of them from codes alone. */
static int ask_all(const struct rivals *r, int *alone)
{
    int on_card = 0;
    *alone = 0;
    for (int i = 0; i < RIVALS; i++) {
        ea_result got = ask_rival(r, i);
        cr_assert_eq(memcmp(got.ids, r->want[i].ids, K * sizeof *got.ids), 0);
        cr_assert_eq(memcmp(got.scores, r->want[i].scores, K * sizeof *got.scores), 0);
        on_card += got.meta->backend == EA_BACKEND_GPU;
        *alone += got.meta->reason == EA_REASON_SHADOW_ONLY;
        ea_result_free(&got);
    }
    return on_card;
}

/* Round and round: what would cost others their rows has its codes alone there, and nothing is
 * uploaded any more. */
Test(gpu_shadow_only, rivals_do_not_evict_each_other, .timeout = 900)
{
    static struct rivals r;
    int64_t until = give_up_ms();
    uint64_t uploads = UINT64_MAX;
    int alone = 0;
    open_rivals(&r);
    for (int still = 0; still < STILL; still++) {
        bool all = ask_all(&r, &alone) == RIVALS;
        ea_gpu_stats g = gpu_scene_stats(r.s.a);
        cr_assert(now_ms() < until, "%llu uploads, %llu evictions", (unsigned long long)g.uploads,
                  (unsigned long long)g.evictions);
        cr_assert_leq(g.replica_bytes, 8u << 20);
        if (!all || g.uploads != uploads) still = 0;
        if (!all) wait_ms(2);
        uploads = g.uploads;
    }
    cr_assert_geq(alone, RIVALS - 1);
    ea_explanation e;
    cr_assert_eq(ea_explain(r.s.a, RIVALS, &e), EA_OK);
    int told = 0;
    for (uint32_t i = 0; i < e.decision_count; i++)
        told += e.decisions[i].reason == EA_REASON_SHADOW_ONLY;
    cr_assert_eq(told, alone);
    close_rivals(&r);
}

/* One of them is asked for all its scores: those are the card's, too, once it has the rows. */
Test(gpu_shadow_only, a_rival_that_needs_rows_gets_them, .timeout = 900)
{
    static struct rivals r;
    static const float threshold = 0.2f;
    int64_t until = give_up_ms();
    int alone = 0;
    open_rivals(&r);
    while (ask_all(&r, &alone) < RIVALS || alone < RIVALS - 1) {
        cr_assert(now_ms() < until);
        wait_ms(2);
    }
    for (int i = RIVALS - 2; i < RIVALS; i++) {
        ea_similarity_question q = {.collection = rival_name(i),
                                    .queries = r.queries,
                                    .query_count = 1,
                                    .dimension = D,
                                    .threshold = &threshold};
        for (bool on_card = false; !on_card;) {
            ea_result got = {0};
            cr_assert_eq(ea_similarity(r.s.a, &q, &got), EA_OK, "%s", ea_error_text(r.s.a));
            on_card = got.meta->backend == EA_BACKEND_GPU;
            cr_assert(now_ms() < until, "%s", ea_reason_name(got.meta->reason));
            ea_result_free(&got);
            if (!on_card) wait_ms(2);
        }
    }
    ask_all(&r, &alone);
    close_rivals(&r);
}
