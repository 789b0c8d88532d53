/* engram_accel: the C client of engram-acceld. C11 and C++ clean; link -lengram_accel.
 *
 * What:   a handle on one connection and one space. Blocking calls (ea_knn ...) and an asynchronous
 *         interface (ea_knn_send ..., ea_pump) share it. Replies may come in any order.
 * Owner:  the caller. Results point into memory of their own, freed with ea_result_free and the like.
 * Thread: one thread at a time per handle, but for ea_cancel_from_thread; use a handle per thread. No
 *         global state, no signals (SIGPIPE is never raised), no threads of its own.
 * Errors: every call returns an ea_status, gRPC's canonical numbers; ea_error_text says more.
 *
 *   engram_accel_codes.h    statuses, sub-codes, reasons and their names
 *   engram_accel_reports.h  info, stats, explain
 *   engram_accel_vectors.h  collections, kNN, similarity, candidates, norms, averages
 *   engram_accel_graph.h    graphs and spreading
 *
 * Questions: a call of many parameters takes them in a struct. A member that is not named is 0, and 0
 * is the default: ea_knn(c, &(ea_knn_question){.collection = "facts", .queries = q, .query_count = 1,
 * .dimension = 768, .k = 10}, &result); in C++11 a struct {} whose members are set one by one.
 *
 * Growing: structs grow at their ends. ea_open tells the library how large this header's are, so a
 * program goes on working, not compiled anew, with a later library of the same soname: nothing is
 * written or read past what the program has. A handle serves code that was compiled with one header.
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

#include "engram_accel_codes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EA_VERSION_MAJOR      0
#define EA_VERSION_MINOR      2
#define EA_NO_ID              UINT64_MAX         /* fills the unused end of a kNN row */
#define EA_NO_TIMEOUT         UINT64_MAX         /* waits for ever */
#define EA_TIMEOUT_DEFAULT_US UINT64_C(60000000) /* of a call: a minute */
#define EA_CONNECT_DEFAULT_US UINT64_C(1000000)  /* of connecting: a second */

typedef struct ea_client ea_client;

/* Zero every field you do not set. */
typedef struct ea_options {
    const char *socket_path; /* Unix socket; NULL, no host: /run/engram-accel/engram-accel.sock */
    const char *tcp_host;    /* used when set; numeric or a name */
    uint16_t tcp_port;
    const char *space;       /* NULL: "default" */
    const char *client_name; /* shown in the daemon's log; NULL: "libengram_accel" */
    const void *token;       /* credentials, when the daemon asks for them; up to 255 bytes */
    size_t token_bytes;
    uint64_t connect_timeout_us; /* 0: EA_CONNECT_DEFAULT_US */
    /* Of each call, and its deadline at the daemon; 0: EA_TIMEOUT_DEFAULT_US, for no call shall wait
     * for ever unasked. A call that sends several requests has it for all of them together. */
    uint64_t timeout_us;
} ea_options;

/* How large this header's structs are: ea_open fills it in. */
typedef struct ea_sizes {
    size_t sizes, options, send_options, filter;
    size_t result, info, stats, explanation;
    size_t collection_info, rows, upsert_counts, delete_counts;
    size_t knn_question, similarity_question, score_question, average_question;
    size_t graph_info, graph_counts, graph_edges, graph_csr, graph_nodes;
    size_t nodes, spread_options, seeds, spread_result;
} ea_sizes;

/* Never touches the network. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. options NULL: all defaults.
 * (Other languages call ea_open_sized, with the sizes of their own declarations.) */
static inline ea_status ea_open(const ea_options *options, ea_client **out);
EA_API ea_status ea_open_sized(const ea_options *options, const ea_sizes *sizes, ea_client **out);
/* NULL is fine. Requests in flight are cancelled by the disconnect; their callbacks run with
 * EA_CANCELLED before this returns. */
EA_API void ea_close(ea_client *c);
/* Connects and says Hello now, instead of at the first call. */
EA_API ea_status ea_connect(ea_client *c);
/* Of later calls, as in ea_options. */
EA_API void ea_set_timeout(ea_client *c, uint64_t timeout_us);

/* Of the last call that failed on this handle: one line, never NULL. */
EA_API const char *ea_error_text(const ea_client *c);
/* Its ea_detail, 0 for none; whether and when to try again. */
EA_API uint32_t ea_error_detail(const ea_client *c);
EA_API bool ea_error_retryable(const ea_client *c);
EA_API uint32_t ea_error_retry_after_ms(const ea_client *c);
/* "0.2.0", of the library. */
EA_API const char *ea_library_version(void);
/* Random at each start of the daemon; 0 before the first connect. */
EA_API uint64_t ea_instance(const ea_client *c);

/* How a reply came about. Where a call sent several requests, times are summed. */
typedef struct ea_meta {
    ea_backend backend;
    uint32_t reason;   /* ea_reason */
    uint64_t queue_ns; /* at the daemon, before work began */
    uint64_t run_ns;   /* working */
    uint64_t copy_ns;  /* of run_ns, to and from a device */
    uint64_t version;  /* of the collection or graph */
    /* Predictions, made when its place was decided, of this request alone; 0: none was made. */
    uint64_t predicted_ns; /* run there (both: on the GPU) */
    uint64_t other_ns;     /* on the other backend; 0: there was no choice */
    uint64_t wait_ns;      /* for the work ahead of it */
    uint32_t batch;        /* requests that ran as one with it, itself included; 0, 1: alone */
    uint64_t total_ns;     /* at the daemon, from the whole request to its reply */
    /* Which state of the data that was: version counts within one life of the data, which instance
     * and generation name. */
    uint64_t instance;
    uint64_t generation; /* 0: data do not outlive the daemon yet */
} ea_meta;

/* Result of a call that returns tensors. Zero it before first use; a call frees what it held. */
typedef struct ea_result {
    const ea_meta *meta;    /* NULL: there was no reply */
    uint64_t rows, columns; /* of scores: queries x columns (see each call) */
    const float *scores;
    const uint64_t *ids;
    const uint32_t *counts;  /* kNN, candidates with k: hits of each query */
    const uint64_t *offsets; /* similarity with a threshold: rows + 1 */
    const float *vectors;    /* fetch, norms, weighted average: rows x columns */
    const uint8_t *found;    /* fetch */
    uint64_t missing;        /* fetch */
    void *memory;            /* the library's */
} ea_result;
EA_API void ea_result_free(ea_result *r);

/* Told after each part of a long upload; false stops it (EA_CANCELLED). */
typedef bool (*ea_progress)(uint64_t done, uint64_t total, void *user);

/* ---- asynchronous ----
 * A _send call copies nothing but the request's head and the structs that describe it: arrays must
 * stay until the callback. It never waits, for connecting neither: the connection is made while
 * ea_pump runs, and where that fails, callbacks get EA_UNAVAILABLE. (A tcp_host that is a name must
 * have been looked up, by ea_connect or any blocking call: FAILED_PRECONDITION before.) */

/* What came of a request: the member that its _send names is set, the others are NULL. What they point
 * to is the library's and ends with the callback; to keep a result, copy the struct and zero the
 * library's, and free the copy. */
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
} ea_answer;

/* Runs exactly once, from inside ea_pump or ea_close. It may send. */
typedef void (*ea_callback)(ea_client *c, const ea_answer *answer, void *user);

typedef struct ea_send_options {
    ea_callback callback; /* NULL: nobody wants to know */
    void *user;
    uint64_t timeout_us; /* 0: the handle's */
} ea_send_options;

/* The socket, or -1 while there is none; it may change with every call. */
EA_API int ea_fd(const ea_client *c);
/* What to poll the socket for: POLLIN, and POLLOUT while output waits. */
EA_API short ea_events(const ea_client *c);
/* How long at most until ea_pump has something to do, whatever the socket does: a deadline, or
 * another attempt to connect. -1: no bound. */
EA_API int64_t ea_wait_us(const ea_client *c);
/* Readable (POLLIN) after ea_cancel_from_thread, until ea_pump has seen it. The same for the handle's
 * life. */
EA_API int ea_wake_fd(const ea_client *c);
/* Moves bytes and runs callbacks: at most timeout_us (0: never waits; negative: until something is
 * done). EA_OK, or why the connection was lost (all requests have been answered then). */
EA_API ea_status ea_pump(ea_client *c, int64_t timeout_us);
/* Requests without an answer yet. */
EA_API size_t ea_pending(const ea_client *c);

/* Asks the daemon to drop a request of this handle. Its callback still runs, once, with
 * EA_CANCELLED or with the answer that was already on its way. NOT_FOUND. */
EA_API ea_status ea_cancel(ea_client *c, uint64_t request_id);
/* The same from any thread, while another may be inside a call of this handle, which it wakes; not
 * while ea_close runs. request_id 0: the blocking call that is under way, all its requests; it ends
 * with EA_CANCELLED, or with an answer that was already there. A request or call that has ended, or
 * has not begun, is not touched. RESOURCE_EXHAUSTED: too many such requests at once. Leaves
 * ea_error_text alone. */
EA_API ea_status ea_cancel_from_thread(ea_client *c, uint64_t request_id);

EA_API ea_status ea_ping(ea_client *c);
/* Of every _send: *request_id is filled unless it is NULL; how may be NULL. */
EA_API ea_status ea_ping_send(ea_client *c, const ea_send_options *how, uint64_t *request_id);

/* No _send: ea_open, ea_close and what only looks at the handle do not talk to the daemon; ea_connect
 * is what ea_ping_send does. */

#ifdef __cplusplus
}
#endif

#include "engram_accel_graph.h"
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
    return ea_open_sized(options, &s, out);
}

#endif
