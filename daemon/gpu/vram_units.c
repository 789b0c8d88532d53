#include "daemon/gpu/vram_units.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/fault.h"

/* How many places a take examines in all and in one run, among runs of the bin that fit. */
enum { PLACES_MAX = 128, PLACES_A_RUN = 32 };

enum likeness { ALIKE, UNKNOWN, OTHERS }; /* whose a place was; lower is better */

struct place {
    uint32_t run, at;
    uint32_t run_length;
    enum likeness likeness;
};

static unsigned bin_of(uint32_t length)
{
    return 31u - (unsigned)__builtin_clz(length);
}

static void run_insert(struct vram_units *s, uint32_t first, uint32_t length)
{
    if (length == 0) return;
    uint32_t *bin = &s->bins[bin_of(length)];
    s->unit[first].state = s->unit[first + length - 1].state = UNIT_FREE;
    s->unit[first].length = s->unit[first + length - 1].length = length;
    s->unit[first].link = (struct vram_link){*bin, VRAM_NONE};
    if (*bin != VRAM_NONE) s->unit[*bin].link.previous = first;
    *bin = first;
}

static void run_remove(struct vram_units *s, uint32_t first)
{
    struct vram_link link = s->unit[first].link;
    if (link.previous != VRAM_NONE)
        s->unit[link.previous].link.next = link.next;
    else
        s->bins[bin_of(s->unit[first].length)] = link.next;
    if (link.next != VRAM_NONE) s->unit[link.next].link.previous = link.previous;
}

enum status vram_units_init(struct vram_units *s, uint32_t count)
{
    assert(count >= 1 && count <= VRAM_UNITS_MAX);
    bool fail = fault_here("vram_pool: tables");
    *s = (struct vram_units){
        .count = count,
        .unit = fail ? NULL : calloc(count, sizeof *s->unit),
        .page_tags = fail ? NULL : calloc((size_t)count * PAGES_A_UNIT, sizeof *s->page_tags),
    };
    if (!s->unit || !s->page_tags) {
        vram_units_finish(s);
        return STATUS_RESOURCE_EXHAUSTED;
    }
    for (unsigned bin = 0; bin < VRAM_BINS; bin++)
        s->bins[bin] = VRAM_NONE;
    run_insert(s, 0, count);
    return STATUS_OK;
}

void vram_units_finish(struct vram_units *s)
{
    free(s->unit);
    free(s->page_tags);
    *s = (struct vram_units){0};
}

/* ---- who had what ---- */

uint64_t vram_pages_dirt(const struct vram_units *s, uint32_t first, uint32_t count, uint32_t owner)
{
    while (count > 0 && s->page_tags[first + count - 1] == owner)
        count--;
    return (uint64_t)count * VRAM_PAGE;
}

static uint64_t unit_dirt(const struct vram_units *s, uint32_t u, uint32_t owner)
{
    if (s->unit[u].tag == TAG_PAGES)
        return vram_pages_dirt(s, u * PAGES_A_UNIT, PAGES_A_UNIT, owner);
    return s->unit[u].tag == owner ? 0 : VRAM_UNIT;
}

uint64_t vram_units_dirt(const struct vram_units *s, uint32_t first, uint32_t count, uint32_t owner)
{
    while (count > 0) {
        uint64_t bytes = unit_dirt(s, first + count - 1, owner);
        if (bytes) return (uint64_t)(count - 1) * VRAM_UNIT + bytes;
        count--;
    }
    return 0;
}

static enum likeness tag_likeness(uint32_t tag, uint32_t owner)
{
    return tag == owner ? ALIKE : tag == 0 ? UNKNOWN : OTHERS;
}

/* Estimates the likeness of a unit with tags for its pages from one page of each slot. */
static enum likeness pages_likeness(const struct vram_units *s, uint32_t u, uint32_t owner,
                                    bool to_split)
{
    enum likeness best = OTHERS, worst = ALIKE;
    for (uint32_t slot = 0; slot < SLOTS_A_UNIT; slot++) {
        uint32_t tag = s->page_tags[u * PAGES_A_UNIT + slot * PAGES_A_SLOT];
        enum likeness likeness = tag_likeness(tag, owner);
        if (likeness < best) best = likeness;
        if (likeness > worst) worst = likeness;
    }
    return to_split ? best : worst;
}

static enum likeness unit_likeness(const struct vram_units *s, uint32_t u, uint32_t owner,
                                   bool to_split)
{
    uint32_t tag = s->unit[u].tag;
    return tag == TAG_PAGES ? pages_likeness(s, u, owner, to_split) : tag_likeness(tag, owner);
}

/* ---- runs ---- */

/* Searches one run for a better place; returns how many places it examined. */
static unsigned search_run(const struct vram_units *s, uint32_t run, uint32_t count, uint32_t owner,
                           bool to_split, struct place *best)
{
    uint32_t length = s->unit[run].length, seen = 0;
    for (; seen < PLACES_A_RUN && (uint64_t)(seen + 1) * count <= length; seen++) {
        uint32_t from_end = to_split ? length - count - seen * count : seen * count;
        uint32_t at = run + length - count - from_end;
        enum likeness likeness = unit_likeness(s, at, owner, to_split);
        enum likeness last = unit_likeness(s, at + count - 1, owner, to_split);
        if (last > likeness) likeness = last;
        bool better = best->run == VRAM_NONE || likeness == ALIKE || length < best->run_length ||
                      (run == best->run && likeness < best->likeness);
        if (better) *best = (struct place){run, at, length, likeness};
        if (likeness == ALIKE) break;
    }
    return seen + 1;
}

static struct place find_place(const struct vram_units *s, uint32_t count, uint32_t owner,
                               bool to_split)
{
    struct place best = {.run = VRAM_NONE};
    unsigned seen = 0;
    for (unsigned bin = bin_of(count); bin < VRAM_BINS; bin++) {
        for (uint32_t run = s->bins[bin]; run != VRAM_NONE; run = s->unit[run].link.next) {
            if (s->unit[run].length < count) continue;
            seen += search_run(s, run, count, owner, to_split, &best);
            if (best.likeness == ALIKE || seen >= PLACES_MAX) return best;
        }
    }
    return best;
}

uint32_t vram_units_take(struct vram_units *s, uint32_t count, uint32_t owner, bool to_split)
{
    struct place place = find_place(s, count, owner, to_split);
    if (place.run == VRAM_NONE) return VRAM_NONE;
    uint32_t before = place.at - place.run;
    run_remove(s, place.run);
    run_insert(s, place.run, before);
    run_insert(s, place.at + count, place.run_length - before - count);
    for (uint32_t u = place.at; u < place.at + count; u++)
        s->unit[u].state = UNIT_TAKEN;
    s->unit[place.at].length = count;
    return place.at;
}

void vram_units_give(struct vram_units *s, uint32_t first, uint32_t count)
{
    assert(s->unit[first].state == UNIT_TAKEN && s->unit[first].length == count);
    s->unit[first].state = UNIT_FREE;
    uint32_t end = first + count;
    if (end < s->count && s->unit[end].state == UNIT_FREE) {
        run_remove(s, end);
        count += s->unit[end].length;
    }
    if (first > 0 && s->unit[first - 1].state == UNIT_FREE) {
        uint32_t before = s->unit[first - 1].length;
        first -= before;
        count += before;
        run_remove(s, first);
    }
    run_insert(s, first, count);
}

uint32_t vram_units_longest(const struct vram_units *s)
{
    for (unsigned bin = VRAM_BINS; bin-- > 0;) {
        uint32_t longest = 0;
        for (uint32_t run = s->bins[bin]; run != VRAM_NONE; run = s->unit[run].link.next)
            if (s->unit[run].length > longest) longest = s->unit[run].length;
        if (longest) return longest;
    }
    return 0;
}
