#include "daemon/learn/calibrate_field.h"

#include "daemon/cards/cards.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "daemon/store/shadow.h"

/* A name that no client can ask for (space_name_parse). */
static const char space_name[] = ".calibration";
enum { MEMORY_SHARE = 4 /* of free memory it takes at most one part in so many */ };

/* Nobody finds it by name, and limits.collections, which may be 1, must not refuse it. */
static enum status make_ground(struct field *f, uint32_t ground)
{
    uint32_t dimension = grounds[ground].dimension;
    struct collection *c = NULL;
    struct graph *g = NULL;
    enum status st = dimension ? store_collection_create(f->store, f->space, "ground", dimension,
                                                         METRIC_COSINE, NULL, &c)
                               : store_graph_create(f->store, f->space, "ground", NULL, &g);
    if (st) return st;
    if (c) {
        store_collection_unlink(f->store, f->space, c);
        collection_shadow_never(c);
        f->grounds[ground] = collection_resident(c);
    } else {
        store_graph_unlink(f->store, f->space, g);
        f->grounds[ground] = graph_resident(g);
    }
    return STATUS_OK;
}

static bool fits(uint64_t left, uint32_t shift)
{
    return trial_field_bytes(shift) <= left / MEMORY_SHARE;
}

enum status field_make(struct field *f, struct store *store, struct heap *heap, struct backend *gpu)
{
    struct heap_usage memory = heap_usage(heap);
    uint64_t left = memory.bytes_max - memory.bytes_used;
    *f = (struct field){.store = store, .heap = heap, .gpu = gpu};
    while (f->shift < SHIFT_MAX && !fits(left, f->shift))
        f->shift += SHIFT_STEP;
    if (!fits(left, f->shift)) return STATUS_RESOURCE_EXHAUSTED;
    enum status st = store_space(f->store, space_name, &f->space);
    if (!st) st = heap_take(f->heap, trial_memory_bytes(), f->space->number, &f->memory);
    for (uint32_t i = 0; !st && i < GROUNDS; i++)
        st = make_ground(f, i);
    return st;
}

void field_finish(struct field *f)
{
    for (uint32_t i = 0; i < GROUNDS; i++) {
        struct resident *of = f->grounds[i];
        if (of && f->gpu) replica_forget(f->gpu, of);
        if (of) of->ops->destroy(of);
    }
    heap_release(f->heap, &f->memory);
    if (f->space) store_space_release(f->store, f->space);
}

void field_lend(const struct field *f, uint32_t ground, struct job *j)
{
    struct resident *of = f->grounds[ground];
    of->ops->lend(of, j);
}

bool field_wants_rows(struct field *f)
{
    while (f->ground < GROUNDS && f->filled == ground_rows(f->ground, f->shift)) {
        f->ground++;
        f->filled = 0;
    }
    return f->ground < GROUNDS;
}

void field_next_rows(struct field *f, struct job *j)
{
    uint64_t left = ground_rows(f->ground, f->shift) - f->filled;
    uint64_t count = left < CHUNK_ROWS ? left : CHUNK_ROWS;
    trial_set_fill(j, f->ground, f->shift, f->filled, count, f->memory.data);
    f->filled += count;
}

void field_bytes(const struct field *f, uint64_t bytes[GROUNDS])
{
    for (uint32_t i = 0; i < GROUNDS; i++)
        bytes[i] = resident_bytes(f->grounds[i]);
}
