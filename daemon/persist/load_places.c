/* Objects of a snapshot that are on their way, by name. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/persist/loader_inside.h"
#include "daemon/store/restore.h"

static uint64_t heat_of(const struct load_place *p)
{
    return p->item.object->asked;
}

int load_place_compare(const void *a, const void *b)
{
    const struct load_place *x = a, *y = b;
    if (heat_of(x) != heat_of(y)) return heat_of(x) > heat_of(y) ? -1 : 1;
    uint64_t s = snapshot_object_bytes(x->item.object), t = snapshot_object_bytes(y->item.object);
    return s < t ? -1 : s > t ? 1 : 0;
}

static struct place_key key_of(const struct space *space, enum resident_kind kind, const char *name)
{
    struct place_key key;
    memset(&key, 0, sizeof key);
    key.space = space->number;
    key.kind = kind;
    memcpy(key.name, name, strnlen(name, COLLECTION_NAME_MAX));
    return key;
}

enum status load_place_enter(struct loader *ld, struct load_place *p, struct failure *f)
{
    const struct snapshot_object *o = p->item.object;
    enum status st = load_make(&ld->loading, o, &p->item, f);
    if (st) return st;
    p->key = key_of(p->item.space, o->kind, o->name);
    if (!fault_here("loader: key")) HASH_ADD(hh, ld->by_key, key, sizeof p->key, p);
    if (!p->hh.tbl) {
        load_discard(&ld->loading, &p->item);
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "no memory for what is loaded");
    }
    p->item.space->loading_count++;
    store_count_versions(ld->loading.store, p->item.space, &ld->versions);
    ld->all_bytes += snapshot_object_bytes(o);
    return STATUS_OK;
}

/* It is not on its way any more. */
static void leave_place(struct loader *ld, struct load_place *p)
{
    struct space *space = p->item.space;
    if (!p->hh.tbl) return;
    HASH_DEL(ld->by_key, p);
    p->hh.tbl = NULL;
    ld->settled++;
    if (!--space->loading_count) store_count_versions(ld->loading.store, space, NULL);
}

void load_place_discard(struct loader *ld, struct load_place *p)
{
    load_empty(&p->item); /* which takes versions, that are counted apart until it has left */
    leave_place(ld, p);
    load_discard(&ld->loading, &p->item);
}

enum status load_place_link(struct loader *ld, struct load_place *p, struct failure *f)
{
    leave_place(ld, p);
    return load_link(&ld->loading, &p->item, f);
}

static void note_lost(struct loader *ld, const struct load_place *p, const struct failure *why)
{
    const struct snapshot_object *o = p->item.object;
    log_error("persist: space %s, %s: left out: %s", o->space, o->name, why->text);
    ld->lost++;
    struct persist *at = ld->persist;
    struct persist_left *more =
        fault_here("loader: left") ? NULL : realloc(at->left, (at->left_count + 1) * sizeof *more);
    if (!more) return;
    at->left = more;
    struct persist_left *left = &more[at->left_count++];
    *left = (struct persist_left){.kind = o->kind};
    memcpy(left->space, o->space, sizeof left->space);
    memcpy(left->name, o->name, sizeof left->name);
}

void load_place_fail(struct loader *ld, struct load_place *p, const struct failure *why)
{
    if (ld->partial && why->code != STATUS_RESOURCE_EXHAUSTED && why->code != STATUS_CANCELLED) {
        note_lost(ld, p, why);
    } else {
        if (!ld->failure.code) ld->failure = *why;
        atomic_store(&ld->loading.stop, true);
    }
    load_place_discard(ld, p);
}

struct load_place *load_place_find(const struct loader *ld, const struct space *space,
                                   enum resident_kind kind, const char *name)
{
    struct place_key key = key_of(space, kind, name);
    struct load_place *found;
    HASH_FIND(hh, ld->by_key, &key, sizeof key, found);
    return found;
}
