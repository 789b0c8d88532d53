#include "daemon/store/adopt_inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/store/attractor_inside.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/graph_inside.h"
#include "daemon/store/restore.h"
#include "daemon/store/space_inside.h"

_Static_assert(sizeof((struct told_resident *)0)->space > SPACE_NAME_MAX &&
                   sizeof((struct told_resident *)0)->name > COLLECTION_NAME_MAX,
               "names end with a zero");

/* The first piece of all. */
struct told_store {
    uint64_t residents, versions;
};

enum status adopt_refuse(const struct adoption *a, const char *why, struct failure *f)
{
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "space %.64s, %.64s: %.100s",
                       a->told.space, a->told.name, why);
}

/* ---- telling ---- */

static bool is_told(const struct resident *r)
{
    return !name_is_hidden(r->name);
}

static void list_space(const struct space *space, struct resident **list, size_t *n)
{
    for (struct collection *c = space->collections; c; c = c->hh.next)
        if (is_told(&c->resident)) list[(*n)++] = &c->resident;
    for (struct graph *g = space->graphs; g; g = g->hh.next)
        if (is_told(&g->resident)) list[(*n)++] = &g->resident;
    for (struct attractor *a = space->attractors; a; a = a->hh.next)
        if (is_told(&a->resident)) list[(*n)++] = &a->resident;
}

/* They get their numbers again in the same order (resident.number). */
static int compare_numbers(const void *a, const void *b)
{
    const struct resident *x = *(struct resident *const *)a, *y = *(struct resident *const *)b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void tell(struct store *s, struct resident *r, struct catalogue_writer *w)
{
    struct told_resident told = {.kind = r->ops->kind, .version = resident_version(r)};
    strcpy(told.space, r->space->name);
    strcpy(told.name, r->name);
    catalogue_put(w, &told, sizeof told);
    switch (r->ops->kind) {
    case RESIDENT_COLLECTION: tell_collection(s->heap, r, w); break;
    case RESIDENT_GRAPH: tell_graph(s->heap, r, w); break;
    case RESIDENT_ATTRACTOR: tell_attractor(s->heap, s->kernels, r, w); break;
    case RESIDENT_KINDS: assert(false);
    }
}

enum status store_tell(struct store *s, struct catalogue_writer *w, struct failure *f)
{
    size_t all = 1, n = 0;
    for (const struct space *at = s->spaces; at; at = at->hh_next)
        all += space_resident_count(at);
    struct resident **list = fault_here("adopt: list") ? NULL : calloc(all, sizeof(void *));
    if (!list)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a list");
    for (const struct space *at = s->spaces; at; at = at->hh_next)
        list_space(at, list, &n);
    if (n) qsort(list, n, sizeof(void *), compare_numbers);
    struct told_store told = {n, store_last_version(s)};
    catalogue_put(w, &told, sizeof told);
    for (size_t i = 0; i < n; i++)
        tell(s, list[i], w);
    free(list);
    return STATUS_OK;
}

/* ---- adopting ---- */

static bool is_text(const char *text, size_t room)
{
    return text[0] && memchr(text, 0, room);
}

static enum status adopt_one(struct adoption *a, struct failure *f)
{
    char space[SPACE_NAME_MAX + 1];
    struct told_resident *t = &a->told;
    catalogue_get(a->from, t, sizeof *t);
    if (!is_text(t->space, sizeof t->space) || !is_text(t->name, sizeof t->name) ||
        strlen(t->name) > COLLECTION_NAME_MAX || name_is_hidden(t->name) ||
        space_name_parse(t->space, space, NULL) || strcmp(space, t->space) != 0)
        return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "the catalogue has a wrong name");
    enum status st = store_space(a->store, space, &a->space);
    if (st) return failure_set(f, st, DETAIL_MEMORY, "space %s: no memory", space);
    switch (t->kind) {
    case RESIDENT_COLLECTION: st = adopt_collection(a, f); break;
    case RESIDENT_GRAPH: st = adopt_graph(a, f); break;
    case RESIDENT_ATTRACTOR: st = adopt_attractor(a, f); break;
    default: st = adopt_refuse(a, "is of no kind", f);
    }
    store_space_release(a->store, a->space);
    if (a->from->bad) return adopt_refuse(a, "passes the catalogue's end", f);
    if (!st || st == STATUS_RESOURCE_EXHAUSTED || st == STATUS_DATA_LOSS) return st;
    struct failure why = *f;
    return adopt_refuse(a, why.text, f);
}

enum status store_adopt(struct store *s, struct catalogue_reader *r, uint64_t *count,
                        struct failure *f)
{
    struct adoption a = {.store = s, .heap = s->heap, .from = r};
    struct told_store told;
    enum status st = STATUS_OK;
    catalogue_get(r, &told, sizeof told);
    for (uint64_t i = 0; i < told.residents && !st; i++)
        st = adopt_one(&a, f);
    if (!st && r->bad)
        st = failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "the catalogue is too short");
    if (st) return st;
    store_restore_version(s, told.versions);
    *count = told.residents;
    return STATUS_OK;
}
