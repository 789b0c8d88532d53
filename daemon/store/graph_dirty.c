#include "daemon/store/graph_inside.h"

/* Each part has a bitmap of its own (dirty.h), in which a row is a byte and a block is a page. */
enum { PAGE_SHIFT = 16 };
_Static_assert(GRAPH_PAGE_BYTES == 1 << PAGE_SHIFT, "a block of the bitmap is a page");

void graph_dirty_init(struct graph *g)
{
    for (int part = 0; part < GRAPH_PARTS; part++)
        g->dirty[part] = (struct dirty){.shift = PAGE_SHIFT};
}

uint64_t graph_part_bytes(const struct graph_edition *e, enum graph_part part)
{
    bool absent = (part == GRAPH_KINDS || part == GRAPH_FACTORS) && !e->parts[part];
    uint64_t count = part == GRAPH_OUT_EDGES  ? e->sides[SIDE_OUT].used
                     : part == GRAPH_IN_EDGES ? e->sides[SIDE_IN].used
                                              : e->numbers;
    return absent ? 0 : count * graph_element_bytes[part];
}

static const char *data_at(const struct graph_edition *e, enum graph_part part, uint64_t first)
{
    if (part != GRAPH_OUT && part != GRAPH_IN) return (const char *)part_of(e, part) + first;
    const struct graph_pages *t = &e->lists[part == GRAPH_OUT ? SIDE_OUT : SIDE_IN];
    return (const char *)t->lists[first / GRAPH_PAGE_BYTES] + first % GRAPH_PAGE_BYTES;
}

/* How many of a run's bytes lie together; `first` begins a page. */
static uint64_t together(const struct graph_edition *e, enum graph_part part, uint64_t first,
                         uint64_t bytes)
{
    uint64_t end = GRAPH_PAGE_BYTES;
    if (part != GRAPH_OUT && part != GRAPH_IN) return bytes;
    const char *data = data_at(e, part, first);
    while (end < bytes && data_at(e, part, first + end) == data + end)
        end += GRAPH_PAGE_BYTES;
    return end < bytes ? end : bytes;
}

static bool next_run(const struct graph *g, enum graph_part part, uint64_t from,
                     struct graph_run *out)
{
    const struct graph_edition *e = g->now;
    uint64_t first, bytes;
    if (!dirty_next(&g->dirty[part], from, graph_part_bytes(e, part), &first, &bytes)) return false;
    *out = (struct graph_run){.part = part,
                              .first = first,
                              .bytes = together(e, part, first, bytes),
                              .data = data_at(e, part, first)};
    return true;
}

bool graph_next_dirty(const struct graph *g, uint64_t bytes_max, struct graph_run *out)
{
    uint64_t most = bytes_max / GRAPH_PAGE_BYTES * GRAPH_PAGE_BYTES;
    if (bytes_max && !most) most = GRAPH_PAGE_BYTES;
    for (int part = 0; part < GRAPH_PARTS; part++) {
        if (!next_run(g, (enum graph_part)part, 0, out)) continue;
        if (most && out->bytes > most) out->bytes = most;
        return true;
    }
    return false;
}

uint64_t graph_dirty_runs(const struct graph *g)
{
    uint64_t runs = 0;
    struct graph_run run;
    for (int part = 0; part < GRAPH_PARTS; part++)
        for (uint64_t from = 0; next_run(g, (enum graph_part)part, from, &run);
             from = run.first + run.bytes)
            runs++;
    return runs;
}

void graph_clean(struct graph *g, const struct graph_run *run)
{
    dirty_clean(&g->dirty[run->part], run->first, run->bytes);
}

uint64_t graph_dirty_bytes(const struct graph *g)
{
    uint64_t bytes = 0;
    for (int part = 0; part < GRAPH_PARTS; part++)
        bytes += dirty_rows(&g->dirty[part], graph_part_bytes(g->now, (enum graph_part)part));
    return bytes;
}

bool graph_track(struct graph *g)
{
    for (int part = 0; part < GRAPH_PARTS; part++) {
        if (dirty_track(&g->dirty[part], graph_part_bytes(g->now, (enum graph_part)part))) continue;
        graph_soil(g);
        return false;
    }
    return true;
}

void graph_soil(struct graph *g)
{
    for (int part = 0; part < GRAPH_PARTS; part++)
        dirty_forget(&g->dirty[part]);
}
