#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/graph_inside.h"
#include "daemon/store/space_inside.h"

static enum status name_check(const char *name, struct failure *f)
{
    if (collection_name_check(name, NULL) == STATUS_OK) return STATUS_OK;
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NAME,
                       "a graph name has 1 to 64 bytes of [A-Za-z0-9._-]");
}

static enum status check_free(const struct store *s, const struct space *space, const char *name,
                              struct failure *f)
{
    struct graph *g = NULL;
    HASH_FIND_STR(space->graphs, name, g);
    if (g)
        return failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_GRAPH_EXISTS, "graph '%s' exists",
                           name);
    return store_check_room(s, space, f);
}

enum status store_graph_prepare(struct store *s, struct space *space, const char *name,
                                struct failure *f, struct graph **out)
{
    enum status st = name_check(name, f);
    if (st) return st;
    st = graph_create(s->heap, space, name, out);
    return st ? heap_refuse(s->heap, st, space->number, "a graph", f) : STATUS_OK;
}

enum status store_graph_link(struct store *s, struct graph *g, struct failure *f)
{
    struct space *space = g->resident.space;
    enum status st = check_free(s, space, g->resident.name, f);
    if (st) return st;
    if (!fault_here("store: graph name")) HASH_ADD_STR(space->graphs, resident.name, g);
    if (!g->hh.tbl)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for a graph's name");
    space->graph_count++;
    return STATUS_OK;
}

enum status store_graph_create(struct store *s, struct space *space, const char *name,
                               struct failure *f, struct graph **out)
{
    struct graph *g = NULL;
    enum status st = name_check(name, f);
    if (!st) st = check_free(s, space, name, f);
    if (!st) st = store_graph_prepare(s, space, name, f, &g);
    if (!st) st = store_graph_link(s, g, f);
    if (st)
        graph_destroy(g);
    else
        *out = g;
    return st;
}

enum status store_graph_find(struct store *s, struct space *space, const char *name,
                             struct failure *f, struct graph **out)
{
    enum status st = name_check(name, f);
    if (st) return st;
    struct graph *g = NULL;
    HASH_FIND_STR(space->graphs, name, g);
    if (!g)
        return failure_set(f, STATUS_NOT_FOUND, DETAIL_UNKNOWN_GRAPH, "there is no graph '%s'",
                           name);
    *out = g;
    return STATUS_OK;
}

static void name_add(struct space *space, struct graph *g)
{
    HASH_ADD_STR(space->graphs, resident.name, g);
}

static void name_remove(struct space *space, struct graph *g)
{
    HASH_DEL(space->graphs, g);
}

void store_graph_unlink(struct store *s, struct space *space, struct graph *g)
{
    name_remove(space, g);
    space->graph_count--;
}

void store_graph_rename(struct space *space, struct graph *g, const char *name)
{
    struct graph filler = {0};
    UT_hash_table *table = space->graphs->hh.tbl;
    unsigned noexpand = table->noexpand;
    table->noexpand = 1;
    name_add(space, &filler);
    name_remove(space, g);
    resident_set_name(&g->resident, name);
    name_add(space, g);
    name_remove(space, &filler);
    g->hh.tbl->noexpand = noexpand;
}

struct resident *store_graph_made_by(const struct space *space, uint64_t maker)
{
    for (struct graph *g = space->graphs; g; g = g->hh.next)
        if (g->resident.maker == maker) return &g->resident;
    return NULL;
}

struct graph_totals store_graph_totals(const struct space *space)
{
    struct graph_totals sum = {.graphs = space->graph_count};
    for (const struct graph *g = space->graphs; g; g = g->hh.next) {
        struct graph_info info = graph_info(g);
        sum.nodes += info.nodes;
        sum.edges += info.edges;
        sum.bytes += info.edge_bytes + info.node_bytes + info.work_bytes;
    }
    return sum;
}

size_t store_graph_list(struct store *s, struct space *space, const char *after, struct graph **out,
                        size_t max, bool *more)
{
    /* Keeps the max smallest names past `after`, sorted, while walking all names. */
    size_t count = 0;
    *more = false;
    for (struct graph *g = space->graphs; g; g = g->hh.next) {
        const char *name = g->resident.name;
        if (name_is_hidden(name) || strcmp(name, after) <= 0) continue;
        size_t at = count;
        while (at && strcmp(out[at - 1]->resident.name, name) > 0)
            at--;
        if (count == max) *more = true;
        if (at == max) continue;
        size_t tail = (count < max ? count : max - 1) - at;
        memmove(&out[at + 1], &out[at], tail * sizeof *out);
        out[at] = g;
        if (count < max) count++;
    }
    return count;
}
