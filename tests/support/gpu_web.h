/* gpu_web: a graph that a test fills through a client, and questions about it whose answers are the
 * same wherever they come from.
 * Owner:  the test.
 * Thread: any; a client's calls one at a time.
 * Errors: each call's status, for the test to judge. */
#ifndef ENGRAM_TESTS_GPU_WEB_H
#define ENGRAM_TESTS_GPU_WEB_H

#include "client/engram_accel.h"

/* Nodes have ids 7, 10, 13 ...; WEB_NODES is a size that suits a script. */
enum { WEB_NODES = 400, WEB_DEGREE = 4, WEB_QUESTIONS = 8 };

/* Nodes first .. first + count, of every kind and factor. */
ea_status web_set_nodes(ea_client *c, const char *graph, uint64_t first, uint64_t count);
/* WEB_DEGREE edges each from these, to any node before them or among them. */
ea_status web_add_edges(ea_client *c, const char *graph, uint64_t seed, uint64_t first,
                        uint64_t count);

struct web_answer {
    uint64_t digest; /* of all that was answered */
    uint64_t version, entries;
    ea_backend backend;
    uint32_t reason;
};
/* The number-th question: all modes, bounds and paths, one or many sets, within WEB_NODES. */
ea_status web_ask(ea_client *c, const char *graph, uint64_t number, struct web_answer *out);
/* From so many sets of seeds, among the first `nodes` of the graph; number chooses them. */
ea_status web_ask_sets(ea_client *c, const char *graph, const ea_spread_options *how, uint64_t sets,
                       uint64_t nodes, uint64_t number, struct web_answer *out);

#endif
