#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/graph_inside.h"
#include "daemon/store/space_inside.h"

static void forget_nothing(void *owner, struct space *space) {}

enum status store_create(struct heap *heap, const struct vector_kernels *kernels,
                         struct store **out)
{
    struct store *s = fault_here("store: struct") ? NULL : calloc(1, sizeof *s);
    if (!s) return STATUS_RESOURCE_EXHAUSTED;
    s->heap = heap;
    s->kernels = kernels;
    s->collections_max = UINT64_MAX;
    s->forget = forget_nothing;
    *out = s;
    return STATUS_OK;
}

void store_limit_collections(struct store *s, uint64_t per_space)
{
    s->collections_max = per_space;
}

void store_destroy(struct store *s)
{
    if (!s) return;
    HASH_CLEAR(hh, s->by_name);
    for (struct space *space = s->spaces; space;) {
        struct space *next = space->hh_next;
        struct collection *c = space->collections;
        HASH_CLEAR(hh, space->collections);
        while (c) {
            struct collection *after = c->hh.next;
            collection_destroy(c);
            c = after;
        }
        struct graph *g = space->graphs;
        HASH_CLEAR(hh, space->graphs);
        while (g) {
            struct graph *after = g->hh.next;
            graph_destroy(g);
            g = after;
        }
        s->forget(s->forget_owner, space);
        free(space);
        space = next;
    }
    free(s);
}

/* ---- names ---- */

enum status space_name_parse(const char *text, char *name_out, struct failure *f)
{
    while (*text == ' ' || *text == '\t')
        text++;
    size_t length = strlen(text);
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    if (length == 0) {
        memcpy(name_out, "default", sizeof "default");
        return STATUS_OK;
    }
    if (length < 3 || length > SPACE_NAME_MAX)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SPACE,
                           "a space name has 3 to 64 bytes, not %zu", length);
    for (size_t i = 0; i < length; i++) {
        char ch = text[i];
        if ((ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') || ch == '_' || ch == '-')
            continue;
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SPACE,
                           "byte %zu of the space name is not one of [a-z0-9_-]", i);
    }
    memcpy(name_out, text, length);
    name_out[length] = 0;
    return STATUS_OK;
}

enum status collection_name_check(const char *name, struct failure *f)
{
    size_t length = strnlen(name, COLLECTION_NAME_MAX + 1);
    if (length < 1 || length > COLLECTION_NAME_MAX)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NAME,
                           "a collection name has 1 to 64 bytes");
    for (size_t i = 0; i < length; i++) {
        char ch = name[i];
        if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
            ch == '.' || ch == '_' || ch == '-')
            continue;
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_NAME,
                           "byte %zu of the collection name is not one of [A-Za-z0-9._-]", i);
    }
    return STATUS_OK;
}

/* ---- spaces ---- */

enum status store_space(struct store *s, const char *name, struct space **out)
{
    struct entry *e = NULL;
    HASH_FIND_STR(s->by_name, name, e);
    if (!e) {
        /* Numbers are never reused; when they run out, only existing spaces are served. */
        if (s->number_last == UINT32_MAX || fault_here("store: space"))
            return STATUS_RESOURCE_EXHAUSTED;
        e = calloc(1, sizeof *e);
        if (!e) return STATUS_RESOURCE_EXHAUSTED;
        strncpy(e->space.name, name, SPACE_NAME_MAX);
        e->space.number = s->number_last + 1;
        HASH_ADD_STR(s->by_name, space.name, e);
        if (!e->hh.tbl) {
            free(e);
            return STATUS_RESOURCE_EXHAUSTED;
        }
        s->number_last++;
        e->space.hh_next = s->spaces;
        s->spaces = &e->space;
    }
    e->space.users++;
    *out = &e->space;
    return STATUS_OK;
}

void store_space_release(struct store *s, struct space *space)
{
    if (--space->users || space_resident_count(space)) return;
    struct entry *e = (struct entry *)space;
    HASH_DEL(s->by_name, e);
    struct space **at = &s->spaces;
    while (*at != space)
        at = &(*at)->hh_next;
    *at = space->hh_next;
    s->forget(s->forget_owner, space);
    free(e);
}

struct space *store_space_next(const struct store *s, const struct space *after)
{
    return after ? after->hh_next : s->spaces;
}

void store_on_forget(struct store *s, void (*forget)(void *owner, struct space *space), void *owner)
{
    s->forget = forget;
    s->forget_owner = owner;
}

/* ---- collections ---- */

enum status store_check_room(const struct store *s, const struct space *space, struct failure *f)
{
    uint64_t count = space_resident_count(space);
    if (count < s->collections_max) return STATUS_OK;
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_TOO_MANY_COLLECTIONS,
                       "the space has %" PRIu64 " collections and graphs, its bound "
                       "(limits.collections)",
                       count);
}

enum status store_collection_create(struct store *s, struct space *space, const char *name,
                                    uint32_t dimension, uint32_t metric, struct failure *f,
                                    struct collection **out)
{
    enum status st = collection_name_check(name, f);
    if (st) return st;
    if (dimension < 1 || dimension > VECTOR_DIMENSION_MAX)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                           "a dimension is 1 to %d, not %u", VECTOR_DIMENSION_MAX, dimension);
    if (metric < METRIC_COSINE || metric > METRIC_SQUARED_EUCLIDEAN)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_METRIC, "there is no metric %u",
                           metric);
    struct collection *c = NULL;
    HASH_FIND_STR(space->collections, name, c);
    if (c)
        return failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_COLLECTION_EXISTS,
                           "collection '%s' exists", name);
    st = store_check_room(s, space, f);
    if (st) return st;

    st = collection_create(s->heap, s->kernels, space, name, dimension, (enum metric)metric, &c);
    if (st) return failure_set(f, st, DETAIL_MEMORY, "no memory for a collection");
    if (!fault_here("store: collection name")) HASH_ADD_STR(space->collections, resident.name, c);
    if (!c->hh.tbl) {
        collection_destroy(c);
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for a collection's name");
    }
    space->collection_count++;
    *out = c;
    return STATUS_OK;
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

void store_collection_unlink(struct store *s, struct space *space, struct collection *c)
{
    HASH_DEL(space->collections, c);
    space->collection_count--;
}

size_t store_collection_list(struct store *s, struct space *space, const char *after,
                             struct collection **out, size_t max, bool *more)
{
    /* Keeps the max smallest names past `after`, sorted, while walking all names. */
    size_t count = 0;
    *more = false;
    for (struct collection *c = space->collections; c; c = c->hh.next) {
        if (strcmp(c->resident.name, after) <= 0) continue;
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
