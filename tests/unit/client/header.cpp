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
    ea_close(client);
    return status == EA_OK ? 0 : 1;
}
