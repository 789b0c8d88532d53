/* check: checks of a decoded request that need only the request, and that several operations
 * share.
 * Owner:  ops: an operation's check calls them in the order in which errors are reported.
 * Thread: the loop; check_rising any, in pieces.
 * Errors: INVALID_ARGUMENT naming the field: BAD_SHAPE, BAD_NAME, BAD_K, BAD_METRIC,
 *         BAD_THRESHOLD, BAD_FILTER, BAD_OFFSETS. */
#ifndef ENGRAM_OPS_CHECK_H
#define ENGRAM_OPS_CHECK_H

#include "daemon/base/job.h"

/* True if the rows come with the request. */
static inline bool check_inline(const struct job *j)
{
    return j->request.rows.dtype != DTYPE_NONE;
}

enum status check_refuse(struct job *j, enum detail detail, const char *text);
enum status check_same_rows(struct job *j, const char *name, const struct tensor *a,
                            const char *other, const struct tensor *b);
/* Queries and inline rows must have the same number of columns. */
enum status check_same_columns(struct job *j);
/* There must be either a collection or inline rows. */
enum status check_target(struct job *j);
/* There must be either ids of a collection or inline rows. */
enum status check_ids_or_rows(struct job *j);
enum status check_metric(struct job *j, bool required);
enum status check_threshold(struct job *j);
/* A filter must not have both a list and a bitmap, */
enum status check_filter_kinds(struct job *j, const char *name);
/* and inline rows, which have no ids, must not have a filter. */
enum status check_filter(struct job *j);
/* k must be `least` to TOPK_K_MAX. */
enum status check_k(struct job *j, uint32_t least);
/* The loop leaves longer lists of offsets to the worker that begins the job, which walks them
 * before it follows any of them, and refuses them in the same words. */
enum { CHECK_OFFSETS_MAX = 1 << 14 }; /* some 10 us */
static inline bool check_later(const struct tensor *offsets)
{
    return offsets->rows > CHECK_OFFSETS_MAX;
}
/* There must be at least one offset: from 0, never falling, to n, the number of `what`. */
enum status check_rising(struct job *j, const char *name, const struct tensor *offsets, uint64_t n,
                         const char *what);
/* The offsets must be lists of n candidates, one list for each query; long ones are not walked. */
enum status check_offsets(struct job *j, uint64_t n);

#endif
