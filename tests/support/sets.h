/* sets: a collection in a daemon and the same rows here, for comparing answers bit for bit.
 * Owner:  the test; set_make and set_free pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_SETS_H
#define ENGRAM_TESTS_SETS_H

#include "client/engram_accel.h"
#include "tests/support/reference.h"
#include "tests/support/scene.h"

struct set {
    char name[32];
    struct reference_rows all; /* ids scattered, row 3 is zero, row 5 repeats row 4 */
    float *rows;
    uint64_t *ids;
    float *queries;
    size_t query_count;
};

ea_client *scene_client(const struct scene *s, const char *space);
void set_make(struct set *t, uint32_t dimension, int metric, size_t count, size_t query_count);
/* Creates the collection and sends the rows. */
void set_send(const struct set *t, ea_client *c);
void set_free(struct set *t);

/* Each asks and compares. allowed: by row, what `filter` means; both may be NULL. */
void set_expect_knn(const struct set *t, ea_client *c, uint32_t k, const ea_filter *filter,
                    const bool *allowed, const float *threshold);
/* columns: the rows expected, in order. */
void set_expect_similarity(const struct set *t, ea_client *c, const ea_filter *filter,
                           const size_t *columns, size_t column_count);
void set_expect_matches(const struct set *t, ea_client *c, const ea_filter *filter,
                        const bool *allowed, float threshold);

#endif
