#include "daemon/store/resident.h"

#include <string.h>

#include "daemon/store/collection.h"

void resident_init(struct resident *r, enum resident_kind kind, struct space *space,
                   const char *name)
{
    r->kind = kind;
    r->space = space;
    strncpy(r->name, name, COLLECTION_NAME_MAX);
}

/* A resident is the first member of what it belongs to. */
static struct collection *as_collection(const struct resident *r)
{
    return (struct collection *)r;
}

uint64_t resident_bytes(const struct resident *r)
{
    const struct collection *c = as_collection(r);
    uint64_t row_bytes = vector_stride(collection_dimension(c)) * sizeof(float);
    return collection_rows(c) * (row_bytes + sizeof(uint64_t) + sizeof(float)); /* id, norm */
}

uint64_t resident_dirty_bytes(const struct resident *r)
{
    return collection_dirty_bytes(as_collection(r));
}

bool resident_track(struct resident *r)
{
    return collection_track(as_collection(r));
}

void resident_soil(struct resident *r)
{
    collection_soil(as_collection(r));
}
