/* The pool against a map of every page: who may have written it, and who has it now. */
#include "daemon/gpu/vram_pool.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"

enum { PAGE = 4096, SLOT = 65536, UNIT = 1 << 20, UNITS = 24, PAGES = UNITS * 256 };
enum { OWNERS = 5, NOBODY = 1, BLOCKS_MAX = 300, STEPS = 40000 };

static struct vram_pool *make(uint64_t bytes)
{
    struct vram_pool *p = NULL;
    cr_assert_eq(vram_pool_create(bytes, &p), STATUS_OK);
    return p;
}

static struct vram_block take(struct vram_pool *p, uint64_t bytes, uint32_t owner)
{
    struct vram_block b = {0};
    cr_assert_eq(vram_pool_take(p, bytes, owner, &b), STATUS_OK);
    cr_assert(b.bytes >= bytes && b.dirty_bytes <= b.bytes && b.offset % 256 == 0);
    return b;
}

static struct vram_block take_cleared(struct vram_pool *p, uint64_t bytes, uint32_t owner)
{
    struct vram_block b = take(p, bytes, owner);
    b.dirty_bytes = 0;
    return b;
}

Test(vram_pool, has_classes)
{
    struct vram_pool *p = make(8 * UNIT + 5);
    static const struct {
        uint64_t asked, given;
    } cases[] = {{1, PAGE},
                 {PAGE, PAGE},
                 {PAGE + 1, SLOT},
                 {SLOT, SLOT},
                 {SLOT + 1, UNIT},
                 {UNIT, UNIT},
                 {UNIT + 1, 2 * UNIT},
                 {8 * UNIT, 8 * UNIT},
                 {7 * UNIT + 1, 8 * UNIT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vram_block b = take(p, cases[i].asked, 1);
        cr_assert_eq(b.bytes, cases[i].given);
        struct vram_pool_usage u = vram_pool_usage(p);
        cr_assert(u.slab_bytes == 8 * UNIT && u.used_bytes == b.bytes && u.blocks == 1);
        cr_assert_eq(u.asked_bytes, cases[i].asked);
        vram_pool_give(p, &b);
        cr_assert(b.bytes == 0 && b.offset == 0);
        vram_pool_give(p, &b);
        cr_assert(vram_pool_usage(p).used_bytes == 0 && vram_pool_usage(p).asked_bytes == 0);
        cr_assert_eq(vram_pool_largest(p), 8 * UNIT);
    }
    vram_pool_destroy(p);
    vram_pool_destroy(NULL);
}

Test(vram_pool, says_when_there_is_no_room)
{
    struct vram_pool *p = NULL;
    cr_assert_eq(vram_pool_create(UNIT - 1, &p), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(vram_pool_create(UINT64_MAX, &p), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_null(p);
    p = make(2 * UNIT);
    struct vram_block untouched = {7, 7, 7, 7}, page = take(p, 1, 1), b = untouched;
    cr_assert_eq(vram_pool_take(p, 2 * UNIT, 1, &b), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(vram_pool_take(p, 2 * UNIT + 1, 1, &b), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(vram_pool_take(p, UINT64_MAX, 1, &b), STATUS_RESOURCE_EXHAUSTED);
    cr_assert(memcmp(&b, &untouched, sizeof b) == 0);
    cr_assert_eq(vram_pool_largest(p), UNIT);
    struct vram_block unit = take(p, UNIT, 1), slots[15];
    cr_assert_eq(vram_pool_largest(p), SLOT);
    for (int i = 0; i < 15; i++)
        slots[i] = take(p, SLOT, 1);
    cr_assert_eq(vram_pool_largest(p), PAGE);
    cr_assert_eq(vram_pool_take(p, SLOT, 1, &b), STATUS_RESOURCE_EXHAUSTED);
    struct vram_block pages[15];
    for (int i = 0; i < 15; i++)
        pages[i] = take(p, PAGE, 1);
    cr_assert_eq(vram_pool_largest(p), 0);
    cr_assert_eq(vram_pool_take(p, 1, 1, &b), STATUS_RESOURCE_EXHAUSTED);
    for (int i = 0; i < 15; i++)
        vram_pool_give(p, &pages[i]), vram_pool_give(p, &slots[i]);
    vram_pool_give(p, &unit);
    vram_pool_give(p, &page);
    cr_assert_eq(vram_pool_largest(p), 2 * UNIT);
    vram_pool_destroy(p);
}

/* An owner that comes back finds what it had, in every class, whatever others did meanwhile. */
Test(vram_pool, gives_owners_what_they_had)
{
    static const uint64_t sizes[] = {PAGE, SLOT, UNIT, 3 * UNIT};
    for (size_t s = 0; s < 4; s++) {
        struct vram_pool *p = make(32 * UNIT);
        for (uint32_t owner = 1; owner <= 4; owner++) {
            struct vram_block b = take(p, sizes[s], owner);
            cr_assert_eq(b.dirty_bytes, b.bytes, "a fresh slab may hold anything");
            b.dirty_bytes = 0;
            vram_pool_give(p, &b);
        }
        for (int round = 0; round < 50; round++) {
            uint32_t owner = 1 + (uint32_t)(round * 7 % 4);
            struct vram_block b = take(p, sizes[s], owner);
            cr_assert_eq(b.dirty_bytes, 0, "size %d, round %d", (int)sizes[s], round);
            vram_pool_give(p, &b);
        }
        vram_pool_destroy(p);
    }
}

Test(vram_pool, keeps_dirt_when_runs_split_and_merge)
{
    struct vram_pool *p = make(4 * UNIT);
    struct vram_block all = take_cleared(p, 4 * UNIT, 1);
    vram_pool_give(p, &all);
    /* One page of another owner, somewhere. */
    struct vram_block page = take(p, 1, 2);
    cr_assert_eq(page.dirty_bytes, PAGE);
    page.dirty_bytes = 0;
    uint64_t at = page.offset;
    vram_pool_give(p, &page);
    all = take(p, 4 * UNIT, 1);
    cr_assert_eq(all.dirty_bytes, at + PAGE);
    all.dirty_bytes = 0;
    vram_pool_give(p, &all);
    all = take(p, 4 * UNIT, 1);
    cr_assert_eq(all.dirty_bytes, 0);
    vram_pool_give(p, &all);
    vram_pool_destroy(p);
}

/* Whoever gives a block back without having cleared it gets it dirty, too. */
Test(vram_pool, does_not_believe_that_it_was_cleared)
{
    static const uint64_t sizes[] = {PAGE, SLOT, UNIT};
    for (size_t s = 0; s < 3; s++) {
        struct vram_pool *p = make(UNIT);
        struct vram_block b = take_cleared(p, sizes[s], 1);
        vram_pool_give(p, &b);
        b = take(p, UNIT, 2);
        cr_assert_eq(b.dirty_bytes, UNIT);
        vram_pool_give(p, &b); /* say, because the work failed */
        b = take(p, sizes[s], 2);
        cr_assert_eq(b.dirty_bytes, b.bytes);
        vram_pool_give(p, &b);
        b = take(p, sizes[s], 1);
        cr_assert_eq(b.dirty_bytes, b.bytes);
        vram_pool_give(p, &b);
        vram_pool_destroy(p);
    }
}

/* ---- a random walk beside a model ---- */

struct model {
    struct vram_pool *pool;
    uint64_t seed;
    uint32_t written[PAGES]; /* bit 1 << owner; NOBODY: not known */
    uint32_t taken[PAGES];   /* by the block with this number; 0: free */
    struct vram_block blocks[BLOCKS_MAX];
    uint32_t owners[BLOCKS_MAX];
    uint64_t used, count;
    bool clears; /* always */
};

static uint32_t pick(struct model *m, uint32_t below)
{
    uint64_t z = m->seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32) % below;
}

static bool group_free(const struct model *m, uint32_t first, uint32_t pages)
{
    for (uint32_t i = 0; i < pages; i++)
        if (m->taken[first + i]) return false;
    return true;
}

/* The largest class that fits, from the map. */
static uint64_t model_largest(const struct model *m)
{
    uint64_t longest = 0, run = 0;
    for (uint32_t u = 0; u < UNITS; u++) {
        run = group_free(m, u * 256, 256) ? run + 1 : 0;
        if (run > longest) longest = run;
    }
    if (longest) return longest * UNIT;
    for (uint32_t s = 0; s < UNITS * 16; s++)
        if (group_free(m, s * 16, 16)) return SLOT;
    for (uint32_t i = 0; i < PAGES; i++)
        if (!m->taken[i]) return PAGE;
    return 0;
}

static void model_take(struct model *m, uint32_t slot)
{
    static const uint64_t limits[] = {PAGE, PAGE, SLOT, SLOT, 3 * UNIT, UNITS / 2 * UNIT};
    uint64_t bytes = 1 + pick(m, (uint32_t)limits[pick(m, 6)]);
    uint32_t owner = 1 + pick(m, OWNERS);
    struct vram_block b;
    if (vram_pool_take(m->pool, bytes, owner, &b)) {
        cr_assert(bytes > model_largest(m));
        return;
    }
    uint32_t first = (uint32_t)(b.offset / PAGE), pages = (uint32_t)(b.bytes / PAGE);
    uint32_t last_dirty = 0;
    for (uint32_t i = first; i < first + pages; i++) {
        cr_assert_eq(m->taken[i], 0, "two have page %u", i);
        m->taken[i] = slot + 1;
        if (m->written[i] & ~(1u << owner)) last_dirty = i - first + 1;
    }
    cr_assert(b.dirty_bytes >= (uint64_t)last_dirty * PAGE, "dirt is lost");
    if (m->clears) cr_assert_eq(b.dirty_bytes, (uint64_t)last_dirty * PAGE);
    bool cleared = m->clears || pick(m, 3) > 0;
    for (uint32_t i = first; i < first + pages; i++) {
        if (cleared && (uint64_t)(i - first) * PAGE < b.dirty_bytes) m->written[i] = 0;
        m->written[i] |= 1u << owner;
    }
    if (cleared) b.dirty_bytes = 0;
    m->blocks[slot] = b;
    m->owners[slot] = owner;
    m->used += b.bytes;
    m->count++;
}

static void model_give(struct model *m, uint32_t slot)
{
    struct vram_block *b = &m->blocks[slot];
    for (uint64_t i = b->offset / PAGE; i < (b->offset + b->bytes) / PAGE; i++) {
        cr_assert_eq(m->taken[i], slot + 1);
        m->taken[i] = 0;
    }
    m->used -= b->bytes;
    m->count--;
    vram_pool_give(m->pool, b);
}

static void model_check(struct model *m)
{
    struct vram_pool_usage u = vram_pool_usage(m->pool);
    cr_assert(u.used_bytes == m->used && u.blocks == m->count);
    cr_assert_eq(vram_pool_largest(m->pool), model_largest(m));
}

static void walk(uint64_t seed, bool clears)
{
    struct model *m = calloc(1, sizeof *m);
    m->pool = make(UNITS * UNIT);
    m->seed = seed;
    m->clears = clears;
    for (uint32_t i = 0; i < PAGES; i++)
        m->written[i] = NOBODY;
    uint32_t crowd = BLOCKS_MAX;
    for (uint32_t step = 0; step < STEPS; step++) {
        if (step % 1000 == 0) crowd = 1 + pick(m, BLOCKS_MAX);
        uint32_t slot = pick(m, crowd);
        if (m->blocks[slot].bytes)
            model_give(m, slot);
        else
            model_take(m, slot);
        if (step % 64 == 0) model_check(m);
    }
    for (uint32_t slot = 0; slot < BLOCKS_MAX; slot++)
        if (m->blocks[slot].bytes) model_give(m, slot);
    model_check(m);
    cr_assert_eq(m->used, 0);
    struct vram_block all = take(m->pool, UNITS * UNIT, 1);
    cr_assert_eq(all.offset, 0);
    vram_pool_give(m->pool, &all);
    vram_pool_destroy(m->pool);
    free(m);
}

Test(vram_pool, equals_a_map_of_pages)
{
    for (uint64_t seed = 1; seed <= 6; seed++)
        walk(seed, seed % 2);
}

Test(vram_pool, creation_may_fail_anywhere)
{
    for (uint32_t nth = 1;; nth++) {
        fault_arm(nth);
        struct vram_pool *p = NULL;
        enum status st = vram_pool_create(UNIT, &p);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert(fired ? st == STATUS_RESOURCE_EXHAUSTED && !p : st == STATUS_OK);
        vram_pool_destroy(p);
        if (!fired) break;
    }
}
