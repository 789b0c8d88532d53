/* client: what the library's files share: the handle, a request's life, the order of calls.
 *
 *   client.c      the handle and its options
 *   connect.c     socket and Hello
 *   transport.c   bytes out (many requests a sendmsg), bytes in (many replies a read), loss
 *   request.c     a request: head, tensors, where it stands
 *   drive.c       waiting, deadlines, callbacks; blocking calls are made of these
 *   cancel.c      requests given up, also by another thread
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

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/uio.h>

#include <pb.h>

#include "client/engram_accel.h"
#include "proto/engram_accel.pb.h"

enum {
    EA_HEADER_BYTES = 32,
    EA_ALIGN = 64,
    EA_MESSAGE_BYTES_MAX = 65536,
    EA_PROTOCOL_VERSION = 1,
    EA_FLAG_REPLY = 1,
    EA_FLAG_ERROR = 2,
    EA_DIMENSION_MAX = 16384,
    EA_NAME_MAX = 64,
    EA_TENSORS_MAX = 6,      /* of a request */
    EA_HEAD_BYTES_MAX = 576, /* header and the longest request message (Hello), padded */
    EA_INPUT_BYTES = EA_MESSAGE_BYTES_MAX + 2 * EA_ALIGN, /* the longest reply head fits */
    EA_BUCKETS = 1024,
    EA_ABANDONED_MAX = 256, /* then the connection is given up: the daemon does not answer */
};
#define EA_MAGIC UINT32_C(0x4c434145)

/* Why something failed. */
struct note {
    ea_status code;
    uint32_t detail;
    uint32_t retry_after_ms;
    bool retryable;
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

/* What a reply must agree with. */
struct expectation {
    uint64_t queries, rows; /* of a spread: sets; of nodes: how many */
    uint64_t columns_max; /* of hits: k; of similarity: the filter list's length, else no bound; of
                               each set of a spread: k, else no bound */
    uint32_t dimension;   /* 0: not known */
    bool threshold, inline_rows, by_position, all_scores;
    bool edges, paths;
};

enum owner {
    OWNER_CALL,     /* a blocking call waits for it and releases it */
    OWNER_CALLBACK, /* goes to the done list, then to its callback */
    OWNER_LIBRARY,  /* nobody waits: a cancel, or what a late reply belongs to */
};

struct client_request {
    struct client_request *next, *previous; /* in pending, done or free */
    struct client_request *bucket_next;
    struct client_request *output_next;

    uint64_t id;
    uint8_t kind;
    enum owner owner;
    bool begun; /* its first byte is out */
    bool sent;  /* its last byte is out */
    bool
        answered; /* the reply is here; it ends when it is sent, for it borrows arrays until then */
    bool done;
    bool lost; /* the connection went away under it */
    bool repeatable;
    int64_t deadline_ns; /* 0: none */

    struct expectation expect;
    void *answer;        /* where a reply goes that is no ea_result; NULL: nowhere */
    bool answer_is_ours; /* it ends with the request */
    struct note note;
    ea_result result;
    uint64_t instance; /* the daemon's that answered */
    void *body;        /* in result.memory: where the reply's tensors go */
    ea_callback callback;
    void *user;

    /* Output: head, then tensors and zeros, straight from the caller's arrays. */
    struct iovec pieces[1 + 2 * EA_TENSORS_MAX];
    uint32_t piece_count, piece_at;
    size_t piece_offset;
    uint64_t body_bytes;
    _Alignas(8) uint8_t head[EA_HEAD_BYTES_MAX];
};

struct request_list {
    struct client_request *first, *last;
};

/* How far a connection has come. */
enum link {
    LINK_NONE,
    LINK_RETRY,  /* the daemon's backlog is full: another attempt at retry_ns */
    LINK_SOCKET, /* the socket connects */
    LINK_HELLO,  /* Hello is out, or on its way */
    LINK_READY,
};

enum { EA_CANCELS_MAX = 256 };

/* What other threads want cancelled. Its lock alone guards it, but for what is said. */
struct cancel_box {
    pthread_mutex_t lock;
    atomic_bool waiting; /* set under the lock, looked at without */
    int wake_fd;         /* an eventfd, readable while something waits; never changes */
    uint32_t count;
    uint64_t ids[EA_CANCELS_MAX];
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
    ea_sizes sizes;                          /* of the structs of the program's header */

    int fd; /* -1: there is no socket */
    enum link link;
    int64_t connect_until_ns, retry_ns; /* while link is on its way; INT64_MAX: no bound */
    struct addrinfo *addresses;         /* of tcp_host, as looked up last */
    const struct addrinfo *address;     /* tried now */
    engram_accel_v1_HelloReply hello;
    bool closing;
    uint64_t instance;
    struct limits limits;
    struct note error;    /* of the last call that failed */
    uint64_t completions; /* requests ended so far */
    uint64_t losses;      /* connections lost so far */
    struct note loss;     /* why the last was */

    struct cancel_box cancels;
    bool calling; /* a blocking call is under way */
    bool stop;    /* and another thread wants it to end */

    uint64_t next_id;
    struct request_list pending; /* without an answer, oldest first */
    struct request_list done;    /* waiting for their callbacks */
    struct client_request *free_list;
    size_t free_count, callback_count, abandoned_count;
    uint64_t in_flight;          /* begun, not answered, cancels not counted */
    int64_t nearest_deadline_ns; /* no pending request's is earlier; INT64_MAX: none */
    struct client_request *buckets[EA_BUCKETS];
    struct client_request *output_first, *output_last;

    struct client_request *reading; /* whose body comes in; NULL: none, or one to skip */
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
/* 0 for EA_NO_TIMEOUT: no deadline. */
int64_t ea_deadline_after(uint64_t timeout_us);

/* ---- error.c ---- */

ea_status ea_note_set(struct note *note, ea_status code, uint32_t detail, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Sets the handle's last error and returns code. */
ea_status ea_fail(ea_client *c, ea_status code, uint32_t detail, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
ea_status ea_fail_note(ea_client *c, const struct note *note);
/* INVALID_ARGUMENT: a parameter is NULL that must not be. */
ea_status ea_fail_null(ea_client *c, const char *name);

/* ---- text.c ---- */

/* "knn"; "?" for a kind that is none. */
const char *ea_operation_name(uint32_t kind);
/* Control characters become '?': it may end on a terminal. */
void ea_text_plain(char *text);

/* ---- answer.c ---- */

/* Structs cross the border between two headers: what is missing at the end is 0. */
void ea_copy_struct(void *to, size_t to_bytes, const void *from, size_t from_bytes);
/* The caller's struct as this library knows it. */
#define EA_TAKE(c, type, name, from) \
    ea_##type name;                  \
    ea_copy_struct(&name, sizeof name, (from), (c)->sizes.type)

/* Makes r->answer where its reply needs one and nobody gave it. RESOURCE_EXHAUSTED (c->error). */
ea_status ea_answer_prepare(ea_client *c, struct client_request *r);
/* Into the caller's struct, which then owns what it points to. out NULL: dropped. */
void ea_answer_give(ea_client *c, struct client_request *r, void *out);
void ea_answer_callback(ea_client *c, struct client_request *r);
void ea_answer_drop(struct client_request *r);

/* ---- connect.c ---- */

/* Waits until connected. until_ns 0: the connect timeout alone. Sets c->error. */
ea_status ea_connect_until(ea_client *c, int64_t until_ns);
/* Begins to connect unless that is done or under way; never waits. FAILED_PRECONDITION: a name must be
 * looked up, which waits. Sets c->error. */
ea_status ea_connect_start(ea_client *c);
/* Goes on with what has begun, as far as that goes without waiting. */
void ea_connect_continue(ea_client *c);
/* Hello has been answered. */
void ea_connect_answered(ea_client *c, struct client_request *r);
/* When ea_connect_continue must run at the latest; INT64_MAX: when the socket says so. */
int64_t ea_connect_next_ns(const ea_client *c);

/* ---- transport.c ---- */

/* Moves what can be moved without waiting. A lost connection shows in c->losses. */
void ea_flush(ea_client *c);
void ea_fill(ea_client *c);
/* Whether there is output that the daemon has room for. */
bool ea_output_waits(const ea_client *c);
/* Closes the socket and ends every pending request: with its answer where it is here, else with
 * the note. repeat: requests may be sent again on another connection. */
void ea_lose(ea_client *c, const struct note *note, bool repeat);

/* ---- request.c ---- */

/* NULL: no memory (c->error is set). */
struct client_request *ea_request_take(ea_client *c, uint8_t kind);
void ea_request_release(ea_client *c, struct client_request *r);
/* Encodes the message (fields NULL: empty) into the head. */
ea_status ea_request_message(ea_client *c, struct client_request *r, const pb_msgdesc_t *fields,
                             const void *message);
/* Describes a tensor and appends it to the body. INVALID_ARGUMENT: NULL data, too many bytes. */
ea_status ea_request_tensor(ea_client *c, struct client_request *r, const char *name, bool *present,
                            engram_accel_v1_Tensor *wire, engram_accel_v1_Dtype dtype,
                            const void *data, uint64_t rows, uint64_t columns);
ea_status ea_check_name(ea_client *c, const char *field, const char *name, char *out);
/* A filter that is given but empty allows nothing. *allowed: how many ids it can allow. */
ea_status ea_request_filter(ea_client *c, struct client_request *r, const char *field,
                            const ea_filter *filter, bool *has_filter, engram_accel_v1_Filter *m,
                            uint64_t *allowed);
ea_status ea_check_dimension(ea_client *c, uint32_t dimension);
/* Ends a builder: the message is encoded unless st says that something failed, and the request goes
 * to *out, or back. */
ea_status ea_build_end(ea_client *c, struct client_request *r, ea_status st,
                       const pb_msgdesc_t *fields, const void *message,
                       struct client_request **out);
/* Queues it, also while the connection is being made. RESOURCE_EXHAUSTED: larger than the daemon
 * takes. */
ea_status ea_submit(ea_client *c, struct client_request *r);
/* Queues the frame that asks the daemon to drop a request. */
void ea_submit_cancel(ea_client *c, uint64_t request_id);
/* As it was before ea_submit. */
void ea_request_rewind(struct client_request *r);
struct client_request *ea_request_find(ea_client *c, uint64_t id);
/* Takes it out of the pending ones and hands it to whoever waits. */
void ea_complete(ea_client *c, struct client_request *r);
/* Gives up on a request whose note says why; its callback or call goes on at once. */
void ea_abandon(ea_client *c, struct client_request *r);

/* ---- cancel.c ---- */

ea_status ea_cancels_init(struct cancel_box *box);
void ea_cancels_finish(struct cancel_box *box);
/* Does what other threads asked for. */
void ea_cancels_take(ea_client *c);
/* Around a blocking call; true for the outermost. What was asked before is not for it. */
bool ea_call_begin(ea_client *c);
void ea_call_end(ea_client *c, bool outermost);
ea_status ea_stopped(ea_client *c);

/* ---- replies/ ---- */

/* A reply's message. OK: r->result has its shape, its memory waits for body_bytes. DATA_LOSS: the
 * daemon does not keep to the protocol; RESOURCE_EXHAUSTED: no memory for the body. */
ea_status ea_reply_parse(struct client_request *r, const void *message, uint32_t message_bytes,
                         uint64_t body_bytes, struct note *note);
/* Once the body is here: DATA_LOSS when numbers in it would lead a reader out of it. */
ea_status ea_reply_check(const struct client_request *r, struct note *note);
/* An Error message. DATA_LOSS if it is none. */
ea_status ea_reply_error(const void *message, uint32_t message_bytes, struct note *note);

/* ---- drive.c ---- */

/* One step: out, wait for the socket until until_ns (0: do not wait; INT64_MAX: no bound), in,
 * deadlines. */
void ea_step(ea_client *c, int64_t until_ns);
/* Steps until r is done; its deadline bounds it. */
void ea_wait(ea_client *c, struct client_request *r);
/* A whole blocking call, with its one repeat, until deadline_ns (0: none), and only with the daemon of
 * that instance (0: whichever). r stays the caller's. */
ea_status ea_run(ea_client *c, struct client_request *r, int64_t deadline_ns, uint64_t instance);
/* The same within the handle's timeout, into the public struct that r's kind of answer has (out may be
 * NULL). Releases r. */
ea_status ea_call(ea_client *c, struct client_request *r, void *out);
/* Queues r; its answer goes to a callback. Releases r where it fails. */
ea_status ea_send(ea_client *c, struct client_request *r, const ea_send_options *how,
                  uint64_t *request_id);

#endif
