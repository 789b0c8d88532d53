/* engram_accel_hrr: holographic operations: binding vectors and taking bound ones apart.
 * docs/hrr.md says what they are for; engram_accel.h, which includes this header, says who owns
 * what, which threads may call, and what errors mean. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_HRR_H)
#define ENGRAM_ACCEL_HRR_H

#ifdef __cplusplus
extern "C" {
#endif

/* Vectors that an operation takes: rows sent along, or rows of a collection by their ids. One
 * vector stands beside any number of the other operand's. */
typedef struct ea_operand {
    const float *rows;      /* count x dimension; or */
    const char *collection; /* the collection that has */
    const uint64_t *ids;    /* these; an unknown one gives NOT_FOUND */
    uint64_t count;         /* 1 or more */
} ea_operand;

/* Where results are kept: they are inserted into a collection, or replace its rows, all or none of
 * them. It may be a collection that the operation reads, too. */
typedef struct ea_into {
    const char *collection;
    const uint64_t *ids;   /* one a result */
    const ea_write *write; /* what is expected of the collection; NULL: nothing */
} ea_into;

/* Zero it before its first use; a call frees what it held. */
typedef struct ea_hrr_result {
    /* NULL: there was no reply. Its version is that of the collection with the results, or else of
     * the first one that was read. */
    const ea_meta *meta;
    uint64_t rows, columns; /* results x dimension; 0 if a collection has them */
    const float *vectors;   /* NULL if a collection has them */
    /* in the collection with the results: new rows, replaced ones, and all of them afterwards */
    uint64_t inserted, replaced, into_rows;
    /* of each collection, as it was read or written; 0: none was named */
    uint64_t a_version, b_version, into_version;
    void *memory; /* private to the library */
} ea_hrr_result;
EA_API void ea_hrr_result_free(ea_hrr_result *r);

/* ---- questions ----
 * Each call is one request: RESOURCE_EXHAUSTED if it, or its reply, is larger than the daemon
 * takes; results are independent of each other, so a caller may ask for any range of them. What
 * writes into a collection that it reads, too, is not repeated by the library without a token.
 * Common members: `dimension` is that of rows sent along; `normalize` divides each result by its
 * norm, zeros stay; `into` NULL: the results come with the reply.
 *
 * INVALID_ARGUMENT, and the text says which operand, row and column: a number that is not finite, a
 * norm or result that overflows, dimensions or counts that differ. */

typedef struct ea_bind_question {
    const ea_operand *a, *b; /* as many vectors, or one of either */
    uint32_t dimension;
    bool normalize;
    const ea_into *into;
    bool exact; /* of ea_unbind alone */
} ea_bind_question;
/* Binds vectors pair by pair: result j = sum over i of a[i] b[(j - i) mod dimension], the circular
 * convolution. Binding a to b and b to a give the same bits. */
EA_API ea_status ea_bind(ea_client *c, const ea_bind_question *question, ea_hrr_result *out);
EA_API ea_status ea_bind_send(ea_client *c, const ea_bind_question *question,
                              const ea_send_options *how,
                              uint64_t *request_id); /* answer->holographic */
/* Takes b out of a, pair by pair: nearly, by binding a to b's involution, or exactly, by dividing
 * spectra. FAILED_PRECONDITION (EA_DETAIL_NO_INVERSE): exactly, and b's spectrum has a zero, or
 * this dimension has no spectrum (even ones without large prime factors have one). */
EA_API ea_status ea_unbind(ea_client *c, const ea_bind_question *question, ea_hrr_result *out);
EA_API ea_status ea_unbind_send(ea_client *c, const ea_bind_question *question,
                                const ea_send_options *how, uint64_t *request_id);

/* Lists of vectors; list i has [offsets[i], offsets[i + 1]). */
typedef struct ea_list_question {
    const ea_operand *a;
    uint32_t dimension;
    const uint64_t *offsets; /* lists + 1, from 0 to a's count; NULL: all are one list */
    uint64_t lists;          /* 1 or more; 0 or 1 without offsets; none of them is empty */
    const float *weights;    /* of ea_superpose alone: one a vector; NULL: each is 1 */
    bool normalize;
    const ea_into *into;
} ea_list_question;
/* Binds the vectors of each list to each other, from the left. */
EA_API ea_status ea_bind_many(ea_client *c, const ea_list_question *question, ea_hrr_result *out);
EA_API ea_status ea_bind_many_send(ea_client *c, const ea_list_question *question,
                                   const ea_send_options *how, uint64_t *request_id);
/* Adds up the vectors of each list, each times its weight. */
EA_API ea_status ea_superpose(ea_client *c, const ea_list_question *question, ea_hrr_result *out);
EA_API ea_status ea_superpose_send(ea_client *c, const ea_list_question *question,
                                   const ea_send_options *how, uint64_t *request_id);

typedef struct ea_permute_question {
    const ea_operand *a;
    uint32_t dimension;
    int64_t shift; /* number j becomes number (j + shift) mod dimension */
    bool normalize;
    const ea_into *into;
} ea_permute_question;
EA_API ea_status ea_permute(ea_client *c, const ea_permute_question *question, ea_hrr_result *out);
EA_API ea_status ea_permute_send(ea_client *c, const ea_permute_question *question,
                                 const ea_send_options *how, uint64_t *request_id);

/* Vectors of normal numbers with variance 1 / dimension that the seed names: vector `first` + i is
 * the same bits whenever and wherever it is asked for. */
typedef struct ea_random_question {
    uint64_t seed, first, count;
    uint32_t dimension;
    bool normalize; /* unit vectors */
    const ea_into *into;
} ea_random_question;
EA_API ea_status ea_random(ea_client *c, const ea_random_question *question, ea_hrr_result *out);
EA_API ea_status ea_random_send(ea_client *c, const ea_random_question *question,
                                const ea_send_options *how, uint64_t *request_id);

typedef struct ea_cleanup_question {
    const ea_operand *a, *b; /* as many vectors, or one of either */
    uint32_t dimension;
    const char *codebook; /* the collection of what may have been meant */
    uint32_t k;           /* 1 or more */
    bool exact;
    const float *threshold; /* as in ea_knn_question */
} ea_cleanup_question;
/* Takes b out of a, pair by pair, as ea_unbind does, and finds the k rows of the codebook nearest
 * to each result: the answer is that of ea_knn. meta->version is the codebook's; a_version and
 * b_version are those of the operands' collections: all three as they were at one instant. */
EA_API ea_status ea_cleanup(ea_client *c, const ea_cleanup_question *question, ea_result *out);
EA_API ea_status ea_cleanup_send(ea_client *c, const ea_cleanup_question *question,
                                 const ea_send_options *how,
                                 uint64_t *request_id); /* answer->result */

#ifdef __cplusplus
}
#endif

#endif
