#include "daemon/request/progress.h"

#include "daemon/cards/cards.h"
#include "daemon/wire/encode.h"

uint64_t progress_wake_ns(const struct pipeline *p)
{
    return p->telling ? p->tell_ns : UINT64_MAX;
}

/* What runs in j's place: what several requests run as, or j. */
static struct progress_view view_of(const struct job *j)
{
    const struct job *runs = j->carrier ? j->carrier : j;
    if (j->state != JOB_RUNNING) return (struct progress_view){.phase = PROGRESS_WAITING};
    if (runs->backend != BACKEND_CPU) return cards_progress(runs);
    return progress_read(&runs->progress, atomic_load(&runs->parts_left));
}

static void tell(struct pipeline *p, const struct job *j, uint64_t now_ns)
{
    struct connection *c = net_find(p->net, j->key.connection);
    if (!c || c->closing || c->finishing) return;
    if (c->output_bytes && c->told_ns != now_ns) return; /* it does not read; or in this turn */
    c->told_ns = now_ns;
    struct wire_progress said = {
        .view = view_of(j),
        .elapsed_ns = now_ns - j->received_ns,
        .foreseen_ns = j->foreseen_ns,
        .backend = j->state == JOB_RUNNING ? j->backend : BACKEND_NONE,
    };
    void *at = connection_reserve(c, ENCODE_PROGRESS_BYTES);
    if (at) connection_commit(c, encode_progress(j->kind, j->key.request_id, &said, at));
}

void progress_tell(struct pipeline *p, uint64_t now_ns)
{
    if (!p->telling || now_ns < p->tell_ns) return;
    p->tell_ns = now_ns + TELL_GAP_NS;
    for (uint32_t i = 1; i < p->fresh_jobs; i++) {
        const struct job *j = &p->jobs[i];
        if (!j->tells || now_ns < j->received_ns + TELL_GAP_NS) continue;
        if (j->state == JOB_WAITING || j->state == JOB_QUEUED || j->state == JOB_RUNNING)
            tell(p, j, now_ns);
    }
}
