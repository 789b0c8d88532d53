/* story_model: what must be in the daemon, kept plainly: for each collection every state that it
 * has been in, and for each request what was asked of which of them.
 * Owner:  a story; freed with it.
 * Thread: one.
 * Errors: story_fail. */
#ifndef ENGRAM_TESTS_STORY_MODEL_H
#define ENGRAM_TESTS_STORY_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/job.h"

struct story;
struct story_client;

/* Names of collections; then comes what has no name, then those of graphs, and of attractors. */
enum { STORY_NAMES = 3, STORY_GRAPH = 4, STORY_GRAPHS = 2, STORY_IDS = 160, STORY_NODES = 50 };
enum { STORY_ATTRACTOR = STORY_GRAPH + STORY_GRAPHS, STORY_ATTRACTORS = 2 };
enum { STORY_VERSIONS_MAX = 1 << 16, STORY_NEVER = STORY_VERSIONS_MAX }; /* no version */

struct story_edge {
    uint64_t source, target;
    float weight;
};

/* A collection, graph or attractor after a write. */
struct story_state {
    uint64_t seq;     /* of the write, in the order in which requests were looked at */
    uint64_t version; /* as the daemon told it */
    uint64_t count;   /* of an attractor: patterns that it has learned */
    uint64_t *ids;    /* rising */
    float *rows;
    uint64_t *order; /* the ids of a collection, as its rows are stored */
    float *weights;  /* an attractor's */
    uint8_t *kinds;  /* of nodes, which ids names; as are factors */
    float *factors;
    uint64_t edge_count;
    struct story_edge *edges;
    const struct story_request *by; /* the write; NULL: as created */
    struct story_state *before;
    uint64_t wrote, told; /* when, counted in such moments; told: its writer; 0: not yet */
};

struct story_collection {
    uint32_t space, name;
    uint32_t dimension;
    uint32_t metric;
    bool dropped; /* nobody finds it any more */
    struct story_state *last;
    const struct story_state *known; /* the newest whose writer has been told so */
    struct story_collection *next;
};

/* What a bind or an attractor reads: rows with these ids, or these rows; or a spread or a
 * completion: all of them. */
struct story_read {
    uint32_t name;
    uint64_t *ids;
    float *rows;                       /* of a bind: sent along, and nothing is named; NULL: ids */
    struct story_collection *resident; /* that it found; NULL: none */
    const struct story_state *known, *seen;
};

/* What was asked; arrays belong to the model. */
struct story_request {
    struct story_client *client;
    uint64_t connection, id;
    enum operation operation;
    uint64_t sent_ns, deadline_ns; /* absolute at the earliest; 0: none */
    bool cancelled, gone, admitted, applied, answered;
    bool watched; /* it asks how far it is */
    uint64_t cancel_id;
    uint64_t seq;
    uint32_t name;                     /* STORY_NAMES: inline rows */
    struct story_collection *resident; /* that it found; NULL: none */
    /* Of a reader of a collection: what was known when it was looked at, and what it was told that
     * it saw. */
    const struct story_state *known, *seen;
    bool made; /* create: the name is its from then on */
    uint32_t dimension, metric, k;
    uint64_t id_count, query_count, row_count;
    uint64_t *ids;
    float *queries, *rows, *weights;
    uint64_t *offsets; /* candidates: query_count + 1 */
    bool has_threshold, list, bitmap;
    float threshold;
    uint64_t filter_count, *filter;
    uint8_t *bits; /* of ids filter_first .. */
    uint64_t filter_first;
    uint64_t offset, limit; /* fetch without ids */
    uint64_t counts[6], rows_after, edges_after, version;
    uint64_t *targets; /* edges; their sources are ids, their weights weights */
    uint64_t *row_ids; /* edges in CSR form: row_count of them, which become nodes */
    uint8_t *kinds;    /* nodes; NULL: not given, as are factors */
    float *factors;
    bool replace, with_edges, create;
    float low, high, *sums; /* of added weights */
    float scalar;           /* scale, prune */
    uint64_t expected;      /* the version that a write wants to find; 0: any */
    bool at_least;
    /* A write that may be repeated: by its token, which its repetitions have too (first: the one
     * that they repeat). Of the first: which of them was done; and its bytes on the wire. */
    uint64_t token;
    struct story_request *first, *done;
    bool done_before; /* when it was looked at, the answer of the one that was done had come */
    char *message, *body;
    uint64_t message_bytes, body_bytes;
    struct job_spread how;
    struct story_read reads[2]; /* bind, which writes what comes of it as ids and rows */
    bool embedded; /* spread, recall, complete, learn: it names a collection, reads[0] */
    uint8_t *mask; /* complete: of mask_lines; NULL: none */
    uint64_t mask_lines;
    uint64_t set_count; /* spread: its seeds are ids, their activations weights */
    struct story_request *next, *all_next;
};

struct story_memory {
    struct story_memory *next;
    _Alignas(64) char bytes[];
};

struct story_model {
    struct story_memory *memory;
    struct story_collection *collections;
    uint32_t dimension[STORY_NAMES], metric[STORY_NAMES];
    uint64_t tokens;                        /* how many there have been */
    uint64_t moments;                       /* likewise */
    bool version_taken[STORY_VERSIONS_MAX]; /* by a state of a collection or graph */
};

/* True if r is about a name as such. */
bool story_drops(const struct story_request *r);
bool story_creates(const struct story_request *r);

/* Zeroed memory, until the story ends. */
void *story_take(struct story *s, uint64_t bytes);
void story_model_open(struct story *s);
void story_model_close(struct story *s);
const char *story_name(uint32_t name);
const char *story_space_name(uint32_t space);

/* The collection that is found under a name now; NULL: none. */
struct story_collection *story_find(struct story *s, uint32_t space, uint32_t name);
struct story_collection *story_create(struct story *s, uint32_t space, uint32_t name,
                                      uint64_t version);
/* r, an upsert or a delete, took effect. */
void story_apply(struct story *s, struct story_request *r, uint64_t version);
/* A write that found a state of version `before` left one of `version`: no other state has it. */
void story_take_version(struct story *s, uint64_t before, uint64_t version);
/* The same of a change of a graph (story_graph_model.c). */
void story_apply_graph(struct story *s, struct story_request *r, uint64_t version);
/* Of r and its repetitions, the one that was done; NULL: none yet. */
struct story_request *story_done(const struct story_request *r);
/* Whether r, which writes, found the version that it expects. */
enum status story_version_fate(const struct story_request *r);
/* Whether weights could be added to in the state that r found; OK if they were. */
enum status story_weights_fate(const struct story_request *r);
/* What r has seen: of a collection, which keeps versions, what its answer told. */
const struct story_state *story_seen(const struct story_request *r);
/* True if r reads a collection: it sees what its client wrote before it and not after it, and every
 * write that was acknowledged before it came. */
bool story_reads_version(const struct story_request *r);
bool story_may_see(const struct story_request *r, const struct story_state *state);
/* The writer was told that r is done. */
void story_acknowledge(struct story *s, struct story_request *r);
/* The place of id in it; state->count: it is not there. */
uint64_t story_place(const struct story_state *state, uint64_t id);

/* ---- story_check.c ---- */
struct story_reply {
    const struct frame_header *header;
    const void *message;
    const char *body;
};
/* Ends the story where the answer is not what the model says. */
void story_check(struct story *s, struct story_request *r, const struct story_reply *reply);

/* ---- story_graph_check.c: answers about graphs. True: it was one ---- */
bool story_check_graph(struct story *s, struct story_request *r, const struct story_reply *reply);

/* ---- story_bind.c ---- */
/* r, which reads several things, is looked at. */
void story_reads_admitting(struct story *s, struct story_request *r);
/* True if r may see that state of what it reads there. */
bool story_read_may_see(const struct story_request *r, const struct story_read *read,
                        const struct story_state *state);
/* True if what one saw was known to be replaced before what the other saw was written: no instant
 * had both. */
bool story_reads_are_apart(const struct story_read *a, const struct story_read *b);
bool story_bind_finds_all(const struct story_request *r);
/* True if it may find that a name or an id is not there. */
bool story_bind_may_miss(const struct story_request *r);
/* True if a row that it makes may be too long to be stored: binds of binds grow. */
bool story_bind_may_overflow(const struct story_request *r);
/* j has done r: what it read, and so what it writes, is known. */
void story_bind_wrote(struct story *s, struct story_request *r, const struct job *j);
struct cursor;
void story_check_bind(struct cursor *c, const struct story_reply *reply);

/* ---- story_requests.c ---- */
/* Decides what c asks next, and sends it. */
void story_ask(struct story_client *c);
void story_ask_cancel(struct story_client *c, struct story_request *r);
void story_greet(struct story_client *c);
/* Everything that c can find is to go. */
void story_ask_drops(struct story_client *c);

#endif
