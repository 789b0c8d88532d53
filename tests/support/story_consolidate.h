/* story_consolidate: clusters and covariances of a story: what is asked, and what must come of it:
 * what cluster_reference.h and covariance_reference.h say, slowly.
 * Owner:  the story.
 * Thread: one.
 * Errors: story_fail. */
#ifndef ENGRAM_TESTS_STORY_CONSOLIDATE_H
#define ENGRAM_TESTS_STORY_CONSOLIDATE_H

#include "tests/support/story_model.h"

struct draft;
struct cursor;

/* Of collection r->name, some of its rows, or rows that come along. */
struct draft *story_cluster(struct story *s, struct story_request *r);
struct draft *story_covariance(struct story *s, struct story_request *r);
void story_check_cluster(struct cursor *c, const struct story_reply *reply);
void story_check_covariance(struct cursor *c, const struct story_reply *reply);
/* True if it may have found a collection of fewer than two rows, which is refused so. */
bool story_few_rows_may(const struct story_request *r, enum status code);

#endif
