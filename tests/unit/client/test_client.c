/* The client against a daemon that behaves: every call, and what calls share. */
#include <math.h>
#include <stdlib.h>

#include "tests/unit/client/client_rig.h"

static const float matrix[40] = {1, 2, 3, 4, 5, 6, 7, 8};
static const uint64_t ids[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

TestSuite(client, .init = begin_served, .fini = end, .timeout = 900);

Test(client, options)
{
    ea_client *c = NULL;
    char long_text[300];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    const ea_options bad[] = {
        {.tcp_host = "localhost"},  {.tcp_port = 1},
        {.socket_path = long_text}, {.space = long_text},
        {.client_name = long_text}, {.token = long_text, .token_bytes = 256},
        {.token_bytes = 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_eq(ea_open(&bad[i], &c), EA_INVALID_ARGUMENT, "options %zu", i);
    cr_assert_eq(ea_open(NULL, NULL), EA_INVALID_ARGUMENT);
    cr_assert_null(c);
    cr_assert_eq(ea_open(NULL, &c), EA_OK);
    cr_assert_eq(ea_fd(c), -1);
    cr_assert_eq(ea_instance(c), 0);
    cr_assert_str_eq(ea_error_text(c), "");
    ea_close(c);
    ea_close(NULL);
    ea_result_free(NULL);
    cr_assert_eq(ea_connect(NULL), EA_INVALID_ARGUMENT);
    cr_assert_str_eq(ea_status_name(EA_DATA_LOSS), "DATA_LOSS");
    cr_assert_str_eq(ea_status_name((ea_status)99), "?");
    cr_assert_str_eq(ea_backend_name(EA_BACKEND_GPU), "gpu");
    cr_assert_str_eq(ea_reason_name(3), "gpu_absent");
    cr_assert_str_eq(ea_reason_name(99), "?");
    cr_assert_str_eq(ea_library_version(), ENGRAM_VERSION);
}

Test(client, daemon_calls)
{
    OK(ea_connect(client));
    cr_assert_eq(ea_instance(client), 1);
    OK(ea_ping(client));
    ea_info info;
    OK(ea_get_info(client, &info));
    cr_assert_str_eq(info.server_version, "fake");
    cr_assert_str_eq(info.gpu, "absent: fake");
    cr_assert_eq(info.workers, 3);
    cr_assert_eq(info.gpu_count, 2);
    const ea_gpu_info *g = &info.gpus[0];
    cr_assert_eq(g->state, EA_GPU_READY);
    cr_assert_str_eq(g->name, "Fake?[31m 1");
    cr_assert_str_eq(g->uuid, "GPU-1");
    cr_assert(g->capability_major == 9 && g->multiprocessors == 132 && g->driver_version == 13000);
    cr_assert(g->memory_bytes == UINT64_C(1) << 37 && g->restarts == 2 && g->virtual_memory);
    cr_assert_eq(info.gpus[1].number, 1);
    cr_assert_str_eq(ea_gpu_state_name(info.gpus[1].state), "absent");
    cr_assert_str_eq(info.gpus[1].why, "absent: fake");
    cr_assert_str_eq(ea_gpu_state_name((ea_gpu_state)99), "?");
    cr_assert(!info.ready && info.load_objects == 12 && info.load_objects_done == 11);
    cr_assert(info.load_bytes == 1000 && info.load_bytes_done == 370);
    cr_assert(info.left_out_count == 2 && info.left_out_shown == 2);
    cr_assert_str_eq(info.left_out[0], "one/three (collection)");
    cr_assert_str_eq(info.left_out[1], "one/?[31mweb (graph)");
    ea_stats stats;
    OK(ea_get_stats(client, &stats));
    cr_assert_eq(stats.requests_total, 5);
    cr_assert(stats.graphs == 2 && stats.graph_nodes == 30);
    cr_assert(stats.graph_edges == 40 && stats.graph_bytes == 5000);
    cr_assert(stats.journal.mode == EA_JOURNAL_ALWAYS && stats.journal.files == 21);
    cr_assert(stats.journal.state == EA_JOURNAL_NO_ROOM && stats.journal.lag_ns == 22);
    cr_assert_str_eq(stats.journal.why, "journal-7: ?[31mfull");
    cr_assert(stats.snapshots.number == 23 && stats.snapshots.age_ns == 24);
    cr_assert(stats.snapshots.failing && strcmp(stats.snapshots.error, "a?b") == 0);
    cr_assert_eq(stats.operation_count, 2);
    cr_assert_str_eq(stats.operations[0].name, "knn");
    cr_assert_eq(stats.operations[0].max_ns, 4);
    cr_assert_str_eq(stats.operations[1].name, "?");
    cr_assert_eq(stats.gpu_count, 1);
    cr_assert(stats.gpus[0].replicas == 3 && stats.gpus[0].upload_bytes == 55);
    cr_assert_eq(stats.gpus[0].jobs_in_flight, 4);
    const ea_gpu_sensors *now = &stats.gpus[0].sensors;
    cr_assert(now->celsius == 61 && now->slowed == (EA_SLOWED_BY_HEAT | EA_SLOWED_BY_POWER_LIMIT));
    cr_assert(now->all_bytes == INT64_MAX && now->milliwatts == -1 && now->ecc_uncorrected == -1);
    cr_assert_eq(stats.route_count, 4);
    cr_assert_str_eq(ea_reason_name(stats.routes[1].reason), "gpu_down");
    cr_assert(strlen(ea_reason_text(stats.routes[1].reason)) > 10);
    cr_assert_str_eq(ea_reason_text(stats.routes[3].reason), "?");
    cr_assert_eq(stats.backend_requests[EA_BACKEND_CPU], 3);
    cr_assert_eq(stats.backend_requests[EA_BACKEND_GPU], 9);
    cr_assert(stats.space.host_bytes == 11 && stats.space.weight == 2);
    cr_assert_eq(stats.space.use[EA_BACKEND_CPU].requests, 3);
    cr_assert_eq(stats.space.use[EA_BACKEND_GPU].requests, 9);
    cr_assert(stats.scheduler.decisions == 12 && stats.scheduler.aged == 1);
    cr_assert(stats.pressure.evictions == 4 && stats.pressure.low);
    cr_assert(stats.peer_count == 2 && stats.peers_left_out == 3);
    cr_assert_str_eq(stats.peers[1].name, "uid?[31m 8");
    const ea_peer_stats *p = stats.peers;
    cr_assert(p->own && !p[1].own && p->connections == 1 && p->requests == 2 && p->in_line == 3);
    cr_assert(p->in_line_max == 4 && p->body_bytes == 5 && p->refused_queue == 6);
    cr_assert(p->refused_connections == 7 && p->refused_bodies == 8 && p[1].connections == 9);
    cr_assert_eq(ea_get_stats(client, NULL), EA_INVALID_ARGUMENT);
}

Test(client, explain)
{
    ea_explanation e;
    OK(ea_explain(client, 64, &e));
    cr_assert_str_eq(e.gpu, "Fake?[31m 1");
    cr_assert(e.calibrated && e.workers == 3 && e.force == EA_BACKEND_GPU);
    cr_assert_eq(e.nodes_min, 512);
    cr_assert(e.pairs_min == 64 && e.batch_wait_ns == 500000 && e.decisions_total == 9);
    cr_assert_eq(e.operation_count, 2);
    cr_assert_str_eq(e.operations[0].name, "knn");
    cr_assert_str_eq(e.operations[1].name, "?");
    cr_assert_float_eq(e.operations[0].costs[EA_BACKEND_CPU].fixed_ns, 2000, 0);
    cr_assert_float_eq(e.operations[0].costs[EA_BACKEND_GPU].fixed_ns, 25000, 0);
    cr_assert_float_eq(e.operations[0].costs[EA_BACKEND_GPU].drift, 1.25F, 0);
    cr_assert_eq(e.operations[0].crossover_count, 2);
    cr_assert(e.operations[0].crossovers[0].rows == 1000 && !e.operations[0].crossovers[1].rows);
    cr_assert_eq(e.decision_count, 2);
    const ea_decision *d = &e.decisions[0];
    cr_assert(d->backend == EA_BACKEND_GPU && d->gpu == 2 && d->members == 3 && d->well);
    cr_assert_str_eq(ea_reason_name(d->reason), "probe");
    cr_assert(d->rows == 5 && d->queries == 4 && d->gpu_ns == 70 && d->took_ns == 77);
    cr_assert(e.decisions[1].backend == EA_BACKEND_CPU && !e.decisions[1].well);
    cr_assert_str_eq(e.decisions[1].name, "?");
    cr_assert_eq(ea_explain(client, 65, &e), EA_INVALID_ARGUMENT);
    cr_assert(strstr(ea_error_text(client), "0 to 64"));
    cr_assert_eq(ea_explain(client, 1, NULL), EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_explain(NULL, 1, &e), EA_INVALID_ARGUMENT);
}

Test(client, collection_calls)
{
    ea_collection_info info;
    OK(ea_collection_create(client, "rows", 4, EA_DOT, &info));
    cr_assert_str_eq(info.name, "rows");
    cr_assert_eq(info.metric, EA_DOT);
    OK(ea_collection_create(client, "rows", 4, EA_DOT, NULL));
    OK(ea_collection_describe(client, "rows", &info));
    cr_assert_eq(info.dimension, 4);
    cr_assert(info.vram_bytes == 4096 && info.vram_version == 6);
    cr_assert(info.shadow_rows == 9 && info.shadow_bytes == 780 && info.shadow_lost == 0.0075);
    cr_assert_eq(info.shadow_age_us, 5000);
    cr_assert(info.shadow_screened == 900 && info.shadow_passed == 12);
    OK(ea_collection_drop(client, "rows"));
    ea_collection_info *list;
    size_t count;
    OK(ea_collection_list(client, &list, &count));
    cr_assert_eq(count, 150);
    cr_assert_str_eq(list[149].name, "c149");
    ea_collection_list_free(list);
    ea_delete_counts counts;
    OK(ea_delete(client, "rows", ids, 5, &counts));
    cr_assert(counts.deleted == 5 && counts.missing == 1);
    OK(ea_delete(client, "rows", NULL, 0, NULL));
}

Test(client, fetch_calls)
{
    ea_result r = {0};
    OK(ea_fetch(client, "rows", ids, 5, &r));
    cr_assert(r.rows == 5 && r.columns == 4 && r.ids[4] == 4 && r.found[4] == 1);
    cr_assert_eq(r.vectors[19], 0.5F);
    cr_assert_eq((uintptr_t)r.vectors % 64, 0);
    cr_assert_eq(r.meta->version, 7);
    cr_assert_eq(r.meta->backend, EA_BACKEND_CPU);
    OK(ea_fetch_range(client, "rows", 0, 100, &r)); /* frees what it held */
    cr_assert(r.rows == 3 && r.ids && !r.found);
    OK(ea_fetch(client, "rows", NULL, 0, &r));
    cr_assert_eq(r.rows, 0);
    ea_result_free(&r);
}

Test(client, questions)
{
    ea_result r = {0};
    float threshold = 0.1F;
    ea_filter list = {.ids = ids, .id_count = 2},
              bits = {.bitmap = (const uint8_t *)"\xff", .bitmap_bytes = 1, .bitmap_first = 3};
    OK(ea_knn(
        client,
        &(ea_knn_question){
            .collection = "rows", .queries = matrix, .query_count = 2, .dimension = 4, .k = 10},
        &r));
    cr_assert(r.rows == 2 && r.columns == 3 && r.counts[1] == 1 && r.scores[5] == 0.5F);
    OK(ea_knn(client,
              &(ea_knn_question){.collection = "rows",
                                 .queries = matrix,
                                 .query_count = 2,
                                 .dimension = 4,
                                 .k = 1,
                                 .filter = &list,
                                 .threshold = &threshold},
              &r));
    cr_assert_eq(r.columns, 1);
    OK(ea_knn(client,
              &(ea_knn_question){.collection = "rows",
                                 .queries = matrix,
                                 .query_count = 2,
                                 .dimension = 4,
                                 .k = 10,
                                 .filter = &bits},
              &r));
    OK(ea_knn(client, &(ea_knn_question){.collection = "rows", .dimension = 4, .k = 10}, &r));
    cr_assert_eq(r.rows, 0);

    OK(ea_similarity(client,
                     &(ea_similarity_question){
                         .collection = "rows", .queries = matrix, .query_count = 2, .dimension = 4},
                     &r));
    cr_assert(r.rows == 2 && r.columns == 3 && r.ids[2] == 2 && !r.offsets);
    OK(ea_similarity(client,
                     &(ea_similarity_question){.collection = "rows",
                                               .queries = matrix,
                                               .query_count = 2,
                                               .dimension = 4,
                                               .filter = &list},
                     &r));
    cr_assert_eq(r.columns, 2);
    OK(ea_similarity(client,
                     &(ea_similarity_question){.collection = "rows",
                                               .queries = matrix,
                                               .query_count = 2,
                                               .dimension = 4,
                                               .filter = &bits,
                                               .threshold = &threshold},
                     &r));
    cr_assert(r.rows == 2 && r.columns == 2 && r.offsets[2] == 2);
    OK(ea_similarity(client,
                     &(ea_similarity_question){.metric = EA_COSINE,
                                               .queries = matrix,
                                               .query_count = 2,
                                               .rows = matrix,
                                               .row_count = 5,
                                               .dimension = 4},
                     &r));
    cr_assert(r.rows == 2 && r.columns == 5 && !r.ids);
    OK(ea_similarity(client,
                     &(ea_similarity_question){
                         .metric = EA_COSINE, .queries = matrix, .query_count = 2, .dimension = 4},
                     &r));
    cr_assert(r.rows == 2 && r.columns == 0);

    const uint64_t offsets[] = {0, 2, 5};
    OK(ea_score(client,
                &(ea_score_question){.collection = "rows",
                                     .queries = matrix,
                                     .query_count = 2,
                                     .dimension = 4,
                                     .offsets = offsets,
                                     .ids = ids,
                                     .count = 5},
                &r));
    cr_assert(r.rows == 5 && r.columns == 1 && r.scores[4] == 0.5F);
    OK(ea_score(client,
                &(ea_score_question){.collection = "rows",
                                     .metric = EA_DOT,
                                     .queries = matrix,
                                     .query_count = 1,
                                     .dimension = 4,
                                     .ids = ids,
                                     .count = 5,
                                     .k = 2},
                &r));
    cr_assert(r.rows == 1 && r.columns == 2 && r.counts[0] == 1);
    OK(ea_score(client,
                &(ea_score_question){.metric = EA_DOT,
                                     .queries = matrix,
                                     .query_count = 2,
                                     .dimension = 4,
                                     .offsets = offsets,
                                     .rows = matrix,
                                     .count = 5},
                &r));
    cr_assert_eq(r.rows, 5);
    OK(ea_score(client, &(ea_score_question){.collection = "rows", .dimension = 4}, &r));
    ea_result_free(&r);

    float out[5] = {0};
    OK(ea_norms(client, matrix, 5, 4, out));
    cr_assert_eq(out[4], 0.5F);
    OK(ea_norms(client, NULL, 0, 4, NULL));
    OK(ea_weighted_average(
        client,
        &(ea_average_question){.rows = matrix, .weights = matrix, .count = 3, .dimension = 4},
        out));
    OK(ea_weighted_average(
        client,
        &(ea_average_question){
            .collection = "rows", .ids = ids, .weights = matrix, .count = 3, .dimension = 4},
        out));
    cr_assert_eq(
        ea_weighted_average(
            client,
            &(ea_average_question){
                .collection = "rows", .ids = ids, .weights = matrix, .count = 3, .dimension = 5},
            out),
        EA_INVALID_ARGUMENT);
    cr_assert(strstr(ea_error_text(client), "the collection has 4"));
}

Test(client, refuses_what_it_can_see_is_wrong)
{
    ea_result r = {0};
    float out[4];
    char name[80];
    memset(name, 'n', 79);
    name[79] = '\0';
    const ea_filter both = {
        .ids = ids, .id_count = 1, .bitmap = (const uint8_t *)"x", .bitmap_bytes = 1};
#define BAD(call) cr_assert_eq((call), EA_INVALID_ARGUMENT)
    BAD(ea_knn(client,
               &(ea_knn_question){.queries = matrix, .query_count = 1, .dimension = 4, .k = 1},
               &r));
    BAD(ea_knn(client,
               &(ea_knn_question){
                   .collection = name, .queries = matrix, .query_count = 1, .dimension = 4, .k = 1},
               &r));
    BAD(ea_knn(
        client,
        &(ea_knn_question){.collection = "rows", .queries = matrix, .query_count = 1, .k = 1}, &r));
    cr_assert(strstr(ea_error_text(client), "dimension: 0"));
    cr_assert(!ea_error_retryable(client));
    BAD(ea_knn(
        client,
        &(ea_knn_question){
            .collection = "rows", .queries = matrix, .query_count = 1, .dimension = 16385, .k = 1},
        &r));
    BAD(ea_knn(client,
               &(ea_knn_question){.collection = "rows", .query_count = 1, .dimension = 4, .k = 1},
               &r));
    BAD(ea_knn(client,
               &(ea_knn_question){.collection = "rows",
                                  .queries = matrix,
                                  .query_count = UINT64_MAX,
                                  .dimension = 4,
                                  .k = 1},
               &r));
    BAD(ea_knn(client,
               &(ea_knn_question){.collection = "rows",
                                  .queries = matrix,
                                  .query_count = UINT64_MAX / 16,
                                  .dimension = 4,
                                  .k = 1},
               &r));
    BAD(ea_knn(client,
               &(ea_knn_question){.collection = "rows",
                                  .queries = matrix,
                                  .query_count = 1,
                                  .dimension = 4,
                                  .k = 1,
                                  .filter = &both},
               &r));
    BAD(ea_knn(
        client,
        &(ea_knn_question){
            .collection = "rows", .queries = matrix, .query_count = 1, .dimension = 4, .k = 1},
        NULL));
    BAD(ea_knn(
        NULL,
        &(ea_knn_question){
            .collection = "rows", .queries = matrix, .query_count = 1, .dimension = 4, .k = 1},
        &r));
    BAD(ea_similarity(
        client,
        &(ea_similarity_question){
            .collection = "rows", .queries = matrix, .query_count = 1, .dimension = 4},
        NULL));
    BAD(ea_similarity(
        client,
        &(ea_similarity_question){
            .metric = EA_DOT, .queries = matrix, .query_count = 1, .row_count = 3, .dimension = 4},
        &r));
    BAD(ea_score(client,
                 &(ea_score_question){.collection = "rows",
                                      .queries = matrix,
                                      .query_count = 2,
                                      .dimension = 4,
                                      .ids = ids,
                                      .count = 5},
                 &r));
    BAD(ea_score(client,
                 &(ea_score_question){.metric = EA_DOT,
                                      .queries = matrix,
                                      .query_count = 2,
                                      .dimension = 4,
                                      .rows = matrix,
                                      .count = 5},
                 &r));
    BAD(ea_norms(client, matrix, 1, 4, NULL));
    BAD(ea_norms(client, matrix, 1, 0, out));
    BAD(ea_weighted_average(
        client, &(ea_average_question){.rows = matrix, .count = 1, .dimension = 4}, out));
    BAD(ea_weighted_average(
        client,
        &(ea_average_question){.rows = matrix, .weights = matrix, .count = 1, .dimension = 4},
        NULL));
    BAD(ea_weighted_average(
        client, &(ea_average_question){.ids = ids, .weights = matrix, .count = 1, .dimension = 4},
        out));
    BAD(ea_collection_create(client, "rows", 0, EA_DOT, NULL));
    BAD(ea_collection_create(client, "rows", 4, (ea_metric)0, NULL));
    BAD(ea_collection_create(client, NULL, 4, EA_DOT, NULL));
    BAD(ea_collection_drop(client, NULL));
    BAD(ea_collection_describe(client, NULL, NULL));
    BAD(ea_collection_list(client, NULL, NULL));
    BAD(ea_delete(client, "rows", NULL, 3, NULL));
    BAD(ea_fetch(client, "rows", NULL, 3, &r));
    BAD(ea_fetch(client, "rows", ids, 3, NULL));
    BAD(ea_upsert(client, &(ea_rows){.ids = ids, .rows = matrix, .count = 1, .dimension = 4},
                  NULL));
    BAD(ea_upsert(client,
                  &(ea_rows){.collection = "rows",
                             .ids = ids,
                             .rows = matrix,
                             .count = UINT64_MAX / 8,
                             .dimension = 4},
                  NULL));
    BAD(ea_upsert(client,
                  &(ea_rows){.collection = "rows", .rows = matrix, .count = 1, .dimension = 4},
                  NULL));
    BAD(ea_upsert_send(client,
                       &(ea_rows){.collection = "rows", .ids = ids, .count = 1, .dimension = 4},
                       NULL, NULL));
    BAD(ea_pump(NULL, 0));
    cr_assert_eq(r.memory, NULL);
    /* What only the daemon refuses comes back with its words, and the connection stays. */
    cr_assert_eq(
        ea_knn(client,
               &(ea_knn_question){
                   .collection = "rows", .queries = matrix, .query_count = 1, .dimension = 4},
               &r),
        EA_INVALID_ARGUMENT);
    cr_assert_eq(ea_error_detail(client), DETAIL_BAD_K);
    cr_assert(strstr(ea_error_text(client), "k: 0"));
    cr_assert_eq(ea_error_retry_after_ms(client), 0);
    OK(ea_ping(client));
    cr_assert_eq(atomic_load(&daemon_.connections), 1);
}

Test(client, unaligned_arrays)
{
    static char bytes[2000];
    uint64_t *odd_ids = (uint64_t *)(bytes + 1);
    float *odd_rows = (float *)(bytes + 801);
    memcpy(odd_ids, ids, sizeof ids);
    OK(ea_upsert(
        client,
        &(ea_rows){
            .collection = "rows", .ids = odd_ids, .rows = odd_rows, .count = 10, .dimension = 4},
        NULL));
}
