/* Samples of clusterings. */
#include <string.h>

#include "tests/support/sample_inside.h"

static engram_accel_v1_ClusterRequest *begin(struct sample *s, const char *collection)
{
    engram_accel_v1_ClusterRequest *m = &s->message.cluster;
    sample_begin(s, OPERATION_CLUSTER, engram_accel_v1_ClusterRequest_fields);
    strcpy(m->collection, collection);
    return m;
}

void sample_make_cluster(struct sample *s)
{
    (void)begin(s, "rows");
}

void sample_make_cluster_ids(struct sample *s)
{
    engram_accel_v1_ClusterRequest *m = begin(s, "rows");
    m->rule = engram_accel_v1_ClusterRule_CLUSTER_RULE_AVERAGE;
    m->has_size_min = true, m->size_min = 1;
    m->has_score_min = true, m->score_min = -0.5F;
    ADD(*m, ids, DTYPE_UINT64, 3, 1);
    ADD(*m, times, DTYPE_FLOAT32, 3, 1);
}

void sample_make_cluster_inline(struct sample *s)
{
    engram_accel_v1_ClusterRequest *m = begin(s, "");
    m->has_threshold = true, m->threshold = 0.25F;
    m->has_clusters_max = true, m->clusters_max = 7;
    ADD(*m, rows, DTYPE_FLOAT32, 5, 4);
}
