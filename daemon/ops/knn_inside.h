/* knn_inside: one scan of a collection for the k best rows of many queries, whosever they are: of
 * one request (op_knn.c) or of several (op_knn_batch.c). Each owner of queries has its own k,
 * threshold, filter and result.
 * Owner:  the operation's scratch.
 * Thread: knn_layout on the loop; knn_start on one worker; knn_part on any; knn_end on one.
 * Errors: knn_check, knn_take_result: in the owner's failure, as if it ran alone. */
#ifndef ENGRAM_OPS_KNN_INSIDE_H
#define ENGRAM_OPS_KNN_INSIDE_H

#include "daemon/ops/filter.h"
#include "daemon/ops/grid.h"
#include "daemon/ops/screening.h"
#include "kernels/topk.h"

/* A request, and which of the search's queries are its own. */
struct knn_owner {
    struct job *job;
    uint64_t first_query, query_count;
    uint64_t entries, entry_bytes; /* of candidates: of all queries before, and for each */
    const uint64_t *allowed;       /* bitmap over rows, or NULL */
    uint32_t k;                    /* columns of the result: k asked for, at most allowed rows */
};

struct knn_search {
    struct grid grid;
    struct knn_owner *owners;
    const uint16_t *owner_of; /* by query; NULL: all are the first owner's */
    bool nothing;             /* one owner, without columns: queries are checked, no more */
    bool lower_is_better;
    uint64_t kept_queries;         /* per worker */
    uint64_t tops, top_bytes;      /* scratch offset; one array a worker, on lines of its own */
    uint64_t entries, entry_bytes; /* scratch offset; one stretch a worker */
    uint64_t scores, score_bytes;  /* one each a worker */
    uint64_t positions, position_bytes;
    struct screening screening; /* if the grid is screened */
    uint64_t states;            /* scratch offset: one screening_state a worker */
};

/* What is wrong with j by its shape, against its collection. */
enum status knn_check(struct job *j);

/* Room for j's result, allowed_rows being what its filter leaves, or all; *k shrinks to that. */
enum status knn_take_result(struct job *j, uint64_t allowed_rows, uint32_t *k);

/* For a result without columns: no query has found anything. */
void knn_write_none(struct job *j);

/* Bytes of candidates for one query. */
uint64_t knn_entry_bytes(const struct collection *c, uint32_t k);

/* The search over j's collection: fills what does not depend on queries. */
void knn_search_init(struct knn_search *s, const struct job *j);

/* What a search asks for, at most: owners may still leave. */
struct knn_size {
    uint64_t queries;     /* grid.queries will be that many */
    uint64_t entries;     /* bytes of candidates for all of them */
    uint64_t entries_max; /* for the greediest query */
    uint64_t k;           /* of most queries */
    bool listed;          /* a filter may leave a list of rows */
};
void knn_layout(struct knn_search *s, const struct job *j, const struct knn_size *size,
                uint64_t *bytes);

/* After scratch was taken and owners, queries and rows are known. False: a query is wrong
 * (grid_refuse). */
bool knn_start(struct knn_search *s, struct job *j);
void knn_part(struct knn_search *s, struct job *j, uint32_t part, uint32_t worker);
/* Writes what the parts left to be written; for cancelled owners nothing. */
void knn_end(struct knn_search *s, struct job *j);

#endif
