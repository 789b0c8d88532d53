/* cluster: clusters of similar vectors. */
#include <string.h>

#include "client/calls/calls.h"

static void take_count(const uint32_t *from, bool *present, uint32_t *value)
{
    *present = from != NULL;
    if (from) *value = *from;
}

static engram_accel_v1_ClusterRequest message_of(const ea_cluster_question *q)
{
    engram_accel_v1_ClusterRequest m = {
        .rule = (engram_accel_v1_ClusterRule)q->rule,
        .into_first = q->into_first,
        .dry_run = q->dry_run,
    };
    ea_take_number(q->threshold, &m.has_threshold, &m.threshold);
    ea_take_number(q->threshold_second, &m.has_threshold_second, &m.threshold_second);
    ea_take_number(q->score_min, &m.has_score_min, &m.score_min);
    take_count(q->size_min, &m.has_size_min, &m.size_min);
    take_count(q->clusters_max, &m.has_clusters_max, &m.clusters_max);
    return m;
}

static ea_status add_rows(ea_client *c, struct client_request *r, const ea_cluster_question *q,
                          engram_accel_v1_ClusterRequest *m)
{
    if (q->collection ? q->rows != NULL : q->ids != NULL)
        return ea_fail(c, EA_INVALID_ARGUMENT, EA_DETAIL_BAD_SHAPE,
                       "ids are of a collection, rows are sent along without one");
    if (!q->collection) {
        ea_status st = ea_check_dimension(c, q->dimension);
        return st ? st : TENSOR(*m, rows, F32, q->rows, q->count, q->dimension);
    }
    ea_status st = ea_check_name(c, "collection", q->collection, m->collection);
    return st || !q->ids ? st : TENSOR(*m, ids, U64, q->ids, q->count, 1);
}

static ea_status build(ea_client *c, const ea_cluster_question *question,
                       struct client_request **out)
{
    if (!question) return ea_fail_null(c, "question");
    EA_TAKE(c, cluster_question, q, question);
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_CLUSTER);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    engram_accel_v1_ClusterRequest m = message_of(&q);
    ea_status st = add_rows(c, r, &q, &m);
    if (!st && q.times) st = TENSOR(m, times, F32, q.times, q.time_count, 1);
    if (!st && q.into) st = ea_check_name(c, "into", q.into, m.into);
    /* a repetition would read what the first one has written */
    if (m.into[0] && strcmp(m.into, m.collection) == 0) r->repeatable = false;
    bool all = q.collection && !q.ids;
    r->expect = (struct expectation){.rows = all ? 0 : q.count,
                                     .dimension = q.collection ? 0 : q.dimension,
                                     .by_position = all,
                                     .dry = q.dry_run};
    return ea_build_write(c, r, st, engram_accel_v1_ClusterRequest_fields, &m, q.write, out);
}

ea_status ea_cluster(ea_client *c, const ea_cluster_question *question, ea_clusters *out)
{
    if (!c) return EA_INVALID_ARGUMENT;
    if (!out) return ea_fail_null(c, "out");
    ea_clusters_free(out);
    struct client_request *r;
    ea_status st = build(c, question, &r);
    return st ? st : ea_call(c, r, out);
}

ea_status ea_cluster_send(ea_client *c, const ea_cluster_question *question,
                          const ea_send_options *how, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = build(c, question, &r);
    return st ? st : ea_send(c, r, how, request_id);
}
