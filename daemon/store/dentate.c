#include "daemon/store/dentate.h"

#include <stdlib.h>

#include "daemon/base/fault.h"

static struct dentate *find(const struct space *space, uint32_t dimension)
{
    struct dentate *d = space->dentates;
    while (d && d->dimension != dimension)
        d = d->next;
    return d;
}

enum status dentate_take(struct heap *heap, struct space *space, uint32_t dimension,
                         struct failure *f, struct dentate **out)
{
    struct dentate *d = find(space, dimension);
    if (!d) {
        d = fault_here("store: dentate") ? NULL : calloc(1, sizeof *d);
        if (!d)
            return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                               "no memory for a dentate matrix");
        uint64_t bytes = dentate_bytes(dimension);
        enum status st = heap_take_fresh(heap, bytes, space->number, &d->block);
        if (st) {
            free(d);
            return heap_refuse(heap, st, space->number, "the dentate matrix", f);
        }
        d->dimension = dimension;
        d->next = space->dentates;
        space->dentates = d;
    }
    d->users++;
    *out = d;
    return STATUS_OK;
}

void dentate_give(struct heap *heap, struct space *space, struct dentate *d)
{
    if (!d || --d->users) return;
    struct dentate **at = &space->dentates;
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    heap_give(heap, &d->block);
    free(d);
}

void dentate_make(struct dentate *d, const struct attractor_kernels *k, uint64_t first,
                  uint64_t count)
{
    float *rows = d->block.data;
    k->dentate(d->dimension, first, count, rows + first * vector_stride(d->dimension));
}
