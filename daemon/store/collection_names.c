/* The collections of a space, by name. */
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/space_inside.h"

static enum status check_shape(const char *name, uint32_t dimension, uint32_t metric,
                               struct failure *f)
{
    enum status st = collection_name_check(name, f);
    if (st) return st;
    if (dimension < 1 || dimension > VECTOR_DIMENSION_MAX)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                           "a dimension is 1 to %d, not %u", VECTOR_DIMENSION_MAX, dimension);
    if (metric < METRIC_COSINE || metric > METRIC_SQUARED_EUCLIDEAN)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC, "there is no metric %u",
                           metric);
    return STATUS_OK;
}

static enum status check_free(const struct store *s, const struct space *space, const char *name,
                              struct failure *f)
{
    struct collection *c = NULL;
    HASH_FIND_STR(space->collections, name, c);
    if (c)
        return failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_COLLECTION_EXISTS,
                           "collection '%s' exists", name);
    return store_check_room(s, space, f);
}

enum status store_collection_prepare(struct store *s, struct space *space, const char *name,
                                     uint32_t dimension, uint32_t metric, struct failure *f,
                                     struct collection **out)
{
    struct collection *c = NULL;
    enum status st = check_shape(name, dimension, metric, f);
    if (st) return st;
    st = collection_create(s->heap, s->kernels, space, name, dimension, (enum metric)metric, &c);
    if (st) return heap_refuse(s->heap, st, space->number, "a collection", f);
    c->shadows = s->shadows;
    *out = c;
    return STATUS_OK;
}

enum status store_collection_link(struct store *s, struct collection *c, struct failure *f)
{
    struct space *space = c->resident.space;
    enum status st = check_free(s, space, c->resident.name, f);
    if (st) return st;
    if (!fault_here("store: collection name")) HASH_ADD_STR(space->collections, resident.name, c);
    if (!c->hh.tbl)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for a collection's name");
    space->collection_count++;
    return STATUS_OK;
}

enum status store_collection_create(struct store *s, struct space *space, const char *name,
                                    uint32_t dimension, uint32_t metric, struct failure *f,
                                    struct collection **out)
{
    struct collection *c = NULL;
    enum status st = check_shape(name, dimension, metric, f);
    if (!st) st = check_free(s, space, name, f);
    if (!st) st = store_collection_prepare(s, space, name, dimension, metric, f, &c);
    if (!st) st = store_collection_link(s, c, f);
    if (st)
        collection_destroy(c);
    else
        *out = c;
    return st;
}

enum status store_collection_find(struct store *s, struct space *space, const char *name,
                                  struct failure *f, struct collection **out)
{
    enum status st = collection_name_check(name, f);
    if (st) return st;
    struct collection *c = NULL;
    HASH_FIND_STR(space->collections, name, c);
    if (!c)
        return failure_set(f, STATUS_NOT_FOUND, DETAIL_UNKNOWN_COLLECTION,
                           "there is no collection '%s'", name);
    *out = c;
    return STATUS_OK;
}

static void name_add(struct space *space, struct collection *c)
{
    HASH_ADD_STR(space->collections, resident.name, c);
}

static void name_remove(struct space *space, struct collection *c)
{
    HASH_DEL(space->collections, c);
}

void store_collection_unlink(struct store *s, struct space *space, struct collection *c)
{
    name_remove(space, c);
    space->collection_count--;
}

void store_collection_rename(struct space *space, struct collection *c, const char *name)
{
    struct collection filler = {0};
    UT_hash_table *table = space->collections->hh.tbl;
    unsigned noexpand = table->noexpand;
    table->noexpand = 1;
    name_add(space, &filler);
    name_remove(space, c);
    resident_set_name(&c->resident, name);
    name_add(space, c);
    name_remove(space, &filler);
    c->hh.tbl->noexpand = noexpand;
}

struct resident *store_collection_made_by(const struct space *space, uint64_t maker)
{
    for (struct collection *c = space->collections; c; c = c->hh.next)
        if (c->resident.maker == maker) return &c->resident;
    return NULL;
}

size_t store_collection_list(struct store *s, struct space *space, const char *after,
                             struct collection **out, size_t max, bool *more)
{
    /* Keeps the max smallest names past `after`, sorted, while walking all names. */
    size_t count = 0;
    *more = false;
    for (struct collection *c = space->collections; c; c = c->hh.next) {
        if (name_is_hidden(c->resident.name) || strcmp(c->resident.name, after) <= 0) continue;
        size_t at = count;
        while (at && strcmp(out[at - 1]->resident.name, c->resident.name) > 0)
            at--;
        if (count == max) *more = true;
        if (at == max) continue;
        size_t tail = (count < max ? count : max - 1) - at;
        memmove(&out[at + 1], &out[at], tail * sizeof *out);
        out[at] = c;
        if (count < max) count++;
    }
    return count;
}

static uint64_t searches_of(const struct collection *c)
{
    uint64_t searches = 0;
    for (int i = 0; i < SCREENS; i++)
        searches += c->shadow.counts[i].searches + c->shadow.counts[i].rested;
    return searches;
}

size_t store_collection_screens(const struct space *space, const struct collection **out,
                                size_t max, size_t *left_out)
{
    size_t count = 0, all = 0;
    for (const struct collection *c = space->collections; c; c = c->hh.next) {
        uint64_t searches = searches_of(c);
        if (!searches) continue;
        size_t at = all++ < max ? count++ : max;
        while (at && searches_of(out[at - 1]) < searches) {
            if (at < max) out[at] = out[at - 1];
            at--;
        }
        if (at < max) out[at] = c;
    }
    *left_out = all - count;
    return count;
}
