/* Every call that is one request has a _send form, and its answer has the member that it names. */
#include <criterion/criterion.h>

#include "client/engram_accel.h"
#include "tests/support/fake_daemon.h"

TestSuite(sends, .timeout = 60);

static struct fake_daemon daemon_;
static ea_client *c;
static ea_answer got;
static bool one_set;

static void note(ea_client *client, const ea_answer *answer, void *user)
{
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(client));
    got = *answer;
    if (answer->spread) one_set = answer->spread->sets == 1;
}

static const ea_send_options how = {.callback = note};

/* The member that the answer has, and no other. */
#define ANSWERS(call, member)                                \
    do {                                                     \
        uint64_t id = 0;                                     \
        got = (ea_answer){0};                                \
        cr_assert_eq((call), EA_OK, "%s", ea_error_text(c)); \
        while (ea_pending(c))                                \
            cr_assert_eq(ea_pump(c, -1), EA_OK);             \
        cr_assert(id &&got.request_id == id, #call);         \
        cr_assert(got.member, #call);                        \
        cr_assert_eq(members(), 1, #call);                   \
    } while (0)

static int members(void)
{
    return !!got.result + !!got.spread + !!got.nodes + (got.upserted && !got.result) +
           !!got.deleted + (got.changed && !got.result) + !!got.collection + !!got.graph +
           !!got.info + !!got.stats + !!got.explanation + !!got.holographic + !!got.completed +
           !!got.attractor + !!got.learned + !!got.engine_completed + !!got.recalled;
}

static const uint64_t ids[4] = {0, 1, 2, 3};
static const float values[16] = {1, 2, 3, 4};

static void begin(void)
{
    fake_start(&daemon_, fake_serve);
    ea_options o = {.socket_path = daemon_.path};
    cr_assert_eq(ea_open(&o, &c), EA_OK);
}

static void end(void)
{
    ea_close(c);
    fake_stop(&daemon_);
}

Test(sends, of_reports_and_collections)
{
    begin();
    ANSWERS(ea_get_info_send(c, &how, &id), info);
    ANSWERS(ea_get_stats_send(c, &how, &id), stats);
    ANSWERS(ea_explain_send(c, 5, &how, &id), explanation);
    ANSWERS(ea_collection_create_send(c, "rows", 4, EA_DOT, &how, &id), collection);
    ANSWERS(ea_collection_describe_send(c, "rows", &how, &id), collection);
    ANSWERS(ea_delete_send(c, "rows", ids, 4, &how, &id), deleted);
    ANSWERS(ea_fetch_send(c, "rows", ids, 2, &how, &id), result);
    ANSWERS(ea_fetch_range_send(c, "rows", 0, 2, &how, &id), result);
    ANSWERS(ea_upsert_send(
                c,
                &(ea_rows){
                    .collection = "rows", .ids = ids, .rows = values, .count = 4, .dimension = 4},
                &how, &id),
            upserted);
    cr_assert_eq(ea_collection_drop_send(c, "rows", NULL, NULL), EA_OK);
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    end();
}

Test(sends, of_questions)
{
    begin();
    ANSWERS(ea_norms_send(c, values, 4, 4, &how, &id), result);
    ANSWERS(
        ea_weighted_average_send(
            c,
            &(ea_average_question){.rows = values, .weights = values, .count = 4, .dimension = 4},
            &how, &id),
        result);
    ANSWERS(
        ea_knn_send(
            c,
            &(ea_knn_question){
                .collection = "rows", .queries = values, .query_count = 1, .dimension = 4, .k = 2},
            &how, &id),
        result);
    const ea_operand pairs = {.rows = values, .count = 4};
    const ea_bind_question bound = {.a = &pairs, .b = &pairs, .dimension = 4};
    ANSWERS(ea_bind_send(c, &bound, &how, &id), holographic);
    ANSWERS(ea_unbind_send(c, &bound, &how, &id), holographic);
    const ea_list_question list = {.a = &pairs, .dimension = 4};
    ANSWERS(ea_bind_many_send(c, &list, &how, &id), holographic);
    ANSWERS(ea_superpose_send(c, &list, &how, &id), holographic);
    const ea_permute_question turned = {.a = &pairs, .dimension = 4};
    ANSWERS(ea_permute_send(c, &turned, &how, &id), holographic);
    const ea_random_question random = {.count = 2, .dimension = 4};
    ANSWERS(ea_random_send(c, &random, &how, &id), holographic);
    const ea_cleanup_question meant = {
        .a = &pairs, .b = &pairs, .dimension = 4, .codebook = "rows", .k = 1};
    ANSWERS(ea_cleanup_send(c, &meant, &how, &id), result);
    const ea_complete_question partial = {.collection = "rows",
                                          .states = values,
                                          .state_count = 1,
                                          .dimension = 4,
                                          .beta = 1,
                                          .rounds = 1};
    ANSWERS(ea_complete_send(c, &partial, &how, &id), completed);
    const ea_recall_question cue = {
        .collection = "rows", .graph = "links", .cues = values, .cue_count = 1, .dimension = 4};
    ANSWERS(ea_recall_send(c, &cue, &how, &id), recalled);
    end();
}

Test(sends, of_attractors)
{
    begin();
    const ea_attractor_shape shape = {.dimension = 4};
    ANSWERS(ea_attractor_create_send(c, "traces", &shape, &how, &id), attractor);
    ANSWERS(ea_attractor_describe_send(c, "traces", &how, &id), attractor);
    const ea_learn_question learn = {
        .attractor = "traces", .rows = values, .count = 4, .dimension = 4};
    ANSWERS(ea_attractor_learn_send(c, &learn, &how, &id), learned);
    ANSWERS(ea_attractor_set_send(c, "traces", values, 4, &how, &id), learned);
    ANSWERS(ea_attractor_fetch_send(c, "traces", &how, &id), result);
    const ea_engine_question cues = {
        .attractor = "traces", .cues = values, .count = 2, .dimension = 4, .collection = "rows"};
    ANSWERS(ea_complete_engine_send(c, &cues, &how, &id), engine_completed);
    end();
}

Test(sends, of_graphs)
{
    begin();
    ANSWERS(ea_graph_create_send(c, "links", &how, &id), graph);
    ANSWERS(ea_graph_describe_send(c, "links", &how, &id), graph);
    const ea_graph_edges edges = {
        .sources = ids, .targets = ids, .weights = values, .count = 4, .replace = true};
    ANSWERS(ea_graph_add_edges_send(c, "links", &edges, &how, &id), changed);
    ANSWERS(ea_graph_remove_edges_send(c, "links", &edges, &how, &id), changed);
    ANSWERS(ea_graph_add_weights_send(c, "links", &edges, &how, &id), changed);
    ANSWERS(ea_graph_scale_send(c, "links", 0.5F, &how, &id), changed);
    ANSWERS(ea_graph_prune_send(c, "links", 0.5F, &how, &id), changed);
    const ea_graph_csr matrix = {
        .rows = 2, .offsets = (const uint64_t[]){0, 1, 2}, .columns = ids, .weights = values};
    ANSWERS(ea_graph_add_csr_send(c, "links", &matrix, &how, &id), changed);
    const ea_graph_nodes nodes = {.ids = ids, .count = 3};
    ANSWERS(ea_graph_set_nodes_send(c, "links", &nodes, &how, &id), changed);
    ANSWERS(ea_graph_remove_nodes_send(c, "links", ids, 3, &how, &id), changed);
    ANSWERS(ea_graph_fetch_nodes_send(c, "links", ids, 3, true, &how, &id), nodes);
    ANSWERS(ea_spread_send(c, "links", &(ea_spread_options){.mode = EA_ENGRAM},
                           &(ea_seeds){.sets = 1, .ids = ids, .count = 3}, &how, &id),
            spread);
    cr_assert(one_set);
    cr_assert_eq(ea_graph_drop_send(c, "links", NULL, NULL), EA_OK);
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    end();
}
