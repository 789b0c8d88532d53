/* engram_accel_recall: what a memory makes of a cue: what it brings back (docs/recall.md), and
 * completing partial vectors (docs/complete.md). engram_accel.h, which includes this header, says
 * who owns what, which threads may call, and what errors mean. */
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
     * as 0, whatever stands in their places, NaN too. NULL: the states begin as they are, and
     * nothing is kept */
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
 * of another shape, another dimension, a state with a known number that is not finite or a norm of
 * those that overflows. FAILED_PRECONDITION (EA_DETAIL_NO_ROWS): the collection is empty. */
EA_API ea_status ea_complete(ea_client *c, const ea_complete_question *question, ea_completed *out);
EA_API ea_status ea_complete_send(ea_client *c, const ea_complete_question *question,
                                  const ea_send_options *how,
                                  uint64_t *request_id); /* answer->completed */

/* ---- recall: the nearest rows, and what a spread from them lights up ---- */

/* The rows of a collection, of metric cosine, are the nodes of a graph: an id names both. Set
 * unused members to zero. */
typedef struct ea_recall_question {
    const char *collection, *graph;
    /* cue_count vectors, or ids of stored rows (an unknown one gives NOT_FOUND) */
    const float *cues;
    const uint64_t *cue_ids;
    uint64_t cue_count;
    uint32_t dimension; /* of cues */
    /* List i is cues [cue_offsets[i], cue_offsets[i + 1]); NULL: each cue is a list of its own */
    const uint64_t *cue_offsets; /* lists + 1 */
    uint64_t lists;              /* with cue_offsets */
    uint32_t results;            /* the best of each list; 0 stands for 100 */
    uint32_t k;                  /* the nearest rows of each cue; 0: results, 100 at most */
    /* NULL: 0.4, 0.5, 0.01, 1.1. A row becomes a seed if its cosine reaches the threshold, with
     * activation 1 / (1 + e^-((cosine - threshold) / width)); those below activation_min do not. A
     * seed ranks by its activation times boost. */
    const float *threshold, *width, *activation_min, *boost;
    /* From the arrival of the request, at least 1: then the spread ends, and what there is, is the
     * answer: the ranked seeds at least. NULL: unlimited. */
    const uint64_t *time_max_us;
    /* NULL: mode engram with its defaults. Its members k and time_max_us must be 0. Its embeddings,
     * if it names none, are those of `collection`. A seed that is not in `within` stays a seed, and
     * is not spread from. */
    const ea_spread_options *spread;
    bool ignore_embeddings; /* engram: edges have their weights, whatever the nodes' embeddings */
} ea_recall_question;

enum ea_recall_mark {
    EA_RECALL_SEED = 1,   /* near enough to a cue */
    EA_RECALL_TOUCHED = 2 /* the spread touched it; without this mark a seed is no node, or its
                           * activation was below the spread's threshold */
};

/* Zero it before its first use; a call frees what it held. What list i recalled is [offsets[i],
 * offsets[i + 1]): highest activation first, a seed's times boost, ties by rising id. */
typedef struct ea_recall_result {
    const ea_meta *meta; /* NULL: there was no reply */
    uint64_t lists, count;
    const uint64_t *offsets;  /* lists + 1 */
    const uint64_t *ids;      /* count, as the next four */
    const float *activations; /* the spread's; of a seed that it does not hold, the seed's */
    const float *scores;    /* the highest cosine to a cue of its list; NaN: there is no such row */
    const uint8_t *marks;   /* of ea_recall_mark */
    const uint32_t *depths; /* hops from a seed, at first touch */
    const uint32_t *seeds;  /* lists x 2: seeds found, and those of them that are nodes */
    const uint32_t *hops;   /* lists, as the next two: the last hop that touched a node */
    const uint64_t *touched;
    const uint8_t *truncated; /* time_max_us, touched_max or memory ended the spread */
    const uint64_t
        *path_offsets;        /* count + 1; with paths: of entry j path_ids[path_offsets[j] .. */
    const uint64_t *path_ids; /* path_offsets[j + 1]), from a seed to the node */
    uint64_t seek_ns, spread_ns, rank_ns; /* of meta's run_ns: seeds; spread; scores */
    uint64_t graph_version, embeddings_version, collection_version; /* 0: none was named */
    void *memory;                                                   /* private to the library */
} ea_recall_result;
EA_API void ea_recall_result_free(ea_recall_result *r);

/* One request. INVALID_ARGUMENT: a collection of another metric or dimension (EA_DETAIL_BAD_METRIC,
 * EA_DETAIL_BAD_DIMENSION), a cue that is not finite, a number out of range (EA_DETAIL_BAD_K,
 * EA_DETAIL_BAD_THRESHOLD, EA_DETAIL_BAD_SEEDING), a budget of 0 (EA_DETAIL_BAD_BUDGET), and what
 * a spread refuses. */
EA_API ea_status ea_recall(ea_client *c, const ea_recall_question *question, ea_recall_result *out);
EA_API ea_status ea_recall_send(ea_client *c, const ea_recall_question *question,
                                const ea_send_options *how,
                                uint64_t *request_id); /* answer->recalled */

#ifdef __cplusplus
}
#endif

#endif
