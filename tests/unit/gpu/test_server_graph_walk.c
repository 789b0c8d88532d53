/* The GPU process's server on a long random walk over graphs: several spaces, more than the VRAM
 * holds, changes page by page between spreads, many orders under way at once, each answer compared
 * with the CPU's. The seed is printed; WALK_SEED sets it, WALK_ORDERS how far to go. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "tests/support/gpu_graph.h"

enum { SPACES = 4, EACH = 4, GRAPHS = SPACES * EACH, WINDOW = 30, LAP = 100, NODES_MAX = 2500 };
enum { PAGE = 16384 };

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
    struct gpu_graph now[GRAPHS];
    bool there[GRAPHS]; /* as far as the front knows */
    /* Of uploads: the same for all of a graph until one was answered with NO_VERSION. What has
     * not come then comes with the next one: all of it. */
    uint32_t round[GRAPHS], last_round;
    bool behind[GRAPHS];
    uint64_t version;
    /* A lap: what is under way or done; the heap and these are taken anew after it. */
    struct order orders[LAP + 64];
    struct gpu_graph then[LAP + 64]; /* as it was, of spreads */
    uint32_t graph[LAP + 64];
    uint32_t sent, answered;
    uint64_t first_token;
    uint64_t ok, lost, no_memory, no_version;
};

static void send(struct walk *w, uint32_t n, struct order o)
{
    cr_assert(w->sent < LAP + 64);
    w->orders[w->sent] = o;
    w->graph[w->sent] = n;
    w->then[w->sent] = o.kind == ORDER_SPREAD ? graph_copy(&w->now[n]) : (struct gpu_graph){0};
    uint64_t token = peer_order(&w->peer, o);
    if (w->sent++ == 0) w->first_token = token;
}

static struct order in_round(const struct walk *w, uint32_t n, struct order o)
{
    o.part.round = w->round[n];
    return o;
}

/* The whole graph; its version with the last part. */
static void upload(struct walk *w, uint32_t n, bool fresh)
{
    const struct gpu_graph *g = &w->now[n];
    for (uint32_t part = 0; part < ORDER_PARTS_MAX; part++)
        send(w, n,
             in_round(w, n,
                      graph_upload(&w->peer, g, fresh && part == 0, part, 0, g->bytes[part],
                                   part + 1 == ORDER_PARTS_MAX ? g->version : 0)));
    w->there[n] = true;
    w->behind[n] = false;
}

/* Another graph, of another size: perhaps on top of the one that was. */
static void rebuild(struct walk *w, uint32_t n)
{
    bool fresh = !w->there[n] || pick(2) == 0;
    uint32_t nodes = 1 + (uint32_t)pick(pick(3) ? NODES_MAX : 20);
    graph_free(&w->now[n]);
    w->now[n] = graph_make(n / EACH + 1, n + 1, ++w->version, nodes, (uint32_t)pick(5), pick(2),
                           pick(1000000));
    if (fresh) w->round[n] = ++w->last_round;
    upload(w, n, fresh);
}

/* The edges of both sides, in pages; the version with the last. */
static void reweigh(struct walk *w, uint32_t n)
{
    struct gpu_graph *g = &w->now[n];
    graph_reweigh(g, pick(1000000));
    g->version = ++w->version;
    if (w->behind[n]) {
        upload(w, n, false);
        return;
    }
    for (uint32_t part = PART_OUT_EDGES; part <= PART_IN_EDGES; part++)
        for (uint64_t at = 0; at < g->bytes[part]; at += PAGE) {
            uint64_t count = g->bytes[part] - at < PAGE ? g->bytes[part] - at : PAGE;
            send(w, n, in_round(w, n, graph_upload(&w->peer, g, false, part, at, count, 0)));
        }
    send(w, n, in_round(w, n, graph_upload(&w->peer, g, false, PART_IDS, 0, 0, g->version)));
}

static void spread(struct walk *w, uint32_t n)
{
    bool engram = pick(2);
    uint32_t nodes = w->now[n].nodes;
    send(w, n,
         graph_ask(&w->peer, &w->now[n],
                   (struct spread_asked){.mode = engram ? SPREAD_ENGRAM : SPREAD_LINEAR,
                                         .hops = 1 + (uint32_t)pick(5),
                                         .sets = 1 + (uint32_t)pick(pick(4) ? 3 : 30),
                                         .seeds = 1 + (uint32_t)pick(20),
                                         .fan = engram ? (uint32_t)pick(3) : 0,
                                         .flags = pick(2) ? ORDER_SPREAD_PATHS : 0,
                                         .touched_max = pick(3) ? 0 : 1 + pick(200),
                                         .room = pick(3) ? 0 : nodes + pick(nodes * 3 + 1),
                                         .filtered = pick(4) == 0,
                                         .threshold = pick(2) ? 0.01f : 0.0f,
                                         .seed = pick(1000000)}));
}

static void step(struct walk *w)
{
    uint32_t n = (uint32_t)pick(GRAPHS);
    if (!w->there[n] || pick(20) == 0) {
        rebuild(w, n);
    } else if (pick(60) == 0) {
        send(w, n, graph_forget(&w->now[n]));
        w->there[n] = false;
    } else if (pick(6) == 0) {
        reweigh(w, n);
    } else {
        spread(w, n);
    }
}

/* There were two versions already: nothing of this upload's round has come since, and the next
 * begins another. */
static void put_off(struct walk *w, uint32_t n, uint32_t round)
{
    if (round != w->round[n]) return;
    w->round[n] = ++w->last_round;
    w->behind[n] = true;
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
        cr_assert(graph_right(&w->peer, &w->orders[i], &w->then[i]), "order %llu is wrong",
                  (unsigned long long)c.token);
        w->ok += w->orders[i].kind == ORDER_SPREAD;
        return;
    }
    w->no_version += c.result == RESULT_NO_VERSION;
    if (c.result == RESULT_NO_VERSION && w->orders[i].kind == ORDER_UPLOAD_PART)
        put_off(w, w->graph[i], w->orders[i].part.round);
    if (c.result == RESULT_NO_VERSION) return;
    cr_assert(c.result == RESULT_NO_REPLICA || c.result == RESULT_NO_MEMORY, "result %u", c.result);
    cr_assert(!roomy, "result %u where there is room for all", c.result);
    w->lost += c.result == RESULT_NO_REPLICA;
    w->no_memory += c.result == RESULT_NO_MEMORY;
    if (w->orders[i].kind != ORDER_SPREAD || c.result == RESULT_NO_REPLICA)
        w->there[w->graph[i]] = false;
}

static void lap(struct walk *w, bool roomy)
{
    w->peer.used = 4096;
    for (w->sent = w->answered = 0; w->sent < LAP || w->answered < w->sent;) {
        if (w->sent < LAP && w->sent - w->answered < WINDOW)
            step(w);
        else
            take_answer(w, roomy);
    }
    for (uint32_t i = 0; i < w->sent; i++)
        graph_free(&w->then[i]);
}

static void walk(const char *sim, uint32_t streams, uint64_t orders, bool roomy)
{
    struct walk *w = calloc(1, sizeof *w);
    peer_open(&w->peer, sim, streams);
    for (uint64_t done = 0; done < orders; done += LAP)
        lap(w, roomy);
    for (uint32_t n = 0; n < GRAPHS; n++) {
        if (!w->now[n].space) continue;
        uint64_t token = peer_order(&w->peer, graph_forget(&w->now[n]));
        cr_assert_eq(peer_done(&w->peer, token).result, RESULT_OK);
        graph_free(&w->now[n]);
    }
    struct share_usage *u = &w->peer.share->usage;
    cr_assert_eq(atomic_load(&u->replica_bytes), 0);
    for (int i = 0; i < 300000 && atomic_load(&u->request_bytes); i++)
        usleep(1000);
    cr_assert_eq(atomic_load(&u->request_bytes), 0);
    fprintf(stderr, "%s: %llu right, %llu lost, %llu no memory, %llu no version, %llu evicted\n",
            sim, (unsigned long long)w->ok, (unsigned long long)w->lost,
            (unsigned long long)w->no_memory, (unsigned long long)w->no_version,
            (unsigned long long)atomic_load(&u->evictions));
    cr_assert(w->ok > orders / 20);
    peer_close(&w->peer);
    cr_assert_eq(w->peer.result, 0);
    free(w);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

Test(server_graph_walk, every_answer_is_the_cpus, .timeout = 900)
{
    uint64_t start = number_from("WALK_SEED", clock_now_ns() | 1);
    uint64_t orders = number_from("WALK_ORDERS", 600);
    fprintf(stderr, "WALK_SEED=%llu\n", (unsigned long long)start);
    seed = start;
    for (uint32_t i = 0; i < 8; i++) {
        char sim[160];
        bool roomy = i % 4 == 3;
        uint64_t vram = roomy ? 256 : 4 + pick(4);
        static const uint32_t latencies[] = {0, 5, 100, 1000};
        /* many sets in passes or at once, as it is thought that they should */
        snprintf(sim, sizeof sim,
                 "vram_mib=%u granularity_kib=%u latency_us=%u vmm=%u pass_sets=%u "
                 "multiply_adds=%u strict=1",
                 (unsigned)vram, 4u << pick(3), latencies[pick(4)], i % 2, (unsigned)pick(6),
                 pick(3) ? 1u : 100000000u);
        walk(sim, 1 + (uint32_t)pick(6), orders, roomy);
    }
}
