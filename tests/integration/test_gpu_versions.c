/* Rows change while they are asked about, on GPU and CPU: a reply says which version it scored, and
 * it scored just that, one that was current between the question and its reply. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/reference.h"

enum { D = 20, IDS = 60, VERSIONS = 4096, READERS = 4, K = 7 };

/* A version's rows, in storage order of ids; those that are not there are left out. */
struct version {
    size_t count;
    uint64_t ids[IDS];
    float rows[IDS * D];
};

struct stage {
    const struct gpu_scene *scene;
    uint64_t made;            /* the version that was made empty; the others follow it */
    struct version *versions; /* by number; complete up to `latest` once that is published */
    _Atomic uint64_t latest;  /* what the writer knows to be applied */
    _Atomic uint64_t begun;   /* what may be applied by now */
    atomic_bool stop;
};

/* ---------------------------------------------------------------- the writer */

static size_t position_of(const struct version *v, uint64_t id)
{
    size_t i = 0;
    while (i < v->count && v->ids[i] != id)
        i++;
    return i;
}

static void put(struct version *v, uint64_t id, const float *row)
{
    size_t i = position_of(v, id);
    if (i == v->count) v->count++;
    v->ids[i] = id;
    memcpy(v->rows + i * D, row, D * sizeof *row);
}

static void take_away(struct version *v, uint64_t id)
{
    size_t i = position_of(v, id), last = v->count - 1;
    if (i > last) return;
    v->ids[i] = v->ids[last];
    memmove(v->rows + i * D, v->rows + last * D, D * sizeof(float));
    v->count--;
}

/* The next version, here and in the daemon. */
static void change(struct stage *st, ea_client *c, uint64_t number)
{
    struct version *v = &st->versions[number];
    float rows[5 * D];
    uint64_t ids[5], count = 1 + number % 5;
    *v = st->versions[number - 1];
    reference_fill(number, rows, (size_t)5 * D);
    for (uint64_t i = 0; i < count; i++)
        ids[i] = (number * 7 + i * 11) % IDS;
    bool delete = number % 6 == 5 && v->count > 20 && position_of(v, ids[0]) < v->count;
    for (uint64_t i = 0; i < count; i++) {
        if (delete)
            take_away(v, ids[i]);
        else
            put(v, ids[i], rows + i * D);
    }
    atomic_store(&st->begun, number);
    if (delete) {
        cr_assert_eq(ea_delete(c, "rows", ids, count, NULL), EA_OK, "%s", ea_error_text(c));
    } else {
        ea_upsert_counts counts;
        cr_assert_eq(
            ea_upsert(
                c,
                &(ea_rows){
                    .collection = "rows", .ids = ids, .rows = rows, .count = count, .dimension = D},
                &counts),
            EA_OK, "%s", ea_error_text(c));
        cr_assert_eq(counts.version, st->made + number, "version %llu, after %llu changes",
                     (unsigned long long)counts.version, (unsigned long long)number);
        cr_assert_eq(counts.rows, v->count);
    }
    atomic_store(&st->latest, number);
}

/* ---------------------------------------------------------------- readers */

struct reader {
    struct stage *stage;
    unsigned number;
    _Atomic uint64_t asked, on_gpu; /* counted by the reader alone */
    char wrong[200];
};

static bool knn_is_right(const struct version *v, const float *query, const ea_result *r)
{
    struct reference_rows all = {D, REFERENCE_EUCLIDEAN, v->count, v->rows, v->ids};
    uint64_t ids[K];
    float scores[K];
    size_t want = reference_knn(&all, query, K, NULL, NULL, ids, scores);
    return r->counts[0] == want && memcmp(r->ids, ids, want * sizeof *ids) == 0 &&
           memcmp(r->scores, scores, want * sizeof *scores) == 0;
}

static bool similarity_is_right(const struct version *v, const float *query, const ea_result *r)
{
    if (r->columns != v->count) return false;
    for (size_t i = 0; i < r->columns; i++) {
        size_t at = position_of(v, r->ids[i]);
        if (at == v->count) return false;
        float want = reference_score(REFERENCE_EUCLIDEAN, D, query, v->rows + at * D);
        if (!reference_same(r->scores[i], want)) return false;
    }
    return true;
}

static void check(struct reader *me, bool right, const ea_result *r, uint64_t from, uint64_t to,
                  const char *what)
{
    uint64_t version = r->meta->version - me->stage->made;
    me->asked++;
    me->on_gpu += r->meta->backend == EA_BACKEND_GPU;
    if (right && version >= from && version <= to) return;
    snprintf(me->wrong, sizeof me->wrong, "%s by %s (%s): version %llu of %llu..%llu%s", what,
             ea_backend_name(r->meta->backend), ea_reason_name(r->meta->reason),
             (unsigned long long)version, (unsigned long long)from, (unsigned long long)to,
             right ? "" : ", other rows");
}

static void *read_on(void *argument)
{
    struct reader *me = argument;
    struct stage *st = me->stage;
    ea_client *c = gpu_scene_client(st->scene, "alpha");
    ea_result r = {0};
    float query[D];
    for (uint64_t i = 0; !me->wrong[0] && !atomic_load(&st->stop); i++) {
        reference_fill(me->number * 100000 + i, query, D);
        uint64_t from = atomic_load(&st->latest);
        bool is_knn = (i + me->number) % 2;
        ea_status status = is_knn ? ea_knn(c,
                                           &(ea_knn_question){.collection = "rows",
                                                              .queries = query,
                                                              .query_count = 1,
                                                              .dimension = D,
                                                              .k = K},
                                           &r)
                                  : ea_similarity(c,
                                                  &(ea_similarity_question){.collection = "rows",
                                                                            .queries = query,
                                                                            .query_count = 1,
                                                                            .dimension = D},
                                                  &r);
        if (status) {
            snprintf(me->wrong, sizeof me->wrong, "%s", ea_error_text(c));
            break;
        }
        uint64_t to = atomic_load(&st->begun);
        uint64_t seen = r.meta->version - st->made;
        const struct version *v = &st->versions[seen <= to ? seen : 0];
        bool right = is_knn ? knn_is_right(v, query, &r) : similarity_is_right(v, query, &r);
        check(me, right, &r, from, to, is_knn ? "knn" : "similarity");
    }
    ea_result_free(&r);
    ea_close(c);
    return NULL;
}

/* ---------------------------------------------------------------- together */

static uint64_t answers(const struct reader *readers, bool on_gpu)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < READERS; i++)
        sum += atomic_load(on_gpu ? &readers[i].on_gpu : &readers[i].asked);
    return sum;
}

/* ms: how long at least; it ends when somebody has got an answer, of the GPU unless that is not to
 * be used. kills: of the GPU process, meanwhile. */
static void play(const char *sim, const char *force, int ms, bool kills)
{
    struct gpu_scene s;
    struct stage st = {.scene = &s};
    struct reader readers[READERS];
    pthread_t threads[READERS];
    gpu_scene_open(&s, sim, (const char *[]){force, NULL});
    gpu_scene_await(&s, EA_GPU_READY);
    st.versions = calloc(VERSIONS, sizeof *st.versions);
    ea_collection_info info;
    cr_assert_eq(ea_collection_create(s.a, "rows", D, EA_SQUARED_EUCLIDEAN, &info), EA_OK);
    st.made = info.version;
    uint64_t number = 1;
    for (; number < 12; number++)
        change(&st, s.a, number);
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.stage = &st, .number = i};
        cr_assert_eq(pthread_create(&threads[i], NULL, read_on, &readers[i]), 0);
    }
    bool by_gpu = strcmp(force, "gpu.force=cpu") != 0;
    int64_t until = now_ms() + ms, give_up = give_up_ms();
    while (now_ms() < until || !answers(readers, by_gpu)) {
        cr_assert(now_ms() < give_up, "%s, %s: no such answer", sim, force);
        if (number == VERSIONS) {
            wait_ms(5);
            continue;
        }
        change(&st, s.a, number);
        if (number % 4 == 0) wait_ms(1);
        /* The last ones are left to a process that lives. */
        pid_t pid =
            kills && number % 64 == 0 && now_ms() < until ? gpu_process_of(s.daemon.pid) : 0;
        if (pid) kill(pid, SIGKILL);
        number++;
    }
    atomic_store(&st.stop, true);
    for (unsigned i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert(!readers[i].wrong[0], "%s, %s: %s", sim, force, readers[i].wrong);
    }
    uint64_t asked = answers(readers, false), on_gpu = answers(readers, true);
    fprintf(stderr, "%s, %s: %llu versions, %llu answers, %llu of the GPU's\n", sim, force,
            (unsigned long long)number, (unsigned long long)asked, (unsigned long long)on_gpu);
    if (!by_gpu) cr_assert_eq(on_gpu, 0);
    free(st.versions);
    gpu_scene_close(&s);
}

Test(gpu_versions, on_the_gpu, .timeout = 900)
{
    play("", "gpu.force=gpu", 1200, false);
    play("latency_us=2000", "gpu.force=gpu", 800, false);
    play("vmm=0 granularity_kib=4", "gpu.force=gpu", 800, false);
}

Test(gpu_versions, on_the_cpu, .timeout = 900)
{
    play("", "gpu.force=cpu", 800, false);
}

Test(gpu_versions, on_both, .timeout = 900)
{
    play("", "gpu.force=none", 1000, false);
    play("", "gpu.force=none", 1500, true);
    play("", "gpu.force=gpu", 1500, true);
}

/* ---------------------------------------------------------------- one request for all rows */

enum { WIDE = 768, WIDE_ROWS = 1024, WIDE_TIMES = 3 };

/* Asks until the GPU has answered; the answer is right to the bit wherever it comes from. */
static void ask_wide(ea_client *c, const float *rows, const uint64_t *ids, const float *query)
{
    const struct reference_rows all = {WIDE, EA_DOT, WIDE_ROWS, rows, ids};
    uint64_t best[K];
    float scores[K];
    reference_knn(&all, query, K, NULL, NULL, best, scores);
    ea_backend backend = EA_BACKEND_CPU;
    for (int64_t give_up = give_up_ms(); backend != EA_BACKEND_GPU;) {
        ea_result r = {0};
        ea_knn_question q = {
            .collection = "wide", .queries = query, .query_count = 1, .dimension = WIDE, .k = K};
        cr_assert_lt(now_ms(), give_up);
        cr_assert_eq(ea_knn(c, &q, &r), EA_OK, "%s", ea_error_text(c));
        cr_assert_eq(memcmp(r.ids, best, sizeof best), 0);
        cr_assert_eq(memcmp(r.scores, scores, sizeof scores), 0);
        backend = r.meta->backend;
        ea_result_free(&r);
    }
}

/* Rows that stay where they lay in the request's body reach the card as others do. */
Test(gpu_versions, all_rows_in_one_request, .timeout = 900)
{
    struct gpu_scene s;
    gpu_scene_open(&s, "", NULL);
    gpu_scene_await(&s, EA_GPU_READY);
    float *rows = malloc(sizeof *rows * WIDE_ROWS * WIDE), query[WIDE];
    uint64_t ids[WIDE_ROWS];
    for (uint64_t i = 0; i < WIDE_ROWS; i++)
        ids[i] = 3 * i + 1;
    reference_fill(99, query, WIDE);
    cr_assert_eq(ea_collection_create(s.a, "wide", WIDE, EA_DOT, NULL), EA_OK);
    for (uint64_t i = 0; i < WIDE_TIMES; i++) {
        ea_rows all = {
            .collection = "wide", .ids = ids, .rows = rows, .count = WIDE_ROWS, .dimension = WIDE};
        reference_fill(100 + i, rows, (size_t)WIDE_ROWS * WIDE);
        cr_assert_eq(ea_upsert(s.a, &all, NULL), EA_OK, "%s", ea_error_text(s.a));
        ask_wide(s.a, rows, ids, query);
    }
    free(rows);
    gpu_scene_close(&s);
}
