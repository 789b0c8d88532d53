#include "daemon/request/saves_count.h"

#include <stdio.h>
#include <time.h>

#define SECOND_NS UINT64_C(1000000000)

void saves_count(struct saves *s, const struct persist_report *r, const struct failure *why,
                 bool stops, uint64_t now_ns)
{
    struct saves_counted *c = &s->counted;
    if (!s->for_all) return;
    if (why->code == STATUS_CANCELLED || (why->code && stops)) {
        c->given_up++;
        return;
    }
    c->failing = why->code != STATUS_OK;
    snprintf(c->error, sizeof c->error, "%s", c->failing ? why->text : "");
    if (!r || c->failing) {
        c->failed++;
        return;
    }
    c->done++;
    c->written_bytes += r->bytes - r->linked_bytes;
    c->duration_ns = now_ns - s->began_ns;
    c->current_ns = s->began_ns;
}

static uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

struct wire_snapshots saves_seen(const struct pipeline *p, uint64_t now_ns)
{
    const struct saves *s = &p->saves;
    const struct saves_counted *c = &s->counted;
    struct persist_newest newest;
    if (!s->persist || !persist_keeps(s->persist)) return (struct wire_snapshots){0};
    persist_newest(s->persist, &newest);
    return (struct wire_snapshots){
        .kept = true,
        .number = newest.number,
        .saved_s = newest.saved_s,
        .age_ns = newest.number ? since(newest.saved_s, (uint64_t)time(NULL)) * SECOND_NS : 0,
        .bytes = newest.bytes,
        .duration_ns = c->duration_ns,
        .done = c->done,
        .failed = c->failed,
        .given_up = c->given_up,
        .written_bytes = c->written_bytes,
        .lag_ns = since(c->current_ns, now_ns),
        .every_ns = p->config->persist_every_s * SECOND_NS,
        .failing = c->failing,
        .error = c->error,
    };
}
