/* story_check: what the files that check answers share: a reply's message, its tensors, errors.
 * Owner:  story_check.c.
 * Thread: one.
 * Errors: story_fail. */
#ifndef ENGRAM_TESTS_STORY_CHECK_H
#define ENGRAM_TESTS_STORY_CHECK_H

#include <pb_decode.h>

#include "proto/engram_accel.pb.h"
#include "tests/support/story.h"

/* Where in the body the next tensor lies. */
struct cursor {
    struct story *s;
    const struct story_request *r;
    const char *at, *end;
};

void check_wrong(struct story *s, const struct story_request *r, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));
#define WRONG(s, r, ...) check_wrong((s), (r), __VA_ARGS__)

void check_decode(struct story *s, const struct story_request *r, const struct story_reply *reply,
                  const pb_msgdesc_t *fields, void *out);
const void *check_next(struct cursor *c, bool has, const engram_accel_v1_Tensor *t,
                       enum dtype dtype, uint64_t rows, uint64_t columns);
#define NEXT(c, m, member, dtype, rows, columns) \
    check_next(c, (m)->has_##member, &(m)->member, dtype, rows, columns)
void check_end(const struct cursor *c);
/* Which version r was told that it saw. */
void check_version(struct story *s, const struct story_request *r, uint64_t version);

/* Whether the filter of r, if it has one, lets an id pass. */
bool check_passes(const struct story_request *r, uint64_t id);
/* Whether all ids that r names must be there. */
bool check_names_ids(const struct story_request *r);
/* Notes which version of a collection or graph was seen, before anything is compared with it. */
void check_see(const struct cursor *c, uint64_t version);
/* What a spread's node set and seeds come to: all that they name must be there, and each seed must
 * be in the set. */
enum status check_seeds(const struct story_request *r, const struct story_state *seen);
/* Whether r names an id that is not there. */
bool check_misses_id(const struct story_request *r, const struct story_state *seen);
/* ---- story_graph_check.c ---- */
/* Notes which version of what it names beside its graph was read, of one instant with the
 * graph's. */
void check_see_embeddings(struct cursor *c, uint64_t version);
/* A graph with those nodes and edges, a collection as it was read. */
struct graph *check_twin_graph(struct story *s, const struct story_state *seen);
void check_twin_graph_close(struct story *s, struct graph *g);
struct collection *check_twin_rows(struct story *s, const struct story_read *read);
void check_twin_rows_close(struct story *s, struct collection *twin);

/* ---- story_recall.c ---- */
void story_check_recall(struct cursor *c, const struct story_reply *reply);

/* The error that alone can come of r; OK: it can be answered. */
enum status check_fate(const struct story_request *r);
/* Whether the reply, an error, is one that r may get. */
void check_error(struct story *s, struct story_request *r, const struct story_reply *reply);

#endif
