/* Graphs through the socket: what changes and tells of them, what they refuse and that a refusal
 * changes nothing, quotas, spaces, drops under load. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/job.h"
#include "tests/support/graph_twin.h"
#include "tests/support/sets.h"

static ea_graph_info describe(ea_client *c, const char *name)
{
    ea_graph_info info;
    cr_assert_eq(ea_graph_describe(c, name, &info), EA_OK, "%s", ea_error_text(c));
    return info;
}

static void expect_refusal(ea_client *c, ea_status status, ea_status wanted, uint32_t detail,
                           const char *words)
{
    cr_assert_eq(status, wanted, "%s: %s", words, ea_error_text(c));
    cr_assert_eq(ea_error_detail(c), detail, "%s: %s", words, ea_error_text(c));
    cr_assert_not_null(strstr(ea_error_text(c), words), "%s: %s", words, ea_error_text(c));
}

Test(graph, comes_is_described_and_goes)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    ea_graph_info info, *list;
    size_t count;
    cr_assert_eq(ea_graph_create(c, "links", &info), EA_OK, "%s", ea_error_text(c));
    cr_assert_str_eq(info.name, "links");
    cr_assert(info.nodes == 0 && info.edges == 0);
    expect_refusal(c, ea_graph_create(c, "links", NULL), EA_ALREADY_EXISTS, DETAIL_GRAPH_EXISTS,
                   "links");
    expect_refusal(c, ea_graph_create(c, "no way", NULL), EA_INVALID_ARGUMENT, DETAIL_BAD_NAME, "");
    /* A collection may have the name too. */
    cr_assert_eq(ea_collection_create(c, "links", 4, EA_DOT, NULL), EA_OK);
    expect_refusal(c, ea_graph_describe(c, "link", &info), EA_NOT_FOUND, DETAIL_UNKNOWN_GRAPH,
                   "link");

    const uint64_t row_ids[] = {10, 20, 30}, offsets[] = {0, 2, 2, 3}, columns[] = {1, 2, 0};
    const float weights[] = {1, 0.5f, 0.25f};
    ea_graph_counts counts;
    cr_assert_eq(ea_graph_add_csr(c, "links",
                                  &(ea_graph_csr){.row_ids = row_ids,
                                                  .rows = 3,
                                                  .offsets = offsets,
                                                  .columns = columns,
                                                  .weights = weights},
                                  &counts),
                 EA_OK, "%s", ea_error_text(c));
    cr_assert(counts.edges_added == 3 && counts.nodes_added == 3 && counts.nodes == 3 &&
              counts.edges == 3);
    uint64_t version = counts.version;
    const uint8_t kinds[] = {EA_CONCEPT, EA_EPISODE};
    cr_assert_eq(ea_graph_set_nodes(c, "links",
                                    &(ea_graph_nodes){.ids = row_ids, .kinds = kinds, .count = 2},
                                    &counts),
                 EA_OK);
    cr_assert_eq(counts.version, version + 1);
    info = describe(c, "links");
    cr_assert(info.nodes == 3 && info.edges == 3 && info.version == version + 1);
    cr_assert(info.episodes == 1 && info.concepts == 1 && info.out_count_max == 2);
    cr_assert(info.edge_bytes >= 48 && info.node_bytes > 0 && info.vram_bytes == 0);

    for (int i = 0; i < 70; i++) {
        char name[16];
        snprintf(name, sizeof name, "many%02d", i);
        cr_assert_eq(ea_graph_create(c, name, NULL), EA_OK);
    }
    cr_assert_eq(ea_graph_list(c, &list, &count), EA_OK);
    cr_assert_eq(count, 71);
    cr_assert_str_eq(list[0].name, "links");
    cr_assert_str_eq(list[70].name, "many69");
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(ea_graph_drop(c, list[i].name), EA_OK, "%s", ea_error_text(c));
    ea_graph_list_free(list);
    expect_refusal(c, ea_graph_drop(c, "links"), EA_NOT_FOUND, DETAIL_UNKNOWN_GRAPH, "links");
    cr_assert_eq(ea_collection_drop(c, "links"), EA_OK);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- bad input */

static void expect_unchanged(ea_client *c, const ea_graph_info *before)
{
    ea_graph_info now = describe(c, before->name);
    cr_assert(now.nodes == before->nodes && now.edges == before->edges &&
              now.version == before->version);
}

Test(graph, bad_input_is_named_and_changes_nothing)
{
    struct scene s;
    struct twin t;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    twin_make(&t, c, "g", 100, 3);
    twin_add_edges(&t, c, 1000, 1, false);
    ea_graph_info before = describe(c, "g");
    uint64_t sources[] = {1, 2, 3}, targets[] = {4, 5, 6}, offsets[] = {0, 2, 1, 3};
    float weights[] = {1, 1, 1}, factors[] = {1, 1, 1};
    uint8_t kinds[] = {0, 1, 2};

#define ADD_EDGES()                                          \
    ea_graph_add_edges(c, "g",                               \
                       &(ea_graph_edges){.sources = sources, \
                                         .targets = targets, \
                                         .weights = weights, \
                                         .count = 3,         \
                                         .replace = true},   \
                       NULL)
#define ADD_CSR()                                         \
    ea_graph_add_csr(c, "g",                              \
                     &(ea_graph_csr){.row_ids = sources,  \
                                     .rows = 3,           \
                                     .offsets = offsets,  \
                                     .columns = targets,  \
                                     .weights = weights}, \
                     NULL)
#define SET_NODES()                                                                                \
    ea_graph_set_nodes(                                                                            \
        c, "g", &(ea_graph_nodes){.ids = sources, .kinds = kinds, .factors = factors, .count = 3}, \
        NULL)
    const float bad_weights[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        weights[i] = bad_weights[i];
        char words[16];
        snprintf(words, sizeof words, "edge %d", i);
        expect_refusal(c, ADD_EDGES(), EA_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT, words);
        weights[i] = 1;
    }
    sources[1] = UINT64_MAX;
    expect_refusal(c, ADD_EDGES(), EA_INVALID_ARGUMENT, DETAIL_BAD_NODE, "edge 1");
    sources[1] = 2;
    expect_unchanged(c, &before);

    expect_refusal(c, ADD_CSR(), EA_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "2");
    offsets[2] = 2;
    expect_refusal(c, ADD_CSR(), EA_INVALID_ARGUMENT, DETAIL_BAD_NODE, "4");
    offsets[0] = 1;
    expect_refusal(c, ADD_CSR(), EA_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS, "0");
    offsets[0] = 0;
    expect_unchanged(c, &before);

    kinds[1] = 3;
    expect_refusal(c, SET_NODES(), EA_INVALID_ARGUMENT, DETAIL_BAD_NODE, "1");
    kinds[1] = 1;
    const float bad_factors[] = {NAN, -1, 65537};
    for (int i = 0; i < 3; i++) {
        factors[i] = bad_factors[i];
        expect_refusal(c, SET_NODES(), EA_INVALID_ARGUMENT, DETAIL_BAD_NODE, "");
        factors[i] = 1;
    }
    sources[2] = sources[0];
    expect_refusal(c, SET_NODES(), EA_INVALID_ARGUMENT, DETAIL_BAD_NODE, "");
    expect_unchanged(c, &before);
    twin_expect_nodes(&t, c);

    expect_refusal(c, ea_graph_remove_nodes(c, "none", sources, 1, NULL), EA_NOT_FOUND,
                   DETAIL_UNKNOWN_GRAPH, "none");
    ea_graph_counts counts;
    uint64_t nobody[] = {123456789, 5};
    cr_assert_eq(ea_graph_remove_nodes(c, "g", nobody, 2, &counts), EA_OK);
    cr_assert_eq(counts.missing, 2);
    twin_drop(&t, c);
    ea_close(c);
    scene_close(&s);
}

/* Columns that differ in length, and hops without end, which the client library would not send. */
Test(graph, what_the_library_would_not_send_is_refused)
{
    struct scene s;
    struct sample add, spread;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "hostile");
    cr_assert_eq(ea_graph_create(c, "links", NULL), EA_OK);
    sample_find("add_edges", &add);
    int fd = scene_connect(&s);
    send_sample(fd, &add, 1);
    expect_reply(fd, 1);
    ea_graph_info before = describe(c, "links");
    add.message.add_edges.weights.rows--;
    send_sample(fd, &add, 2);
    expect_error(fd, 2, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE, "weights");
    sample_find("spread_plain", &spread);
    spread.message.spread.hops = 101;
    send_sample(fd, &spread, 3);
    expect_error(fd, 3, STATUS_INVALID_ARGUMENT, DETAIL_BAD_HOPS, "101");
    expect_alive(fd);
    close(fd);
    expect_unchanged(c, &before);
    cr_assert_eq(ea_graph_drop(c, "links"), EA_OK);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- quota */

Test(graph, over_quota_it_stays_as_it_was)
{
    enum { N = 400000 };
    struct scene s;
    struct twin t;
    scene_open(&s, (const char *[]){"quotas.host_mib=24", NULL});
    ea_client *c = scene_client(&s, "asker");
    twin_make(&t, c, "g", 300, 3);
    twin_add_edges(&t, c, 2000, 1, false);
    ea_graph_info before = describe(c, "g");
    uint64_t *ids = malloc(N * sizeof *ids);
    float *weights = malloc(N * sizeof *weights);
    for (uint64_t i = 0; i < N; i++) {
        ids[i] = i;
        weights[i] = 1;
    }
    ea_status status = ea_graph_add_edges(
        c, "g", &(ea_graph_edges){.sources = ids, .targets = ids, .weights = weights, .count = N},
        NULL);
    expect_refusal(c, status, EA_RESOURCE_EXHAUSTED, DETAIL_QUOTA, "quota");
    expect_unchanged(c, &before);
    static struct twin_question q;
    twin_ask_randomly(&t, &q, EA_LINEAR);
    twin_expect(&t, c, &q);
    free(ids);
    free(weights);
    twin_drop(&t, c);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- spaces, drops */

Test(graph, spaces_do_not_see_each_other)
{
    struct scene s;
    struct twin t, u;
    static struct twin_question q;
    scene_open(&s, NULL);
    ea_client *a = scene_client(&s, "asker"), *b = scene_client(&s, "other");
    ea_graph_info info, *list;
    size_t count;
    twin_make(&t, a, "g", 300, 3);
    twin_add_edges(&t, a, 3000, 1, false);
    expect_refusal(b, ea_graph_describe(b, "g", &info), EA_NOT_FOUND, DETAIL_UNKNOWN_GRAPH, "g");
    cr_assert_eq(ea_graph_list(b, &list, &count), EA_OK);
    cr_assert_eq(count, 0);
    ea_graph_list_free(list);
    twin_make(&u, b, "g", 200, 4); /* of the same name */
    twin_add_edges(&u, b, 1000, 2, false);
    for (int i = 0; i < 6; i++) {
        twin_ask_randomly(&t, &q, i % 2 ? EA_LINEAR : EA_ENGRAM);
        twin_expect(&t, a, &q);
        twin_ask_randomly(&u, &q, i % 2 ? EA_LINEAR : EA_ENGRAM);
        twin_expect(&u, b, &q);
    }
    twin_drop(&u, b);
    cr_assert_eq(describe(a, "g").nodes, 300);
    twin_drop(&t, a);
    ea_close(a);
    ea_close(b);
    scene_close(&s);
}

struct droppers {
    struct scene *scene;
    uint64_t ids[100];
    atomic_bool stop;
    atomic_uint answers, gone;
};

static void *spread_on(void *argument)
{
    struct droppers *d = argument;
    ea_client *c = scene_client(d->scene, "asker");
    ea_spread_options o = {.mode = EA_ENGRAM, .hops = 6};
    ea_spread_result r = {0};
    while (!atomic_load(&d->stop)) {
        ea_status status =
            ea_spread(c, "g", &o, &(ea_seeds){.sets = 1, .ids = d->ids, .count = 20}, &r);
        cr_assert(status == EA_OK || status == EA_NOT_FOUND, "%s", ea_error_text(c));
        atomic_fetch_add(status == EA_OK ? &d->answers : &d->gone, 1);
    }
    ea_spread_result_free(&r);
    ea_close(c);
    return NULL;
}

/* Dropped and made anew while others spread over it: each gets an answer, or hears that it is
 * gone. */
Test(graph, dropped_under_load, .timeout = 900)
{
    struct scene s;
    static struct droppers d;
    pthread_t threads[3];
    scene_open(&s, NULL);
    d.scene = &s;
    for (uint64_t i = 0; i < 100; i++)
        d.ids[i] = i * UINT64_C(0x9e3779b97f4a7c15) >> 8;
    ea_client *c = scene_client(&s, "asker");
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, spread_on, &d);
    int64_t until = now_ms() + 2000;
    while (now_ms() < until || !atomic_load(&d.answers) || !atomic_load(&d.gone)) {
        struct twin t;
        twin_make(&t, c, "g", 2000, 3);
        twin_add_edges(&t, c, 20000, 1, false);
        wait_ms(20);
        twin_drop(&t, c);
    }
    atomic_store(&d.stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    ea_close(c);
    scene_close(&s);
}
