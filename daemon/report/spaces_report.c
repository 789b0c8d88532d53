#include "daemon/report/spaces_report.h"

#include <assert.h>
#include <string.h>

#include "daemon/report/scheduler_report.h"
#include "daemon/cards/cards.h"
#include "daemon/store/attractor.h"
#include "daemon/store/graph.h"

enum { PAGE_MAX = 32 };

static struct wire_space row_of(const struct report_sources *from, struct space *s, bool own)
{
    struct graph_totals graphs = store_graph_totals(s);
    struct attractor_totals attractors = store_attractor_totals(s);
    struct wire_space row = {
        .name = s->name,
        .own = own,
        .collections = s->collection_count,
        .rows = space_row_count(s),
        .graphs = graphs.graphs,
        .graph_nodes = graphs.nodes,
        .graph_edges = graphs.edges,
        .attractors = attractors.attractors,
        .attractor_patterns = attractors.patterns,
        .vram_bytes = from->gpu ? replicas_space_bytes(from->gpu, s) : 0,
    };
    scheduler_report_space(s, heap_owner_bytes(from->heap, s->number), &row.use);
    return row;
}

/* Adds a space to the first ones by name; the last one goes if there is no room. */
static size_t add(struct space **found, size_t count, size_t max, struct space *s)
{
    size_t at = count;
    if (count == max && strcmp(found[max - 1]->name, s->name) < 0) return count;
    if (at == max) at--;
    for (; at && strcmp(found[at - 1]->name, s->name) > 0; at--)
        found[at] = found[at - 1];
    found[at] = s;
    return count < max ? count + 1 : max;
}

size_t spaces_report(const struct report_sources *from, const struct store *store,
                     const struct space *own, const char *after, struct wire_space *out, size_t max,
                     bool *more)
{
    struct space *found[PAGE_MAX];
    size_t count = 0, all = 0;
    assert(max && max <= PAGE_MAX);
    struct space *s = store_space_next(store, NULL);
    for (; s; s = store_space_next(store, s)) {
        bool shown = s == own || (from->asking && from->asking->is_operator);
        if (!shown || strcmp(s->name, after) <= 0) continue;
        all++;
        count = add(found, count, max, s);
    }
    for (size_t i = 0; i < count; i++)
        out[i] = row_of(from, found[i], found[i] == own);
    *more = all > count;
    return count;
}
