/* engram_accel_covariance: mean and covariance of many rows (docs/covariance.md). engram_accel.h,
 * which includes this header, says who owns what, which threads may call, and what errors mean. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_COVARIANCE_H)
#define ENGRAM_ACCEL_COVARIANCE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Rows, in one of three forms: inline (rows); rows of a collection by their ids, in this order and
 * each as often as it is listed; or, without ids, all rows of the collection, by rising id. */
typedef struct ea_covariance_question {
    const char *collection; /* NULL: rows are inline */
    const uint64_t *ids;    /* count of them; NULL: all rows, or inline ones */
    const float *rows;      /* inline: count x dimension */
    const float *weights;   /* count, finite, 0 or more; NULL: 1 each */
    uint64_t count;         /* of all rows of a collection: how many weights there are */
    uint32_t dimension;     /* of inline rows */
    bool dry_run; /* nothing is computed: meta->predicted_ns says what it would take, and where */
} ea_covariance_question;

/* Zero it before its first use; a call frees what it held. */
typedef struct ea_covariance_result {
    const ea_meta *meta;      /* NULL: there was no reply */
    uint64_t rows;            /* how many it is of */
    uint64_t dimension;       /* d */
    const double *mean;       /* d: sum w x / sum w */
    const double *covariance; /* d x d, symmetric: sum w (x - mean) (x - mean)' / divisor */
    double total;             /* sum w; without weights, rows */
    double divisor;           /* sum w - sum w^2 / sum w; without weights, rows - 1 */
    void *memory;             /* private to the library */
} ea_covariance_result;
EA_API void ea_covariance_result_free(ea_covariance_result *r);

/* Computes both in binary64, the same bits wherever it runs (kernels/covariance.h).
 * INVALID_ARGUMENT: fewer than two rows; as many weights as rows are wanted (EA_DETAIL_BAD_SHAPE);
 * a weight that is not finite (EA_DETAIL_NOT_FINITE), below 0, or weights that leave no divisor
 * (EA_DETAIL_BAD_WEIGHT); an inline row with a number that is not finite or a norm that overflows.
 * NOT_FOUND: an unknown id. FAILED_PRECONDITION (EA_DETAIL_NO_ROWS): the collection has fewer than
 * two rows. RESOURCE_EXHAUSTED (EA_DETAIL_REPLY_TOO_LARGE): d x d numbers are more than
 * limits.reply_body_mib. */
EA_API ea_status ea_covariance(ea_client *c, const ea_covariance_question *question,
                               ea_covariance_result *out);
EA_API ea_status ea_covariance_send(ea_client *c, const ea_covariance_question *question,
                                    const ea_send_options *how,
                                    uint64_t *request_id); /* answer->covariance */

#ifdef __cplusplus
}
#endif

#endif
