#include "daemon/gpu/bind_tables.h"

#include <stdlib.h>

#include "daemon/base/fault.h"
#include "kernels/hrr.h"

enum { KEPT = 16 };

static void unlink_from(struct bind_tables **kept, struct bind_tables *t)
{
    while (*kept != t)
        kept = &(*kept)->next;
    *kept = t->next;
}

static void put_first(struct bind_tables **kept, struct bind_tables *t)
{
    t->next = *kept;
    *kept = t;
}

static struct bind_tables *make(uint32_t dimension)
{
    struct bind_tables *t = fault_here("bind_tables: struct") ? NULL : calloc(1, sizeof *t);
    if (!t) return NULL;
    void *memory =
        fault_here("bind_tables: plan") ? NULL : aligned_alloc(64, hrr_plan_bytes(dimension));
    if (!memory) {
        free(t);
        return NULL;
    }
    t->plan = hrr_plan_make(dimension, memory);
    t->dimension = dimension;
    return t;
}

struct bind_tables *bind_tables_take(struct bind_tables **kept, uint32_t dimension)
{
    struct bind_tables *t = *kept;
    while (t && t->dimension != dimension)
        t = t->next;
    if (t)
        unlink_from(kept, t);
    else
        t = make(dimension);
    if (!t) return NULL;
    put_first(kept, t);
    t->users++;
    return t;
}

static void free_tables(struct bind_tables *t)
{
    free((void *)t->plan);
    free(t);
}

/* Frees those that were used longest ago and that nobody has. */
static void trim(struct bind_tables **kept)
{
    uint32_t count = 0;
    while (*kept) {
        struct bind_tables *t = *kept;
        if (++count > KEPT && !t->users) {
            *kept = t->next;
            free_tables(t);
        } else {
            kept = &t->next;
        }
    }
}

void bind_tables_give(struct bind_tables **kept, struct bind_tables *t)
{
    if (!t) return;
    t->users--;
    trim(kept);
}

void bind_tables_finish(struct bind_tables **kept)
{
    while (*kept) {
        struct bind_tables *t = *kept;
        *kept = t->next;
        free_tables(t);
    }
}
