/* Writes that were acknowledged with persist.journal are there after the daemon is killed, under
 * the same versions and the same instance.
 * test-run: timeout=300 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <xxhash.h>

#include "tests/support/journal_keeper.h"
#include "tests/support/scene.h"

TestSuite(journal, .timeout = 280);

enum { D = KEEPER_D, ROWS = KEEPER_ROWS, NODES = 200, EDGES = 900, BODY = 3000 };

/* ---------------------------------------------------------------- all kinds of writes */

/* Large bodies are kept where they came, small ones are copied. */
static void write_rows(const struct journal_keeper *k)
{
    journal_keeper_create(k, "rows");
    for (uint64_t first = 0; first < ROWS; first += BODY)
        journal_keeper_put(k, "rows", first, BODY);
    journal_keeper_put(k, "rows", 5, 3);
    journal_keeper_need(k, ea_delete(k->client, "rows", k->ids + 100, 50, NULL), "delete");
    journal_keeper_put(k, "rows", 120, 10);
}

static void write_graph(const struct journal_keeper *k)
{
    uint64_t from[EDGES], to[EDGES], ids[] = {3, 5, 7, 9999}, offsets[] = {0, 1, 2, 3, 3};
    uint64_t columns[] = {1, 2, 0};
    uint8_t kinds[] = {0, 1, 2, 0};
    float weights[EDGES], factors[] = {1, 0.5f, 2, 3}, low = -1, high = 1;
    for (uint64_t i = 0; i < EDGES; i++) {
        from[i] = i % NODES;
        to[i] = (i * 31 + i / NODES) % NODES;
        weights[i] = k->rows[i];
    }
    journal_keeper_need(k, ea_graph_create(k->client, "web", NULL), "create");
    ea_graph_edges edges = {.sources = from, .targets = to, .weights = weights, .count = EDGES};
    journal_keeper_need(k, ea_graph_add_edges(k->client, "web", &edges, NULL), "add");
    edges.count = 20;
    edges.replace = true;
    journal_keeper_need(k, ea_graph_add_edges(k->client, "web", &edges, NULL), "replace");
    const ea_graph_csr csr = {
        .row_ids = ids, .rows = 4, .offsets = offsets, .columns = columns, .weights = weights};
    journal_keeper_need(k, ea_graph_add_csr(k->client, "web", &csr, NULL), "csr");
    edges = (ea_graph_edges){.sources = from + 30, .targets = to + 30, .count = 5};
    journal_keeper_need(k, ea_graph_remove_edges(k->client, "web", &edges, NULL), "remove");
    const ea_graph_nodes nodes = {.ids = ids, .kinds = kinds, .factors = factors, .count = 4};
    journal_keeper_need(k, ea_graph_set_nodes(k->client, "web", &nodes, NULL), "nodes");
    float sums[5];
    edges = (ea_graph_edges){.sources = from + 60,
                             .targets = to + 60,
                             .weights = weights,
                             .count = 5,
                             .low = &low,
                             .high = &high,
                             .create = true};
    journal_keeper_need(k, ea_graph_add_weights(k->client, "web", &edges, sums, NULL), "weights");
    journal_keeper_need(k, ea_graph_scale(k->client, "web", 0.75f, NULL), "scale");
    journal_keeper_need(k, ea_graph_prune(k->client, "web", -0.5f, NULL), "prune");
    journal_keeper_need(k, ea_graph_remove_nodes(k->client, "web", ids, 1, NULL), "remove");
}

/* Writes of nothing are writes, too, where they are taken. */
static void write_nothing(const struct journal_keeper *k)
{
    uint64_t none = 0;
    float zero = 0, sum;
    const ea_rows rows = {.collection = "rows", .ids = &none, .rows = &zero, .dimension = D};
    ea_graph_edges edges = {.sources = &none, .targets = &none, .weights = &zero};
    const ea_graph_csr csr = {
        .row_ids = &none, .rows = 1, .offsets = (uint64_t[]){0, 0}, .columns = &none};
    const ea_graph_nodes nodes = {.ids = &none};
    (void)ea_upsert(k->client, &rows, NULL);
    (void)ea_delete(k->client, "rows", &none, 0, NULL);
    (void)ea_graph_add_edges(k->client, "web", &edges, NULL);
    (void)ea_graph_remove_edges(k->client, "web", &edges, NULL);
    (void)ea_graph_add_weights(k->client, "web", &edges, &sum, NULL);
    (void)ea_graph_add_csr(k->client, "web", &csr, NULL);
    (void)ea_graph_add_csr(k->client, "web",
                           &(ea_graph_csr){.offsets = &none, .columns = &none, .weights = &zero},
                           NULL);
    (void)ea_graph_set_nodes(k->client, "web", &nodes, NULL);
    (void)ea_graph_remove_nodes(k->client, "web", &none, 0, NULL);
    (void)ea_attractor_learn(
        k->client, &(ea_learn_question){.attractor = "mind", .rows = &zero, .dimension = D}, NULL);
    journal_keeper_wait(k);
}

static void write_attractor(const struct journal_keeper *k)
{
    float *weights = calloc(D * D, sizeof *weights);
    for (int i = 0; i < D; i++)
        weights[i * D + i] = 0.25f;
    journal_keeper_need(
        k, ea_attractor_create(k->client, "mind", &(ea_attractor_shape){.dimension = D}, NULL),
        "create");
    journal_keeper_need(k, ea_attractor_set(k->client, "mind", weights, D, NULL), "set");
    ea_learn_question learn = {.attractor = "mind", .rows = k->rows, .dimension = D, .count = 3};
    journal_keeper_need(k, ea_attractor_learn(k->client, &learn, NULL), "learn");
    learn = (ea_learn_question){
        .attractor = "mind", .collection = "rows", .ids = k->ids + 7, .count = 5};
    journal_keeper_need(k, ea_attractor_learn(k->client, &learn, NULL), "learn by ids");
    free(weights);
}

/* Results that are stored, and what they were computed from changes right after. */
static void write_results(const struct journal_keeper *k)
{
    uint64_t ids[] = {800001, 800002, 800003};
    ea_hrr_result r = {0};
    ea_clusters clusters = {0};
    float threshold = -1;
    uint32_t size = 1;
    const ea_into into = {.collection = "made", .ids = ids};
    const ea_operand a = {.collection = "rows", .ids = k->ids + 200, .count = 3};
    journal_keeper_create(k, "made");
    journal_keeper_need(
        k, ea_bind(k->client, &(ea_bind_question){.a = &a, .b = &a, .into = &into}, &r), "bind");
    journal_keeper_put(k, "rows", 200, 2);
    ids[0] = 800011;
    journal_keeper_need(
        k, ea_permute(k->client, &(ea_permute_question){.a = &a, .shift = 5, .into = &into}, &r),
        "permute");
    ids[1] = 800021;
    journal_keeper_need(
        k,
        ea_superpose(k->client,
                     &(ea_list_question){.a = &a, .into = &(ea_into){"made", ids + 1, NULL}}, &r),
        "superpose");
    journal_keeper_need(
        k,
        ea_random(k->client,
                  &(ea_random_question){.seed = 4, .count = 3, .dimension = D, .into = &into}, &r),
        "random");
    ea_cluster_question cluster = {.rows = k->rows,
                                   .count = 40,
                                   .dimension = D,
                                   .threshold = &threshold,
                                   .score_min = &threshold,
                                   .size_min = &size,
                                   .into = "made",
                                   .into_first = 900000,
                                   .dry_run = true};
    journal_keeper_need(k, ea_cluster(k->client, &cluster, &clusters), "dry run");
    cluster.dry_run = false;
    journal_keeper_need(k, ea_cluster(k->client, &cluster, &clusters), "cluster");
    cr_assert_gt(clusters.inserted, 0);
    ea_clusters_free(&clusters);
    ea_hrr_result_free(&r);
}

static void write_names(const struct journal_keeper *k)
{
    journal_keeper_create(k, "~new");
    journal_keeper_put(k, "~new", 300, 20);
    journal_keeper_need(k, ea_swap(k->client, EA_COLLECTION, "swapped", "~new", NULL), "swap");
    journal_keeper_create(k, "~second");
    journal_keeper_put(k, "~second", 400, 20);
    journal_keeper_need(k, ea_swap(k->client, EA_COLLECTION, "swapped", "~second", NULL), "swap");
    journal_keeper_create(k, "gone");
    journal_keeper_put(k, "gone", 0, 10);
    journal_keeper_need(k, ea_collection_drop(k->client, "gone"), "drop");
    journal_keeper_create(k, "gone");
    journal_keeper_need(k, ea_graph_create(k->client, "gone", NULL), "create");
    journal_keeper_need(k, ea_graph_drop(k->client, "gone"), "drop");
    journal_keeper_create(k, "~left");
    journal_keeper_put(k, "~left", 0, 10);
}

/* ---------------------------------------------------------------- what there is */

static void add_rows(const struct journal_keeper *k, const char *name, XXH3_state_t *sum)
{
    ea_cursor at = {0};
    ea_result r = {0};
    while (!at.at_end) {
        journal_keeper_need(k, ea_scan_rows(k->client, name, &at, 1000, &r), name);
        XXH3_64bits_update(sum, r.ids, r.rows * sizeof *r.ids);
        XXH3_64bits_update(sum, r.vectors, r.rows * r.columns * sizeof *r.vectors);
    }
    ea_result_free(&r);
}

/* One node with its edges. A snapshot that is loaded may have nodes in other places. */
static uint64_t node_bits(const ea_nodes *n, uint64_t i, XXH3_state_t *one)
{
    uint64_t first = n->offsets[i], count = n->offsets[i + 1] - first;
    XXH3_64bits_reset(one);
    XXH3_64bits_update(one, &n->ids[i], sizeof n->ids[i]);
    XXH3_64bits_update(one, &n->kinds[i], 1);
    XXH3_64bits_update(one, &n->factors[i], sizeof n->factors[i]);
    XXH3_64bits_update(one, n->targets + first, count * sizeof *n->targets);
    XXH3_64bits_update(one, n->weights + first, count * sizeof *n->weights);
    return XXH3_64bits_digest(one);
}

static void add_nodes(const struct journal_keeper *k, const char *name, XXH3_state_t *sum)
{
    ea_cursor at = {0};
    ea_nodes n = {0};
    uint64_t all = 0;
    XXH3_state_t *one = XXH3_createState();
    while (!at.at_end) {
        journal_keeper_need(k, ea_scan_nodes(k->client, name, &at, 1000, true, &n), name);
        for (uint64_t i = 0; i < n.count; i++)
            if (n.found[i]) all += node_bits(&n, i, one);
    }
    XXH3_64bits_update(sum, &all, sizeof all);
    XXH3_freeState(one);
    ea_nodes_free(&n);
}

/* All bits of all that there is, names and versions included. */
static uint64_t all_bits(const struct journal_keeper *k)
{
    ea_object_version *list;
    size_t count;
    ea_result weights = {0};
    XXH3_state_t *sum = XXH3_createState();
    XXH3_64bits_reset(sum);
    journal_keeper_need(k, ea_changes(k->client, 0, &list, &count, NULL, NULL), "changes");
    for (size_t i = 0; i < count; i++) {
        XXH3_64bits_update(sum, list[i].name, strlen(list[i].name) + 1);
        XXH3_64bits_update(sum, &list[i].version, sizeof list[i].version);
        if (list[i].object == EA_COLLECTION) add_rows(k, list[i].name, sum);
        if (list[i].object == EA_GRAPH) add_nodes(k, list[i].name, sum);
        if (list[i].object != EA_ATTRACTOR) continue;
        journal_keeper_need(k, ea_attractor_fetch(k->client, list[i].name, &weights), "fetch");
        XXH3_64bits_update(sum, weights.vectors, sizeof(float) * D * D);
    }
    ea_result_free(&weights);
    ea_changes_free(list);
    uint64_t bits = XXH3_64bits_digest(sum);
    XXH3_freeState(sum);
    return bits;
}

/* saves: snapshots are saved between the writes, the hidden collection's among them. */
static void write_all(const struct journal_keeper *k, bool saves)
{
    write_rows(k);
    if (saves) journal_keeper_need(k, ea_save(k->client, NULL, NULL), "save");
    write_graph(k);
    write_attractor(k);
    write_nothing(k);
    journal_keeper_create(k, "~held");
    journal_keeper_put(k, "~held", 500, 30);
    if (saves) journal_keeper_need(k, ea_save(k->client, NULL, NULL), "save");
    journal_keeper_put(k, "~held", 600, 30);
    write_results(k);
    write_names(k);
    if (saves) journal_keeper_need(k, ea_save(k->client, NULL, NULL), "save");
    journal_keeper_need(k, ea_swap(k->client, EA_COLLECTION, "held", "~held", NULL), "swap");
    journal_keeper_put(k, "held", 700, 5);
}

static void check_kinds(bool saves)
{
    struct journal_keeper k;
    journal_keeper_open(&k, "persist.journal=always");
    write_all(&k, saves);
    uint64_t bits = all_bits(&k), instance = ea_instance(k.client);
    for (int i = 0; i < 3; i++) {
        journal_keeper_kill(&k);
        cr_assert_eq(all_bits(&k), bits, "after kill %d", i + 1);
        cr_assert_eq(ea_instance(k.client), instance);
        journal_keeper_put(&k, "rows", (uint64_t)i, 1);
        bits = all_bits(&k);
    }
    if (saves) journal_keeper_need(&k, ea_save(k.client, NULL, NULL), "save");
    journal_keeper_kill(&k);
    cr_assert_eq(all_bits(&k), bits);
    journal_keeper_close(&k);
}

Test(journal, all_kinds_of_writes_are_there_after_a_kill)
{
    check_kinds(false);
}

Test(journal, snapshots_between_them_change_nothing)
{
    check_kinds(true);
}

Test(journal, second_is_there_after_a_stop_and_a_kill_is_told)
{
    struct journal_keeper k;
    int status;
    journal_keeper_open(&k, "persist.journal=second");
    write_all(&k, true);
    uint64_t bits = all_bits(&k), instance = ea_instance(k.client);
    cr_assert_eq(kill(k.daemon.pid, SIGTERM), 0);
    cr_assert_eq(waitpid(k.daemon.pid, &status, 0), k.daemon.pid);
    daemon_restart(&k.daemon, k.settings);
    journal_keeper_wait(&k);
    cr_assert_eq(all_bits(&k), bits);
    journal_keeper_kill(&k); /* what was written is in the page cache, but nobody knows */
    cr_assert_eq(all_bits(&k), bits);
    cr_assert_neq(ea_instance(k.client), instance);
    journal_keeper_close(&k);
}

/* What is dropped while it is written is not recorded, and its record keeps nothing: the stop would
 * find it. */
Test(journal, a_write_to_what_is_dropped_meanwhile_leaves_nothing)
{
    struct journal_keeper k;
    journal_keeper_open(&k, "persist.journal=second");
    const ea_rows rows = {.collection = "short",
                          .ids = k.ids,
                          .rows = k.rows,
                          .count = KEEPER_ROWS,
                          .dimension = KEEPER_D};
    for (int i = 0; i < 6; i++) {
        journal_keeper_create(&k, "short");
        journal_keeper_need(&k, ea_upsert_send(k.client, &rows, NULL, NULL), "upsert");
        journal_keeper_need(&k, ea_collection_drop_send(k.client, "short", NULL, NULL), "drop");
        while (ea_pending(k.client))
            journal_keeper_need(&k, ea_pump(k.client, -1), "pump");
    }
    journal_keeper_close(&k); /* its exit code is 0 */
}

/* A write that was acknowledged is not done again when it is repeated after a kill. */
Test(journal, a_token_is_known_after_a_kill)
{
    struct journal_keeper k;
    uint64_t from = 1, to = 2;
    float one = 1, sum[2];
    ea_write write = {.token = {1, 2, 3}}, drop = {.token = {4}};
    ea_graph_edges edges = {.sources = &from,
                            .targets = &to,
                            .weights = &one,
                            .count = 1,
                            .create = true,
                            .write = &write};
    journal_keeper_open(&k, "persist.journal=always");
    journal_keeper_need(&k, ea_graph_create(k.client, "web", NULL), "create");
    journal_keeper_need(&k, ea_graph_create(k.client, "other", NULL), "create");
    journal_keeper_need(&k, ea_graph_add_weights(k.client, "web", &edges, sum, NULL), "weights");
    journal_keeper_need(&k, ea_save(k.client, NULL, NULL), "save"); /* which has the first */
    journal_keeper_need(&k, ea_next_write(k.client, &drop), "drop");
    journal_keeper_need(&k, ea_graph_drop(k.client, "other"), "drop");
    journal_keeper_kill(&k);
    sum[0] = 0;
    journal_keeper_need(&k, ea_graph_add_weights(k.client, "web", &edges, sum, NULL), "again");
    cr_assert_eq(sum[0], 1);
    journal_keeper_need(&k, ea_next_write(k.client, &drop), "drop");
    journal_keeper_need(&k, ea_graph_drop(k.client, "other"), "drop again");
    edges.write = NULL;
    journal_keeper_need(&k, ea_graph_add_weights(k.client, "web", &edges, sum, NULL), "once more");
    cr_assert_eq(sum[0], 2);
    journal_keeper_close(&k);
}

/* The snapshot has as many as are remembered of a space: those of the journal are newer, and
 * stay. */
Test(journal, tokens_of_the_journal_come_before_those_of_the_snapshot)
{
    enum { SAVED = 1024, AFTER = 3 };
    struct journal_keeper k;
    uint64_t from = 1, to = 2;
    float one = 1, sum[2];
    ea_write write = {.token = {[15] = 1}};
    ea_graph_edges edges = {.sources = &from,
                            .targets = &to,
                            .weights = &one,
                            .count = 1,
                            .create = true,
                            .write = &write};
    journal_keeper_open(&k, "persist.journal=second");
    journal_keeper_need(&k, ea_graph_create(k.client, "web", NULL), "create");
    for (uint32_t i = 1; i <= SAVED + AFTER; i++) {
        memcpy(write.token, &i, sizeof i);
        journal_keeper_need(&k, ea_graph_add_weights(k.client, "web", &edges, sum, NULL), "add");
        if (i == SAVED) journal_keeper_need(&k, ea_save(k.client, NULL, NULL), "save");
    }
    journal_keeper_kill(&k);
    for (uint32_t i = AFTER + 1; i <= SAVED + AFTER; i++) {
        memcpy(write.token, &i, sizeof i);
        journal_keeper_need(&k, ea_graph_add_weights(k.client, "web", &edges, sum, NULL), "again");
        cr_assert_eq(sum[0], (float)i);
    }
    journal_keeper_close(&k);
}
