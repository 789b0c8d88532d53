#include "daemon/store/collection_inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/job.h"
#include "daemon/base/yield.h"
#include "daemon/store/row_index.h"

/* What a writer copies at most for one row; rows of more than 32 KiB lie in larger segments. */
enum { SEGMENT_BYTES_MAX = 2 << 20, SEGMENT_SHIFT_MIN = 6 };

/* ---- as a resident; the resident is the first member, so that it can be cast ---- */

static uint64_t resident_whole_bytes(const struct resident *r)
{
    const struct collection *c = (const struct collection *)r;
    /* with their ids and norms */
    return rows_of(c->now) * (row_bytes_of(c) + sizeof(uint64_t) + sizeof(float));
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

static void resident_mark_run(struct resident *r, const struct resident_run *run)
{
    dirty_mark(&((struct collection *)r)->dirty, run->first, run->count);
}

static void resident_give_to_job(struct resident *r, struct job *j)
{
    j->resident = r;
    j->collection = ((struct collection *)r)->now;
}

static bool resident_begin(struct job_object *o)
{
    struct collection *c = (struct collection *)o->resident;
    struct edition *e = c->now;
    if (o->writer)
        collection_expect_write(c);
    else
        e = collection_pin(c);
    if (e) o->collection = e;
    return e != NULL;
}

static bool resident_renew(struct job_object *o)
{
    struct collection *c = (struct collection *)o->resident;
    if (o->collection == c->now) return true;
    struct edition *e = collection_pin(c);
    if (!e) return false;
    collection_release(o->collection);
    o->collection = e;
    return true;
}

static void resident_share(struct job_object *to, const struct job_object *from)
{
    (void)gate_enter(&from->collection->gate); /* it is open: `from` is in there */
    to->collection = from->collection;
}

static void resident_release(struct job_object *o)
{
    if (o->writer)
        collection_publish((struct collection *)o->resident);
    else
        collection_release(o->collection);
    o->collection = NULL;
}

static struct leftovers resident_take_gone(struct resident *r)
{
    struct gone gone = collection_take_gone((struct collection *)r);
    return (struct leftovers){gone.segments, gone.indexes};
}

static bool resident_gone_is_much(const struct leftovers *l)
{
    return gone_is_much(&(struct gone){l->memory, l->indexes});
}

static void resident_free_gone(struct heap *heap, struct leftovers l)
{
    gone_free(heap, (struct gone){l.memory, l.indexes});
}

static void resident_end(struct resident *r)
{
    collection_destroy((struct collection *)r);
}

static void resident_take_number(struct resident *r)
{
    resident_change(r);
    atomic_store_explicit(&((struct collection *)r)->now->version, resident_version(r),
                          memory_order_relaxed);
}

static const struct resident_ops collection_ops = {
    .kind = RESIDENT_COLLECTION,
    .bytes = resident_whole_bytes,
    .dirty_bytes = resident_changed_bytes,
    .track = resident_start_tracking,
    .soil = resident_mark_all,
    .soil_run = resident_mark_run,
    .lend = resident_give_to_job,
    .begin = resident_begin,
    .renew = resident_renew,
    .share = resident_share,
    .end = resident_release,
    .take_gone = resident_take_gone,
    .gone_is_much = resident_gone_is_much,
    .free_gone = resident_free_gone,
    .renumber = resident_take_number,
    .destroy = resident_end,
};

/* ---- lifetime ---- */

enum status collection_create(struct heap *heap, const struct vector_kernels *kernels,
                              struct space *space, const char *name, uint32_t dimension,
                              enum metric metric, struct collection **out)
{
    struct collection *c = fault_here("store: collection") ? NULL : calloc(1, sizeof *c);
    if (!c) return STATUS_RESOURCE_EXHAUSTED;
    c->outside = (struct outside){.heap = heap, .owner = space->number};
    enum status st =
        outside_count(&c->outside, sizeof *c + sizeof *c->now + RESIDENT_OUTSIDE_BYTES);
    if (!st) c->now = edition_create(c);
    if (!st && !c->now) st = STATUS_RESOURCE_EXHAUSTED;
    if (st) {
        outside_end(&c->outside);
        free(c);
        return st;
    }
    c->now->number = 1;
    resident_init(&c->resident, &collection_ops, space, name);
    atomic_store_explicit(&c->now->version, resident_version(&c->resident), memory_order_relaxed);
    c->heap = heap;
    c->kernels = kernels;
    c->dimension = dimension;
    c->metric = metric;
    c->stride = vector_stride(dimension);
    /* A segment has as many rows as 2 MiB hold, rounded down to a power of two: 64 to 16,384. */
    c->segment_shift = SEGMENT_SHIFT_MIN;
    while ((row_bytes_of(c) << (c->segment_shift + 1)) <= SEGMENT_BYTES_MAX)
        c->segment_shift++;
    dirty_init(&c->dirty, row_bytes_of(c));
    *out = c;
    return STATUS_OK;
}

void collection_clear(struct collection *c)
{
    struct edition *e = c->now;
    uint64_t rows = rows_of(e);
    if (rows) resident_change(&c->resident);
    __atomic_sub_fetch(&c->resident.space->row_count, rows, __ATOMIC_RELAXED);
    while (e->segment_count) {
        yield_check();
        segment_free(c->heap, e->segments[--e->segment_count]);
    }
    free(e->segments);
    e->segments = NULL;
    e->segment_capacity = 0;
    gone_free(c->heap, collection_take_gone(c));
    collection_shadow_clear(c);
    row_index_free(e->index);
    e->index = NULL;
    c->id_bound = 0;
    dirty_forget(&c->dirty);
    atomic_store_explicit(&e->rows, 0, memory_order_relaxed);
    atomic_store_explicit(&e->version, resident_version(&c->resident), memory_order_relaxed);
    atomic_store_explicit(&e->index_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&e->room_bytes, 0, memory_order_relaxed);
}

void collection_destroy(struct collection *c)
{
    if (!c) return;
    assert(!c->now->older);
    collection_clear(c);
    edition_destroy(c->now);
    outside_end(&c->outside);
    free(c);
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
    uint64_t rows = rows_of(c->now);
    return (struct collection_info){
        .name = c->resident.name,
        .dimension = c->dimension,
        .metric = c->metric,
        .rows = rows,
        .version = resident_version(&c->resident),
        .row_bytes = rows * row_bytes_of(c),
        .index_bytes = atomic_load_explicit(&c->now->index_bytes, memory_order_relaxed),
        .room_bytes = atomic_load_explicit(&c->now->room_bytes, memory_order_relaxed),
        .shadow = collection_shadow_info(c),
        .screens = {c->shadow.counts[SCREENS_CPU], c->shadow.counts[SCREENS_GPU]},
    };
}

uint32_t collection_dimension(const struct edition *e)
{
    return e->of->dimension;
}

enum metric collection_metric(const struct edition *e)
{
    return e->of->metric;
}

uint64_t collection_rows(const struct edition *e)
{
    return rows_of(e);
}

uint64_t collection_version(const struct edition *e)
{
    return atomic_load_explicit(&e->version, memory_order_relaxed);
}

size_t collection_segment_rows(const struct edition *e)
{
    return (size_t)1 << e->of->segment_shift;
}

struct row_block collection_block(const struct edition *e, uint64_t first, size_t count,
                                  const uint64_t **ids_out)
{
    if (ids_out) *ids_out = NULL;
    if (count == 0) return (struct row_block){0};
    if (ids_out) *ids_out = id_at(e, first);
    return (struct row_block){.rows = row_at(e, first), .norms = norm_at(e, first), .count = count};
}

const float *collection_row(const struct edition *e, uint32_t row)
{
    return row_at(e, row);
}

float collection_norm(const struct edition *e, uint32_t row)
{
    return *norm_at(e, row);
}

uint64_t collection_id(const struct edition *e, uint32_t row)
{
    return *id_at(e, row);
}

void collection_copy_ids(const struct edition *e, uint64_t first, uint64_t count, uint64_t *ids)
{
    uint64_t segment_rows = UINT64_C(1) << e->of->segment_shift;
    for (uint64_t n; count; first += n, ids += n, count -= n) {
        n = segment_rows - row_in_segment(e, first);
        if (n > count) n = count;
        memcpy(ids, id_at(e, first), n * sizeof *ids);
    }
}

uint32_t collection_find_row(const struct edition *e, uint64_t id)
{
    return row_index_find(e, rows_of(e), id);
}

uint64_t collection_find_rows(const struct edition *e, const uint64_t *ids, size_t count,
                              uint32_t *rows)
{
    return row_index_find_many(e, ids, count, rows);
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
    return dirty_track(&c->dirty, rows_of(c->now));
}

bool collection_next_dirty(const struct collection *c, uint64_t from, uint64_t *first,
                           uint64_t *count)
{
    if (!dirty_next(&c->dirty, from, rows_of(c->now), first, count)) return false;
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
    return dirty_rows(&c->dirty, rows_of(c->now)) * row_bytes_of(c);
}
