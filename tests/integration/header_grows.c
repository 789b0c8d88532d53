/* The program of run_header_grows.sh: every kind of public struct is given to the library, each
 * before bytes that must stay as they are. header_grows SOCKET VERSION */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/engram_accel.h"

enum { CANARY = 0x5a, CANARY_BYTES = 256, ROWS = 5 };

static ea_client *c;

static void expect(int good, const char *what)
{
    if (good) return;
    fprintf(stderr, "header_grows: %s: %s\n", what, ea_error_text(c));
    exit(1);
}
#define EXPECT(good) expect((good), #good)
#define OK(call)     expect((call) == EA_OK, #call)

/* A struct of zeros before its canary. */
#define GUARDED(type, name)                 \
    struct {                                \
        ea_##type it;                       \
        unsigned char canary[CANARY_BYTES]; \
    } name;                                 \
    memset(&name.it, 0, sizeof name.it);    \
    memset(name.canary, CANARY, sizeof name.canary)
#define WHOLE(name) whole(name.canary, #name)

static void whole(const unsigned char *canary, const char *name)
{
    for (int i = 0; i < CANARY_BYTES; i++)
        expect(canary[i] == CANARY, name);
}

static const uint64_t ids[ROWS] = {10, 20, 30, 40, 50};
static const float rows[ROWS * 3] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1};
static const float query[3] = {2, 1, 0};

static void vectors(void)
{
    GUARDED(collection_info, info);
    GUARDED(upsert_counts, counts);
    GUARDED(delete_counts, deleted);
    GUARDED(result, r);
    OK(ea_collection_create(c, "b", 3, EA_COSINE, &info.it));
    OK(ea_collection_create(c, "a", 3, EA_DOT, NULL));
    EXPECT(info.it.dimension == 3 && !strcmp(info.it.name, "b"));
    GUARDED(rows, some);
    some.it = (ea_rows){.collection = "b", .ids = ids, .rows = rows, .count = 5, .dimension = 3};
    OK(ea_upsert(c, &some.it, &counts.it));
    EXPECT(counts.it.inserted == ROWS && counts.it.version);
    GUARDED(filter, filter);
    filter.it = (ea_filter){.ids = ids, .id_count = 4};
    GUARDED(knn_question, q);
    q.it = (ea_knn_question){.collection = "b",
                             .queries = query,
                             .query_count = 1,
                             .dimension = 3,
                             .k = 3,
                             .filter = &filter.it};
    OK(ea_knn(c, &q.it, &r.it));
    EXPECT(r.it.columns == 3 && r.it.ids[0] == 40 && r.it.meta->instance == ea_instance(c));
    OK(ea_delete(c, "b", ids, 2, &deleted.it));
    EXPECT(deleted.it.deleted == 2 && deleted.it.missing == 0);
    ea_collection_info *list;
    size_t count;
    OK(ea_collection_list(c, &list, &count));
    EXPECT(count == 2 && !strcmp(list[0].name, "a") && !strcmp(list[1].name, "b"));
    EXPECT(list[1].rows == 3 && list[0].metric == EA_DOT);
    ea_collection_list_free(list);
    WHOLE(info), WHOLE(counts), WHOLE(deleted), WHOLE(r), WHOLE(q), WHOLE(some), WHOLE(filter);
    ea_result_free(&r.it);
    EXPECT(!r.it.memory && !r.it.ids);
    WHOLE(r);
}

static void graphs(void)
{
    GUARDED(graph_info, info);
    GUARDED(graph_counts, counts);
    GUARDED(nodes, nodes);
    GUARDED(spread_result, spread);
    static const float weights[] = {0.5F, 0.25F};
    OK(ea_graph_create(c, "g", &info.it));
    EXPECT(!strcmp(info.it.name, "g"));
    OK(ea_graph_add_edges(
        c, "g",
        &(ea_graph_edges){.sources = ids, .targets = ids + 1, .weights = weights, .count = 2},
        &counts.it));
    EXPECT(counts.it.edges_added == 2 && counts.it.nodes == 3);
    OK(ea_graph_set_nodes(
        c, "g", &(ea_graph_nodes){.ids = ids, .kinds = (const uint8_t[]){1, 2, 0}, .count = 3},
        &counts.it));
    OK(ea_graph_fetch_nodes(c, "g", ids, 3, true, &nodes.it));
    EXPECT(nodes.it.count == 3 && nodes.it.kinds[1] == 2 && nodes.it.meta->version);
    OK(ea_spread(c, "g", &(ea_spread_options){.mode = EA_LINEAR, .decay = EA_DECAY_CONSTANT},
                 &(ea_seeds){.sets = 1, .ids = ids, .count = 1}, &spread.it));
    EXPECT(spread.it.sets == 1 && spread.it.count == 3 && spread.it.meta);
    OK(ea_spread(c, "g", &(ea_spread_options){.mode = EA_ENGRAM, .embeddings = "b"},
                 &(ea_seeds){.sets = 1, .ids = ids, .count = 1}, &spread.it));
    EXPECT(spread.it.embeddings_version);
    ea_graph_info *list;
    size_t count;
    OK(ea_graph_list(c, &list, &count));
    EXPECT(count == 1 && list[0].edges == 2);
    ea_graph_list_free(list);
    ea_nodes_free(&nodes.it);
    ea_spread_result_free(&spread.it);
    WHOLE(info), WHOLE(counts), WHOLE(nodes), WHOLE(spread);
}

static void bound(void)
{
    static const float turn[3] = {0, 1, 0}; /* bound to it, a vector is shifted by one */
    GUARDED(operand, a);
    GUARDED(operand, b);
    GUARDED(into, into);
    GUARDED(bind_question, q);
    GUARDED(hrr_result, r);
    a.it = (ea_operand){.rows = turn, .count = 1};
    b.it = (ea_operand){.collection = "b", .ids = ids + 2, .count = 3};
    q.it = (ea_bind_question){.a = &a.it, .b = &b.it, .dimension = 3};
    OK(ea_bind(c, &q.it, &r.it));
    EXPECT(r.it.rows == 3 && r.it.vectors[0] > 0.99F && r.it.vectors[4] > 0.99F && r.it.b_version);
    into.it = (ea_into){.collection = "a", .ids = ids};
    q.it.into = &into.it;
    OK(ea_bind(c, &q.it, &r.it));
    EXPECT(!r.it.vectors && r.it.inserted == 3 && r.it.into_rows == 3 && r.it.meta);
    GUARDED(list_question, list);
    GUARDED(permute_question, turned);
    GUARDED(random_question, random);
    list.it = (ea_list_question){.a = &b.it, .normalize = true};
    OK(ea_superpose(c, &list.it, &r.it));
    EXPECT(r.it.rows == 1 && r.it.columns == 3 && r.it.a_version);
    turned.it = (ea_permute_question){.a = &b.it, .shift = -1, .into = &into.it};
    OK(ea_permute(c, &turned.it, &r.it));
    EXPECT(!r.it.vectors && r.it.replaced == 3);
    random.it = (ea_random_question){.seed = 1, .count = 2, .dimension = 5};
    OK(ea_random(c, &random.it, &r.it));
    EXPECT(r.it.rows == 2 && r.it.columns == 5);
    GUARDED(cleanup_question, meant);
    GUARDED(result, hits);
    meant.it =
        (ea_cleanup_question){.a = &b.it, .b = &a.it, .dimension = 3, .codebook = "b", .k = 1};
    OK(ea_cleanup(c, &meant.it, &hits.it));
    EXPECT(hits.it.rows == 3 && hits.it.columns == 1 && hits.it.counts[2] == 1);
    ea_result_free(&hits.it);
    WHOLE(meant), WHOLE(hits);
    ea_hrr_result_free(&r.it);
    WHOLE(a), WHOLE(b), WHOLE(into), WHOLE(q), WHOLE(list), WHOLE(turned), WHOLE(random), WHOLE(r);
}

static void completed(void)
{
    static const float cue[3] = {1, 0, 0};
    static const uint8_t known[3] = {1, 0, 0};
    GUARDED(complete_question, q);
    GUARDED(completed, r);
    q.it = (ea_complete_question){.collection = "b",
                                  .states = cue,
                                  .state_count = 1,
                                  .dimension = 3,
                                  .mask = known,
                                  .mask_rows = 1,
                                  .beta = 32,
                                  .rounds = 5,
                                  .unit = true};
    OK(ea_complete(c, &q.it, &r.it));
    EXPECT(r.it.rows == 1 && r.it.columns == 3 && r.it.states[0] == 1 && r.it.rounds[0] >= 1);
    EXPECT(r.it.meta->version && r.it.cosines[0] > 0.9F);
    ea_completed_free(&r.it);
    WHOLE(q), WHOLE(r);
}

static void covariances(void)
{
    GUARDED(covariance_question, q);
    GUARDED(covariance_result, r);
    q.it = (ea_covariance_question){.collection = "b"};
    OK(ea_covariance(c, &q.it, &r.it));
    EXPECT(r.it.rows >= 2 && r.it.dimension == 3 && r.it.divisor == (double)r.it.rows - 1);
    EXPECT(r.it.meta->version && r.it.covariance[1] == r.it.covariance[3]);
    ea_covariance_result_free(&r.it);
    WHOLE(q), WHOLE(r);
}

static void clusters(void)
{
    static const uint32_t one = 1;
    GUARDED(cluster_question, q);
    GUARDED(clusters, r);
    q.it = (ea_cluster_question){.collection = "b", .size_min = &one};
    OK(ea_cluster(c, &q.it, &r.it));
    EXPECT(r.it.rows >= 2 && r.it.dimension == 3 && r.it.count >= 1 && r.it.ids);
    EXPECT(r.it.meta->version == r.it.collection_version && r.it.labels[0] < r.it.count);
    ea_clusters_free(&r.it);
    WHOLE(q), WHOLE(r);
}

static void attractors(void)
{
    static const float row[3] = {1, 0, 0}, part = 0.5F;
    static const uint8_t known[3] = {1, 0, 0};
    GUARDED(attractor_info, info);
    GUARDED(attractor_shape, shape);
    GUARDED(learn_question, learn);
    GUARDED(learned, learned);
    GUARDED(engine_question, q);
    GUARDED(engine_completed, r);
    shape.it = (ea_attractor_shape){.dimension = 3, .sparsity = &part};
    OK(ea_attractor_create(c, "traces", &shape.it, &info.it));
    EXPECT(info.it.dimension == 3 && info.it.kept == 2);
    learn.it = (ea_learn_question){.attractor = "traces", .rows = row, .count = 1, .dimension = 3};
    OK(ea_attractor_learn(c, &learn.it, &learned.it));
    EXPECT(learned.it.patterns == 1 && learned.it.version > info.it.version);
    q.it = (ea_engine_question){.attractor = "traces",
                                .cues = row,
                                .count = 1,
                                .dimension = 3,
                                .mask = known,
                                .mask_rows = 1,
                                .collection = "b"};
    OK(ea_complete_engine(c, &q.it, &r.it));
    EXPECT(r.it.rows == 1 && r.it.columns == 3 && r.it.rounds[0] >= 1 && r.it.ids);
    EXPECT(r.it.attractor_version == learned.it.version && r.it.collection_version);
    ea_engine_completed_free(&r.it);
    OK(ea_attractor_drop(c, "traces"));
    WHOLE(info), WHOLE(shape), WHOLE(learn), WHOLE(learned), WHOLE(q), WHOLE(r);
}

/* After graphs(): node 10 leads to 20, and that to 30. */
static void recalled(void)
{
    static const float cue[3] = {1, 1, 1};
    GUARDED(recall_question, q);
    GUARDED(spread_options, how);
    GUARDED(recall_result, r);
    how.it = (ea_spread_options){.mode = EA_LINEAR, .decay = EA_DECAY_CONSTANT, .paths = true};
    q.it = (ea_recall_question){.collection = "b",
                                .graph = "g",
                                .cues = cue,
                                .cue_count = 1,
                                .dimension = 3,
                                .spread = &how.it};
    OK(ea_recall(c, &q.it, &r.it));
    EXPECT(r.it.lists == 1 && r.it.count >= 3 && r.it.seeds[0] >= 3 && r.it.marks[0]);
    EXPECT(r.it.meta && r.it.graph_version && r.it.collection_version);
    EXPECT(r.it.path_offsets[r.it.count] >= r.it.count);
    ea_recall_result_free(&r.it);
    EXPECT(!r.it.memory && !r.it.ids);
    WHOLE(q), WHOLE(how), WHOLE(r);
}

static void reports(void)
{
    GUARDED(info, info);
    GUARDED(stats, stats);
    GUARDED(explanation, e);
    OK(ea_get_info(c, &info.it));
    OK(ea_get_stats(c, &stats.it));
    OK(ea_explain(c, 64, &e.it));
    EXPECT(info.it.instance == ea_instance(c) && info.it.body_bytes_max);
    EXPECT(stats.it.collections == 2 && stats.it.graphs == 1 && stats.it.space.weight);
    EXPECT(stats.it.operation_count && stats.it.scheduler.decisions);
    EXPECT(e.it.operation_count && e.it.operations[0].name);
    GUARDED(setting, now);
    ea_setting *settings;
    ea_space_info *spaces;
    size_t count;
    OK(ea_config_set(c, "batch.wait_us", "7", &now.it, NULL));
    EXPECT(now.it.live && !strcmp(now.it.value, "7"));
    OK(ea_config_get(c, &settings, &count));
    EXPECT(count > 64 && !strcmp(settings[1].name, "socket.mode") && !settings[1].live);
    ea_settings_free(settings);
    OK(ea_get_spaces(c, &spaces, &count));
    size_t own = 0;
    while (own < count && !spaces[own].own)
        own++;
    EXPECT(own < count && spaces[own].collections == 2 && spaces[own].use.weight);
    ea_spaces_free(spaces);
    ea_slow_request *slow;
    uint64_t slow_total = 0;
    OK(ea_get_slowlog(c, &slow, &count, &slow_total));
    EXPECT(count <= slow_total);
    ea_slowlog_free(slow);
    GUARDED(memory_space, all);
    ea_memory_content *contents;
    ea_memory_pool *pools;
    OK(ea_get_memory(c, NULL, &contents, &count, &all.it));
    EXPECT(count == 3 && all.it.host_bytes && contents[0].what == EA_MEMORY_COLLECTION);
    EXPECT(contents[0].number < contents[1].number && contents[0].name[0]);
    ea_memory_free(contents);
    OK(ea_get_memory_pools(c, false, &pools, &count));
    EXPECT(count == 1 && pools[0].of == EA_MEMORY_HOST && pools[0].used_bytes);
    ea_memory_free(pools);
    WHOLE(info), WHOLE(stats), WHOLE(e), WHOLE(now), WHOLE(all);
}

static unsigned answers;

static void note(ea_client *client, const ea_answer *answer, void *user)
{
    expect(client == c && answer->status == EA_OK, "an answer");
    answers++;
    if (answer->stats) *(ea_stats *)user = *answer->stats;
    if (!answer->result) return;
    *(ea_result *)user = *answer->result;
    *answer->result = (ea_result){0}; /* kept */
}

static void sent(void)
{
    GUARDED(result, r);
    GUARDED(stats, stats);
    OK(ea_fetch_send(c, "b", ids + 2, 1, &(ea_send_options){.callback = note, .user = &r.it},
                     NULL));
    OK(ea_get_stats_send(c, &(ea_send_options){.callback = note, .user = &stats.it}, NULL));
    while (ea_pending(c))
        OK(ea_pump(c, -1));
    EXPECT(answers == 2 && r.it.rows == 1 && r.it.vectors[2] == 1 && r.it.meta);
    EXPECT(stats.it.collections == 2 && stats.it.pressure.low == false);
    WHOLE(r), WHOLE(stats);
    ea_result_free(&r.it);
}

int main(int argc, char **argv)
{
    if (argc != 3 || strcmp(ea_library_version(), argv[2])) {
        fprintf(stderr, "header_grows: this is library %s\n", ea_library_version());
        return 1;
    }
    GUARDED(options, options);
    options.it.socket_path = argv[1];
    if (ea_open(&options.it, &c)) return 1;
    vectors();
    graphs();
    bound();
    completed();
    covariances();
    clusters();
    attractors();
    recalled();
    reports();
    sent();
    OK(ea_collection_drop(c, "a"));
    OK(ea_collection_drop(c, "b"));
    OK(ea_graph_drop(c, "g"));
    ea_close(c);
    WHOLE(options);
    return 0;
}
