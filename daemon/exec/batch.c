#include "daemon/exec/batch.h"

#include <string.h>

#include "daemon/exec/operation.h"

void batch_add(struct job *carrier, struct job *last, struct job *m)
{
    for (uint32_t i = 0; i < OPERATION_OBJECTS_MAX; i++) {
        struct job_object *to = &carrier->objects[i];
        to->resident = m->objects[i].resident;
        to->collection = m->objects[i].collection;
        to->graph = m->objects[i].graph;
    }
    m->carrier = carrier;
    m->member_next = NULL;
    if (last)
        last->member_next = m;
    else
        carrier->members = m;
}

static enum batch_end end_of(const struct job *carrier, struct job *m)
{
    bool gpu = carrier->backend == BACKEND_GPU;
    if (gpu && carrier->gpu.gave_up && !m->gpu.gave_up) m->gpu.gave_up = carrier->gpu.gave_up;
    if (m->failure.code) return BATCH_DONE;
    if (gpu && m->gpu.gave_up) return BATCH_FALL_BACK;
    return carrier->failure.code || (gpu && carrier->gpu.again) ? BATCH_AGAIN : BATCH_DONE;
}

struct job *batch_take(struct job *carrier, enum batch_end *end)
{
    struct job *m = carrier->members;
    if (!m) return NULL;
    carrier->members = m->member_next;
    m->carrier = m->member_next = NULL;
    *end = end_of(carrier, m);
    bool done = *end == BATCH_DONE;
    m->started_ns = done ? carrier->started_ns : 0;
    m->finished_ns = done ? carrier->finished_ns : 0;
    m->copy_ns = done ? carrier->copy_ns : 0;
    m->screen = done ? carrier->screen : (struct job_screen){0};
    return m;
}

uint64_t batch_bytes(const struct job *carrier)
{
    uint64_t bytes = 0;
    for (const struct job *m = carrier->members; m; m = m->member_next)
        bytes += m->body_bytes + m->result.body_bytes;
    return bytes;
}

void batch_drop_results(struct job *carrier)
{
    for (struct job *m = carrier->members; m; m = m->member_next)
        operation_drop_result(m);
}

struct job *batch_find_query(const struct job *carrier, uint64_t number, uint64_t *own_number)
{
    for (struct job *m = carrier->members; m; m = m->member_next) {
        if (m->gpu.gave_up) continue;
        *own_number = number;
        if (number < m->request.queries.rows) return m;
        number -= m->request.queries.rows;
    }
    return NULL;
}
