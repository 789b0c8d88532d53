/* The GPU process's server when the device fails: a script of every kind of order, with the n-th
 * call of the device failing, for every n. What is answered OK is right; what is not is answered
 * right when it is asked again; everything comes back; or the server has ended and said so. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/sim_probe.h"
#include "tests/support/gpu_bind.h"
#include "tests/support/gpu_complete.h"
#include "tests/support/gpu_cluster.h"
#include "tests/support/gpu_covariance.h"
#include "tests/support/gpu_graph.h"
#include "tests/support/gpu_sums.h"
#include "tests/support/reference.h"
#include "tests/support/sweep.h"

/* With sanitizers a part of the calls is enough: release builds do them all. */
#if defined(__SANITIZE_THREAD__)
enum { STRIDE = 23 };
#elif defined(__SANITIZE_ADDRESS__)
enum { STRIDE = 5 };
#else
enum { STRIDE = 1 };
#endif

/* ---- which call failed ---- */

static struct device_ops watched;
static const char *fault; /* of the last life; NULL: none */
static bool closed;

static void watched_close(struct device *d)
{
    fault = sim_probe_fault(d);
    closed = true;
    device_sim.close(d);
}

static const char *const call_names[] = {
    "open",          "memory",        "allocate",     "host_allocate", "range_reserve",
    "range_resize",  "stream_create", "event_create", "event_record",  "event_query",
    "copy_in",       "copy_out",      "clear",        "norms",         "scan",
    "tile",          "topk",          "gather_lists", "average",       "spread",
    "bind",          "normalize",     "superpose",    "complete",      "covariance",
    "shadow_centre", "shadow_code",   "shadow_topk",  "shadow_list",
};
enum { CALL_NAMES = sizeof call_names / sizeof *call_names };

/* ---- the script ---- */

enum { ROWS_MAX = 8, ORDERS_MAX = 48 };

struct step {
    struct order order;
    const struct ask_rows *rows; /* what a request is answered from */
    const struct gpu_graph *graph;
    uint64_t token;
    uint32_t result;
};

struct script {
    struct gpu_peer peer;
    struct ask_rows rows[ROWS_MAX];
    struct gpu_graph graph;
    struct step steps[ORDERS_MAX];
    uint32_t count;
    bool ended;
};

/* Rows do not change from life to life. */
static void make_rows(struct script *s)
{
    s->rows[0] = ask_make(1, 1, 1, 20, 300, 1);
    s->rows[1] = ask_make(1, 1, 2, 20, 400, 1); /* 0 with more rows */
    s->rows[2] = ask_make(2, 2, 1, 33, 200, 2);
    s->rows[3] = ask_make(3, 3, 1, 4, 8000, 3); /* 1 MiB: passes */
    s->rows[4] = ask_make(4, 4, 1, 4, 8000, 4); /* and no room for both */
    s->rows[5] = ask_make(6, 6, 1, 20, 300, 6);
    s->graph = graph_make(5, 5, 1, 4000, 1, false, 5);
}

static void free_rows(struct script *s)
{
    for (uint32_t i = 0; i < ROWS_MAX; i++)
        ask_free(&s->rows[i]);
    graph_free(&s->graph);
}

static void add(struct script *s, struct order o, const struct ask_rows *rows)
{
    cr_assert(s->count < ORDERS_MAX);
    s->steps[s->count++] = (struct step){.order = o, .rows = rows};
}

/* Records that come with the sets, and some that are too many for that. */
static void add_graph(struct script *s)
{
    static const struct spread_asked asked[] = {
        {.mode = SPREAD_ENGRAM, .seeds = 3, .sets = 2, .touched_max = 500, .seed = 1},
        {.seeds = 200, .sets = 3, .seed = 2},
    };
    struct order orders[ORDER_PARTS_MAX];
    uint32_t count = graph_upload_all(&s->peer, &s->graph, orders);
    for (uint32_t i = 0; i < count; i++)
        add(s, orders[i], NULL);
    for (uint32_t i = 0; i < 2; i++) {
        add(s, graph_ask(&s->peer, &s->graph, asked[i]), NULL);
        s->steps[s->count - 1].graph = &s->graph;
    }
}

static void write_script(struct script *s)
{
    struct gpu_peer *p = &s->peer;
    struct ask_rows *r = s->rows;
    s->count = 0;
    add(s, ask_upload(p, &r[0], true, 0, 300), NULL);
    add(s, ask_knn(p, &r[0], METRIC_COSINE, 2, 5, 1), &r[0]);
    add(s, ask_scores(p, &r[0], METRIC_DOT, 1, true, 2), &r[0]);
    add(s, ask_upload(p, &r[1], false, 300, 100), NULL); /* a second version */
    add(s, ask_listed(p, &r[1], METRIC_SQUARED_EUCLIDEAN, 3, 50, true, 3), &r[1]);
    add(s, ask_upload(p, &r[2], true, 0, 200), NULL);
    add(s, ask_listed(p, &r[2], METRIC_COSINE, 2, 20, false, 4), &r[2]);
    add(s, ask_average(p, &r[2], 30, 5), &r[2]);
    add(s, ask_norms(p, &r[2]), &r[2]);
    add(s, ask_bring(p, &r[2], ask_scores(p, &r[2], METRIC_COSINE, 3, false, 6)), &r[2]);
    const struct bind_side listed = {&r[2], 12, false}, sent = {&r[2], 12, true};
    add(s, bind_ask(p, &listed, &sent, HRR_BIND, true), &r[2]);
    add(s, bind_ask(p, &listed, &listed, HRR_UNBIND, false), &r[2]);
    const struct cleanup_asked asked = {.codebook = &r[2], .metric = METRIC_COSINE, .k = 4};
    add(s, cleanup_ask(p, &asked, &sent, &listed), &r[2]);
    add(s, product_ask(p, &listed, true), &r[2]);
    add(s, sums_ask(p, &(struct sums){.of = &r[2], .rows = 300, .lists = 1, .unit = true}), &r[2]);
    add(s, complete_ask(p, &r[2], 5, 3, true, true), &r[2]);
    add(s, complete_ask(p, &r[2], 1, 2, false, false), &r[2]);
    add(s, covariance_ask(p, &r[2], true, true, false), &r[2]);
    add(s, covariance_ask(p, &r[2], false, false, true), &r[2]);
    struct cluster_asked how = {
        .listed = true, .few = 9, .threshold = 0.4F, .threshold_second = 0.3F};
    add(s, cluster_ask(p, &r[2], &how), &r[2]);
    how = (struct cluster_asked){.average = true, .timed = true, .brought = true, .few = 9};
    add(s, cluster_ask(p, &r[2], &how), &r[2]);
    add(s, ask_upload(p, &r[3], true, 0, 8000), NULL);
    add(s, ask_scores(p, &r[3], METRIC_DOT, 10, true, 6), &r[3]);
    add(s, ask_listed(p, &r[1], METRIC_DOT, 1, 66000, false, 7), &r[1]);
    add(s, ask_upload(p, &r[4], true, 0, 8000), NULL);
    add(s, ask_knn(p, &r[4], METRIC_COSINE, 1, 3, 8), &r[4]);
    /* codes without rows */
    struct ask_host host = ask_lay(p, &r[5], 64);
    struct order first = ask_upload_codes(p, &r[5], true, 0, 200);
    first.version = 0;
    add(s, first, NULL);
    add(s, ask_upload_codes(p, &r[5], false, 200, 100), NULL);
    for (uint64_t queries = 1; queries <= 3; queries += 2) {
        struct order o = ask_knn(p, &r[5], METRIC_COSINE, queries, 4, 9);
        ask_from(&o, host);
        add(s, o, &r[5]);
    }
    add_graph(s);
}

static bool is_asked(const struct step *step)
{
    return step->rows || step->graph;
}

static bool is_right(struct script *s, const struct step *step)
{
    if (step->graph) return graph_right(&s->peer, &step->order, step->graph);
    return !step->rows || ask_right(&s->peer, &step->order, step->rows);
}

static struct step *step_of(struct script *s, uint64_t token)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->steps[i].token == token) return &s->steps[i];
    cr_assert_fail("a completion of no order: %llu", (unsigned long long)token);
    return NULL;
}

/* Waits until all that was sent is answered; false: the server has ended. */
static bool collect(struct script *s, uint32_t sent)
{
    while (sent > 0) {
        struct completion c;
        if (!peer_next(&s->peer, &c)) return false;
        if (c.kind == COMPLETION_EVICTED) continue;
        struct step *step = step_of(s, c.token);
        step->result = c.result;
        sent--;
        if (c.result == RESULT_OK) cr_assert(is_right(s, step), "wrong answer");
        cr_assert(c.result == RESULT_OK || c.result == RESULT_NO_REPLICA ||
                      c.result == RESULT_NO_MEMORY || c.result == RESULT_ERROR ||
                      c.result == RESULT_NO_VERSION,
                  "result %u", c.result);
    }
    return true;
}

/* False: the server has ended. */
static bool ask_one(struct script *s, struct order o, uint32_t *result)
{
    struct completion c;
    uint64_t token = peer_order(&s->peer, o);
    do
        if (!peer_next(&s->peer, &c)) return false;
    while (c.kind == COMPLETION_EVICTED);
    cr_assert_eq(c.token, token);
    *result = c.result;
    return true;
}

/* The same request, with what it is about sent afresh. The one fault may yet be to come. */
static bool ask_again(struct script *s, const struct step *step)
{
    struct order fresh[ORDER_PARTS_MAX];
    uint32_t result = RESULT_ERROR, count = 1;
    if (step->graph)
        count = graph_upload_all(&s->peer, step->graph, fresh);
    else
        fresh[0] = ask_upload(&s->peer, step->rows, true, 0, step->rows->count);
    for (int i = 0; i < 2 && result != RESULT_OK; i++) {
        result = RESULT_OK;
        for (uint32_t k = 0; k < count && result == RESULT_OK; k++)
            if (!ask_one(s, fresh[k], &result)) return false;
        if (result == RESULT_OK && !ask_one(s, step->order, &result)) return false;
    }
    cr_assert_eq(result, RESULT_OK, "asked again: %u", result);
    cr_assert(is_right(s, step));
    return true;
}

static bool wait_for_zero(const _Atomic uint64_t *number)
{
    for (int i = 0; i < 300000 && atomic_load(number); i++)
        usleep(1000);
    return atomic_load(number) == 0;
}

static bool forget(struct script *s, struct order o)
{
    uint32_t result = RESULT_ERROR;
    for (int again = 0; again < 2 && result != RESULT_OK; again++)
        if (!ask_one(s, o, &result)) return false;
    cr_assert_eq(result, RESULT_OK);
    return true;
}

static bool settle(struct script *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (is_asked(&s->steps[i]) && s->steps[i].result != RESULT_OK &&
            !ask_again(s, &s->steps[i]))
            return false;
    for (uint32_t i = 0; i < ROWS_MAX; i++)
        if (s->rows[i].space && !forget(s, ask_forget(&s->rows[i]))) return false;
    if (!forget(s, graph_forget(&s->graph))) return false;
    cr_assert_eq(atomic_load(&s->peer.share->usage.replica_bytes), 0);
    cr_assert(wait_for_zero(&s->peer.share->usage.request_bytes));
    return true;
}

/* One life; true if the fault fired. */
static bool live(struct script *s, const char *sim)
{
    fault = NULL;
    closed = false;
    s->peer.ops = &watched;
    peer_open(&s->peer, sim, 3);
    write_script(s);
    bool lives = atomic_load(&s->peer.share->state) == SHARE_READY;
    for (uint32_t i = 0; lives && i < s->count; i++)
        s->steps[i].token = peer_order(&s->peer, s->steps[i].order);
    lives = lives && collect(s, s->count) && settle(s);
    s->ended = !lives;
    if (s->ended) cr_assert_eq(atomic_load(&s->peer.share->state), SHARE_BROKEN);
    if (s->ended) cr_assert(s->peer.share->why[0]);
    peer_close(&s->peer);
    if (!closed) fault = "open";
    return fault != NULL;
}

/* strict: what has not been given back at the end ends the test. */
#define SIM "vram_mib=4 granularity_kib=16 latency_us=20 shadow_rows=200 strict=1"

struct sweep {
    struct script script;
    bool seen[CALL_NAMES];
    uint32_t lives, ended;
};

/* One life with the fault at call n: of all, "", or of one kind, "@topk". */
static bool fail_at(struct sweep *w, const char *kind, bool may_end, uint32_t n, const char *call)
{
    char sim[200];
    snprintf(sim, sizeof sim, SIM " vmm=%u fail=%u:%s%s", n % 2, n, kind, call);
    bool fired = live(&w->script, sim), ended = w->script.ended;
    w->lives++;
    w->ended += ended;
    cr_assert(fired || !ended, "%s %u%s: ended without a fault", kind, n, call);
    cr_assert(may_end || !ended || !w->script.peer.gpu, "%s %u%s: %s ended it", kind, n, call,
              fault);
    for (size_t i = 0; fired && i < CALL_NAMES; i++)
        w->seen[i] |= strcmp(call_names[i], fault) == 0;
    return fired;
}

/* Each call in turn, until the script ends before the fault. How many calls there are, and which
 * comes when, is up to the clock by a few. */
static void sweep(struct sweep *w, const char *kind, bool may_end)
{
    uint32_t past = 0;
    for (uint32_t n = 1; past < 4; n += STRIDE * sweep_stride(29))
        past = fail_at(w, kind, may_end, n, "") ? 0 : past + 1;
}

/* What the clock kept from failing, by its name: some calls come in every second life only. */
static void sweep_missed(struct sweep *w, const char *kind, bool may_end)
{
    enum { CALLS_MAX = 4, TIMES = 200 };
    for (size_t i = 0; i < CALL_NAMES; i++) {
        char call[40];
        snprintf(call, sizeof call, "@%s", call_names[i]);
        for (uint32_t t = 0; t < TIMES && !w->seen[i]; t++)
            fail_at(w, kind, may_end, 1 + t % CALLS_MAX, call);
    }
}

/* Whether no call is left out. */
static bool is_whole(void)
{
    return STRIDE == 1 && !sweep_is_quick();
}

static void fail_each(const char *kind, bool may_end)
{
    static struct sweep w;
    watched = device_sim;
    watched.close = watched_close;
    make_rows(&w.script);
    uint64_t start_ns = clock_now_ns();
    sweep(&w, kind, may_end);
    if (is_whole()) sweep_missed(&w, kind, may_end);
    fprintf(stderr, "%s: %u lives, %u ended, %llu ms\n", kind, w.lives, w.ended,
            (unsigned long long)((clock_now_ns() - start_ns) / 1000000));
    for (size_t i = 0; is_whole() && i < CALL_NAMES; i++)
        cr_expect(w.seen[i], "%s never failed as %s", call_names[i], kind);
    free_rows(&w.script);
}

/* The second version, while scores with ids are under way: each of its calls. */
Test(server_faults, a_second_version_that_cannot_be_made, .timeout = 900)
{
    static struct script script;
    static const char *const calls[] = {"range_fork", "range_own"};
    static const char *const kinds[] = {"error", "memory", "sticky"};
    enum { TRIES = 100 };
    watched = device_sim;
    watched.close = watched_close;
    make_rows(&script);
    for (uint32_t i = 0; i < 6; i++) {
        /* Of a busy machine the scores may be done before the write comes: again then. */
        uint32_t failed = 0, tries = 0;
        char sim[200];
        bool more = true;
        while (more || (!failed && ++tries < TRIES)) {
            snprintf(sim, sizeof sim,
                     "vram_mib=4 granularity_kib=16 latency_us=2000 shadow_rows=200 strict=1 "
                     "fail=%u:%s@%s",
                     failed + 1, kinds[i % 3], calls[i / 3]);
            more = live(&script, sim);
            failed += more;
        }
        cr_assert_gt(failed, 0, "%s never failed", calls[i / 3]);
    }
    free_rows(&script);
}

Test(server_faults, out_of_memory_at_every_call, .timeout = 900)
{
    fail_each("memory", false);
}

Test(server_faults, an_error_at_every_call, .timeout = 900)
{
    fail_each("error", false);
}

Test(server_faults, a_poisoned_device_from_every_call_on, .timeout = 900)
{
    fail_each("sticky", true);
}

/* From some call on nothing works any more, but nothing says that it never will. */
Test(server_faults, errors_without_end, .timeout = 900)
{
    static struct script s;
    watched = device_sim;
    watched.close = watched_close;
    make_rows(&s);
    for (uint32_t n = 1; n < 400; n += (6 + STRIDE) * sweep_stride(7)) {
        char sim[200];
        snprintf(sim, sizeof sim, SIM " fail=%u+:error", n);
        s.peer.ops = &watched;
        peer_open(&s.peer, sim, 3);
        write_script(&s);
        bool lives = atomic_load(&s.peer.share->state) == SHARE_READY;
        for (uint32_t i = 0; lives && i < s.count; i++)
            s.steps[i].token = peer_order(&s.peer, s.steps[i].order);
        if (lives) collect(&s, s.count);
        peer_close(&s.peer);
    }
    free_rows(&s);
}

Test(server_faults, a_slow_call_is_only_slow, .timeout = 900)
{
    static struct script s;
    watched = device_sim;
    watched.close = watched_close;
    make_rows(&s);
    for (uint32_t n = 3; n < 300; n += (23 + STRIDE) * sweep_stride(4)) {
        char sim[200];
        snprintf(sim, sizeof sim, SIM " fail=%u:slow", n);
        cr_assert(!live(&s, sim));
        for (uint32_t i = 0; i < s.count; i++)
            cr_assert_neq(s.steps[i].result, RESULT_ERROR); /* the rest is for want of memory */
    }
    free_rows(&s);
}
