/* progress: a frame that says how far a request is -> ea_progress_report. */
#include "client/replies/replies.h"

ea_status ea_reply_progress(const void *message, uint32_t message_bytes, ea_progress_report *out,
                            struct note *note)
{
    engram_accel_v1_Progress m;
    if (ea_reply_decode(message, message_bytes, engram_accel_v1_Progress_fields, &m, note))
        return EA_DATA_LOSS;
    if (m.total && m.done > m.total) return ea_reply_broken(note, "more is done than there is");
    *out = (ea_progress_report){
        .phase = (uint32_t)m.phase,
        .backend = (ea_backend)m.backend,
        .done = m.done,
        .total = m.total,
        .elapsed_us = m.elapsed_us,
        .foreseen_us = m.foreseen_us,
    };
    return EA_OK;
}
