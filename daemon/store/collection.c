#include "daemon/store/collection_inside.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/job.h"
#include "daemon/store/array.h"

enum { SEGMENT_BYTES_MAX = 4 << 20, CAPACITY_MIN = 64 };

static size_t row_bytes(const struct collection *c)
{
    return c->stride * sizeof(float);
}

static uint64_t segment_bytes(const struct collection *c)
{
    return (uint64_t)row_bytes(c) << c->segment_shift;
}

/* ---- as a resident; the resident is the first member, so that it can be cast ---- */

static uint64_t resident_whole_bytes(const struct resident *r)
{
    const struct collection *c = (const struct collection *)r;
    return collection_rows(c) * (row_bytes(c) + sizeof(uint64_t) + sizeof(float)); /* id and norm */
}

static uint64_t resident_changed_bytes(const struct resident *r)
{
    return collection_dirty_bytes((const struct collection *)r);
}

static bool resident_start_tracking(struct resident *r)
{
    return collection_track((struct collection *)r);
}

static void resident_mark_all(struct resident *r)
{
    collection_soil((struct collection *)r);
}

static void resident_give_to_job(struct resident *r, struct job *j)
{
    j->collection = (struct collection *)r;
}

static void resident_end(struct resident *r)
{
    collection_destroy((struct collection *)r);
}

static const struct resident_ops collection_ops = {
    .kind = RESIDENT_COLLECTION,
    .bytes = resident_whole_bytes,
    .dirty_bytes = resident_changed_bytes,
    .track = resident_start_tracking,
    .soil = resident_mark_all,
    .lend = resident_give_to_job,
    .destroy = resident_end,
};

/* ---- lifetime ---- */

enum status collection_create(struct heap *heap, const struct vector_kernels *kernels,
                              struct space *space, const char *name, uint32_t dimension,
                              enum metric metric, struct collection **out)
{
    struct collection *c = fault_here("store: collection") ? NULL : calloc(1, sizeof *c);
    if (!c) return STATUS_RESOURCE_EXHAUSTED;
    resident_init(&c->resident, &collection_ops, space, name);
    c->heap = heap;
    c->kernels = kernels;
    c->dimension = dimension;
    c->metric = metric;
    c->stride = vector_stride(dimension);
    /* A segment has as many rows as 4 MiB hold, rounded down to a power of two: 64 to 32,768. */
    while ((row_bytes(c) << (c->segment_shift + 1)) <= SEGMENT_BYTES_MAX)
        c->segment_shift++;
    dirty_init(&c->dirty, row_bytes(c));
    *out = c;
    return STATUS_OK;
}

static void release_segments(struct collection *c, size_t keep)
{
    while (c->segment_count > keep)
        heap_release(c->heap, &c->segments[--c->segment_count]);
}

void collection_clear(struct collection *c)
{
    if (rows_of(c)) collection_publish(c, 0);
    release_segments(c, 0);
    free(c->segments);
    c->segments = NULL;
    c->segment_capacity = 0;
    array_free(c->ids, c->id_capacity * sizeof *c->ids);
    array_free(c->norms, c->norm_capacity * sizeof *c->norms);
    c->ids = NULL;
    c->norms = NULL;
    c->id_capacity = c->norm_capacity = 0;
    c->id_bound = 0;
    id_index_finish(&c->index);
    dirty_forget(&c->dirty);
    atomic_store_explicit(&c->index_bytes, 0, memory_order_relaxed);
}

void collection_destroy(struct collection *c)
{
    if (!c) return;
    collection_clear(c);
    free(c);
}

/* ---- room ---- */

/* Bytes of the first segment while it is the only one: a power of two, so that a collection of a
 * few rows takes little memory and growing moves each row a few times at most. */
static uint64_t first_segment_bytes(const struct collection *c, uint64_t rows)
{
    uint64_t bytes = HEAP_UNIT;
    while (bytes < rows * row_bytes(c))
        bytes *= 2;
    return bytes < segment_bytes(c) ? bytes : segment_bytes(c);
}

static enum status reserve_first(struct collection *c, uint64_t rows)
{
    uint64_t want = first_segment_bytes(c, rows);
    if (c->segment_count && c->segments[0].bytes >= want) return STATUS_OK;
    struct heap_block block;
    enum status st = heap_take_fresh(c->heap, want, c->resident.space->number, &block);
    if (st) return st;
    if (c->segment_count) {
        memcpy(block.data, c->segments[0].data, rows_of(c) * row_bytes(c));
        heap_release(c->heap, &c->segments[0]);
    }
    c->segments[0] = block;
    if (!c->segment_count) c->segment_count = 1;
    return STATUS_OK;
}

static enum status reserve_segments(struct collection *c, uint64_t rows)
{
    size_t want = (size_t)((rows + (UINT64_C(1) << c->segment_shift) - 1) >> c->segment_shift);
    if (want > c->segment_capacity) {
        size_t capacity = c->segment_capacity * 2 > want ? c->segment_capacity * 2 : want;
        struct heap_block *grown = fault_here("store: segment list")
                                       ? NULL
                                       : realloc(c->segments, capacity * sizeof *c->segments);
        if (!grown) return STATUS_RESOURCE_EXHAUSTED;
        c->segments = grown;
        c->segment_capacity = capacity;
    }
    if (want && c->segment_count <= 1) {
        enum status st = reserve_first(c, rows);
        if (st) return st;
    }
    while (c->segment_count < want) {
        struct heap_block block;
        enum status st =
            heap_take_fresh(c->heap, segment_bytes(c), c->resident.space->number, &block);
        if (st) return st;
        c->segments[c->segment_count++] = block;
    }
    return STATUS_OK;
}

/* Resizes the arrays of ids and norms; only places that are written take memory. */
static bool resize_columns(struct collection *c, uint64_t capacity)
{
    uint64_t *ids = array_resize(c->ids, c->id_capacity * sizeof *ids, capacity * sizeof *ids);
    if (!ids) return false;
    c->ids = ids;
    c->id_capacity = capacity;
    float *norms =
        array_resize(c->norms, c->norm_capacity * sizeof *norms, capacity * sizeof *norms);
    if (!norms) return false;
    c->norms = norms;
    c->norm_capacity = capacity;
    return true;
}

static void count_index_bytes(struct collection *c)
{
    uint64_t bytes = rows_of(c) * (sizeof *c->ids + sizeof *c->norms) +
                     c->index.slot_count * sizeof *c->index.slots;
    atomic_store_explicit(&c->index_bytes, bytes, memory_order_relaxed);
}

enum status collection_reserve(struct collection *c, uint64_t rows)
{
    if (rows > c->id_capacity || rows > c->norm_capacity) {
        uint64_t capacity = c->id_capacity + c->id_capacity / 2;
        if (capacity < rows) capacity = rows;
        if (capacity < CAPACITY_MIN) capacity = CAPACITY_MIN;
        if (!resize_columns(c, capacity)) return STATUS_RESOURCE_EXHAUSTED;
    }
    if (!id_index_reserve(&c->index, c->ids, rows_of(c), rows)) return STATUS_RESOURCE_EXHAUSTED;
    return reserve_segments(c, rows);
}

void collection_fit(struct collection *c)
{
    uint64_t rows = rows_of(c);
    size_t segments = (size_t)((rows + (UINT64_C(1) << c->segment_shift) - 1) >> c->segment_shift);
    /* One spare segment stays, so that inserting and deleting a row at a segment's edge does not
     * take and free a segment each time. */
    release_segments(c, rows ? segments + 1 : 0);
    if (rows == 0) c->id_bound = 0;
    if (rows * 4 < c->id_capacity && c->id_capacity > CAPACITY_MIN)
        resize_columns(c, rows * 2 > CAPACITY_MIN ? rows * 2 : CAPACITY_MIN);
    id_index_shrink(&c->index, c->ids, rows);
    count_index_bytes(c);
}

/* ---- readers ---- */

struct resident *collection_resident(struct collection *c)
{
    return &c->resident;
}

struct space *collection_space(const struct collection *c)
{
    return c->resident.space;
}

struct turnstile *collection_turnstile(struct collection *c)
{
    return &c->resident.turnstile;
}

struct collection_info collection_info(const struct collection *c)
{
    uint64_t rows = rows_of(c);
    return (struct collection_info){
        .name = c->resident.name,
        .dimension = c->dimension,
        .metric = c->metric,
        .rows = rows,
        .version = collection_version(c),
        .row_bytes = rows * row_bytes(c),
        .index_bytes = atomic_load_explicit(&c->index_bytes, memory_order_relaxed),
    };
}

uint32_t collection_dimension(const struct collection *c)
{
    return c->dimension;
}

enum metric collection_metric(const struct collection *c)
{
    return c->metric;
}

uint64_t collection_rows(const struct collection *c)
{
    return rows_of(c);
}

uint64_t collection_version(const struct collection *c)
{
    return resident_version(&c->resident);
}

size_t collection_segment_rows(const struct collection *c)
{
    return (size_t)1 << c->segment_shift;
}

struct row_block collection_block(const struct collection *c, uint64_t first, size_t count,
                                  const uint64_t **ids_out)
{
    if (ids_out) *ids_out = c->ids + first;
    if (count == 0) return (struct row_block){0};
    return (struct row_block){.rows = row_at(c, first), .norms = c->norms + first, .count = count};
}

const float *collection_row(const struct collection *c, uint32_t row)
{
    return row_at(c, row);
}

float collection_norm(const struct collection *c, uint32_t row)
{
    return c->norms[row];
}

uint64_t collection_id(const struct collection *c, uint32_t row)
{
    return c->ids[row];
}

uint32_t collection_find_row(const struct collection *c, uint64_t id)
{
    return id_index_find(&c->index, c->ids, id);
}

uint64_t collection_find_rows(const struct collection *c, const uint64_t *ids, size_t count,
                              uint32_t *rows)
{
    return id_index_find_many(&c->index, c->ids, ids, count, rows);
}

/* ---- a copy elsewhere ---- */

void *collection_replica(const struct collection *c)
{
    return c->resident.replica;
}

void collection_set_replica(struct collection *c, void *replica)
{
    c->resident.replica = replica;
}

bool collection_track(struct collection *c)
{
    return dirty_track(&c->dirty, rows_of(c));
}

bool collection_next_dirty(const struct collection *c, uint64_t from, uint64_t *first,
                           uint64_t *count)
{
    if (!dirty_next(&c->dirty, from, rows_of(c), first, count)) return false;
    uint64_t segment_end = ((*first >> c->segment_shift) + 1) << c->segment_shift;
    if (*count > segment_end - *first) *count = segment_end - *first;
    return true;
}

void collection_clean(struct collection *c, uint64_t first, uint64_t count)
{
    dirty_clean(&c->dirty, first, count);
}

void collection_soil(struct collection *c)
{
    dirty_forget(&c->dirty);
}

uint64_t collection_dirty_bytes(const struct collection *c)
{
    return dirty_rows(&c->dirty, rows_of(c)) * row_bytes(c);
}

/* ---- delete ---- */

static void delete_row(struct collection *c, uint32_t row, uint32_t last)
{
    id_index_remove(&c->index, c->ids, row);
    if (row == last) return;
    id_index_move(&c->index, c->ids, last, row);
    memcpy(row_at(c, row), row_at(c, last), row_bytes(c));
    c->norms[row] = c->norms[last];
    c->ids[row] = c->ids[last];
    dirty_mark(&c->dirty, row, 1);
}

void collection_delete(struct collection *c, const uint64_t *ids, uint64_t n, uint64_t *deleted,
                       uint64_t *missing)
{
    uint64_t before = rows_of(c), rows = before;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t row = collection_find_row(c, ids[i]);
        if (row == COLLECTION_NO_ROW) continue;
        delete_row(c, row, (uint32_t)--rows);
    }
    *deleted = before - rows;
    *missing = n - (before - rows);
    if (rows == before) return;
    collection_publish(c, rows);
    collection_fit(c);
}
