/* encode: job or answer -> reply frame header and message. Bodies are not touched: the connection
 * writes them from where they lie.
 * Owner:  wire. Thread: the loop. Errors: none; sizes are bounded by the schema. */
#ifndef ENGRAM_WIRE_ENCODE_H
#define ENGRAM_WIRE_ENCODE_H

#include "daemon/base/job.h"
#include "daemon/store/collection.h"
#include "daemon/base/frame.h"

/* Enough for any reply's header and padded message. */
enum {
    ENCODE_BYTES_MAX = 16384,
    ENCODE_RESULT_BYTES_MAX = 1024, /* encode_result */
    ENCODE_ERROR_BYTES_MAX = 512,   /* encode_error */
    ENCODE_PING_BYTES = 64,         /* encode_ping, exactly */
};
enum { WIRE_GPUS_MAX = 16, WIRE_ROUTES_MAX = 48 };

struct wire_limits {
    uint64_t body_bytes_max, reply_bytes_max;
    uint32_t dimension_max, k_max, in_flight_max;
};
struct wire_hello {
    uint32_t version;
    uint64_t features, instance;
    const char *server_version, *space;
    struct wire_limits limits;
};
/* The wire's numbers. */
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
    uint64_t errors, no_memory, restarts, jobs_in_flight, uptime_ns;
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
};
struct wire_operation_stats {
    enum operation operation;
    uint64_t requests, errors, total_ns, p50_ns, p90_ns, p99_ns, max_ns;
};
struct wire_stats {
    uint64_t connections_open, connections_total, connections_refused, connections_dropped;
    uint64_t requests_total, errors_total, cancelled_total, deadline_exceeded_total;
    uint64_t bytes_in, bytes_out, queue_depth, jobs_in_flight;
    uint64_t memory_bytes_used, memory_bytes_peak, collections, rows, uptime_ns, vram_bytes;
    uint32_t operation_count;
    struct wire_operation_stats operations[24];
    uint32_t gpu_count, route_count;
    struct wire_gpu_stats gpus[WIRE_GPUS_MAX];
    struct wire_route routes[WIRE_ROUTES_MAX];
};

/* Each writes header, message and padding to buffer (ENCODE_BYTES_MAX) and returns the bytes, a
 * multiple of 64. */
size_t encode_error(uint8_t kind, uint64_t request_id, const struct failure *f, void *buffer);
size_t encode_hello(uint64_t request_id, const struct wire_hello *hello, void *buffer);
size_t encode_ping(uint64_t request_id, void *buffer);
size_t encode_info(uint64_t request_id, const struct wire_info *info, void *buffer);
size_t encode_stats(uint64_t request_id, const struct wire_stats *stats, void *buffer);
size_t encode_cancel(uint64_t request_id, bool found, void *buffer);
/* create (j) and describe (j NULL: no meta). */
size_t encode_collection(enum operation operation, uint64_t request_id, const struct job *j,
                         const struct collection_info *info, void *buffer);
size_t encode_collection_list(uint64_t request_id, const struct collection_info *infos,
                              size_t count, bool more, void *buffer);
/* Any job that a backend ran: drop, upsert, delete, fetch, similarity, knn, score, norms,
 * weighted average. The body (j->result.body_bytes from j->result.block) follows the message. */
size_t encode_result(const struct job *j, void *buffer);

#endif
