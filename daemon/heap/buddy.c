#include "daemon/heap/buddy.h"

#include <string.h>
#include <sys/mman.h>

#include "daemon/base/fault.h"

static void run_push(struct buddy *b, uint32_t unit, uint32_t order)
{
    uint32_t head = b->free_runs[order];
    b->links[unit] = (struct buddy_link){.next = head, .previous = BUDDY_NONE};
    if (head != BUDDY_NONE) b->links[head].previous = unit;
    b->free_runs[order] = unit;
    b->tags[unit] = (uint8_t)(order + 1);
}

static void run_unlink(struct buddy *b, uint32_t unit, uint32_t order)
{
    struct buddy_link link = b->links[unit];
    if (link.previous == BUDDY_NONE)
        b->free_runs[order] = link.next;
    else
        b->links[link.previous].next = link.next;
    if (link.next != BUDDY_NONE) b->links[link.next].previous = link.previous;
    b->tags[unit] = 0;
}

enum status buddy_init(struct buddy *b, uint32_t units)
{
    memset(b, 0, sizeof *b);
    uint64_t bytes = (uint64_t)units * (sizeof *b->links + sizeof *b->tags);
    void *table = fault_here("heap: buddy table")
                      ? MAP_FAILED
                      : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) return STATUS_RESOURCE_EXHAUSTED;
    b->units = units;
    b->links = table;
    b->tags = (uint8_t *)(b->links + units);
    b->table_bytes = bytes;
    for (uint32_t order = 0; order < BUDDY_ORDERS; order++)
        b->free_runs[order] = BUDDY_NONE;

    /* Runs from the largest to the smallest, so that each is aligned to its own length. */
    uint32_t unit = 0;
    for (int order = BUDDY_ORDERS - 1; order >= 0; order--) {
        if (!(units & 1u << order)) continue;
        run_push(b, unit, (uint32_t)order);
        unit += 1u << order;
    }
    return STATUS_OK;
}

void buddy_finish(struct buddy *b)
{
    if (b->links) munmap(b->links, b->table_bytes);
    memset(b, 0, sizeof *b);
}

uint32_t buddy_take(struct buddy *b, uint32_t order)
{
    uint32_t from = order;
    while (from < BUDDY_ORDERS && b->free_runs[from] == BUDDY_NONE)
        from++;
    if (from >= BUDDY_ORDERS) return BUDDY_NONE;
    uint32_t unit = b->free_runs[from];
    run_unlink(b, unit, from);
    while (from > order) {
        from--;
        run_push(b, unit + (1u << from), from);
    }
    return unit;
}

bool buddy_take_at(struct buddy *b, uint32_t unit, uint32_t order)
{
    uint32_t from = order, first = unit;
    if (unit >= b->units) return false;
    while (from < BUDDY_ORDERS && b->tags[first] != from + 1) {
        from++;
        first = from < BUDDY_ORDERS ? unit & ~((1u << from) - 1) : 0;
    }
    if (from >= BUDDY_ORDERS) return false;
    run_unlink(b, first, from);
    while (from > order) {
        from--;
        uint32_t half = first + (1u << from);
        bool upper = unit >= half;
        run_push(b, upper ? first : half, from);
        if (upper) first = half;
    }
    return true;
}

void buddy_give(struct buddy *b, uint32_t unit, uint32_t order)
{
    while (order + 1 < BUDDY_ORDERS) {
        uint32_t other = unit ^ 1u << order;
        if (other >= b->units || b->tags[other] != order + 1) break;
        run_unlink(b, other, order);
        unit &= ~(1u << order);
        order++;
    }
    run_push(b, unit, order);
}
