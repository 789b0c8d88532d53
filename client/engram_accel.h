/* engram_accel: the C client of engram-acceld. C11 and C++ clean; link -lengram_accel.
 *
 * What:   a handle on one connection and one space. Blocking calls (ea_knn ...) and an
 *         asynchronous interface (ea_knn_send ..., ea_pump) share it. Replies may come in any
 *         order.
 * Owner:  the caller. Results point into memory of their own, freed with ea_result_free and the
 *         like.
 * Thread: one thread at a time for each handle, except ea_cancel_from_thread; use a handle for
 *         each thread. No global state, no signals (SIGPIPE is never raised), no threads of its
 *         own.
 * Errors: every call returns an ea_status, gRPC's canonical numbers; ea_error_text says more.
 *
 *   engram_accel_codes.h    statuses, sub-codes, reasons and their names
 *   engram_accel_reports.h  info, stats, explain
 *   engram_accel_vectors.h  collections, kNN, similarity, candidates, norms, averages
 *   engram_accel_graph.h    graphs and spreading
 *   engram_accel_attractor.h   attractors, which learn patterns and complete them
 *   engram_accel_hrr.h      binding, sums, permutations, random vectors, cleanup
 *   engram_accel_cluster.h   clusters of similar vectors
 *   engram_accel_recall.h   recall, completion of partial vectors
 *   engram_accel_covariance.h  means and covariances
 *   engram_accel_objects.h  what is the same for collections, graphs and attractors: swaps
 *   engram_accel_persist.h   snapshots of the data
 *   engram_accel_progress.h  how far long requests are
 *
 * Questions: a call with many parameters takes them in a struct. A member that is not named is 0,
 * and 0 is the default: ea_knn(c, &(ea_knn_question){.collection = "facts", .queries = q,
 * .query_count = 1, .dimension = 768, .k = 10}, &result); in C++11, declare a struct with {} and
 * set its members one by one.
 *
 * Growing: structs grow at their ends. ea_open tells the library how large this header's structs
 * are. So a program works with a later library of the same soname without being compiled again:
 * nothing is written or read beyond what the program has. A handle serves code that was compiled
 * with one header.
 *
 * Connecting is lazy and fails fast. If the daemon has gone away, the running call fails with
 * EA_UNAVAILABLE, unless it can be repeated: then a blocking call reconnects and repeats it once;
 * so it does if another daemon takes that one's place (EA_DETAIL_RESTARTING).
 * The next call reconnects by itself. These are never repeated: create and drop, of collections
 * and graphs, ea_swap, and ea_graph_add_edges and ea_graph_add_csr without replace, which would
 * add the edges twice; ea_graph_add_weights and ea_graph_scale. ea_graph_describe (version, edges)
 * tells whether they were applied. With a token (ea_write) every write is repeated. A restarted
 * daemon has another ea_instance, no collections and no graphs: send them again.
 *
 * Shapes: matrices are float32, row-major, without gaps between rows. Little-endian hosts only.
 * The arithmetic is canonical (docs/arithmetic.md): every backend gives the same bits. */
#ifndef ENGRAM_ACCEL_H
#define ENGRAM_ACCEL_H

#include "engram_accel_codes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EA_VERSION_MAJOR      0
#define EA_VERSION_MINOR      2
#define EA_DIMENSION_MAX      16384              /* numbers in a vector, at most */
#define EA_NO_ID              UINT64_MAX         /* fills the unused end of a row of kNN results */
#define EA_NO_TIMEOUT         UINT64_MAX         /* waits for ever */
#define EA_TIMEOUT_DEFAULT_US UINT64_C(60000000) /* for a call: a minute */
#define EA_WATCH_NEVER        UINT32_MAX         /* always sleeps */
#define EA_CONNECT_DEFAULT_US UINT64_C(1000000)  /* for connecting: a second */

typedef struct ea_client ea_client;

/* Set unused members to zero. */
typedef struct ea_options {
    /* Unix socket; NULL, and no host: /run/engram-accel/engram-accel.sock */
    const char *socket_path;
    const char *tcp_host; /* a number or a name; NULL: the Unix socket is used */
    uint16_t tcp_port;
    const char *space;       /* NULL: "default" */
    const char *client_name; /* shown in the daemon's log; NULL: "libengram_accel" */
    const void *token;       /* credentials, if the daemon asks for them; up to 255 bytes */
    size_t token_bytes;
    uint64_t connect_timeout_us; /* 0: EA_CONNECT_DEFAULT_US */
    /* For each call, and its deadline at the daemon. 0: EA_TIMEOUT_DEFAULT_US, so that no call
     * waits for ever unless asked to. A call that sends several requests has this time for all of
     * them together. */
    uint64_t timeout_us;
    /* The share of a core, counted over 100 ms, in percent, for which a call may watch for a reply
     * of a GPU around the time when replies to such requests come, in place of sleeping: that saves
     * the time of waking, 20 to 100 us. 1 to 100; 0: 10, or never where fewer than 4 processors may
     * be used; EA_WATCH_NEVER. */
    uint32_t watch_percent;
} ea_options;

/* The sizes of this header's structs, which ea_open fills in. */
typedef struct ea_sizes {
    size_t sizes, options, send_options, filter;
    size_t result, info, stats, explanation;
    size_t collection_info, rows, upsert_counts, delete_counts;
    size_t knn_question, similarity_question, score_question, average_question;
    size_t graph_info, graph_counts, graph_edges, graph_csr, graph_nodes;
    size_t nodes, spread_options, seeds, spread_result;
    size_t write;
    size_t operand, into, bind_question, hrr_result;
    size_t list_question, permute_question, random_question, cleanup_question;
    size_t complete_question, completed;
    size_t attractor_info, attractor_shape, learn_question, learned;
    size_t engine_question, engine_completed;
    size_t recall_question, recall_result;
    size_t covariance_question, covariance_result;
    size_t cluster_question, clusters;
    size_t space_info, setting;
    size_t slow_request;
    size_t swapped;
    size_t memory_content, memory_space, memory_pool;
    size_t save_options, saved;
    size_t state, object_version;
} ea_sizes;

/* Makes a handle without using the network. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. options NULL:
 * all defaults. (Other languages call ea_open_sized, with the sizes of their own declarations.) */
static inline ea_status ea_open(const ea_options *options, ea_client **out);
EA_API ea_status ea_open_sized(const ea_options *options, const ea_sizes *sizes, ea_client **out);
/* Closes and frees a handle; NULL is fine. Disconnecting cancels requests in flight; their
 * callbacks run with EA_CANCELLED before this returns. */
EA_API void ea_close(ea_client *c);
/* Connects and says Hello now, in place of the next call. */
EA_API ea_status ea_connect(ea_client *c);
/* Changes the timeout of later calls; as in ea_options. */
EA_API void ea_set_timeout(ea_client *c, uint64_t timeout_us);

/* Describes the last call that failed on this handle, in one line; never NULL. */
EA_API const char *ea_error_text(const ea_client *c);
/* The last error's ea_detail, 0 for none; whether and when to try again. */
EA_API uint32_t ea_error_detail(const ea_client *c);
EA_API bool ea_error_retryable(const ea_client *c);
EA_API uint32_t ea_error_retry_after_ms(const ea_client *c);
/* After EA_UNAVAILABLE with EA_DETAIL_LOADING: how much of all that the daemon saved is in again,
 * 0 to 100. What is being loaded cannot be asked about, and its space takes no writes until all of
 * it is in; ea_info.ready tells when, and `engram-accel ping --wait` waits for it. */
EA_API uint32_t ea_error_loaded_percent(const ea_client *c);
/* After EA_DETAIL_VERSION_CHANGED: the version that is there; 0 otherwise. */
EA_API uint64_t ea_error_version(const ea_client *c);
/* The name of a state of the data; 0: any. The version counts changes within one life of the data,
 * which instance and generation identify. */
typedef struct ea_state {
    uint64_t instance;
    uint64_t generation; /* 0 is that of data that do not outlive the daemon (persist.dir), too */
    uint64_t version;    /* of what a request names first */
} ea_state;
/* What each later request of this handle expects (copied; NULL: nothing); EA_ABORTED if the daemon
 * has another state: EA_DETAIL_STATE_CHANGED (instance, generation) or EA_DETAIL_VERSION_CHANGED.
 * So a program that remembers what it knows of the data never takes an answer of others, even if
 * the daemon was started again between two calls. */
EA_API ea_status ea_expect(ea_client *c, const ea_state *state);
/* After EA_ABORTED with one of these: what is there; zeros otherwise. */
EA_API void ea_error_state(const ea_client *c, ea_state *out);
/* The version of the library, such as "1.2.3". */
EA_API const char *ea_library_version(void);
/* The life of the daemon's data; 0 before the first connect. Another instance or generation than
 * before: what was sent may be gone, or older. */
EA_API uint64_t ea_instance(const ea_client *c);
EA_API uint64_t ea_generation(const ea_client *c);

/* How a reply was produced. If a call sent several requests, times are summed. */
typedef struct ea_meta {
    ea_backend backend;
    uint32_t reason;   /* ea_reason */
    uint64_t queue_ns; /* at the daemon, before the work began */
    uint64_t run_ns;   /* of the work */
    uint64_t copy_ns;  /* the part of it spent copying to and from a device */
    uint64_t version;  /* of the collection or graph: no other state of this daemon's has it */
    /* Predictions for this request alone, made when its backend was chosen; 0: none was made. */
    uint64_t predicted_ns; /* if run there (both: on the GPU) */
    uint64_t other_ns;     /* on the other backend; 0: there was no choice */
    uint64_t wait_ns;      /* waiting for the work ahead of it */
    uint32_t batch;        /* requests that ran as one, this one included; 0, 1: it ran alone */
    uint64_t total_ns;     /* at the daemon, from the complete request to its reply */
    /* The state of the data: version counts changes within one life of the data, which instance
     * and generation identify. */
    uint64_t instance;
    uint64_t generation; /* 0: data do not outlive the daemon (persist.dir) */
    /* Of a kNN that asked rows in int8 first (screen.memory), else 0: pairs of a query and a row
     * that were asked so, those of them whose rows had to be scored, and the bytes of rows, in
     * either form, that were read for all of it. If several requests ran as one (batch), of all of
     * them together. */
    uint64_t screened, survived, read_bytes;
} ea_meta;

/* What kNN on one backend did with rows in int8 (screen.memory), since the daemon began. */
typedef struct ea_screens {
    uint64_t searches, queries;  /* requests, or several that ran as one, that asked them first */
    uint64_t screened, survived; /* as in ea_meta */
    uint64_t read_bytes;
    /* searches that too many rows survived, so that others did without; and those others */
    uint64_t useless, rested;
} ea_screens;

/* The result of a call that returns tensors. Zero it before its first use; a call frees what it
 * held. */
typedef struct ea_result {
    const ea_meta *meta;    /* NULL: there was no reply */
    uint64_t rows, columns; /* of scores: queries x columns (see each call) */
    const float *scores;
    const uint64_t *ids;
    const uint32_t *counts;  /* kNN, candidates with k: how many results each query has */
    const uint64_t *offsets; /* similarity with a threshold: rows + 1 */
    const float *vectors;    /* fetch, norms, weighted average: rows x columns */
    const uint8_t *found;    /* fetch */
    uint64_t missing;        /* fetch */
    void *memory;            /* private to the library */
    /* cleanup: of the collections that have a and b, as they were read; 0: none was named */
    uint64_t a_version, b_version;
    uint64_t cursor, positions; /* ea_scan_rows */
} ea_result;
EA_API void ea_result_free(ea_result *r);

/* Called after each part of a long upload; returning false stops it (EA_CANCELLED). */
typedef bool (*ea_progress)(uint64_t done, uint64_t total, void *user);

/* ---- asynchronous ----
 * A _send call copies only the request's head and the structs that describe it: arrays must stay
 * valid until the callback. It never waits, not even to connect: the connection is made while
 * ea_pump runs, and if that fails, callbacks get EA_UNAVAILABLE. (A tcp_host that is a name must
 * have been looked up before, by ea_connect or a blocking call: FAILED_PRECONDITION otherwise.) */

/* The answer to a request: the member that the _send function names is set, the others are NULL.
 * The memory that they point to belongs to the library and is freed after the callback. To keep a
 * result, copy the struct and zero the library's one, and free the copy later. */
typedef struct ea_answer {
    uint64_t request_id;
    ea_status status; /* ea_error_text has its text */
    ea_result *result;
    struct ea_spread_result *spread;
    struct ea_nodes *nodes;
    const struct ea_upsert_counts *upserted;
    const struct ea_delete_counts *deleted;
    const struct ea_graph_counts *changed;
    const struct ea_collection_info *collection;
    const struct ea_graph_info *graph;
    const struct ea_info *info;
    const struct ea_stats *stats;
    const struct ea_explanation *explanation;
    struct ea_hrr_result *holographic;
    struct ea_completed *completed;
    const struct ea_attractor_info *attractor;
    const struct ea_learned *learned;
    struct ea_engine_completed *engine_completed;
    struct ea_recall_result *recalled;
    struct ea_covariance_result *covariance;
    struct ea_clusters *clusters;
    const struct ea_swapped *swapped;
} ea_answer;

/* Called exactly once, from inside ea_pump or ea_close. It may send further requests. */
typedef void (*ea_callback)(ea_client *c, const ea_answer *answer, void *user);

/* What a write expects to find, and how it is known again: a create or drop, ea_upsert, ea_delete
 * and all changes of a graph. A blocking call takes it in the struct that describes what to write
 * or, where there is none, from ea_next_write; a _send in ea_send_options, too. A write with it is
 * one request; with a version and no token the library does not repeat it. */
typedef struct ea_write {
    /* the version that the collection or graph must have; 0: whatever it has. EA_ABORTED
     * (EA_DETAIL_VERSION_CHANGED) if it has another: ea_error_version tells which, and nothing has
     * changed. INVALID_ARGUMENT (EA_DETAIL_UNKNOWN_VERSION): there never was such a version. */
    uint64_t version;
    bool at_least; /* a later version will do, too */
    /* 16 bytes that no other write of the space has, random ones for instance; all 0: none. The
     * daemon remembers the write for 10 minutes (of a space the last 1,024 of them; not those that
     * failed): a repetition with the same token gets the first one's answer and applies nothing, so
     * that a blocking call repeats it once when the reply was lost, and so may the program.
     * INVALID_ARGUMENT (EA_DETAIL_TOKEN_REUSED): the first one was another request. At most 16,384
     * weights are added to with one. */
    uint8_t token[16];
} ea_write;
/* Says it (copied; NULL: nothing) for the next of these calls on this handle: ea_collection_create
 * and _drop, ea_swap, ea_delete, ea_graph_create, _drop, _remove_nodes, _scale and _prune,
 * ea_attractor_create, _drop and _set. It is used once,
 * whatever becomes of that call. A create that expects a version is EA_ABORTED (EA_ALREADY_EXISTS
 * if the name is taken); with a token a repetition gets the first one's answer, an empty collection
 * or graph, whatever it holds by now. */
EA_API ea_status ea_next_write(ea_client *c, const ea_write *write);

/* Called while a request lasts (engram_accel_progress.h); returning false cancels it. */
struct ea_progress_report;
typedef bool (*ea_progress_callback)(ea_client *c, const struct ea_progress_report *report,
                                     void *user);

typedef struct ea_send_options {
    ea_callback callback; /* NULL: the answer is dropped */
    void *user;
    uint64_t timeout_us;   /* 0: that of the handle */
    const ea_write *write; /* NULL: nothing is expected; only of a write */
    /* NULL: none; from inside ea_pump, with the same user, as often as ea_on_progress says. It may
     * send further requests. */
    ea_progress_callback progress;
    const ea_state *expect; /* NULL: what ea_expect says */
} ea_send_options;

/* The socket, or -1 while there is none; it may change with every call. */
EA_API int ea_fd(const ea_client *c);
/* The events to poll the socket for: POLLIN, and POLLOUT while output waits. */
EA_API short ea_events(const ea_client *c);
/* The longest time until ea_pump has something to do even if the socket has no event: a deadline,
 * or another attempt to connect. -1: unlimited. */
EA_API int64_t ea_wait_us(const ea_client *c);
/* A descriptor that is readable (POLLIN) after ea_cancel_from_thread, until ea_pump has run. It
 * stays the same for the life of the handle. */
EA_API int ea_wake_fd(const ea_client *c);
/* Sends and receives bytes and runs callbacks, for at most timeout_us (0: never waits; negative:
 * until something is done). EA_OK, or why the connection was lost (all requests have been answered
 * then). */
EA_API ea_status ea_pump(ea_client *c, int64_t timeout_us);
/* How many requests have no answer yet. */
EA_API size_t ea_pending(const ea_client *c);

/* Asks the daemon to drop a request of this handle. Its callback still runs, once, with
 * EA_CANCELLED or with an answer that was already on its way. NOT_FOUND. */
EA_API ea_status ea_cancel(ea_client *c, uint64_t request_id);
/* As ea_cancel, but from any thread, even while another thread is inside a call of this handle,
 * which it wakes; not while ea_close runs. request_id 0: all requests of the blocking call that is
 * running; it ends with EA_CANCELLED, or with an answer that had already come. A request or call
 * that has ended, or has not begun, is not affected. RESOURCE_EXHAUSTED: too many such requests at
 * once. Does not change ea_error_text. */
EA_API ea_status ea_cancel_from_thread(ea_client *c, uint64_t request_id);

EA_API ea_status ea_ping(ea_client *c);
/* As every _send: *request_id is set unless it is NULL; how may be NULL. */
EA_API ea_status ea_ping_send(ea_client *c, const ea_send_options *how, uint64_t *request_id);

/* These have no _send form: ea_open, ea_close and functions that only read the handle do not talk
 * to the daemon; ea_ping_send does what ea_connect does. */

#ifdef __cplusplus
}
#endif

#include "engram_accel_attractor.h"
#include "engram_accel_cluster.h"
#include "engram_accel_covariance.h"
#include "engram_accel_graph.h"
#include "engram_accel_hrr.h"
#include "engram_accel_objects.h"
#include "engram_accel_persist.h"
#include "engram_accel_progress.h"
#include "engram_accel_recall.h"
#include "engram_accel_reports.h"
#include "engram_accel_vectors.h"

static inline ea_status ea_open(const ea_options *options, ea_client **out)
{
    ea_sizes s;
    s.sizes = sizeof s;
    s.options = sizeof(ea_options);
    s.send_options = sizeof(ea_send_options);
    s.filter = sizeof(ea_filter);
    s.result = sizeof(ea_result);
    s.info = sizeof(ea_info);
    s.stats = sizeof(ea_stats);
    s.explanation = sizeof(ea_explanation);
    s.collection_info = sizeof(ea_collection_info);
    s.rows = sizeof(ea_rows);
    s.upsert_counts = sizeof(ea_upsert_counts);
    s.delete_counts = sizeof(ea_delete_counts);
    s.knn_question = sizeof(ea_knn_question);
    s.similarity_question = sizeof(ea_similarity_question);
    s.score_question = sizeof(ea_score_question);
    s.average_question = sizeof(ea_average_question);
    s.graph_info = sizeof(ea_graph_info);
    s.graph_counts = sizeof(ea_graph_counts);
    s.graph_edges = sizeof(ea_graph_edges);
    s.graph_csr = sizeof(ea_graph_csr);
    s.graph_nodes = sizeof(ea_graph_nodes);
    s.nodes = sizeof(ea_nodes);
    s.spread_options = sizeof(ea_spread_options);
    s.seeds = sizeof(ea_seeds);
    s.spread_result = sizeof(ea_spread_result);
    s.write = sizeof(ea_write);
    s.operand = sizeof(ea_operand);
    s.into = sizeof(ea_into);
    s.bind_question = sizeof(ea_bind_question);
    s.hrr_result = sizeof(ea_hrr_result);
    s.list_question = sizeof(ea_list_question);
    s.permute_question = sizeof(ea_permute_question);
    s.random_question = sizeof(ea_random_question);
    s.cleanup_question = sizeof(ea_cleanup_question);
    s.complete_question = sizeof(ea_complete_question);
    s.completed = sizeof(ea_completed);
    s.attractor_info = sizeof(ea_attractor_info);
    s.attractor_shape = sizeof(ea_attractor_shape);
    s.learn_question = sizeof(ea_learn_question);
    s.learned = sizeof(ea_learned);
    s.engine_question = sizeof(ea_engine_question);
    s.engine_completed = sizeof(ea_engine_completed);
    s.recall_question = sizeof(ea_recall_question);
    s.recall_result = sizeof(ea_recall_result);
    s.covariance_question = sizeof(ea_covariance_question);
    s.covariance_result = sizeof(ea_covariance_result);
    s.cluster_question = sizeof(ea_cluster_question);
    s.clusters = sizeof(ea_clusters);
    s.space_info = sizeof(ea_space_info);
    s.setting = sizeof(ea_setting);
    s.slow_request = sizeof(ea_slow_request);
    s.swapped = sizeof(ea_swapped);
    s.memory_content = sizeof(ea_memory_content);
    s.memory_space = sizeof(ea_memory_space);
    s.memory_pool = sizeof(ea_memory_pool);
    s.save_options = sizeof(ea_save_options);
    s.saved = sizeof(ea_saved);
    s.state = sizeof(ea_state);
    s.object_version = sizeof(ea_object_version);
    return ea_open_sized(options, &s, out);
}

#endif
