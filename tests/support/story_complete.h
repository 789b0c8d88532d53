/* story_complete: attractors and completions of a story: what is asked, which states of what they
 * name they may have seen, and what must come of it. Attractors are changed and complete as
 * attractor_reference.h says, completions by the modern rule as kernels/complete.h says, slowly.
 * Owner:  the story.
 * Thread: one.
 * Errors: story_fail. */
#ifndef ENGRAM_TESTS_STORY_COMPLETE_H
#define ENGRAM_TESTS_STORY_COMPLETE_H

#include "tests/support/story_model.h"

struct draft;
struct cursor;

/* ---- story_attractor.c ---- */

uint32_t story_attractor_dimension(const struct story *s, uint32_t name);
/* How many of CA3's values stay. */
uint32_t story_attractor_kept(const struct story *s, uint32_t name);
/* What is asked of attractor r->name: sets r->operation, fills r. */
struct draft *story_attractor_request(struct story *s, struct story_request *r);
struct draft *story_attractor_drop(struct story *s, struct story_request *r);
/* The state of one that was just created. */
void story_attractor_begin(struct story *s, struct story_collection *made);
/* j has done r, which writes: what it read, and so what it leaves, is known. */
void story_attractor_wrote(struct story *s, struct story_request *r, const struct job *j);
/* True if a pattern that it may have read spoils the weights, or is not there. */
bool story_learn_may(const struct story_request *r, enum status code);
/* Answers about attractors. True: it was one. */
bool story_check_attractor(struct story *s, struct story_request *r,
                           const struct story_reply *reply);

/* ---- story_complete.c ---- */

/* By the rows of collection r->name. */
struct draft *story_complete(struct story *s, struct story_request *r);
void story_check_complete(struct cursor *c, const struct story_reply *reply);
/* By attractor r->name. */
struct draft *story_complete_engine(struct story *s, struct story_request *r);
void story_check_engine(struct cursor *c, const struct story_reply *reply);
/* What alone can come of it for the shape of what it found, and of its mask; OK: nothing. */
enum status story_engine_fate(const struct story_request *r);
/* True if it may have found a collection without rows. */
bool story_complete_may_be_empty(const struct story_request *r);

#endif
