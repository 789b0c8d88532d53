#include "client/cli/commands/nodes_fetch.h"

#define REPLY_BYTES (16u << 20) /* bounds this process's memory */
#define NODE_BYTES  25u         /* of a reply, and the 8 of an offset */
#define EDGE_BYTES  12u
#define NODES_MAX   65536u

struct nodes_fetch {
    struct cli *cli;
    const char *graph;
    uint64_t budget; /* of a reply */
    nodes_use use;
    void *user;
};

static int fetch_part(const struct nodes_fetch *f, const uint64_t *ids, uint64_t n, bool edges,
                      uint64_t first)
{
    ea_nodes nodes = {0};
    ea_status status = ea_graph_fetch_nodes(f->cli->client, f->graph, ids, n, edges, &nodes);
    int code = status ? cli_failed(f->cli, status, f->graph) : f->use(&nodes, first, f->user);
    ea_nodes_free(&nodes);
    return code;
}

/* Asks for the nodes' degrees first, so that the edges of each request are bounded. */
static int fetch_with_edges(const struct nodes_fetch *f, const uint64_t *ids, uint64_t n,
                            uint64_t first)
{
    ea_nodes counts = {0};
    int code = CLI_OK;
    ea_status status = ea_graph_fetch_nodes(f->cli->client, f->graph, ids, n, false, &counts);
    if (status) code = cli_failed(f->cli, status, f->graph);
    for (uint64_t from = 0, to; !code && from < n; from = to) {
        uint64_t bytes = 256;
        for (to = from; to < n; to++) {
            bytes += NODE_BYTES + EDGE_BYTES * (uint64_t)counts.out_counts[to];
            if (bytes > f->budget && to > from) break;
        }
        code = fetch_part(f, ids + from, to - from, true, first + from);
    }
    ea_nodes_free(&counts);
    return code;
}

int nodes_fetch(struct cli *cli, const char *graph, const uint64_t *ids, uint64_t n, bool edges,
                nodes_use use, void *user)
{
    uint64_t most = cli->info.reply_bytes_max;
    struct nodes_fetch f = {cli, graph, most < REPLY_BYTES ? most : REPLY_BYTES, use, user};
    uint64_t by_body = cli_fit(cli->info.body_bytes_max, 256, 8, NODES_MAX);
    uint64_t step = cli_fit(f.budget, 256, NODE_BYTES, by_body);
    int code = CLI_OK;
    for (uint64_t first = 0; !code && first < n; first += step) {
        uint64_t part = n - first < step ? n - first : step;
        code = edges ? fetch_with_edges(&f, ids + first, part, first)
                     : fetch_part(&f, ids + first, part, false, first);
    }
    return code;
}
