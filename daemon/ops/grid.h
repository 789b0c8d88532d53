/* grid: many queries times many rows, cut into parts: groups of queries that fit the second-level
 * cache, and ranges of rows. With few groups a range is small, and the packed queries are shared.
 * With many groups the worker that takes a part packs its queries, so that scratch does not grow
 * with the queries, and a range is a few times larger, so that packing takes little of a part.
 * Owner:  the operation's scratch.
 * Thread: plan on the loop, prepare on one worker, the rest on any.
 * Errors: queries and inline rows that are not finite or overflow; the smallest number is named. */
#ifndef ENGRAM_OPS_GRID_H
#define ENGRAM_OPS_GRID_H

#include "daemon/ops/operation_inside.h"
#include "daemon/ops/rows.h"

enum { GRID_GROUP_MAX = 128 }; /* queries in a group */

struct grid {
    struct row_source rows;
    enum metric metric;
    const float *queries;
    const char *query_name; /* what a refusal calls one; NULL: a query */
    uint64_t query_count;
    uint64_t groups, group_queries; /* group_queries: in each group; the last may have fewer */
    uint64_t ranges, range_rows;
    bool shared;              /* true: queries are packed once, in prepare */
    bool copies;              /* result of rows_want_copies */
    bool screened;            /* queries are also packed for a screen; set before grid_layout */
    uint64_t set_bytes;       /* of one group's packed queries */
    uint64_t sets;            /* scratch offset: one for each group, or one for each worker */
    struct query_set *set_of; /* if shared: by group */
    uint64_t set_of_at;
    uint64_t buffers, buffer_bytes; /* one rows_buffer for each worker */
    _Atomic uint64_t bad_query, bad_row;
};

/* The queries and rows that a part works on. */
struct grid_part {
    struct query_set queries;
    uint64_t first_query;
    uint64_t first_row, end_row;
    struct rows_buffer buffer;
};

/* Cuts the grid into parts. alone: every part takes all rows, however long that is; listed: a
 * filter may leave a list of rows. If a filter reduces the source's count, grid_recut must follow
 * before the parts run. */
void grid_cut(struct grid *g, uint32_t worker_count, bool alone, bool listed);
void grid_recut(struct grid *g);
/* Keeps only the first query_count queries and cuts again, before the parts run. */
void grid_keep(struct grid *g, uint64_t query_count);
uint64_t grid_parts(const struct grid *g);

/* Adds the scratch that the grid needs to a layout. */
void grid_layout(struct grid *g, uint32_t worker_count, uint64_t *bytes);

/* Packs shared queries, on one worker, after scratch was taken. False: a query is invalid (see
 * grid_refuse). */
bool grid_prepare(struct grid *g, struct job *j);

/* Sets out to the part's work. False: there is none, because something is invalid or the job is
 * cancelled. */
bool grid_part(struct grid *g, struct job *j, uint32_t part, uint32_t worker,
               struct grid_part *out);

/* Scores the part's next rows, as rows_score does. Returns how many; 0: the part has ended. */
size_t grid_score(struct grid *g, struct job *j, struct grid_part *p, float *scores,
                  size_t scores_stride, const uint64_t **ids);

/* Returns the part's next rows without scores, for more than one query. count 0: the part has
 * ended. */
struct row_block grid_block(struct grid *g, struct job *j, struct grid_part *p,
                            const uint64_t **ids);

/* Called in finish: sets the job's failure if a query or row was invalid. */
enum status grid_refuse(struct grid *g, struct job *j);

#endif
