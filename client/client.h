/* client: what the library's files share: the handle, a request's life, the order of calls.
 *
 *   client.c      the handle and its options
 *   connect.c     socket and Hello
 *   transport.c   bytes out (many requests a sendmsg), bytes in (many replies a read), loss
 *   request.c     a request: head, tensors, where it stands
 *   drive.c       waiting, deadlines, callbacks; blocking calls are made of these
 *   watch.c       a reply that should come soon is watched for
 *   cancel.c      requests given up, also by another thread
 *   progress.c    how far requests are
 *   answer.c      what kind of answer a request has, and how it gets into the caller's struct
 *   error.c result.c time.c text.c detail.c   helpers that know nothing of the others
 *   replies/      a reply's message -> result, as strict as the daemon is with requests
 *   calls/        the public calls
 *
 * Owner:  the handle's user.
 * Thread: one at a time.
 * Errors: ea_status; a struct note says more.
 *
 * The ea_ prefix on inner names keeps the static library out of its user's names; none of these is
 * exported from the shared one. */
#ifndef EA_CLIENT_H
#define EA_CLIENT_H

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include <pb.h>

#include "client/engram_accel.h"
#include "proto/engram_accel.pb.h"
#include "proto/foresight.h"

enum {
    EA_HEADER_BYTES = 32,
    EA_ALIGN = 64,
    EA_MESSAGE_BYTES_MAX = 65536,
    EA_PROTOCOL_VERSION = 1,
    EA_FLAG_REPLY = 1,
    EA_FLAG_ERROR = 2,
    EA_FLAG_PROGRESS = 4,
    EA_NAME_MAX = 64,
    EA_TENSORS_MAX = 6,      /* of a request */
    EA_HEAD_BYTES_MAX = 768, /* header and the longest request message (unbind), padded */
    EA_INPUT_BYTES = EA_MESSAGE_BYTES_MAX + 2 * EA_ALIGN, /* the longest reply head fits */
    EA_BUCKETS = 1024,
    /* with more abandoned requests the connection is given up: the daemon does not answer */
    EA_ABANDONED_MAX = 256,
};
#define EA_MAGIC UINT32_C(0x4c434145)

/* Why something failed. */
struct note {
    ea_status code;
    uint32_t detail;
    uint32_t retry_after_ms;
    bool retryable;
    /* with EA_DETAIL_VERSION_CHANGED or EA_DETAIL_STATE_CHANGED: what is there */
    uint64_t version, instance, generation;
    uint32_t loaded_percent; /* with EA_DETAIL_LOADING */
    char text[256];
};

/* The frame header as it lies on the wire. */
struct wire_head {
    uint32_t magic;
    uint8_t version, kind;
    uint16_t flags;
    uint64_t request_id;
    uint32_t message_bytes, deadline_us;
    uint64_t body_bytes;
};

/* What a reply must agree with, because the request says so. */
struct expectation {
    uint64_t queries, rows; /* of a spread: its sets; of nodes: how many */
    /* of kNN results: k; of similarity: the length of the filter's list, else unlimited; of each
     * set of a spread: k, else unlimited */
    uint64_t columns_max;
    uint32_t dimension; /* 0: not known */
    bool threshold, inline_rows, by_position, all_scores;
    bool edges, paths;
    bool stored; /* the results go into a collection */
    bool dry;    /* there are none: only what they would take is asked */
};

enum owner {
    OWNER_CALL,     /* a blocking call waits for it and will release it */
    OWNER_CALLBACK, /* moves to the done list, and then to its callback */
    OWNER_LIBRARY,  /* nobody waits for it: a cancel, or a placeholder for a late reply */
};

struct client_request {
    struct client_request *next, *previous; /* in pending, done or free */
    struct client_request *bucket_next;
    struct client_request *output_next;

    uint64_t id;
    uint8_t kind;
    enum owner owner;
    bool begun; /* its first byte has been sent */
    bool sent;  /* its last byte has been sent */
    bool
        /* the reply has come; the request ends once it is sent, because it uses the caller's
         * arrays until then */
        answered;
    bool done;
    bool lost;       /* the connection was lost before its reply */
    uint64_t losses; /* those before the connection that it is sent on */
    bool repeatable;
    bool has_write;      /* its message says what it expects */
    bool has_expect;     /* and of the state of the data */
    int64_t deadline_ns; /* 0: none */
    int64_t sent_ns;     /* when its last byte was sent; 0: not known */

    struct expectation expect;
    void *answer;        /* where a reply goes that is not an ea_result; NULL: there is none */
    bool answer_is_ours; /* it is freed with the request */
    struct note note;
    ea_result result;
    uint64_t instance; /* of the daemon that answered */
    void *body;        /* in result.memory: where the body of the reply is read to */
    ea_callback callback;
    ea_progress_callback progress; /* NULL: it is not asked how far it is */
    void *user;                    /* for both */
    ea_progress_report report;
    bool reported; /* report has not been told yet */

    /* Output: the head, then tensors and zeros, directly from the caller's arrays. */
    struct iovec pieces[1 + 2 * EA_TENSORS_MAX];
    uint32_t piece_count, piece_at;
    size_t piece_offset;
    uint64_t body_bytes;
    _Alignas(8) uint8_t head[EA_HEAD_BYTES_MAX];
};

struct request_list {
    struct client_request *first, *last;
};

/* The state of a connection. */
enum link {
    LINK_NONE,
    LINK_RETRY,  /* the daemon's backlog is full: tries again at retry_ns */
    LINK_SOCKET, /* the socket is connecting */
    LINK_HELLO,  /* Hello is queued or sent */
    LINK_READY,
};

enum { EA_CANCELS_MAX = 256 };

/* Cancels that other threads have asked for. Its lock guards it, except where noted. */
struct cancel_box {
    pthread_mutex_t lock;
    atomic_bool waiting; /* written under the lock, read without it */
    int wake_fd;         /* an eventfd, readable while a cancel waits; constant */
    uint32_t count;
    uint64_t ids[EA_CANCELS_MAX];
};

/* What watch.c has learnt: how long requests of a form take. */
enum { EA_WATCH_FORMS = 16 };
struct watch_form {
    uint64_t form;
    struct foresight ends;
};
struct client_watch {
    struct foresight_budget budget;
    struct foresight_sleep sleep;
    struct watch_form forms[EA_WATCH_FORMS];
    bool naps;  /* the planned sleep is not the last before it watches */
    bool blind; /* it slept until a planned time, and has not looked since */
};

struct limits {
    uint64_t message_bytes_max, body_bytes_max, reply_bytes_max;
    uint32_t dimension_max, k_max, in_flight_max;
};

struct ea_client {
    char *socket_path, *tcp_host, *space, *client_name;
    uint16_t tcp_port;
    uint8_t token[255];
    size_t token_bytes;
    uint64_t connect_timeout_us, timeout_us; /* EA_NO_TIMEOUT: none */
    ea_sizes sizes;                          /* the sizes of the structs in the program's header */

    int fd; /* -1: no socket */
    enum link link;
    int64_t connect_until_ns, retry_ns; /* while link is not yet ready; INT64_MAX: unlimited */
    struct addrinfo *addresses;         /* of tcp_host, from the last look-up */
    const struct addrinfo *address;     /* the address that is tried now */
    engram_accel_v1_HelloReply hello;
    bool closing;
    uint64_t instance, generation;
    ea_state expect; /* of each request, as ea_expect says */
    bool expects;
    struct limits limits;
    struct note error;    /* of the last call that failed */
    uint64_t completions; /* requests that have ended */
    uint64_t losses;      /* connections that were lost */
    struct note loss;     /* why the last one was lost */

    ea_progress_callback on_progress; /* of blocking calls */
    void *on_progress_user;
    bool reports; /* a request has one */

    struct client_watch watch;
    struct cancel_box cancels;
    ea_write next_write; /* of ea_next_write, until it is used */
    bool has_next_write;
    bool calling; /* a blocking call is running */
    bool stop;    /* another thread wants it to end */

    uint64_t next_id;
    struct request_list pending; /* not answered, oldest first */
    struct request_list done;    /* waiting for their callbacks */
    struct client_request *free_list;
    size_t free_count, callback_count, abandoned_count;
    uint64_t in_flight; /* begun and not answered, without cancels */
    /* the earliest deadline of pending requests, or earlier; INT64_MAX: none */
    int64_t nearest_deadline_ns;
    struct client_request *buckets[EA_BUCKETS];
    struct client_request *output_first, *output_last;

    /* the request whose body is being read; NULL: none, or the body is skipped */
    struct client_request *reading;
    uint64_t body_read, body_left;
    uint32_t input_used;
    _Alignas(64) uint8_t input[EA_INPUT_BYTES];
};

static inline uint64_t ea_align(uint64_t n)
{
    return (n + EA_ALIGN - 1) & ~(uint64_t)(EA_ALIGN - 1);
}

/* ---- time.c ---- */

int64_t ea_now_ns(void);
/* Returns 0, no deadline, for EA_NO_TIMEOUT. */
int64_t ea_deadline_after(uint64_t timeout_us);

/* ---- error.c ---- */

ea_status ea_note_set(struct note *note, ea_status code, uint32_t detail, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Sets the handle's last error and returns code. */
ea_status ea_fail(ea_client *c, ea_status code, uint32_t detail, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
ea_status ea_fail_note(ea_client *c, const struct note *note);
/* INVALID_ARGUMENT: a required parameter is NULL. */
ea_status ea_fail_null(ea_client *c, const char *name);

/* ---- text.c ---- */

/* Returns "knn"; "?" for an unknown kind. */
const char *ea_operation_name(uint32_t kind);
/* Replaces control characters by '?', because the text may be printed on a terminal. */
void ea_text_plain(char *text);

/* ---- answer.c ---- */

/* Copies between structs of two versions of a header: members that `from` does not have become
 * 0. */
void ea_copy_struct(void *to, size_t to_bytes, const void *from, size_t from_bytes);
/* Copies the caller's struct into one of this library's size. */
#define EA_TAKE(c, type, name, from) \
    ea_##type name;                  \
    ea_copy_struct(&name, sizeof name, (from), (c)->sizes.type)

/* Allocates r->answer if its reply needs one and it has none. RESOURCE_EXHAUSTED (c->error). */
ea_status ea_answer_prepare(ea_client *c, struct client_request *r);
/* Moves the answer to the caller's struct, which then owns the memory. out NULL: drops it. */
void ea_answer_give(ea_client *c, struct client_request *r, void *out);
void ea_answer_callback(ea_client *c, struct client_request *r);
void ea_answer_drop(struct client_request *r);

/* ---- connect.c ---- */

/* Waits until connected. until_ns 0: as long as the connect timeout. Sets c->error. */
ea_status ea_connect_until(ea_client *c, int64_t until_ns);
/* Begins to connect unless that is done or running; never waits. FAILED_PRECONDITION: a name must
 * be looked up, which would wait. Sets c->error. */
ea_status ea_connect_start(ea_client *c);
/* Continues to connect, as far as possible without waiting. */
void ea_connect_continue(ea_client *c);
/* Called when Hello has been answered. */
void ea_connect_answered(ea_client *c, struct client_request *r);
/* Returns when ea_connect_continue must run at the latest; INT64_MAX: when the socket has an
 * event. */
int64_t ea_connect_next_ns(const ea_client *c);

/* ---- transport.c ---- */

/* Sends and receives what is possible without waiting. A lost connection shows in c->losses. */
void ea_flush(ea_client *c);
void ea_fill(ea_client *c);
/* True if there is output that the daemon accepts now. */
bool ea_output_waits(const ea_client *c);
/* Closes the socket and ends every pending request: with its answer if it has come, otherwise with
 * the note. repeat: requests may be sent again on another connection. */
void ea_lose(ea_client *c, const struct note *note, bool repeat);

/* ---- request.c ---- */

/* Returns NULL if there is no memory (c->error is set). */
struct client_request *ea_request_take(ea_client *c, uint8_t kind);
void ea_request_release(ea_client *c, struct client_request *r);
/* Encodes the message (fields NULL: empty) into the head. */
ea_status ea_request_message(ea_client *c, struct client_request *r, const pb_msgdesc_t *fields,
                             const void *message);
/* Describes a tensor and appends it to the body. INVALID_ARGUMENT: NULL data, too many bytes. */
ea_status ea_request_tensor(ea_client *c, struct client_request *r, const char *name, bool *present,
                            engram_accel_v1_Tensor *wire, engram_accel_v1_Dtype dtype,
                            const void *data, uint64_t rows, uint64_t columns);
/* The same of a tensor that lies in three pieces, which together have the right size. */
engram_accel_v1_Tensor ea_request_pieces(struct client_request *r, engram_accel_v1_Dtype dtype,
                                         const struct iovec pieces[3], uint64_t rows,
                                         uint64_t columns);
ea_status ea_check_name(ea_client *c, const char *field, const char *name, char *out);
/* A filter that is given but empty allows nothing. *allowed: how many ids it can allow. */
ea_status ea_request_filter(ea_client *c, struct client_request *r, const char *field,
                            const ea_filter *filter, bool *has_filter, engram_accel_v1_Filter *m,
                            uint64_t *allowed);
ea_status ea_check_dimension(ea_client *c, uint32_t dimension);
/* Ends a builder: encodes the message unless st is an error, and moves the request to *out, or
 * releases it. */
ea_status ea_build_end(ea_client *c, struct client_request *r, ea_status st,
                       const pb_msgdesc_t *fields, const void *message,
                       struct client_request **out);
/* Appends what a write expects to its encoded message; given NULL: nothing. INVALID_ARGUMENT: r
 * does not write, or has it already. */
ea_status ea_request_write(ea_client *c, struct client_request *r, const ea_write *given);
/* Ends a builder of a write. */
ea_status ea_build_write(ea_client *c, struct client_request *r, ea_status st,
                         const pb_msgdesc_t *fields, const void *message, const ea_write *write,
                         struct client_request **out);
/* Ends a builder of a write that has no struct to say what it expects: ea_next_write did. */
ea_status ea_build_change(ea_client *c, struct client_request *r, ea_status st,
                          const pb_msgdesc_t *fields, const void *message,
                          struct client_request **out);
/* Appends the state that it expects to its encoded message. */
ea_status ea_request_expect(ea_client *c, struct client_request *r, const ea_state *state);
/* Queues the request, even while connecting. RESOURCE_EXHAUSTED: it is larger than the daemon
 * takes. */
ea_status ea_submit(ea_client *c, struct client_request *r);
/* Queues the frame that asks the daemon to drop a request. */
void ea_submit_cancel(ea_client *c, uint64_t request_id);
/* Resets the request to its state before ea_submit. */
void ea_request_rewind(struct client_request *r);
struct client_request *ea_request_find(ea_client *c, uint64_t id);
/* Removes it from the pending requests and hands it to its owner. */
void ea_request_end(ea_client *c, struct client_request *r);
/* Gives up a request whose note says why; its callback or call continues at once. */
void ea_abandon(ea_client *c, struct client_request *r);

/* ---- progress.c ---- */

/* Takes a frame that says how far a request is; of one that nobody asks about, it is nothing.
 * DATA_LOSS. */
ea_status ea_progress_take(ea_client *c, const struct wire_head *h, const uint8_t *message,
                           struct note *note);
/* Calls back for what has come. */
void ea_progress_tell(ea_client *c);

/* ---- watch.c ---- */

/* percent: as in ea_options. */
void ea_watch_init(ea_client *c, uint32_t percent);
/* Called when r's last byte was sent, and when its reply is complete. */
void ea_watch_sent(ea_client *c, struct client_request *r);
void ea_watch_learn(ea_client *c, const struct client_request *r);
/* Called before waiting for the socket. True: it was watched, until until_ns at most, in place of
 * that. False: the caller sleeps; *wake_ns, if it was changed: only until then, and tells that
 * nothing came before by ea_watch_woke. */
bool ea_watch_reply(ea_client *c, int64_t until_ns, int64_t *wake_ns);
void ea_watch_woke(ea_client *c, int64_t wake_ns);
/* ppoll that ends when it was told to: other sleeps may end 50 us late, so as to end together. */
int ea_watch_sleep(struct pollfd *p, nfds_t count, const struct timespec *timeout);

/* ---- cancel.c ---- */

ea_status ea_cancels_init(struct cancel_box *box);
void ea_cancels_finish(struct cancel_box *box);
/* Carries out the cancels that other threads have asked for. */
void ea_cancels_take(ea_client *c);
/* Begins a blocking call; true for the outermost. Cancels asked for before do not apply to it. */
bool ea_call_begin(ea_client *c);
void ea_call_end(ea_client *c, bool outermost);
ea_status ea_stopped(ea_client *c);

/* ---- replies/ ---- */

/* Parses a reply's message. OK: r->result has its shape, and its memory is ready for body_bytes.
 * DATA_LOSS: the daemon violates the protocol; RESOURCE_EXHAUSTED: no memory for the body. */
ea_status ea_reply_parse(struct client_request *r, const void *message, uint32_t message_bytes,
                         uint64_t body_bytes, struct note *note);
/* Called when the body has come: DATA_LOSS if numbers in it would lead a reader out of it. */
ea_status ea_reply_check(const struct client_request *r, struct note *note);
/* Reads a frame that says how far a request is, but not which one. DATA_LOSS. */
ea_status ea_reply_progress(const void *message, uint32_t message_bytes, ea_progress_report *out,
                            struct note *note);
/* Parses an Error message. DATA_LOSS if it is none. */
ea_status ea_reply_error(const void *message, uint32_t message_bytes, struct note *note);

/* ---- drive.c ---- */

/* One step: sends, waits for the socket until until_ns (0: does not wait; INT64_MAX: unlimited),
 * receives, and checks deadlines. */
void ea_step(ea_client *c, int64_t until_ns);
/* Steps until r is done; its deadline limits that. */
void ea_wait(ea_client *c, struct client_request *r);
/* True: r was not done because the daemon gives its place to another. It closes when it has
 * answered everybody, which is waited for, and who connects then waits for the other one. False
 * also if that took longer than r may. */
bool ea_await_successor(ea_client *c, const struct client_request *r);
/* Runs a whole blocking call, with its one repetition, until deadline_ns (0: none), and only with
 * the daemon of that instance (0: any). r remains the caller's. */
ea_status ea_run(ea_client *c, struct client_request *r, int64_t deadline_ns, uint64_t instance);
/* The same within the handle's timeout; the answer goes to the public struct for r's kind (out may
 * be NULL). Releases r. */
ea_status ea_call(ea_client *c, struct client_request *r, void *out);
/* Queues r, whose answer goes to a callback. Releases r if that fails. */
ea_status ea_send(ea_client *c, struct client_request *r, const ea_send_options *how,
                  uint64_t *request_id);

#endif
