#include "daemon/store/resident.h"

#include <string.h>

#include "daemon/store/collection.h"
#include "daemon/store/graph_inside.h"

void resident_init(struct resident *r, enum resident_kind kind, struct space *space,
                   const char *name)
{
    r->kind = kind;
    r->space = space;
    strncpy(r->name, name, COLLECTION_NAME_MAX);
}

/* A resident is the first member of its collection or graph, so that it can be cast to it. */
static struct collection *as_collection(const struct resident *r)
{
    return r->kind == RESIDENT_COLLECTION ? (struct collection *)r : NULL;
}

static struct graph *as_graph(const struct resident *r)
{
    return (struct graph *)r;
}

static uint64_t collection_bytes(const struct collection *c)
{
    uint64_t row_bytes = vector_stride(collection_dimension(c)) * sizeof(float);
    /* its id and norm */
    return collection_rows(c) * (row_bytes + sizeof(uint64_t) + sizeof(float));
}

static uint64_t graph_bytes(const struct graph *g)
{
    uint64_t bytes = 0;
    for (int part = 0; part < GRAPH_PARTS; part++)
        bytes += graph_known_part_bytes(g, (enum graph_part)part);
    return bytes;
}

uint64_t resident_bytes(const struct resident *r)
{
    const struct collection *c = as_collection(r);
    return c ? collection_bytes(c) : graph_bytes(as_graph(r));
}

uint64_t resident_dirty_bytes(const struct resident *r)
{
    const struct collection *c = as_collection(r);
    return c ? collection_dirty_bytes(c) : graph_dirty_bytes(as_graph(r));
}

bool resident_track(struct resident *r)
{
    struct collection *c = as_collection(r);
    return c ? collection_track(c) : graph_track(as_graph(r));
}

void resident_soil(struct resident *r)
{
    struct collection *c = as_collection(r);
    if (c)
        collection_soil(c);
    else
        graph_soil(as_graph(r));
}
