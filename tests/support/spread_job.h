/* spread_job: spreads as jobs over a made-up graph, with questions to ask of it.
 * Owner:  the test; spread_job_open and spread_job_close pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_SPREAD_JOB_H
#define ENGRAM_TESTS_SPREAD_JOB_H

#include "tests/support/spread_expect.h"

enum { SPREAD_JOB_SEEDS = 600, SPREAD_JOB_SETS = 64 };

struct spread_scene {
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct graph *graph;
    struct collection *embeddings; /* spread_job_embed; NULL: none */
    uint64_t *ids;
    uint32_t nodes;
    uint64_t seed; /* of spread_job_draw */
};

/* Random edges, kinds and factors; some weights negative, if asked for. */
struct spread_scene spread_job_open(uint32_t nodes, uint64_t edges, bool negative, uint64_t seed);
/* Makes a collection of embeddings: of all nodes but some `missing` in a thousand. */
void spread_job_embed(struct spread_scene *b, uint32_t dimension, uint32_t missing);
void spread_job_close(struct spread_scene *b);
uint32_t spread_job_draw(struct spread_scene *b, uint32_t below);

/* A case with its arrays. */
struct spread_asked {
    struct spread_case c;
    uint64_t offsets[SPREAD_JOB_SETS + 1], seeds[SPREAD_JOB_SEEDS], within[SPREAD_JOB_SEEDS];
    float activations[SPREAD_JOB_SEEDS], table[SPREAD_HOPS_MAX];
};

/* One set without seeds, nothing odd. */
void spread_job_ask(struct spread_asked *a, enum spread_mode mode, uint32_t hops);
void spread_job_ask_randomly(struct spread_scene *b, struct spread_asked *a, enum spread_mode mode);

struct tensor spread_job_numbers(const uint64_t *data, uint64_t rows);
struct job spread_job_of(struct spread_scene *b, const struct spread_case *c);
struct spread_reply spread_job_reply(const struct job *j);

#endif
