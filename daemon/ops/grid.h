/* grid: many queries times many rows, cut into parts: groups of queries that fit the second-level
 * cache, and ranges of rows. Few groups: every part is one group and one small range, and the
 * packed queries are shared. Many groups: every part is one group and all rows, packed by the
 * worker that takes it, so that scratch does not grow with the queries.
 * Owner:  the operation's scratch.
 * Thread: plan on the loop, prepare on one worker, the rest on any.
 * Errors: queries and inline rows that are not finite or overflow, named by the smallest number. */
#ifndef ENGRAM_OPS_GRID_H
#define ENGRAM_OPS_GRID_H

#include "daemon/ops/operation_inside.h"
#include "daemon/ops/rows.h"

enum { GRID_GROUP_MAX = 128 }; /* queries in a group */

struct grid {
    struct row_source rows;
    enum metric metric;
    const float *queries;
    uint64_t query_count;
    uint64_t groups, group_queries; /* queries in a group, fewer in the last */
    uint64_t ranges, range_rows;
    bool shared;              /* packed once, in prepare */
    bool copies;              /* rows_want_copies */
    bool screened;            /* queries are packed for a screen too; set before grid_layout */
    uint64_t set_bytes;       /* of one group's packed queries */
    uint64_t sets;            /* scratch offset: one a group, or one a worker */
    struct query_set *set_of; /* shared: by group */
    uint64_t set_of_at;
    uint64_t buffers, buffer_bytes; /* one rows_buffer a worker */
    _Atomic uint64_t bad_query, bad_row;
};

/* What a part works on. */
struct grid_part {
    struct query_set queries;
    uint64_t first_query;
    uint64_t first_row, end_row;
    struct rows_buffer buffer;
};

/* Cuts; alone: every part takes all rows; listed: a filter may leave a list of rows. The source's
 * count may still shrink (a filter): then grid_recut before the parts run. */
void grid_cut(struct grid *g, uint32_t worker_count, bool alone, bool listed);
void grid_recut(struct grid *g);
/* Only the first so many of the queries remain; the same, before the parts run. */
void grid_keep(struct grid *g, uint64_t query_count);
uint64_t grid_parts(const struct grid *g);

/* Adds what the grid needs to a layout. */
void grid_layout(struct grid *g, uint32_t worker_count, uint64_t *bytes);

/* After scratch was taken, on one worker. False: a query is wrong (see grid_refuse). */
bool grid_prepare(struct grid *g, struct job *j);

/* False: nothing to do, because something was wrong or the job is cancelled. */
bool grid_part(struct grid *g, struct job *j, uint32_t part, uint32_t worker,
               struct grid_part *out);

/* Scores the part's next rows: see rows_score. 0: the part is over, done or not. */
size_t grid_score(struct grid *g, struct job *j, struct grid_part *p, float *scores,
                  size_t scores_stride, const uint64_t **ids);

/* The part's next rows unscored, for a set of more than one query. count 0: the part is over. */
struct row_block grid_block(struct grid *g, struct job *j, struct grid_part *p,
                            const uint64_t **ids);

/* In finish: sets the failure for what was wrong, if anything. */
enum status grid_refuse(struct grid *g, struct job *j);

#endif
