/* Samples of covariances. */
#include <string.h>

#include "tests/support/sample_inside.h"

static engram_accel_v1_CovarianceRequest *begin(struct sample *s, const char *collection)
{
    engram_accel_v1_CovarianceRequest *m = &s->message.covariance;
    sample_begin(s, OPERATION_COVARIANCE, engram_accel_v1_CovarianceRequest_fields);
    strcpy(m->collection, collection);
    return m;
}

void sample_make_covariance(struct sample *s)
{
    (void)begin(s, "rows");
}

void sample_make_covariance_ids(struct sample *s)
{
    engram_accel_v1_CovarianceRequest *m = begin(s, "rows");
    ADD(*m, ids, DTYPE_UINT64, 3, 1);
    ADD(*m, weights, DTYPE_FLOAT32, 3, 1);
}

void sample_make_covariance_inline(struct sample *s)
{
    engram_accel_v1_CovarianceRequest *m = begin(s, "");
    ADD(*m, rows, DTYPE_FLOAT32, 3, 4);
    ADD(*m, weights, DTYPE_FLOAT32, 3, 1);
}
