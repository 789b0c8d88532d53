/* status: the one error enum, its stable sub-codes, and the text that goes with a failure.
 * Owner:  base; every folder returns these.
 * Thread: any; no state.
 * Source: codes are gRPC's canonical ones. Both lists are wire format: append, never renumber. */
#ifndef ENGRAM_BASE_STATUS_H
#define ENGRAM_BASE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

enum status {
    STATUS_OK = 0,
    STATUS_CANCELLED = 1,
    STATUS_UNKNOWN = 2,
    STATUS_INVALID_ARGUMENT = 3,
    STATUS_DEADLINE_EXCEEDED = 4,
    STATUS_NOT_FOUND = 5,
    STATUS_ALREADY_EXISTS = 6,
    STATUS_PERMISSION_DENIED = 7,
    STATUS_RESOURCE_EXHAUSTED = 8,
    STATUS_FAILED_PRECONDITION = 9,
    STATUS_ABORTED = 10,
    STATUS_OUT_OF_RANGE = 11,
    STATUS_UNIMPLEMENTED = 12,
    STATUS_INTERNAL = 13,
    STATUS_UNAVAILABLE = 14,
    STATUS_DATA_LOSS = 15,
    STATUS_UNAUTHENTICATED = 16,
};

/* When to try again, in milliseconds: a hint to clients. */
enum {
    RETRY_QUEUE_MS = 20,
    RETRY_MEMORY_MS = 100,
    RETRY_CONNECTION_MS = 1000,
    RETRY_GUESS_MS = 1000,
};

enum detail {
    DETAIL_NONE = 0,
    DETAIL_BAD_MAGIC = 1,
    DETAIL_BAD_VERSION = 2,
    DETAIL_MESSAGE_TOO_LARGE = 3,
    DETAIL_BODY_TOO_LARGE = 4,
    DETAIL_REPLY_TOO_LARGE = 5,
    DETAIL_BAD_MESSAGE = 6,   /* the bytes do not decode */
    DETAIL_BAD_SHAPE = 7,     /* a tensor's dtype, rows or columns are wrong */
    DETAIL_BODY_MISMATCH = 8, /* the tensors do not fill the body */
    DETAIL_UNKNOWN_KIND = 9,
    DETAIL_HELLO_REQUIRED = 10, /* first frame was not Hello, or a second Hello */
    DETAIL_BAD_SPACE = 11,
    DETAIL_BAD_NAME = 12,
    DETAIL_BAD_TOKEN = 13,
    DETAIL_UNKNOWN_COLLECTION = 14,
    DETAIL_COLLECTION_EXISTS = 15,
    DETAIL_BAD_DIMENSION = 16,
    DETAIL_BAD_METRIC = 17,
    DETAIL_BAD_K = 18,
    DETAIL_NOT_FINITE = 19,
    DETAIL_NORM_OVERFLOW = 20,
    DETAIL_DUPLICATE_ID = 21,
    DETAIL_UNKNOWN_ID = 22,
    DETAIL_BAD_OFFSETS = 23,
    DETAIL_BAD_FILTER = 24,
    DETAIL_MEMORY = 25, /* the daemon's memory bound is reached */
    DETAIL_QUEUE_FULL = 26,
    DETAIL_CONNECTIONS = 27, /* the connection bound is reached */
    DETAIL_SHUTTING_DOWN = 28,
    DETAIL_REQUEST_ID_IN_USE = 29,
    DETAIL_CANCELLED_BY_CLIENT = 30,
    DETAIL_DEADLINE = 31,
    DETAIL_TOO_MANY_ROWS = 32,
    DETAIL_BAD_THRESHOLD = 33,
    DETAIL_BAD_FLAGS = 34,
    DETAIL_SYSTEM = 35, /* a system call failed; the text says which */
    DETAIL_TOO_MANY_COLLECTIONS = 36,
    DETAIL_QUOTA = 37, /* the space's quota is reached; the text says which */
    DETAIL_UNKNOWN_GRAPH = 38,
    DETAIL_GRAPH_EXISTS = 39,
    DETAIL_BAD_WEIGHT = 40, /* an edge's is not finite, a row's is below 0, all are 0 */
    DETAIL_BAD_NODE = 41,   /* an id, kind or factor that no node can have */
    DETAIL_UNKNOWN_NODE = 42,
    DETAIL_TOO_MANY_NODES = 43,
    DETAIL_BAD_MODE = 44,
    DETAIL_BAD_HOPS = 45,
    DETAIL_BAD_DECAY = 46,
    DETAIL_BAD_SEED = 47, /* a seed's activation is bad, or a seed is outside the node set */
    DETAIL_UNKNOWN_EDGE = 48,
    DETAIL_SEVERAL_EDGES = 49,   /* an edge between two nodes is meant, and there are several */
    DETAIL_VERSION_CHANGED = 50, /* there is another version than a write expects */
    DETAIL_UNKNOWN_VERSION = 51, /* a write expects a version that never was */
    DETAIL_TOKEN_REUSED = 52,    /* the first write with this token was another one */
    DETAIL_TOKEN_BUSY = 53,      /* the first write with this token is under way */
    DETAIL_NO_INVERSE = 54,      /* a row has no exact inverse; the text says why */
    DETAIL_BAD_BETA = 55,
    DETAIL_BAD_ROUNDS = 56,
    DETAIL_NO_ROWS = 57, /* the collection has no rows, or fewer than are needed */
    DETAIL_UNKNOWN_ATTRACTOR = 58,
    DETAIL_ATTRACTOR_EXISTS = 59,
    DETAIL_BAD_WEIGHTS = 60,   /* of an attractor: not square, not finite or out of range */
    DETAIL_BAD_MASK = 61,      /* of another shape than the cues */
    DETAIL_TOO_FEW_KNOWN = 62, /* less than a third of a cue is known */
    DETAIL_BAD_SPARSITY = 63,  /* sparsity or rate of an attractor is out of range */
    DETAIL_BAD_SEEDING = 64,   /* recall: width, activation_min or boost is out of range */
    DETAIL_BAD_BUDGET = 65,    /* recall: a time of 0 */
    DETAIL_BAD_ID = 66,        /* 2^64 - 1, which stands for no row */
    DETAIL_BAD_RULE = 70,      /* of clustering: there is no such rule */
    DETAIL_BAD_SIZE = 71,      /* clustering: a size or a number of clusters that is 0 */
    DETAIL_BAD_TIMES = 72,     /* clustering: times that are not finite, or that have no use */
    DETAIL_BAD_SETTING = 85,   /* there is no such setting, or its value is out of range */
    DETAIL_NOT_LIVE = 86,      /* a setting that needs a restart */
    DETAIL_NOT_OPERATOR = 87,  /* only root and the user that runs the daemon may */
    DETAIL_UNKNOWN_SPACE = 88, /* that an operator asks about */
    DETAIL_DAMAGED = 90,       /* what is on the disk is not what was written there */
    DETAIL_LOADING = 91,       /* what is named is still being loaded from the disk */
    DETAIL_BEING_WRITTEN = 92, /* what is to take another's place is still being written */
    DETAIL_STATE_CHANGED = 93, /* another instance or generation is there than is expected */
    DETAIL_CURSOR_ENDED = 94,  /* what a cursor kept is not kept any more */
    DETAIL_RESTARTING = 95,    /* another daemon takes this one's place: connect again */
    DETAIL_JOURNAL = 96,       /* the journal cannot be written */
};

/* What went wrong, in words that a caller can act on. The text never names another space. */
struct failure {
    enum status code;
    enum detail detail;
    uint32_t retry_after_ms;       /* 0: no hint */
    uint32_t loaded_percent;       /* LOADING: how much is in */
    uint64_t version;              /* VERSION_CHANGED: the one that is there */
    uint64_t instance, generation; /* STATE_CHANGED: those that are there */
    char text[224];
};

/* Fills f (may be NULL) and returns code, so that a caller can `return failure_set(...)`. */
enum status failure_set(struct failure *f, enum status code, enum detail detail, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));

/* "INVALID_ARGUMENT"; "?" for a number outside the list. */
const char *status_name(enum status code);
/* "bad_shape"; "?" for a number outside the list. */
const char *detail_name(enum detail detail);
/* True if the same request may succeed later without being changed. */
bool status_retryable(enum status code);
/* Translates a negative errno value as libuv gives it; OK for 0. */
enum status status_from_errno(int negative_errno);

#endif
