#include "daemon/gpu/vram_pool.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/fault.h"
#include "daemon/gpu/vram_units.h"

/* How many units or slots a take examines in search of what its owner had before. */
enum { LOOK_MAX = 16 };

struct vram_slot {
    struct vram_link link; /* in the pool's list of slots that are cut and have a free page */
    uint16_t pages_free;   /* a bit for each page; of slots that are cut */
};

struct vram_pool {
    struct vram_units units;
    struct vram_slot *slots; /* lazily initialised: read only if a unit says that its slot is cut */
    uint32_t units_with_room; /* split units with a free slot */
    uint32_t slots_with_room; /* cut slots with a free page */
    uint64_t used_bytes, asked_bytes, blocks;
};

enum status vram_pool_create(uint64_t slab_bytes, struct vram_pool **out)
{
    uint64_t units = slab_bytes / VRAM_UNIT;
    if (units < 1 || units > VRAM_UNITS_MAX) return STATUS_RESOURCE_EXHAUSTED;
    struct vram_pool *p = fault_here("vram_pool: struct") ? NULL : calloc(1, sizeof *p);
    if (!p) return STATUS_RESOURCE_EXHAUSTED;
    enum status st = vram_units_init(&p->units, (uint32_t)units);
    p->slots = st ? NULL : calloc(units * SLOTS_A_UNIT, sizeof *p->slots);
    if (!p->slots) {
        vram_pool_destroy(p);
        return STATUS_RESOURCE_EXHAUSTED;
    }
    p->units_with_room = p->slots_with_room = VRAM_NONE;
    *out = p;
    return STATUS_OK;
}

void vram_pool_destroy(struct vram_pool *p)
{
    if (!p) return;
    vram_units_finish(&p->units);
    free(p->slots);
    free(p);
}

/* ---- the two lists ---- */

static struct vram_link *unit_link(struct vram_pool *p, uint32_t unit)
{
    return &p->units.unit[unit].link;
}

static struct vram_link *slot_link(struct vram_pool *p, uint32_t slot)
{
    return &p->slots[slot].link;
}

typedef struct vram_link *(*link_of)(struct vram_pool *p, uint32_t at);

static void list_push(struct vram_pool *p, link_of link, uint32_t *head, uint32_t at)
{
    *link(p, at) = (struct vram_link){*head, VRAM_NONE};
    if (*head != VRAM_NONE) link(p, *head)->previous = at;
    *head = at;
}

static void list_remove(struct vram_pool *p, link_of link, uint32_t *head, uint32_t at)
{
    struct vram_link was = *link(p, at);
    if (was.previous != VRAM_NONE)
        link(p, was.previous)->next = was.next;
    else
        *head = was.next;
    if (was.next != VRAM_NONE) link(p, was.next)->previous = was.previous;
}

/* ---- tags ---- */

static void tag_pages(struct vram_pool *p, uint32_t first, uint32_t count, uint32_t tag)
{
    for (uint32_t page = first; page < first + count; page++)
        p->units.page_tags[page] = tag;
}

static void tag_units(struct vram_pool *p, uint32_t first, uint32_t count, uint32_t tag)
{
    for (uint32_t u = first; u < first + count; u++)
        p->units.unit[u].tag = tag;
}

/* Chooses among the `free` parts of `pages` pages each: one that was the owner's, else one that
 * was nobody's, else the first. *own: the first one of these. */
static uint32_t choose_part(const struct vram_pool *p, uint32_t first_page, uint32_t pages,
                            uint16_t free, uint32_t owner, bool *own)
{
    uint32_t best = (uint32_t)__builtin_ctz(free);
    uint32_t best_tag = p->units.page_tags[first_page + best * pages];
    for (uint32_t left = free; left; left &= left - 1) {
        uint32_t part = (uint32_t)__builtin_ctz(left);
        uint32_t tag = p->units.page_tags[first_page + part * pages];
        *own = tag == owner;
        if (*own) return part;
        if (tag == 0 && best_tag != 0) best = part, best_tag = 0;
    }
    return best;
}

/* ---- slots of 64 KiB ---- */

static bool split_unit(struct vram_pool *p, uint32_t owner)
{
    uint32_t u = vram_units_take(&p->units, 1, owner, true);
    if (u == VRAM_NONE) return false;
    struct vram_unit *unit = &p->units.unit[u];
    if (unit->tag != TAG_PAGES) tag_pages(p, u * PAGES_A_UNIT, PAGES_A_UNIT, unit->tag);
    unit->tag = TAG_PAGES;
    unit->state = UNIT_SPLIT;
    unit->slots_free = UINT16_MAX;
    unit->slots_split = 0;
    list_push(p, unit_link, &p->units_with_room, u);
    return true;
}

static uint32_t take_slot(struct vram_pool *p, uint32_t owner)
{
    if (p->units_with_room == VRAM_NONE && !split_unit(p, owner)) return VRAM_NONE;
    uint32_t chosen = VRAM_NONE, part = 0, u = p->units_with_room;
    bool own = false;
    for (unsigned seen = 0; seen < LOOK_MAX && u != VRAM_NONE && !own; seen++) {
        uint32_t free = p->units.unit[u].slots_free;
        uint32_t found =
            choose_part(p, u * PAGES_A_UNIT, PAGES_A_SLOT, (uint16_t)free, owner, &own);
        if (own || chosen == VRAM_NONE) chosen = u, part = found;
        u = unit_link(p, u)->next;
    }
    struct vram_unit *unit = &p->units.unit[chosen];
    unit->slots_free &= (uint16_t) ~(1u << part);
    if (!unit->slots_free) list_remove(p, unit_link, &p->units_with_room, chosen);
    return chosen * SLOTS_A_UNIT + part;
}

static void give_slot(struct vram_pool *p, uint32_t slot)
{
    uint32_t u = slot / SLOTS_A_UNIT, bit = 1u << slot % SLOTS_A_UNIT;
    struct vram_unit *unit = &p->units.unit[u];
    assert(unit->state == UNIT_SPLIT && !(unit->slots_free & bit) && !(unit->slots_split & bit));
    if (!unit->slots_free) list_push(p, unit_link, &p->units_with_room, u);
    unit->slots_free |= (uint16_t)bit;
    if (unit->slots_free != UINT16_MAX) return;
    list_remove(p, unit_link, &p->units_with_room, u);
    unit->state = UNIT_TAKEN;
    unit->length = 1;
    vram_units_give(&p->units, u, 1);
}

/* ---- pages of 4 KiB ---- */

static bool cut_slot(struct vram_pool *p, uint32_t owner)
{
    uint32_t slot = take_slot(p, owner);
    if (slot == VRAM_NONE) return false;
    p->units.unit[slot / SLOTS_A_UNIT].slots_split |= (uint16_t)(1u << slot % SLOTS_A_UNIT);
    p->slots[slot].pages_free = UINT16_MAX;
    list_push(p, slot_link, &p->slots_with_room, slot);
    return true;
}

static uint32_t take_page(struct vram_pool *p, uint32_t owner)
{
    if (p->slots_with_room == VRAM_NONE && !cut_slot(p, owner)) return VRAM_NONE;
    uint32_t chosen = VRAM_NONE, part = 0, slot = p->slots_with_room;
    bool own = false;
    for (unsigned seen = 0; seen < LOOK_MAX && slot != VRAM_NONE && !own; seen++) {
        uint32_t found =
            choose_part(p, slot * PAGES_A_SLOT, 1, p->slots[slot].pages_free, owner, &own);
        if (own || chosen == VRAM_NONE) chosen = slot, part = found;
        slot = slot_link(p, slot)->next;
    }
    p->slots[chosen].pages_free &= (uint16_t) ~(1u << part);
    if (!p->slots[chosen].pages_free) list_remove(p, slot_link, &p->slots_with_room, chosen);
    return chosen * PAGES_A_SLOT + part;
}

static void give_page(struct vram_pool *p, uint32_t page)
{
    uint32_t at = page / PAGES_A_SLOT, bit = 1u << page % PAGES_A_SLOT;
    struct vram_slot *slot = &p->slots[at];
    struct vram_unit *unit = &p->units.unit[at / SLOTS_A_UNIT];
    uint32_t slot_bit = 1u << at % SLOTS_A_UNIT;
    assert(unit->state == UNIT_SPLIT && (unit->slots_split & slot_bit));
    assert(!(slot->pages_free & bit));
    if (!slot->pages_free) list_push(p, slot_link, &p->slots_with_room, at);
    slot->pages_free |= (uint16_t)bit;
    if (slot->pages_free != UINT16_MAX) return;
    list_remove(p, slot_link, &p->slots_with_room, at);
    unit->slots_split &= (uint16_t)~slot_bit;
    give_slot(p, at);
}

/* ---- blocks ---- */

static uint64_t class_of(uint64_t bytes)
{
    if (bytes <= VRAM_PAGE) return VRAM_PAGE;
    if (bytes <= VRAM_SLOT) return VRAM_SLOT;
    return (bytes + VRAM_UNIT - 1) / VRAM_UNIT * VRAM_UNIT;
}

static enum status take_small(struct vram_pool *p, struct vram_block *b, uint32_t owner)
{
    bool is_page = b->bytes == VRAM_PAGE;
    uint32_t at = is_page ? take_page(p, owner) : take_slot(p, owner);
    if (at == VRAM_NONE) return STATUS_RESOURCE_EXHAUSTED;
    uint32_t first = is_page ? at : at * PAGES_A_SLOT, count = is_page ? 1 : PAGES_A_SLOT;
    b->offset = (uint64_t)first * VRAM_PAGE;
    b->dirty_bytes = vram_pages_dirt(&p->units, first, count, owner);
    tag_pages(p, first, count, owner);
    return STATUS_OK;
}

static enum status take_large(struct vram_pool *p, struct vram_block *b, uint32_t owner)
{
    uint32_t count = (uint32_t)(b->bytes / VRAM_UNIT);
    uint32_t first = vram_units_take(&p->units, count, owner, false);
    if (first == VRAM_NONE) return STATUS_RESOURCE_EXHAUSTED;
    b->offset = (uint64_t)first * VRAM_UNIT;
    b->dirty_bytes = vram_units_dirt(&p->units, first, count, owner);
    tag_units(p, first, count, owner);
    return STATUS_OK;
}

enum status vram_pool_take(struct vram_pool *p, uint64_t bytes, uint32_t owner,
                           struct vram_block *out)
{
    assert(bytes >= 1 && owner >= 1 && owner < TAG_PAGES);
    if (bytes > (uint64_t)p->units.count * VRAM_UNIT) return STATUS_RESOURCE_EXHAUSTED;
    struct vram_block b = {.bytes = class_of(bytes), .asked = bytes};
    enum status st = b.bytes < VRAM_UNIT ? take_small(p, &b, owner) : take_large(p, &b, owner);
    if (st) return st;
    p->used_bytes += b.bytes;
    p->asked_bytes += bytes;
    p->blocks++;
    *out = b;
    return STATUS_OK;
}

/* Marks what was not cleared as nobody's: it holds bytes of former owners and of the last one. */
static void keep_dirt(struct vram_pool *p, const struct vram_block *b)
{
    uint64_t bytes = b->dirty_bytes < b->bytes ? b->dirty_bytes : b->bytes;
    if (b->bytes < VRAM_UNIT)
        tag_pages(p, (uint32_t)(b->offset / VRAM_PAGE),
                  (uint32_t)((bytes + VRAM_PAGE - 1) / VRAM_PAGE), 0);
    else
        tag_units(p, (uint32_t)(b->offset / VRAM_UNIT),
                  (uint32_t)((bytes + VRAM_UNIT - 1) / VRAM_UNIT), 0);
}

void vram_pool_give(struct vram_pool *p, struct vram_block *b)
{
    if (b->bytes == 0) return;
    assert(b->bytes == class_of(b->bytes) &&
           b->offset % (b->bytes < VRAM_UNIT ? b->bytes : VRAM_UNIT) == 0);
    assert(b->offset + b->bytes <= (uint64_t)p->units.count * VRAM_UNIT);
    keep_dirt(p, b);
    if (b->bytes == VRAM_PAGE)
        give_page(p, (uint32_t)(b->offset / VRAM_PAGE));
    else if (b->bytes == VRAM_SLOT)
        give_slot(p, (uint32_t)(b->offset / VRAM_SLOT));
    else
        vram_units_give(&p->units, (uint32_t)(b->offset / VRAM_UNIT),
                        (uint32_t)(b->bytes / VRAM_UNIT));
    p->used_bytes -= b->bytes;
    p->asked_bytes -= b->asked;
    p->blocks--;
    *b = (struct vram_block){0};
}

uint64_t vram_pool_largest(const struct vram_pool *p)
{
    uint32_t longest = vram_units_longest(&p->units);
    if (longest) return (uint64_t)longest * VRAM_UNIT;
    if (p->units_with_room != VRAM_NONE) return VRAM_SLOT;
    return p->slots_with_room != VRAM_NONE ? VRAM_PAGE : 0;
}

struct vram_pool_usage vram_pool_usage(const struct vram_pool *p)
{
    return (struct vram_pool_usage){
        .slab_bytes = (uint64_t)p->units.count * VRAM_UNIT,
        .used_bytes = p->used_bytes,
        .asked_bytes = p->asked_bytes,
        .blocks = p->blocks,
    };
}
