// The public header is C++ clean: test_header compiles this.
#include "client/engram_accel.h"

int main()
{
    ea_options options{};
    ea_client *client = nullptr;
    ea_result result{};
    if (ea_open(&options, &client) != EA_OK) return 1;
    ea_status status = ea_knn(client, "rows", nullptr, 0, 4, 1, nullptr, nullptr, &result);
    ea_result_free(&result);
    ea_spread_options how{};
    how.mode = EA_ENGRAM;
    ea_spread_result spread{};
    if (status == EA_OK)
        status = ea_spread(client, "links", &how, nullptr, 1, nullptr, nullptr, 0, &spread);
    ea_spread_result_free(&spread);
    ea_nodes nodes{};
    ea_nodes_free(&nodes);
    ea_close(client);
    return status == EA_OK ? 0 : 1;
}
