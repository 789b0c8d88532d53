// The public header is C++ clean: test_header compiles this.
#include "client/engram_accel.h"

int main()
{
    ea_options options{};
    ea_client *client = nullptr;
    ea_result result{};
    if (ea_open(&options, &client) != EA_OK) return 1;
    ea_knn_question question{};
    question.collection = "rows";
    question.dimension = 4;
    question.k = 1;
    ea_status status = ea_knn(client, &question, &result);
    ea_result_free(&result);
    ea_spread_options how{};
    how.mode = EA_ENGRAM;
    ea_seeds seeds{};
    ea_spread_result spread{};
    if (status == EA_OK) status = ea_spread(client, "links", &how, &seeds, &spread);
    ea_spread_result_free(&spread);
    ea_nodes nodes{};
    ea_nodes_free(&nodes);
    ea_operand roles{}, fillers{};
    ea_bind_question pairs{};
    pairs.a = &roles;
    pairs.b = &fillers;
    ea_hrr_result bound{};
    if (status == EA_OK) status = ea_bind(client, &pairs, &bound);
    ea_hrr_result_free(&bound);
    ea_complete_question partial{};
    ea_completed whole{};
    if (status == EA_OK) status = ea_complete(client, &partial, &whole);
    ea_completed_free(&whole);
    ea_covariance_question all{};
    ea_covariance_result spread_of{};
    if (status == EA_OK) status = ea_covariance(client, &all, &spread_of);
    ea_covariance_result_free(&spread_of);
    ea_cluster_question similar{};
    ea_clusters clusters{};
    if (status == EA_OK) status = ea_cluster(client, &similar, &clusters);
    ea_clusters_free(&clusters);
    ea_engine_question cues{};
    ea_engine_completed states{};
    if (status == EA_OK) status = ea_complete_engine(client, &cues, &states);
    ea_engine_completed_free(&states);
    ea_send_options send{};
    send.callback = [](ea_client *, const ea_answer *, void *) {};
    if (status == EA_OK) status = ea_knn_send(client, &question, &send, nullptr);
    ea_close(client);
    return status == EA_OK ? 0 : 1;
}
