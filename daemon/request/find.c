#include "daemon/request/find.h"

#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

struct resident *find_resident(struct pipeline *p, const struct job *j, enum object_kind kind,
                               const char *name, struct failure *f)
{
    struct collection *c;
    struct graph *g;
    struct attractor *a;
    switch (kind) {
    case OBJECT_GRAPH:
        return store_graph_find(p->store, j->space, name, f, &g) ? NULL : graph_resident(g);
    case OBJECT_COLLECTION:
        return store_collection_find(p->store, j->space, name, f, &c) ? NULL
                                                                      : collection_resident(c);
    case OBJECT_ATTRACTOR:
        return store_attractor_find(p->store, j->space, name, f, &a) ? NULL : attractor_resident(a);
    case OBJECT_NONE: break;
    }
    return NULL;
}
