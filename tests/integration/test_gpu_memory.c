/* Less VRAM than there are rows, and whose bytes are in it: collections larger than the device,
 * many spaces that do not fit together, two that evict each other, and what another space sees of
 * all that: nothing. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/reference.h"

enum { D = 512, K = 5 };

/* So that a process which was killed is one that failed. */
#define PATIENT "gpu.heartbeat_ms=10000", "gpu.job_ms=10000"

struct rows {
    ea_client *c;
    char name[32];
    uint64_t count, *ids;
    float *values, query[D];
    uint64_t want_ids[K];
    float want[K];
    uint64_t on_gpu;
};

static void rows_make(struct rows *r, ea_client *c, const char *name, uint64_t count, uint64_t seed)
{
    memset(r, 0, sizeof *r);
    r->c = c;
    r->count = count;
    snprintf(r->name, sizeof r->name, "%s", name);
    r->values = malloc(count * D * sizeof *r->values);
    r->ids = malloc(count * sizeof *r->ids);
    reference_fill(seed, r->values, count * D);
    reference_fill(seed + 1000, r->query, D);
    for (uint64_t i = 0; i < count; i++)
        r->ids[i] = i * 3 + seed;
    struct reference_rows all = {D, REFERENCE_COSINE, count, r->values, r->ids};
    reference_knn(&all, r->query, K, NULL, NULL, r->want_ids, r->want);
    cr_assert_eq(ea_collection_create(c, name, D, EA_COSINE, NULL), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(ea_upsert(c,
                           &(ea_rows){.collection = name,
                                      .ids = r->ids,
                                      .rows = r->values,
                                      .count = count,
                                      .dimension = D},
                           NULL),
                 EA_OK, "%s", ea_error_text(c));
}

static void rows_free(struct rows *r)
{
    free(r->values);
    free(r->ids);
}

static void rows_ask(struct rows *r)
{
    ea_result result = {0};
    cr_assert_eq(ea_knn(r->c,
                        &(ea_knn_question){.collection = r->name,
                                           .queries = r->query,
                                           .query_count = 1,
                                           .dimension = D,
                                           .k = K},
                        &result),
                 EA_OK, "%s", ea_error_text(r->c));
    cr_assert_eq(result.counts[0], K);
    cr_assert_eq(memcmp(result.ids, r->want_ids, sizeof r->want_ids), 0, "%s", r->name);
    cr_assert_eq(memcmp(result.scores, r->want, sizeof r->want), 0, "%s", r->name);
    r->on_gpu += result.meta->backend == EA_BACKEND_GPU;
    ea_result_free(&result);
}

/* ---------------------------------------------------------------- not enough */

Test(gpu_memory, however_little_there_is, .timeout = 900)
{
    static const char *const kinds[] = {"", "vmm=0", "managed=0", "vmm=0 granularity_kib=4"};
    static struct transcript want, got;
    script_reference(&want);
    for (int mib = 2; mib <= 7; mib++)
        for (int kind = 0; kind < 4; kind++) {
            struct gpu_scene s;
            char sim[80];
            snprintf(sim, sizeof sim, "strict=1 vram_mib=%d %s", mib, kinds[kind]);
            gpu_scene_open_counting(&s, sim, (const char *[]){PATIENT, NULL});
            /* 2 MiB are too few to use any: it is tried again, for others may give VRAM back. */
            if (mib > 2) gpu_scene_await(&s, EA_GPU_READY);
            got.count = 0;
            script_run(s.a, s.b, &got);
            script_end(s.a, s.b, &got);
            transcript_compare(&got, &want, sim);
            if (mib > 2) gpu_scene_await_empty(&s);
            if (mib > 2) cr_assert_gt(transcript_on_gpu(&got), 0, "%s", sim);
            cr_assert(!daemon_logged(&s.daemon, "device_sim: "), "%s", sim);
            if (mib > 2) cr_assert_eq(gpu_scene_stats(s.a).restarts, 0, "%s", sim);
            gpu_scene_close(&s);
        }
}

/* 16 MiB: 12 to use, 11 of them for replicas; twelve collections of 3 MiB. */
static void twelve_spaces(const char *force)
{
    enum { SPACES = 12, ROUNDS = 12 };
    struct gpu_scene s;
    struct rows rows[SPACES];
    gpu_scene_open_counting(&s, "vram_mib=16", (const char *[]){force, PATIENT, NULL});
    gpu_scene_await(&s, EA_GPU_READY);
    for (unsigned i = 0; i < SPACES; i++) {
        char space[16];
        snprintf(space, sizeof space, "space-%u", i);
        rows_make(&rows[i], gpu_scene_client(&s, space), "own", 1500, i);
    }
    ea_gpu_stats g = {0};
    uint64_t on_gpu = 0;
    int64_t until = give_up_ms();
    for (int round = 0; round < ROUNDS || !on_gpu || !g.evictions; round++) {
        cr_assert(now_ms() < until, "%s: %llu of the GPU's, %llu evictions", force,
                  (unsigned long long)on_gpu, (unsigned long long)g.evictions);
        on_gpu = 0;
        for (int i = 0; i < SPACES; i++) {
            for (int again = 0; again < 3; again++)
                rows_ask(&rows[i]);
            on_gpu += rows[i].on_gpu;
        }
        wait_ms(60); /* a replica is kept for a while */
        g = gpu_scene_stats(s.a);
    }
    cr_assert_leq(g.replica_bytes, 11u << 20);
    cr_assert_eq(g.errors, 0);
    cr_assert_eq(g.restarts, 0);
    for (int i = 0; i < SPACES; i++) {
        cr_assert_eq(ea_collection_drop(rows[i].c, "own"), EA_OK);
        ea_close(rows[i].c);
        rows_free(&rows[i]);
    }
    gpu_scene_await_empty(&s);
    gpu_scene_close(&s);
}

Test(gpu_memory, twelve_spaces_of_three_times_the_vram, .timeout = 900)
{
    twelve_spaces("gpu.force=none");
}

Test(gpu_memory, twelve_spaces_all_forced, .timeout = 900)
{
    twelve_spaces("gpu.force=gpu");
}

/* Each fits, both do not: each is evicted twice a second at most, and the CPU answers meanwhile.
 * (One that is always in use may stay, and the other goes without.) */
static void two_rivals(const char *force)
{
    struct gpu_scene s;
    struct rows one, two;
    gpu_scene_open_counting(&s, "vram_mib=16", (const char *[]){force, PATIENT, NULL});
    gpu_scene_await(&s, EA_GPU_READY);
    rows_make(&one, s.a, "one", 3500, 1); /* 7 MiB */
    rows_make(&two, s.b, "two", 3500, 2);
    int64_t start = now_ms(), until = give_up_ms();
    while (now_ms() - start < 2500 || one.on_gpu + two.on_gpu == 0) {
        rows_ask(&one);
        rows_ask(&two);
        cr_assert(now_ms() < until, "%s: the GPU answers nothing", force);
    }
    ea_gpu_stats g = gpu_scene_stats(s.a);
    /* Read after the counters, and the daemon has the same clock: no machine is too slow. */
    double seconds = (double)(now_ms() - start) / 1000;
    cr_assert_leq((double)g.evictions, 4 * seconds + 2, "%s: %llu evictions in %.1f s", force,
                  (unsigned long long)g.evictions, seconds);
    cr_assert_eq(g.restarts, 0);
    rows_free(&one);
    rows_free(&two);
    gpu_scene_close(&s);
}

Test(gpu_memory, two_rivals, .timeout = 900)
{
    two_rivals("gpu.force=none");
    two_rivals("gpu.force=gpu");
}

/* ---------------------------------------------------------------- two spaces */

Test(gpu_memory, names_are_each_spaces_own, .timeout = 900)
{
    struct gpu_scene s;
    struct rows own, other;
    ea_collection_info info, *list;
    ea_stats stats;
    ea_result r = {0};
    size_t count;
    float average[D];
    gpu_scene_open(&s, NULL, NULL);
    gpu_scene_await(&s, EA_GPU_READY);
    rows_make(&own, s.a, "secret", 300, 1);
    rows_ask(&own);
    rows_ask(&own);
    cr_assert_gt(own.on_gpu, 0);
    cr_assert_eq(ea_collection_describe(s.a, "secret", &info), EA_OK);
    cr_assert_gt(info.vram_bytes, 0);
    cr_assert_eq(ea_collection_describe(s.b, "secret", &info), EA_NOT_FOUND);
    cr_assert_eq(ea_knn(s.b,
                        &(ea_knn_question){.collection = "secret",
                                           .queries = own.query,
                                           .query_count = 1,
                                           .dimension = D,
                                           .k = K},
                        &r),
                 EA_NOT_FOUND);
    cr_assert_eq(ea_similarity(s.b,
                               &(ea_similarity_question){.collection = "secret",
                                                         .queries = own.query,
                                                         .query_count = 1,
                                                         .dimension = D},
                               &r),
                 EA_NOT_FOUND);
    cr_assert_eq(ea_score(s.b,
                          &(ea_score_question){.collection = "secret",
                                               .queries = own.query,
                                               .query_count = 1,
                                               .dimension = D,
                                               .ids = own.ids,
                                               .count = 5},
                          &r),
                 EA_NOT_FOUND);
    cr_assert_eq(ea_fetch(s.b, "secret", own.ids, 5, &r), EA_NOT_FOUND);
    cr_assert_eq(ea_weighted_average(s.b,
                                     &(ea_average_question){.collection = "secret",
                                                            .ids = own.ids,
                                                            .weights = own.query,
                                                            .count = 5,
                                                            .dimension = D},
                                     average),
                 EA_NOT_FOUND);
    cr_assert_eq(ea_collection_drop(s.b, "secret"), EA_NOT_FOUND);
    cr_assert_eq(ea_collection_list(s.b, &list, &count), EA_OK);
    cr_assert_eq(count, 0);
    ea_collection_list_free(list);
    cr_assert_eq(ea_get_stats(s.b, &stats), EA_OK);
    cr_assert_eq(stats.collections + stats.rows, 0);
    rows_make(&other, s.b, "secret", 200, 2); /* the same name, other rows, other replica */
    for (int i = 0; i < 5; i++) {
        rows_ask(&other);
        rows_ask(&own);
    }
    cr_assert_gt(other.on_gpu, 0);
    cr_assert_eq(ea_collection_describe(s.b, "secret", &info), EA_OK);
    cr_assert_eq(info.rows, 200);
    cr_assert_eq(ea_collection_drop(s.b, "secret"), EA_OK);
    rows_ask(&own);
    rows_free(&own);
    rows_free(&other);
    gpu_scene_close(&s);
}

/* ---------------------------------------------------------------- the canary */

static const uint32_t canary = 0x449a522b; /* 1234.56...; no score is that */
enum { NARROW = 4, CANARIES = 64 };

static void sing(const struct gpu_scene *s, uint64_t ids[CANARIES], float values[CANARIES * NARROW])
{
    ea_result r = {0};
    cr_assert_eq(ea_collection_create(s->a, "rows", NARROW, EA_COSINE, NULL), EA_OK);
    cr_assert_eq(ea_upsert(s->a,
                           &(ea_rows){.collection = "rows",
                                      .ids = ids,
                                      .rows = values,
                                      .count = CANARIES,
                                      .dimension = NARROW},
                           NULL),
                 EA_OK);
    cr_assert_eq(ea_knn(s->a,
                        &(ea_knn_question){.collection = "rows",
                                           .queries = values,
                                           .query_count = 3,
                                           .dimension = NARROW,
                                           .k = CANARIES},
                        &r),
                 EA_OK);
    cr_assert_eq(ea_similarity(s->a,
                               &(ea_similarity_question){.collection = "rows",
                                                         .queries = values,
                                                         .query_count = 9,
                                                         .dimension = NARROW},
                               &r),
                 EA_OK);
    cr_assert_eq(ea_score(s->a,
                          &(ea_score_question){.collection = "rows",
                                               .queries = values,
                                               .query_count = 1,
                                               .dimension = NARROW,
                                               .ids = ids,
                                               .count = CANARIES,
                                               .k = 9},
                          &r),
                 EA_OK);
    cr_assert_eq(ea_fetch_range(s->a, "rows", 0, CANARIES, &r), EA_OK);
    cr_assert_eq(ea_collection_drop(s->a, "rows"), EA_OK);
    ea_result_free(&r);
}

static void listen_for(const void *bytes, uint64_t count, const char *where)
{
    for (uint64_t i = 0; i + sizeof canary <= count; i++)
        cr_assert_neq(memcmp((const char *)bytes + i, &canary, sizeof canary), 0,
                      "another space's bytes in the reply to %s, at %llu of %llu", where,
                      (unsigned long long)i, (unsigned long long)count);
}

/* Whole replies, padding included. */
static void ask_raw(int fd, const char *name, uint64_t request_id)
{
    static uint8_t message[FRAME_MESSAGE_BYTES_MAX];
    struct sample sample;
    struct frame_header h;
    void *body;
    sample_find(name, &sample);
    send_sample(fd, &sample, request_id);
    cr_assert(raw_receive_frame(fd, &h, message, &body));
    cr_assert_eq(h.flags, FRAME_FLAG_REPLY, "%s is refused", name);
    listen_for(message, h.message_bytes, name);
    listen_for(body, h.body_bytes, name);
    free(body);
}

Test(gpu_memory, nothing_of_another_space_in_any_reply, .timeout = 900)
{
    static const char *const questions[] = {"knn",         "similarity", "score",
                                            "average_ids", "fetch",      "fetch_range"};
    uint64_t ids[CANARIES], request_id = 1;
    float values[CANARIES * NARROW];
    struct gpu_scene s;
    for (uint64_t i = 0; i < CANARIES; i++)
        ids[i] = (uint64_t)canary << 32 | i;
    for (size_t i = 0; i < CANARIES * NARROW; i++)
        memcpy(&values[i], &canary, sizeof canary);
    gpu_scene_open(&s, NULL, NULL);
    gpu_scene_await(&s, EA_GPU_READY);
    int fd = raw_connect(&s.daemon);
    raw_hello(fd, "hostile");
    for (int round = 0; round < 40; round++) {
        sing(&s, ids, values);
        ask_raw(fd, "create", ++request_id);
        ask_raw(fd, "upsert", ++request_id);
        for (int i = 0; i < 6; i++)
            ask_raw(fd, questions[i], ++request_id);
        ask_raw(fd, "drop", ++request_id);
    }
    close(fd);
    gpu_scene_close(&s);
}
