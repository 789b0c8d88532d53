/* Samples of the holographic operations. */
#include <string.h>

#include "tests/support/sample_inside.h"

/* Rows of a collection and one that comes, into the same collection. */
void sample_make_bind(struct sample *s)
{
    sample_begin(s, OPERATION_BIND, engram_accel_v1_BindRequest_fields);
    engram_accel_v1_BindRequest *m = &s->message.bind;
    strcpy(m->a, "rows");
    strcpy(m->into, "rows");
    m->normalize = true;
    ADD(*m, a_ids, DTYPE_UINT64, 3, 1);
    ADD(*m, b_rows, DTYPE_FLOAT32, 1, 4);
    ADD(*m, into_ids, DTYPE_UINT64, 3, 1);
}

void sample_make_bind_inline(struct sample *s)
{
    sample_begin(s, OPERATION_BIND, engram_accel_v1_BindRequest_fields);
    ADD(s->message.bind, a_rows, DTYPE_FLOAT32, 2, 5);
    ADD(s->message.bind, b_rows, DTYPE_FLOAT32, 2, 5);
}

void sample_make_unbind(struct sample *s)
{
    sample_begin(s, OPERATION_UNBIND, engram_accel_v1_UnbindRequest_fields);
    s->message.unbind.exact = true;
    ADD(s->message.unbind, a_rows, DTYPE_FLOAT32, 2, 4);
    ADD(s->message.unbind, b_rows, DTYPE_FLOAT32, 1, 4);
}

/* Lists of two rows and of one. */
void sample_make_bind_many(struct sample *s)
{
    sample_begin(s, OPERATION_BIND_MANY, engram_accel_v1_BindManyRequest_fields);
    ADD(s->message.bind_many, a_rows, DTYPE_FLOAT32, 3, 4);
    ADD(s->message.bind_many, offsets, DTYPE_UINT64, 3, 1);
    memcpy(s->body + s->body_bytes - 64, (uint64_t[3]){0, 2, 3}, 24);
}

void sample_make_superpose(struct sample *s)
{
    sample_begin(s, OPERATION_SUPERPOSE, engram_accel_v1_SuperposeRequest_fields);
    strcpy(s->message.superpose.a, "rows");
    s->message.superpose.normalize = true;
    ADD(s->message.superpose, a_ids, DTYPE_UINT64, 3, 1);
    ADD(s->message.superpose, offsets, DTYPE_UINT64, 3, 1);
    memcpy(s->body + s->body_bytes - 64, (uint64_t[3]){0, 2, 3}, 24);
    ADD(s->message.superpose, weights, DTYPE_FLOAT32, 3, 1);
}

void sample_make_permute(struct sample *s)
{
    sample_begin(s, OPERATION_PERMUTE, engram_accel_v1_PermuteRequest_fields);
    s->message.permute.shift = -3;
    ADD(s->message.permute, a_rows, DTYPE_FLOAT32, 2, 5);
}

void sample_make_random(struct sample *s)
{
    sample_begin(s, OPERATION_RANDOM, engram_accel_v1_RandomRequest_fields);
    strcpy(s->message.random.into, "rows");
    s->message.random.seed = 7;
    s->message.random.count = 2;
    s->message.random.dimension = 4;
    s->message.random.normalize = true;
    ADD(s->message.random, into_ids, DTYPE_UINT64, 2, 1);
}

void sample_make_cleanup(struct sample *s)
{
    sample_begin(s, OPERATION_CLEANUP, engram_accel_v1_CleanupRequest_fields);
    engram_accel_v1_CleanupRequest *m = &s->message.cleanup;
    strcpy(m->codebook, "rows");
    strcpy(m->b, "rows");
    m->k = 2;
    ADD(*m, a_rows, DTYPE_FLOAT32, 2, 4);
    ADD(*m, b_ids, DTYPE_UINT64, 1, 1);
}
