/* superpose: weighted sums of lists of rows (kernels/superpose.h). */
#include <math.h>

#include "daemon/base/yield.h"
#include "daemon/ops/check.h"
#include "daemon/ops/holographic.h"
#include "kernels/superpose.h"

static enum status superpose_begin(struct job *j, struct holographic *w)
{
    const struct tensor *weights = &w->request->weights;
    const float *weight = weights->data;
    for (uint64_t i = 0; i < weights->rows; i++) {
        if (i % 4096 == 0) yield_check();
        if (!isfinite(weight[i]))
            return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE,
                               "weight %" PRIu64 " is not a finite number", i);
    }
    return STATUS_OK;
}

/* A long list is summed in pieces of a power of two of blocks, which the kernels fold to the same
 * sum; between two of them others may run. Returns a piece's rows, some tenths of a millisecond.
 * Rows that came along are checked first, and then found in the cache. */
static uint64_t piece_rows(const struct holographic *w)
{
    enum { PIECE_NUMBERS = 1 << 20, CHECKED_NUMBERS = 1 << 18 };
    uint64_t rows = SUPERPOSE_BLOCK;
    uint64_t numbers = w->operands[0].collection ? PIECE_NUMBERS : CHECKED_NUMBERS;
    while (rows * 2 * w->dimension <= numbers)
        rows *= 2;
    return rows;
}

/* Short lists are summed together, so that the rows of the next are on their way while one is
 * added up. Sums are padded: where that would be wrong in the results, in a room for some. */
enum { TOGETHER = 32, ROOM_NUMBERS = 1 << 15 };

static uint64_t room_lists(const struct holographic *w)
{
    uint64_t lists = ROOM_NUMBERS / vector_stride(w->dimension);
    return lists < 1 ? 1 : smaller(lists, TOGETHER);
}

/* Of a worker. */
struct sum_room {
    float *nodes;  /* one for each piece of the longest list, or for each of some short ones */
    float *levels; /* what the sum of a piece takes */
    float *padded; /* a row */
};

static uint64_t nodes_of(const struct holographic *w)
{
    uint64_t pieces = pieces_of(w->operands[0].count, piece_rows(w)), lists = room_lists(w);
    return pieces < lists ? lists : pieces;
}

static uint64_t levels_of(const struct holographic *w)
{
    return superpose_scratch(w->dimension, piece_rows(w));
}

static uint64_t superpose_scratch_bytes(const struct holographic *w)
{
    uint64_t stride = vector_stride(w->dimension);
    return ((nodes_of(w) + 1) * stride + levels_of(w)) * sizeof(float);
}

static struct sum_room room_at(const struct holographic *w, float *scratch)
{
    float *levels = scratch + nodes_of(w) * vector_stride(w->dimension);
    return (struct sum_room){scratch, levels, levels + levels_of(w)};
}

static void sum_rows(const struct holographic *w, const uint64_t *offsets, uint64_t lists,
                     const struct sum_room *room, float *sums)
{
    const struct superpose_lists asked = {
        .rows = (const float *const *)w->operands[0].pointers,
        .weights = w->request->weights.data,
        .offsets = offsets,
        .count = lists,
    };
    w->sums->sums(w->dimension, &asked, room->levels, sums);
}

static bool is_sound(const struct holographic *w, uint64_t first, uint64_t end,
                     const struct sum_room *room)
{
    return holographic_find_wrong(w, &w->operands[0], first, end, room->padded) == end;
}

/* False: a row is wrong, or nobody wants the sum any more. */
static bool sum_long(const struct holographic *w, uint64_t list, const struct sum_room *room,
                     float *out)
{
    uint64_t count = 0, rows = piece_rows(w), end = w->lists[list + 1];
    for (uint64_t row = w->lists[list]; row < end; row += rows, count++) {
        const uint64_t piece[2] = {row, smaller(row + rows, end)};
        yield_check();
        if (is_cancelled(w->job))
            atomic_store_explicit(&w->job->skipped, true, memory_order_relaxed);
        if (is_cancelled(w->job) || !is_sound(w, piece[0], piece[1], room)) return false;
        sum_rows(w, piece, 1, room, room->nodes + count * vector_stride(w->dimension));
    }
    w->sums->fold(w->dimension, room->nodes, count);
    memcpy(out, room->nodes, w->dimension * sizeof *out);
    return true;
}

/* Returns how many of the lists, from `first` on, are short enough to be summed together; 0: the
 * first alone is longer than a piece. */
static uint64_t count_short(const struct holographic *w, uint64_t first, uint64_t count)
{
    bool direct = w->dimension % VECTOR_LANES == 0;
    uint64_t most = smaller(direct ? TOGETHER : room_lists(w), count), short_ones = 0;
    while (short_ones < most && w->lists[first + short_ones + 1] - w->lists[first] <= piece_rows(w))
        short_ones++;
    return short_ones;
}

/* Returns how many of the lists have sound rows and got their sums: all, or those before the first
 * that has not. */
static uint64_t sum_short(const struct holographic *w, uint64_t first, uint64_t count,
                          const struct sum_room *room, float *out)
{
    bool direct = w->dimension % VECTOR_LANES == 0;
    const uint64_t *offsets = w->lists + first;
    uint64_t end = offsets[count], sound = count;
    yield_check();
    uint64_t wrong = holographic_find_wrong(w, &w->operands[0], offsets[0], end, room->padded);
    while (wrong < end && offsets[sound] > wrong)
        sound--;
    sum_rows(w, offsets, sound, room, direct ? out : room->nodes);
    for (uint64_t i = 0; i < sound && !direct; i++)
        memcpy(out + i * w->dimension, room->nodes + i * vector_stride(w->dimension),
               w->dimension * sizeof *out);
    return sound;
}

static uint64_t superpose_make(struct holographic *w, uint64_t first, uint64_t count, void *scratch,
                               float *out, struct failure *why)
{
    const struct sum_room room = room_at(w, scratch);
    for (uint64_t done = 0; done < count;) {
        float *at = out + done * w->dimension;
        uint64_t lists = count_short(w, first + done, count - done);
        uint64_t made = lists ? sum_short(w, first + done, lists, &room, at)
                              : sum_long(w, first + done, &room, at);
        done += made;
        if (made < (lists ? lists : 1)) return done;
    }
    return count;
}

static const struct holographic_kind superpose_kind = {
    .operands = 1,
    .lists = true,
    .may_overflow = true,
    .checks = true,
    .products = 1,
    .beside = 256,
    .begin = superpose_begin,
    .scratch_bytes = superpose_scratch_bytes,
    .make = superpose_make,
};

static enum status superpose_check(struct job *j)
{
    const struct job_request *r = &j->request;
    const struct tensor *rows = is_present(&r->ids) ? &r->ids : &r->rows;
    enum status st = holographic_check(j, &superpose_kind);
    if (st || !is_present(&r->weights)) return st;
    return check_same_rows(j, "weights", &r->weights, "a", rows);
}

static void superpose_work(const struct job *j, struct work *w)
{
    holographic_work(j, &superpose_kind, w);
    w->listed = true;
}

static enum status superpose_plan(struct job *j)
{
    return holographic_plan(j, &superpose_kind);
}

const struct operation_ops operation_superpose = {
    .check = superpose_check, .work = superpose_work, .plan = superpose_plan};
