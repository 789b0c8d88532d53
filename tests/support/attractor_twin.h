/* attractor_twin: an attractor in a daemon and the same by the slow reference, for comparing bits.
 * Owner:  the test; attractor_twin_create and attractor_twin_finish pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_SUPPORT_ATTRACTOR_TWIN_H
#define ENGRAM_TESTS_SUPPORT_ATTRACTOR_TWIN_H

#include <criterion/criterion.h>

#include "tests/support/sets.h"

#define OK(call) cr_assert_eq((call), EA_OK, "%s", ea_error_text(c))

/* What the daemon should have: an attractor and a collection, and what was asked of them. */
struct attractor_twin {
    uint32_t dimension, kept;
    float *dentate, *w, *stored;
    uint64_t stored_count;
};

/* Makes an attractor, and a collection of that name whose rows have ids 1000, 997, ... */
struct attractor_twin attractor_twin_create(ea_client *c, const char *name, uint32_t dimension,
                                            uint64_t stored_count);
void attractor_twin_finish(struct attractor_twin *t);

void attractor_twin_weights(ea_client *c, const char *name, const struct attractor_twin *t);
/* Six patterns that are sent, and three that are stored if so many are. */
void attractor_twin_learn(ea_client *c, const char *name, struct attractor_twin *t);
/* Completes random cues; mask_rows 0: without a mask; stored: with the nearest rows. */
void attractor_twin_complete(ea_client *c, const char *name, const struct attractor_twin *t,
                             uint64_t count, uint64_t mask_rows, bool stored);

/* Random numbers; the caller frees them. */
float *attractor_numbers(size_t count);
void attractor_refused(ea_client *c, ea_status st, ea_status code, uint32_t detail,
                       const char *text);
/* Drops all; all memory comes back. */
void attractor_end(struct scene *s, ea_client *c);

#endif
