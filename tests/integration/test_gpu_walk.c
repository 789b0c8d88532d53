/* Clients that change and ask at random, each with a copy of its own of what its collection holds,
 * on a GPU that is too small for all and is killed now and then: every score is that of the rows as
 * they are. What the CPU scores of rows sent along is what is right. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/engram_accel.h"
#include "tests/support/reference.h"
#include "tests/support/scene.h"

enum { D = 500, IDS = 2500, WALKERS = 4, K = 12, WALK_MS = 2500 };

struct walker {
    const char *socket_path;
    unsigned number;
    uint64_t random;
    ea_client *c;
    float (*rows)[D]; /* by id */
    bool present[IDS];
    uint64_t ids[IDS]; /* of one request */
    float (*sent)[D];
    _Atomic unsigned asked, on_gpu; /* counted by the walker alone */
    atomic_bool ended;
    unsigned wrong, failed;
    char why[256];
};

static atomic_bool over;

static uint64_t below(struct walker *w, uint64_t n)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (w->random >> 11) % n;
}

static void failed(struct walker *w, const char *what, ea_status status)
{
    if (!w->failed++)
        snprintf(w->why, sizeof w->why, "%s: %d, %s", what, (int)status, ea_error_text(w->c));
}

static void wrong(struct walker *w, const char *what)
{
    if (!w->wrong++) snprintf(w->why, sizeof w->why, "%s", what);
}

/* Different ids. */
static uint64_t choose_ids(struct walker *w, uint64_t n)
{
    uint64_t first = below(w, IDS), step = 1 + 2 * below(w, 20);
    while (IDS % step == 0 && step > 1)
        step -= 2;
    for (uint64_t i = 0; i < n; i++)
        w->ids[i] = (first + i * step) % IDS;
    for (uint64_t i = 1; i < n; i++)
        if (w->ids[i] == first) return i;
    return n;
}

static void put(struct walker *w)
{
    uint64_t n = choose_ids(w, below(w, 8) ? 1 + below(w, 30) : 1 + below(w, 1500));
    reference_fill(below(w, 1 << 30), w->sent[0], n * D);
    ea_status st = ea_upsert(
        w->c,
        &(ea_rows){
            .collection = "walk", .ids = w->ids, .rows = w->sent[0], .count = n, .dimension = D},
        NULL);
    if (st) failed(w, "upsert", st);
    for (uint64_t i = 0; i < n; i++) {
        memcpy(w->rows[w->ids[i]], w->sent[i], sizeof w->sent[i]);
        w->present[w->ids[i]] = true;
    }
}

static void take(struct walker *w)
{
    uint64_t n = choose_ids(w, below(w, 10) ? 1 + below(w, 20) : 1 + below(w, 800));
    ea_status st = ea_delete(w->c, "walk", w->ids, n, NULL);
    if (st) failed(w, "delete", st);
    for (uint64_t i = 0; i < n; i++)
        w->present[w->ids[i]] = false;
}

/* All scores, and what they ought to be. */
static void ask_all(struct walker *w, const float *query)
{
    ea_result got = {0}, want = {0};
    ea_status st =
        ea_similarity(w->c,
                      &(ea_similarity_question){
                          .collection = "walk", .queries = query, .query_count = 1, .dimension = D},
                      &got);
    bool seen[IDS] = {false};
    uint64_t rows = 0;
    if (st) failed(w, "similarity", st);
    for (uint64_t i = 0; i < IDS; i++)
        rows += w->present[i];
    if (!st && got.columns != rows) wrong(w, "the number of rows");
    for (uint64_t i = 0; !st && !w->wrong && i < rows; i++) {
        uint64_t id = got.ids[i];
        if (id >= IDS || !w->present[id] || seen[id]) {
            wrong(w, "an id");
            break;
        }
        seen[id] = true;
        memcpy(w->sent[i], w->rows[id], sizeof w->sent[i]);
    }
    if (!st && !w->wrong && rows) {
        st = ea_similarity(w->c,
                           &(ea_similarity_question){.metric = EA_COSINE,
                                                     .queries = query,
                                                     .query_count = 1,
                                                     .rows = w->sent[0],
                                                     .row_count = rows,
                                                     .dimension = D},
                           &want);
        if (st) failed(w, "similarity inline", st);
        if (!st && memcmp(got.scores, want.scores, rows * sizeof(float))) wrong(w, "a score");
    }
    w->asked++;
    w->on_gpu += got.meta->backend == EA_BACKEND_GPU;
    ea_result_free(&got);
    ea_result_free(&want);
}

/* Candidates by id, and those rows sent along. */
static void ask_some(struct walker *w, const float *query)
{
    ea_result got = {0}, best = {0}, want = {0};
    uint64_t n = choose_ids(w, 700), kept = 0;
    for (uint64_t i = 0; i < n; i++)
        if (w->present[w->ids[i]]) w->ids[kept++] = w->ids[i];
    if (!kept) return;
    for (uint64_t i = 0; i < kept; i++)
        memcpy(w->sent[i], w->rows[w->ids[i]], sizeof w->sent[i]);
    ea_filter filter = {.ids = w->ids, .id_count = kept};
    ea_status st = ea_similarity(w->c,
                                 &(ea_similarity_question){.collection = "walk",
                                                           .queries = query,
                                                           .query_count = 1,
                                                           .dimension = D,
                                                           .filter = &filter},
                                 &got);
    if (st) failed(w, "similarity, filtered", st);
    ea_status inline_st = ea_similarity(w->c,
                                        &(ea_similarity_question){.metric = EA_COSINE,
                                                                  .queries = query,
                                                                  .query_count = 1,
                                                                  .rows = w->sent[0],
                                                                  .row_count = kept,
                                                                  .dimension = D},
                                        &want);
    if (inline_st) failed(w, "similarity inline", inline_st);
    if (!st && !inline_st &&
        (got.columns != kept || memcmp(got.ids, w->ids, kept * sizeof *w->ids) ||
         memcmp(got.scores, want.scores, kept * sizeof(float))))
        wrong(w, "a filtered score");
    st = ea_knn(w->c,
                &(ea_knn_question){.collection = "walk",
                                   .queries = query,
                                   .query_count = 1,
                                   .dimension = D,
                                   .k = K,
                                   .filter = &filter},
                &best);
    if (st) failed(w, "knn", st);
    for (uint64_t i = 0; !st && !inline_st && i < best.columns; i++) {
        uint64_t better = 0, at = kept;
        for (uint64_t r = 0; r < kept; r++) {
            if (w->ids[r] == best.ids[i]) at = r;
            better += want.scores[r] > best.scores[i] ||
                      (want.scores[r] == best.scores[i] && w->ids[r] < best.ids[i]);
        }
        if (at == kept || memcmp(&want.scores[at], &best.scores[i], sizeof(float)) || better != i)
            wrong(w, "a neighbour");
    }
    w->asked += 2;
    w->on_gpu += (got.meta->backend == EA_BACKEND_GPU) + (best.meta->backend == EA_BACKEND_GPU);
    ea_result_free(&got);
    ea_result_free(&best);
    ea_result_free(&want);
}

static void make(struct walker *w)
{
    ea_status st = ea_collection_create(w->c, "walk", D, EA_COSINE, NULL);
    if (st) failed(w, "create", st);
    memset(w->present, 0, sizeof w->present);
}

static void *walk(void *argument)
{
    struct walker *w = argument;
    char space[16];
    float query[D];
    snprintf(space, sizeof space, "walker-%u", w->number);
    ea_options options = {.socket_path = w->socket_path, .space = space};
    if (ea_open(&options, &w->c)) {
        atomic_store(&w->ended, true);
        return NULL;
    }
    make(w);
    while (!atomic_load(&over) && !w->wrong && !w->failed) {
        uint64_t what = below(w, 100);
        reference_fill(below(w, 1 << 30), query, D);
        if (what < 20) {
            put(w);
        } else if (what < 30) {
            take(w);
        } else if (what == 30 && below(w, 4) == 0) {
            ea_status st = ea_collection_drop(w->c, "walk");
            if (st) failed(w, "drop", st);
            make(w);
        } else if (what < 75) {
            ask_all(w, query);
        } else {
            ask_some(w, query);
        }
    }
    ea_close(w->c);
    atomic_store(&w->ended, true);
    return NULL;
}

static void kill_gpu(pid_t daemon)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)daemon, (int)daemon);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%d", &child) == 1) kill(child, SIGKILL);
    if (f) fclose(f);
}

/* Whether each walker has got an answer, or ended by itself, and one was the GPU's, if it must. */
static bool walked(struct walker *walkers, bool by_gpu)
{
    unsigned on_gpu = 0, ended = 0;
    for (unsigned i = 0; i < WALKERS; i++) {
        struct walker *w = &walkers[i];
        on_gpu += atomic_load(&w->on_gpu);
        ended += atomic_load(&w->ended);
        if (!atomic_load(&w->asked) && !atomic_load(&w->ended)) return false;
    }
    return on_gpu || ended || !by_gpu;
}

/* kill_every_ms 0: never; then it also lasts until the GPU has given an answer. */
static void walk_all(const char *force, int kill_every_ms)
{
    static struct walker walkers[WALKERS];
    struct daemon_process daemon;
    pthread_t threads[WALKERS];
    daemon_start(&daemon,
                 (const char *[]){"gpu.devices=sim", "gpu.sim=vram_mib=20",
                                  "gpu.heartbeat_ms=10000", "gpu.job_ms=20000", force, NULL});
    atomic_store(&over, false);
    for (unsigned i = 0; i < WALKERS; i++) {
        walkers[i] = (struct walker){.socket_path = daemon.socket_path,
                                     .number = i,
                                     .random = 88172645463325252u + i * 7919 + (uint64_t)now_ms(),
                                     .rows = calloc(IDS, sizeof *walkers[i].rows),
                                     .sent = calloc(IDS, sizeof *walkers[i].sent)};
        cr_assert_eq(pthread_create(&threads[i], NULL, walk, &walkers[i]), 0);
    }
    int64_t until = now_ms() + scaled_ms(WALK_MS), give_up = give_up_ms();
    while (now_ms() < until || !walked(walkers, !kill_every_ms)) {
        cr_assert(now_ms() < give_up, "%s: no such answer", force);
        wait_ms(kill_every_ms ? kill_every_ms : 100);
        if (kill_every_ms) kill_gpu(daemon.pid);
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < WALKERS; i++) {
        struct walker *w = &walkers[i];
        pthread_join(threads[i], NULL);
        cr_log_info("%s: walker %u: %u of %u on the GPU", force, i, w->on_gpu, w->asked);
        cr_assert(w->asked && !w->wrong && !w->failed, "%s: walker %u, after %u: %s", force, i,
                  w->asked, w->why);
        free(w->rows);
        free(w->sent);
    }
    cr_assert_eq(daemon_stop(&daemon), 0);
}

Test(gpu_walk, at_random, .timeout = 900)
{
    walk_all("gpu.force=none", 0);
}

Test(gpu_walk, forced, .timeout = 900)
{
    walk_all("gpu.force=gpu", 0);
}

Test(gpu_walk, under_fire, .timeout = 900)
{
    walk_all("gpu.force=none", 700);
    walk_all("gpu.force=gpu", 300);
}
