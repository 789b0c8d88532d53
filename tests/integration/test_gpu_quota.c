/* A space's quota of VRAM against the real daemon: the CPU answers for who has no room, others have
 * the GPU, and a larger quota brings it back. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/reference.h"

enum { D = 64, ROWS = 4000, K = 5 }; /* three ranges of 2 MiB in VRAM */

struct answer {
    ea_backend backend;
    const char *reason;
};

/* The same rows everywhere, so the same answer. */
static void make(ea_client *c, const char *name)
{
    float *rows = malloc((size_t)ROWS * D * 4);
    uint64_t *ids = malloc(ROWS * 8);
    reference_fill(11, rows, (size_t)ROWS * D);
    for (uint64_t i = 0; i < ROWS; i++)
        ids[i] = i;
    cr_assert_eq(ea_collection_create(c, name, D, EA_DOT, NULL), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(
        ea_upsert(
            c,
            &(ea_rows){.collection = name, .ids = ids, .rows = rows, .count = ROWS, .dimension = D},
            NULL),
        EA_OK);
    free(rows);
    free(ids);
}

static struct answer ask(ea_client *c, const char *name)
{
    static uint64_t ids[K];
    static bool known;
    float query[D];
    ea_result r = {0};
    reference_fill(12, query, D);
    cr_assert_eq(
        ea_knn(c,
               &(ea_knn_question){
                   .collection = name, .queries = query, .query_count = 1, .dimension = D, .k = K},
               &r),
        EA_OK, "%s", ea_error_text(c));
    if (!known) memcpy(ids, r.ids, sizeof ids);
    known = true;
    cr_assert_eq(memcmp(ids, r.ids, sizeof ids), 0, "the same answer wherever");
    struct answer a = {r.meta->backend, ea_reason_name(r.meta->reason)};
    ea_result_free(&r);
    return a;
}

static uint64_t vram(ea_client *c)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
    return stats.vram_bytes;
}

static void write_settings(const char *path, int vram_mib)
{
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fprintf(f,
            "{\"spaces\": {\"alpha\": {\"vram_mib\": %d}}, \"gpu\": {\"force\": \"gpu\","
            "\"min_pairs\": 1}}",
            vram_mib);
    fclose(f);
}

Test(gpu_quota, the_cpu_answers_past_it, .timeout = 900)
{
    struct gpu_scene s;
    char path[64], option[96];
    snprintf(path, sizeof path, "/tmp/engram-gpu-quota.%d.json", getpid());
    snprintf(option, sizeof option, "--config=%s", path);
    write_settings(path, 5);
    gpu_scene_open(&s, NULL, (const char *[]){option, NULL});
    make(s.a, "rows");
    make(s.b, "rows");
    gpu_scene_await_answer(s.b, "rows", D);
    for (int i = 0; i < 50; i++) {
        struct answer a = ask(s.a, "rows");
        cr_assert_eq(a.backend, EA_BACKEND_CPU);
        cr_assert_str_eq(a.reason, "vram_pressure");
        cr_assert_eq(vram(s.a), 0);
        cr_assert_eq(ask(s.b, "rows").backend, EA_BACKEND_GPU, "nobody else notices");
    }
    write_settings(path, 6);
    kill(s.daemon.pid, SIGHUP);
    gpu_scene_await_answer(s.a, "rows", D);
    cr_assert_gt(vram(s.a), 0);
    cr_assert_leq(vram(s.a), 6 << 20);

    /* Two of the space that have not room together take turns; the other space keeps its own. */
    make(s.a, "more");
    uint64_t on_gpu = 0;
    for (int i = 0; i < 400 && on_gpu < 2; i++) {
        on_gpu += ask(s.a, "more").backend == EA_BACKEND_GPU;
        ask(s.a, "rows");
        cr_assert_leq(vram(s.a), 6 << 20, "%llu", (unsigned long long)vram(s.a));
        cr_assert_eq(ask(s.b, "rows").backend, EA_BACKEND_GPU);
        wait_ms(5);
    }
    cr_assert_geq(on_gpu, 1, "it never had its turn");
    unlink(path);
    gpu_scene_close(&s);
}
