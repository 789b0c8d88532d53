/* Writes on condition of a version: what is expected is there, or nothing is written and the writer
 * is told what is there. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/sets.h"

enum { THREADS = 4, INCREMENTS = 50 };

static const uint64_t ids[] = {1, 2, 3};
static const float rows[] = {1, 2, 3, 4, 5, 6};

static ea_status upsert(ea_client *c, const ea_write *write, ea_upsert_counts *counts)
{
    return ea_upsert(c,
                     &(ea_rows){.collection = "rows",
                                .ids = ids,
                                .rows = rows,
                                .count = 3,
                                .dimension = 2,
                                .write = write},
                     counts);
}

static uint64_t version_of_rows(ea_client *c)
{
    ea_collection_info info;
    cr_assert_eq(ea_collection_describe(c, "rows", &info), EA_OK, "%s", ea_error_text(c));
    return info.version;
}

static void expect_aborted(ea_client *c, ea_status st, uint64_t version)
{
    cr_assert_eq(st, EA_ABORTED, "%s", ea_error_text(c));
    cr_assert_eq(ea_error_detail(c), EA_DETAIL_VERSION_CHANGED);
    cr_assert_eq(ea_error_version(c), version, "%s", ea_error_text(c));
    cr_assert_not(ea_error_retryable(c));
}

Test(conditions, a_write_finds_the_version_that_it_expects_or_aborts)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "conditions");
    ea_collection_info info;
    ea_upsert_counts counts;
    cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, &info), EA_OK);
    ea_write write = {.version = info.version};
    cr_assert_eq(upsert(c, &write, &counts), EA_OK, "%s", ea_error_text(c));
    cr_assert(counts.inserted == 3 && counts.version > info.version);

    expect_aborted(c, upsert(c, &write, NULL), counts.version);
    cr_assert_eq(version_of_rows(c), counts.version);
    write.at_least = true;
    uint64_t before = counts.version;
    cr_assert_eq(upsert(c, &write, &counts), EA_OK, "%s", ea_error_text(c));
    cr_assert(counts.version > before);

    write = (ea_write){.version = counts.version + 1000};
    for (int at_least = 0; at_least < 2; at_least++) {
        write.at_least = at_least;
        cr_assert_eq(upsert(c, &write, NULL), EA_INVALID_ARGUMENT);
        cr_assert_eq(ea_error_detail(c), EA_DETAIL_UNKNOWN_VERSION);
        cr_assert_eq(ea_error_version(c), 0);
    }
    cr_assert_eq(version_of_rows(c), counts.version);

    /* The same name again is another collection. */
    write = (ea_write){.version = counts.version};
    cr_assert_eq(ea_collection_drop(c, "rows"), EA_OK);
    cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, &info), EA_OK);
    expect_aborted(c, upsert(c, &write, NULL), info.version);
    write.at_least = true;
    cr_assert_eq(upsert(c, &write, NULL), EA_OK, "%s", ea_error_text(c));
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- every write */

struct sent {
    ea_status status;
    uint32_t detail;
    uint64_t version;
    int answers;
};

static void note(ea_client *c, const ea_answer *answer, void *user)
{
    struct sent *sent = user;
    sent->status = answer->status;
    sent->detail = ea_error_detail(c);
    sent->version = ea_error_version(c);
    sent->answers++;
}

#define ABORTS(call)                                                                             \
    do {                                                                                         \
        struct sent sent = {0};                                                                  \
        const ea_send_options how = {.callback = note, .user = &sent, .write = &stale};          \
        cr_assert_eq((call), EA_OK, "%s", ea_error_text(c));                                     \
        while (ea_pending(c))                                                                    \
            cr_assert_eq(ea_pump(c, -1), EA_OK);                                                 \
        cr_assert(sent.answers == 1 && sent.status == EA_ABORTED, "%s: %d", #call, sent.status); \
        cr_assert_eq(sent.detail, EA_DETAIL_VERSION_CHANGED, #call);                             \
        cr_assert_eq(sent.version, there, #call);                                                \
    } while (0)

Test(conditions, every_write_takes_one)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "conditions");
    ea_graph_info links;
    const uint64_t offsets[] = {0, 1, 2, 3};
    ea_graph_counts counts;
    cr_assert_eq(ea_graph_create(c, "links", &links), EA_OK);
    ea_graph_edges edges = {.sources = ids, .targets = ids, .weights = rows, .count = 3};
    cr_assert_eq(ea_graph_add_edges(c, "links", &edges, &counts), EA_OK);
    ea_write stale = {.version = links.version};
    uint64_t there = counts.version;
    ea_graph_csr matrix = {.rows = 3, .offsets = offsets, .columns = ids, .weights = rows};
    const ea_graph_nodes nodes = {.ids = ids, .count = 3};
    ABORTS(ea_graph_add_edges_send(c, "links", &edges, &how, NULL));
    ABORTS(ea_graph_add_csr_send(c, "links", &matrix, &how, NULL));
    ABORTS(ea_graph_remove_edges_send(c, "links", &edges, &how, NULL));
    ABORTS(ea_graph_add_weights_send(c, "links", &edges, &how, NULL));
    ABORTS(ea_graph_scale_send(c, "links", 0.5f, &how, NULL));
    ABORTS(ea_graph_prune_send(c, "links", 9, &how, NULL));
    ABORTS(ea_graph_set_nodes_send(c, "links", &nodes, &how, NULL));
    ABORTS(ea_graph_remove_nodes_send(c, "links", ids, 3, &how, NULL));
    ABORTS(ea_graph_drop_send(c, "links", &how, NULL));
    edges.write = matrix.write = &stale;
    expect_aborted(c, ea_graph_add_weights(c, "links", &edges, NULL, NULL), there);
    expect_aborted(c, ea_graph_add_csr(c, "links", &matrix, NULL), there);
    cr_assert_eq(ea_graph_describe(c, "links", &links), EA_OK);
    cr_assert(links.version == there && links.edges == 3);

    ea_collection_info info;
    ea_upsert_counts upserted;
    cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, &info), EA_OK);
    cr_assert_eq(upsert(c, NULL, &upserted), EA_OK);
    stale.version = info.version;
    there = upserted.version;
    ABORTS(ea_delete_send(c, "rows", ids, 3, &how, NULL));
    ABORTS(ea_collection_drop_send(c, "rows", &how, NULL));
    cr_assert_eq(version_of_rows(c), there);

    const ea_send_options how = {.callback = note, .write = &stale};
    cr_assert_eq(ea_fetch_send(c, "rows", ids, 3, &how, NULL), EA_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(ea_error_text(c), "changes nothing"));
    edges.write = &stale;
    cr_assert_eq(ea_graph_add_edges_send(c, "links", &edges, &how, NULL), EA_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(ea_error_text(c), "twice"));

    stale.version = there;
    struct sent sent = {0};
    const ea_send_options last = {.callback = note, .user = &sent, .write = &stale};
    cr_assert_eq(ea_collection_drop_send(c, "rows", &last, NULL), EA_OK);
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    cr_assert_eq(sent.status, EA_OK);
    cr_assert_eq(ea_collection_describe(c, "rows", &info), EA_NOT_FOUND);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- read, then write */

struct setter {
    pthread_t thread;
    const struct scene *scene;
    uint64_t set;
};

/* Sets the edge's weight to one more than it was when it was read, until nobody came between. */
static void *set_one_more(void *argument)
{
    struct setter *t = argument;
    ea_client *c = scene_client(t->scene, "conditions");
    const uint64_t from[] = {1}, to[] = {2};
    while (t->set < INCREMENTS) {
        ea_nodes nodes = {0};
        if (ea_graph_fetch_nodes(c, "links", from, 1, true, &nodes)) break;
        float weight = nodes.weights[0] + 1;
        const ea_write write = {.version = nodes.meta->version};
        ea_status st = ea_graph_add_edges(c, "links",
                                          &(ea_graph_edges){.sources = from,
                                                            .targets = to,
                                                            .weights = &weight,
                                                            .count = 1,
                                                            .replace = true,
                                                            .write = &write},
                                          NULL);
        ea_nodes_free(&nodes);
        if (st && st != EA_ABORTED) break;
        t->set += !st;
    }
    ea_close(c);
    return NULL;
}

Test(conditions, nobody_comes_between_a_read_and_a_write)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "conditions");
    struct setter threads[THREADS];
    const uint64_t from[] = {1}, to[] = {2};
    const float nothing = 0;
    cr_assert_eq(ea_graph_create(c, "links", NULL), EA_OK);
    const ea_graph_edges edge = {.sources = from, .targets = to, .weights = &nothing, .count = 1};
    cr_assert_eq(ea_graph_add_edges(c, "links", &edge, NULL), EA_OK);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct setter){.scene = &s};
        cr_assert_eq(pthread_create(&threads[i].thread, NULL, set_one_more, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].thread, NULL);
        cr_assert_eq(threads[i].set, INCREMENTS);
    }
    ea_nodes nodes = {0};
    cr_assert_eq(ea_graph_fetch_nodes(c, "links", from, 1, true, &nodes), EA_OK);
    cr_assert_eq(nodes.weights[0], THREADS * INCREMENTS);
    ea_nodes_free(&nodes);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- calls without a struct for it */

static ea_status next(ea_client *c, uint64_t version, bool at_least)
{
    return ea_next_write(c, &(ea_write){.version = version, .at_least = at_least});
}

static uint64_t version_of_links(ea_client *c)
{
    ea_graph_info info;
    cr_assert_eq(ea_graph_describe(c, "links", &info), EA_OK, "%s", ea_error_text(c));
    return info.version;
}

Test(conditions, calls_without_a_struct_take_the_next_write)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "conditions");
    static const uint64_t one[] = {1};
    ea_collection_info info;
    ea_graph_counts did;
    cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, &info), EA_OK);
    cr_assert_eq(ea_graph_create(c, "links", NULL), EA_OK);
    cr_assert_eq(upsert(c, NULL, NULL), EA_OK);
    uint64_t old = info.version, now = version_of_rows(c);

    next(c, old, false);
    expect_aborted(c, ea_delete(c, "rows", one, 1, NULL), now);
    cr_assert_eq(ea_delete(c, "rows", one, 1, NULL), EA_OK, "it is used once");
    now = version_of_rows(c);
    next(c, old, false);
    expect_aborted(c, ea_collection_drop(c, "rows"), now);
    next(c, old, true);
    cr_assert_eq(ea_ping(c), EA_OK, "which leaves it for the next that writes");
    cr_assert_eq(ea_collection_drop(c, "rows"), EA_OK, "%s", ea_error_text(c));

    static const float half[] = {0.5f};
    ea_graph_edges loop = {.sources = one, .targets = one, .weights = half, .count = 1};
    cr_assert_eq(ea_graph_add_edges(c, "links", &loop, NULL), EA_OK);
    now = version_of_links(c);
    next(c, now, false);
    cr_assert_eq(ea_graph_scale(c, "links", 0.5f, &did), EA_OK, "%s", ea_error_text(c));
    next(c, now, false);
    expect_aborted(c, ea_graph_scale(c, "links", 0.5f, NULL), did.version);
    next(c, now, false);
    expect_aborted(c, ea_graph_prune(c, "links", 0.5f, NULL), did.version);
    next(c, now, false);
    expect_aborted(c, ea_graph_remove_nodes(c, "links", one, 1, NULL), did.version);
    next(c, now, false);
    expect_aborted(c, ea_graph_drop(c, "links"), did.version);
    next(c, did.version, false);
    cr_assert_eq(ea_graph_drop(c, "links"), EA_OK, "%s", ea_error_text(c));

    next(c, now, false);
    ea_next_write(c, NULL);
    cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, &info), EA_OK, "nothing after all");
    ea_write twice = {.version = info.version};
    next(c, info.version, false);
    cr_assert_eq(ea_collection_drop_send(c, "rows", &(ea_send_options){.write = &twice}, NULL),
                 EA_INVALID_ARGUMENT);
    ea_close(c);
    scene_close(&s);
}

/* What is to be made has no version yet. */
Test(conditions, a_create_expects_nothing_or_aborts)
{
    struct scene s;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "conditions");
    ea_collection_info info, again;
    cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, &info), EA_OK);
    for (int at_least = 0; at_least < 2; at_least++) {
        next(c, info.version, at_least);
        expect_aborted(c, ea_collection_create(c, "others", 2, EA_DOT, NULL), 0);
        next(c, info.version, at_least);
        expect_aborted(c, ea_graph_create(c, "links", NULL), 0);
        next(c, info.version, at_least);
        cr_assert_eq(ea_collection_create(c, "rows", 2, EA_DOT, NULL), EA_ALREADY_EXISTS);
        next(c, info.version + 1000, at_least);
        cr_assert_eq(ea_graph_create(c, "links", NULL), EA_INVALID_ARGUMENT);
        cr_assert_eq(ea_error_detail(c), EA_DETAIL_UNKNOWN_VERSION);
    }
    cr_assert_eq(ea_collection_describe(c, "others", &again), EA_NOT_FOUND);
    cr_assert_eq(ea_graph_describe(c, "links", &(ea_graph_info){0}), EA_NOT_FOUND);
    ea_close(c);
    scene_close(&s);
}
