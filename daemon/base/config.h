/* config: every setting, from one table of key, type, bounds, default and help.
 * Owner:  main; const after the start, except for live keys, which SIGHUP may change.
 * Thread: the loop.
 * Errors: INVALID_ARGUMENT with "FILE: KEY: reason"; nothing is applied then. */
#ifndef ENGRAM_BASE_CONFIG_H
#define ENGRAM_BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/base/status.h"

enum { CONFIG_TEXT_MAX = 256, CONFIG_SPACES_MAX = 256, CONFIG_SPACE_NAME_MAX = 64 };
enum {
    CONFIG_KEYS_MAX = 128,
    CONFIG_QUOTAS = 5,           /* how many a space has */
    CONFIG_SETTING_NAME_MAX = 96 /* "spaces.NAME.connections" */
};

/* Where a value came from. */
enum config_source {
    CONFIG_DEFAULT,
    CONFIG_FILE,
    CONFIG_COMMAND_LINE,
    CONFIG_SET, /* by a request, while the daemon runs */
};

/* The quotas of a space. 0: unlimited, if the range has it. */
struct space_quotas {
    uint64_t host_mib;    /* quotas.host_mib: 0; ..2^30 */
    uint64_t vram_mib;    /* quotas.vram_mib: 0; ..2^24 */
    uint32_t queue;       /* quotas.queue: 4096; 1..2^20 */
    uint32_t connections; /* quotas.connections: 0; ..65536 */
    uint32_t weight;      /* quotas.weight: 1; 1..1000 */
    uint32_t unused;      /* 0: padding made explicit, so that configs compare as bytes */
};

/* The limits of a peer: a user on a Unix socket, an address on TCP. 0: half of what all may. */
struct peer_limits {
    uint64_t body_mib;    /* peers.body_mib: 0; ..2^30 (live) */
    uint32_t queue;       /* peers.queue: 0; ..2^20 (live) */
    uint32_t connections; /* peers.connections: 0; ..65536 (live) */
    uint32_t log_lines;   /* peers.log_lines, a minute: 60; 1..65536 (live) */
    uint32_t unused;      /* as in struct space_quotas */
};

/* What is counted and kept for operators. */
struct observe_settings {
    char slow_operations[CONFIG_TEXT_MAX]; /* observe.slow_operations: "" (live) */
    uint32_t slow_ms;                      /* observe.slow_ms: 100; 0: none (live) */
    uint32_t window;                       /* observe.window: 100; 20..1024 (live) */
    uint32_t memory_s;                     /* observe.memory_s: 60; ..86400 (live) */
    bool enabled;                          /* observe.enabled: true (live) */
    uint8_t unused[3];                     /* as in struct space_quotas */
};

/* "spaces": {"alpha": {"weight": 4}}. A quota of all ones is not set: the default applies. */
struct space_override {
    char name[CONFIG_SPACE_NAME_MAX + 8];
    struct space_quotas quotas;
    uint8_t sources[8]; /* enum config_source, in the order of quotas.* in the table */
};

struct config {
    char socket_path[CONFIG_TEXT_MAX];   /* socket.path: at most 107 bytes; "": no Unix socket */
    uint32_t socket_mode;                /* socket.mode: octal text, "0660" */
    bool tcp_enabled;                    /* tcp.enabled: false */
    char tcp_host[CONFIG_TEXT_MAX];      /* tcp.host: 127.0.0.0/8 or ::1 only */
    uint32_t tcp_port;                   /* tcp.port: 0..65535; 0 lets the system choose */
    uint32_t worker_count;               /* workers.count: 0 = one per usable core, ..256 */
    bool worker_pin;                     /* workers.pin: true */
    bool worker_inline;                  /* workers.inline: true (live) */
    char kernels[CONFIG_TEXT_MAX];       /* kernels: auto, scalar, avx2, avx512, neon */
    uint64_t memory_mib_max;             /* memory.max_mib: 0 = 3/4 of RAM, or of the cgroup */
    uint64_t cache_mib_max;              /* memory.cache_mib: given-back blocks kept; 64 (live) */
    char screen_memory[CONFIG_TEXT_MAX]; /* screen.memory: auto, off, cpu, gpu (live) */
    uint64_t body_mib_max;               /* limits.request_body_mib: 64; 1..1024 */
    uint64_t reply_mib_max;              /* limits.reply_body_mib: 256; 1..4096 */
    uint32_t connection_max;             /* limits.connections: 2048; 1..65536 */
    uint32_t connection_kept;            /* limits.connections_kept, for operators: 16 (live) */
    uint32_t in_flight_max;              /* limits.requests_in_flight, per connection: 1024 */
    uint32_t job_max;                    /* limits.requests_total: 16384 */
    uint32_t collection_max;             /* limits.collections, of one space: 1024 */
    uint64_t output_mib_max;   /* limits.output_mib, unread replies of a client: 512 (live) */
    uint32_t handshake_ms_max; /* limits.handshake_ms: 5000 (live) */
    /* limits.stall_ms: how long a half-sent frame or an unread reply may make no progress: 30000
     * (live) */
    uint32_t stall_ms_max;
    uint32_t spread_ms_max;            /* limits.spread_ms: 60000; 0: unlimited (live) */
    uint32_t cluster_rows_max;         /* limits.cluster_rows: 131072 (live) */
    uint32_t cluster_average_rows_max; /* limits.cluster_average_rows: 16384 (live) */
    uint32_t drain_ms_max;             /* limits.drain_ms, after SIGTERM: 10000 (live) */
    uint32_t hand_over_ms_max;         /* limits.hand_over_ms: 200 (live) */
    uint32_t successor_ms_max;         /* limits.successor_ms: 60000 (live) */
    char token_file[CONFIG_TEXT_MAX];  /* auth.token_file: "" = no token asked */
    char gpu_devices[CONFIG_TEXT_MAX]; /* gpu.devices: auto, none, or "0,1"; "sim": simulated */
    char gpu_program[CONFIG_TEXT_MAX]; /* gpu.program: "" = engram-accel-gpu beside the daemon */
    char gpu_memory[CONFIG_TEXT_MAX];  /* gpu.memory: device, managed */
    uint32_t gpu_memory_percent;       /* gpu.memory_percent, of VRAM free at start: 75; 1..95 */
    uint64_t gpu_memory_mib_max;       /* gpu.memory_mib: 0 = by gpu.memory_percent alone */
    char gpu_force[CONFIG_TEXT_MAX];   /* gpu.force: none, cpu, gpu, both (live) */
    uint64_t gpu_pairs_min;            /* gpu.min_pairs, queries times rows: 64 (live) */
    uint32_t gpu_heartbeat_ms;         /* gpu.heartbeat_ms: 1000; 300..60000 */
    uint32_t gpu_job_ms;               /* gpu.job_ms, plus what the work should take: 2000 */
    uint32_t gpu_spin_us;              /* gpu.spin_us, before a side sleeps: 150; 0..1000 */
    uint32_t gpu_spin_percent;         /* gpu.spin_percent, of a core, for each side: 100; 0..100 */
    uint32_t gpu_copiers;              /* gpu.copiers: 0 = 3/4 of the processors, at most 12 */
    uint32_t gpu_streams;              /* gpu.streams: 32; 1..128 */
    char gpu_sim[CONFIG_TEXT_MAX];     /* gpu.sim: settings of a simulated device */
    uint64_t gpu_candidates_min;       /* gpu.min_candidates: 64 (live) */
    uint64_t gpu_nodes_min;            /* gpu.min_nodes: 512 (live) */
    uint32_t speedup_percent;          /* sched.speedup_percent: 150; 100..1000 (live) */
    uint32_t success_percent;          /* sched.success_percent: 95; 0..100 (live) */
    uint32_t probe_percent;            /* sched.probe_percent: 2; 0..20 (live) */
    uint32_t window_us;                /* sched.window_us: 1000; 0..60000000 (live) */
    uint32_t quantum_us;               /* sched.quantum_us: 500; 1..1000000 (live) */
    uint32_t age_ms;                   /* sched.age_ms: 1000; 1..3600000 (live) */
    bool predict;                      /* sched.predict: true (live) */
    bool split;                        /* sched.split: true (live) */
    bool calibrate;                    /* sched.calibrate: true */
    char model_file[CONFIG_TEXT_MAX];  /* sched.model_file: "" = $STATE_DIRECTORY/model.json */
    char
        persist_dir[CONFIG_TEXT_MAX]; /* persist.dir: "" = $STATE_DIRECTORY/snapshots, or nowhere */
    char persist_load[CONFIG_TEXT_MAX];       /* persist.load: require, salvage */
    char persist_key_file[CONFIG_TEXT_MAX];   /* persist.key_file: "" = manifests have no HMAC */
    char persist_journal[CONFIG_TEXT_MAX];    /* persist.journal: off, second, always */
    uint64_t persist_journal_mib;             /* persist.journal_mib: 4096 (live) */
    uint32_t persist_zstd;                    /* persist.zstd: 0 = plain; 1..19 (live) */
    uint32_t persist_mib_per_s;               /* persist.mib_per_s: 0 = unlimited (live) */
    uint32_t persist_every_s;                 /* persist.every_s: 3600; 0 = never (live) */
    uint32_t persist_keep;                    /* persist.keep: 2; 1..1000 (live) */
    bool persist_on_stop;                     /* persist.on_stop: true (live) */
    bool persist_hand_over;                   /* persist.hand_over: true (live) */
    uint32_t batch_wait_us;                   /* batch.wait_us: 500; 0..1000000 (live) */
    uint32_t batch_queries;                   /* batch.queries: 256; 1..1024 (live) */
    uint32_t batch_requests;                  /* batch.requests: 256; 1..256 (live) */
    struct space_quotas quotas;               /* quotas.*: of every space (live) */
    struct peer_limits peers;                 /* peers.*: of every peer (live) */
    char metrics_listen[CONFIG_TEXT_MAX];     /* metrics.listen: "" = nowhere (live) */
    char metrics_token_file[CONFIG_TEXT_MAX]; /* metrics.token_file (live) */
    bool metrics_open;                        /* metrics.open: false (live) */
    uint32_t metrics_spaces;                  /* metrics.spaces, with series of their own: 64 */
    char metrics_buckets[CONFIG_TEXT_MAX];    /* metrics.buckets, in us: "" = the usual */
    struct observe_settings observe;          /* observe.* */
    char log_level[CONFIG_TEXT_MAX];          /* log.level: error, warning, info, debug (live) */
    char log_format[CONFIG_TEXT_MAX];         /* log.format: text, json, journald */
    uint8_t sources[CONFIG_KEYS_MAX];         /* enum config_source, in the table's order */
    uint32_t space_count;
    struct space_override spaces[CONFIG_SPACES_MAX]; /* spaces (live) */
};

/* Sets every default. */
void config_defaults(struct config *out);

/* Reads a JSON file over *c (nested objects: {"socket": {"path": "..."}}), checks the whole file,
 * and only then changes *c. A missing file is NOT_FOUND. Unknown or repeated key, wrong type, out
 * of range, not JSON (with line and column): INVALID_ARGUMENT. */
enum status config_read_file(struct config *c, const char *path, struct failure *f);

/* The same from memory; messages use `name` as the file's name. */
enum status config_read_text(struct config *c, const char *text, size_t bytes, const char *name,
                             struct failure *f);

/* Applies one "key=value" from the command line to *c. */
enum status config_set(struct config *c, const char *assignment, struct failure *f);

/* Sets one live setting of a running daemon ("batch.wait_us", "spaces.alpha.weight"); *c changes as
 * a whole or not at all. INVALID_ARGUMENT: no such key, or a bad value; FAILED_PRECONDITION: the
 * key is not live. */
enum status config_set_live(struct config *c, const char *name, const char *value,
                            struct failure *f);

/* A setting as people read it. */
struct config_setting {
    char name[CONFIG_SETTING_NAME_MAX + 1];
    char value[CONFIG_TEXT_MAX];
    char asked[CONFIG_TEXT_MAX]; /* not live, and this is asked for: it wants a restart; else "" */
    const char *space;           /* whose quota it is; NULL: none's */
    enum config_source source;
    bool live, wants_restart;
};
/* The setting in this position: those of the table, then those given for single spaces; false
 * past the end. `asked`: what file and command line say, read anew. */
bool config_setting_at(const struct config *c, const struct config *asked, uint32_t position,
                       struct config_setting *out);
/* The setting of this name; false, and *out as it was, if there is none, or a space has no quota of
 * its own there. */
bool config_setting_find(const struct config *c, const struct config *asked, const char *name,
                         struct config_setting *out);

/* Of a file that was read again. */
struct config_reload {
    const char *file;
    uint32_t changed, want_restart; /* live settings; others that differ */
};
/* How often that was done since the start. */
struct config_reloads {
    uint64_t taken, refused;
};

/* Returns the quotas of the space with this name: its own, or else the default. */
struct space_quotas config_quotas(const struct config *c, const char *space_name);

/* Copies the live keys of `from` to *c; returns how many changed (the spaces count as one).
 * *ignored (may be NULL): how many other keys differ and need a restart. */
uint32_t config_apply_live(struct config *c, const struct config *from, uint32_t *ignored);

/* The sample file (JSON of all defaults), the help as a table, and the man page's section (troff),
 * all from the table. */
void config_print_sample(FILE *out);
void config_print_help(FILE *out);
void config_print_man(FILE *out);

#endif
