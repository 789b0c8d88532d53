/* engram_accel_graph: graphs and spreading. engram_accel.h, which includes it, says who owns what,
 * which threads may call, and what errors mean. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_GRAPH_H)
#define ENGRAM_ACCEL_GRAPH_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- graphs: directed weighted edges over nodes with ids (EA_NO_ID is nobody's) ---- */

typedef enum ea_node_kind { EA_PLAIN = 0, EA_EPISODE = 1, EA_CONCEPT = 2 } ea_node_kind;

typedef struct ea_graph_info {
    char name[65];
    uint64_t nodes, edges, version;
    uint64_t edge_bytes; /* both orientations, spare places included */
    uint64_t node_bytes; /* lists, ids, kinds, factors, id index */
    uint64_t work_bytes; /* that spreads keep for the next */
    uint64_t out_count_max, in_count_max, episodes, concepts;
    uint64_t vram_bytes;   /* of its replicas on GPUs; 0: there is none */
    uint64_t vram_version; /* of the freshest replica; 0: none is whole yet */
} ea_graph_info;

/* Names of graphs are their own, apart from those of collections. out may be NULL. */
EA_API ea_status ea_graph_create(ea_client *c, const char *name, ea_graph_info *out);
EA_API ea_status ea_graph_create_send(ea_client *c, const char *name, const ea_send_options *how,
                                      uint64_t *request_id); /* answer->graph */
EA_API ea_status ea_graph_drop(ea_client *c, const char *name);
EA_API ea_status ea_graph_drop_send(ea_client *c, const char *name, const ea_send_options *how,
                                    uint64_t *request_id);
EA_API ea_status ea_graph_describe(ea_client *c, const char *name, ea_graph_info *out);
EA_API ea_status ea_graph_describe_send(ea_client *c, const char *name, const ea_send_options *how,
                                        uint64_t *request_id); /* answer->graph */
/* Lists all graphs of the space by name. *out is freed with ea_graph_list_free. There is no _send
 * form, because it takes several requests, each of which asks for the names after the last one. */
EA_API ea_status ea_graph_list(ea_client *c, ea_graph_info **out, size_t *count);
EA_API void ea_graph_list_free(ea_graph_info *list);

/* The effect of a change; each request applies all or nothing. */
typedef struct ea_graph_counts {
    uint64_t edges_added, edges_removed, nodes_added, nodes_removed;
    uint64_t missing;      /* named in the request, but not found */
    uint64_t nodes, edges; /* in the graph, after the change */
    uint64_t version;
    /* of those added, how many came beside an edge between the same nodes; only if asked for */
    uint64_t edges_doubled;
} ea_graph_counts;

typedef struct ea_graph_edges {
    const uint64_t *sources, *targets;
    const float *weights; /* of edges to add */
    uint64_t count;
    bool replace;         /* remove existing edges between the same nodes first */
    ea_progress progress; /* NULL: none; only ea_graph_add_edges calls it */
    void *user;           /* passed to progress */
    /* of ea_graph_add_weights alone: make what is missing; bounds, NULL: none */
    bool create;
    const float *low, *high;
    const ea_write *write; /* what is expected; NULL: nothing */
    /* of ea_graph_add_edges without replace: count those that come beside one between the same
     * nodes that was there, or stands before them */
    bool count_doubled;
} ea_graph_edges;
/* Adds edges in any order; two between the same nodes are two contributions. Missing nodes are
 * made. More than fits one request is sent as several, one after the other (with replace,
 * duplicates of one pair must be adjacent); a failure then leaves the earlier ones applied, as
 * *out says. In all changes out may be NULL. */
EA_API ea_status ea_graph_add_edges(ea_client *c, const char *graph, const ea_graph_edges *edges,
                                    ea_graph_counts *out);
/* As all changes: one request, all or nothing; answer->changed. */
EA_API ea_status ea_graph_add_edges_send(ea_client *c, const char *graph,
                                         const ea_graph_edges *edges, const ea_send_options *how,
                                         uint64_t *request_id);
/* Removes every edge between these pairs of nodes. */
EA_API ea_status ea_graph_remove_edges(ea_client *c, const char *graph, const ea_graph_edges *edges,
                                       ea_graph_counts *out);
EA_API ea_status ea_graph_remove_edges_send(ea_client *c, const char *graph,
                                            const ea_graph_edges *edges, const ea_send_options *how,
                                            uint64_t *request_id);

/* Adds to the weights of edges, one after the other in the order given: weight becomes weight +
 * weights[i], rounded once to float32 (to nearest, ties to even), then *low where it is less than
 * that, *high where it is greater. (Without bounds a sum beyond float32's largest number becomes
 * that number.) A pair may be given several times; each time adds to what the one before left.
 * weights_out (NULL: not wanted) has `count` places: what the edge had after weights[i] was added.
 * An edge that is not there is NOT_FOUND, or with create is made, from weight 0, with the nodes
 * that it needs. FAILED_PRECONDITION: several edges lead from that source to that target.
 * INVALID_ARGUMENT: something to be added, or a bound, is not finite, or *low is above *high. One
 * request, all or nothing; what is wrong is named. It is never repeated by the library. */
EA_API ea_status ea_graph_add_weights(ea_client *c, const char *graph, const ea_graph_edges *edges,
                                      float *weights_out, ea_graph_counts *out);
/* answer->changed; answer->result->vectors is count x 1. */
EA_API ea_status ea_graph_add_weights_send(ea_client *c, const char *graph,
                                           const ea_graph_edges *edges, const ea_send_options *how,
                                           uint64_t *request_id);

/* Multiplies the weights of all edges by factor, each product rounded once to float32. factor:
 * finite, 0 or more (EA_INVALID_ARGUMENT otherwise, or if a weight would overflow; then nothing has
 * changed). Never repeated by the library. */
EA_API ea_status ea_graph_scale(ea_client *c, const char *graph, float factor,
                                ea_graph_counts *out);
EA_API ea_status ea_graph_scale_send(ea_client *c, const char *graph, float factor,
                                     const ea_send_options *how, uint64_t *request_id);
/* Removes all edges whose weight is less than `below` (finite), which with a positive `below` are
 * all negative ones, too; nodes stay. out->edges_removed says how many. */
EA_API ea_status ea_graph_prune(ea_client *c, const char *graph, float below, ea_graph_counts *out);
EA_API ea_status ea_graph_prune_send(ea_client *c, const char *graph, float below,
                                     const ea_send_options *how, uint64_t *request_id);

/* A matrix in CSR form: row i is node row_ids[i], and columns are positions in row_ids; row_ids
 * NULL: row i is node i, and columns are ids. offsets: rows + 1. */
typedef struct ea_graph_csr {
    const uint64_t *row_ids;
    uint64_t rows;
    const uint64_t *offsets, *columns;
    const float *weights;
    bool replace;
    const ea_write *write; /* what is expected; NULL: nothing */
} ea_graph_csr;
/* One request. */
EA_API ea_status ea_graph_add_csr(ea_client *c, const char *graph, const ea_graph_csr *matrix,
                                  ea_graph_counts *out);
EA_API ea_status ea_graph_add_csr_send(ea_client *c, const char *graph, const ea_graph_csr *matrix,
                                       const ea_send_options *how, uint64_t *request_id);

/* kinds: ea_node_kind; factors: 0 to 65,536. If either is NULL, new nodes are plain or have factor
 * 1, and existing ones keep theirs. */
typedef struct ea_graph_nodes {
    const uint64_t *ids;
    const uint8_t *kinds;
    const float *factors;
    uint64_t count;
    const ea_write *write; /* what is expected; NULL: nothing */
} ea_graph_nodes;
/* Makes nodes, or changes existing ones. */
EA_API ea_status ea_graph_set_nodes(ea_client *c, const char *graph, const ea_graph_nodes *nodes,
                                    ea_graph_counts *out);
EA_API ea_status ea_graph_set_nodes_send(ea_client *c, const char *graph,
                                         const ea_graph_nodes *nodes, const ea_send_options *how,
                                         uint64_t *request_id);
/* Removes nodes with all their edges. */
EA_API ea_status ea_graph_remove_nodes(ea_client *c, const char *graph, const uint64_t *ids,
                                       uint64_t n, ea_graph_counts *out);
EA_API ea_status ea_graph_remove_nodes_send(ea_client *c, const char *graph, const uint64_t *ids,
                                            uint64_t n, const ea_send_options *how,
                                            uint64_t *request_id);

/* Zero it before its first use; a call frees what it held. */
typedef struct ea_nodes {
    const ea_meta *meta; /* NULL: there was no reply */
    uint64_t count, missing;
    const uint8_t *found, *kinds;
    const float *factors;
    const uint32_t *out_counts, *in_counts;
    const uint64_t *offsets; /* count + 1: the out-edges of node i; only if edges were requested */
    const uint64_t *targets; /* by id, then by weight */
    const float *weights;
    void *memory;
    const uint64_t *ids; /* ea_scan_nodes */
    uint64_t cursor, positions;
} ea_nodes;
EA_API void ea_nodes_free(ea_nodes *n);
EA_API ea_status ea_graph_fetch_nodes(ea_client *c, const char *graph, const uint64_t *ids,
                                      uint64_t n, bool edges, ea_nodes *out);
EA_API ea_status ea_graph_fetch_nodes_send(ea_client *c, const char *graph, const uint64_t *ids,
                                           uint64_t n, bool edges, const ea_send_options *how,
                                           uint64_t *request_id); /* answer->nodes */

/* As ea_scan_rows (engram_accel_objects.h), of up to `limit` nodes, with their out-edges if
 * requested. At some positions there is no node: found[i] is 0. Where the reply would be too large
 * it is EA_RESOURCE_EXHAUSTED, and a smaller page can be asked for. */
struct ea_cursor;
EA_API ea_status ea_scan_nodes(ea_client *c, const char *graph, struct ea_cursor *at,
                               uint64_t limit, bool edges, ea_nodes *out);

/* ---- spreading: docs/spreading.md has the rules ---- */

typedef enum ea_spread_mode { EA_LINEAR = 1, EA_ENGRAM = 2 } ea_spread_mode;
typedef enum ea_decay {
    EA_DECAY_DEFAULT = 0,     /* exponential, 0.7 */
    EA_DECAY_EXPONENTIAL = 1, /* e^(-p d) */
    EA_DECAY_POWER = 2,       /* (d + 1)^-p */
    EA_DECAY_LINEAR = 3,      /* max(0, 1 - p d) */
    EA_DECAY_TABLE = 4,
    EA_DECAY_CONSTANT = 5 /* 1 */
} ea_decay;
typedef enum ea_fan { EA_FAN_NONE = 0, EA_FAN_SQRT = 1, EA_FAN_DIVIDE = 2 } ea_fan;

/* Set unused members except mode to zero. */
typedef struct ea_spread_options {
    ea_spread_mode mode;
    uint32_t hops; /* 1..100; 0 stands for 4 */
    ea_decay decay;
    float decay_parameter;
    const float *decay_table; /* hops: f(1), f(2) ... */
    /* NULL: 0.01, 0.05 and 0.1. Linear: only the first is used. Engram: for seeds, for depths 1
     * and 2, for deeper nodes. */
    const float *threshold, *threshold_warm, *threshold_cold;
    ea_fan fan;
    bool ignore_kinds;    /* engram: the direction between kinds does not matter */
    bool last_hop;        /* linear: the activation after the last hop, not the accumulated one */
    bool paths;           /* not with last_hop */
    uint32_t k;           /* the best of each set; 0: all touched nodes */
    uint64_t touched_max; /* nodes of each set; 0: unlimited */
    uint64_t time_max_us; /* 0: unlimited */
    const struct ea_filter *within; /* nodes that may be touched; NULL: all */
    /* Engram: the collection whose rows, by id, are the nodes' embeddings; NULL: none. Similarity
     * then takes the place of weights from depth 1 to 2, where nodes have 16 edges or more. */
    const char *embeddings;
} ea_spread_options;

/* Zero it before its first use; a call frees what it held. The nodes of set i are [offsets[i],
 * offsets[i + 1]), highest activation first, ties by rising id. */
typedef struct ea_spread_result {
    const ea_meta *meta; /* NULL: there was no reply */
    uint64_t sets, count;
    const uint64_t *offsets; /* sets + 1 */
    const uint64_t *ids;     /* count, as the next four */
    const float *activations, *confidences;
    const uint32_t *visits, *depths;
    const uint64_t *touched, *cycles; /* sets */
    const uint8_t *truncated;         /* sets */
    const float *tier_sums;           /* sets x 3: hot, warm, cold */
    const uint64_t
        *path_offsets;        /* count + 1; with paths: of entry j path_ids[path_offsets[j] .. */
    const uint64_t *path_ids; /* path_offsets[j + 1]), from a seed to the node */
    void *memory;
    uint64_t embeddings_version; /* of the collection of embeddings; 0: none was named */
} ea_spread_result;
EA_API void ea_spread_result_free(ea_spread_result *r);

/* Seed sets: set i is ids[offsets[i] .. offsets[i + 1]) with their activations (NULL: all 1).
 * offsets NULL: one set of all count seeds. */
typedef struct ea_seeds {
    const uint64_t *offsets; /* sets + 1 */
    uint64_t sets;
    const uint64_t *ids;
    const float *activations;
    uint64_t count;
} ea_seeds;
/* Spreads from each seed set. An unknown id gives NOT_FOUND. */
EA_API ea_status ea_spread(ea_client *c, const char *graph, const ea_spread_options *options,
                           const ea_seeds *seeds, ea_spread_result *out);
/* What options points to must stay valid, too. */
EA_API ea_status ea_spread_send(ea_client *c, const char *graph, const ea_spread_options *options,
                                const ea_seeds *seeds, const ea_send_options *how,
                                uint64_t *request_id); /* answer->spread */

#ifdef __cplusplus
}
#endif

#endif
