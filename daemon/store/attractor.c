/* attractor: what it is as a resident, its life, and its editions. */
#include "daemon/store/attractor_inside.h"

#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/base/job.h"

/* ---- editions ---- */

enum status attractor_edition_create(struct attractor *a, const struct heap_block *weights,
                                     struct failure *f, struct attractor_edition **out)
{
    struct attractor_edition *e =
        fault_here("store: attractor edition") ? NULL : calloc(1, sizeof *e);
    if (!e)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for an attractor");
    uint32_t owner = a->resident.space->number;
    uint64_t bytes = attractor_block_bytes(a->dimension);
    enum status st = STATUS_OK;
    if (weights)
        e->block = *weights;
    else
        st = heap_take_fresh(a->heap, bytes, owner, &e->block);
    if (st) {
        free(e);
        st = heap_refuse(a->heap, st, owner, "the weights", f);
        if (f && a->now && gate_has_readers(&a->now->gate)) f->retry_after_ms = RETRY_MEMORY_MS;
        return st;
    }
    e->of = a;
    *out = e;
    return STATUS_OK;
}

void attractor_edition_destroy(struct heap *heap, struct attractor_edition *e)
{
    if (!e) return;
    heap_give(heap, &e->block);
    free(e);
}

static void retire(struct attractor_edition *e)
{
    e->next = e->of->gone;
    e->of->gone = e;
}

static bool pin(struct attractor *a)
{
    return a->open && gate_enter(&a->now->gate);
}

static void release(struct attractor_edition *e)
{
    if (gate_leave(&e->gate) && e != e->of->now) retire(e);
}

void attractor_open(struct attractor *a)
{
    a->open = true;
}

void attractor_expect_write(struct attractor *a)
{
    a->written = NULL;
}

void attractor_publish(struct attractor *a)
{
    struct attractor_edition *before = a->now;
    if (!a->written) return;
    a->now = a->written;
    a->written = NULL;
    a->weights_dirty = true;
    resident_set_version(&a->resident, a->now->version);
    if (!gate_has_readers(&before->gate)) retire(before);
}

const struct attractor_edition *attractor_written(const struct attractor *a)
{
    return a->written ? a->written : a->now;
}

/* ---- as a resident ---- */

/* A copy elsewhere is a matrix, W's columns and behind them the dentate matrix's rows. What is
 * dirty is either of the two. */
static uint64_t resident_whole_bytes(const struct resident *r)
{
    uint32_t dimension = ((const struct attractor *)r)->dimension;
    return attractor_block_bytes(dimension) + dentate_bytes(dimension);
}

static uint64_t resident_unsent_bytes(const struct resident *r)
{
    const struct attractor *a = (const struct attractor *)r;
    return (a->weights_dirty ? attractor_block_bytes(a->dimension) : 0) +
           (a->dentate_dirty ? dentate_bytes(a->dimension) : 0);
}

/* It costs nothing to track changes. */
static bool resident_start_tracking(struct resident *r)
{
    return true;
}

static void resident_mark_all(struct resident *r)
{
    struct attractor *a = (struct attractor *)r;
    a->weights_dirty = a->dentate_dirty = true;
}

static void resident_mark_run(struct resident *r, const struct resident_run *run)
{
    struct attractor *a = (struct attractor *)r;
    if (!run->count) return;
    a->weights_dirty |= run->first < a->dimension;
    a->dentate_dirty |= run->first + run->count > a->dimension;
}

static void resident_give_to_job(struct resident *r, struct job *j)
{
    j->resident = r;
    j->attractor = ((struct attractor *)r)->now;
}

static bool resident_begin(struct job_object *o)
{
    struct attractor *a = (struct attractor *)o->resident;
    if (o->writer)
        attractor_expect_write(a);
    else if (!pin(a))
        return false;
    o->attractor = a->now;
    return true;
}

static bool resident_renew(struct job_object *o)
{
    struct attractor *a = (struct attractor *)o->resident;
    if (o->attractor == a->now) return true;
    if (!pin(a)) return false;
    release(o->attractor);
    o->attractor = a->now;
    return true;
}

static void resident_release(struct job_object *o)
{
    if (o->writer)
        attractor_publish((struct attractor *)o->resident);
    else
        release(o->attractor);
    o->attractor = NULL;
}

static struct leftovers resident_take_gone(struct resident *r)
{
    struct attractor *a = (struct attractor *)r;
    struct leftovers gone = {.memory = a->gone};
    a->gone = NULL;
    return gone;
}

/* Blocks are only handed on. */
static bool resident_gone_is_much(const struct leftovers *gone)
{
    return false;
}

static void resident_free_gone(struct heap *heap, struct leftovers gone)
{
    for (struct attractor_edition *e = gone.memory, *next; e; e = next) {
        next = e->next;
        attractor_edition_destroy(heap, e);
    }
}

static void resident_end(struct resident *r)
{
    attractor_destroy((struct attractor *)r);
}

static void resident_take_number(struct resident *r)
{
    resident_change(r);
    ((struct attractor *)r)->now->version = resident_version(r);
}

static const struct resident_ops attractor_ops = {
    .kind = RESIDENT_ATTRACTOR,
    .bytes = resident_whole_bytes,
    .dirty_bytes = resident_unsent_bytes,
    .track = resident_start_tracking,
    .soil = resident_mark_all,
    .soil_run = resident_mark_run,
    .lend = resident_give_to_job,
    .begin = resident_begin,
    .renew = resident_renew,
    .end = resident_release,
    .take_gone = resident_take_gone,
    .gone_is_much = resident_gone_is_much,
    .free_gone = resident_free_gone,
    .renumber = resident_take_number,
    .destroy = resident_end,
};

/* ---- lifetime ---- */

enum status attractor_create(struct heap *heap, struct space *space, const char *name,
                             const struct attractor_shape *shape, const struct heap_block *weights,
                             struct failure *f, struct attractor **out)
{
    struct attractor *a = fault_here("store: attractor") ? NULL : calloc(1, sizeof *a);
    if (!a)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for an attractor");
    a->heap = heap;
    a->dimension = shape->dimension;
    a->sparsity = shape->sparsity;
    a->rate = shape->rate;
    a->resident.space = space;
    a->weights_dirty = a->dentate_dirty = true;
    a->outside = (struct outside){.heap = heap, .owner = space->number};
    enum status st =
        outside_count(&a->outside, sizeof *a + sizeof *a->now + RESIDENT_OUTSIDE_BYTES);
    if (st) st = heap_refuse(heap, st, space->number, "an attractor", f);
    if (!st) st = dentate_take(heap, space, shape->dimension, f, &a->dentate);
    if (!st) st = attractor_edition_create(a, weights, f, &a->now);
    if (st) {
        attractor_destroy(a);
        return st;
    }
    resident_init(&a->resident, &attractor_ops, space, name);
    a->now->version = resident_version(&a->resident);
    a->now->first = true;
    *out = a;
    return STATUS_OK;
}

void attractor_make(struct attractor *a, const struct attractor_kernels *k, uint32_t first,
                    uint32_t count)
{
    float *columns = a->now->block.data;
    k->weights(a->dimension, first, count, columns + first * vector_stride(a->dimension));
}

void attractor_destroy(struct attractor *a)
{
    if (!a) return;
    resident_free_gone(a->heap, resident_take_gone(&a->resident));
    attractor_edition_destroy(a->heap, a->now);
    dentate_give(a->heap, a->resident.space, a->dentate);
    outside_end(&a->outside);
    free(a);
}

/* ---- what is known of it ---- */

struct resident *attractor_resident(struct attractor *a)
{
    return &a->resident;
}

struct dentate *attractor_dentate(const struct attractor *a)
{
    return a->dentate;
}

struct attractor_info attractor_info_at_first(const char *name, const struct attractor_shape *shape)
{
    return (struct attractor_info){
        .name = name,
        .dimension = shape->dimension,
        .kept = attractor_kept(shape->dimension, shape->sparsity),
        .sparsity = shape->sparsity,
        .rate = shape->rate,
        .weight_bytes = attractor_block_bytes(shape->dimension),
        .dentate_bytes = dentate_bytes(shape->dimension),
    };
}

struct attractor_info attractor_info(const struct attractor *a)
{
    struct attractor_shape shape = {a->dimension, a->sparsity, a->rate};
    struct attractor_info info = attractor_info_at_first(a->resident.name, &shape);
    info.version = a->now->version;
    info.patterns = a->now->patterns;
    return info;
}

uint64_t attractor_version(const struct attractor_edition *e)
{
    return e->version;
}

uint64_t attractor_patterns(const struct attractor_edition *e)
{
    return e->patterns;
}

uint32_t attractor_dimension(const struct attractor_edition *e)
{
    return e->of->dimension;
}

uint32_t attractor_kept_values(const struct attractor_edition *e)
{
    return attractor_kept(e->of->dimension, e->of->sparsity);
}

const float *attractor_columns(const struct attractor_edition *e)
{
    return e->block.data;
}

const float *attractor_dentate_rows(const struct attractor_edition *e)
{
    return e->of->dentate->block.data;
}

/* ---- copies elsewhere ---- */

const struct attractor_edition *attractor_now(const struct attractor *a)
{
    return a->now;
}

bool attractor_next_dirty(const struct attractor *a, uint64_t from, struct attractor_run *out)
{
    uint64_t d = a->dimension;
    if (a->weights_dirty && from < d)
        *out = (struct attractor_run){0, d, a->now->block.data};
    else if (a->dentate_dirty && from <= d)
        *out = (struct attractor_run){d, d * ATTRACTOR_SPREAD, a->dentate->block.data};
    else
        return false;
    return true;
}

void attractor_clean(struct attractor *a, const struct attractor_run *run)
{
    if (run->first < a->dimension)
        a->weights_dirty = false;
    else
        a->dentate_dirty = false;
}
