#include "daemon/gpu/transfer.h"

#include <assert.h>
#include <string.h>

#include "daemon/gpu/tasks.h"

/* Numbers that are checked come in pieces of this size, so that they are still in the cache then.
 * A multiple of every element's size, and of 64. */
enum { CHECK_BYTES = 16 << 10 };

/* ---- where a tensor lies ---- */

/* Returns the part with this line: p or a later one; *first: its first line. */
static const struct scatter_part *part_from(const struct scatter *s, const struct scatter_part *p,
                                            uint64_t line, uint64_t *first)
{
    while (p->end <= line)
        p++;
    *first = p == s->parts ? 0 : p[-1].end;
    return p;
}

/* Of padded rows, from `first` on among the section's. */
static void drop_unknown(const struct section *s, uint64_t first, uint64_t count, float *rows)
{
    size_t stride = vector_stride(s->dimension);
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *known = s->known + (first + i) * s->known_step;
        for (uint32_t c = 0; c < s->dimension; c++)
            if (!known[c]) rows[i * stride + c] = 0.0f;
    }
}

uint64_t transfer_rows(const struct vector_kernels *kernels, const struct section *s,
                       uint64_t first, uint64_t count, float *to, float *norms)
{
    const struct scatter_part whole = {.host = s->host, .end = UINT64_MAX};
    const struct scatter all = {.parts = &whole}, *scatter = s->scatter ? s->scatter : &all;
    const struct scatter_part *p = scatter->parts;
    size_t stride = vector_stride(s->dimension);
    uint64_t bad = count;
    for (uint64_t row = 0, now, begin; row < count; row += now) {
        uint64_t line = first + row;
        p = part_from(scatter, p, line, &begin);
        now = p->end - line < count - row ? p->end - line : count - row;
        const float *from = (const float *)p->host + (line - begin) * s->dimension;
        vectors_pad(s->dimension, from, (size_t)now, to + row * stride);
        if (s->known) drop_unknown(s, line, now, to + row * stride);
        if (s->bare) continue;
        kernels->norms(s->dimension, to + row * stride, (size_t)now, norms + row);
        uint64_t good = vectors_find_bad(norms + row, (size_t)now);
        if (good < now && bad == count) bad = row + good;
    }
    return bad;
}

static void copy(char *host, char *pinned, uint64_t bytes, bool out)
{
    if (out)
        memcpy(host, pinned, bytes);
    else
        memcpy(pinned, host, bytes);
}

/* Whole tensors are copied plainly, which faults the heap's pages in one by one, 512 KiB a thread:
 * 99 us on an H200's host. With MADV_POPULATE_READ before it took 360 us, with pread through the
 * heap's descriptor 223 us, because many threads contend for the kernel's bookkeeping of pages. */
void transfer_bytes(const struct section *s, uint64_t first, uint64_t bytes, char *pinned, bool out)
{
    if (!s->scatter) {
        copy(s->host + first, pinned, bytes, out);
        return;
    }
    const struct scatter_part *p = s->scatter->parts;
    uint64_t line = first / s->scatter->line, skip = first % s->scatter->line;
    for (uint64_t done = 0, now, begin; done < bytes; done += now, line++, skip = 0) {
        p = part_from(s->scatter, p, line, &begin);
        now = s->scatter->line - skip < bytes - done ? s->scatter->line - skip : bytes - done;
        uint64_t there = skip < p->bytes ? p->bytes - skip : 0;
        if (there > now) there = now;
        copy(p->host + (line - begin) * p->bytes + skip, pinned + done, there, out);
    }
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
    uint64_t first = part_of(p->rows, part, p->work.parts);
    uint64_t end = part_of(p->rows, part + 1, p->work.parts);
    const struct section *s = &p->move.from;
    float *norms = s->bare ? NULL : (float *)(p->pinned + p->norms_at) + first;
    uint64_t bad = transfer_rows(p->kernels, s, p->first + first, end - first,
                                 (float *)p->pinned + first * vector_stride(s->dimension), norms);
    if (bad < end - first) note_bad(p->transfer, p->first + first + bad);
}

/* Checks numbers in pinned memory, which are what the kernels will read. */
static void check_numbers(struct piece *p, uint64_t first, uint64_t bytes)
{
    const struct section *s = &p->move.from;
    uint64_t before = 0;
    if (s->numbers == NUMBERS_OFFSETS && p->first + first > 0)
        memcpy(&before, s->host + p->first + first - sizeof before, sizeof before);
    if (!numbers_sound(s->numbers, s->limit, p->pinned + first, bytes, before))
        atomic_store_explicit(&p->transfer->unsound, true, memory_order_relaxed);
}

static void move_part(void *owner, uint32_t part)
{
    struct piece *p = owner;
    if (p->rows) {
        fill_rows(p, part);
        return;
    }
    uint64_t first = part_of(p->bytes, part, p->work.parts) & ~UINT64_C(63);
    uint64_t end = part + 1 == p->work.parts
                       ? p->bytes
                       : part_of(p->bytes, part + 1, p->work.parts) & ~UINT64_C(63);
    bool out = p->state == PIECE_EMPTYING;
    if (!p->move.from.numbers) {
        transfer_bytes(&p->move.from, p->first + first, end - first, p->pinned + first, out);
        return;
    }
    for (uint64_t bytes; first < end; first += bytes) {
        bytes = end - first < CHECK_BYTES ? end - first : CHECK_BYTES;
        transfer_bytes(&p->move.from, p->first + first, bytes, p->pinned + first, out);
        check_numbers(p, first, bytes);
    }
}

static void start_copiers(struct gpu *g, struct piece *p, enum piece_state state)
{
    p->state = state;
    uint64_t parts = p->bytes / PIECE_PART_BYTES;
    if (p->rows && parts > p->rows) parts = p->rows;
    p->work =
        (struct copy_work){.run = move_part, .owner = p, .parts = parts ? (uint32_t)parts : 1};
    copiers_start(g->copiers, &p->work);
}

/* ---- starting pieces ---- */

/* A tensor of a few MiB is some pieces, too: some are on the bus while copiers have others. */
static uint64_t piece_bytes(const struct section *s)
{
    const uint64_t quarter = (s->bytes / 4 + 63) & ~UINT64_C(63);
    if (quarter < PIECE_PART_BYTES) return PIECE_PART_BYTES;
    return quarter < PIECE_BYTES ? quarter : PIECE_BYTES;
}

/* Cuts off the next part of a transfer that fits a piece; the caller advances the transfer. */
static void cut(const struct transfer *t, struct piece *p)
{
    const struct section *s = &t->moves[t->move].from;
    p->move = t->moves[t->move];
    p->first = t->at;
    p->rows = p->norms_at = 0;
    if (s->rows) {
        uint64_t row_bytes = vector_stride(s->dimension) * sizeof(float);
        uint64_t rows = PIECE_BYTES / (row_bytes + sizeof(float)) - 1;
        p->rows = rows < s->rows - t->at ? rows : s->rows - t->at;
        p->move.device += t->at * row_bytes;
        if (!s->bare) p->move.norms += t->at;
        p->bytes = p->norms_at = p->rows * row_bytes;
    } else {
        p->move.device += t->at;
        const uint64_t most = piece_bytes(s), left = s->bytes - t->at;
        p->bytes = left < most ? left : most;
    }
}

static uint64_t norm_bytes(const struct piece *p)
{
    return p->move.from.bare ? 0 : p->rows * sizeof(float);
}

static uint64_t pinned_bytes(const struct piece *p)
{
    return p->bytes + norm_bytes(p);
}

static void step_past(struct transfer *t, const struct piece *p)
{
    const struct section *s = &p->move.from;
    t->at += s->rows ? p->rows : p->bytes;
    if (t->at < (s->rows ? s->rows : s->bytes)) return;
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

/* Clears bytes of another space that this piece will not overwrite, before anything else. */
static void clear_rest(struct piece *p)
{
    uint64_t used = pinned_bytes(p);
    if (p->block.dirty_bytes > used) memset(p->pinned + used, 0, p->block.dirty_bytes - used);
    p->block.dirty_bytes = 0;
}

/* Notes the failure in the transfer; the piece waits until the device is done with the stream. */
static void piece_failed(struct piece *p)
{
    p->state = PIECE_STUCK;
    p->block.dirty_bytes = p->block.bytes; /* nobody knows what has been overwritten */
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
        g->ops->copy_out(g->device, p->pinned, p->move.device, p->bytes, t->stream);
    if (result == DEVICE_OK) result = g->ops->event_record(g->device, p->event, t->stream);
    return result;
}

bool transfer_step(struct gpu *g, struct transfer *t)
{
    bool moved = false;
    while (t->move < t->move_count) {
        if (t->moves[t->move].from.bytes == 0) {
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
        g->ops->copy_in(g->device, p->move.device, p->pinned, p->bytes, t->stream);
    if (result == DEVICE_OK && norm_bytes(p))
        result = g->ops->copy_in(g->device, p->move.norms, p->pinned + p->norms_at, norm_bytes(p),
                                 t->stream);
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
