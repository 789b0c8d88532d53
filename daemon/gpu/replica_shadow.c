#include "daemon/gpu/replica_shadow.h"

#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/gpu/replica.h"
#include "daemon/gpu/tasks.h"
#include "kernels/shadow_sum.h"

enum {
    USEFUL_SHARE = 8, /* of the rows, what may pass of a useful one's */
    EXACT_FIRST = 64, /* searches that are done without one that did not help, */
    EXACT_MOST = 4096 /* and at most, if it goes on so */
};
#define RETRY_NS UINT64_C(1000000000)

static bool wanted(const struct gpu *g, const struct replica *r)
{
    return r->dimension && !r->bare && !r->exact && r->rows &&
           atomic_load_explicit(&g->share->shadows, memory_order_relaxed) &&
           (g->ops->shadow_direct_suits(g->device, r->dimension, 1, r->rows) ||
            g->ops->shadow_suits(g->device, r->dimension, 1, 1, r->rows));
}

void replica_shadow_tell(struct gpu *g, const struct replica *r)
{
    struct share_shadow *to = &g->share->shadow_of[r->id % SHARE_SHADOWS];
    const struct replica_shadow *s = &r->shadow;
    uint64_t lost;
    if (r->successor) return; /* the newest version alone is told of */
    memcpy(&lost, &s->lost, sizeof lost);
    atomic_store_explicit(&to->replica, 0, memory_order_relaxed); /* until it is all there */
    atomic_store_explicit(&to->rows, s->whole ? s->coded : 0, memory_order_release);
    atomic_store_explicit(&to->bytes, replica_shadow_bytes(r), memory_order_release);
    atomic_store_explicit(&to->made_ns, s->made_ns, memory_order_release);
    atomic_store_explicit(&to->lost, lost, memory_order_release);
    atomic_store_explicit(&to->rests, s->exact_left, memory_order_release);
    atomic_store_explicit(&to->replica, r->id, memory_order_release);
}

/* ---- memory ---- */

bool replica_shadow_drop(struct gpu *g, struct replica *r)
{
    uint64_t before = replica_bytes(r);
    if (r->shadow_only) return false;
    r->shadow.whole = false;
    if (!replica_shadow_bytes(r)) return false;
    for (int i = replica_own_ranges(r); i < RANGES_MAX; i++)
        g->ops->range_release(g->device, &r->ranges[i]);
    replica_account(g, r, before);
    replica_shadow_tell(g, r);
    return true;
}

bool replica_shadow_evict(struct gpu *g, const struct replica *but)
{
    struct replica *r = g->replicas.oldest;
    while (r && (replica_in_use(r) || r == but || !replica_shadow_bytes(r)))
        r = r->newer;
    if (!r) return false;
    atomic_fetch_add_explicit(&g->share->usage.shadows_dropped, 1, memory_order_relaxed);
    return replica_shadow_drop(g, r);
}

/* The bytes of each range of a shadow of so many rows. */
static void sizes_of(uint32_t dimension, uint64_t rows, uint64_t bytes[RANGES_MAX])
{
    const struct shadow_sizes s = shadow_sizes_of(dimension, rows);
    bytes[RANGE_CODES] = s.codes;
    bytes[RANGE_SCALES] = bytes[RANGE_LOSTS] = bytes[RANGE_LENGTHS] = s.floats;
    bytes[RANGE_CENTRE] = s.centre;
}

static uint64_t missing(const struct gpu *g, const struct replica *r,
                        const uint64_t bytes[RANGES_MAX])
{
    uint64_t more = 0;
    for (int i = RANGE_SHADOW; i < RANGES_MAX; i++)
        if (bytes[i] > r->ranges[i].bytes) more += replica_mapped(g, bytes[i]) - r->ranges[i].bytes;
    return more;
}

static enum device_result grow(struct gpu *g, struct replica *r, int i, uint64_t bytes,
                               uint64_t bytes_max, device_stream stream)
{
    struct device_range *range = &r->ranges[i];
    uint64_t before = range->bytes, total = replica_bytes(r);
    enum device_result result = DEVICE_OK;
    if (!range->bytes_max) result = g->ops->range_reserve(g->device, bytes_max, range);
    if (result == DEVICE_OK) result = g->ops->range_resize(g->device, range, bytes);
    replica_account(g, r, total);
    if (result != DEVICE_OK || range->bytes <= before) return result;
    return g->ops->clear(g->device, range->base + before, range->bytes - before, stream);
}

/* True if what others have enqueued may read memory that growing would move. */
static bool must_stay(const struct gpu *g, const struct replica *r)
{
    return g->ops->range_moves(g->device) && r->holders > 1 && replica_shadow_bytes(r);
}

/* Takes what is missing: of the space's share, of the budget and of older shadows. Where ranges
 * move, none is moved: what was coded is dropped, and *whole becomes false. */
static bool fit(struct gpu *g, struct replica *r, bool *whole, device_stream stream)
{
    uint64_t bytes[RANGES_MAX] = {0}, most[RANGES_MAX] = {0};
    uint64_t row_bytes = vector_stride(r->dimension) * sizeof(float);
    sizes_of(r->dimension, r->rows, bytes);
    sizes_of(r->dimension, g->replicas.range_bytes_max / row_bytes + 1, most);
    uint64_t more = missing(g, r, bytes);
    if (!more) return true;
    if (must_stay(g, r)) {
        r->shadow.tried_ns = 0; /* it is tried as soon as nobody else holds the replica */
        return false;
    }
    if (g->ops->range_moves(g->device) && replica_shadow_drop(g, r)) {
        *whole = false;
        more = missing(g, r, bytes);
    }
    if (more > replica_space_left(g, r) || fault_here("replica_shadow: fit")) return false;
    while (g->replicas.bytes + more > g->replicas.bytes_max)
        if (!replica_shadow_evict(g, r)) return false;
    for (int i = RANGE_SHADOW; i < RANGES_MAX; i++) {
        if (bytes[i] <= r->ranges[i].bytes) continue;
        if (!gpu_ok(g, grow(g, r, i, bytes[i], most[i], stream))) return false;
    }
    return true;
}

/* ---- coding ---- */

struct cuda_shadow replica_shadow(const struct replica *r)
{
    const float *centre = (const float *)r->ranges[RANGE_CENTRE].base;
    return (struct cuda_shadow){.codes = (int8_t *)r->ranges[RANGE_CODES].base,
                                .scales = (float *)r->ranges[RANGE_SCALES].base,
                                .losts = (float *)r->ranges[RANGE_LOSTS].base,
                                .lengths = (float *)r->ranges[RANGE_LENGTHS].base,
                                .centre = centre,
                                .centre_norm = centre + vector_stride(r->dimension)};
}

static uint64_t *sums_of(const struct replica *r)
{
    return (uint64_t *)(r->ranges[RANGE_CENTRE].base + shadow_sizes_of(r->dimension, 0).sums_at);
}

/* Adds rows first .. end - 1 to the checksums, or takes them out. */
static enum device_result sum(struct gpu *g, const struct replica *r, uint64_t first, uint64_t end,
                              bool out, device_stream stream)
{
    if (first >= end) return DEVICE_OK;
    struct device_call call = {
        .kernel = KERNEL_SHADOW_SUM, .rows = replica_rows(r), .shadow = replica_shadow(r)};
    call.sum.first = first;
    call.sum.count = end - first;
    call.sum.out = out;
    call.sum.sums = sums_of(r);
    return g->ops->launch(g->device, &call, stream);
}

/* For a new shadow: its centre, of these rows, and checksums of nothing. */
static enum device_result begin(struct gpu *g, struct replica *r, struct cuda_rows rows,
                                device_stream stream)
{
    float *centre = (float *)r->ranges[RANGE_CENTRE].base;
    struct device_call call = {.kernel = KERNEL_SHADOW_CENTRE, .rows = rows};
    call.centre.row = centre;
    call.centre.norm = centre + vector_stride(r->dimension);
    r->shadow.coded = 0;
    r->shadow.lost = r->shadow.lost_first = 0;
    r->shadow.made_ns = clock_read_ns(g->clock);
    enum device_result result = g->ops->launch(g->device, &call, stream);
    if (result != DEVICE_OK) return result;
    return g->ops->clear(g->device, sums_of(r), shadow_sum_tiles(r->rows) * sizeof(uint64_t),
                         stream);
}

/* What was coded before leaves the checksums first, so that what changed beside it still shows. */
static enum device_result code(struct gpu *g, struct replica *r, uint64_t first, uint64_t end,
                               device_stream stream)
{
    struct device_call call = {
        .kernel = KERNEL_SHADOW_CODE, .rows = replica_rows(r), .shadow = replica_shadow(r)};
    uint64_t coded = r->shadow.coded;
    enum device_result result = sum(g, r, first, end < coded ? end : coded, true, stream);
    if (result == DEVICE_OK) result = sum(g, r, r->rows, coded, true, stream);
    r->shadow.coded = r->rows;
    if (result != DEVICE_OK || first >= end) return result;
    call.code.first = first;
    call.code.count = end - first;
    result = g->ops->launch(g->device, &call, stream);
    return result == DEVICE_OK ? sum(g, r, first, end, false, stream) : result;
}

/* whole: each row but first .. end - 1 is coded. Returns whether all of them are. */
static bool follow(struct gpu *g, struct replica *r, bool whole, uint64_t first, uint64_t end,
                   device_stream stream)
{
    if (!wanted(g, r)) {
        if (r->holders <= 1) replica_shadow_drop(g, r);
        return false;
    }
    r->shadow.tried_ns = clock_read_ns(g->clock);
    if (!fit(g, r, &whole, stream)) return false;
    if (!whole) first = 0;
    if (!whole || end > r->rows) end = r->rows;
    if (!whole && !gpu_ok(g, begin(g, r, replica_rows(r), stream))) return false;
    return gpu_ok(g, code(g, r, first, end, stream));
}

void replica_shadow_follow(struct gpu *g, struct replica *r, uint64_t first, uint64_t end,
                           device_stream stream)
{
    bool whole = r->shadow.whole;
    r->shadow.whole = false;
    r->shadow.whole = follow(g, r, whole, first, end, stream);
    replica_shadow_tell(g, r);
}

void replica_shadow_retry(struct gpu *g, struct replica *r, device_stream stream)
{
    if (r->shadow.whole || r->successor || !wanted(g, r)) return;
    if (clock_read_ns(g->clock) - r->shadow.tried_ns < RETRY_NS) return;
    replica_shadow_follow(g, r, 0, r->rows, stream);
}

/* ---- without rows ---- */

bool replica_shadow_alone(const struct gpu *g, uint32_t dimension, uint64_t rows)
{
    return atomic_load_explicit(&g->share->shadows, memory_order_relaxed) &&
           g->ops->shadow_suits(g->device, dimension, 1, 1, rows);
}

struct replica_room replica_shadow_room(const struct gpu *g, uint32_t dimension, uint64_t rows)
{
    struct replica_room room = {0};
    uint64_t most = g->replicas.range_bytes_max / shadow_stride(dimension) + 1;
    sizes_of(dimension, rows, room.bytes);
    sizes_of(dimension, most, room.most);
    room.bytes[RANGE_NORMS] = rows * sizeof(float);
    room.most[RANGE_NORMS] = most * sizeof(float);
    room.bytes[RANGE_IDS] = rows * sizeof(uint64_t);
    room.most[RANGE_IDS] = most * sizeof(uint64_t);
    return room;
}

/* The rows lie apart, so their places in the shadow are those of one that begins there. */
static enum device_result code_apart(struct gpu *g, struct replica *r, const float *rows,
                                     uint64_t first, uint64_t count, device_stream stream)
{
    float *norms = (float *)r->ranges[RANGE_NORMS].base + first;
    struct device_call call = {
        .kernel = KERNEL_NORMS, .rows = {r->dimension, rows, norms, count}, .norms.out = norms};
    enum device_result result = g->ops->launch(g->device, &call, stream);
    if (result != DEVICE_OK) return result;
    call = (struct device_call){.kernel = KERNEL_SHADOW_CODE,
                                .rows = {r->dimension, rows, norms, count},
                                .shadow = replica_shadow(r)};
    call.shadow.codes += first * shadow_stride(r->dimension);
    call.shadow.scales += first;
    call.shadow.losts += first;
    call.shadow.lengths += first;
    call.code.count = count;
    return g->ops->launch(g->device, &call, stream);
}

enum device_result replica_shadow_take(struct gpu *g, struct replica *r, const float *rows,
                                       uint64_t first, uint64_t count, device_stream stream)
{
    struct replica_shadow *s = &r->shadow;
    const struct cuda_rows given = {.dimension = r->dimension, .rows = rows, .count = count};
    uint64_t coded = s->coded, end = first + count;
    enum device_result result = DEVICE_OK;
    s->whole = false;
    if (count && !s->made_ns) result = begin(g, r, given, stream);
    if (result == DEVICE_OK) result = sum(g, r, r->rows, coded, true, stream);
    if (coded > r->rows) coded = r->rows;
    if (first > coded && count) return DEVICE_ERROR;
    if (result == DEVICE_OK) result = sum(g, r, first, end < coded ? end : coded, true, stream);
    if (result == DEVICE_OK && count) result = code_apart(g, r, rows, first, count, stream);
    if (result == DEVICE_OK) result = sum(g, r, first, end, false, stream);
    if (result != DEVICE_OK) return result;
    s->coded = count && end > coded ? end : coded;
    if (r->version && s->coded < r->rows) return DEVICE_ERROR;
    s->whole = r->version != 0;
    replica_shadow_tell(g, r);
    return DEVICE_OK;
}

/* ---- whether it is still what it was ---- */

enum device_result replica_shadow_look(struct gpu *g, const struct replica *r, uint64_t first,
                                       uint64_t end, void *pinned, device_stream stream)
{
    struct device_call call = {
        .kernel = KERNEL_SHADOW_CHECK, .rows = replica_rows(r), .shadow = replica_shadow(r)};
    char *found = r->ranges[RANGE_CENTRE].base + shadow_sizes_of(r->dimension, 0).found_at;
    call.look.first = first;
    call.look.count = end - first;
    call.look.sums = sums_of(r);
    call.look.found = (struct cuda_shadow_found *)found;
    enum device_result result =
        g->ops->clear(g->device, found, sizeof(struct cuda_shadow_found), stream);
    if (result == DEVICE_OK) result = g->ops->launch(g->device, &call, stream);
    if (result != DEVICE_OK) return result;
    return g->ops->copy_out(g->device, pinned, found, sizeof(struct cuda_shadow_found), stream);
}

void replica_shadow_renew(struct gpu *g, struct replica *r, device_stream stream)
{
    r->shadow.whole = false;
    if (r->shadow_only) {
        r->torn = true; /* nobody finds it any more, and the front builds another */
        r->version = 0;
        return;
    }
    replica_shadow_follow(g, r, 0, r->rows, stream);
}

/* ---- whether it is of use ---- */

static bool may_help(const struct gpu *g, const struct replica *r)
{
    return r->shadow.whole && !r->shadow.exact_left && wanted(g, r);
}

bool replica_shadow_helps(const struct gpu *g, const struct replica *r, uint64_t query_count,
                          uint32_t k)
{
    return may_help(g, r) && g->ops->shadow_suits(g->device, r->dimension, query_count, k, r->rows);
}

bool replica_shadow_helps_direct(const struct gpu *g, const struct replica *r, uint32_t k)
{
    return may_help(g, r) && g->ops->shadow_direct_suits(g->device, r->dimension, k, r->rows);
}

bool replica_shadow_rest(struct gpu *g, struct replica *r)
{
    if (!r->shadow.exact_left) return false;
    r->shadow.exact_left--;
    replica_shadow_tell(g, r);
    return r->shadow.whole;
}

bool replica_shadow_learn(struct gpu *g, struct replica *r, uint64_t query_count, uint64_t passed,
                          uint64_t redone)
{
    struct replica_shadow *s = &r->shadow;
    uint64_t pairs = query_count * r->rows;
    s->screened += pairs;
    s->passed += passed;
    if (passed <= pairs / USEFUL_SHARE && redone <= query_count / USEFUL_SHARE) {
        s->exact_next = 0;
        return true;
    }
    s->exact_next = s->exact_next ? 2 * s->exact_next : EXACT_FIRST;
    if (s->exact_next > EXACT_MOST) s->exact_next = EXACT_MOST;
    s->exact_left = s->exact_next;
    replica_shadow_tell(g, r);
    return false;
}
