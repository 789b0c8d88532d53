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

/* Two lists, and every tensor that there is. */
void sample_make_recall(struct sample *s)
{
    sample_begin(s, OPERATION_RECALL, engram_accel_v1_RecallRequest_fields);
    engram_accel_v1_RecallRequest *m = &s->message.recall;
    strcpy(m->graph, "links");
    strcpy(m->collection, "rows");
    m->mode = engram_accel_v1_SpreadMode_SPREAD_MODE_LINEAR;
    m->results = 9;
    m->k = 5;
    m->has_threshold = m->has_width = m->has_activation_min = m->has_boost = true;
    m->threshold = 0.25F;
    m->width = 0.5F;
    m->activation_min = 0.02F;
    m->boost = 1.25F;
    m->has_time_max_us = true;
    m->time_max_us = 5000;
    m->hops = 3;
    m->decay = engram_accel_v1_DecayLaw_DECAY_TABLE;
    m->paths = true;
    m->touched_max = 1000;
    ADD(*m, cues, DTYPE_FLOAT32, 3, 4);
    ADD(*m, cue_offsets, DTYPE_UINT64, 3, 1);
    memcpy(s->body + s->body_bytes - 64, (uint64_t[3]){0, 2, 3}, 24);
    ADD(*m, decay_table, DTYPE_FLOAT32, 3, 1);
    m->has_within = true;
    m->within.bitmap_first = 8;
    ADD(m->within, bitmap, DTYPE_UINT8, 70, 1);
}

/* The least that can be asked. */
void sample_make_recall_ids(struct sample *s)
{
    sample_begin(s, OPERATION_RECALL, engram_accel_v1_RecallRequest_fields);
    strcpy(s->message.recall.graph, "links");
    strcpy(s->message.recall.collection, "rows");
    ADD(s->message.recall, cue_ids, DTYPE_UINT64, 2, 1);
}
