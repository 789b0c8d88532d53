/* gpu_bind: orders that bind rows to rows, and cleanups, and whether what came back is right to the
 * bit.
 * Owner:  the test.
 * Thread: one.
 * Errors: fail the test; bind_right says false. */
#ifndef ENGRAM_TESTS_GPU_BIND_H
#define ENGRAM_TESTS_GPU_BIND_H

#include "kernels/hrr.h"
#include "tests/support/gpu_ask.h"

/* An operand: so many rows of these, which come with the order or are named by position. */
struct bind_side {
    const struct ask_rows *of;
    uint64_t count;
    bool comes;
};

struct order bind_ask(struct gpu_peer *p, const struct bind_side *first,
                      const struct bind_side *other, enum hrr_form form, bool normalize);

/* The rows of replicas are these. */
bool bind_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *first,
                const struct ask_rows *other);

/* What a cleanup has beside its operands: the codebook, which is a replica, and what is asked. */
struct cleanup_asked {
    const struct ask_rows *codebook;
    enum metric metric;
    uint32_t k;
    const float *threshold; /* NULL: none */
    bool exact;
};
struct order cleanup_ask(struct gpu_peer *p, const struct cleanup_asked *asked,
                         const struct bind_side *cue, const struct bind_side *other);
/* The rows of replicas are these. */
bool cleanup_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *codebook,
                   const struct ask_rows *cue, const struct ask_rows *other);

/* Products of lists of 1 to 5 rows of `of`, which has at least one. */
struct order product_ask(struct gpu_peer *p, const struct bind_side *of, bool normalize);
bool product_right(struct gpu_peer *p, const struct order *o, const struct ask_rows *r);

#endif
