#include "daemon/gpu/transfer.h"

#include <assert.h>
#include <string.h>

#include "daemon/gpu/inside.h"

uint64_t transfer_pad(const struct vector_kernels *kernels, uint32_t dimension, const float *from,
                      uint64_t count, float *to, float *norms)
{
    vectors_pad(dimension, from, (size_t)count, to);
    kernels->norms(dimension, to, (size_t)count, norms);
    return vectors_find_bad(norms, (size_t)count);
}

static bool positions_sound(const uint32_t *position, uint64_t count, uint64_t limit)
{
    uint32_t largest = 0;
    for (uint64_t i = 0; i < count; i++)
        if (position[i] > largest) largest = position[i];
    return count == 0 || largest < limit;
}

static bool offsets_sound(const uint64_t *offset, uint64_t count, uint64_t limit, uint64_t before)
{
    bool sound = true;
    for (uint64_t i = 0; i < count; before = offset[i++])
        sound &= offset[i] >= before && offset[i] <= limit;
    return sound;
}

bool transfer_sound(enum numbers numbers, uint64_t limit, const void *at, uint64_t bytes,
                    uint64_t before)
{
    switch (numbers) {
    case NUMBERS_ANY: return true;
    case NUMBERS_POSITIONS: return positions_sound(at, bytes / sizeof(uint32_t), limit);
    case NUMBERS_OFFSETS: return offsets_sound(at, bytes / sizeof(uint64_t), limit, before);
    }
    return false;
}

bool transfer_issued(const struct transfer *t)
{
    return t->move == t->move_count && t->filling == 0 && (!t->out || t->busy == 0);
}

bool transfer_idle(const struct transfer *t)
{
    return t->busy == t->stuck;
}

void transfer_stop(struct transfer *t)
{
    t->move = t->move_count;
}

/* ---- what copiers do ---- */

static void note_bad(struct transfer *t, uint64_t row)
{
    uint64_t seen = atomic_load_explicit(&t->bad_row, memory_order_relaxed);
    while (row < seen && !atomic_compare_exchange_weak(&t->bad_row, &seen, row))
        ;
}

static uint64_t part_of(uint64_t count, uint32_t part, uint32_t parts)
{
    return count * part / parts;
}

static void fill_rows(struct piece *p, uint32_t part)
{
    struct move *m = &p->part;
    uint64_t first = part_of(m->rows, part, p->work.parts);
    uint64_t end = part_of(m->rows, part + 1, p->work.parts);
    size_t stride = vector_stride(m->dimension);
    uint64_t bad = transfer_pad(
        p->kernels, m->dimension, (const float *)m->host + first * m->dimension, end - first,
        (float *)p->pinned + first * stride, (float *)(p->pinned + p->norms_at) + first);
    if (bad < end - first) note_bad(p->transfer, p->first + first + bad);
}

/* Plain copies, which fault the heap's pages in one by one, 512 KiB a thread: 99 us on an H200's
 * host. MADV_POPULATE_READ first made that 360 us, pread through the heap's descriptor 223 us: many
 * threads meet in the kernel's bookkeeping of pages. */
static void move_bytes(const struct piece *p, uint64_t first, uint64_t bytes)
{
    char *pinned = p->pinned + first, *host = p->part.host + first;
    if (p->state == PIECE_FILLING)
        memcpy(pinned, host, bytes);
    else
        memcpy(host, pinned, bytes);
}

/* What has come into pinned memory is what the kernels will see. */
static void check_numbers(struct piece *p, uint64_t first, uint64_t bytes)
{
    uint64_t before = 0;
    if (p->part.numbers == NUMBERS_OFFSETS && p->first + first > 0)
        memcpy(&before, p->part.host + first - sizeof before, sizeof before);
    if (!transfer_sound(p->part.numbers, p->part.limit, p->pinned + first, bytes, before))
        atomic_store_explicit(&p->transfer->unsound, true, memory_order_relaxed);
}

static void move_part(void *owner, uint32_t part)
{
    struct piece *p = owner;
    if (p->part.rows) {
        fill_rows(p, part);
        return;
    }
    uint64_t first = part_of(p->part.bytes, part, p->work.parts) & ~UINT64_C(63);
    uint64_t end = part + 1 == p->work.parts
                       ? p->part.bytes
                       : part_of(p->part.bytes, part + 1, p->work.parts) & ~UINT64_C(63);
    move_bytes(p, first, end - first);
    if (p->part.numbers) check_numbers(p, first, end - first);
}

static void start_copiers(struct gpu *g, struct piece *p, enum piece_state state)
{
    p->state = state;
    uint64_t parts = p->part.bytes / PIECE_PART_BYTES;
    if (p->part.rows && parts > p->part.rows) parts = p->part.rows;
    p->work =
        (struct copy_work){.run = move_part, .owner = p, .parts = parts ? (uint32_t)parts : 1};
    copiers_start(g->copiers, &p->work);
}

/* ---- starting pieces ---- */

/* The next part of a transfer that fits a piece; the transfer has yet to step past it. */
static void cut(const struct transfer *t, struct piece *p)
{
    const struct move *m = &t->moves[t->move];
    p->part = *m;
    p->first = t->at;
    p->norms_at = 0;
    if (m->rows) {
        uint64_t row_bytes = vector_stride(m->dimension) * sizeof(float);
        uint64_t rows = PIECE_BYTES / (row_bytes + sizeof(float)) - 1;
        if (rows > m->rows - t->at) rows = m->rows - t->at;
        p->part.rows = rows;
        p->part.host += t->at * m->dimension * sizeof(float);
        p->part.device += t->at * row_bytes;
        p->part.norms += t->at;
        p->part.bytes = p->norms_at = rows * row_bytes;
    } else {
        p->part.host += t->at;
        p->part.device += t->at;
        p->part.bytes = m->bytes - t->at < PIECE_BYTES ? m->bytes - t->at : PIECE_BYTES;
    }
}

static uint64_t pinned_bytes(const struct piece *p)
{
    return p->part.bytes + p->part.rows * sizeof(float);
}

static void step_past(struct transfer *t, const struct piece *p)
{
    const struct move *m = &t->moves[t->move];
    t->at += m->rows ? p->part.rows : p->part.bytes;
    if (t->at < (m->rows ? m->rows : m->bytes)) return;
    t->move++;
    t->at = 0;
}

static struct piece *take_piece(struct gpu *g, struct transfer *t)
{
    struct piece *p = g->transfers.pieces;
    while (p < g->transfers.pieces + PIECES && p->state != PIECE_FREE)
        p++;
    if (p == g->transfers.pieces + PIECES) return NULL;
    if (!p->event && !gpu_ok(g, g->ops->event_create(g->device, &p->event))) {
        t->failed = true;
        transfer_stop(t);
        return NULL;
    }
    cut(t, p);
    if (vram_pool_take(g->piece_pool, pinned_bytes(p), t->owner, &p->block)) return NULL;
    p->pinned = g->pinned_pieces + p->block.offset;
    p->transfer = t;
    p->kernels = g->kernels;
    step_past(t, p);
    return p;
}

static void give_piece(struct gpu *g, struct piece *p)
{
    struct transfer *t = p->transfer;
    t->busy--;
    vram_pool_give(g->piece_pool, &p->block);
    p->state = PIECE_FREE;
    p->transfer = NULL;
}

/* Another space's bytes that this piece will not overwrite are gone before anything else. */
static void clear_rest(struct piece *p)
{
    uint64_t used = pinned_bytes(p);
    if (p->block.dirty_bytes > used) memset(p->pinned + used, 0, p->block.dirty_bytes - used);
    p->block.dirty_bytes = 0;
}

/* Its transfer is told; the piece waits until the device has let go of the stream. */
static void piece_failed(struct piece *p)
{
    p->state = PIECE_STUCK;
    p->block.dirty_bytes = p->block.bytes; /* who knows what has been written over */
    p->transfer->stuck++;
    p->transfer->failed = true;
    transfer_stop(p->transfer);
}

void transfer_abandon(struct gpu *g, struct transfer *t)
{
    for (uint32_t i = 0; i < PIECES; i++)
        if (g->transfers.pieces[i].state == PIECE_STUCK && g->transfers.pieces[i].transfer == t)
            give_piece(g, &g->transfers.pieces[i]);
    t->stuck = 0;
}

static enum device_result fetch(struct gpu *g, struct piece *p)
{
    struct transfer *t = p->transfer;
    enum device_result result =
        g->ops->copy_out(g->device, p->pinned, p->part.device, p->part.bytes, t->stream);
    if (result == DEVICE_OK) result = g->ops->event_record(g->device, p->event, t->stream);
    return result;
}

bool transfer_step(struct gpu *g, struct transfer *t)
{
    bool moved = false;
    while (t->move < t->move_count) {
        if (t->moves[t->move].bytes == 0) {
            t->move++;
            continue;
        }
        struct piece *p = take_piece(g, t);
        if (!p) break;
        moved = true;
        clear_rest(p);
        t->busy++;
        if (t->out) {
            p->state = PIECE_FETCHING;
            if (!gpu_ok(g, fetch(g, p))) piece_failed(p);
        } else {
            t->filling++;
            start_copiers(g, p, PIECE_FILLING);
        }
    }
    return moved;
}

/* ---- moving pieces on ---- */

static enum device_result send(struct gpu *g, struct piece *p)
{
    struct transfer *t = p->transfer;
    enum device_result result =
        g->ops->copy_in(g->device, p->part.device, p->pinned, p->part.bytes, t->stream);
    if (result == DEVICE_OK && p->part.rows)
        result = g->ops->copy_in(g->device, p->part.norms, p->pinned + p->norms_at,
                                 p->part.rows * sizeof(float), t->stream);
    if (result == DEVICE_OK) result = g->ops->event_record(g->device, p->event, t->stream);
    return result;
}

static bool poll_piece(struct gpu *g, struct piece *p)
{
    enum device_result result;
    switch (p->state) {
    case PIECE_FREE:
    case PIECE_STUCK: return false;
    case PIECE_FILLING:
        if (!copy_work_done(&p->work)) return false;
        p->transfer->filling--;
        p->state = PIECE_SENT;
        if (!gpu_ok(g, send(g, p))) piece_failed(p);
        return true;
    case PIECE_SENT:
        result = g->ops->event_query(g->device, p->event);
        if (result == DEVICE_BUSY) return false;
        if (gpu_ok(g, result))
            give_piece(g, p);
        else
            piece_failed(p);
        return true;
    case PIECE_FETCHING:
        result = g->ops->event_query(g->device, p->event);
        if (result == DEVICE_BUSY) return false;
        if (gpu_ok(g, result))
            start_copiers(g, p, PIECE_EMPTYING);
        else
            piece_failed(p);
        return true;
    case PIECE_EMPTYING:
        if (!copy_work_done(&p->work)) return false;
        give_piece(g, p);
        return true;
    }
    return false;
}

bool transfers_poll(struct gpu *g)
{
    bool moved = false;
    for (uint32_t i = 0; i < PIECES; i++)
        moved |= poll_piece(g, &g->transfers.pieces[i]);
    return moved;
}

void transfers_finish(struct gpu *g)
{
    for (uint32_t i = 0; i < PIECES; i++) {
        struct piece *p = &g->transfers.pieces[i];
        if (p->state == PIECE_FILLING || p->state == PIECE_EMPTYING)
            copiers_finish(g->copiers, &p->work);
        if (p->event) g->ops->event_destroy(g->device, p->event);
    }
}
