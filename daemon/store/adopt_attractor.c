/* adopt_attractor: the weights, and the dentate matrix that a space's attractors of one dimension
 * share, which comes with the first of them. */
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/store/adopt_inside.h"
#include "daemon/store/attractor_inside.h"
#include "daemon/store/restore.h"
#include "daemon/store/space_inside.h"

struct told_attractor {
    uint64_t dimension, patterns, first;
    float sparsity, rate;
    struct heap_told weights, dentate;
};

void tell_attractor(struct heap *heap, const struct vector_kernels *kernels, struct resident *r,
                    struct catalogue_writer *w)
{
    struct attractor *a = (struct attractor *)r;
    if (!a->open) attractor_make_all(a, attractor_choose(kernels->name));
    struct told_attractor t = {.dimension = a->dimension,
                               .patterns = a->now->patterns,
                               .first = a->now->first,
                               .sparsity = a->sparsity,
                               .rate = a->rate};
    heap_tell(heap, &a->now->block, &t.weights);
    heap_tell(heap, &a->dentate->block, &t.dentate);
    catalogue_put(w, &t, sizeof t);
}

static enum status adopt_dentate(struct adoption *a, const struct told_attractor *t,
                                 struct failure *f)
{
    struct dentate *d = a->space->dentates;
    struct heap_block block;
    uint32_t dimension = (uint32_t)t->dimension;
    while (d && d->dimension != dimension)
        d = d->next;
    if (d)
        return d->block.offset == t->dentate.offset
                   ? STATUS_OK
                   : adopt_refuse(a, "has another dentate matrix than those before it", f);
    enum status st = heap_adopt_block(a->heap, &t->dentate, a->space->number, &block, f);
    if (!st && block.bytes < dentate_bytes(dimension))
        st = adopt_refuse(a, "has a dentate matrix that is too small", f);
    if (st) return st;
    d = fault_here("adopt: dentate") ? NULL : calloc(1, sizeof *d);
    if (!d)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for a dentate matrix");
    *d = (struct dentate){
        .dimension = dimension, .made = true, .block = block, .next = a->space->dentates};
    a->space->dentates = d;
    return STATUS_OK;
}

/* One that no attractor uses after all. */
static void drop_dentate(struct adoption *a)
{
    struct dentate *d = a->space->dentates;
    if (!d || d->users) return;
    d->users = 1;
    dentate_give(a->heap, a->space, d);
}

enum status adopt_attractor(struct adoption *a, struct failure *f)
{
    struct told_attractor t;
    struct heap_block weights;
    struct attractor *made = NULL;
    catalogue_get(a->from, &t, sizeof t);
    struct attractor_shape shape = {(uint32_t)t.dimension, t.sparsity, t.rate};
    if (t.dimension > UINT32_MAX || attractor_shape_check(&shape, NULL))
        return adopt_refuse(a, "has a shape that cannot be", f);
    enum status st = adopt_dentate(a, &t, f);
    if (!st) st = heap_adopt_block(a->heap, &t.weights, a->space->number, &weights, f);
    if (!st && weights.bytes < attractor_block_bytes(shape.dimension))
        st = adopt_refuse(a, "has too little memory for its weights", f);
    if (!st)
        st = store_attractor_make(a->store, a->space, a->told.name, &shape, &weights, f, &made);
    if (st) {
        drop_dentate(a);
        return st;
    }
    made->now->first = t.first;
    attractor_restore(made, a->told.version, t.patterns);
    attractor_open(made);
    return STATUS_OK;
}
