#include "daemon/store/restore.h"

#include <limits.h>

#include "daemon/store/attractor_inside.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/graph_inside.h"
#include "daemon/store/space_inside.h"

void collection_restore(struct collection *c, uint64_t version)
{
    atomic_store_explicit(&c->now->version, version, memory_order_relaxed);
    resident_set_version(&c->resident, version);
}

struct graph_bounds graph_bounds_of(const struct graph_edition *e)
{
    return (struct graph_bounds){
        .weight_exponent = e->weight_exponent == INT_MIN ? GRAPH_EXPONENT_MIN : e->weight_exponent,
        .factor_exponent = e->factor_exponent,
        .in_count_max = e->sides[SIDE_IN].count_max,
        .out_count_max = e->sides[SIDE_OUT].count_max,
    };
}

void graph_restore(struct graph *g, uint64_t version, const struct graph_bounds *bounds)
{
    struct graph_edition *e = g->now;
    if (e->weight_exponent != INT_MIN && e->weight_exponent < bounds->weight_exponent)
        e->weight_exponent = bounds->weight_exponent;
    if (e->factor_exponent < bounds->factor_exponent) e->factor_exponent = bounds->factor_exponent;
    const uint32_t bound[SIDES] = {
        [SIDE_OUT] = bounds->out_count_max, [SIDE_IN] = bounds->in_count_max};
    for (int side = 0; side < SIDES; side++) {
        struct graph_side *s = &e->sides[side];
        if (s->count_max < bound[side]) s->count_max = bound[side];
        atomic_store_explicit(&e->known.count_max[side], s->count_max, memory_order_relaxed);
    }
    atomic_store_explicit(&e->version, version, memory_order_relaxed);
    resident_set_version(&g->resident, version);
}

bool attractor_is_first(const struct attractor_edition *e)
{
    return e->first;
}

void attractor_make_all(struct attractor *a, const struct attractor_kernels *k)
{
    struct dentate *d = a->dentate;
    if (!d->made) { /* else attractors that are in use read it */
        dentate_make(d, k, 0, dentate_rows(d));
        d->made = true;
    }
    if (a->now->first) attractor_make(a, k, 0, a->dimension);
}

void attractor_restore(struct attractor *a, uint64_t version, uint64_t patterns)
{
    a->now->version = version;
    a->now->patterns = patterns;
    resident_set_version(&a->resident, version);
}

uint64_t store_last_version(const struct store *s)
{
    return atomic_load_explicit(&s->versions, memory_order_relaxed);
}

void store_restore_version(struct store *s, uint64_t version)
{
    atomic_store_explicit(&s->versions, version, memory_order_relaxed);
}

void store_count_versions(struct store *s, struct space *space, _Atomic uint64_t *versions)
{
    space->versions = versions ? versions : &s->versions;
}

void store_space_empty(struct store *s, struct space *space)
{
    struct collection *c;
    struct graph *g;
    struct attractor *a;
    space->users++;
    while ((c = space->collections)) {
        store_collection_unlink(s, space, c);
        collection_destroy(c);
    }
    while ((g = space->graphs)) {
        store_graph_unlink(s, space, g);
        graph_destroy(g);
    }
    while ((a = space->attractors)) {
        store_attractor_unlink(s, space, a);
        attractor_destroy(a);
    }
    store_space_release(s, space);
}

static void note_hidden(const struct resident *r, uint64_t *since)
{
    if (name_is_hidden(r->name) && r->since < *since) *since = r->since;
}

uint64_t store_hidden_since(const struct store *s)
{
    uint64_t since = UINT64_MAX;
    for (const struct space *at = store_space_next(s, NULL); at; at = store_space_next(s, at)) {
        for (const struct collection *c = at->collections; c; c = c->hh.next)
            note_hidden(&c->resident, &since);
        for (const struct graph *g = at->graphs; g; g = g->hh.next)
            note_hidden(&g->resident, &since);
        for (const struct attractor *a = at->attractors; a; a = a->hh.next)
            note_hidden(&a->resident, &since);
    }
    return since;
}
