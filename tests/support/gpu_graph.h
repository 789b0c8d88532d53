/* gpu_graph: a graph in the form that a GPU process gets it, spreads over it as orders, and whether
 * what came back is right to the bit: the CPU's engine over the same arrays says so.
 * Owner:  the test.
 * Thread: one.
 * Errors: fail the test; graph_right says false. */
#ifndef ENGRAM_TESTS_GPU_GRAPH_H
#define ENGRAM_TESTS_GPU_GRAPH_H

#include "kernels/spread.h"
#include "tests/support/gpu_peer.h"

/* At one version. Lists have room for more, and between them lies what leads nowhere. */
struct gpu_graph {
    uint32_t space, nodes;
    uint64_t replica, version, edges;
    void *parts[ORDER_PARTS_MAX];
    uint64_t bytes[ORDER_PARTS_MAX];
    struct spread_grid grid;
};

/* Random, about `degree` edges a node. plain: no kinds, no factors. */
struct gpu_graph graph_make(uint32_t space, uint64_t replica, uint64_t version, uint32_t nodes,
                            uint32_t degree, bool plain, uint64_t seed);
struct gpu_graph graph_copy(const struct gpu_graph *g);
void graph_free(struct gpu_graph *g);
struct spread_graph graph_seen(const struct gpu_graph *g);
/* Every edge gets another weight. */
void graph_reweigh(struct gpu_graph *g, uint64_t seed);

/* Bytes first .. first + count of a part, laid into the heap; version 0: more is to come. */
struct order graph_upload(struct gpu_peer *p, const struct gpu_graph *g, bool fresh, uint32_t part,
                          uint64_t first, uint64_t count, uint64_t version);
/* All parts, as orders; the last has the version. Returns how many: ORDER_PARTS_MAX. */
uint32_t graph_upload_all(struct gpu_peer *p, const struct gpu_graph *g, struct order *orders);
struct order graph_forget(const struct gpu_graph *g);

/* What is asked; zeros: linear, 4 hops, every node may be touched, one seed in each set. */
struct spread_asked {
    enum spread_mode mode;
    uint32_t hops, sets, seeds; /* seeds: of each set */
    uint32_t flags, fan;
    uint64_t touched_max; /* 0: no bound */
    uint64_t room;        /* for records, of all sets; 0: for all that there can be */
    bool filtered;
    float threshold;
    uint64_t seed;
};
struct order graph_ask(struct gpu_peer *p, const struct gpu_graph *g, struct spread_asked asked);
/* Of sets that found no room, that there was none. */
bool graph_right(struct gpu_peer *p, const struct order *o, const struct gpu_graph *g);

#endif
