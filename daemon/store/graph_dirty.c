#include "daemon/store/graph_inside.h"

/* Each part has a bitmap of its own (dirty.h), in which a row is a byte and a block is a page. */
enum { PAGE_SHIFT = 16 };
_Static_assert(GRAPH_PAGE_BYTES == 1 << PAGE_SHIFT, "a block of the bitmap is a page");

void graph_dirty_init(struct graph *g)
{
    for (int part = 0; part < GRAPH_PARTS; part++)
        g->dirty[part] = (struct dirty){.shift = PAGE_SHIFT};
}

uint64_t graph_part_bytes(const struct graph *g, enum graph_part part)
{
    if (!g->parts[part].data) return 0;
    uint64_t count = part == GRAPH_OUT_EDGES  ? g->sides[SIDE_OUT].used
                     : part == GRAPH_IN_EDGES ? g->sides[SIDE_IN].used
                                              : g->numbers;
    return count * graph_element_bytes[part];
}

bool graph_next_dirty(const struct graph *g, uint64_t bytes_max, struct graph_run *out)
{
    uint64_t most = bytes_max / GRAPH_PAGE_BYTES * GRAPH_PAGE_BYTES;
    if (bytes_max && !most) most = GRAPH_PAGE_BYTES;
    for (int part = 0; part < GRAPH_PARTS; part++) {
        uint64_t first, bytes;
        if (!dirty_next(&g->dirty[part], 0, graph_part_bytes(g, part), &first, &bytes)) continue;
        *out = (struct graph_run){
            .part = part,
            .first = first,
            .bytes = most && bytes > most ? most : bytes,
            .data = (const char *)g->parts[part].data + first,
        };
        return true;
    }
    return false;
}

uint64_t graph_dirty_runs(const struct graph *g)
{
    uint64_t runs = 0, first, bytes;
    for (int part = 0; part < GRAPH_PARTS; part++)
        for (uint64_t from = 0; dirty_next(
                 &g->dirty[part], from, graph_part_bytes(g, (enum graph_part)part), &first, &bytes);
             from = first + bytes)
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
        bytes += dirty_rows(&g->dirty[part], graph_part_bytes(g, part));
    return bytes;
}

bool graph_track(struct graph *g)
{
    for (int part = 0; part < GRAPH_PARTS; part++) {
        if (dirty_track(&g->dirty[part], graph_part_bytes(g, part))) continue;
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
