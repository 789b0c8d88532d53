/* story_draft: a request of a story on its way to the wire: its message, and tensors in body order.
 * Owner:  story_requests.c, story_writes.c; one draft at a time.
 * Thread: one.
 * Errors: a draft that does not fit ends the process. */
#ifndef ENGRAM_TESTS_STORY_DRAFT_H
#define ENGRAM_TESTS_STORY_DRAFT_H

#include <pb_encode.h>

#include "proto/engram_accel.pb.h"
#include "tests/support/sample_requests.h"
#include "tests/support/story.h"

enum { DRAFT_BODY_MAX = 512 << 10 };

struct draft {
    struct sample sample; /* its message alone */
    uint64_t body_bytes;
    _Alignas(64) char body[DRAFT_BODY_MAX];
};

struct draft *draft_open(uint8_t kind, const pb_msgdesc_t *fields);
void draft_put(struct draft *d, bool *has, engram_accel_v1_Tensor *t, enum dtype dtype,
               uint64_t rows, uint64_t columns, const void *data);
#define PUT(d, m, member, dtype, rows, columns, data) \
    draft_put(d, &(m)->has_##member, &(m)->member, dtype, rows, columns, data)

/* The ids or bits that r allows, if it has any. */
void draft_put_filter(struct draft *d, const struct story_request *r, bool *has,
                      engram_accel_v1_Filter *f);

float *draft_floats(struct story *s, uint64_t count);
/* count different ids, in no order: of the first `of` that there are. */
uint64_t *draft_ids(struct story *s, uint64_t count, uint64_t of);

/* Sets r's ids to at most count that are likely there: those of the state that is the newest now.
 */
void draft_ids_there(struct story *s, struct story_request *r, uint64_t count);

/* ---- story_writes.c ---- */
/* What r expects, and its token, behind what else its message says. */
void draft_append_write(pb_ostream_t *stream, const struct story_request *r);
/* Sends what r has on the wire. */
void draft_frame(struct story_client *c, const struct story_request *r, uint8_t kind,
                 uint32_t deadline_us);
/* If r writes: the newest version that is known, mostly; or the one before, of that time, or none
 * that ever was; and a token. */
void story_choose_write(struct story *s, struct story_request *r);
/* A write of the client's space that has a token, whoever sent it; NULL: there is none. */
struct story_request *story_choose_first(struct story_client *c);
/* r becomes a repetition of another request, with a place of its own for what comes of it. */
void story_repeat(struct story_client *c, struct story_request *r, struct story_request *first);

/* ---- story_bind.c ---- */
/* Two collections of r's dimension, into r->name. */
struct draft *story_bind(struct story *s, struct story_request *r);

/* ---- story_recall.c ---- */
/* Through graph r->name, as r->how says. */
struct draft *story_recall(struct story *s, struct story_request *r);

/* ---- story_graph_requests.c ---- */
/* What is asked of graph r->name: sets r->operation, fills r. */
struct draft *story_graph_drop(struct story *s, struct story_request *r);
struct draft *story_graph_request(struct story *s, struct story_request *r);

#endif
