#include "daemon/report/slow_log.h"

#include <stdio.h>
#include <string.h>

static uint64_t between(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns && to_ns > from_ns ? to_ns - from_ns : 0;
}

const struct wire_slow *slow_log_add(struct slow_log *l, const struct job *j, const char *peer,
                                     uint64_t now_ns)
{
    struct wire_slow *s = &l->kept[l->count % SLOW_KEPT];
    const struct ticket *t = &j->ticket;
    bool on_cpu = j->backend == BACKEND_CPU;
    *s = (struct wire_slow){
        .number = ++l->count,
        .answered_ns = now_ns,
        .request_id = j->key.request_id,
        .operation = j->operation,
        .code = j->failure.code,
        .detail = j->failure.code ? j->failure.detail : DETAIL_NONE,
        .backend = j->backend,
        .reason = j->reason,
        .total_ns = between(j->received_ns, now_ns),
        .queue_ns = between(j->received_ns, j->started_ns),
        .run_ns = between(j->started_ns, j->finished_ns),
        .copy_ns = j->copy_ns,
        .predicted_ns = on_cpu ? t->cpu_ns : t->gpu_ns,
        .other_ns = on_cpu ? t->gpu_ns : t->cpu_ns,
        .wait_ns = t->wait_ns,
        .version = j->result.version,
        .screen = j->screen,
        .batch = j->batch,
        .dimension = t->work.stride,
        .k = t->work.k,
        .queries = t->work.queries,
        .rows = t->work.rows,
        .request_bytes = j->body_bytes,
        .reply_bytes = j->failure.code ? 0 : j->result.body_bytes,
    };
    snprintf(s->space, sizeof s->space, "%s", j->space->name);
    snprintf(s->name, sizeof s->name, "%s", j->request.names[0]);
    snprintf(s->peer, sizeof s->peer, "%s", peer);
    return s;
}

void slow_log_page(const struct slow_log *l, const struct slow_log_view *view, uint64_t before,
                   struct wire_slowlog *out)
{
    uint64_t oldest = l->count > SLOW_KEPT ? l->count - SLOW_KEPT + 1 : 1;
    uint64_t number = before && before <= l->count ? before - 1 : l->count;
    out->count = 0;
    out->next = 0;
    out->total = l->count;
    for (; number >= oldest && number; number--) {
        const struct wire_slow *s = &l->kept[(number - 1) % SLOW_KEPT];
        if (!view->all && strcmp(s->space, view->space) != 0) continue;
        if (out->count == ENCODE_SLOW_MAX) {
            out->next = number + 1;
            return;
        }
        out->tells_peer[out->count] = view->all || strcmp(s->peer, view->peer) == 0;
        out->requests[out->count++] = s;
    }
}

void slow_log_copy(const struct slow_log *l, uint64_t now_ns, struct slow_copy *out)
{
    out->now_ns = now_ns;
    out->total = l->count;
    out->count = l->count < SLOW_COPIED ? (uint32_t)l->count : SLOW_COPIED;
    for (uint32_t i = 0; i < out->count; i++)
        out->requests[i] = l->kept[(l->count - 1 - i) % SLOW_KEPT];
}
