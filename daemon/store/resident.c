#include "daemon/store/resident.h"

#include <string.h>

void resident_init(struct resident *r, const struct resident_ops *ops, struct space *space,
                   const char *name)
{
    r->ops = ops;
    r->space = space;
    strncpy(r->name, name, COLLECTION_NAME_MAX);
    resident_change(r);
}
