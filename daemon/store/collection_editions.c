/* collection_editions: which edition is the newest, who sees which, and what a write begins and
 * ends with. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/yield.h"
#include "daemon/heap/shared_block.h"
#include "daemon/store/collection_inside.h"
#include "daemon/store/row_index.h"

struct edition *edition_create(struct collection *c)
{
    struct edition *e = fault_here("store: edition") ? NULL : calloc(1, sizeof *e);
    if (e) e->of = c;
    return e;
}

void edition_destroy(struct edition *e)
{
    if (!e) return;
    free(e->segments);
    free(e);
}

/* ---------------------------------------------------------------- readers; the loop */

struct edition *collection_now(const struct collection *c)
{
    return c->now;
}

struct edition *collection_pin(struct collection *c)
{
    struct edition *e = c->now;
    return gate_enter(&e->gate) ? e : NULL;
}

/* Ends e, which is not the newest and which nobody sees. Segments that no other edition sees are
 * gone. */
static void retire(struct edition *e)
{
    struct collection *c = e->of;
    struct edition *older = e->older, *newer = e->newer;
    for (struct segment *s = e->left, *next; s; s = next) {
        next = s->next;
        bool seen = older && s->born <= older->number;
        struct segment **list = seen ? &older->left : &c->gone.segments;
        s->next = *list;
        *list = s;
    }
    if (e->index && e->index != newer->index && (!older || e->index != older->index))
        row_index_list(e->index, &c->gone.indexes);
    newer->older = older;
    if (older) older->newer = newer;
    edition_destroy(e);
}

struct gone collection_take_gone(struct collection *c)
{
    struct gone gone = c->gone;
    c->gone = (struct gone){0};
    for (struct segment *s = gone.segments; s; s = s->next)
        if (s->shared) shared_block_expect(s->shared);
    return gone;
}

/* A segment's block is only handed on, to be used again or to the heap's thread, which takes some
 * microseconds; but large lists of ids are unmapped, and the pages of a piece may have to be given
 * back, by whoever frees it. */
bool gone_is_much(const struct gone *g)
{
    enum { FEW = 64, ROWS = 1024 };
    uint64_t much = 0;
    const struct segment *s = g->segments;
    for (; s && much <= FEW; s = s->next) {
        if (s->shared && !shared_block_is_expected(s->shared)) return true;
        much += 1 + s->rows_max / ROWS;
    }
    return g->indexes || much > FEW;
}

void gone_free(struct heap *heap, struct gone g)
{
    row_index_free_list(g.indexes);
    for (struct segment *s = g.segments, *next; s; s = next) {
        yield_check();
        next = s->next;
        segment_give(heap, s);
    }
}

void collection_unpin(struct edition *e)
{
    struct collection *c = e->of;
    collection_release(e);
    gone_free(c->heap, collection_take_gone(c));
}

void collection_release(struct edition *e)
{
    if (gate_leave(&e->gate) && e->newer) retire(e);
}

/* ---------------------------------------------------------------- a write; the loop */

void collection_expect_write(struct collection *c)
{
    const struct edition *older = c->now->older;
    c->write = (struct collection_write){
        .tracked = c->dirty.words != NULL,
        .older = older ? older->number : 0,
    };
    for (; older; older = older->older)
        if (rows_of(older) > c->write.kept_rows) c->write.kept_rows = rows_of(older);
}

/* What changed is dirty from now on. If it was not tracked from the beginning, everything is. */
static void note_changes(struct collection *c)
{
    struct collection_write *w = &c->write;
    if (!w->tracked || w->changed_all)
        dirty_forget(&c->dirty);
    else
        dirty_merge(&c->dirty, &w->changed);
    dirty_forget(&w->changed);
}

void collection_publish(struct collection *c)
{
    struct edition *e = c->write.edition, *before = c->now;
    if (!e) return;
    note_changes(c);
    if (e == before) {
        gate_open(&e->gate);
    } else {
        uint64_t version = atomic_load_explicit(&e->version, memory_order_relaxed);
        resident_set_version(&c->resident, version);
        before->left = c->write.left;
        before->newer = e;
        e->older = before;
        c->now = e;
        if (!gate_has_readers(&before->gate)) retire(before);
    }
    c->write = (struct collection_write){0};
}

struct edition *collection_written(const struct collection *c)
{
    return c->write.edition ? c->write.edition : c->now;
}

/* ---------------------------------------------------------------- a write; its thread */

/* starved: there is no memory for another edition. */
static bool begin_in_place(struct collection *c, bool starved)
{
    if (!starved && space_is_calm(c->resident.space)) return false;
    if (c->write.older || !gate_close(&c->now->gate)) return false;
    c->write.edition = c->now;
    return true;
}

bool write_is_in_place(const struct collection *c)
{
    return c->write.edition == c->now;
}

static enum status begin_next(struct collection *c)
{
    const struct edition *now = c->now;
    struct edition *e = edition_create(c);
    if (!e) return STATUS_RESOURCE_EXHAUSTED;
    size_t bytes = (now->segment_count + 1) * sizeof *e->segments;
    e->segments = fault_here("store: segment list") ? NULL : malloc(bytes);
    if (!e->segments) {
        edition_destroy(e);
        return STATUS_RESOURCE_EXHAUSTED;
    }
    if (now->segment_count)
        memcpy(e->segments, now->segments, now->segment_count * sizeof *e->segments);
    e->segment_count = now->segment_count;
    e->segment_capacity = now->segment_count + 1;
    e->number = now->number + 1;
    e->index = now->index;
    atomic_store_explicit(&e->rows, rows_of(now), memory_order_relaxed);
    c->write.edition = e;
    return STATUS_OK;
}

void write_mark(struct collection *c, uint64_t first, uint64_t count)
{
    struct collection_write *w = &c->write;
    if (!w->tracked || w->changed_all || !count) return;
    w->changed.shift = c->dirty.shift;
    if (!dirty_cover(&w->changed, first + count)) w->changed_all = true;
    dirty_mark(&w->changed, first, count);
}

void write_end(struct collection *c, uint64_t rows)
{
    struct edition *e = c->write.edition;
    __atomic_add_fetch(&c->resident.space->row_count, rows - rows_of(e), __ATOMIC_RELAXED);
    atomic_store_explicit(&e->rows, rows, memory_order_relaxed);
    uint64_t version = space_next_version(c->resident.space);
    atomic_store_explicit(&e->version, version, memory_order_relaxed);
    if (write_is_in_place(c)) resident_set_version(&c->resident, version);
    room_fit(e);
    uint64_t bytes = rows * (sizeof(uint64_t) + sizeof(float)) + row_index_bytes(e->index);
    atomic_store_explicit(&e->index_bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&e->room_bytes, room_bytes(e), memory_order_relaxed);
}

enum status write_refuse(struct collection *c, enum status st, const char *what, struct failure *f)
{
    heap_refuse(c->heap, st, c->resident.space->number, what, f);
    if (f && (c->write.older || gate_has_readers(&c->now->gate)))
        f->retry_after_ms = RETRY_MEMORY_MS;
    return st == STATUS_OK ? st : STATUS_RESOURCE_EXHAUSTED;
}

/* A next edition goes, with all that only it has; what it wrote behind the last row of shared
 * segments, and its entries in a shared index, are seen by nobody. */
static void abandon(struct collection *c)
{
    struct edition *e = c->write.edition, *now = c->now;
    dirty_forget(&c->write.changed);
    if (e == now) room_fit(e);
    c->write.edition = NULL;
    c->write.left = NULL;
    if (!e) return;
    if (e == now) {
        gate_open(&e->gate);
        return;
    }
    for (size_t i = 0; i < e->segment_count; i++)
        if (e->segments[i]->born == e->number) segment_free(c->heap, e->segments[i]);
    if (e->index != now->index) row_index_free(e->index);
    edition_destroy(e);
}

static enum status attempt(struct collection *c, bool in_place,
                           enum status (*change)(void *write, struct failure *f), void *write,
                           struct failure *f)
{
    enum status st = in_place ? STATUS_OK : begin_next(c);
    if (st)
        write_refuse(c, st, "another version of the rows", f);
    else
        st = change(write, f);
    if (st) abandon(c);
    return st;
}

/* True if it is soon done, so that readers may as well wait. An index that has to be made anew is
 * as much work as writing its slots and reading the ids. */
static bool is_brief(const struct collection *c, const struct write_size *size)
{
    const struct edition *e = c->now;
    uint64_t bytes = size->bytes;
    if (!row_index_has_room(e->index, size->inserted))
        bytes += (rows_of(e) + size->inserted) * 2 * sizeof(uint64_t);
    if (bytes <= IN_PLACE_BYTES_MAX) return true;
    return bytes <= IN_PLACE_FAR_BYTES_MAX && size->copied > 2 * bytes;
}

/* Where there is no memory for what only another edition needs, it is done in place if nobody sees
 * the newest. */
enum status write_run(struct collection *c, const struct write_size *size,
                      enum status (*change)(void *write, struct failure *f), void *write,
                      struct failure *f)
{
    bool in_place = is_brief(c, size) && begin_in_place(c, false);
    enum status st = attempt(c, in_place, change, write, f);
    if (st != STATUS_RESOURCE_EXHAUSTED || in_place || !begin_in_place(c, true)) return st;
    return attempt(c, true, change, write, f);
}
