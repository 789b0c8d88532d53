/* engram_accel_attractor: attractors, which learn patterns and complete them from a part, as a
 * model of the hippocampus does. docs/attractors.md says what they are good for,
 * kernels/attractor.h what they compute; engram_accel.h, which includes this header, says who owns
 * what, which threads may call, and what errors mean. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_ATTRACTOR_H)
#define ENGRAM_ACCEL_ATTRACTOR_H

#ifdef __cplusplus
extern "C" {
#endif

enum { EA_ATTRACTOR_DIMENSION_MAX = 2048 };

typedef struct ea_attractor_info {
    char name[65];
    uint32_t dimension;
    uint32_t kept; /* how many values of a state stay */
    float sparsity, rate;
    uint64_t version;
    uint64_t patterns; /* learned since it was made or its weights were set */
    uint64_t weight_bytes;
    uint64_t dentate_bytes; /* of the matrix that all of the space's of this dimension share */
} ea_attractor_info;

typedef struct ea_attractor_shape {
    uint32_t dimension;    /* 1 .. EA_ATTRACTOR_DIMENSION_MAX */
    const float *sparsity; /* the part of a state that stays, above 0 to 1; NULL: 0.05 */
    const float *rate;     /* of learning, above 0 to 1; NULL: 0.01 */
} ea_attractor_shape;

/* Makes an attractor. ALREADY_EXISTS; INVALID_ARGUMENT (EA_DETAIL_BAD_SPARSITY for both parts).
 * Requests that come while its tables are being made, for some milliseconds, wait for them. */
EA_API ea_status ea_attractor_create(ea_client *c, const char *name,
                                     const ea_attractor_shape *shape, ea_attractor_info *out);
EA_API ea_status ea_attractor_create_send(ea_client *c, const char *name,
                                          const ea_attractor_shape *shape,
                                          const ea_send_options *how,
                                          uint64_t *request_id); /* answer->attractor */
EA_API ea_status ea_attractor_drop(ea_client *c, const char *name);
EA_API ea_status ea_attractor_drop_send(ea_client *c, const char *name, const ea_send_options *how,
                                        uint64_t *request_id);
EA_API ea_status ea_attractor_describe(ea_client *c, const char *name, ea_attractor_info *out);
EA_API ea_status ea_attractor_describe_send(ea_client *c, const char *name,
                                            const ea_send_options *how,
                                            uint64_t *request_id); /* answer->attractor */
/* All attractors of the space, by name. *out: free with ea_attractor_list_free. */
EA_API ea_status ea_attractor_list(ea_client *c, ea_attractor_info **out, size_t *count);
EA_API void ea_attractor_list_free(ea_attractor_info *list);

/* ---- weights ---- */

/* Patterns, learned in their order: rows sent along, or rows of a collection by their ids. */
typedef struct ea_learn_question {
    const char *attractor;
    const float *rows; /* count x dimension; or */
    uint32_t dimension;
    const char *collection; /* the collection that has */
    const uint64_t *ids;    /* these; an unknown one gives NOT_FOUND */
    uint64_t count;
    const ea_write *write; /* what is expected of the attractor; NULL: nothing */
} ea_learn_question;

typedef struct ea_learned {
    uint64_t learned;  /* by this request */
    uint64_t patterns; /* by the attractor, afterwards */
    uint64_t version;
    uint64_t collection_version; /* as it was read; 0: none was named */
} ea_learned;

/* Learns all patterns or none. INVALID_ARGUMENT naming the pattern: a number that is not finite, a
 * norm that overflows, or EA_DETAIL_BAD_WEIGHTS, a weight that would leave its range. */
EA_API ea_status ea_attractor_learn(ea_client *c, const ea_learn_question *question,
                                    ea_learned *out);
EA_API ea_status ea_attractor_learn_send(ea_client *c, const ea_learn_question *question,
                                         const ea_send_options *how,
                                         uint64_t *request_id); /* answer->learned */

/* The weights, row by row: out->vectors, dimension x dimension. */
EA_API ea_status ea_attractor_fetch(ea_client *c, const char *name, ea_result *out);
EA_API ea_status ea_attractor_fetch_send(ea_client *c, const char *name, const ea_send_options *how,
                                         uint64_t *request_id); /* answer->result */
/* Replaces them by dimension x dimension weights, finite, at most 1 and at least -2^40:
 * INVALID_ARGUMENT (EA_DETAIL_BAD_WEIGHTS) names the one that is not. */
EA_API ea_status ea_attractor_set(ea_client *c, const char *name, const float *weights,
                                  uint32_t dimension, ea_learned *out);
EA_API ea_status ea_attractor_set_send(ea_client *c, const char *name, const float *weights,
                                       uint32_t dimension, const ea_send_options *how,
                                       uint64_t *request_id); /* answer->learned */

/* ---- completion ---- */

typedef struct ea_engine_question {
    const char *attractor;
    const float *cues; /* count x dimension; what is not known may be anything */
    uint64_t count;
    uint32_t dimension;
    const uint8_t *mask; /* not 0 where a number is known; NULL: all are */
    uint64_t mask_rows;  /* count, or 1 for all cues; of dimension flags each */
    /* The nearest of whose rows is found for each state; NULL: none. */
    const char *collection;
} ea_engine_question;

/* Zero it before its first use; a call frees what it held. */
typedef struct ea_engine_completed {
    const ea_meta *meta;    /* NULL: there was no reply */
    uint64_t rows, columns; /* cues x dimension */
    const float *states;
    /* one a cue: */
    const float *confidences;
    const uint32_t *rounds;
    const uint8_t *converged;
    /* Of the nearest stored row, the lowest id of several, also where it does not pass: its cosine
     * is above 0.7 then. Of an empty collection: EA_NO_ID and NaN. NULL: none was named. */
    const uint64_t *ids;
    const float *cosines;
    const uint8_t *passes;
    uint64_t attractor_version, collection_version; /* as they were read; 0: none was named */
    void *memory;                                   /* private to the library */
} ea_engine_completed;
EA_API void ea_engine_completed_free(ea_engine_completed *r);

/* Completes each cue. INVALID_ARGUMENT: EA_DETAIL_BAD_MASK, or naming the cue
 * EA_DETAIL_TOO_FEW_KNOWN (less than a third of it is known) or a known number that is not
 * finite. */
EA_API ea_status ea_complete_engine(ea_client *c, const ea_engine_question *question,
                                    ea_engine_completed *out);
EA_API ea_status ea_complete_engine_send(ea_client *c, const ea_engine_question *question,
                                         const ea_send_options *how,
                                         uint64_t *request_id); /* answer->engine_completed */

#ifdef __cplusplus
}
#endif

#endif
