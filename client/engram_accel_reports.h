/* engram_accel_reports: what the daemon says of itself: info, stats, explain. engram_accel.h, which
 * includes it, says who owns what, on which thread, and what errors mean.
 *
 * Growing: what is new of a report comes at the end of ea_info, ea_stats or ea_explanation; a program
 * gets as much of it as its own header has. The structs inside them stay as they are. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_REPORTS_H)
#define ENGRAM_ACCEL_REPORTS_H

#ifdef __cplusplus
extern "C" {
#endif

enum { EA_OPERATIONS_MAX = 64, EA_GPUS_MAX = 16, EA_ROUTES_MAX = 48, EA_BACKENDS = 4 };
enum { EA_COSTS_MAX = 32, EA_CROSSOVERS_MAX = 4, EA_DECISIONS_MAX = 64 };

/* What the card is stays 0 or empty until its process has been ready once. */
typedef struct ea_gpu_info {
    uint32_t number; /* in the daemon's list: "gpu0" in its log */
    ea_gpu_state state;
    char why[257]; /* absent, down, breaker: one line */
    char name[129];
    char uuid[65];
    uint32_t capability_major, capability_minor, multiprocessors;
    uint32_t driver_version, runtime_version; /* CUDA's: 13000 is 13.0 */
    uint64_t memory_bytes;
    uint64_t memory_free_bytes; /* at its process's start; of these */
    uint64_t budget_bytes;      /* may be taken by replicas and requests */
    uint64_t restarts;          /* of its process */
    uint64_t uptime_ns;         /* of its process, since it was ready; 0: it is not */
    bool ecc;
    bool managed, concurrent_managed; /* unified memory; that both sides use at once */
    bool virtual_memory;              /* replicas grow in place */
    bool simulated;
} ea_gpu_info;

typedef struct ea_info {
    char server_version[33];
    char build[129];
    char cpu_features[129];
    char kernels[17];
    char gpu[321]; /* one line: "absent: why", or what serves */
    uint32_t workers;
    uint32_t connections;
    uint32_t process_id;
    uint64_t uptime_ns;
    uint64_t memory_bytes_max, memory_bytes_used;
    uint64_t instance;
    uint64_t message_bytes_max, body_bytes_max, reply_bytes_max;
    uint32_t dimension_max, k_max, in_flight_max;
    uint32_t gpu_count;
    ea_gpu_info gpus[EA_GPUS_MAX];
} ea_info;
EA_API ea_status ea_get_info(ea_client *c, ea_info *out);
EA_API ea_status ea_get_info_send(ea_client *c, const ea_send_options *how,
                                  uint64_t *request_id); /* answer->info */

typedef struct ea_operation_stats {
    const char *name; /* "knn" */
    uint64_t requests, errors, total_ns, p50_ns, p90_ns, p99_ns, max_ns;
} ea_operation_stats;
/* Of one GPU's process since its start. */
typedef struct ea_gpu_stats {
    uint32_t number;
    ea_gpu_state state;
    uint64_t replica_bytes;             /* VRAM that holds replicas */
    uint64_t request_bytes, slab_bytes; /* VRAM in use by requests, of that set aside for them */
    uint64_t free_bytes;                /* VRAM of the whole device that nobody uses */
    uint64_t budget_bytes;
    uint64_t pinned_bytes; /* host memory pinned for copies */
    uint64_t replicas, streams;
    uint64_t uploads, upload_bytes, upload_ns; /* ns while any upload was under way */
    uint64_t evictions;                        /* replicas that made room for others */
    uint64_t runs, run_ns;                     /* ns while any request was on the device */
    uint64_t errors, no_memory; /* requests and uploads that the device failed, had no room for */
    uint64_t restarts, jobs_in_flight, uptime_ns;
    uint64_t shrunk, split; /* requests that ran with less VRAM than liked; in passes */
} ea_gpu_stats;
/* Requests that ran there, for that reason. */
typedef struct ea_route_stats {
    ea_backend backend;
    uint32_t reason; /* ea_reason_name, ea_reason_text */
    uint64_t requests;
} ea_route_stats;
/* What this space had of one backend. */
typedef struct ea_backend_use {
    uint64_t requests, busy_ns;         /* ns for which it held the backend up */
    uint64_t batches, batched_requests; /* runs of several requests as one, and these requests */
} ea_backend_use;
/* This space, against its bounds (0: none). */
typedef struct ea_space_stats {
    uint64_t host_bytes, host_bytes_max; /* collections, requests and results */
    uint64_t vram_bytes_max;
    uint64_t queue_depth, queue_max; /* requests in line for a backend */
    uint64_t connections, connections_max;
    uint64_t refused_queue, refused_connections;
    uint32_t weight;                 /* its share of a busy backend, against other spaces' */
    ea_backend_use use[EA_BACKENDS]; /* by ea_backend: CPU and GPU */
} ea_space_stats;
/* Of all spaces together. */
typedef struct ea_scheduler_stats {
    uint64_t decisions, decide_p50_ns, decide_p99_ns, decide_max_ns; /* ns: deciding itself */
    uint64_t batches, batched_requests;
    uint64_t splits;               /* requests that ran on both backends at once */
    uint64_t steals;               /* that an idle backend took over from the other's line */
    uint64_t probes;               /* that ran on the backend not chosen, to learn */
    uint64_t aged;                 /* that had waited so long that they went first */
    uint64_t passes;               /* short ones that went past long ones */
    uint32_t gpu_success_permille; /* of the operation that fares worst there, lately */
    bool calibrated;
} ea_scheduler_stats;
/* What was done when VRAM was short; of GPUs since their process's start. */
typedef struct ea_pressure {
    uint64_t shrunk_batches;          /* batches made smaller so that they fit */
    uint64_t shrunk_runs, split_runs; /* requests that ran with less VRAM; in passes */
    uint64_t evictions;               /* replicas that made room */
    uint64_t cpu;                     /* requests that the CPU answered for want of VRAM */
    bool low;                         /* now: new work goes to the CPU */
} ea_pressure;
typedef struct ea_stats {
    uint64_t connections_open, connections_total, connections_refused, connections_dropped;
    uint64_t requests_total, errors_total, cancelled_total, deadline_exceeded_total;
    uint64_t bytes_in, bytes_out, queue_depth, jobs_in_flight;
    uint64_t memory_bytes_used, memory_bytes_peak;
    uint64_t collections, rows;                             /* of this space */
    uint64_t graphs, graph_nodes, graph_edges, graph_bytes; /* the same, all of them together */
    uint64_t vram_bytes;                                    /* of this space's replicas on GPUs */
    uint64_t uptime_ns;
    uint32_t operation_count;
    ea_operation_stats operations[EA_OPERATIONS_MAX];
    uint32_t gpu_count, route_count;
    ea_gpu_stats gpus[EA_GPUS_MAX];
    ea_route_stats routes[EA_ROUTES_MAX];
    uint64_t backend_requests[EA_BACKENDS]; /* routes summed, by ea_backend */
    ea_space_stats space;
    ea_scheduler_stats scheduler;
    ea_pressure pressure;
} ea_stats;
EA_API ea_status ea_get_stats(ea_client *c, ea_stats *out);
EA_API ea_status ea_get_stats_send(ea_client *c, const ea_send_options *how,
                                   uint64_t *request_id); /* answer->stats */

/* What an operation costs on one backend: ns for each unit, summed, times drift, is the base of a
 * prediction. */
typedef struct ea_backend_cost {
    double fixed_ns;
    double row_byte_ns; /* a byte of rows, once for all queries */
    double product_ns;  /* queries x rows x dimension of them; of a spread nodes, of all its sets */
    double query_ns;
    double moved_byte_ns;       /* of request or reply */
    double pair_ns;             /* a score */
    double handed_ns;           /* once, for what is not so brief that it runs where received */
    float drift;                /* factor: lately seen / predicted */
    float spread;               /* how far predictions are off, typically: 0.1 is 10 % */
    float confidence;           /* 0..1, of 1 query against 100,000 rows of 768 numbers */
    uint32_t success_permille;  /* of the last runs, at best, as far as they can tell */
    uint32_t outcomes;          /* runs that count for it */
    uint64_t seen;              /* runs that it learnt from */
    uint64_t probes, surprises; /* requests that went there to learn; much off the prediction */
} ea_backend_cost;
/* The GPU is predicted to be faster from so many rows on (of candidates: of all lists together);
 * 0: never. Dimension 768, k = 10, the replica there, nothing waiting. */
typedef struct ea_crossover {
    uint32_t queries;
    uint64_t rows;
    uint64_t cpu_ns, gpu_ns; /* predicted there; never: at 2^26 rows */
} ea_crossover;
typedef struct ea_operation_cost {
    const char *name;                   /* "knn" */
    ea_backend_cost costs[EA_BACKENDS]; /* by ea_backend: CPU and GPU */
    uint32_t crossover_count;
    ea_crossover crossovers[EA_CROSSOVERS_MAX];
} ea_operation_cost;
/* One of this space's requests, or several that ran as one. */
typedef struct ea_decision {
    const char *name; /* "knn" */
    ea_backend backend;
    uint32_t gpu;       /* which, on the GPU */
    uint32_t reason;    /* ea_reason_name, ea_reason_text */
    uint32_t dimension; /* as stored: a multiple of 32 */
    uint32_t k;         /* 0: all scores */
    uint32_t members;   /* requests that ran as one; numbers are of all of them */
    uint64_t queries, rows;
    uint64_t ago_ns;                  /* since it ended */
    uint64_t cpu_ns, gpu_ns, wait_ns; /* predicted; 0: not asked */
    uint64_t took_ns;                 /* from submission to end */
    bool well;                        /* false: the backend let it down */
    bool filtered;
} ea_decision;
typedef struct ea_explanation {
    char gpu[321];   /* one line: "absent: why", or what serves */
    bool calibrated; /* measured on this machine, now or in an earlier run; else built-in figures */
    uint32_t workers;
    double upload_byte_ns, upload_ns;              /* to bring a replica up to date */
    ea_backend force;                              /* none: the scheduler decides */
    uint64_t pairs_min, candidates_min, nodes_min; /* floors; nodes: of spreads */
    uint32_t speedup_percent, success_percent, probe_percent;
    uint64_t window_ns, quantum_ns, age_ns;
    uint64_t batch_wait_ns, batch_queries_max, batch_requests_max;
    bool split;
    uint64_t decisions_total; /* of all spaces, ever */
    uint32_t operation_count, decision_count;
    ea_operation_cost operations[EA_COSTS_MAX];
    ea_decision decisions[EA_DECISIONS_MAX]; /* the newest first */
} ea_explanation;
/* Why requests run where they run: the model, and at most `last` (0..64) decisions of this space. */
EA_API ea_status ea_explain(ea_client *c, uint32_t last, ea_explanation *out);
EA_API ea_status ea_explain_send(ea_client *c, uint32_t last, const ea_send_options *how,
                                 uint64_t *request_id); /* answer->explanation */

#ifdef __cplusplus
}
#endif

#endif
