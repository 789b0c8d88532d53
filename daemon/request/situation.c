#include "daemon/request/situation.h"

#include "daemon/cards/cards.h"
#include "daemon/ops/operation.h"

struct situation situation_of(const struct pipeline *p, const struct job *j)
{
    enum gpu_state state = p->gpu ? cards_state(p->gpu) : GPU_ABSENT;
    struct situation now_known = {
        .gave_up = j->gpu.gave_up,
        .gpu_absent = state == GPU_ABSENT,
        .gpu_down = state != GPU_READY,
        .server = SERVER_GPU,
    };
    if (now_known.gpu_down || !j->ticket.work.gpu_able) return now_known;
    struct job_replicas replicas = replicas_of_job(p->gpu, j);
    struct cards_room room = cards_room_of(p->gpu, replicas.card);
    now_known.server = SERVER_GPU + replicas.card;
    now_known.gpu_down = !room.ready;
    now_known.gpu_full = !room.jobs;
    now_known.vram_low = room.low;
    now_known.replica_ready = replicas.ready;
    now_known.replica_refused = replicas.refused;
    /* Rows that come with it cross the bus for it alone. */
    now_known.dirty_bytes = replicas.upload_bytes + operation_rows_bytes(j);
    return now_known;
}

void situation_look_at_servers(struct pipeline *p)
{
    struct scheduler *s = &p->scheduler;
    uint32_t cards = p->gpu ? cards_count(p->gpu) : 0;
    for (uint32_t i = 0; i < cards; i++) {
        struct cards_room room = cards_room_of(p->gpu, i);
        scheduler_set_server(s, SERVER_GPU + i, room.ready,
                             s->servers[SERVER_GPU + i].in_flight + room.jobs, room.bytes);
    }
}
