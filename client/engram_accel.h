/* engram_accel: the C client of engram-acceld. C11 and C++ clean; link -lengram_accel.
 *
 * What:   a handle on one connection and one space. Blocking calls (ea_knn ...) and an asynchronous
 *         interface (ea_*_send, ea_fd, ea_pump) share it. Replies may come in any order.
 * Owner:  the caller. Results point into memory of an ea_result, freed with ea_result_free.
 * Thread: one thread at a time per handle; use a handle per thread. No global state, no signals
 *         (SIGPIPE is never raised), no threads of its own.
 * Errors: every call returns an ea_status, gRPC's canonical numbers; ea_error_text says more.
 *
 * Connecting is lazy and fails fast. When the daemon went away, the call in hand fails with
 * EA_UNAVAILABLE, unless it can be repeated, in which case a blocking call reconnects and repeats it
 * once; the next call reconnects by itself. Never repeated are create and drop, of collections and
 * graphs, and ea_graph_add_edges and ea_graph_add_csr without replace, which would add the edges
 * twice: whether those in hand were added, ea_graph_describe tells (version, edges). A restarted
 * daemon has another ea_instance, no collections and no graphs: send them again.
 *
 * Shapes: matrices are float32, row-major, rows one after the other without gaps. Little-endian
 * hosts only. The arithmetic is canonical (docs/arithmetic.md): the same bits on every path. */
#ifndef ENGRAM_ACCEL_H
#define ENGRAM_ACCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EA_VERSION_MAJOR 0
#define EA_VERSION_MINOR 1
#define EA_NO_ID         UINT64_MAX /* fills the unused end of a kNN row */

#if defined(_WIN32)
#error "engram_accel talks over Unix sockets and POSIX TCP"
#endif
#define EA_API __attribute__((visibility("default")))

typedef enum ea_status {
    EA_OK = 0,
    EA_CANCELLED = 1,
    EA_UNKNOWN = 2,
    EA_INVALID_ARGUMENT = 3,
    EA_DEADLINE_EXCEEDED = 4,
    EA_NOT_FOUND = 5,
    EA_ALREADY_EXISTS = 6,
    EA_PERMISSION_DENIED = 7,
    EA_RESOURCE_EXHAUSTED = 8,
    EA_FAILED_PRECONDITION = 9,
    EA_ABORTED = 10,
    EA_OUT_OF_RANGE = 11,
    EA_UNIMPLEMENTED = 12,
    EA_INTERNAL = 13,
    EA_UNAVAILABLE = 14, /* no daemon there, or the connection was lost */
    EA_DATA_LOSS = 15,
    EA_UNAUTHENTICATED = 16
} ea_status;

typedef enum ea_metric {
    EA_COSINE = 1,           /* higher is nearer */
    EA_DOT = 2,              /* higher is nearer */
    EA_SQUARED_EUCLIDEAN = 3 /* lower is nearer */
} ea_metric;

typedef enum ea_backend {
    EA_BACKEND_NONE,
    EA_BACKEND_CPU,
    EA_BACKEND_GPU,
    EA_BACKEND_BOTH
} ea_backend;

typedef struct ea_client ea_client;

/* Zero every field you do not set. */
typedef struct ea_options {
    const char
        *socket_path;     /* Unix socket; NULL and no host: /run/engram-accel/engram-accel.sock */
    const char *tcp_host; /* used when set; numeric or a name */
    uint16_t tcp_port;
    const char *space;       /* NULL: "default" */
    const char *client_name; /* shown in the daemon's log; NULL: "libengram_accel" */
    const void *token;       /* credentials, when the daemon asks for them; up to 255 bytes */
    size_t token_bytes;
    uint32_t connect_timeout_ms; /* 0: 1000 */
    uint32_t timeout_ms; /* of each blocking call, and its deadline at the daemon; 0: none */
} ea_options;

/* Never touches the network. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
EA_API ea_status ea_open(const ea_options *options, ea_client **out);
/* NULL is fine. Requests in flight are cancelled by the disconnect; their callbacks run with
 * EA_CANCELLED before this returns. */
EA_API void ea_close(ea_client *c);
/* Connects and says Hello now, instead of at the first call. */
EA_API ea_status ea_connect(ea_client *c);
/* Sets the deadline of later calls; 0: none. */
EA_API void ea_set_timeout(ea_client *c, uint32_t timeout_ms);

/* Of the last call that failed on this handle: one line, never NULL. */
EA_API const char *ea_error_text(const ea_client *c);
/* Its stable sub-code (proto/README.md), 0 for none; whether and when to try again. */
EA_API uint32_t ea_error_detail(const ea_client *c);
EA_API bool ea_error_retryable(const ea_client *c);
EA_API uint32_t ea_error_retry_after_ms(const ea_client *c);
/* "INVALID_ARGUMENT". */
EA_API const char *ea_status_name(ea_status status);
/* "0.1.0", of the library. */
EA_API const char *ea_library_version(void);

/* How a reply came about. */
typedef struct ea_meta {
    ea_backend backend;
    uint32_t reason;   /* ea_reason_name */
    uint64_t queue_ns; /* at the daemon, before work began */
    uint64_t run_ns;   /* working */
    uint64_t copy_ns;  /* of run_ns, to and from a device */
    uint64_t version;  /* of the collection */
    /* Predictions, made when its place was decided, of this request alone; 0: none was made. */
    uint64_t predicted_ns; /* run there (both: on the GPU) */
    uint64_t other_ns;     /* on the other backend; 0: there was no choice */
    uint64_t wait_ns;      /* for the work ahead of it */
    uint32_t batch;        /* requests that ran as one with it, itself included; 0, 1: alone */
    uint64_t total_ns;     /* at the daemon, from the whole request to its reply */
} ea_meta;
EA_API const char *ea_backend_name(ea_backend backend); /* "cpu" */
EA_API const char *ea_reason_name(uint32_t reason);     /* "gpu_absent" */
EA_API const char *ea_reason_text(uint32_t reason);     /* "no GPU is in use" */

/* Result of a call that returns tensors. Zero it before first use; a call frees what it held. */
typedef struct ea_result {
    ea_meta meta;
    uint64_t rows, columns; /* of scores: queries x columns (see each call) */
    const float *scores;
    const uint64_t *ids;
    const uint32_t *counts;  /* kNN, candidates with k: hits of each query */
    const uint64_t *offsets; /* similarity with a threshold: rows + 1 */
    const float *vectors;    /* fetch, weighted average: rows x columns */
    const uint8_t *found;    /* fetch */
    uint64_t missing;        /* fetch */
    void *memory;            /* the library's */
} ea_result;
EA_API void ea_result_free(ea_result *r);

/* ---- the daemon ---- */

EA_API ea_status ea_ping(ea_client *c);

/* ea_info, ea_stats and ea_explanation grow with the library, so they are of one build with it: a program that
 * was compiled for another minor version is compiled anew (until 1.0, as everything here). */

enum { EA_GPUS_MAX = 16, EA_ROUTES_MAX = 48, EA_BACKENDS = 4 };
enum { EA_COSTS_MAX = 8, EA_CROSSOVERS_MAX = 4, EA_DECISIONS_MAX = 64 };

typedef enum ea_gpu_state {
    EA_GPU_ABSENT = 1, /* for good: no device, no driver, too old, no program */
    EA_GPU_STARTING = 2,
    EA_GPU_READY = 3,
    EA_GPU_DOWN = 4,   /* it failed and is started again */
    EA_GPU_BREAKER = 5 /* it failed again and again: tried again now and then */
} ea_gpu_state;
EA_API const char *ea_gpu_state_name(ea_gpu_state state); /* "ready" */

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
    ea_operation_stats operations[40];
    uint32_t gpu_count, route_count;
    ea_gpu_stats gpus[EA_GPUS_MAX];
    ea_route_stats routes[EA_ROUTES_MAX];
    uint64_t backend_requests[EA_BACKENDS]; /* routes summed, by ea_backend */
    ea_space_stats space;
    ea_scheduler_stats scheduler;
    ea_pressure pressure;
} ea_stats;
EA_API ea_status ea_get_stats(ea_client *c, ea_stats *out);

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

/* Random at each start of the daemon; 0 before the first connect. */
EA_API uint64_t ea_instance(const ea_client *c);

/* ---- collections ---- */

typedef struct ea_collection_info {
    char name[65];
    uint32_t dimension;
    ea_metric metric;
    uint64_t rows, version, row_bytes, index_bytes;
    uint64_t vram_bytes;   /* of its replicas on GPUs; 0: there is none */
    uint64_t vram_version; /* of the freshest replica; 0: none is whole yet */
} ea_collection_info;

/* dimension 1..16384. ALREADY_EXISTS. out may be NULL. */
EA_API ea_status ea_collection_create(ea_client *c, const char *name, uint32_t dimension,
                                      ea_metric metric, ea_collection_info *out);
EA_API ea_status ea_collection_drop(ea_client *c, const char *name);
EA_API ea_status ea_collection_describe(ea_client *c, const char *name, ea_collection_info *out);
/* All of the space's, by name. *out is freed with ea_collection_list_free. */
EA_API ea_status ea_collection_list(ea_client *c, ea_collection_info **out, size_t *count);
EA_API void ea_collection_list_free(ea_collection_info *list);

typedef struct ea_upsert_counts {
    uint64_t inserted, replaced, rows, version;
} ea_upsert_counts;
/* Called as an upload goes on; return false to stop (the call then gives EA_CANCELLED; rows already
 * accepted stay). */
typedef bool (*ea_progress)(uint64_t rows_done, uint64_t rows_total, void *user);

/* rows: n x dimension. Larger than one request: sent as several, pipelined; then a failure leaves
 * the requests before it applied, and says how many rows in *out (out may be NULL). */
EA_API ea_status ea_upsert(ea_client *c, const char *collection, const uint64_t *ids,
                           const float *rows, uint64_t n, uint32_t dimension, ea_progress progress,
                           void *user, ea_upsert_counts *out);
/* Unknown ids are counted in *missing. */
EA_API ea_status ea_delete(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                           uint64_t *deleted, uint64_t *missing);
/* vectors[i] for ids[i]; zeros and found[i] = 0 where there is no such id. */
EA_API ea_status ea_fetch(ea_client *c, const char *collection, const uint64_t *ids, uint64_t n,
                          ea_result *out);
/* limit rows from position offset in storage order: ids and vectors. */
EA_API ea_status ea_fetch_range(ea_client *c, const char *collection, uint64_t offset,
                                uint64_t limit, ea_result *out);

/* ---- questions ---- */

/* Allowed ids: a list, or a bitmap (bit i stands for id bitmap_first + i). NULL filter: all. */
typedef struct ea_filter {
    const uint64_t *ids;
    uint64_t id_count;
    const uint8_t *bitmap;
    uint64_t bitmap_bytes;
    uint64_t bitmap_first;
} ea_filter;

/* The k best rows of each of q queries (q x dimension): ids and scores are rows x columns with
 * rows = q, columns = min(k, allowed rows); counts[i] of row i are hits, the rest EA_NO_ID and
 * NaN. threshold may be NULL: keep only scores at least (distances: at most) *threshold. */
EA_API ea_status ea_knn(ea_client *c, const char *collection, const float *queries, uint64_t q,
                        uint32_t dimension, uint32_t k, const ea_filter *filter,
                        const float *threshold, ea_result *out);

/* Scores of each query against every allowed row: scores is q x columns, ids[columns] names them.
 * With a threshold: offsets[q + 1] into ids and scores, best first; columns counts all matches. */
EA_API ea_status ea_similarity(ea_client *c, const char *collection, const float *queries,
                               uint64_t q, uint32_t dimension, const ea_filter *filter,
                               const float *threshold, ea_result *out);
/* The same against rows sent along: n x dimension. ids is NULL without a threshold. */
EA_API ea_status ea_similarity_inline(ea_client *c, ea_metric metric, const float *queries,
                                      uint64_t q, const float *rows, uint64_t n, uint32_t dimension,
                                      const float *threshold, ea_result *out);

/* Query i against candidates[offsets[i] .. offsets[i + 1]) by id; offsets has q + 1 places, NULL
 * when q = 1. metric 0: the collection's. k = 0: all scores, in order (scores is n x 1); else as
 * ea_knn. An unknown id is NOT_FOUND. */
EA_API ea_status ea_score(ea_client *c, const char *collection, ea_metric metric,
                          const float *queries, uint64_t q, uint32_t dimension,
                          const uint64_t *offsets, const uint64_t *candidates, uint64_t n,
                          uint32_t k, ea_result *out);
/* The same with candidate rows sent along; ids are positions within each list. */
EA_API ea_status ea_score_inline(ea_client *c, ea_metric metric, const float *queries, uint64_t q,
                                 uint32_t dimension, const uint64_t *offsets, const float *rows,
                                 uint64_t n, uint32_t k, ea_result *out);

/* norms_out: n places. */
EA_API ea_status ea_norms(ea_client *c, const float *rows, uint64_t n, uint32_t dimension,
                          float *norms_out);
/* sum(w x) / sum(w) over inline rows; zeros where n = 0 or the weights sum to 0. out: dimension. */
EA_API ea_status ea_weighted_average(ea_client *c, const float *rows, const float *weights,
                                     uint64_t n, uint32_t dimension, float *average_out);
/* The same over resident rows. */
EA_API ea_status ea_weighted_average_ids(ea_client *c, const char *collection, const uint64_t *ids,
                                         const float *weights, uint64_t n, uint32_t dimension,
                                         float *average_out);

/* ---- asynchronous ----
 * A _send call copies nothing but the request's head: arrays must stay until the callback. Each
 * callback runs exactly once, from inside ea_pump or ea_close, with the result of the request (freed
 * by the library when the callback returns unless the callback moved it: zero *result to keep
 * it). The status's text is ea_error_text inside the callback. Callbacks may send. */
typedef void (*ea_callback)(ea_client *c, uint64_t request_id, ea_status status, ea_result *result,
                            void *user);

/* The socket, or -1 while not connected; it may change after a reconnect. */
EA_API int ea_fd(const ea_client *c);
/* What to poll the socket for: POLLIN, and POLLOUT while output waits. */
EA_API short ea_events(const ea_client *c);
/* Moves bytes and runs callbacks: at most timeout_ms (0: never waits; -1: until something is done).
 * EA_OK, or why the connection was lost (all requests have been answered then). */
EA_API ea_status ea_pump(ea_client *c, int timeout_ms);
/* Requests without an answer yet. */
EA_API size_t ea_pending(const ea_client *c);

/* Each fills *request_id (may be NULL). timeout_ms 0: the handle's. An upsert's result has meta
 * and, in rows, the collection's rows afterwards. Not connected, a _send connects, which waits. */
EA_API ea_status ea_ping_send(ea_client *c, ea_callback callback, void *user, uint64_t *request_id);
EA_API ea_status ea_knn_send(ea_client *c, const char *collection, const float *queries, uint64_t q,
                             uint32_t dimension, uint32_t k, const ea_filter *filter,
                             const float *threshold, uint32_t timeout_ms, ea_callback callback,
                             void *user, uint64_t *request_id);
EA_API ea_status ea_similarity_send(ea_client *c, const char *collection, const float *queries,
                                    uint64_t q, uint32_t dimension, const ea_filter *filter,
                                    const float *threshold, uint32_t timeout_ms,
                                    ea_callback callback, void *user, uint64_t *request_id);
EA_API ea_status ea_score_send(ea_client *c, const char *collection, ea_metric metric,
                               const float *queries, uint64_t q, uint32_t dimension,
                               const uint64_t *offsets, const uint64_t *candidates, uint64_t n,
                               uint32_t k, uint32_t timeout_ms, ea_callback callback, void *user,
                               uint64_t *request_id);
EA_API ea_status ea_upsert_send(ea_client *c, const char *collection, const uint64_t *ids,
                                const float *rows, uint64_t n, uint32_t dimension,
                                uint32_t timeout_ms, ea_callback callback, void *user,
                                uint64_t *request_id);
/* Asks the daemon to drop a request of this handle. Its callback still runs, once, with
 * EA_CANCELLED or with the answer that was already on its way. */
EA_API ea_status ea_cancel(ea_client *c, uint64_t request_id);

#ifdef __cplusplus
}
#endif

#include "engram_accel_graph.h"

#endif
