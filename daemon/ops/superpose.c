/* superpose: weighted sums of lists of rows (kernels/superpose.h). */
#include <math.h>

#include "daemon/base/yield.h"
#include "daemon/ops/check.h"
#include "daemon/ops/holographic.h"
#include "kernels/superpose.h"

/* Returns the first weight that is not finite, or the end. */
static uint64_t find_bad_weight(const struct tensor *weights)
{
    const float *weight = weights->data;
    for (uint64_t i = 0; i < weights->rows; i++) {
        if (i % 4096 == 0) yield_check();
        if (!isfinite(weight[i])) return i;
    }
    return weights->rows;
}

static enum status superpose_begin(struct job *j, struct holographic *w)
{
    const struct tensor *weights = &w->request->weights;
    uint64_t bad = find_bad_weight(weights);
    if (bad == weights->rows) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_NOT_FINITE,
                       "weight %" PRIu64 " is not a finite number", bad);
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

/* ---- on the GPU process ---- */

static uint64_t superpose_gpu_pairs(const struct job *j)
{
    struct work w = {0};
    superpose_work(j, &w);
    bool able = w.stride && w.stride <= vector_stride(VECTOR_DIMENSION_MAX) &&
                j->request.offsets.rows <= ORDER_QUERIES_MAX;
    return able ? w.pairs : 0;
}

/* What a plan for a GPU keeps: lists are told in pieces of one block, of which each takes one more,
 * at most, than its rows fill. */
struct sums_there {
    struct holographic w; /* first */
    uint64_t *offsets;    /* of the pieces */
    uint64_t *firsts;     /* of the lists, among the pieces */
    uint64_t pieces, most;
};

/* False: an offset or a weight is wrong, and the CPU finds out which, or j was cancelled. */
static bool cut_lists(struct job *j, struct sums_there *s)
{
    const uint64_t *lists = s->w.lists;
    uint64_t rows = s->w.operands[0].count;
    s->offsets[0] = s->firsts[0] = s->pieces = s->most = 0;
    if (lists[0] || lists[s->w.count] != rows) return false;
    for (uint64_t i = 0; i < s->w.count; i++) {
        if (i % 4096 == 0) yield_check();
        if (lists[i + 1] <= lists[i] || lists[i + 1] > rows || is_cancelled(j)) return false;
        for (uint64_t at = lists[i]; at < lists[i + 1];) {
            at = smaller(at + SUPERPOSE_BLOCK, lists[i + 1]);
            s->offsets[++s->pieces] = at;
        }
        s->firsts[i + 1] = s->pieces;
        if (s->pieces - s->firsts[i] > s->most) s->most = s->pieces - s->firsts[i];
    }
    return s->most <= UINT32_MAX;
}

static enum status superpose_gpu_prepare(struct job *j)
{
    struct sums_there *s = j->plan.scratch.data;
    j->gpu.unfit = find_bad_weight(&j->request.weights) < j->request.weights.rows ||
                   !cut_lists(j, s) || !holographic_find_positions(j, &s->w.operands[0]);
    if (j->gpu.unfit) return STATUS_OK;
    struct order_run *run = holographic_order(j, RUN_SUPERPOSE);
    run->query_count = s->w.count;
    run->piece_count = s->pieces;
    run->k = (uint32_t)s->most;
    run->offsets = operation_gpu_place(j, s->offsets);
    if (s->most > 1) run->firsts = operation_gpu_place(j, s->firsts);
    if (is_present(&j->request.weights))
        run->weights = operation_gpu_place(j, j->request.weights.data);
    return STATUS_OK;
}

static enum status superpose_gpu_plan(struct job *j)
{
    struct sums_there s = {0};
    struct holographic *w = &s.w;
    uint64_t bytes = 0;
    enum status st = holographic_begin(j, &superpose_kind, w);
    if (st) return st;
    layout_add(&bytes, sizeof s);
    uint64_t rows = w->operands[0].count, pieces = w->count + rows / SUPERPOSE_BLOCK;
    uint64_t positions = layout_add(&bytes, w->operands[0].collection ? rows * 4 : 0);
    uint64_t offsets = layout_add(&bytes, (pieces + 1) * sizeof(uint64_t));
    uint64_t firsts = layout_add(&bytes, (w->count + 1) * sizeof(uint64_t));
    st = holographic_gpu_take_results(j, w);
    if (!st) st = operation_take_own(j, bytes);
    if (st) return operation_drop_all(j);
    w->operands[0].positions = scratch_at(j, positions);
    s.offsets = scratch_at(j, offsets);
    s.firsts = scratch_at(j, firsts);
    struct sums_there *kept = j->plan.scratch.data;
    *kept = s;
    bool given = is_present(&j->request.offsets);
    kept->w.lists = given ? j->request.offsets.data : kept->w.offsets;
    j->gpu.prepare = superpose_gpu_prepare;
    holographic_gpu_ends(j, w, rows > HOLOGRAPHIC_GPU_SHORT);
    return STATUS_OK;
}

const struct operation_ops operation_superpose = {
    .check = superpose_check,
    .work = superpose_work,
    .plan = superpose_plan,
    .gpu_plan = superpose_gpu_plan,
    .gpu_pairs = superpose_gpu_pairs,
};
