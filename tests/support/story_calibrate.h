/* story_calibrate: calibration in a story. In a story that has none, nothing.
 * Owner:  the story.
 * Thread: one.
 * Errors: story_fail. */
#ifndef ENGRAM_TESTS_STORY_CALIBRATE_H
#define ENGRAM_TESTS_STORY_CALIBRATE_H

#include "tests/support/story.h"

void story_calibrate_open(struct story *s, const struct vector_kernels *kernels);
void story_calibrate_check(struct story *s);
void story_calibrate_stop(struct story *s);
void story_calibrate_close(struct story *s);
/* How many halves of the model it has measured so far. */
uint32_t story_calibrated(const struct story *s);

#endif
