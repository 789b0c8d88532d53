/* knn_inside: one scan of a collection for the k best rows of many queries, of one request (knn.c)
 * or of several (knn_batch.c). Each owner of queries has its own k, threshold, filter and result.
 * Owner:  the operation's scratch.
 * Thread: knn_layout on the loop; knn_start on one worker; knn_part on any; knn_end on one.
 * Errors: knn_check, knn_take_result: in the owner's failure, as if it ran alone. */
#ifndef ENGRAM_OPS_KNN_INSIDE_H
#define ENGRAM_OPS_KNN_INSIDE_H

#include "daemon/ops/filter.h"
#include "daemon/ops/grid.h"
#include "daemon/ops/screening.h"
#include "daemon/ops/shadowing.h"
#include "kernels/topk.h"

/* A request, and which queries of the search belong to it. */
struct knn_owner {
    struct job *job;
    uint64_t first_query, query_count;
    /* bytes of candidates: of all queries before its own, and of each of its queries */
    uint64_t entries, entry_bytes;
    const uint64_t *allowed; /* a bitmap over rows, or NULL */
    /* columns of the result: k as requested, or the number of allowed rows if that is less */
    uint32_t k;
};

struct knn_search {
    struct grid grid;
    struct knn_owner *owners;
    const uint16_t *owner_of; /* by query; NULL: all belong to the first owner */
    bool nothing;             /* one owner without columns: queries are only checked */
    bool lower_is_better;
    bool alone;            /* a worker keeps candidates of one group, of all rows, at a time */
    uint64_t kept_queries; /* queries whose candidates a worker keeps */
    /* scratch offset; one array for each worker, on cache lines of its own */
    uint64_t tops, top_bytes;
    uint64_t entries, entry_bytes; /* scratch offset; one range for each worker */
    uint64_t scores, score_bytes;  /* one array for each worker */
    uint64_t positions, position_bytes;
    struct screening screening; /* if the grid is screened */
    uint64_t states;            /* scratch offset: one screening_state for each worker */
    struct shadowing shadowing;
    struct job_screen screen; /* what it did with rows in int8, at its end */
};

/* Checks j's shape against its collection. */
enum status knn_check(struct job *j);

/* Takes memory for j's result; allowed_rows: rows that pass its filter, or all. *k is reduced to
 * that. */
enum status knn_take_result(struct job *j, uint64_t allowed_rows, uint32_t *k);

/* Writes a result without columns: no query has found a row. */
void knn_write_none(struct job *j);

/* Returns the bytes of candidates of one query. */
uint64_t knn_entry_bytes(const struct edition *c, uint32_t k);

/* Sets what does not depend on queries, for a search over a collection. */
void knn_search_init(struct knn_search *s, const struct job *j, const struct edition *c);

/* Upper bounds of what a search needs; owners may still drop out. */
struct knn_size {
    uint64_t queries;     /* what grid.queries will be */
    uint64_t entries;     /* bytes of candidates of all queries */
    uint64_t entries_max; /* the largest for one query */
    uint64_t k;           /* of most queries */
    bool listed;          /* a filter may leave a list of rows */
};
void knn_layout(struct knn_search *s, const struct job *j, const struct knn_size *size,
                uint64_t *bytes);

/* Starts the search, once scratch was taken and owners, queries and rows are known. False: a query
 * is invalid (grid_refuse). */
bool knn_start(struct knn_search *s, struct job *j);
void knn_part(struct knn_search *s, struct job *j, uint32_t part, uint32_t worker);
/* Writes the results that parts have not written; none for cancelled owners. */
void knn_end(struct knn_search *s, struct job *j);

#endif
