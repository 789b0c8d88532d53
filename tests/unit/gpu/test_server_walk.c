/* The GPU process's server on a long random walk: several spaces and collections, more than the
 * VRAM holds, many orders under way at once, each answer compared with a model. The seed is
 * printed; WALK_SEED sets it, WALK_ORDERS how far to go. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "tests/support/gpu_ask.h"
#include "tests/support/sweep.h"

enum { SPACES = 5, EACH = 2, COLLECTIONS = SPACES * EACH, WINDOW = 24, LAP = 60, ROWS_MAX = 3000 };

static uint64_t seed;

static uint64_t pick(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % below;
}

struct walk {
    struct gpu_peer peer;
    struct ask_rows now[COLLECTIONS];
    bool there[COLLECTIONS]; /* as far as the front knows */
    uint64_t version;
    uint32_t round[COLLECTIONS];
    /* A lap: what is under way or done; the heap and these are taken anew after it. */
    struct order orders[LAP];
    struct ask_rows rows[LAP]; /* as they were then */
    uint32_t collection[LAP];
    uint32_t sent, answered;
    uint64_t first_token;
    uint64_t ok, lost, no_memory, no_version;
    uint64_t shadowed; /* kNN that a shadow answered */
};

static struct ask_rows copy_of(const struct ask_rows *r)
{
    struct ask_rows c = *r;
    c.plain = malloc(r->count * r->dimension * sizeof *c.plain + 1);
    c.ids = malloc(r->count * sizeof *c.ids + 1);
    memcpy(c.plain, r->plain, r->count * r->dimension * sizeof *c.plain);
    memcpy(c.ids, r->ids, r->count * sizeof *c.ids);
    return c;
}

/* The collection changes: other rows from `first` on, and another count. */
static struct order change(struct walk *w, uint32_t c)
{
    struct ask_rows *r = &w->now[c], old = *r;
    bool fresh = !w->there[c] || pick(8) == 0;
    uint32_t dimension = (uint32_t[]){3, 32, 40}[c % 3];
    struct ask_rows next = ask_make(c / EACH + 1, c + 1, ++w->version, dimension,
                                    pick(10) ? 1 + pick(ROWS_MAX) : pick(3), pick(1000000));
    uint64_t first = 0, count = next.count;
    if (!fresh) { /* rows before and behind the change stay */
        uint64_t most = old.count < next.count ? old.count : next.count;
        first = most ? pick(most) : 0;
        if (next.count <= old.count)
            count = pick(next.count - first + 1);
        else
            count = next.count - first;
        for (uint64_t i = 0; i < most; i++) {
            if (i >= first && i < first + count) continue;
            memcpy(next.plain + i * dimension, old.plain + i * dimension,
                   dimension * sizeof(float));
            next.ids[i] = old.ids[i];
        }
    }
    ask_free(&old);
    *r = next;
    w->there[c] = true;
    struct order o = ask_upload(&w->peer, r, fresh, first, count);
    w->round[c] += fresh;
    o.upload.round = w->round[c];
    return o;
}

static struct order question(struct walk *w, uint32_t c)
{
    struct gpu_peer *p = &w->peer;
    const struct ask_rows *r = &w->now[c];
    enum metric metric = (enum metric)(METRIC_COSINE + pick(3));
    uint64_t queries = pick(4) ? 1 + pick(4) : pick(60), n = pick(1000000);
    switch (r->count ? pick(6) : pick(2)) {
    case 0: return ask_knn(p, r, metric, queries, 1 + (uint32_t)pick(40), n);
    case 1: return ask_scores(p, r, metric, queries, pick(2), n);
    case 2: return ask_listed(p, r, metric, queries, pick(500), false, n);
    case 3: return ask_listed(p, r, metric, 1 + queries, pick(500), true, n);
    case 4: return ask_average(p, r, pick(300), n);
    default: return ask_knn(p, r, metric, 1, 10, n);
    }
}

static void send(struct walk *w)
{
    uint32_t c = (uint32_t)pick(COLLECTIONS);
    struct order o;
    if (!w->there[c] || pick(5) == 0) {
        o = change(w, c);
    } else if (pick(40) == 0) {
        o = ask_forget(&w->now[c]);
        w->there[c] = false;
    } else {
        o = question(w, c);
    }
    w->orders[w->sent] = o;
    w->collection[w->sent] = c;
    w->rows[w->sent] = copy_of(&w->now[c]);
    uint64_t token = peer_order(&w->peer, o);
    if (w->sent++ == 0) w->first_token = token;
}

static void take_answer(struct walk *w, bool roomy)
{
    struct completion c = peer_completion(&w->peer);
    if (c.kind == COMPLETION_EVICTED) {
        cr_assert(!roomy);
        return;
    }
    uint64_t i = c.token - w->first_token;
    cr_assert(i < w->sent);
    w->answered++;
    if (c.result == RESULT_OK) {
        cr_assert(ask_right(&w->peer, &w->orders[i], &w->rows[i]), "order %llu is wrong",
                  (unsigned long long)c.token);
        w->ok++;
        w->shadowed += w->orders[i].run.operation == RUN_KNN && c.number;
        return;
    }
    bool no_version = c.result == RESULT_NO_VERSION; /* for want of VRAM, or it were a third */
    cr_assert(c.result == RESULT_NO_REPLICA || c.result == RESULT_NO_MEMORY || no_version,
              "result %u", c.result);
    cr_assert(!roomy || no_version, "result %u where there is room for all", c.result);
    w->lost += c.result == RESULT_NO_REPLICA;
    w->no_memory += c.result == RESULT_NO_MEMORY;
    w->no_version += no_version;
    w->there[w->collection[i]] = false;
}

static void walk(const char *sim, uint32_t streams, uint64_t orders, bool roomy)
{
    struct walk *w = calloc(1, sizeof *w);
    peer_open(&w->peer, sim, streams);
    for (uint64_t done = 0; done < orders; done += LAP) {
        w->peer.used = 4096;
        for (w->sent = w->answered = 0; w->answered < LAP;) {
            if (w->sent < LAP && w->sent - w->answered < WINDOW)
                send(w);
            else
                take_answer(w, roomy);
        }
        for (uint32_t i = 0; i < LAP; i++)
            ask_free(&w->rows[i]);
    }
    for (uint32_t c = 0; c < COLLECTIONS; c++) {
        if (!w->now[c].space) continue;
        uint64_t token = peer_order(&w->peer, ask_forget(&w->now[c]));
        cr_assert_eq(peer_done(&w->peer, token).result, RESULT_OK);
        ask_free(&w->now[c]);
    }
    struct share_usage *u = &w->peer.share->usage;
    cr_assert_eq(atomic_load(&u->replica_bytes), 0);
    for (int i = 0; i < 300000 && atomic_load(&u->request_bytes); i++)
        usleep(1000);
    cr_assert_eq(atomic_load(&u->request_bytes), 0);
    fprintf(stderr,
            "%s: %llu right, of which %llu by shadows, %llu lost, %llu no memory, %llu no version, "
            "%llu evicted\n",
            sim, (unsigned long long)w->ok, (unsigned long long)w->shadowed,
            (unsigned long long)w->lost, (unsigned long long)w->no_memory,
            (unsigned long long)w->no_version, (unsigned long long)atomic_load(&u->evictions));
    cr_assert(w->ok > orders / 3);
    cr_assert(!roomy || w->shadowed > 0, "%llu", (unsigned long long)w->shadowed);
    peer_close(&w->peer);
    cr_assert_eq(w->peer.result, 0);
    free(w);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

Test(server_walk, every_answer_is_what_the_model_says, .timeout = 900)
{
    uint64_t start = number_from("WALK_SEED", clock_now_ns() | 1);
    uint64_t orders = number_from("WALK_ORDERS", 600 / sweep_stride(6));
    fprintf(stderr, "WALK_SEED=%llu\n", (unsigned long long)start);
    seed = start;
    for (uint32_t i = 0; i < 8; i++) {
        char sim[200];
        bool roomy = i % 4 == 3;
        uint64_t vram = roomy ? 256 : 3 + pick(5);
        static const uint32_t latencies[] = {0, 5, 100, 1000};
        snprintf(
            sim, sizeof sim,
            "vram_mib=%u granularity_kib=%u latency_us=%u vmm=%u multiply_adds=%u shadow_rows=24 "
            "strict=1",
            (unsigned)vram, 4u << pick(5), latencies[pick(4)], i % 2,
            i & 2 ? 1 : 1000000); /* 1: a kNN goes in many passes */
        walk(sim, 1 + (uint32_t)pick(6), orders, roomy);
    }
}
