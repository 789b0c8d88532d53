/* graph_twin: a graph in a daemon and the same one here, so that what the daemon says of it can be
 * compared bit for bit.
 * Owner:  the test; twin_make and twin_drop pair.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_GRAPH_TWIN_H
#define ENGRAM_TESTS_GRAPH_TWIN_H

#include "client/engram_accel.h"
#include "tests/support/spread_expect.h"

enum { TWIN_SEEDS_MAX = 600, TWIN_SETS_MAX = 64 };

struct twin {
    const char *name;
    struct heap *heap;
    struct store *store;
    struct space *space;
    struct graph *graph;
    struct collection *embeddings; /* twin_embed; NULL: none */
    uint64_t *ids;
    uint32_t nodes;
    uint64_t seed;      /* of twin_draw */
    ea_backend backend; /* of the last answer that twin_expect compared, */
    uint32_t reason;    /* and why */
};

/* Nodes with random ids, kinds and factors, and no edges yet; here and there. */
void twin_make(struct twin *t, ea_client *c, const char *name, uint32_t nodes, uint64_t seed);
void twin_drop(struct twin *t, ea_client *c);
uint32_t twin_draw(struct twin *t, uint32_t below);

/* So many random ones, added, or taken away again: those of the same seed are the same. */
void twin_add_edges(struct twin *t, ea_client *c, uint64_t count, uint64_t seed, bool replace);
void twin_remove_edges(struct twin *t, ea_client *c, uint64_t count, uint64_t seed);
void twin_remove_nodes(struct twin *t, ea_client *c, uint32_t count);

/* Makes the collection "embeddings", here and there, which twin_drop drops; it has no rows yet. */
void twin_embed(struct twin *t, ea_client *c, uint32_t dimension);
/* New rows for nodes first, first + step, ...: those of the same seed are the same. */
void twin_set_rows(struct twin *t, ea_client *c, uint32_t first, uint32_t step, uint64_t seed);

/* A spread of it, with what it points to. */
struct twin_question {
    ea_spread_options options;
    uint64_t sets, seed_count, within_count;
    uint64_t offsets[TWIN_SETS_MAX + 1], seeds[TWIN_SEEDS_MAX], within[TWIN_SEEDS_MAX];
    float activations[TWIN_SEEDS_MAX], table[100], thresholds[3];
    ea_filter filter;
    bool has_activations;
};
void twin_ask_randomly(struct twin *t, struct twin_question *q, ea_spread_mode mode);
ea_status twin_spread(const struct twin *t, ea_client *c, const struct twin_question *q,
                      ea_spread_result *out);
/* What it asks, without embeddings; valid as long as q. */
struct spread_case twin_case(const struct twin_question *q);
/* Asks and compares. */
void twin_expect(struct twin *t, ea_client *c, const struct twin_question *q);
/* Every node with its edges. */
void twin_expect_nodes(struct twin *t, ea_client *c);

#endif
