#include "daemon/gpu/transfer.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "daemon/gpu/inside.h"

enum { DESCRIPTOR_BYTES = 64 << 10 }; /* less is not worth a system call */

uint64_t transfer_pad(const struct vector_kernels *kernels, uint32_t dimension, const float *from,
                      uint64_t count, float *to, float *norms)
{
    size_t stride = vector_stride(dimension), pad = stride - dimension;
    float *at = to;
    for (uint64_t i = 0; i < count; i++, from += dimension, at += stride) {
        memcpy(at, from, dimension * sizeof *at);
        memset(at + dimension, 0, pad * sizeof *at);
    }
    kernels->norms(dimension, to, (size_t)count, norms);
    for (uint64_t i = 0; i < count; i++)
        if (!(norms[i] < INFINITY)) return i;
    return count;
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
    uint64_t bad = transfer_pad(p->kernels, m->dimension,
                                (const float *)m->host + first * m->dimension, end - first,
                                (float *)p->pinned + first * stride,
                                (float *)(p->pinned + p->norms_at) + first);
    if (bad < end - first) note_bad(p->transfer, p->first_row + first + bad);
}

/* Through the descriptor: the system copies whole pages of the heap's file without mapping each
 * into this process first, which costs more than the copy. What it does not take is copied by hand. */
static void move_bytes(struct piece *p, uint64_t first, uint64_t bytes)
{
    bool in = p->state == PIECE_FILLING;
    char *pinned = p->pinned + first, *host = p->part.host + first;
    off_t at = (off_t)(p->place + first);
    while (bytes >= DESCRIPTOR_BYTES) {
        ssize_t n = in ? pread(p->heap_fd, pinned, bytes, at) : pwrite(p->heap_fd, pinned, bytes, at);
        if (n <= 0) break;
        pinned += n;
        host += n;
        at += n;
        bytes -= (uint64_t)n;
    }
    if (in)
        memcpy(pinned, host, bytes);
    else
        memcpy(host, pinned, bytes);
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
}

static void start_copiers(struct gpu *g, struct piece *p, enum piece_state state)
{
    p->state = state;
    p->heap_fd = g->heap_fd;
    p->place = (uint64_t)(p->part.host - g->heap);
    uint64_t parts = p->part.bytes / PIECE_PART_BYTES;
    if (p->part.rows && parts > p->part.rows) parts = p->part.rows;
    p->work = (struct copy_work){.run = move_part, .owner = p, .parts = parts ? (uint32_t)parts : 1};
    copiers_start(g->copiers, &p->work);
}

/* ---- starting pieces ---- */

/* The next part of a transfer that fits a piece; the transfer has yet to step past it. */
static void cut(const struct transfer *t, struct piece *p)
{
    const struct move *m = &t->moves[t->move];
    p->part = *m;
    p->first_row = t->at;
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
    cut(t, p);
    if (vram_pool_take(g->pinned_pool, pinned_bytes(p), t->owner, &p->block)) return NULL;
    p->event = task_event(g);
    if (!p->event) { /* waiting for one would be waiting for ever */
        vram_pool_give(g->pinned_pool, &p->block);
        t->failed = true;
        transfer_stop(t);
        return NULL;
    }
    p->pinned = g->pinned + p->block.offset;
    p->transfer = t;
    p->kernels = g->kernels;
    step_past(t, p);
    return p;
}

static void give_piece(struct gpu *g, struct piece *p)
{
    struct transfer *t = p->transfer;
    t->busy--;
    vram_pool_give(g->pinned_pool, &p->block);
    g->events[g->event_count++] = p->event;
    p->state = PIECE_FREE;
    p->transfer = NULL;
}

/* Another space's bytes that this piece will not overwrite are gone before anything else. */
static void clear_rest(struct piece *p)
{
    uint64_t used = pinned_bytes(p);
    if (p->block.dirty_bytes > used)
        memset(p->pinned + used, 0, p->block.dirty_bytes - used);
    p->block.dirty_bytes = 0;
}

/* Its transfer is told; the piece waits until the device has let go of the stream. */
static void piece_failed(struct piece *p)
{
    p->state = PIECE_STUCK;
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
