/* Editions of a graph: what a reader has pinned stays as it was, whatever writers do; and what it
 * costs goes with it. */
#include <criterion/criterion.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/store/graph.h"
#include "tests/support/graph_house.h"
#include "tests/support/graph_model.h"
#include "tests/support/graph_steps.h"
#include "tests/support/sweep.h"

enum { PINS = 3 };

/* Readers, each with what it should see. */
static struct pinned {
    struct graph_edition *edition;
    struct graph_model as;
    uint64_t version;
} pins[PINS];

static struct graph_model model;
static struct step_batch batch;

static void let_go(struct house *h, struct pinned *p)
{
    if (!p->edition) return;
    model_check_edition(&p->as, p->edition);
    cr_assert_eq(graph_version(p->edition), p->version);
    graph_release(p->edition);
    graph_free_gone(h->heap, graph_take_gone(h->graph));
    p->edition = NULL;
}

static void pin(struct house *h, struct pinned *p)
{
    p->edition = graph_pin(h->graph);
    cr_assert_not_null(p->edition);
    p->version = graph_info(h->graph).version;
    p->as = model;
}

static void close_empty(struct house *h)
{
    for (int i = 0; i < PINS; i++)
        let_go(h, &pins[i]);
    graph_clear(h->graph);
    cr_assert_eq(heap_usage(h->heap).blocks, 0);
    close_house(h);
}

Test(graph_editions, agree_with_a_naive_model_each, .timeout = 900)
{
    const uint64_t ranges[] = {2, 60, 700, 6500};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        struct house h = open_house(256 * MIB);
        struct graph_shadow shadow = {0};
        model = (struct graph_model){0};
        unsigned seed = 7 + (unsigned)i;
        for (int step = 0; step < 400; step += (int)sweep_stride(10)) {
            struct pinned *p = &pins[rand_r(&seed) % PINS];
            if (rand_r(&seed) % 3 == 0) let_go(&h, p);
            if (rand_r(&seed) % 2 && !p->edition) pin(&h, p);
            graph_step(&model, h.graph, &batch, ranges[i], &seed);
            if (step % 5 == 0 || model.edge_count < 200) {
                model_check(&model, h.graph);
                shadow_follow(&shadow, h.graph, rand_r(&seed) % 2 ? 0 : 150000);
                for (int k = 0; k < PINS; k++)
                    if (pins[k].edition) model_check_edition(&pins[k].as, pins[k].edition);
            }
        }
        shadow_finish(&shadow);
        close_empty(&h);
    }
}

/* As the pipeline does it: what is written is there when it is published. */
Test(graph_editions, are_the_newest_once_published)
{
    struct house h = open_house(64 * MIB);
    const uint64_t s[] = {1, 2}, t[] = {2, 3};
    const float w[] = {1, 2};
    struct graph_counts counts;
    struct failure f = {0};
    for (int pinned = 0; pinned < 2; pinned++) {
        struct graph_edition *e = pinned ? graph_pin(h.graph) : NULL;
        uint64_t version = graph_info(h.graph).version;
        graph_expect_write(h.graph);
        cr_assert_eq(graph_add_edges(h.graph, s + pinned, t + pinned, w, 1, false, &counts, &f),
                     STATUS_OK);
        struct graph_edition *written = graph_written(h.graph);
        cr_assert_gt(graph_version(written), version);
        if (pinned) {
            cr_assert_neq(written, e);
            cr_assert_eq(graph_info(h.graph).version, version, "not yet");
            cr_assert_eq(graph_pin(h.graph), e, "who comes does not wait");
            graph_release(e);
        } else {
            cr_assert_null(graph_pin(h.graph), "it is changed in place");
        }
        graph_publish(h.graph);
        cr_assert_eq(graph_now(h.graph), written);
        cr_assert_eq(graph_edges(graph_now(h.graph)), (uint64_t)pinned + 1);
        if (e) cr_assert_eq(graph_edges(e), 1);
        if (e) graph_release(e);
    }
    graph_free_gone(h.heap, graph_take_gone(h.graph));
    close_house(&h);
}

/* A delta of one edge copies two pages of lists and two lists, however large the graph is. */
Test(graph_editions, a_delta_copies_little)
{
    enum { NODES = 50000, EDGES = 400000, COPIES_MAX = 1 << 20 };
    struct house h = open_house(256 * MIB);
    struct edges e = draw_edges(EDGES, NODES, 3);
    add_edges(h.graph, &e, false);
    struct graph_counts counts;
    struct failure f = {0};
    float sum, delta = 0.5f;
    struct graph_deltas d = {e.sources + 5, e.targets + 5, &delta, 1, -FLT_MAX, FLT_MAX, true};
    graph_remove_edges(h.graph, d.sources, d.targets, 1, &counts, &f);
    cr_assert_eq(graph_add_weights(h.graph, &d, &sum, &counts, &f), STATUS_OK, "%s", f.text);
    uint64_t before = heap_usage(h.heap).bytes_used;
    struct graph_edition *old = graph_pin(h.graph);
    cr_assert_eq(graph_add_weights(h.graph, &d, &sum, &counts, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(sum, 1);
    cr_assert_leq(heap_usage(h.heap).bytes_used, before + COPIES_MAX);
    graph_release(old);
    graph_free_gone(h.heap, graph_take_gone(h.graph));
    free_edges(&e);
    close_house(&h);
}

/* However often all weights change while one reader goes on. */
Test(graph_editions, a_long_reader_costs_the_graph_once_more)
{
    enum { NODES = 20000, EDGES = 400000, TIMES = 20 };
    struct house h = open_house(256 * MIB);
    struct edges e = draw_edges(EDGES, NODES, 3);
    struct failure f = {0};
    add_edges(h.graph, &e, false);
    uint64_t alone = heap_usage(h.heap).bytes_used;
    struct graph_edition *old = graph_pin(h.graph);
    for (int i = 0; i < TIMES; i++) {
        cr_assert_eq(graph_scale(h.graph, i % 2 ? 2 : 0.5f, &f), STATUS_OK);
        cr_assert_leq(heap_usage(h.heap).bytes_used, alone * 21 / 10);
    }
    graph_release(old);
    graph_free_gone(h.heap, graph_take_gone(h.graph));
    cr_assert_leq(heap_usage(h.heap).bytes_used, alone * 101 / 100);
    free_edges(&e);
    close_house(&h);
}

/* Where there is no memory for both, the write is refused until the reader is through. */
Test(graph_editions, without_memory_the_write_is_refused)
{
    enum { NODES = 20000, EDGES = 400000 };
    struct house h = open_house(64 * MIB);
    struct edges e = draw_edges(EDGES, NODES, 3);
    struct failure f = {0};
    add_edges(h.graph, &e, false);
    cr_assert_eq(heap_quota(h.heap, h.space->number, heap_usage(h.heap).bytes_used + 3 * MIB),
                 STATUS_OK);
    uint64_t version = graph_info(h.graph).version;
    struct graph_edition *old = graph_pin(h.graph);
    cr_assert_eq(graph_scale(h.graph, 0.5f, &f), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(f.detail, DETAIL_QUOTA);
    cr_assert_gt(f.retry_after_ms, 0);
    cr_assert_eq(graph_info(h.graph).version, version);
    cr_assert_eq(graph_now(h.graph), old);
    graph_release(old);
    cr_assert_eq(graph_scale(h.graph, 0.5f, &f), STATUS_OK, "in place, as nobody reads");
    free_edges(&e);
    close_house(&h);
}
