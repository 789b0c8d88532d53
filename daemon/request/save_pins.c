#include "daemon/request/save_pins.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/request/jobs.h"
#include "daemon/request/sweep.h"

#define LENT_MORE_BYTES (UINT64_C(8) << 20) /* segments are not full, and two may be copied */

static void unpin(struct pipeline *p, struct save_pin *pin)
{
    struct resident *r = pin->object.resident;
    struct space *space = r->space;
    r->ops->end(&pin->object);
    sweep_gone(p, r);
    heap_lend_end(p->heap, space->number, pin->lent_bytes);
    sweep_unsave(r);
    store_space_release(p->store, space);
}

void save_pins_leave(struct pipeline *p, uint64_t count)
{
    for (; p->saves.unpinned < count; p->saves.unpinned++)
        unpin(p, &p->saves.pins[p->saves.unpinned]);
}

void save_pins_leave_all(struct pipeline *p)
{
    save_pins_leave(p, p->saves.pin_count);
    free(p->saves.pins);
    p->saves.pins = NULL;
    p->saves.pin_count = p->saves.unpinned = 0;
}

/* False: not all of them can be pinned now, and none is. */
static bool begin_all(struct save_pin *pins, const struct save_item *items, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct job_object *o = &pins[i].object;
        o->resident = items[i].resident;
        if (o->resident->ops->begin(o)) continue;
        while (i--) {
            o = &pins[i].object;
            o->resident->ops->end(o);
        }
        return false;
    }
    return true;
}

enum status save_pins_hold(struct pipeline *p, const struct save_item *items, uint64_t count,
                           struct failure *f)
{
    struct save_pin *pins = fault_here("saves: pins") ? NULL : calloc(count + 1, sizeof *pins);
    if (!pins) return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory to save");
    if (!begin_all(pins, items, count)) {
        free(pins);
        return failure_set(f, STATUS_UNAVAILABLE, DETAIL_SYSTEM,
                           "not everything can be saved now: weights of an attractor are made");
    }
    for (uint64_t i = 0; i < count; i++) {
        struct resident *r = pins[i].object.resident;
        atomic_fetch_add(&r->saved, 1);
        r->space->users++;
        pins[i].version = resident_version(r);
        /* What it keeps, and copies that writes make since they find it pinned. */
        pins[i].lent_bytes = 2 * resident_bytes(r) + LENT_MORE_BYTES;
        heap_lend(p->heap, r->space->number, pins[i].lent_bytes);
    }
    p->saves.pins = pins;
    p->saves.pin_count = count;
    return STATUS_OK;
}

static bool is_named(const struct tensor *spaces, const char *name)
{
    const char *at = spaces->data, *end = at + spaces->rows;
    for (; at < end; at += strlen(at) + 1)
        if (strcmp(at, name) == 0) return true;
    return false;
}

enum status save_pins_choose(const struct tensor *spaces, struct save_item *items, uint64_t *count,
                             struct failure *f)
{
    const char *at = spaces->data, *end = at + spaces->rows;
    for (uint64_t i; at < end; at += strlen(at) + 1) {
        for (i = 0; i < *count && strcmp(items[i].object.space, at) != 0; i++)
            ;
        if (i == *count)
            return failure_set(f, STATUS_NOT_FOUND, DETAIL_BAD_SPACE,
                               "space %.64s: nothing of that name is there", at);
    }
    uint64_t kept = 0;
    for (uint64_t i = 0; i < *count; i++)
        if (is_named(spaces, items[i].object.space)) items[kept++] = items[i];
    *count = kept;
    return STATUS_OK;
}

static bool is_kept(const struct save_pin *pin)
{
    const struct resident *r = pin->object.resident;
    return r->abandoned || resident_version(r) != pin->version;
}

bool save_pins_keep(const struct pipeline *p)
{
    uint64_t i = p->saves.unpinned;
    while (i < p->saves.pin_count && !is_kept(&p->saves.pins[i]))
        i++;
    return i < p->saves.pin_count;
}
