#include "daemon/base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum status failure_set(struct failure *f, enum status code, enum detail detail, const char *format,
                        ...)
{
    if (!f) return code;
    f->code = code;
    f->detail = detail;
    f->retry_after_ms = f->loaded_percent = 0;
    f->version = f->instance = f->generation = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    return code;
}

const char *status_name(enum status code)
{
    static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    };
    return (unsigned)code < sizeof names / sizeof *names ? names[code] : "?";
}

static const char *const detail_names[] = {
    [DETAIL_NONE] = "none",
    [DETAIL_BAD_MAGIC] = "bad_magic",
    [DETAIL_BAD_VERSION] = "bad_version",
    [DETAIL_MESSAGE_TOO_LARGE] = "message_too_large",
    [DETAIL_BODY_TOO_LARGE] = "body_too_large",
    [DETAIL_REPLY_TOO_LARGE] = "reply_too_large",
    [DETAIL_BAD_MESSAGE] = "bad_message",
    [DETAIL_BAD_SHAPE] = "bad_shape",
    [DETAIL_BODY_MISMATCH] = "body_mismatch",
    [DETAIL_UNKNOWN_KIND] = "unknown_kind",
    [DETAIL_HELLO_REQUIRED] = "hello_required",
    [DETAIL_BAD_SPACE] = "bad_space",
    [DETAIL_BAD_NAME] = "bad_name",
    [DETAIL_BAD_TOKEN] = "bad_token",
    [DETAIL_UNKNOWN_COLLECTION] = "unknown_collection",
    [DETAIL_COLLECTION_EXISTS] = "collection_exists",
    [DETAIL_BAD_DIMENSION] = "bad_dimension",
    [DETAIL_BAD_METRIC] = "bad_metric",
    [DETAIL_BAD_K] = "bad_k",
    [DETAIL_NOT_FINITE] = "not_finite",
    [DETAIL_NORM_OVERFLOW] = "norm_overflow",
    [DETAIL_DUPLICATE_ID] = "duplicate_id",
    [DETAIL_UNKNOWN_ID] = "unknown_id",
    [DETAIL_BAD_OFFSETS] = "bad_offsets",
    [DETAIL_BAD_FILTER] = "bad_filter",
    [DETAIL_MEMORY] = "memory",
    [DETAIL_QUEUE_FULL] = "queue_full",
    [DETAIL_CONNECTIONS] = "connections",
    [DETAIL_SHUTTING_DOWN] = "shutting_down",
    [DETAIL_REQUEST_ID_IN_USE] = "request_id_in_use",
    [DETAIL_CANCELLED_BY_CLIENT] = "cancelled_by_client",
    [DETAIL_DEADLINE] = "deadline",
    [DETAIL_TOO_MANY_ROWS] = "too_many_rows",
    [DETAIL_BAD_THRESHOLD] = "bad_threshold",
    [DETAIL_BAD_FLAGS] = "bad_flags",
    [DETAIL_SYSTEM] = "system",
    [DETAIL_TOO_MANY_COLLECTIONS] = "too_many_collections",
    [DETAIL_QUOTA] = "quota",
    [DETAIL_UNKNOWN_GRAPH] = "unknown_graph",
    [DETAIL_GRAPH_EXISTS] = "graph_exists",
    [DETAIL_BAD_WEIGHT] = "bad_weight",
    [DETAIL_BAD_NODE] = "bad_node",
    [DETAIL_UNKNOWN_NODE] = "unknown_node",
    [DETAIL_TOO_MANY_NODES] = "too_many_nodes",
    [DETAIL_BAD_MODE] = "bad_mode",
    [DETAIL_BAD_HOPS] = "bad_hops",
    [DETAIL_BAD_DECAY] = "bad_decay",
    [DETAIL_BAD_SEED] = "bad_seed",
    [DETAIL_UNKNOWN_EDGE] = "unknown_edge",
    [DETAIL_SEVERAL_EDGES] = "several_edges",
    [DETAIL_VERSION_CHANGED] = "version_changed",
    [DETAIL_UNKNOWN_VERSION] = "unknown_version",
    [DETAIL_TOKEN_REUSED] = "token_reused",
    [DETAIL_TOKEN_BUSY] = "token_busy",
    [DETAIL_NO_INVERSE] = "no_inverse",
    [DETAIL_BAD_BETA] = "bad_beta",
    [DETAIL_BAD_ROUNDS] = "bad_rounds",
    [DETAIL_NO_ROWS] = "no_rows",
    [DETAIL_UNKNOWN_ATTRACTOR] = "unknown_attractor",
    [DETAIL_ATTRACTOR_EXISTS] = "attractor_exists",
    [DETAIL_BAD_WEIGHTS] = "bad_weights",
    [DETAIL_BAD_MASK] = "bad_mask",
    [DETAIL_TOO_FEW_KNOWN] = "too_few_known",
    [DETAIL_BAD_SPARSITY] = "bad_sparsity",
    [DETAIL_BAD_SEEDING] = "bad_seeding",
    [DETAIL_BAD_BUDGET] = "bad_budget",
    [DETAIL_BAD_ID] = "bad_id",
    [DETAIL_BAD_RULE] = "bad_rule",
    [DETAIL_BAD_SIZE] = "bad_size",
    [DETAIL_BAD_TIMES] = "bad_times",
    [DETAIL_BAD_SETTING] = "bad_setting",
    [DETAIL_NOT_LIVE] = "not_live",
    [DETAIL_NOT_OPERATOR] = "not_operator",
    [DETAIL_UNKNOWN_SPACE] = "unknown_space",
    [DETAIL_DAMAGED] = "damaged",
    [DETAIL_LOADING] = "loading",
    [DETAIL_BEING_WRITTEN] = "being_written",
    [DETAIL_STATE_CHANGED] = "state_changed",
    [DETAIL_CURSOR_ENDED] = "cursor_ended",
    [DETAIL_RESTARTING] = "restarting",
    [DETAIL_JOURNAL] = "journal",
};

const char *detail_name(enum detail detail)
{
    bool known =
        (unsigned)detail < sizeof detail_names / sizeof *detail_names && detail_names[detail];
    return known ? detail_names[detail] : "?"; /* some numbers are not given away */
}

bool status_retryable(enum status code)
{
    return code == STATUS_RESOURCE_EXHAUSTED || code == STATUS_UNAVAILABLE ||
           code == STATUS_ABORTED || code == STATUS_DEADLINE_EXCEEDED;
}

enum status status_from_errno(int negative_errno)
{
    switch (-negative_errno) {
    case 0: return STATUS_OK;
    case EINVAL:
    case ENAMETOOLONG: return STATUS_INVALID_ARGUMENT;
    case ENOENT: return STATUS_NOT_FOUND;
    case EEXIST:
    case EADDRINUSE: return STATUS_ALREADY_EXISTS;
    case EACCES:
    case EPERM: return STATUS_PERMISSION_DENIED;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE: return STATUS_RESOURCE_EXHAUSTED;
    case ECANCELED: return STATUS_CANCELLED;
    case ECONNRESET:
    case EPIPE:
    case ECONNREFUSED: return STATUS_UNAVAILABLE;
    default: return STATUS_INTERNAL;
    }
}
