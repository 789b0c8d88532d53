/* recall: the numbers between the nearest rows of a cue and what is recalled. Source: the rules of
 * engram-core's recall, written out in docs/recall.md.
 * Owner:  nobody.
 * Thread: any; no state.
 * Errors: none; inputs are validated before they come here.
 *
 * Included by C and by CUDA; every operation is one of IEEE-754 binary32, so that every
 * implementation has the same bits. The sum of the activations that several cues give one memory is
 * taken in binary64, in the order of the cues, rounded once and capped at 1. */
#ifndef ENGRAM_KERNELS_RECALL_H
#define ENGRAM_KERNELS_RECALL_H

#include "kernels/functions.h"

#define RECALL_THRESHOLD      0.4f
#define RECALL_WIDTH          0.5f
#define RECALL_ACTIVATION_MIN 0.01f
#define RECALL_BOOST          1.1f
#define RECALL_BOOST_MAX      65536.0f

/* Returns the activation of a seed whose cosine reached the threshold: in [0.5, 1]. width: > 0. */
CANONICAL_INLINE float recall_activation(float cosine, float threshold, float width)
{
    return canonical_logistic(canonical_divide(canonical_subtract(cosine, threshold), width));
}

/* Returns what a seed ranks by; others rank by their activation. boost: >= 0, finite. */
CANONICAL_INLINE float recall_strength(float activation, float boost)
{
    return canonical_multiply(activation, boost);
}

/* ---- what a device leaves of a recall ---- */

/* What becomes of a list of cues. */
struct recall_outcome {
    uint64_t touched;
    uint32_t kept;          /* entries */
    uint32_t seeds, spread; /* found, and those of them that are nodes */
    uint32_t hops;          /* the last that touched a node */
    uint32_t truncated;
    uint32_t undone; /* there was no memory to spread: it has no entries */
};

/* One of the best, from the best on. */
struct recall_entry {
    uint64_t id;
    float activation, score; /* score: NaN (0x7fc00000) where no row has the id */
    uint8_t marks;           /* enum recall_mark */
    uint8_t depth;
    uint16_t path; /* nodes of its path; 0: none was asked for, or it is itself */
    uint32_t reserved;
};
enum recall_mark { RECALL_SEED = 1, RECALL_TOUCHED = 2 };

/* How long the stages took, in ns: until the seeds were known, and until the best were. */
struct recall_times {
    uint64_t seeds_ns, best_ns;
};

#endif
