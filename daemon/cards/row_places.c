#include "daemon/cards/row_places.h"

#include <stdlib.h>

#include "daemon/base/fault.h"

struct row_places *row_places_make(struct heap *heap, const struct edition *e, uint32_t space)
{
    uint64_t rows = collection_rows(e), each = collection_segment_rows(e);
    uint64_t bytes = (rows + each - 1) / each * sizeof(uint64_t);
    struct row_places *p = fault_here("cards: row places") ? NULL : calloc(1, sizeof *p);
    if (!p || !bytes || heap_take_past_quota(heap, bytes, space, &p->block)) {
        free(p);
        return NULL;
    }
    uint64_t *places = p->block.data;
    for (uint64_t first = 0; first < rows; first += each)
        *places++ = heap_place(heap, collection_row(e, (uint32_t)first));
    p->holders = 1;
    p->version = collection_version(e);
    p->segment_rows = each;
    return p;
}

void row_places_give(struct heap *heap, struct row_places *p)
{
    if (!p || --p->holders) return;
    heap_give(heap, &p->block);
    free(p);
}
