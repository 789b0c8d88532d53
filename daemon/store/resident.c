#include "daemon/store/resident.h"

#include <string.h>

void resident_init(struct resident *r, const struct resident_ops *ops, struct space *space,
                   const char *name)
{
    r->ops = ops;
    r->space = space;
    resident_set_name(r, name);
    resident_change(r);
}

void resident_set_name(struct resident *r, const char *name)
{
    strncpy(r->name, name, COLLECTION_NAME_MAX);
    r->number = ++*r->space->residents_named;
}
