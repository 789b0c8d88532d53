/* Samples of attractors and what they complete. */
#include <string.h>

#include "tests/support/sample_inside.h"

void sample_make_attractor_create(struct sample *s)
{
    sample_begin(s, OPERATION_ATTRACTOR_CREATE, engram_accel_v1_AttractorCreateRequest_fields);
    engram_accel_v1_AttractorCreateRequest *m = &s->message.attractor_create;
    strcpy(m->name, "traces");
    m->dimension = 4;
    m->has_sparsity = m->has_rate = true;
    m->sparsity = 0.5F;
    m->rate = 0.25F;
}

void sample_make_attractor_drop(struct sample *s)
{
    sample_begin(s, OPERATION_ATTRACTOR_DROP, engram_accel_v1_AttractorDropRequest_fields);
    strcpy(s->message.attractor_drop.name, "traces");
}

void sample_make_attractor_list(struct sample *s)
{
    sample_begin(s, OPERATION_ATTRACTOR_LIST, engram_accel_v1_AttractorListRequest_fields);
    strcpy(s->message.attractor_list.after, "t");
}

void sample_make_attractor_describe(struct sample *s)
{
    sample_begin(s, OPERATION_ATTRACTOR_DESCRIBE, engram_accel_v1_AttractorDescribeRequest_fields);
    strcpy(s->message.attractor_describe.name, "traces");
}

void sample_make_attractor_learn(struct sample *s)
{
    sample_begin(s, OPERATION_ATTRACTOR_LEARN, engram_accel_v1_AttractorLearnRequest_fields);
    strcpy(s->message.attractor_learn.attractor, "traces");
    ADD(s->message.attractor_learn, rows, DTYPE_FLOAT32, 2, 4);
}

void sample_make_attractor_learn_ids(struct sample *s)
{
    sample_begin(s, OPERATION_ATTRACTOR_LEARN, engram_accel_v1_AttractorLearnRequest_fields);
    strcpy(s->message.attractor_learn.attractor, "traces");
    strcpy(s->message.attractor_learn.collection, "rows");
    ADD(s->message.attractor_learn, ids, DTYPE_UINT64, 3, 1);
}

void sample_make_attractor_fetch(struct sample *s)
{
    sample_begin(s, OPERATION_ATTRACTOR_FETCH, engram_accel_v1_AttractorFetchRequest_fields);
    strcpy(s->message.attractor_fetch.attractor, "traces");
}

void sample_make_attractor_set(struct sample *s)
{
    sample_begin(s, OPERATION_ATTRACTOR_SET, engram_accel_v1_AttractorSetRequest_fields);
    strcpy(s->message.attractor_set.attractor, "traces");
    ADD(s->message.attractor_set, weights, DTYPE_FLOAT32, 4, 4);
}

void sample_make_complete_engine(struct sample *s)
{
    sample_begin(s, OPERATION_COMPLETE_ENGINE, engram_accel_v1_CompleteEngineRequest_fields);
    strcpy(s->message.complete_engine.attractor, "traces");
    strcpy(s->message.complete_engine.collection, "rows");
    ADD(s->message.complete_engine, cues, DTYPE_FLOAT32, 2, 4);
    ADD(s->message.complete_engine, mask, DTYPE_UINT8, 1, 4);
}
