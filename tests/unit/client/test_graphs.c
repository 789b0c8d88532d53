/* Graphs and spreading: every call against a daemon that behaves, and against one that goes
 * away. */
#include <stdlib.h>

#include "tests/unit/client/client_rig.h"

static const uint64_t ids[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
static const uint64_t offsets[3] = {0, 2, 5};
static const float weights[10] = {0.5F, 1, 1, 1, 1, 1, 1, 1, 1, 1};

TestSuite(graphs, .timeout = 900);

Test(graphs, infos)
{
    begin(fake_serve);
    ea_graph_info info;
    OK(ea_graph_create(client, "links", &info));
    cr_assert_str_eq(info.name, "links");
    cr_assert(info.nodes == 30 && info.edges == 70 && info.version == 5);
    OK(ea_graph_create(client, "links", NULL));
    memset(&info, 0xee, sizeof info);
    OK(ea_graph_describe(client, "links", &info));
    cr_assert_str_eq(info.name, "links");
    cr_assert(info.edge_bytes == 1120 && info.node_bytes == 1920 && info.work_bytes == 9);
    cr_assert(info.out_count_max == 8 && info.in_count_max == 6);
    cr_assert(info.episodes == 3 && info.concepts == 2);
    cr_assert(info.vram_bytes == 4096 && info.vram_version == 4);
    OK(ea_graph_drop(client, "links"));
    ea_graph_info *list;
    size_t count;
    OK(ea_graph_list(client, &list, &count));
    cr_assert_eq(count, 150);
    cr_assert_str_eq(list[149].name, "c149");
    cr_assert_eq(list[65].nodes, 1);
    ea_graph_list_free(list);
    end();
}

Test(graphs, changes)
{
    begin(fake_serve);
    ea_graph_counts n = {0};
    OK(ea_graph_add_edges(
        client, "links",
        &(ea_graph_edges){.sources = ids, .targets = ids, .weights = weights, .count = 10}, &n));
    cr_assert(n.edges_added == 10 && n.edges_removed == 0 && n.missing == 1);
    cr_assert(n.nodes == 30 && n.edges == 70 && n.version == 7);
    OK(ea_graph_add_edges(
        client, "links",
        &(ea_graph_edges){
            .sources = ids, .targets = ids, .weights = weights, .count = 10, .replace = true},
        &n));
    cr_assert(n.edges_added == 10 && n.edges_removed == 1);
    OK(ea_graph_add_edges(client, "links", &(ea_graph_edges){0}, NULL));
    OK(ea_graph_add_csr(
        client, "links",
        &(ea_graph_csr){
            .row_ids = ids, .rows = 2, .offsets = offsets, .columns = ids, .weights = weights},
        &n));
    cr_assert(n.edges_added == 5 && n.edges_removed == 0);
    OK(ea_graph_add_csr(
        client, "links",
        &(ea_graph_csr){
            .rows = 2, .offsets = offsets, .columns = ids, .weights = weights, .replace = true},
        &n));
    cr_assert(n.edges_added == 5 && n.edges_removed == 1);
    OK(ea_graph_add_csr(client, "links", &(ea_graph_csr){.offsets = offsets}, NULL));
    OK(ea_graph_remove_edges(client, "links",
                             &(ea_graph_edges){.sources = ids, .targets = ids, .count = 4}, &n));
    cr_assert_eq(n.edges_removed, 4);
    OK(ea_graph_set_nodes(
        client, "links",
        &(ea_graph_nodes){
            .ids = ids, .kinds = (const uint8_t *)"\0\1\2", .factors = weights, .count = 3},
        &n));
    cr_assert_eq(n.nodes_added, 3);
    OK(ea_graph_set_nodes(client, "links", &(ea_graph_nodes){.ids = ids, .count = 3}, NULL));
    OK(ea_graph_remove_nodes(client, "links", ids, 6, &n));
    cr_assert_eq(n.nodes_removed, 6);
    end();
}

Test(graphs, nodes)
{
    begin(fake_serve);
    ea_nodes n = {0};
    OK(ea_graph_fetch_nodes(client, "links", ids, 5, true, &n));
    cr_assert(n.count == 5 && n.missing == 2 && n.meta->version == 7);
    cr_assert(n.found[4] == 1 && n.kinds[4] == 1 && n.factors[4] == 0.5F);
    cr_assert(n.out_counts[4] == 1 && n.in_counts[4] == 1);
    cr_assert(n.offsets[5] == 5 && n.targets[4] == 4 && n.weights[4] == 0.5F);
    OK(ea_graph_fetch_nodes(client, "links", ids, 3, false, &n)); /* frees what it held */
    cr_assert(n.count == 3 && n.out_counts[2] == 1);
    cr_assert(!n.offsets && !n.targets && !n.weights);
    OK(ea_graph_fetch_nodes(client, "links", NULL, 0, true, &n));
    cr_assert(n.count == 0 && n.offsets[0] == 0);
    OK(ea_graph_fetch_nodes(client, "links", NULL, 0, false, &n));
    cr_assert(n.count == 0 && !n.found && n.meta->version == 7);
    ea_nodes_free(&n);
    ea_nodes_free(NULL);
    end();
}

Test(graphs, spread)
{
    begin(fake_serve);
    const float table[4] = {1, 0.5F, 0.25F, 0}, third = 0.3F;
    const ea_filter list = {.ids = ids, .id_count = 2};
    ea_spread_result r = {0};
    ea_spread_options o = {.mode = EA_ENGRAM, .fan = EA_FAN_SQRT, .ignore_kinds = true};
    OK(ea_spread(client, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, &r));
    cr_assert(r.sets == 1 && r.count == 1 && r.offsets[1] == 1 && r.ids[0] == 0);
    cr_assert(r.activations[0] == 0.5F && r.confidences[0] == 0.5F && r.meta->version == 7);
    cr_assert(r.visits[0] == 1 && r.depths[0] == 1 && r.truncated[0] == 1);
    cr_assert(r.touched[0] == 0 && r.cycles[0] == 0 && r.tier_sums[2] == 0.5F);
    cr_assert(!r.path_offsets && !r.path_ids);
    o.embeddings = "rows";
    OK(ea_spread(client, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, &r));
    char name[200];
    memset(name, 'x', sizeof name);
    name[199] = 0;
    o.embeddings = name;
    BAD(ea_spread(client, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, &r));
    cr_assert(strstr(ea_error_text(client), "embeddings"), "%s", ea_error_text(client));
    o = (ea_spread_options){.mode = EA_LINEAR,
                            .decay = EA_DECAY_TABLE,
                            .decay_table = table,
                            .threshold = &third,
                            .threshold_warm = &third,
                            .threshold_cold = &third,
                            .paths = true,
                            .k = 1,
                            .touched_max = 9,
                            .time_max_us = 9,
                            .within = &list};
    OK(ea_spread(
        client, "links", &o,
        &(ea_seeds){.offsets = offsets, .sets = 2, .ids = ids, .activations = weights, .count = 5},
        &r));
    cr_assert(r.sets == 2 && r.count == 2 && r.offsets[2] == 2);
    cr_assert(r.path_offsets[2] == 2 && r.path_ids[1] == 1);
    o.hops = 2; /* two of the table's values */
    o.last_hop = true;
    BAD(ea_spread(client, "links", &o, &(ea_seeds){0}, &r));
    cr_assert(strstr(ea_error_text(client), "paths: not together with last_hop"));
    o.paths = false;
    OK(ea_spread(client, "links", &o, &(ea_seeds){0}, &r));
    ea_spread_result_free(&r);
    ea_spread_result_free(NULL);
    end();
}

Test(graphs, refuses_what_it_can_see_is_wrong)
{
    begin(fake_serve);
    char name[80];
    memset(name, 'n', 79);
    name[79] = '\0';
    ea_graph_info *list;
    ea_nodes nodes = {0};
    ea_spread_result r = {0};
    ea_spread_options o = {.mode = EA_LINEAR};
    const uint64_t back[3] = {0, 5, 2}, late[3] = {1, 2, 3};
    BAD(ea_graph_create(client, NULL, NULL));
    BAD(ea_graph_create(client, name, NULL));
    BAD(ea_graph_create(NULL, "links", NULL));
    BAD(ea_graph_drop(client, NULL));
    BAD(ea_graph_describe(client, name, NULL));
    BAD(ea_graph_list(client, &list, NULL));
    BAD(ea_graph_add_edges(
        client, NULL,
        &(ea_graph_edges){.sources = ids, .targets = ids, .weights = weights, .count = 1}, NULL));
    cr_assert(strstr(ea_error_text(client), "graph: no name given"));
    BAD(ea_graph_add_edges(
        client, "links", &(ea_graph_edges){.sources = ids, .weights = weights, .count = 1}, NULL));
    BAD(ea_graph_add_edges(
        client, "links",
        &(ea_graph_edges){.sources = ids, .targets = ids, .weights = weights, .count = UINT64_MAX},
        NULL));
    BAD(ea_graph_add_csr(client, "links",
                         &(ea_graph_csr){.rows = 2, .columns = ids, .weights = weights}, NULL));
    BAD(ea_graph_add_csr(
        client, "links",
        &(ea_graph_csr){.rows = UINT64_MAX, .offsets = offsets, .columns = ids, .weights = weights},
        NULL));
    BAD(ea_graph_add_csr(
        client, "links",
        &(ea_graph_csr){.rows = 2, .offsets = back, .columns = ids, .weights = weights}, NULL));
    cr_assert(strstr(ea_error_text(client), "number 2 goes back from 5 to 2"));
    BAD(ea_graph_add_csr(
        client, "links",
        &(ea_graph_csr){.rows = 2, .offsets = late, .columns = ids, .weights = weights}, NULL));
    BAD(ea_graph_add_csr(client, "links",
                         &(ea_graph_csr){.rows = 2, .offsets = offsets, .weights = weights}, NULL));
    BAD(ea_graph_remove_edges(client, "links", &(ea_graph_edges){.sources = ids, .count = 3},
                              NULL));
    BAD(ea_graph_set_nodes(client, "links", &(ea_graph_nodes){.count = 3}, NULL));
    BAD(ea_graph_remove_nodes(client, name, ids, 3, NULL));
    BAD(ea_graph_fetch_nodes(client, "links", NULL, 3, false, &nodes));
    BAD(ea_graph_fetch_nodes(client, "links", ids, 3, false, NULL));
    BAD(ea_spread(client, "links", NULL, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, &r));
    BAD(ea_spread(client, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, NULL));
    BAD(ea_spread(client, "links", &o, &(ea_seeds){.sets = 2, .ids = ids, .count = 3}, &r));
    BAD(ea_spread(client, "links", &o, &(ea_seeds){.offsets = offsets, .ids = ids, .count = 5},
                  &r));
    BAD(ea_spread(client, "links", &o,
                  &(ea_seeds){.offsets = offsets, .sets = UINT64_MAX, .ids = ids, .count = 5}, &r));
    BAD(ea_spread(client, "links", &o, &(ea_seeds){.sets = 1, .count = 5}, &r));
    o.decay_table = weights;
    BAD(ea_spread(client, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, &r));
    o.decay = EA_DECAY_TABLE, o.hops = 101;
    BAD(ea_spread(client, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, &r));
    o.decay_table = NULL, o.hops = 3;
    BAD(ea_spread(client, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, &r));
    const ea_filter both = {
        .ids = ids, .id_count = 1, .bitmap = (const uint8_t *)"x", .bitmap_bytes = 1};
    o = (ea_spread_options){.mode = EA_LINEAR, .within = &both};
    BAD(ea_spread(client, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, &r));
    cr_assert(strstr(ea_error_text(client), "within: ids and bitmap"));
    cr_assert_eq(atomic_load(&daemon_.connections), 0, "all of that before a word is said");
    /* What only the daemon refuses comes back with its words, and the connection stays. */
    o = (ea_spread_options){.mode = EA_LINEAR, .fan = EA_FAN_SQRT};
    BAD(ea_spread(client, "links", &o, &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, &r));
    cr_assert_eq(ea_error_detail(client), DETAIL_BAD_MODE);
    cr_assert(strstr(ea_error_text(client), "fan: only in mode engram"));
    cr_assert_null(r.memory);
    OK(ea_ping(client));
    cr_assert_eq(atomic_load(&daemon_.connections), 1);
    end();
}

Test(graphs, unaligned_arrays)
{
    begin(fake_serve);
    static char bytes[600];
    uint64_t *odd_ids = (uint64_t *)(bytes + 1), *odd_offsets = (uint64_t *)(bytes + 101);
    const float *odd_weights = (const float *)(bytes + 201);
    memcpy(odd_ids, ids, sizeof ids);
    memcpy(odd_offsets, offsets, sizeof offsets);
    ea_graph_counts n;
    OK(ea_graph_add_csr(client, "links",
                        &(ea_graph_csr){.row_ids = odd_ids,
                                        .rows = 2,
                                        .offsets = odd_offsets,
                                        .columns = odd_ids,
                                        .weights = odd_weights},
                        &n));
    cr_assert_eq(n.edges_added, 5);
    end();
    daemon_.body_bytes_max = 256; /* three edges at once */
    begin(fake_serve);
    OK(ea_graph_add_edges(client, "links",
                          &(ea_graph_edges){.sources = odd_ids,
                                            .targets = odd_ids,
                                            .weights = odd_weights,
                                            .count = 10,
                                            .replace = true},
                          &n));
    cr_assert(n.edges_added == 10 && n.edges_removed == 4);
    end();
}

/* ---- gone and back ---- */

/* The first connection is lost with its first request. */
static void lose_first(struct fake_daemon *d, int fd)
{
    if (atomic_load(&d->connections) > 1) {
        fake_serve(d, fd);
        return;
    }
    struct fake_request *r = calloc(1, sizeof *r);
    if (fake_hello(d, fd)) fake_read(fd, r);
    free(r->body);
    free(r);
}

static ea_graph_info info;
static ea_graph_counts counts;
static ea_nodes nodes;
static ea_spread_result result;
static ea_status call(int i)
{
    const ea_spread_options o = {.mode = EA_ENGRAM};
    ea_graph_info *list = NULL;
    size_t n;
    ea_status st;
    switch (i) {
    case 0: return ea_graph_create(client, "links", &info);
    case 1: return ea_graph_drop(client, "links");
    case 2:
        return ea_graph_add_edges(
            client, "links",
            &(ea_graph_edges){.sources = ids, .targets = ids, .weights = weights, .count = 9},
            &counts);
    case 3:
        return ea_graph_add_csr(
            client, "links",
            &(ea_graph_csr){
                .row_ids = ids, .rows = 2, .offsets = offsets, .columns = ids, .weights = weights},
            &counts);
    case 4: return ea_graph_describe(client, "links", &info);
    case 5:
        st = ea_graph_list(client, &list, &n);
        ea_graph_list_free(list);
        return st;
    case 6:
        return ea_graph_add_edges(
            client, "links",
            &(ea_graph_edges){
                .sources = ids, .targets = ids, .weights = weights, .count = 9, .replace = true},
            &counts);
    case 7:
        return ea_graph_add_csr(client, "links",
                                &(ea_graph_csr){.row_ids = ids,
                                                .rows = 2,
                                                .offsets = offsets,
                                                .columns = ids,
                                                .weights = weights,
                                                .replace = true},
                                &counts);
    case 8:
        return ea_graph_remove_edges(client, "links",
                                     &(ea_graph_edges){.sources = ids, .targets = ids, .count = 9},
                                     &counts);
    case 9:
        return ea_graph_set_nodes(client, "links",
                                  &(ea_graph_nodes){.ids = ids, .factors = weights, .count = 9},
                                  &counts);
    case 10: return ea_graph_remove_nodes(client, "links", ids, 9, &counts);
    case 11: return ea_graph_fetch_nodes(client, "links", ids, 9, true, &nodes);
    default:
        return ea_spread(client, "links", &o,
                         &(ea_seeds){.sets = 1, .ids = ids, .activations = weights, .count = 9},
                         &result);
    }
}

Test(graphs, what_is_repeated_and_what_is_not)
{
    for (int i = 0; i <= 12; i++) {
        begin(lose_first);
        OK(ea_connect(client));
        ea_status st = call(i);
        if (i <= 3) {
            cr_assert_eq(st, EA_UNAVAILABLE, "call %d: %s", i, ea_error_text(client));
            cr_assert(!ea_error_retryable(client), "it may be done");
            cr_assert_eq(ea_fd(client), -1);
            cr_assert_eq(atomic_load(&daemon_.connections), 1);
            OK(call(i)); /* if the caller says so */
        } else {
            cr_assert_eq(st, EA_OK, "call %d: %s", i, ea_error_text(client));
        }
        cr_assert_eq(atomic_load(&daemon_.connections), 2, "call %d", i);
        ea_nodes_free(&nodes);
        ea_spread_result_free(&result);
        end();
    }
}
