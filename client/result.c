/* result: frees results. The caller's struct may be smaller than the library's: only the members
 * up to `memory`, which every version of the header has, are cleared. */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

#define CLEAR(result, type)                                                     \
    do {                                                                        \
        if (!(result)) return;                                                  \
        free((result)->memory);                                                 \
        memset((result), 0, offsetof(type, memory) + sizeof((result)->memory)); \
    } while (0)

void ea_result_free(ea_result *r)
{
    CLEAR(r, ea_result);
}

void ea_nodes_free(ea_nodes *n)
{
    CLEAR(n, ea_nodes);
}

void ea_hrr_result_free(ea_hrr_result *r)
{
    CLEAR(r, ea_hrr_result);
}

void ea_completed_free(ea_completed *r)
{
    CLEAR(r, ea_completed);
}

void ea_engine_completed_free(ea_engine_completed *r)
{
    CLEAR(r, ea_engine_completed);
}

void ea_recall_result_free(ea_recall_result *r)
{
    CLEAR(r, ea_recall_result);
}

void ea_covariance_result_free(ea_covariance_result *r)
{
    CLEAR(r, ea_covariance_result);
}

void ea_clusters_free(ea_clusters *r)
{
    CLEAR(r, ea_clusters);
}

void ea_spread_result_free(ea_spread_result *r)
{
    CLEAR(r, ea_spread_result);
}
