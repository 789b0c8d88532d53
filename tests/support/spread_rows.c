/* spread_rows: see there. */
#include "tests/support/spread_rows.h"

#include <stdlib.h>
#include <string.h>

struct spread_row {
    uint64_t id;
    uint32_t row;
};

static void *allocate(uint64_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!memory) abort();
    return memset(memory, 0, bytes);
}

static uint64_t random_of(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct spread_row *)a)->id, y = ((const struct spread_row *)b)->id;
    return (x > y) - (x < y);
}

static bool find(void *owner, const uint64_t *ids, size_t count, const float **rows, float *norms)
{
    const struct spread_rows *r = owner;
    for (size_t i = 0; i < count; i++) {
        struct spread_row wanted = {.id = ids[i]};
        const struct spread_row *found =
            bsearch(&wanted, r->entries, r->count, sizeof wanted, by_id);
        if (!found) return false;
        rows[i] = r->rows + found->row * vector_stride(r->embeddings.dimension);
        norms[i] = r->norms[found->row];
    }
    return true;
}

/* One in eight is a copy of an earlier row, one in 40 zeros; the others lie around a common
 * direction, so that similarities differ in sign and size. */
static void fill_row(struct spread_rows *r, uint32_t row, uint64_t *seed)
{
    uint32_t dimension = r->embeddings.dimension;
    size_t stride = vector_stride(dimension);
    float *to = r->rows + row * stride;
    if (row && random_of(seed) % 8 == 0) {
        memcpy(to, r->rows + random_of(seed) % row * stride, stride * sizeof *to);
        return;
    }
    if (random_of(seed) % 40 == 0) return;
    float lean = (float)(random_of(seed) % 5) - 2;
    for (uint32_t i = 0; i < dimension; i++)
        to[i] = (float)((int64_t)random_of(seed) >> 40) * 0x1p-23f + lean * 0.3f;
}

void spread_rows_make(struct spread_rows *out, const struct spread_graph *g, uint32_t dimension,
                      uint32_t missing, uint64_t seed)
{
    size_t stride = vector_stride(dimension);
    *out = (struct spread_rows){
        .embeddings = {.dimension = dimension, .kernels = &vectors_scalar, .find = find},
        .entries = allocate(g->nodes * sizeof *out->entries),
        .rows = allocate(g->nodes * stride * sizeof *out->rows),
        .norms = allocate(g->nodes * sizeof *out->norms),
        .ids = allocate(g->nodes * sizeof *out->ids)};
    out->embeddings.owner = out;
    for (uint32_t n = 0; n < g->nodes; n++) {
        if (random_of(&seed) % 1000 < missing) continue;
        fill_row(out, out->count, &seed);
        out->ids[out->count] = g->ids[n];
        out->entries[out->count] = (struct spread_row){g->ids[n], out->count};
        out->count++;
    }
    vectors_scalar.norms(dimension, out->rows, out->count, out->norms);
    qsort(out->entries, out->count, sizeof *out->entries, by_id);
}

void spread_rows_free(struct spread_rows *r)
{
    free(r->entries), free(r->rows), free(r->norms), free(r->ids);
    *r = (struct spread_rows){.count = 0};
}
