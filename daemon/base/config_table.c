#include "daemon/base/config_table.h"

#include <string.h>

#include "daemon/base/config.h"
#include "daemon/base/durations.h"
#include "daemon/base/listen_address.h"
#include "daemon/base/slow_times.h"

/* sockaddr_un.sun_path holds 108 bytes with the closing zero. */
enum { SOCKET_PATH_BYTES_MAX = 107 };

/* TCP is not encrypted and, by default, not authenticated: it never leaves the machine. */
static bool is_local(const char *text)
{
    return !text[0] || listen_address_parse(text, NULL);
}

static bool are_buckets(const char *text)
{
    return !text[0] || durations_parse(text, NULL);
}

#define AT(field) offsetof(struct config, field)

/* clang-format off */
const struct config_key config_keys[] = {
    {.name = "socket.path", .type = CONFIG_TEXT, .offset = AT(socket_path),
     .max = SOCKET_PATH_BYTES_MAX, .text = "/run/engram-accel/engram-accel.sock",
     .help = "Unix socket to serve on; empty for none. A stale file is replaced."},
    {.name = "socket.mode", .type = CONFIG_MODE, .offset = AT(socket_mode), .max = 0777,
     .number = 0660, .help = "Permissions of the socket file, in octal: who may connect."},

    {.name = "tcp.enabled", .type = CONFIG_BOOLEAN, .offset = AT(tcp_enabled), .number = false,
     .help = "Serve on TCP too. Traffic is neither encrypted nor, without a token, "
     "authenticated."},
    {.name = "tcp.host", .type = CONFIG_TEXT, .offset = AT(tcp_host), .max = 45,
     .text = "127.0.0.1", .rule = "a loopback address (127.0.0.0/8 or ::1)",
     .check = listen_address_is_loopback, .help = "Address to serve on, numeric."},
    {.name = "tcp.port", .type = CONFIG_NUMBER32, .offset = AT(tcp_port), .max = 65535,
     .number = 7423, .help = "TCP port; 0 lets the system choose, the log says which."},

    {.name = "workers.count", .type = CONFIG_NUMBER32, .offset = AT(worker_count), .max = 256,
     .number = 0, .help = "Threads that compute; 0 for one per processor that may be used."},
    {.name = "workers.pin", .type = CONFIG_BOOLEAN, .offset = AT(worker_pin), .number = true,
     .help = "Keep each worker on one processor."},
    {.name = "workers.inline", .type = CONFIG_BOOLEAN, .live = true, .offset = AT(worker_inline),
     .number = true, .help = "Run a request that takes microseconds where it is received while no "
     "worker has anything to do; false: hand all to workers."},

    {.name = "kernels", .type = CONFIG_CHOICE, .offset = AT(kernels), .text = "auto",
     .choices = "auto scalar avx2 avx512 neon", .help = "Instruction set of the arithmetic; auto "
     "takes the fastest that this machine has. All give the same bits."},

    {.name = "memory.max_mib", .type = CONFIG_NUMBER64, .offset = AT(memory_mib_max),
     .max = 1 << 30, .number = 0, .help = "MiB that collections, requests and results may take "
     "together; 0 for three quarters of RAM, or of what the control group may have."},
    {.name = "memory.cache_mib", .type = CONFIG_NUMBER64, .live = true, .offset = AT(cache_mib_max),
     .max = 1 << 20, .number = 64, .help = "MiB of given-back request memory kept for reuse; it "
     "goes back to the system when idle."},

    {.name = "screen.memory", .type = CONFIG_CHOICE, .live = true, .offset = AT(screen_memory),
     .text = "auto", .choices = "auto off cpu gpu", .help = "Where rows of collections are also "
     "kept in int8, a quarter of their bytes, to rule out most of them in a kNN; answers stay "
     "exact. It is spare memory: given back before anything is refused. cpu: in the host's memory "
     "alone; gpu: in VRAM alone; auto: in both; off: nowhere."},

    {.name = "limits.request_body_mib", .type = CONFIG_NUMBER64, .offset = AT(body_mib_max),
     .min = 1, .max = 1024, .number = 64, .help = "MiB of one request's tensors. The client "
     "library splits larger uploads."},
    {.name = "limits.reply_body_mib", .type = CONFIG_NUMBER64, .offset = AT(reply_mib_max),
     .min = 1, .max = 4096, .number = 256, .help = "MiB of one reply's tensors."},
    {.name = "limits.connections", .type = CONFIG_NUMBER32, .offset = AT(connection_max),
     .min = 1, .max = 65536, .number = 2048, .help = "Connections at once; more are told so and "
     "closed."},
    {.name = "limits.connections_kept", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(connection_kept), .max = 65536, .number = 16, .help = "Connections, of "
     "limits.connections but at most an eighth, kept for root and the user that runs the daemon."},
    {.name = "limits.requests_in_flight", .type = CONFIG_NUMBER32, .offset = AT(in_flight_max),
     .min = 1, .max = 65536, .number = 1024, .help = "Requests of one connection at once; then its "
     "socket is not read until one is answered."},
    {.name = "limits.requests_total", .type = CONFIG_NUMBER32, .offset = AT(job_max),
     .min = 1, .max = 1 << 20, .number = 16384, .help = "Requests at once; more are refused with a "
     "hint to retry."},
    {.name = "limits.collections", .type = CONFIG_NUMBER32, .offset = AT(collection_max),
     .min = 1, .max = 1 << 20, .number = 1024, .help = "Collections of one space; another is "
     "refused until one is dropped."},
    {.name = "limits.output_mib", .type = CONFIG_NUMBER64, .live = true,
     .offset = AT(output_mib_max), .min = 1, .max = 65536, .number = 512,
     .help = "MiB of replies that a client may leave unread, besides the one on its way, before it "
     "is dropped."},
    {.name = "limits.handshake_ms", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(handshake_ms_max), .min = 10, .max = 3600000, .number = 5000,
     .help = "Milliseconds from connecting to Hello."},
    {.name = "limits.stall_ms", .type = CONFIG_NUMBER32, .live = true, .offset = AT(stall_ms_max),
     .min = 10, .max = 3600000, .number = 30000, .help = "Milliseconds (and a second per MiB) for "
     "a request to arrive once begun, and for a reply to be read on."},
    {.name = "limits.spread_ms", .type = CONFIG_NUMBER32, .live = true, .offset = AT(spread_ms_max),
     .max = 86400000, .number = 60000, .help = "Milliseconds that a spread may take: then it is "
     "answered as far as it came, truncated. Changes to its graph wait as long. 0: no bound."},
    {.name = "limits.cluster_rows", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(cluster_rows_max), .min = 2, .max = 262144, .number = 131072,
     .help = "Rows that one clustering may have. It compares all with all."},
    {.name = "limits.cluster_average_rows", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(cluster_average_rows_max), .min = 2, .max = 262144, .number = 16384,
     .help = "The same by rule average, which takes 7 bytes for each row and each other."},
    {.name = "limits.drain_ms", .type = CONFIG_NUMBER32, .live = true, .offset = AT(drain_ms_max),
     .max = 3600000, .number = 10000, .help = "Milliseconds that SIGTERM leaves to requests in "
     "flight."},
    {.name = "limits.hand_over_ms", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(hand_over_ms_max), .max = 3600000, .number = 200, .help = "The same for a "
     "successor that takes the daemon's place (--hand-over)."},
    {.name = "limits.successor_ms", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(successor_ms_max), .min = 1, .max = 3600000, .number = 60000,
     .help = "Milliseconds that a daemon that hands over waits for its successor to adopt all "
     "data; then it goes on itself."},

    {.name = "auth.token_file", .type = CONFIG_TEXT, .offset = AT(token_file),
     .max = CONFIG_TEXT_MAX - 1, .text = "", .help = "File with the token (1 to 255 bytes) that "
     "every Hello must carry; others may not read it. Empty for none."},

    {.name = "gpu.devices", .type = CONFIG_TEXT, .offset = AT(gpu_devices),
     .max = CONFIG_TEXT_MAX - 1, .text = "auto", .help = "GPUs to use: auto for all that the "
     "driver shows, none, or their numbers (\"0,2\"). sim is a simulated one, for tests."},
    {.name = "gpu.program", .type = CONFIG_TEXT, .offset = AT(gpu_program),
     .max = CONFIG_TEXT_MAX - 1, .text = "", .help = "The GPU process's executable; empty for the "
     "engram-accel-gpu beside this one."},
    {.name = "gpu.memory", .type = CONFIG_CHOICE, .offset = AT(gpu_memory), .text = "device",
     .choices = "device managed", .help = "Where replicas lie: in device memory, or in unified "
     "memory that the driver moves (cards with concurrent access)."},
    {.name = "gpu.memory_percent", .type = CONFIG_NUMBER32, .offset = AT(gpu_memory_percent),
     .min = 1, .max = 95, .number = 75, .help = "Share of the VRAM free at start that replicas and "
     "requests may take, in percent."},
    {.name = "gpu.memory_mib", .type = CONFIG_NUMBER64, .offset = AT(gpu_memory_mib_max),
     .max = 1 << 24, .number = 0, .help = "MiB of VRAM to take at most; 0 for gpu.memory_percent "
     "alone."},
    {.name = "gpu.force", .type = CONFIG_CHOICE, .live = true, .offset = AT(gpu_force),
     .text = "none", .choices = "none cpu gpu both", .help = "Run everything on the CPU, or "
     "everything that can on the GPU, whatever is faster; both: as gpu, and half of what can be "
     "split on the CPU."},
    {.name = "gpu.min_pairs", .type = CONFIG_NUMBER64, .live = true, .offset = AT(gpu_pairs_min),
     .min = 1, .max = UINT64_C(1) << 40, .number = 64, .help = "Queries times rows below which a "
     "request stays on the CPU."},
    {.name = "gpu.min_candidates", .type = CONFIG_NUMBER64, .live = true,
     .offset = AT(gpu_candidates_min), .min = 1, .max = UINT64_C(1) << 40, .number = 64,
     .help = "Listed rows (candidates, rows to average) below which a request stays on the CPU."},
    {.name = "gpu.min_nodes", .type = CONFIG_NUMBER64, .live = true, .offset = AT(gpu_nodes_min),
     .min = 1, .max = UINT64_C(1) << 40, .number = 512, .help = "Nodes that a spread is likely to "
     "touch, of all its seed sets together, below which it stays on the CPU."},
    {.name = "gpu.heartbeat_ms", .type = CONFIG_NUMBER32, .offset = AT(gpu_heartbeat_ms),
     .min = 300, .max = 60000, .number = 1000, .help = "Milliseconds without a sign of life after "
     "which a GPU process is killed and started again."},
    {.name = "gpu.job_ms", .type = CONFIG_NUMBER32, .offset = AT(gpu_job_ms), .min = 10,
     .max = 3600000, .number = 2000, .help = "Milliseconds, beside what its size explains, that a "
     "request may take on a GPU before its process is killed."},
    {.name = "gpu.spin_us", .type = CONFIG_NUMBER32, .offset = AT(gpu_spin_us), .max = 10000,
     .number = 150, .help = "Microseconds that daemon and GPU process watch for each other's news "
     "before they sleep, where the end of what they wait for is not predicted; 0: they never "
     "watch."},
    {.name = "gpu.spin_percent", .type = CONFIG_NUMBER32, .offset = AT(gpu_spin_percent),
     .max = 100, .number = 100, .help = "The share of a core that the daemon, and a GPU process, "
     "may watch for, counted over 100 ms, in percent."},
    {.name = "gpu.copiers", .type = CONFIG_NUMBER32, .offset = AT(gpu_copiers), .max = 64,
     .number = 0, .help = "Threads of a GPU process that move rows to pinned memory; 0 for three "
     "quarters of the processors, 12 at most."},
    {.name = "gpu.streams", .type = CONFIG_NUMBER32, .offset = AT(gpu_streams), .min = 1,
     .max = 128, .number = 32, .help = "Streams of a GPU process; spaces beyond that many share."},
    {.name = "gpu.sim", .type = CONFIG_TEXT, .offset = AT(gpu_sim), .max = CONFIG_TEXT_MAX - 1,
     .text = "", .help = "For tests: what the simulated device is like (\"vram_mib=64 "
     "latency_us=5 fail=17:sticky\")."},

    {.name = "sched.speedup_percent", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(speedup_percent), .min = 100, .max = 1000, .number = 150, .help = "How much "
     "faster a GPU must look while predictions are guesses, in percent of its time; it sinks to "
     "100 as they prove right."},
    {.name = "sched.success_percent", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(success_percent), .max = 100, .number = 95, .help = "Share of an operation's "
     "last runs on GPUs (observe.window) that must have gone well; below it the CPU has them, but "
     "for probes."},
    {.name = "sched.probe_percent", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(probe_percent), .max = 20, .number = 2, .help = "Share of the time that may go "
     "to trying the backend that was not chosen; 0 for none."},
    {.name = "sched.window_us", .type = CONFIG_NUMBER32, .live = true, .offset = AT(window_us),
     .max = 60000000, .number = 1000, .help = "Microseconds of work, as predicted, that a "
     "backend has at once; the rest waits where it is shared out between spaces; 0 for no bound."},
    {.name = "sched.quantum_us", .type = CONFIG_NUMBER32, .live = true, .offset = AT(quantum_us),
     .min = 1, .max = 1000000, .number = 500, .help = "Microseconds of work that a space may "
     "save up while its requests wait for company."},
    {.name = "sched.age_ms", .type = CONFIG_NUMBER32, .live = true, .offset = AT(age_ms), .min = 1,
     .max = 3600000, .number = 1000, .help = "Milliseconds after which a space that was not served "
     "is served next, whatever its share."},
    {.name = "sched.predict", .type = CONFIG_BOOLEAN, .live = true, .offset = AT(predict),
     .number = true, .help = "Send each request where it is predicted to end first; false: all "
     "that reach the floors (gpu.min_pairs, gpu.min_candidates, gpu.min_nodes) to a GPU."},
    {.name = "sched.split", .type = CONFIG_BOOLEAN, .live = true, .offset = AT(split),
     .number = true, .help = "Run one request on CPU and GPU together where that ends it sooner."},
    {.name = "sched.calibrate", .type = CONFIG_BOOLEAN, .offset = AT(calibrate), .number = true,
     .help = "Measure the backends at start, while idle, unless sched.model_file knows this "
     "machine."},
    {.name = "sched.model_file", .type = CONFIG_TEXT, .offset = AT(model_file),
     .max = CONFIG_TEXT_MAX - 1, .text = "", .help = "Where what was measured is kept over "
     "restarts; empty for model.json in systemd's state directory, or nowhere without one."},

    {.name = "batch.wait_us", .type = CONFIG_NUMBER32, .live = true, .offset = AT(batch_wait_us),
     .max = 1000000, .number = 500, .help = "Microseconds that a request may wait for others to "
     "run as one with it, and only while its backend is busy."},
    {.name = "batch.queries", .type = CONFIG_NUMBER32, .live = true, .offset = AT(batch_queries),
     .min = 1, .max = 1024, .number = 256, .help = "Queries of requests that run as one; 1 for no "
     "batching."},
    {.name = "batch.requests", .type = CONFIG_NUMBER32, .live = true, .offset = AT(batch_requests),
     .min = 1, .max = 256, .number = 256, .help = "Requests that run as one."},

    {.name = "quotas.host_mib", .type = CONFIG_NUMBER64, .live = true,
     .offset = AT(quotas.host_mib), .max = 1 << 30, .number = 0, .help = "MiB of memory that a "
     "space's collections, requests and results may take; 0 for no bound but memory.max_mib."},
    {.name = "quotas.vram_mib", .type = CONFIG_NUMBER64, .live = true,
     .offset = AT(quotas.vram_mib), .max = 1 << 24, .number = 0, .help = "MiB of VRAM that the "
     "copies of a space's collections and graphs may take; past it the CPU serves. 0 for no "
     "bound."},
    {.name = "quotas.queue", .type = CONFIG_NUMBER32, .live = true, .offset = AT(quotas.queue),
     .min = 1, .max = 1 << 20, .number = 4096, .help = "Requests of a space in line; more are "
     "refused with a hint to retry."},
    {.name = "quotas.connections", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(quotas.connections), .max = 65536, .number = 0, .help = "Connections of a space "
     "at once; 0 for no bound but limits.connections."},
    {.name = "quotas.weight", .type = CONFIG_NUMBER32, .live = true, .offset = AT(quotas.weight),
     .min = 1, .max = 1000, .number = 1, .help = "A space's share of the CPU and of each GPU, "
     "against the weights of others that want them at the same time."},

    {.name = "peers.queue", .type = CONFIG_NUMBER32, .live = true, .offset = AT(peers.queue),
     .max = 1 << 20, .number = 0, .help = "Requests of a peer (a user on the Unix socket, an "
     "address on TCP) in line, in all spaces; 0 for half of limits.requests_total."},
    {.name = "peers.connections", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(peers.connections), .max = 65536, .number = 0, .help = "Connections of a peer at "
     "once, but of root and the user that runs the daemon; 0 for half of limits.connections."},
    {.name = "peers.body_mib", .type = CONFIG_NUMBER64, .live = true, .offset = AT(peers.body_mib),
     .max = 1 << 30, .number = 0, .help = "MiB of large request bodies of a peer, as far as they "
     "came; 0 for half of memory.max_mib. One body is always taken."},
    {.name = "peers.log_lines", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(peers.log_lines), .min = 1, .max = 65536, .number = 60, .help = "Lines a minute "
     "that a peer may cause in the log; how many more there were is logged."},

    {.name = "persist.dir", .type = CONFIG_TEXT, .offset = AT(persist_dir),
     .max = CONFIG_TEXT_MAX - 1, .text = "", .help = "Folder of snapshots: the newest is loaded at "
     "start. Empty for snapshots in systemd's state directory, or nowhere without one; none for "
     "nowhere."},
    {.name = "persist.load", .type = CONFIG_CHOICE, .offset = AT(persist_load), .text = "require",
     .choices = "require salvage", .help = "What a damaged snapshot does: require stops the start; "
     "salvage takes an older one, or what is whole."},
    {.name = "persist.journal", .type = CONFIG_CHOICE, .offset = AT(persist_journal), .text = "off",
     .choices = "off second always", .help = "Writes since the last snapshot, beside snapshots: "
     "always: acknowledged when they are synced; second: synced once a second; off: none."},
    {.name = "persist.journal_mib", .type = CONFIG_NUMBER64, .live = true,
     .offset = AT(persist_journal_mib), .min = 1, .max = 1 << 30, .number = 4096, .help = "MiB of "
     "the journal at which a snapshot is saved, from which it begins anew."},
    {.name = "persist.every_s", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(persist_every_s), .max = 31536000, .number = 3600, .help = "Seconds from the end "
     "of a snapshot to the next one, if anything has changed; 0 for none but at a stop and on "
     "request."},
    {.name = "persist.mib_per_s", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(persist_mib_per_s), .max = 1048576, .number = 0, .help = "MiB a second that a "
     "snapshot writes at most while requests are served; 0 for as many as the disk takes."},
    {.name = "persist.zstd", .type = CONFIG_NUMBER32, .live = true, .offset = AT(persist_zstd),
     .max = 19, .number = 0, .help = "Level of zstd by which files of a snapshot are compressed; 0 "
     "for none. Their manifest has format 2, which older daemons refuse."},
    {.name = "persist.on_stop", .type = CONFIG_BOOLEAN, .live = true, .offset = AT(persist_on_stop),
     .number = true, .help = "Save a snapshot when the daemon stops; not if it leaves all to the "
     "service manager (persist.hand_over) and the journal has it."},
    {.name = "persist.hand_over", .type = CONFIG_BOOLEAN, .live = true,
     .offset = AT(persist_hand_over), .number = true, .help = "Leave all data in memory with the "
     "service manager when the daemon stops, if that takes it: a restart goes on with it."},
    {.name = "persist.keep", .type = CONFIG_NUMBER32, .live = true, .offset = AT(persist_keep),
     .min = 1, .max = 1000, .number = 2, .help = "Newest snapshots that are kept; what has not "
     "changed is on the disk once."},
    {.name = "persist.key_file", .type = CONFIG_TEXT, .offset = AT(persist_key_file),
     .max = CONFIG_TEXT_MAX - 1, .text = "", .help = "File with a secret of 1 to 256 bytes: "
     "snapshots are signed with it (HMAC), and others are not loaded; others may not read "
     "it. Empty for none."},

    {.name = "metrics.listen", .type = CONFIG_TEXT, .live = true, .offset = AT(metrics_listen),
     .max = SOCKET_PATH_BYTES_MAX, .text = "", .check = is_local, .rule = "a loopback "
     "ADDRESS:PORT or a path", .help = "Serve /metrics, /healthz and /readyz over HTTP there: "
     "127.0.0.1:7424, [::1]:7424 or the path of a Unix socket, which gets the permissions of "
     "socket.mode; empty for nowhere."},
    {.name = "metrics.token_file", .type = CONFIG_TEXT, .live = true,
     .offset = AT(metrics_token_file), .max = CONFIG_TEXT_MAX - 1, .text = "", .help = "File with "
     "the token (1 to 255 visible characters) that /metrics asks for, as bearer or as the password "
     "of basic; others must not be able to read it."},
    {.name = "metrics.open", .type = CONFIG_BOOLEAN, .live = true, .offset = AT(metrics_open),
     .number = false, .help = "Serve /metrics without a token, to all who may connect there."},
    {.name = "metrics.spaces", .type = CONFIG_NUMBER32, .offset = AT(metrics_spaces), .max = 256,
     .number = 64, .help = "Spaces that have series of their own in /metrics; the others are "
     "counted together, as other."},
    {.name = "metrics.buckets", .type = CONFIG_TEXT, .offset = AT(metrics_buckets),
     .max = CONFIG_TEXT_MAX - 1, .text = "", .check = are_buckets, .rule = "up to 24 whole numbers "
     "that rise", .help = "Bounds of the histograms in /metrics, in microseconds: \"100 1000 "
     "10000\"; empty for sixteen from 50 us to 10 s."},

    {.name = "observe.enabled", .type = CONFIG_BOOLEAN, .live = true,
     .offset = AT(observe.enabled), .number = true, .help = "Count requests, their times and where "
     "they ran, and keep decisions and slow requests, for stats, explain and slowlog; false: none "
     "of it."},
    {.name = "observe.slow_ms", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(observe.slow_ms), .max = 3600000, .number = 100, .help = "Milliseconds from "
     "its complete frame to its reply from which on a request is slow: it is logged, and kept for "
     "slowlog; 0 for none."},
    {.name = "observe.slow_operations", .type = CONFIG_TEXT, .live = true,
     .offset = AT(observe.slow_operations), .max = CONFIG_TEXT_MAX - 1, .text = "",
     .rule = "OPERATION=MS ...", .check = slow_times_valid,
     .help = "The same for single operations, by their names in stats: \"knn=20 "
     "cluster=60000\"."},
    {.name = "observe.memory_s", .type = CONFIG_NUMBER32, .live = true,
     .offset = AT(observe.memory_s), .max = 86400, .number = 60, .help = "Seconds between two "
     "looks at the memory in use, of which the last are kept for memory --history; 0 for none."},
    {.name = "observe.window", .type = CONFIG_NUMBER32, .live = true, .offset = AT(observe.window),
     .min = 20, .max = 1024, .number = 100, .help = "Runs of an operation on a backend that its "
     "rate of success looks at (sched.success_percent)."},

    {.name = "log.level", .type = CONFIG_CHOICE, .live = true, .offset = AT(log_level),
     .text = "info", .choices = "error warning info debug",
     .help = "Least important line that is still logged."},
    {.name = "log.format", .type = CONFIG_CHOICE, .offset = AT(log_format), .text = "text",
     .choices = "text json journald", .help = "How lines leave: as text or as JSON, an object a "
     "line, on standard error; or to the journal as fields (journalctl -o json)."},
};
/* clang-format on */
const unsigned config_key_count = sizeof config_keys / sizeof *config_keys;
_Static_assert(sizeof config_keys / sizeof *config_keys <= CONFIG_KEYS_MAX,
               "every key has a place for its source");

const struct config_key *config_key_find(const char *name)
{
    for (unsigned i = 0; i < config_key_count; i++)
        if (strcmp(name, config_keys[i].name) == 0) return &config_keys[i];
    return NULL;
}

size_t config_key_section(const struct config_key *k)
{
    const char *dot = strchr(k->name, '.');
    return dot ? (size_t)(dot - k->name) : 0;
}

void config_defaults(struct config *out)
{
    memset(out, 0, sizeof *out);
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        void *field = config_field(out, k);
        switch (k->type) {
        case CONFIG_NUMBER32:
        case CONFIG_MODE: *(uint32_t *)field = (uint32_t)k->number; break;
        case CONFIG_NUMBER64: *(uint64_t *)field = k->number; break;
        case CONFIG_BOOLEAN: *(bool *)field = k->number; break;
        case CONFIG_TEXT:
        case CONFIG_CHOICE: strcpy(field, k->text); break;
        }
    }
}
