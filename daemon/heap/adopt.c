#include "daemon/heap/adopt.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/base/fault.h"
#include "daemon/base/memory_file.h"
#include "daemon/heap/heap_inside.h"
#include "daemon/heap/releaser.h"

enum { PAGE = 4096, FIRST_ROOM = 1024 };

/* A range of the file that somebody has. */
struct held {
    uint64_t offset, bytes;
    uint64_t span; /* of a block: its addresses; of a piece: 0 */
};

struct sharer {
    struct heap_told told;
    struct shared_block *block;
    uint32_t owner;
};

struct heap_adoption {
    struct held *held;
    size_t held_count, held_room;
    struct sharer *sharers; /* the last one is asked for most */
    size_t sharer_count, sharer_room;
};

static enum status refuse(uint64_t offset, const char *why, struct failure *f)
{
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED,
                       "the block at %" PRIu64 " of the heap %s", offset, why);
}

static enum status no_memory(struct failure *f)
{
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory to adopt the heap");
}

static bool grow(void **list, size_t *room, size_t count, size_t each)
{
    if (count < *room) return true;
    size_t more = *room ? *room * 2 : FIRST_ROOM;
    void *grown = fault_here("heap: adoption") ? NULL : realloc(*list, more * each);
    if (!grown) return false;
    *list = grown;
    *room = more;
    return true;
}

static enum status hold(struct heap *h, uint64_t offset, uint64_t bytes, uint64_t span,
                        struct failure *f)
{
    struct heap_adoption *a = h->adoption;
    if (!grow((void **)&a->held, &a->held_room, a->held_count, sizeof *a->held))
        return no_memory(f);
    a->held[a->held_count++] = (struct held){offset, bytes, span};
    return STATUS_OK;
}

/* ---- adopting ---- */

enum status heap_adopt(uint64_t bytes_max, int fd, struct heap **out, struct failure *f)
{
    struct stat sb;
    if (fstat(fd, &sb) || !S_ISREG(sb.st_mode) || !memory_file_is_sealed(fd, false) ||
        sb.st_size <= 0 || sb.st_size % HEAP_UNIT)
        return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED,
                           "what should be the heap is no sealed file of memory");
    struct heap_adoption *a = fault_here("heap: adoption") ? NULL : calloc(1, sizeof *a);
    if (!a) return no_memory(f);
    enum status st = heap_create_of(bytes_max, fd, (uint64_t)sb.st_size / HEAP_UNIT, out);
    if (!st) {
        (*out)->adoption = a;
        (*out)->left = true;
        return STATUS_OK;
    }
    free(a);
    if (st == STATUS_FAILED_PRECONDITION)
        return failure_set(f, st, DETAIL_NONE,
                           "memory.max_mib: the heap was made for less memory than %" PRIu64 " MiB",
                           bytes_max >> 20);
    return failure_set(f, st, DETAIL_MEMORY, "the heap cannot be mapped");
}

static enum status check_told(const struct heap *h, const struct heap_told *t, struct failure *f)
{
    uint64_t file = (uint64_t)h->areas[HEAP_OWN].buddy.units * HEAP_UNIT;
    if (t->order >= BUDDY_ORDERS) return refuse(t->offset, "has no size", f);
    uint64_t span = (uint64_t)HEAP_UNIT << t->order;
    if (t->offset % span) return refuse(t->offset, "is not aligned", f);
    if (t->offset >= file || span > file - t->offset) return refuse(t->offset, "is not in it", f);
    bool sized = t->bytes && t->bytes <= span && t->bytes % PAGE == 0 && t->charged <= t->bytes &&
                 t->cut <= t->charged && t->cut % PAGE == 0 && t->charged % PAGE == 0;
    return sized ? STATUS_OK : refuse(t->offset, "has sizes that cannot be", f);
}

/* Counts it as one in use. */
static enum status count(struct heap *h, const struct heap_told *t, uint32_t owner,
                         struct failure *f)
{
    struct heap_usage *u = &h->usage;
    struct account *a = owner ? account_make(&h->accounts, owner) : NULL;
    uint64_t more = t->bytes - t->cut;
    if (owner && !a) return no_memory(f);
    if (u->bytes_used > u->bytes_max || more > u->bytes_max - u->bytes_used)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY,
                           "memory.max_mib: what is to be adopted takes more");
    if (a) a->bytes_used += t->charged - t->cut;
    u->bytes_used += more;
    u->bytes_asked += t->charged - t->cut;
    u->blocks++;
    if (u->bytes_used > u->bytes_peak) u->bytes_peak = u->bytes_used;
    return STATUS_OK;
}

enum status heap_adopt_block(struct heap *h, const struct heap_told *told, uint32_t owner,
                             struct heap_block *out, struct failure *f)
{
    enum status st = check_told(h, told, f);
    uint32_t unit = (uint32_t)(told->offset / HEAP_UNIT);
    if (st) return st;
    if (!buddy_take_at(&h->areas[HEAP_OWN].buddy, unit, (uint32_t)told->order))
        return refuse(told->offset, "is another's already", f);
    st = hold(h, told->offset, told->bytes, (uint64_t)HEAP_UNIT << told->order, f);
    if (!st) st = count(h, told, owner, f);
    if (st) {
        buddy_give(&h->areas[HEAP_OWN].buddy, unit, (uint32_t)told->order);
        return st;
    }
    h->records[unit] = (struct record){.bytes = told->bytes,
                                       .charged = told->charged,
                                       .cut = told->cut,
                                       .owner = owner,
                                       .order = (uint32_t)told->order};
    *out = (struct heap_block){
        .data = h->base + told->offset, .offset = told->offset, .bytes = told->bytes};
    return STATUS_OK;
}

static bool is_same(const struct heap_told *a, const struct heap_told *b)
{
    return a->offset == b->offset && a->bytes == b->bytes && a->charged == b->charged &&
           a->cut == b->cut && a->order == b->order;
}

static enum status adopt_sharer(struct heap *h, const struct heap_told *told, uint32_t owner,
                                struct sharer **out, struct failure *f)
{
    struct heap_adoption *a = h->adoption;
    struct heap_block block = {0};
    for (size_t i = a->sharer_count; i-- > 0;) {
        struct sharer *s = &a->sharers[i];
        if (s->told.offset != told->offset) continue;
        if (!is_same(&s->told, told) || s->owner != owner)
            return refuse(told->offset, "is told in two ways", f);
        *out = s;
        return STATUS_OK;
    }
    if (!grow((void **)&a->sharers, &a->sharer_room, a->sharer_count, sizeof *a->sharers))
        return no_memory(f);
    enum status st = heap_adopt_block(h, told, owner, &block, f);
    if (st) return st;
    struct shared_block *shared = shared_block_make(h, &block);
    if (!shared) {
        heap_give(h, &block);
        return no_memory(f);
    }
    (void)shared_block_lend(shared); /* past the bound on addresses it is adopted all the same */
    a->sharers[a->sharer_count] = (struct sharer){*told, shared, owner};
    *out = &a->sharers[a->sharer_count++];
    return STATUS_OK;
}

enum status heap_adopt_piece(struct heap *h, const struct heap_told *told, uint32_t owner,
                             uint64_t offset, uint64_t bytes, struct shared_block **shared,
                             struct heap_block *out, struct failure *f)
{
    struct sharer *s = NULL;
    enum status st = adopt_sharer(h, told, owner, &s, f);
    if (st) return st;
    if (offset < told->offset || offset - told->offset > told->bytes ||
        bytes > told->bytes - (offset - told->offset) || !bytes)
        return refuse(offset, "is a piece of another one and passes its end", f);
    st = hold(h, offset, bytes, 0, f);
    if (st) return st;
    shared_block_hold(s->block);
    *shared = s->block;
    *out = (struct heap_block){.data = h->base + offset, .bytes = bytes};
    return STATUS_OK;
}

static int compare_pieces(const void *a, const void *b)
{
    const struct held *x = a, *y = b;
    if (!x->span != !y->span) return x->span ? 1 : -1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

enum status heap_adopt_check(struct heap *h, struct failure *f)
{
    struct heap_adoption *a = h->adoption;
    if (a->held_count) qsort(a->held, a->held_count, sizeof *a->held, compare_pieces);
    for (size_t i = 1; i < a->held_count && !a->held[i].span; i++)
        if (a->held[i].offset - a->held[i - 1].offset < a->held[i - 1].bytes)
            return refuse(a->held[i].offset, "is in two pieces", f);
    return STATUS_OK;
}

static void punch(struct heap *h, uint64_t first, uint64_t end)
{
    if (first < end)
        (void)fallocate(h->areas[HEAP_OWN].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)first, (off_t)(end - first));
}

/* Ends what the adoption needed; whoever holds a piece of a shared block has it from now on. */
static void end(struct heap *h)
{
    struct heap_adoption *a = h->adoption;
    for (size_t i = 0; i < a->sharer_count; i++) {
        struct heap_block block = {.data = h->base + a->sharers[i].told.offset,
                                   .offset = a->sharers[i].told.offset,
                                   .bytes = a->sharers[i].told.bytes};
        shared_block_end(a->sharers[i].block, &block);
    }
    free(a->held);
    free(a->sharers);
    free(a);
    h->adoption = NULL;
}

/* Blocks stand behind the pieces, in the order of their places. */
void heap_adopt_end(struct heap *h)
{
    struct heap_adoption *a = h->adoption;
    uint64_t from = 0;
    for (size_t i = 0; i < a->held_count; i++) {
        if (!a->held[i].span) continue;
        punch(h, from, a->held[i].offset);
        from = a->held[i].offset + a->held[i].bytes;
    }
    punch(h, from, (uint64_t)h->areas[HEAP_OWN].buddy.units * HEAP_UNIT);
    atomic_store(&h->left, false);
    end(h);
}

void heap_adopt_abandon(struct heap *h)
{
    if (h->adoption) end(h);
}

void heap_leave(struct heap *h)
{
    atomic_store(&h->left, true);
    releaser_stop(h); /* it may be in the middle of a piece */
}
