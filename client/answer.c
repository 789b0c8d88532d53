/* answer: which kind of answer a request has, and how it is copied to the caller's struct, which
 * may be smaller or larger than the library's. */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

enum answer {
    ANSWER_NONE,
    ANSWER_RESULT,
    ANSWER_SPREAD,
    ANSWER_NODES,
    ANSWER_UPSERTED,
    ANSWER_DELETED,
    ANSWER_CHANGED,
    ANSWER_COLLECTION,
    ANSWER_GRAPH,
    ANSWER_INFO,
    ANSWER_STATS,
    ANSWER_EXPLANATION,
    ANSWER_HOLOGRAPHIC,
    ANSWER_COMPLETED,
    ANSWER_ATTRACTOR,
    ANSWER_LEARNED,
    ANSWER_ENGINE,
    ANSWER_RECALLED,
    ANSWER_COVARIANCE,
    ANSWER_CLUSTERS,
    ANSWER_SWAPPED,
};

/* A kind that is not listed has an answer without memory that the caller keeps, or a page of a
 * list. */
static const uint8_t answers[] = {
#define CLIENT(NAME, ANSWER, how, parser) [engram_accel_v1_Kind_KIND_##NAME] = ANSWER_##ANSWER,
#include "proto/operations.def"
};

/* The size of the struct here, where the size of the caller's struct is kept, and which member of
 * an ea_answer points to it. */
static const struct answer_type {
    size_t bytes, size_at, member_at;
} types[] = {
    [ANSWER_NONE] = {0},
    [ANSWER_RESULT] = {sizeof(ea_result), offsetof(ea_sizes, result), offsetof(ea_answer, result)},
    [ANSWER_SPREAD] = {sizeof(ea_spread_result), offsetof(ea_sizes, spread_result),
                       offsetof(ea_answer, spread)},
    [ANSWER_NODES] = {sizeof(ea_nodes), offsetof(ea_sizes, nodes), offsetof(ea_answer, nodes)},
    [ANSWER_UPSERTED] = {sizeof(ea_upsert_counts), offsetof(ea_sizes, upsert_counts),
                         offsetof(ea_answer, upserted)},
    [ANSWER_DELETED] = {sizeof(ea_delete_counts), offsetof(ea_sizes, delete_counts),
                        offsetof(ea_answer, deleted)},
    [ANSWER_CHANGED] = {sizeof(ea_graph_counts), offsetof(ea_sizes, graph_counts),
                        offsetof(ea_answer, changed)},
    [ANSWER_COLLECTION] = {sizeof(ea_collection_info), offsetof(ea_sizes, collection_info),
                           offsetof(ea_answer, collection)},
    [ANSWER_GRAPH] = {sizeof(ea_graph_info), offsetof(ea_sizes, graph_info),
                      offsetof(ea_answer, graph)},
    [ANSWER_INFO] = {sizeof(ea_info), offsetof(ea_sizes, info), offsetof(ea_answer, info)},
    [ANSWER_STATS] = {sizeof(ea_stats), offsetof(ea_sizes, stats), offsetof(ea_answer, stats)},
    [ANSWER_EXPLANATION] = {sizeof(ea_explanation), offsetof(ea_sizes, explanation),
                            offsetof(ea_answer, explanation)},
    [ANSWER_HOLOGRAPHIC] = {sizeof(ea_hrr_result), offsetof(ea_sizes, hrr_result),
                            offsetof(ea_answer, holographic)},
    [ANSWER_COMPLETED] = {sizeof(ea_completed), offsetof(ea_sizes, completed),
                          offsetof(ea_answer, completed)},
    [ANSWER_ATTRACTOR] = {sizeof(ea_attractor_info), offsetof(ea_sizes, attractor_info),
                          offsetof(ea_answer, attractor)},
    [ANSWER_LEARNED] = {sizeof(ea_learned), offsetof(ea_sizes, learned),
                        offsetof(ea_answer, learned)},
    [ANSWER_ENGINE] = {sizeof(ea_engine_completed), offsetof(ea_sizes, engine_completed),
                       offsetof(ea_answer, engine_completed)},
    [ANSWER_RECALLED] = {sizeof(ea_recall_result), offsetof(ea_sizes, recall_result),
                         offsetof(ea_answer, recalled)},
    [ANSWER_COVARIANCE] = {sizeof(ea_covariance_result), offsetof(ea_sizes, covariance_result),
                           offsetof(ea_answer, covariance)},
    [ANSWER_CLUSTERS] = {sizeof(ea_clusters), offsetof(ea_sizes, clusters),
                         offsetof(ea_answer, clusters)},
    [ANSWER_SWAPPED] = {sizeof(ea_swapped), offsetof(ea_sizes, swapped),
                        offsetof(ea_answer, swapped)},
};

static enum answer answer_of(const struct client_request *r)
{
    return r->kind < sizeof answers ? (enum answer)answers[r->kind] : ANSWER_NONE;
}

void ea_copy_struct(void *to, size_t to_bytes, const void *from, size_t from_bytes)
{
    size_t both = to_bytes < from_bytes ? to_bytes : from_bytes;
    memcpy(to, from, both);
    memset((char *)to + both, 0, to_bytes - both);
}

ea_status ea_answer_prepare(ea_client *c, struct client_request *r)
{
    enum answer answer = answer_of(r);
    if (r->answer || answer == ANSWER_NONE || answer == ANSWER_RESULT) return EA_OK;
    r->answer = calloc(1, types[answer].bytes);
    if (!r->answer)
        return ea_fail(c, EA_RESOURCE_EXHAUSTED, EA_DETAIL_MEMORY, "no memory for an answer");
    r->answer_is_ours = true;
    return EA_OK;
}

void ea_answer_drop(struct client_request *r)
{
    if (r->answer_is_ours) free(r->answer);
    r->answer = NULL;
    r->answer_is_ours = false;
}

/* Takes the struct with the answer out of the request; the memory that it points to goes with
 * it. */
static void *take(struct client_request *r, enum answer answer)
{
    if (answer == ANSWER_RESULT) return &r->result;
    void **memory = answer == ANSWER_SPREAD        ? &((ea_spread_result *)r->answer)->memory
                    : answer == ANSWER_NODES       ? &((ea_nodes *)r->answer)->memory
                    : answer == ANSWER_HOLOGRAPHIC ? &((ea_hrr_result *)r->answer)->memory
                    : answer == ANSWER_COMPLETED   ? &((ea_completed *)r->answer)->memory
                    : answer == ANSWER_ENGINE      ? &((ea_engine_completed *)r->answer)->memory
                    : answer == ANSWER_RECALLED    ? &((ea_recall_result *)r->answer)->memory
                    : answer == ANSWER_COVARIANCE  ? &((ea_covariance_result *)r->answer)->memory
                    : answer == ANSWER_CLUSTERS    ? &((ea_clusters *)r->answer)->memory
                                                   : NULL;
    if (memory) {
        *memory = r->result.memory;
        r->result = (ea_result){0};
    }
    return r->answer;
}

void ea_answer_give(ea_client *c, struct client_request *r, void *out)
{
    enum answer answer = answer_of(r);
    if (!out || answer == ANSWER_NONE) return;
    const struct answer_type *t = &types[answer];
    size_t bytes;
    memcpy(&bytes, (const char *)&c->sizes + t->size_at, sizeof bytes);
    ea_copy_struct(out, bytes, take(r, answer), t->bytes);
    if (answer == ANSWER_RESULT) r->result = (ea_result){0};
}

void ea_answer_callback(ea_client *c, struct client_request *r)
{
    enum answer answer = answer_of(r);
    ea_answer given = {.request_id = r->id, .status = r->note.code};
    bool ok = !r->note.code;
    void *held = ok ? take(r, answer) : NULL;
    if (ok && answer != ANSWER_NONE)
        memcpy((char *)&given + types[answer].member_at, &held, sizeof held);
    /* of an upsert it has only meta, of added weights the sums */
    if (ok && r->result.meta && (answer == ANSWER_UPSERTED || answer == ANSWER_CHANGED))
        given.result = &r->result;
    r->callback(c, &given, r->user);
    if (ok && answer == ANSWER_SPREAD) ea_spread_result_free(held);
    if (ok && answer == ANSWER_NODES) ea_nodes_free(held);
    if (ok && answer == ANSWER_HOLOGRAPHIC) ea_hrr_result_free(held);
    if (ok && answer == ANSWER_COMPLETED) ea_completed_free(held);
    if (ok && answer == ANSWER_ENGINE) ea_engine_completed_free(held);
    if (ok && answer == ANSWER_RECALLED) ea_recall_result_free(held);
    if (ok && answer == ANSWER_COVARIANCE) ea_covariance_result_free(held);
    if (ok && answer == ANSWER_CLUSTERS) ea_clusters_free(held);
}
