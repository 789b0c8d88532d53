/* What the fake daemon answers to completions, recalls, covariances and
 * clusterings. */
#include "tests/support/fake_inside.h"

void fake_completed(struct job *j, uint8_t *body)
{
    static const uint8_t dtypes[RESULTS_Complete] = {1, 3, 4, 1, 2, 1}; /* enum dtype */
    for (uint32_t i = 0; i < RESULTS_Complete; i++)
        fake_add(j, body, i, dtypes[i], j->request.queries.rows,
                 i ? 1 : j->request.queries.columns);
}

/* Of six patterns learned. */
void fake_engine(struct job *j, uint8_t *body)
{
    uint64_t n = j->request.queries.rows, compared = j->request.names[1][0] ? n : 0;
    j->result.counts[0] = j->request.ids.rows + j->request.rows.rows;
    j->result.counts[1] = 6;
    j->result.versions[0] = 7;
    j->result.versions[1] = j->request.names[1][0] ? 5 : 0;
    if (j->operation == OPERATION_ATTRACTOR_FETCH) fake_add(j, body, 0, DTYPE_FLOAT32, 4, 4);
    if (j->operation != OPERATION_COMPLETE_ENGINE) return;
    fake_add(j, body, RESULT_ENGINE_STATES, DTYPE_FLOAT32, n, j->request.queries.columns);
    fake_add(j, body, RESULT_ENGINE_CONFIDENCES, DTYPE_FLOAT32, n, 1);
    fake_add(j, body, RESULT_ENGINE_ROUNDS, DTYPE_UINT32, n, 1);
    fake_add(j, body, RESULT_ENGINE_CONVERGED, DTYPE_UINT8, n, 1);
    if (!compared) return;
    fake_add(j, body, RESULT_ENGINE_IDS, DTYPE_UINT64, n, 1);
    fake_add(j, body, RESULT_ENGINE_COSINES, DTYPE_FLOAT32, n, 1);
    fake_add(j, body, RESULT_ENGINE_PASSES, DTYPE_UINT8, n, 1);
}

/* One entry a list. */
void fake_recalled(struct job *j, uint8_t *body)
{
    static const uint8_t dtypes[RESULTS_Recall] = {2, 2, 1, 1, 4, 3, 3, 3, 2, 4, 2, 2};
    const struct job_request *q = &j->request;
    uint64_t lists = q->offsets.rows ? q->offsets.rows - 1 : q->queries.rows + q->ids.rows;
    uint32_t count = q->spread.paths ? RESULTS_Recall : RESULT_RECALL_PATH_OFFSETS;
    for (uint32_t i = 0; i < count; i++) {
        bool bounds = i == RESULT_RECALL_OFFSETS || i == RESULT_RECALL_PATH_OFFSETS;
        fake_add(j, body, i, dtypes[i], lists + bounds, i == RESULT_RECALL_SEEDS ? 2 : 1);
    }
    j->result.counts[0] = 1;
    j->result.versions[0] = 5;
    j->result.versions[2] = 7;
}

/* A collection has four dimensions. */
void fake_covariance(struct job *j, uint8_t *body)
{
    const struct job_request *q = &j->request;
    uint64_t d = q->rows.dtype ? q->rows.columns : 4;
    j->result.counts[0] = q->rows.rows + q->ids.rows;
    j->result.totals[0] = 5;
    j->result.totals[1] = 4;
    fake_add(j, body, RESULT_COVARIANCE_MEAN, DTYPE_FLOAT64, 1, d);
    fake_add(j, body, RESULT_COVARIANCE_COVARIANCE, DTYPE_FLOAT64, d, d);
}

/* All labels are 1, the second of two clusters. A collection has four rows of four dimensions. */
void fake_clusters(struct job *j, uint8_t *body)
{
    const struct job_request *q = &j->request;
    uint64_t given = q->rows.rows + q->ids.rows, rows = given ? given : 4;
    uint64_t columns = q->rows.dtype ? q->rows.columns : 4;
    j->result.counts[0] = 6;
    j->result.counts[1] = 7;
    fake_add(j, body, RESULT_CLUSTER_LABELS, DTYPE_UINT32, rows, 1);
    fake_add(j, body, RESULT_CLUSTER_SIZES, DTYPE_UINT32, 2, 1);
    fake_add(j, body, RESULT_CLUSTER_SCORES, DTYPE_FLOAT32, 2, 1);
    fake_add(j, body, RESULT_CLUSTER_CENTROIDS, DTYPE_FLOAT32, 2, columns);
    if (!given) fake_add(j, body, RESULT_CLUSTER_IDS, DTYPE_UINT64, rows, 1);
}
