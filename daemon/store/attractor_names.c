/* The attractors of a space, by name. */
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/attractor_inside.h"
#include "daemon/store/space_inside.h"

static enum status name_check(const char *name, struct failure *f)
{
    if (collection_name_check(name, NULL) == STATUS_OK) return STATUS_OK;
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NAME,
                       "an attractor name has 1 to 64 bytes of [A-Za-z0-9._-]");
}

static enum status part_check(const char *what, float value, struct failure *f)
{
    if (value > 0.0f && value <= 1.0f) return STATUS_OK;
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SPARSITY,
                       "%s is above 0 and at most 1, not %g", what, (double)value);
}

enum status attractor_shape_check(const struct attractor_shape *shape, struct failure *f)
{
    if (shape->dimension < 1 || shape->dimension > ATTRACTOR_DIMENSION_MAX)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                           "an attractor's dimension is 1 to %d, not %u", ATTRACTOR_DIMENSION_MAX,
                           shape->dimension);
    enum status st = part_check("sparsity", shape->sparsity, f);
    return st ? st : part_check("rate", shape->rate, f);
}

static enum status check_free(const struct store *s, const struct space *space, const char *name,
                              struct failure *f)
{
    struct attractor *a = NULL;
    HASH_FIND_STR(space->attractors, name, a);
    if (a)
        return failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_ATTRACTOR_EXISTS,
                           "attractor '%s' exists", name);
    return store_check_room(s, space, f);
}

enum status store_attractor_prepare(struct store *s, struct space *space, const char *name,
                                    const struct attractor_shape *shape, struct failure *f,
                                    struct attractor **out)
{
    enum status st = name_check(name, f);
    if (!st) st = attractor_shape_check(shape, f);
    return st ? st : attractor_create(s->heap, space, name, shape, NULL, f, out);
}

enum status store_attractor_link(struct store *s, struct attractor *a, struct failure *f)
{
    struct space *space = a->resident.space;
    enum status st = check_free(s, space, a->resident.name, f);
    if (st) return st;
    if (!fault_here("store: attractor name")) HASH_ADD_STR(space->attractors, resident.name, a);
    if (!a->hh.tbl)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for an attractor's name");
    space->attractor_count++;
    return STATUS_OK;
}

enum status store_attractor_create(struct store *s, struct space *space, const char *name,
                                   const struct attractor_shape *shape, struct failure *f,
                                   struct attractor **out)
{
    return store_attractor_make(s, space, name, shape, NULL, f, out);
}

enum status store_attractor_make(struct store *s, struct space *space, const char *name,
                                 const struct attractor_shape *shape,
                                 const struct heap_block *weights, struct failure *f,
                                 struct attractor **out)
{
    struct attractor *a = NULL;
    enum status st = name_check(name, f);
    if (!st) st = attractor_shape_check(shape, f);
    if (!st) st = check_free(s, space, name, f);
    if (!st) st = attractor_create(s->heap, space, name, shape, weights, f, &a);
    if (st) return st;
    st = store_attractor_link(s, a, f);
    if (st)
        attractor_destroy(a);
    else
        *out = a;
    return st;
}

enum status store_attractor_find(struct store *s, struct space *space, const char *name,
                                 struct failure *f, struct attractor **out)
{
    enum status st = name_check(name, f);
    if (st) return st;
    struct attractor *a = NULL;
    HASH_FIND_STR(space->attractors, name, a);
    if (!a)
        return failure_set(f, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ATTRACTOR,
                           "there is no attractor '%s'", name);
    *out = a;
    return STATUS_OK;
}

static void name_add(struct space *space, struct attractor *a)
{
    HASH_ADD_STR(space->attractors, resident.name, a);
}

static void name_remove(struct space *space, struct attractor *a)
{
    HASH_DEL(space->attractors, a);
}

void store_attractor_unlink(struct store *s, struct space *space, struct attractor *a)
{
    name_remove(space, a);
    space->attractor_count--;
}

void store_attractor_rename(struct space *space, struct attractor *a, const char *name)
{
    struct attractor filler = {0};
    UT_hash_table *table = space->attractors->hh.tbl;
    unsigned noexpand = table->noexpand;
    table->noexpand = 1;
    name_add(space, &filler);
    name_remove(space, a);
    resident_set_name(&a->resident, name);
    name_add(space, a);
    name_remove(space, &filler);
    a->hh.tbl->noexpand = noexpand;
}

struct resident *store_attractor_made_by(const struct space *space, uint64_t maker)
{
    for (struct attractor *a = space->attractors; a; a = a->hh.next)
        if (a->resident.maker == maker) return &a->resident;
    return NULL;
}

struct attractor_totals store_attractor_totals(const struct space *space)
{
    struct attractor_totals sum = {.attractors = space->attractor_count};
    for (const struct attractor *a = space->attractors; a; a = a->hh.next) {
        sum.patterns += a->now->patterns;
        sum.bytes += attractor_block_bytes(a->dimension);
    }
    for (const struct dentate *d = space->dentates; d; d = d->next)
        sum.bytes += dentate_bytes(d->dimension);
    return sum;
}

size_t store_attractor_list(struct store *s, struct space *space, const char *after,
                            struct attractor **out, size_t max, bool *more)
{
    /* Keeps the max smallest names past `after`, sorted, while walking all names. */
    size_t count = 0;
    *more = false;
    for (struct attractor *a = space->attractors; a; a = a->hh.next) {
        const char *name = a->resident.name;
        if (name_is_hidden(name) || strcmp(name, after) <= 0) continue;
        size_t at = count;
        while (at && strcmp(out[at - 1]->resident.name, name) > 0)
            at--;
        if (count == max) *more = true;
        if (at == max) continue;
        size_t tail = (count < max ? count : max - 1) - at;
        memmove(&out[at + 1], &out[at], tail * sizeof *out);
        out[at] = a;
        if (count < max) count++;
    }
    return count;
}
