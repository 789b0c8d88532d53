/* The store as a whole: made, and destroyed with all that its spaces hold. */
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/store/attractor_inside.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/graph_inside.h"
#include "daemon/store/shadow.h"
#include "daemon/store/space_inside.h"

static void forget_nothing(void *owner, struct space *space) {}

enum status store_create(struct heap *heap, const struct vector_kernels *kernels,
                         struct store **out)
{
    struct store *s = fault_here("store: struct") ? NULL : calloc(1, sizeof *s);
    if (!s) return STATUS_RESOURCE_EXHAUSTED;
    s->heap = heap;
    s->kernels = kernels;
    s->collections_max = UINT64_MAX;
    s->forget = forget_nothing;
    s->shadows = shadows_create(heap, kernels);
    if (!s->shadows) {
        free(s);
        return STATUS_RESOURCE_EXHAUSTED;
    }
    *out = s;
    return STATUS_OK;
}

void store_limit_collections(struct store *s, uint64_t per_space)
{
    s->collections_max = per_space;
}

void store_calm(struct store *s, bool calm)
{
    atomic_store_explicit(&s->calm, calm, memory_order_relaxed);
}

struct shadows *store_shadows(const struct store *s)
{
    return s->shadows;
}

void store_destroy(struct store *s)
{
    if (!s) return;
    HASH_CLEAR(hh, s->by_name);
    for (struct space *space = s->spaces; space;) {
        struct space *next = space->hh_next;
        struct collection *c = space->collections;
        HASH_CLEAR(hh, space->collections);
        while (c) {
            struct collection *after = c->hh.next;
            collection_destroy(c);
            c = after;
        }
        struct graph *g = space->graphs;
        HASH_CLEAR(hh, space->graphs);
        while (g) {
            struct graph *after = g->hh.next;
            graph_destroy(g);
            g = after;
        }
        struct attractor *a = space->attractors;
        HASH_CLEAR(hh, space->attractors);
        while (a) {
            struct attractor *after = a->hh.next;
            attractor_destroy(a);
            a = after;
        }
        s->forget(s->forget_owner, space);
        outside_end(&((struct entry *)space)->outside);
        free(space);
        space = next;
    }
    shadows_destroy(s->shadows);
    free(s);
}
