/* engram_accel_reports: reports about the daemon: info, stats, explain. engram_accel.h, which
 * includes it, says who owns what, which threads may call, and what errors mean.
 *
 * Growing: new members are added at the end of ea_info, ea_stats or ea_explanation; a program gets
 * those that its own header has. The structs inside them never change. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_REPORTS_H)
#define ENGRAM_ACCEL_REPORTS_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    EA_OPERATIONS_MAX = 64,
    EA_GPUS_MAX = 16,
    EA_ROUTES_MAX = 48,
    EA_BACKENDS = 4,
    EA_PEERS_MAX = 16
};
enum { EA_SCREENS_MAX = 16, EA_LEFT_OUT_MAX = 16 };
enum { EA_COSTS_MAX = 32, EA_CROSSOVERS_MAX = 4, EA_DECISIONS_MAX = 64 };

/* The fields that describe the card are 0 or empty until its process has been ready once. */
typedef struct ea_gpu_info {
    uint32_t number; /* in the daemon's list: "gpu0" in its log */
    ea_gpu_state state;
    char why[257]; /* absent, down, breaker: the reason, in one line */
    char name[129];
    char uuid[65];
    uint32_t capability_major, capability_minor, multiprocessors;
    uint32_t driver_version, runtime_version; /* as CUDA counts: 13000 is 13.0 */
    uint64_t memory_bytes;
    uint64_t memory_free_bytes; /* when its process started */
    uint64_t budget_bytes;      /* the part of it that replicas and requests may take */
    uint64_t restarts;          /* of its process */
    uint64_t uptime_ns;         /* since its process was ready; 0: it is not ready */
    bool ecc;
    bool managed, concurrent_managed; /* unified memory; usable by both sides at once */
    bool virtual_memory;              /* replicas can grow in place */
    bool simulated;
} ea_gpu_info;

typedef struct ea_info {
    char server_version[33];
    char build[129];
    char cpu_features[129];
    char kernels[17];
    char gpu[321]; /* one line: "absent: why", or the GPUs in use */
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
    bool ready; /* false: what was saved is being loaded; all of it, and what is in: */
    uint64_t load_objects, load_objects_done, load_bytes, load_bytes_done;
    /* What a damaged snapshot lost (persist.load salvage): of this space; of all spaces for root
     * and the user that runs the daemon; how many, and "SPACE/NAME (KIND)" of the first. */
    uint64_t left_out_count;
    uint32_t left_out_shown;
    char left_out[EA_LEFT_OUT_MAX][145];
} ea_info;
EA_API ea_status ea_get_info(ea_client *c, ea_info *out);
EA_API ea_status ea_get_info_send(ea_client *c, const ea_send_options *how,
                                  uint64_t *request_id); /* answer->info */

typedef struct ea_operation_stats {
    const char *name; /* "knn" */
    uint64_t requests, errors, total_ns, p50_ns, p90_ns, p99_ns, max_ns;
} ea_operation_stats;
/* Why a card's clocks are lower than they could be, as ea_gpu_sensors.slowed has them together. */
typedef enum ea_slowed {
    EA_SLOWED_BY_SETTING = 2,
    EA_SLOWED_BY_POWER_LIMIT = 4,
    EA_SLOWED_BY_HARDWARE = 8, /* one of the last two, or a fault of the power supply */
    EA_SLOWED_BY_STEP = 16,    /* with other cards */
    EA_SLOWED_BY_HEAT = 32,    /* the driver's doing */
    EA_SLOWED_BY_HARDWARE_HEAT = 64,
    EA_SLOWED_BY_POWER_BRAKE = 128,
} ea_slowed;
/* What NVML says of a card; -1: it does not, or the card is not ready. */
typedef struct ea_gpu_sensors {
    int64_t celsius;
    int64_t milliwatts, limit_milliwatts;   /* power that it takes, and may take */
    int64_t megahertz, memory_megahertz;    /* clocks as they are */
    int64_t busy_percent;                   /* of the time, with a kernel of any program */
    int64_t memory_busy_percent;            /* of the time, with an access to its memory */
    int64_t used_bytes, all_bytes;          /* of its memory: by all programs, and in all */
    int64_t ecc_corrected, ecc_uncorrected; /* errors of memory since the driver was loaded */
    int64_t slowed;                         /* ea_slowed together; other bits may be set, too */
} ea_gpu_sensors;
/* What one GPU's process has done since its start. */
typedef struct ea_gpu_stats {
    uint32_t number;
    ea_gpu_state state;
    uint64_t replica_bytes;             /* VRAM used by replicas */
    uint64_t request_bytes, slab_bytes; /* VRAM used by requests, of the part reserved for them */
    uint64_t free_bytes;                /* VRAM of the whole device that no program uses */
    uint64_t budget_bytes;
    uint64_t pinned_bytes; /* host memory pinned for copies */
    uint64_t replicas, streams;
    /* upload_ns: time in which an upload was under way */
    uint64_t uploads, upload_bytes, upload_ns;
    uint64_t evictions;    /* replicas dropped to make room for others */
    uint64_t runs, run_ns; /* run_ns: time in which a request was on the device */
    /* requests and uploads that failed on the device, or found no memory */
    uint64_t errors, no_memory;
    uint64_t restarts, jobs_in_flight, uptime_ns;
    uint64_t shrunk, split; /* requests with less optional scratch than they wanted; in passes */
    ea_gpu_sensors sensors;
} ea_gpu_stats;
/* How many requests ran on this backend, for this reason. */
typedef struct ea_route_stats {
    ea_backend backend;
    uint32_t reason; /* ea_reason_name, ea_reason_text */
    uint64_t requests;
} ea_route_stats;
/* How much this space used of one backend. */
typedef struct ea_backend_use {
    uint64_t requests, busy_ns; /* busy_ns: time for which it kept the backend from others */
    /* runs of several requests as one, and the requests in them */
    uint64_t batches, batched_requests;
} ea_backend_use;
/* The use of this space, and its quotas (0: unlimited). */
typedef struct ea_space_stats {
    uint64_t host_bytes, host_bytes_max; /* collections, requests and results */
    uint64_t vram_bytes_max;
    uint64_t queue_depth, queue_max; /* requests waiting for a backend */
    uint64_t connections, connections_max;
    uint64_t refused_queue, refused_connections;
    uint32_t weight;                 /* its share of a busy backend, relative to other spaces' */
    ea_backend_use use[EA_BACKENDS]; /* by ea_backend: CPU and GPU */
} ea_space_stats;
/* What the scheduler did, for all spaces together. */
typedef struct ea_scheduler_stats {
    /* ns: time to choose a backend */
    uint64_t decisions, decide_p50_ns, decide_p99_ns, decide_max_ns;
    uint64_t batches, batched_requests;
    uint64_t splits;               /* requests that ran on both backends at once */
    uint64_t steals;               /* that an idle backend took over from another's queue */
    uint64_t probes;               /* that ran on the backend not chosen, to learn */
    uint64_t aged;                 /* that were served because they had waited longest */
    uint64_t passes;               /* short ones that were served before long ones */
    uint32_t gpu_success_permille; /* of the operation with the lowest rate of late */
    bool calibrated;
} ea_scheduler_stats;
/* What was done when VRAM was short. GPUs count since their process started. */
typedef struct ea_pressure {
    uint64_t shrunk_batches;          /* batches made smaller so that they fit */
    uint64_t shrunk_runs, split_runs; /* requests with less optional scratch; in passes */
    uint64_t evictions;               /* replicas dropped to make room */
    uint64_t cpu;                     /* requests that the CPU answered for lack of VRAM */
    bool low;                         /* true now: new work goes to the CPU */
} ea_pressure;
/* A peer of the daemon: a user on the Unix socket, an address on TCP, since it came. */
typedef struct ea_peer_stats {
    char name[56]; /* "uid 1000", "10.0.0.7/32" */
    bool own;      /* the peer that asks */
    uint64_t connections;
    uint64_t requests;             /* under way */
    uint64_t in_line, in_line_max; /* of these, waiting for the CPU or a GPU (peers.queue) */
    uint64_t body_bytes;           /* of large bodies, received or held by requests */
    /* requests, for peers.queue; connections; bodies, for want of memory or peers.body_mib */
    uint64_t refused_queue, refused_connections, refused_bodies;
} ea_peer_stats;
/* What kNN over a collection of this space did with rows in int8. */
typedef struct ea_collection_screens {
    char name[65];
    ea_screens cpu, gpu;
} ea_collection_screens;
typedef enum ea_journal_mode {
    EA_JOURNAL_OFF = 0,
    EA_JOURNAL_SECOND = 1,
    EA_JOURNAL_ALWAYS = 2
} ea_journal_mode;
typedef enum ea_journal_state {
    EA_JOURNAL_NONE = 0,
    EA_JOURNAL_SOUND = 1,
    EA_JOURNAL_NO_ROOM = 2, /* writes are refused until the disk has room, */
    EA_JOURNAL_FAILED = 3   /* or until a snapshot is saved */
} ea_journal_state;
/* The journal of writes (persist.journal). */
typedef struct ea_journal_stats {
    ea_journal_mode mode;
    ea_journal_state state;
    char why[160];              /* it is not sound; only root and the daemon's user are told */
    uint64_t files, file_bytes; /* file_bytes: since the last snapshot */
    uint64_t records, bytes;    /* written since the daemon began */
    uint64_t syncs, group_last; /* group_last: records that the last sync was for */
    uint64_t queued_bytes;      /* not written yet */
    uint64_t lag_ns;            /* for how long the oldest write not synced has been done */
} ea_journal_stats;
/* Snapshots in persist.dir. */
typedef struct ea_snapshot_stats {
    uint64_t number, age_ns, bytes;                 /* of the newest; number 0: there is none */
    uint64_t duration_ns;                           /* of the last save that ended well */
    uint64_t done, failed, given_up, written_bytes; /* since the daemon began */
    uint64_t lag_ns;   /* since when there may be something that the newest does not have */
    uint64_t every_ns; /* persist.every_s; 0: only if asked */
    bool failing;      /* the last one failed */
    char error[224];   /* why; only root and the daemon's user are told */
} ea_snapshot_stats;
typedef struct ea_stats {
    uint64_t connections_open, connections_total, connections_refused, connections_dropped;
    uint64_t requests_total, errors_total, cancelled_total, deadline_exceeded_total;
    uint64_t bytes_in, bytes_out, queue_depth, jobs_in_flight;
    uint64_t memory_bytes_used, memory_bytes_peak;
    uint64_t collections, rows; /* of this space */
    /* of this space, too, all of its graphs together */
    uint64_t graphs, graph_nodes, graph_edges, graph_bytes;
    uint64_t vram_bytes; /* of this space's replicas on GPUs */
    uint64_t uptime_ns;
    uint32_t operation_count;
    ea_operation_stats operations[EA_OPERATIONS_MAX];
    uint32_t gpu_count, route_count;
    ea_gpu_stats gpus[EA_GPUS_MAX];
    ea_route_stats routes[EA_ROUTES_MAX];
    uint64_t backend_requests[EA_BACKENDS]; /* sums over routes, by ea_backend */
    ea_space_stats space;
    ea_scheduler_stats scheduler;
    ea_pressure pressure;
    /* Root and the user that the daemon runs as see all peers, at most so many: the own one first,
     * then the busiest. Anybody else sees its own. */
    uint32_t peer_count, peers_left_out;
    ea_peer_stats peers[EA_PEERS_MAX];
    /* of this space: attractors, what they have learned, and what weights and dentate matrices
     * take */
    uint64_t attractors, attractor_patterns, attractor_bytes;
    /* of collections with such searches, the ones with the most first; others are left out */
    uint32_t screens_count, screens_left_out;
    ea_collection_screens screens[EA_SCREENS_MAX];
    /* How often the daemon's file was read again (ea_config_reload, SIGHUP), and refused. */
    uint64_t config_reloads, config_reloads_refused;
    /* What is kept on the disk; without persist.dir all of it is 0. */
    ea_journal_stats journal;
    ea_snapshot_stats snapshots;
} ea_stats;
EA_API ea_status ea_get_stats(ea_client *c, ea_stats *out);
EA_API ea_status ea_get_stats_send(ea_client *c, const ea_send_options *how,
                                   uint64_t *request_id); /* answer->stats */

/* A space: what it has, what it uses, its quotas. */
typedef struct ea_space_info {
    char name[65];
    bool own; /* the one of this handle */
    uint64_t collections, rows;
    uint64_t graphs, graph_nodes, graph_edges;
    uint64_t attractors, attractor_patterns;
    uint64_t vram_bytes; /* of its replicas on GPUs */
    ea_space_stats use;
} ea_space_info;
/* Lists the daemon's spaces by name: all for root and the user that it runs as, for anybody else
 * the own one. *out is freed with ea_spaces_free. There is no _send. */
EA_API ea_status ea_get_spaces(ea_client *c, ea_space_info **out, size_t *count);
EA_API void ea_spaces_free(ea_space_info *list);

typedef enum ea_setting_source {
    EA_SETTING_DEFAULT = 0,
    EA_SETTING_FILE = 1,
    EA_SETTING_COMMAND_LINE = 2,
    EA_SETTING_SET = 3 /* by ea_config_set */
} ea_setting_source;
/* A setting of the daemon (engram-acceld --help-config). */
typedef struct ea_setting {
    char name[97]; /* "batch.wait_us", "spaces.alpha.weight" */
    char value[257];
    char asked[257]; /* if it wants a restart: for this value; else "" */
    ea_setting_source source;
    bool live;          /* ea_config_set may change it */
    bool wants_restart; /* file or command line, as last read, ask for another value */
} ea_setting;
/* Lists all settings, in the order of --help-config, then what single spaces were given. *out is
 * freed with ea_settings_free. There is no _send. */
EA_API ea_status ea_config_get(ea_client *c, ea_setting **out, size_t *count);
EA_API void ea_settings_free(ea_setting *list);
/* Sets a live setting, until the daemon reads its file again or stops; the file stays as it is.
 * Only for root and the user that the daemon runs as: PERMISSION_DENIED (EA_DETAIL_NOT_OPERATOR).
 * INVALID_ARGUMENT (EA_DETAIL_BAD_SETTING): no such setting, or a bad value; FAILED_PRECONDITION
 * (EA_DETAIL_NOT_LIVE): it needs a restart. *now and *before, its value before, may be NULL. */
EA_API ea_status ea_config_set(ea_client *c, const char *name, const char *value, ea_setting *now,
                               char before[257]);

/* Has the daemon read its settings file again: live settings change, *changed of them, others that
 * differ want a restart, *want_restart of them (ea_config_get names them); either may be NULL. If
 * anything in the file is wrong, INVALID_ARGUMENT: the text says file, setting and reason, and the
 * settings in use stay. Only for root and the user that the daemon runs as. */
EA_API ea_status ea_config_reload(ea_client *c, uint32_t *changed, uint32_t *want_restart);

/* A request that took observe.slow_ms or more. */
typedef struct ea_slow_request {
    uint64_t number;          /* from 1 on, of all since the daemon's start */
    uint64_t ago_ns;          /* since it was answered */
    const char *operation;    /* "knn" */
    char space[65], name[65]; /* name: of what it named first, or "" */
    char peer[56];            /* who asked; "": that is another's business */
    uint64_t request_id;
    ea_status status;
    uint32_t detail; /* ea_detail_name */
    ea_meta meta;
    uint64_t queries, rows;              /* 0: nothing of the kind */
    uint32_t dimension, k;               /* as stored: a multiple of 32 */
    uint64_t request_bytes, reply_bytes; /* of bodies */
} ea_slow_request;
/* Lists slow requests as far as they are kept (256), the newest first: all for root and the user
 * that the daemon runs as, those of the own space for anybody else. *out is freed with
 * ea_slowlog_free; *total (may be NULL): of all spaces since the start. There is no _send. */
EA_API ea_status ea_get_slowlog(ea_client *c, ea_slow_request **out, size_t *count,
                                uint64_t *total);
EA_API void ea_slowlog_free(ea_slow_request *list);

typedef enum ea_memory_what {
    EA_MEMORY_COLLECTION = 1,
    EA_MEMORY_GRAPH,
    EA_MEMORY_ATTRACTOR
} ea_memory_what;
/* What a collection, graph or attractor holds. needed: rows with their ids and norms, nodes and
 * edges, weights, and indexes as they are; taken: with padding, room for more, spare places, holes
 * and whole pages. */
typedef struct ea_memory_content {
    uint64_t number; /* larger than those of all that got their names before */
    ea_memory_what what;
    char name[65];
    uint64_t needed_bytes, taken_bytes; /* of host memory */
    uint64_t shared_bytes;              /* besides: what attractors of a dimension share */
    uint64_t vram_needed_bytes, vram_taken_bytes; /* taken 0: it has no replica */
    uint32_t card;                                /* that has it */
} ea_memory_content;
typedef struct ea_memory_space {
    /* host_bytes: blocks of the contents, of older versions that are still read, and of requests,
     * as its quota counts them. max 0: no quota */
    uint64_t host_bytes, host_bytes_max, vram_bytes, vram_bytes_max;
} ea_memory_space;
/* Lists what a space holds (NULL: the own one), in the order in which it got its names. Another
 * space than the own one is for root and the user that the daemon runs as: PERMISSION_DENIED
 * (EA_DETAIL_NOT_OPERATOR); NOT_FOUND (EA_DETAIL_UNKNOWN_SPACE). *out is freed with
 * ea_memory_free; *all may be NULL. There is no _send. */
EA_API ea_status ea_get_memory(ea_client *c, const char *space, ea_memory_content **out,
                               size_t *count, ea_memory_space *all);

typedef enum ea_memory_of {
    EA_MEMORY_HOST = 1, /* the heap: collections, requests and results */
    EA_MEMORY_REQUESTS, /* VRAM that a card has set aside for requests */
    EA_MEMORY_REPLICAS  /* VRAM of a card that is for replicas */
} ea_memory_of;
/* A pool of memory, as the daemon saw it when it looked. */
typedef struct ea_memory_pool {
    uint64_t number, ago_ns; /* of the look, which may have seen several */
    ea_memory_of of;
    uint32_t card;
    uint64_t asked_bytes, used_bytes; /* in use: as they were asked for, and as they were given */
    uint64_t kept_bytes;              /* given back, and kept for reuse */
    uint64_t free_bytes;              /* not in use, those that are kept included */
    uint64_t
        largest_bytes; /* the largest block that could be had; 1 - this / free: fragmentation */
} ea_memory_pool;
/* Lists the daemon's pools of memory as they are now and, if history, behind them as they were
 * every observe.memory_s seconds, the newest first, as far as they are kept (4,096 pools). *out is
 * freed with ea_memory_free. There is no _send. */
EA_API ea_status ea_get_memory_pools(ea_client *c, bool history, ea_memory_pool **out,
                                     size_t *count);
EA_API void ea_memory_free(void *list);

/* The cost of an operation on one backend: the sum over ns for each unit, times drift, is the base
 * of a prediction. */
typedef struct ea_backend_cost {
    double fixed_ns;
    double row_byte_ns; /* a byte of rows read, once for all queries */
    double product_ns;  /* queries x rows x dimension; for a spread, nodes of all its sets */
    double query_ns;
    double moved_byte_ns;       /* of request or reply */
    double pair_ns;             /* a score */
    double handed_ns;           /* once, for work too large to run on the loop */
    float drift;                /* lately, seen time / predicted time */
    float spread;               /* how far predictions are typically off: 0.1 is 10 % */
    float confidence;           /* 0..1, for 1 query against 100,000 rows of 768 numbers */
    uint32_t success_permille;  /* of the last runs: an upper estimate from the outcomes below */
    uint32_t outcomes;          /* runs that count for it */
    uint64_t seen;              /* runs that the model learnt from */
    uint64_t probes, surprises; /* requests that ran there to learn; those far off the prediction */
} ea_backend_cost;
/* From how many rows on the GPU is predicted to be faster (of candidates: of all lists together);
 * 0: never. Dimension 768, k = 10, the replica up to date, nothing waiting. */
typedef struct ea_crossover {
    uint32_t queries;
    uint64_t rows;
    uint64_t cpu_ns, gpu_ns; /* predicted for that many rows; never: for 2^26 */
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
    uint32_t gpu;       /* the number of the GPU, if it ran there */
    uint32_t reason;    /* ea_reason_name, ea_reason_text */
    uint32_t dimension; /* as stored: a multiple of 32 */
    uint32_t k;         /* 0: all scores */
    uint32_t members;   /* requests that ran as one; the numbers are of all of them */
    uint64_t queries, rows;
    uint64_t ago_ns;                  /* since it ended */
    uint64_t cpu_ns, gpu_ns, wait_ns; /* predicted; 0: not predicted */
    uint64_t took_ns;                 /* from submission to end */
    bool well;                        /* false: the backend failed */
    bool filtered;
} ea_decision;
/* From how many bytes of rows what a decision would take on each backend was predicted: a kNN reads
 * less where rows are asked in int8 first. 0: not predicted. */
typedef struct ea_row_bytes {
    uint64_t cpu, gpu;
} ea_row_bytes;
typedef struct ea_explanation {
    char gpu[321]; /* one line: "absent: why", or what serves */
    /* measured on this machine, now or in an earlier run; else the costs are built in */
    bool calibrated;
    uint32_t workers;
    double upload_byte_ns, upload_ns; /* to bring a replica up to date */
    ea_backend force;                 /* none: the scheduler decides */
    /* the least for the GPU; nodes_min: for spreads */
    uint64_t pairs_min, candidates_min, nodes_min;
    uint32_t speedup_percent, success_percent, probe_percent;
    uint64_t window_ns, quantum_ns, age_ns;
    uint64_t batch_wait_ns, batch_queries_max, batch_requests_max;
    bool split;
    uint64_t decisions_total; /* of all spaces, since the start */
    uint32_t operation_count, decision_count;
    ea_operation_cost operations[EA_COSTS_MAX];
    ea_decision decisions[EA_DECISIONS_MAX];  /* the newest first */
    uint32_t screens_count, screens_left_out; /* as in ea_stats */
    ea_collection_screens screens[EA_SCREENS_MAX];
    ea_row_bytes row_bytes[EA_DECISIONS_MAX]; /* of each of `decisions` */
    /* by ea_backend, of kNN that asks int8 first: seen time / predicted time beside all else; 0:
     * the daemon does not say */
    float screened[EA_BACKENDS];
} ea_explanation;
/* Explains where requests run: the model, and at most `last` (0..64) decisions of this space. */
EA_API ea_status ea_explain(ea_client *c, uint32_t last, ea_explanation *out);
EA_API ea_status ea_explain_send(ea_client *c, uint32_t last, const ea_send_options *how,
                                 uint64_t *request_id); /* answer->explanation */

#ifdef __cplusplus
}
#endif

#endif
