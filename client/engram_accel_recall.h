/* engram_accel_recall: what a memory makes of a cue: completing partial vectors. docs/complete.md
 * says what it is for; engram_accel.h, which includes this header, says who owns what, which
 * threads may call, and what errors mean. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_RECALL_H)
#define ENGRAM_ACCEL_RECALL_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- completion by the modern rule ---- */

/* States of which some numbers are known. A state becomes, round after round, the mean of the
 * collection's rows, weighted by the softmax of beta times their products with it, until a round
 * moves it by less than 1e-4. */
typedef struct ea_complete_question {
    const char *collection;
    const float *states; /* state_count x dimension */
    uint64_t state_count;
    uint32_t dimension; /* the collection's */
    /* mask_rows x dimension bytes, not 0 where a number is known: it is kept, and the others begin
     * as 0. NULL: the states begin as they are, and nothing is kept */
    const uint8_t *mask;
    uint64_t mask_rows; /* state_count, or 1: for all states */
    float beta;         /* 1e-6 to 1e6; 32 suits unit rows */
    uint32_t rounds;    /* 1 to EA_COMPLETE_ROUNDS_MAX, at most */
    bool unit;          /* rows count as divided by their norms */
} ea_complete_question;
enum { EA_COMPLETE_ROUNDS_MAX = 100 };

/* Zero it before its first use; a call frees what it held. */
typedef struct ea_completed {
    const ea_meta *meta;    /* NULL: there was no reply */
    uint64_t rows, columns; /* states x dimension */
    const float *states;
    /* one a state: rounds done; 1 if the last one moved it by less than 1e-4; the energy that it
     * had when the last one began (kernels/complete.h) */
    const uint32_t *rounds;
    const uint8_t *converged;
    const float *energies;
    /* one a state: the row with the largest weight in the last round, and its cosine with the
     * state */
    const uint64_t *ids;
    const float *cosines;
    void *memory; /* private to the library */
} ea_completed;
EA_API void ea_completed_free(ea_completed *r);

/* INVALID_ARGUMENT: beta (EA_DETAIL_BAD_BETA) or rounds (EA_DETAIL_BAD_ROUNDS) out of range, a mask
 * of another shape, another dimension, a state with a number that is not finite or a norm that
 * overflows. FAILED_PRECONDITION (EA_DETAIL_NO_ROWS): the collection is empty. */
EA_API ea_status ea_complete(ea_client *c, const ea_complete_question *question, ea_completed *out);
EA_API ea_status ea_complete_send(ea_client *c, const ea_complete_question *question,
                                  const ea_send_options *how,
                                  uint64_t *request_id); /* answer->completed */

#ifdef __cplusplus
}
#endif

#endif
