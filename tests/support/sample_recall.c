/* Samples of completion and recall. */
#include <string.h>

#include "tests/support/sample_inside.h"

static engram_accel_v1_CompleteRequest *begin_complete(struct sample *s)
{
    engram_accel_v1_CompleteRequest *m = &s->message.complete;
    sample_begin(s, OPERATION_COMPLETE, engram_accel_v1_CompleteRequest_fields);
    strcpy(m->collection, "rows");
    m->beta = 8;
    m->rounds = 3;
    ADD(*m, states, DTYPE_FLOAT32, 2, 4);
    return m;
}

void sample_make_complete(struct sample *s)
{
    (void)begin_complete(s);
}

void sample_make_complete_masked(struct sample *s)
{
    engram_accel_v1_CompleteRequest *m = begin_complete(s);
    m->unit = true;
    ADD(*m, mask, DTYPE_UINT8, 1, 4);
}
