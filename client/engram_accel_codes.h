/* engram_accel_codes: the numbers that errors and replies carry, with their names. engram_accel.h
 * includes it. Every list is part of the wire format and grows at its end: expect unknown
 * numbers. */
#ifndef ENGRAM_ACCEL_CODES_H
#define ENGRAM_ACCEL_CODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#error "engram_accel talks over Unix sockets and POSIX TCP"
#endif
#define EA_API __attribute__((visibility("default")))

/* gRPC's canonical codes. */
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

/* Sub-codes of an error, which say exactly what is wrong. */
typedef enum ea_detail {
    EA_DETAIL_NONE = 0,
    EA_DETAIL_BAD_MAGIC = 1,
    EA_DETAIL_BAD_VERSION = 2,
    EA_DETAIL_MESSAGE_TOO_LARGE = 3,
    EA_DETAIL_BODY_TOO_LARGE = 4,
    EA_DETAIL_REPLY_TOO_LARGE = 5,
    EA_DETAIL_BAD_MESSAGE = 6,
    EA_DETAIL_BAD_SHAPE = 7,
    EA_DETAIL_BODY_MISMATCH = 8,
    EA_DETAIL_UNKNOWN_KIND = 9,
    EA_DETAIL_HELLO_REQUIRED = 10,
    EA_DETAIL_BAD_SPACE = 11,
    EA_DETAIL_BAD_NAME = 12,
    EA_DETAIL_BAD_TOKEN = 13,
    EA_DETAIL_UNKNOWN_COLLECTION = 14,
    EA_DETAIL_COLLECTION_EXISTS = 15,
    EA_DETAIL_BAD_DIMENSION = 16,
    EA_DETAIL_BAD_METRIC = 17,
    EA_DETAIL_BAD_K = 18,
    EA_DETAIL_NOT_FINITE = 19,
    EA_DETAIL_NORM_OVERFLOW = 20,
    EA_DETAIL_DUPLICATE_ID = 21,
    EA_DETAIL_UNKNOWN_ID = 22,
    EA_DETAIL_BAD_OFFSETS = 23,
    EA_DETAIL_BAD_FILTER = 24,
    EA_DETAIL_MEMORY = 25,
    EA_DETAIL_QUEUE_FULL = 26,
    EA_DETAIL_CONNECTIONS = 27,
    EA_DETAIL_SHUTTING_DOWN = 28,
    EA_DETAIL_REQUEST_ID_IN_USE = 29,
    EA_DETAIL_CANCELLED_BY_CLIENT = 30,
    EA_DETAIL_DEADLINE = 31,
    EA_DETAIL_TOO_MANY_ROWS = 32,
    EA_DETAIL_BAD_THRESHOLD = 33,
    EA_DETAIL_BAD_FLAGS = 34,
    EA_DETAIL_SYSTEM = 35,
    EA_DETAIL_TOO_MANY_COLLECTIONS = 36,
    EA_DETAIL_QUOTA = 37,
    EA_DETAIL_UNKNOWN_GRAPH = 38,
    EA_DETAIL_GRAPH_EXISTS = 39,
    EA_DETAIL_BAD_WEIGHT = 40,
    EA_DETAIL_BAD_NODE = 41,
    EA_DETAIL_UNKNOWN_NODE = 42,
    EA_DETAIL_TOO_MANY_NODES = 43,
    EA_DETAIL_BAD_MODE = 44,
    EA_DETAIL_BAD_HOPS = 45,
    EA_DETAIL_BAD_DECAY = 46,
    EA_DETAIL_BAD_SEED = 47,
    EA_DETAIL_UNKNOWN_EDGE = 48,
    EA_DETAIL_SEVERAL_EDGES = 49,
    EA_DETAIL_VERSION_CHANGED = 50,
    EA_DETAIL_UNKNOWN_VERSION = 51,
    EA_DETAIL_TOKEN_REUSED = 52,
    EA_DETAIL_TOKEN_BUSY = 53,
    EA_DETAIL_NO_INVERSE = 54,
    EA_DETAIL_BAD_BETA = 55,
    EA_DETAIL_BAD_ROUNDS = 56,
    EA_DETAIL_NO_ROWS = 57,
    EA_DETAIL_UNKNOWN_ATTRACTOR = 58,
    EA_DETAIL_ATTRACTOR_EXISTS = 59,
    EA_DETAIL_BAD_WEIGHTS = 60,
    EA_DETAIL_BAD_MASK = 61,
    EA_DETAIL_TOO_FEW_KNOWN = 62,
    EA_DETAIL_BAD_SPARSITY = 63,
    EA_DETAIL_BAD_SEEDING = 64, /* recall: width, activation_min or boost is out of range */
    EA_DETAIL_BAD_BUDGET = 65,  /* recall: a time of 0 */
    EA_DETAIL_BAD_ID = 66,      /* 2^64 - 1, which stands for no row */
    EA_DETAIL_BAD_RULE = 70,
    EA_DETAIL_BAD_SIZE = 71,      /* clustering: a size or a number of clusters that is 0 */
    EA_DETAIL_BAD_TIMES = 72,     /* clustering: times that are not finite, or that have no use */
    EA_DETAIL_BAD_SETTING = 85,   /* there is no such setting, or its value is out of range */
    EA_DETAIL_NOT_LIVE = 86,      /* a setting that needs a restart */
    EA_DETAIL_NOT_OPERATOR = 87,  /* only root and the user that runs the daemon may */
    EA_DETAIL_UNKNOWN_SPACE = 88, /* that an operator asks about */
    EA_DETAIL_DAMAGED = 90,       /* what is on the disk is not what was written there */
    EA_DETAIL_LOADING = 91,       /* what is named is still being loaded from the disk */
    EA_DETAIL_BEING_WRITTEN = 92, /* what is to take another's place is still being written */
    EA_DETAIL_STATE_CHANGED = 93, /* another instance or generation is there than is expected */
    EA_DETAIL_CURSOR_ENDED = 94,  /* what a cursor kept is not kept any more */
    EA_DETAIL_RESTARTING = 95,    /* another daemon takes this one's place: connect again */
    EA_DETAIL_JOURNAL = 96        /* the journal cannot be written: its disk is full, or failed */
} ea_detail;

typedef enum ea_metric {
    EA_COSINE = 1,           /* higher is nearer */
    EA_DOT = 2,              /* higher is nearer */
    EA_SQUARED_EUCLIDEAN = 3 /* lower is nearer */
} ea_metric;

typedef enum ea_backend {
    EA_BACKEND_NONE = 0, /* the daemon's loop itself */
    EA_BACKEND_CPU = 1,
    EA_BACKEND_GPU = 2,
    EA_BACKEND_BOTH = 3
} ea_backend;

/* Why a request ran on its backend. */
typedef enum ea_reason {
    EA_REASON_NONE = 0,
    EA_REASON_CHOSEN_FASTER = 1,
    EA_REASON_BELOW_MIN_BATCH = 2,
    EA_REASON_GPU_ABSENT = 3,
    EA_REASON_GPU_DOWN = 4,
    EA_REASON_PREDICTED_SLOWER = 5,
    EA_REASON_LOW_SUCCESS_RATE = 6,
    EA_REASON_VRAM_PRESSURE = 7,
    EA_REASON_QUEUE_FULL = 8,
    EA_REASON_FORCED = 9,
    EA_REASON_FALLBACK_AFTER_ERROR = 10,
    EA_REASON_PROBE = 11,
    EA_REASON_SHADOW_ONLY = 12
} ea_reason;

typedef enum ea_gpu_state {
    EA_GPU_ABSENT = 1, /* permanently: no device, no driver, too old, no program */
    EA_GPU_STARTING = 2,
    EA_GPU_READY = 3,
    EA_GPU_DOWN = 4,   /* it failed and will be started again */
    EA_GPU_BREAKER = 5 /* it failed repeatedly: one start a minute is tried */
} ea_gpu_state;

/* Names as in the comments below, and texts for use in a sentence; "?" for an unknown number. */
EA_API const char *ea_status_name(ea_status status);      /* "INVALID_ARGUMENT" */
EA_API const char *ea_detail_name(uint32_t detail);       /* "bad_shape" */
EA_API const char *ea_detail_text(uint32_t detail);       /* "a tensor's dtype, rows or ..." */
EA_API const char *ea_backend_name(ea_backend backend);   /* "cpu" */
EA_API const char *ea_reason_name(uint32_t reason);       /* "gpu_absent" */
EA_API const char *ea_reason_text(uint32_t reason);       /* "no GPU is in use" */
EA_API const char *ea_gpu_state_name(ea_gpu_state state); /* "ready" */

#ifdef __cplusplus
}
#endif

#endif
