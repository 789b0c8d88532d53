/* Swaps: what is made under a hidden name takes another's place at one instant, and nobody sees
 * half; what is abandoned goes with its connection.
 * test-run: timeout=300 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/sets.h"

TestSuite(swap, .timeout = 280);

enum { ROWS = 300, DIMENSION = 8, READERS = 3, SWAPS = 60 };

static void create(ea_client *c, const char *name)
{
    cr_assert_eq(ea_collection_create(c, name, DIMENSION, EA_DOT, NULL), EA_OK, "%s: %s", name,
                 ea_error_text(c));
}

/* Rows first .. first + count - 1, all numbers `value`. */
static ea_status put(ea_client *c, const char *name, uint64_t first, uint64_t count, float value)
{
    static _Thread_local uint64_t ids[ROWS];
    static _Thread_local float rows[ROWS * DIMENSION];
    for (uint64_t i = 0; i < count; i++)
        ids[i] = first + i;
    for (uint64_t i = 0; i < count * DIMENSION; i++)
        rows[i] = value;
    return ea_upsert(
        c,
        &(ea_rows){
            .collection = name, .ids = ids, .rows = rows, .count = count, .dimension = DIMENSION},
        NULL);
}

static uint64_t version_of(ea_client *c, const char *name)
{
    ea_collection_info info;
    cr_assert_eq(ea_collection_describe(c, name, &info), EA_OK, "%s", ea_error_text(c));
    return info.version;
}

static size_t count_listed(ea_client *c)
{
    ea_collection_info *list;
    ea_graph_info *graphs;
    ea_attractor_info *attractors;
    size_t collections, all;
    cr_assert_eq(ea_collection_list(c, &list, &collections), EA_OK);
    ea_collection_list_free(list);
    cr_assert_eq(ea_graph_list(c, &graphs, &all), EA_OK);
    ea_graph_list_free(graphs);
    collections += all;
    cr_assert_eq(ea_attractor_list(c, &attractors, &all), EA_OK);
    ea_attractor_list_free(attractors);
    return collections + all;
}

static uint64_t count_objects(ea_client *c)
{
    ea_stats stats;
    cr_assert_eq(ea_get_stats(c, &stats), EA_OK);
    return stats.collections + stats.graphs + stats.attractors;
}

/* ---------------------------------------------------------------- nobody sees half */

struct reading {
    const struct scene *scene;
    atomic_bool *stop;
    atomic_uint *begun;
    unsigned asked, halves;
};

/* Whoever reads sees all rows of one load. */
static void *read_on(void *user)
{
    struct reading *r = user;
    ea_client *c = scene_client(r->scene, "swap");
    ea_result result = {0};
    while (!atomic_load(r->stop)) {
        bool half =
            ea_fetch_range(c, "shown", 0, 2 * ROWS, &result) != EA_OK || result.rows != ROWS;
        for (uint64_t i = 0; !half && i < ROWS * DIMENSION; i++)
            half = result.vectors[i] != result.vectors[0];
        r->halves += half;
        if (!r->asked++) atomic_fetch_add(r->begun, 1);
    }
    ea_result_free(&result);
    ea_close(c);
    return NULL;
}

Test(swap, nobody_sees_half)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "swap");
    atomic_bool stop = false;
    atomic_uint begun = 0;
    struct reading readings[READERS];
    pthread_t threads[READERS];
    create(c, "shown");
    cr_assert_eq(put(c, "shown", 0, ROWS, 1), EA_OK);
    for (int i = 0; i < READERS; i++) {
        readings[i] = (struct reading){&s, &stop, &begun, 0, 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, read_on, &readings[i]), 0);
    }
    while (atomic_load(&begun) < READERS)
        wait_ms(1);
    uint64_t version = version_of(c, "shown");
    for (int i = 0; i < SWAPS; i++) {
        ea_swapped swapped;
        create(c, "~next");
        for (uint64_t first = 0; first < ROWS; first += 50)
            cr_assert_eq(put(c, "~next", first, 50, (float)i), EA_OK, "%s", ea_error_text(c));
        cr_assert_eq(ea_swap(c, EA_COLLECTION, "shown", "~next", &swapped), EA_OK, "%s",
                     ea_error_text(c));
        cr_assert_eq(swapped.replaced_version, version);
        cr_assert(swapped.version > version);
        cr_assert_eq(version_of(c, "shown"), swapped.version);
        version = swapped.version;
    }
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(readings[i].halves, 0, "%u of %u answers were partial", readings[i].halves,
                     readings[i].asked);
    }
    cr_assert_eq(count_objects(c), 1);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- hidden names */

Test(swap, what_is_hidden_goes_with_its_connection)
{
    struct scene s;
    scene_open(&s, (const char *[]){"limits.collections=4", NULL});
    ea_client *c = scene_client(&s, "swap"), *maker = scene_client(&s, "swap");
    create(c, "shown");
    create(maker, "~rows");
    cr_assert_eq(put(maker, "~rows", 0, ROWS, 1), EA_OK);
    cr_assert_eq(ea_graph_create(maker, "~graph", NULL), EA_OK);
    cr_assert_eq(
        ea_attractor_create(maker, "~memory", &(ea_attractor_shape){.dimension = DIMENSION}, NULL),
        EA_OK, "%s", ea_error_text(maker));
    cr_assert_eq(count_listed(c), 1);
    cr_assert_eq(count_objects(c), 4, "they count");
    cr_assert_eq(ea_collection_create(c, "fifth", 2, EA_DOT, NULL), EA_RESOURCE_EXHAUSTED);
    cr_assert_eq(ea_error_detail(c), EA_DETAIL_TOO_MANY_COLLECTIONS);
    cr_assert_eq(put(c, "~rows", 5, 10, 2), EA_OK, "another connection may use it");
    cr_assert_eq(version_of(c, "~rows") > 0, 1);

    ea_close(maker);
    while (count_objects(c) > 1)
        wait_ms(2);
    cr_assert_eq(put(c, "~rows", 0, 1, 1), EA_NOT_FOUND);
    cr_assert_eq(count_listed(c), 1);

    /* It goes with the connection that made it, not with others that use it; and what was swapped
     * in does not go. */
    maker = scene_client(&s, "swap");
    create(maker, "~kept");
    ea_client *user = scene_client(&s, "swap");
    cr_assert_eq(put(user, "~kept", 0, 5, 1), EA_OK);
    ea_close(user);
    cr_assert_eq(ea_swap(c, EA_COLLECTION, "kept", "~kept", NULL), EA_OK, "%s", ea_error_text(c));
    ea_close(maker);
    user = scene_client(&s, "swap");
    create(user, "~gone"); /* once this one is gone, so would be what the other left */
    ea_close(user);
    while (count_objects(c) > 2)
        wait_ms(2);
    cr_assert_eq(count_listed(c), 2);
    cr_assert_eq(put(c, "kept", 5, 1, 1), EA_OK);
    ea_close(c);
    scene_close(&s);
}

Test(swap, what_is_hidden_goes_with_a_client_that_is_killed_while_it_writes)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "swap");
    create(c, "shown");
    for (int i = 0; i < 20; i++) {
        ea_client *maker = scene_client(&s, "swap");
        static float rows[ROWS * DIMENSION];
        static uint64_t ids[ROWS];
        for (uint64_t n = 0; n < ROWS; n++)
            ids[n] = n;
        create(maker, "~rows");
        const ea_rows all = {
            .collection = "~rows", .ids = ids, .rows = rows, .count = ROWS, .dimension = DIMENSION};
        for (int n = 0; n < 8; n++)
            cr_assert_eq(ea_upsert_send(maker, &all, NULL, NULL), EA_OK);
        ea_pump(maker, 0);
        ea_close(maker); /* with its writes in line */
        while (count_objects(c) > 1)
            wait_ms(1);
    }
    ea_close(c);
    scene_settle(&s);
    scene_close(&s);
}

/* ---------------------------------------------------------------- graphs, attractors, errors */

Test(swap, graphs_and_attractors_and_their_errors)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "swap");
    const uint64_t ids[] = {1, 2, 3};
    const float weights[] = {.5f, .25f, 1};
    ea_graph_info info;
    ea_swapped swapped;
    ea_nodes nodes = {0};
    cr_assert_eq(ea_graph_create(c, "~links", NULL), EA_OK);
    cr_assert_eq(
        ea_graph_add_edges(
            c, "~links",
            &(ea_graph_edges){.sources = ids, .targets = ids, .weights = weights, .count = 3},
            NULL),
        EA_OK);
    /* Nothing need be there, and it may be the only one that there is. */
    cr_assert_eq(ea_swap(c, EA_GRAPH, "links", "~links", &swapped), EA_OK, "%s", ea_error_text(c));
    cr_assert_eq(swapped.replaced_version, 0);
    cr_assert_eq(ea_graph_describe(c, "links", &info), EA_OK);
    cr_assert(info.edges == 3 && info.version == swapped.version);
    cr_assert_eq(ea_graph_fetch_nodes(c, "links", ids, 3, true, &nodes), EA_OK);
    cr_assert(nodes.missing == 0 && nodes.weights[1] == .25f);
    ea_nodes_free(&nodes);
    cr_assert_eq(ea_graph_describe(c, "~links", &info), EA_NOT_FOUND);

    for (int i = 0; i < 2; i++) {
        ea_attractor_info memory;
        cr_assert_eq(ea_attractor_create(
                         c, "~memory", &(ea_attractor_shape){.dimension = 4u + (uint32_t)i}, NULL),
                     EA_OK);
        while (ea_swap(c, EA_ATTRACTOR, "memory", "~memory", &swapped) != EA_OK) {
            cr_assert_eq(ea_error_detail(c), EA_DETAIL_BEING_WRITTEN, "%s", ea_error_text(c));
            cr_assert(ea_error_retryable(c) && ea_error_retry_after_ms(c) > 0);
            wait_ms(1);
        }
        cr_assert_eq(ea_attractor_describe(c, "memory", &memory), EA_OK);
        cr_assert(memory.dimension == 4u + (uint32_t)i && memory.version == swapped.version);
        cr_assert_eq(swapped.replaced_version > 0, i);
    }

    struct {
        ea_object object;
        const char *name, *with;
        ea_status status;
        uint32_t detail;
    } wrong[] = {
        {EA_COLLECTION, "rows", "~none", EA_NOT_FOUND, EA_DETAIL_UNKNOWN_COLLECTION},
        {EA_GRAPH, "links", "~none", EA_NOT_FOUND, EA_DETAIL_UNKNOWN_GRAPH},
        {EA_ATTRACTOR, "memory", "~none", EA_NOT_FOUND, EA_DETAIL_UNKNOWN_ATTRACTOR},
        {EA_COLLECTION, "links", "memory", EA_NOT_FOUND, EA_DETAIL_UNKNOWN_COLLECTION},
        {EA_GRAPH, "links", "links", EA_INVALID_ARGUMENT, EA_DETAIL_BAD_NAME},
        {EA_GRAPH, "~other", "links", EA_INVALID_ARGUMENT, EA_DETAIL_BAD_NAME},
        {EA_GRAPH, "a b", "links", EA_INVALID_ARGUMENT, EA_DETAIL_BAD_NAME},
        {EA_GRAPH, "other", "", EA_INVALID_ARGUMENT, EA_DETAIL_BAD_NAME},
        {(ea_object)0, "other", "links", EA_INVALID_ARGUMENT, EA_DETAIL_BAD_NAME},
        {(ea_object)4, "other", "links", EA_INVALID_ARGUMENT, EA_DETAIL_BAD_NAME},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_assert_eq(ea_swap(c, wrong[i].object, wrong[i].name, wrong[i].with, NULL),
                     wrong[i].status, "%zu: %s", i, ea_error_text(c));
        cr_assert_eq(ea_error_detail(c), wrong[i].detail, "%zu: %s", i, ea_error_text(c));
    }
    cr_assert_eq(ea_graph_create(c, "~", NULL), EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_swap(c, EA_GRAPH, "renamed", "links", NULL), EA_OK, "a name that is seen");
    cr_assert_eq(ea_graph_describe(c, "renamed", &info), EA_OK);
    cr_assert_eq(count_listed(c), 2);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- what it expects */

static void note(ea_client *c, const ea_answer *answer, void *user)
{
    (void)c;
    *(ea_status *)user = answer->status;
}

Test(swap, is_a_write_of_what_it_replaces)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "swap");
    ea_swapped swapped, again;
    create(c, "~a");
    create(c, "rows");
    uint64_t there = version_of(c, "rows"), other = version_of(c, "~a");
    ea_next_write(c, &(ea_write){.version = other});
    cr_assert_eq(ea_swap(c, EA_COLLECTION, "rows", "~a", NULL), EA_ABORTED);
    cr_assert_eq(ea_error_version(c), there);
    ea_next_write(c, &(ea_write){.version = other});
    cr_assert_eq(ea_swap(c, EA_COLLECTION, "none", "~a", NULL), EA_ABORTED);
    ea_next_write(c, &(ea_write){.version = other + 100000});
    cr_assert_eq(ea_swap(c, EA_COLLECTION, "none", "~a", NULL), EA_INVALID_ARGUMENT);
    cr_assert_eq(version_of(c, "rows"), there);
    const ea_write once = {.version = there, .token = {1, 2, 3}};
    ea_next_write(c, &once);
    cr_assert_eq(ea_swap(c, EA_COLLECTION, "rows", "~a", &swapped), EA_OK, "%s", ea_error_text(c));
    cr_assert(swapped.replaced_version == there && swapped.version > there);
    ea_next_write(c, &once);
    cr_assert_eq(ea_swap(c, EA_COLLECTION, "rows", "~a", &again), EA_OK, "%s", ea_error_text(c));
    cr_assert(memcmp(&again, &swapped, sizeof again) == 0, "the first one's answer");

    ea_status status = EA_UNKNOWN;
    create(c, "~b");
    const ea_send_options how = {.callback = note, .user = &status};
    cr_assert_eq(ea_swap_send(c, EA_COLLECTION, "rows", "~b", &how, NULL), EA_OK);
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    cr_assert_eq(status, EA_OK);
    ea_close(c);
    scene_close(&s);
}
