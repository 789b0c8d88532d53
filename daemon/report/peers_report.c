#include "daemon/report/peers_report.h"

#include <stdio.h>

#include "daemon/sched/principal.h"

static struct wire_peer_stats row_of(const struct peer *p, bool own)
{
    struct wire_peer_stats row = {
        .own = own,
        .connections = p->connections,
        .body_bytes = p->body_bytes,
        .refused_connections = p->refused_connections,
        .refused_bodies = p->refused_bodies,
    };
    snprintf(row.name, sizeof row.name, "%s", p->name);
    const struct principal *owner = p->principal;
    if (!owner) return row; /* it has not said Hello yet */
    row.requests = owner->jobs;
    row.in_line = owner->queued + owner->coming;
    row.in_line_max = owner->queue_max;
    row.refused_queue = owner->refused_queue;
    return row;
}

static bool is_busier(const struct wire_peer_stats *a, const struct wire_peer_stats *b)
{
    return a->requests != b->requests ? a->requests > b->requests : a->connections > b->connections;
}

/* Adds a row behind the first, which is the asking peer's, and those that are busier. The last one
 * has to go if there is no room. */
static void add(struct wire_stats *out, const struct wire_peer_stats *row)
{
    uint32_t at = out->peer_count;
    if (at == WIRE_PEERS_MAX) {
        out->peers_left_out++;
        if (!is_busier(row, &out->peers[--at])) return;
    } else {
        out->peer_count++;
    }
    for (; at > 1 && is_busier(row, &out->peers[at - 1]); at--)
        out->peers[at] = out->peers[at - 1];
    out->peers[at] = *row;
}

void peers_report(const struct peers *peers, const struct peer *asking, struct wire_stats *out)
{
    out->peer_count = out->peers_left_out = 0;
    if (!asking) return;
    out->peers[out->peer_count++] = row_of(asking, true);
    for (uint32_t i = 0; asking->is_operator && i < PEER_CHAINS; i++) {
        for (const struct peer *p = peers->chains[i]; p; p = p->next) {
            struct wire_peer_stats row = row_of(p, false);
            if (p != asking) add(out, &row);
        }
    }
}
