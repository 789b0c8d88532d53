#include "tests/support/fair_crowd.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"

enum { SILENCE_S = 60, FAILURES_TOLD = 5, FAILURES_MAX = 1000 };

static uint64_t now_ns(void)
{
    return (uint64_t)(bench_now_s() * 1e9);
}

/* ---------------------------------------------------------------- questions */

struct crowd_question crowd_question(enum crowd_operation operation, const char *collection,
                                     const float *from, uint32_t queries, uint32_t dimension,
                                     uint32_t k, uint32_t listed, uint64_t rows)
{
    struct crowd_question q = {.operation = operation,
                               .dimension = dimension,
                               .queries = queries,
                               .k = k,
                               .from = from,
                               .listed = listed};
    snprintf(q.collection, sizeof q.collection, "%s", collection);
    if (!listed) return q;
    uint64_t count = (uint64_t)queries * listed, seed = (uintptr_t)from + listed;
    q.candidates = malloc(count * sizeof *q.candidates);
    q.offsets = malloc((queries + 1ull) * sizeof *q.offsets);
    if (!q.candidates || !q.offsets) bench_fail("question", "no memory");
    for (uint64_t i = 0; i < count; i++)
        q.candidates[i] = bench_random(&seed) % rows;
    for (uint32_t i = 0; i <= queries; i++)
        q.offsets[i] = (uint64_t)i * listed;
    return q;
}

void crowd_questions_free(struct crowd_question *questions, unsigned count)
{
    for (unsigned i = 0; questions && i < count; i++) {
        free(questions[i].candidates);
        free(questions[i].offsets);
    }
    free(questions);
}

uint64_t crowd_ask(ea_client *c, const struct crowd_question *q, ea_meta *meta)
{
    ea_result r = {0};
    ea_status st = EA_OK;
    switch (q->operation) {
    case CROWD_KNN:
        st = ea_knn(c,
                    &(ea_knn_question){.collection = q->collection,
                                       .queries = q->from,
                                       .query_count = q->queries,
                                       .dimension = q->dimension,
                                       .k = q->k},
                    &r);
        break;
    case CROWD_SIMILARITY:
        st = ea_similarity(c,
                           &(ea_similarity_question){.collection = q->collection,
                                                     .queries = q->from,
                                                     .query_count = q->queries,
                                                     .dimension = q->dimension},
                           &r);
        break;
    case CROWD_SCORE:
        st = ea_score(c,
                      &(ea_score_question){.collection = q->collection,
                                           .queries = q->from,
                                           .query_count = q->queries,
                                           .dimension = q->dimension,
                                           .offsets = q->offsets,
                                           .ids = q->candidates,
                                           .count = (uint64_t)q->queries * q->listed,
                                           .k = q->k},
                      &r);
        break;
    }
    sched_check(st, c, "a question");
    uint64_t digest = sched_digest(&r);
    if (meta) *meta = *r.meta;
    ea_result_free(&r);
    return digest;
}

/* ---------------------------------------------------------------- one asker */

struct crowd_asker *crowd_join(struct crowd *w, ea_client *c, struct crowd_question *questions,
                               unsigned count)
{
    if (w->asker_count == CROWD_ASKERS) bench_fail("crowd", "too many askers");
    struct crowd_asker *a = &w->askers[w->asker_count++];
    *a = (struct crowd_asker){.crowd = w,
                              .client = c,
                              .questions = questions,
                              .question_count = count,
                              .seed = w->asker_count};
    for (unsigned i = 0; i < CROWD_DEPTH; i++) {
        a->slots[i] = (struct crowd_slot){.asker = a, .next_free = a->free};
        a->free = &a->slots[i];
    }
    return a;
}

static void count_failure(struct crowd *w, const struct crowd_question *q, const char *why)
{
    uint64_t before = atomic_fetch_add(&w->failed, 1);
    if (before < FAILURES_TOLD)
        fprintf(stderr, "bench: operation %d on %s: %s\n", (int)q->operation, q->collection, why);
    if (before >= FAILURES_MAX) atomic_store(&w->stop, true);
}

static void count_wrong(struct crowd *w, const struct crowd_question *q, const ea_meta *m)
{
    if (atomic_fetch_add(&w->wrong, 1) < FAILURES_TOLD)
        fprintf(stderr,
                "bench: WRONG: operation %d on %s, %u queries, k %u, %u listed: by %s (%s), "
                "%u as one\n",
                (int)q->operation, q->collection, q->queries, q->k, q->listed,
                ea_backend_name(m->backend), ea_reason_name(m->reason), m->batch);
}

static void on_answer(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status status = answer->status;
    ea_result *r = answer->result;
    struct crowd_slot *s = user;
    struct crowd_asker *a = s->asker;
    struct crowd *w = a->crowd;
    struct crowd_question *q = s->question;
    uint64_t took = now_ns() - s->sent_ns;
    s->next_free = a->free;
    a->free = s;
    a->in_flight--;
    if (status) {
        count_failure(w, q, ea_error_text(c));
        return;
    }
    uint64_t digest = sched_digest(r);
    if (w->learning) {
        q->digest = digest;
        return;
    }
    if (digest != q->digest) {
        count_wrong(w, q, r->meta);
        return;
    }
    if (!atomic_load_explicit(&w->counting, memory_order_relaxed)) return;
    atomic_fetch_add_explicit(&w->answers, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->together, r->meta->batch ? r->meta->batch : 1,
                              memory_order_relaxed);
    if (r->meta->backend != EA_BACKEND_CPU)
        atomic_fetch_add_explicit(&w->on_gpu, 1, memory_order_relaxed);
    histogram_add(&a->took[s->mode], took);
}

static void send_question(struct crowd_asker *a, struct crowd_question *q)
{
    struct crowd_slot *s = a->free;
    ea_client *c = a->client;
    ea_status st = EA_OK;
    a->free = s->next_free;
    s->question = q;
    s->sent_ns = now_ns();
    s->mode = atomic_load_explicit(&a->crowd->mode, memory_order_relaxed);
    switch (q->operation) {
    case CROWD_KNN:
        st = ea_knn_send(c,
                         &(ea_knn_question){.collection = q->collection,
                                            .queries = q->from,
                                            .query_count = q->queries,
                                            .dimension = q->dimension,
                                            .k = q->k},
                         &(ea_send_options){.callback = on_answer, .user = s}, NULL);
        break;
    case CROWD_SIMILARITY:
        st = ea_similarity_send(c,
                                &(ea_similarity_question){.collection = q->collection,
                                                          .queries = q->from,
                                                          .query_count = q->queries,
                                                          .dimension = q->dimension},
                                &(ea_send_options){.callback = on_answer, .user = s}, NULL);
        break;
    case CROWD_SCORE:
        st = ea_score_send(c,
                           &(ea_score_question){.collection = q->collection,
                                                .queries = q->from,
                                                .query_count = q->queries,
                                                .dimension = q->dimension,
                                                .offsets = q->offsets,
                                                .ids = q->candidates,
                                                .count = (uint64_t)q->queries * q->listed,
                                                .k = q->k},
                           &(ea_send_options){.callback = on_answer, .user = s}, NULL);
        break;
    }
    sched_check(st, c, "send");
    a->in_flight++;
}

/* Sends what its habit has it send now. */
static void fill(struct crowd_asker *a)
{
    struct crowd *w = a->crowd;
    if (w->learning) {
        while (a->in_flight < 4 && a->next_to_learn < a->question_count)
            send_question(a, &a->questions[a->next_to_learn++]);
        return;
    }
    const struct crowd_habit *h = &a->habits[atomic_load_explicit(&w->mode, memory_order_relaxed)];
    while (h->count && a->in_flight < h->depth && a->free && !atomic_load(&w->stop))
        send_question(a, &a->questions[h->first + bench_random(&a->seed) % h->count]);
}

/* ---------------------------------------------------------------- threads */

static bool done(const struct crowd *w, const struct crowd_asker *a)
{
    if (a->in_flight) return false;
    return w->learning ? a->next_to_learn == a->question_count : atomic_load(&w->stop);
}

/* Every thread_count-th asker, from the one at `argument` on. */
static void *keep_asking(void *argument)
{
    struct crowd_asker *first = argument;
    struct crowd *w = first->crowd;
    struct crowd_asker *end = w->askers + w->asker_count;
    struct pollfd fds[CROWD_ASKERS];
    double heard_s = bench_now_s();
    for (;;) {
        nfds_t count = 0;
        bool all_done = true, waits = false;
        for (struct crowd_asker *a = first; a < end; a += w->thread_count) {
            unsigned before = a->in_flight;
            sched_check(ea_pump(a->client, 0), a->client, "ea_pump");
            if (a->in_flight != before || !before) heard_s = bench_now_s();
            fill(a);
            if (a->in_flight) sched_check(ea_pump(a->client, 0), a->client, "ea_pump");
            fds[count++] = (struct pollfd){.fd = ea_fd(a->client), .events = ea_events(a->client)};
            all_done &= done(w, a);
            waits |= a->in_flight > 0;
        }
        if (all_done) return NULL;
        if (waits && bench_now_s() > heard_s + SILENCE_S) bench_fail("crowd", "no answers");
        poll(fds, count, 20);
    }
}

static void spawn(struct crowd *w)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned threads = processors >= 4 * CROWD_THREADS ? CROWD_THREADS : processors > 4 ? 2 : 1;
    w->thread_count = threads < w->asker_count ? threads : w->asker_count;
    for (unsigned i = 0; i < w->thread_count; i++)
        if (pthread_create(&w->threads[i], NULL, keep_asking, &w->askers[i]))
            bench_fail("thread", "refused");
}

static void join(struct crowd *w)
{
    for (unsigned i = 0; i < w->thread_count; i++)
        pthread_join(w->threads[i], NULL);
}

void crowd_learn(struct crowd *w)
{
    for (unsigned i = 0; i < w->asker_count; i++) {
        struct crowd_asker *a = &w->askers[i];
        a->next_to_learn = 0;
        for (unsigned j = 0; j < i; j++) /* who shares them leaves them to the first */
            if (w->askers[j].questions == a->questions) a->next_to_learn = a->question_count;
    }
    w->learning = true;
    w->stop = false;
    spawn(w);
    join(w);
    w->learning = false;
    if (w->failed) bench_fail("learning the answers", "some requests failed");
}

void crowd_start(struct crowd *w)
{
    w->stop = w->counting = false;
    w->mode = 0;
    for (unsigned i = 0; i < w->asker_count; i++)
        memset(w->askers[i].took, 0, sizeof w->askers[i].took);
    spawn(w);
}

void crowd_stop(struct crowd *w)
{
    atomic_store(&w->stop, true);
    join(w);
}

void crowd_count(struct crowd *w, double seconds)
{
    atomic_store(&w->answers, 0);
    atomic_store(&w->on_gpu, 0);
    atomic_store(&w->together, 0);
    atomic_store(&w->counting, true);
    usleep((useconds_t)(seconds * 1e6));
    atomic_store(&w->counting, false);
}

/* ---------------------------------------------------------------- what came of it */

double crowd_percentile_us(const struct crowd *w, unsigned from, unsigned until, unsigned mode,
                           double percent)
{
    static struct histogram all;
    memset(&all, 0, sizeof all);
    for (unsigned i = from; i < until; i++) {
        const struct histogram *h = &w->askers[i].took[mode];
        all.count += h->count;
        if (h->max > all.max) all.max = h->max;
        for (unsigned j = 0; j < HISTOGRAM_BUCKETS; j++)
            all.buckets[j] += h->buckets[j];
    }
    return (double)histogram_percentile(&all, percent) / 1e3;
}

void crowd_settle(struct sched_bench *b, const struct crowd *w)
{
    printf("  %llu wrong answers, %llu errors  %s\n", (unsigned long long)w->wrong,
           (unsigned long long)w->failed, w->wrong || w->failed ? "miss" : "PASS");
    fflush(stdout);
    b->wrong += (unsigned)(w->wrong + w->failed);
    *(w->wrong || w->failed ? &b->missed : &b->met) += 1;
}
