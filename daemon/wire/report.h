/* report: the contents of Info, Stats and Explain, before they are encoded.
 * Owner:  whoever answers fills one in; encode.h turns it into a reply.
 * Thread: the loop.
 * Errors: none. A count beyond its array's length is cut. */
#ifndef ENGRAM_WIRE_REPORT_H
#define ENGRAM_WIRE_REPORT_H

#include "daemon/base/job.h"
#include "daemon/heap/share.h"
#include "daemon/store/shadow.h"

enum { WIRE_GPUS_MAX = 16, WIRE_ROUTES_MAX = 52, WIRE_OPERATIONS_MAX = 64, WIRE_PEERS_MAX = 16 };
enum { WIRE_SCREENS_MAX = 10, WIRE_LEFT_OUT_MAX = 16 };
enum { WIRE_COSTS_MAX = 12, WIRE_CROSSOVERS_MAX = 4, WIRE_DECISIONS_MAX = 64 };

struct wire_limits {
    uint64_t body_bytes_max, reply_bytes_max;
    uint32_t dimension_max, k_max, in_flight_max;
};
struct wire_hello {
    uint32_t version;
    uint64_t features, instance, generation;
    const char *server_version, *space;
    struct wire_limits limits;
};
struct wire_progress {
    struct progress_view view;
    uint64_t elapsed_ns, foreseen_ns; /* foreseen 0: it is not predicted */
    enum backend_id backend;
};
/* As numbered on the wire. */
enum wire_gpu_state {
    WIRE_GPU_ABSENT = 1,
    WIRE_GPU_STARTING = 2,
    WIRE_GPU_READY = 3,
    WIRE_GPU_DOWN = 4,
    WIRE_GPU_BREAKER = 5,
};
struct wire_gpu {
    uint32_t number;
    enum wire_gpu_state state;
    char why[257], name[129], uuid[65];
    uint32_t capability_major, capability_minor, multiprocessors;
    uint32_t driver_version, runtime_version;
    uint64_t memory_bytes, memory_free_bytes, budget_bytes, restarts, uptime_ns;
    bool ecc, managed, concurrent_managed, virtual_memory, simulated;
};
struct wire_gpu_stats {
    uint32_t number;
    enum wire_gpu_state state;
    uint64_t replica_bytes, request_bytes, slab_bytes, free_bytes, budget_bytes, pinned_bytes;
    uint64_t replicas, streams, uploads, upload_bytes, upload_ns, evictions, runs, run_ns;
    uint64_t errors, no_memory, restarts, jobs_in_flight, uptime_ns, shrunk, split;
    /* of the slab: what requests asked for, and the largest block that could be had of it */
    uint64_t asked_bytes, largest_bytes;
    uint64_t sensors_known, sensors[SHARE_SENSORS]; /* as in struct share_sensors */
};
struct wire_route {
    enum backend_id backend;
    enum reason reason;
    uint64_t requests;
};
struct wire_info {
    const char *server_version, *build, *cpu_features, *kernels;
    char gpu[321]; /* one line */
    uint32_t workers, connections, process_id;
    uint64_t uptime_ns, memory_bytes_max, memory_bytes_used, instance;
    struct wire_limits limits;
    uint32_t gpu_count;
    struct wire_gpu gpus[WIRE_GPUS_MAX];
    bool loading;
    uint64_t load_objects, load_objects_done, load_bytes, load_bytes_done, left_out_count;
    char left_out[WIRE_LEFT_OUT_MAX][145];
};
struct wire_operation_stats {
    enum operation operation;
    uint64_t requests, errors, total_ns, p50_ns, p90_ns, p99_ns, max_ns;
};
struct wire_backend_use {
    uint64_t requests, busy_ns, batches, batched_requests;
};
struct wire_space_stats {
    uint64_t host_bytes, host_bytes_max, vram_bytes_max, queue_depth, queue_max;
    uint64_t connections, connections_max, refused_queue, refused_connections;
    uint32_t weight;
    struct wire_backend_use use[2]; /* CPU, GPU */
};
struct wire_scheduler_stats {
    uint64_t decisions, decide_p50_ns, decide_p99_ns, decide_max_ns;
    uint64_t batches, batched_requests, splits, steals, probes, aged, passes;
    uint32_t gpu_success_permille;
    bool calibrated;
};
struct wire_pressure {
    uint64_t shrunk_batches, shrunk_runs, split_runs, evictions, cpu;
    bool low;
};
struct wire_peer_stats {
    char name[56];
    bool own;
    uint64_t connections, requests, in_line, in_line_max, body_bytes;
    uint64_t refused_queue, refused_connections, refused_bodies;
};
struct wire_screens {
    char name[65];
    struct screen_counts counts[SCREENS];
};
/* What a save has done. */
struct wire_saved {
    const char *path;
    uint64_t number, objects, bytes, linked_bytes, free_bytes, version;
};

/* As numbered on the wire. */
enum wire_journal_mode { WIRE_JOURNAL_OFF, WIRE_JOURNAL_SECOND, WIRE_JOURNAL_ALWAYS };
enum wire_journal_state { WIRE_JOURNAL_NONE, WIRE_JOURNAL_SOUND, WIRE_NO_ROOM, WIRE_FAILED };
struct wire_journal {
    enum wire_journal_mode mode;
    enum wire_journal_state state; /* NONE: there is no journal */
    const char *why;
    uint64_t files, file_bytes, records, bytes, syncs, group_last, queued_bytes, lag_ns;
};
struct wire_snapshots {
    bool kept;                /* there is a folder (persist.dir) */
    uint64_t number, saved_s; /* of the newest; when it began, in seconds since 1970; 0: none */
    uint64_t age_ns, bytes, duration_ns, done, failed, given_up, written_bytes, lag_ns, every_ns;
    bool failing;
    const char *error;
};

struct wire_stats {
    uint64_t connections_open, connections_total, connections_refused, connections_dropped;
    uint64_t requests_total, errors_total, cancelled_total, deadline_exceeded_total;
    uint64_t bytes_in, bytes_out, queue_depth, jobs_in_flight;
    uint64_t memory_bytes_used, memory_bytes_peak, collections, rows, uptime_ns, vram_bytes;
    uint64_t graphs, graph_nodes, graph_edges, graph_bytes;
    uint64_t attractors, attractor_patterns, attractor_bytes;
    uint64_t config_reloads, config_reloads_refused;
    uint32_t operation_count;
    struct wire_operation_stats operations[WIRE_OPERATIONS_MAX];
    uint32_t gpu_count, route_count;
    struct wire_gpu_stats gpus[WIRE_GPUS_MAX];
    struct wire_route routes[WIRE_ROUTES_MAX];
    struct wire_space_stats space;
    struct wire_scheduler_stats scheduler;
    struct wire_pressure pressure;
    uint32_t peer_count, peers_left_out;
    struct wire_peer_stats peers[WIRE_PEERS_MAX];
    uint32_t screen_count, screens_left_out;
    struct wire_screens screens[WIRE_SCREENS_MAX];
    struct wire_journal journal;
    struct wire_snapshots snapshots;
};

struct wire_backend_cost {
    double fixed_ns, row_byte_ns, product_ns, query_ns, moved_byte_ns, pair_ns, handed_ns;
    float drift, spread, confidence, screened;
    uint32_t success_permille, outcomes;
    uint64_t seen, probes, surprises;
};
struct wire_crossover {
    uint32_t queries;
    uint64_t rows, cpu_ns, gpu_ns; /* rows 0: never */
};
struct wire_operation_cost {
    enum operation operation;
    struct wire_backend_cost backends[2]; /* CPU, GPU */
    uint32_t crossover_count;
    struct wire_crossover crossovers[WIRE_CROSSOVERS_MAX];
};
struct wire_decision {
    struct work work;
    uint32_t server, members;
    enum reason reason;
    uint64_t ago_ns, cpu_ns, gpu_ns, wait_ns, took_ns;
    uint64_t cpu_row_bytes, gpu_row_bytes; /* from which these times were predicted */
    bool well;
};
struct wire_scheduler_settings {
    enum backend_id force;
    uint64_t pairs_min, candidates_min, nodes_min, window_ns, quantum_ns, age_ns;
    uint64_t batch_wait_ns, batch_queries_max, batch_requests_max;
    uint32_t speedup_percent, success_percent, probe_percent;
    bool split;
};
/* A space among all. */
struct wire_space {
    const char *name;
    bool own; /* that of who asks */
    uint64_t collections, rows, graphs, graph_nodes, graph_edges;
    uint64_t attractors, attractor_patterns, vram_bytes;
    struct wire_space_stats use;
};
/* A request that took long, as it was when it was answered. */
struct wire_slow {
    uint64_t number, answered_ns, request_id;
    enum operation operation;
    char space[65], name[65], peer[56];
    enum status code;
    enum detail detail;
    enum backend_id backend;
    enum reason reason;
    uint64_t total_ns, queue_ns, run_ns, copy_ns, predicted_ns, other_ns, wait_ns, version;
    struct job_screen screen;
    uint32_t batch, dimension, k;
    uint64_t queries, rows, request_bytes, reply_bytes;
};

/* A collection, graph or attractor of a space, and what it holds. */
struct wire_content {
    const char *name;
    uint64_t number;
    enum wire_content_kind { WIRE_COLLECTION = 1, WIRE_GRAPH = 2, WIRE_ATTRACTOR = 3 } kind;
    uint64_t needed_bytes, taken_bytes, shared_bytes, vram_needed_bytes, vram_taken_bytes;
    uint32_t card;
};
/* A pool of memory at one look. */
struct wire_pool {
    uint64_t number, seen_ns;
    enum wire_pool_kind { WIRE_POOL_HOST = 1, WIRE_POOL_REQUESTS = 2, WIRE_POOL_REPLICAS = 3 } kind;
    uint32_t card;
    uint64_t asked_bytes, used_bytes, kept_bytes, free_bytes, largest_bytes;
};

struct wire_explain {
    bool calibrated;
    uint32_t workers, cost_count, decision_count;
    double upload_byte_ns, upload_ns;
    struct wire_scheduler_settings settings;
    uint64_t decisions_total;
    char gpu[321]; /* one line */
    struct wire_operation_cost costs[WIRE_COSTS_MAX];
    struct wire_decision decisions[WIRE_DECISIONS_MAX]; /* the newest first */
    uint32_t screen_count, screens_left_out;
    struct wire_screens screens[WIRE_SCREENS_MAX];
};

#endif
