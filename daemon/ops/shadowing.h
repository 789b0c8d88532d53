/* shadowing: the k best of a few queries over a block of a collection's rows, computing canonical
 * scores only for rows that their codes in int8 do not rule out (kernels/shadow.h). The result
 * equals that of exact scoring, bit for bit. Blocks without a shadow are scored exactly, and
 * shadows are made on the way (store/shadow.h).
 * Owner:  the operation's scratch.
 * Thread: layout and outlook on the loop, begin and end on one worker, the rest on any; each has a
 *         state of its own.
 * Errors: none. */
#ifndef ENGRAM_OPS_SHADOWING_H
#define ENGRAM_OPS_SHADOWING_H

#include "daemon/ops/screening.h"
#include "daemon/store/shadow.h"

struct shadowing {
    bool on, rests; /* rests: it is off because too many rows passed lately */
    struct screen screen;
    const struct vector_kernels *kernels;
    const struct edition *collection;
    uint32_t dimension;
    struct shadow_use use;
    uint64_t groups, group_queries;
    uint64_t packs, pack_bytes;     /* scratch offset: the codes of each group of queries */
    uint64_t packed;                /* scratch offset: an atomic_uint for each group */
    uint64_t states;                /* scratch offset: one shadowing_state for each worker */
    atomic_ullong screened, passed; /* pairs of a query and a row */
    atomic_ullong read_bytes;       /* of rows in either form, once for each group of queries */
};

/* True if a search of so many queries for k of row_count rows may gain. */
bool shadowing_pays(uint32_t dimension, uint64_t query_count, uint64_t k, uint64_t row_count);

/* What a search of these rows that begins now can expect. On the loop. */
struct work_screen shadowing_outlook(const struct edition *e, uint64_t query_count, uint64_t k);

/* Adds scratch for `groups` groups of at most group_queries queries. */
void shadowing_layout(struct shadowing *s, uint64_t groups, uint64_t group_queries,
                      uint32_t worker_count, uint64_t *bytes);

/* Decides whether the search uses shadows (on), once scratch was taken. */
void shadowing_begin(struct shadowing *s, const struct job *j);
/* Returns what the search of so many queries did with shadows. */
struct job_screen shadowing_end(struct shadowing *s, uint64_t query_count);

/* Offers each query of a group every row of the block that may be among its best. */
void shadowing_offer(struct shadowing *s, const struct job *j, uint64_t group, uint32_t worker,
                     const struct screening_block *b);

#endif
