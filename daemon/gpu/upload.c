#include "daemon/gpu/upload.h"

#include <string.h>

#include "daemon/gpu/replica_shadow.h"

/* Reads and checks the order's places. */
static bool rows_read(struct gpu *g, struct task *t, struct upload *out)
{
    const struct order_upload *u = &t->order.upload;
    uint64_t row_bytes = vector_stride(u->dimension) * sizeof(float);
    if (u->dimension < 1 || u->dimension > VECTOR_DIMENSION_MAX || u->first > u->row_count ||
        u->count > u->row_count - u->first || u->row_count > UINT64_C(1) << 32)
        return false;
    char *rows = gpu_heap(g, u->rows, u->count * row_bytes);
    char *ids = gpu_heap(g, u->ids, u->count * sizeof(uint64_t));
    if (u->count && (!rows || (!ids && !u->bare))) return false;
    t->in.moves[0] = (struct move){.from = {.host = rows, .bytes = u->count * row_bytes}};
    t->in.moves[1] = (struct move){.from = {.host = ids, .bytes = u->count * sizeof(uint64_t)}};
    t->in.move_count = u->bare ? 1 : 2;
    *out = (struct upload){
        .dimension = u->dimension,
        .fresh = u->fresh,
        .bare = u->bare,
        .exact = u->exact,
        .round = u->round,
        .space_bytes_max = u->space_bytes_max,
        .room = replica_room_of_rows(g, u->dimension, u->row_count),
        .places = {{RANGE_ROWS, u->first * row_bytes, u->count * row_bytes},
                   {RANGE_IDS, u->first * sizeof(uint64_t), u->count * sizeof(uint64_t)},
                   /* between the rows of several uploads, too */
                   {RANGE_NORMS, 0, u->count ? u->row_count * sizeof(float) : 0}},
        .place_count = u->bare ? 1 : 3,
    };
    if (u->bare) out->room.bytes[RANGE_NORMS] = out->room.bytes[RANGE_IDS] = 0;
    if (!u->shadow_only) return true;
    out->shadow_only = true;
    out->room = replica_shadow_room(g, u->dimension, u->row_count);
    out->place_count = 0; /* it has one version, which shares nothing */
    return !u->bare;
}

static void rows_place(struct gpu *g, struct task *t)
{
    const struct order_upload *u = &t->order.upload;
    const struct replica *r = t->replica;
    if (r->shadow_only) {
        upload_codes_place(g, t);
        return;
    }
    t->in.moves[0].device =
        r->ranges[RANGE_ROWS].base + u->first * vector_stride(u->dimension) * sizeof(float);
    if (u->bare) return;
    t->in.moves[1].device = r->ranges[RANGE_IDS].base + u->first * sizeof(uint64_t);
}

static bool is_part(const struct task *t)
{
    return t->order.kind == ORDER_UPLOAD_PART;
}

/* True if its ranges have twins: a former version's, or what is to be discarded. */
static bool has_two(const struct replica *r)
{
    bool two = false;
    for (int i = 0; i < RANGES_MAX; i++)
        two |= r->ranges[i].twin != NULL;
    return two;
}

/* True if r is not to be changed now: a range is not mapped anew where kernels may read it. */
static bool must_wait(const struct replica *r, const struct upload *u)
{
    if (u->fresh) return replica_in_use(r);
    if (r->rereaders) return false;
    return (r->readers && replica_shared(r)) || (has_two(r) && !r->former);
}

/* Finds the replica of the order; otherwise returns the result that ends the task. */
static enum order_result find(struct gpu *g, struct task *t, const struct upload *u,
                              struct replica **out, bool *wait)
{
    const struct order *o = &t->order;
    struct replica *r = replica_find(g, o->replica);
    if (r && (r->space != o->space || r->dimension != u->dimension)) return RESULT_REFUSED;
    if (!u->fresh && (!r || r->torn)) return RESULT_NO_REPLICA;
    if (!u->fresh && (r->bare != u->bare || r->shadow_only != u->shadow_only))
        return RESULT_REFUSED;
    if (!u->fresh && u->round && u->round == r->refused_round) return RESULT_NO_VERSION;
    if (r && must_wait(r, u)) {
        *wait = true;
        return RESULT_OK;
    }
    if (r && u->fresh) replica_drop(g, r);
    if (u->fresh) r = replica_make(g, o->replica, o->space, u->dimension);
    if (!r) return RESULT_NO_MEMORY;
    r->bare = u->bare;
    r->shadow_only = u->shadow_only;
    r->exact = u->exact;
    r->space_bytes_max = u->space_bytes_max;
    *out = r;
    return RESULT_OK;
}

/* Ends an upload that the device failed for, or that has no VRAM. Where that is because of a former
 * version, it can be tried again when that is gone. */
static void fail(struct gpu *g, struct task *t, const struct upload *u, struct replica *r,
                 enum device_result result)
{
    bool for_two = result == DEVICE_NO_MEMORY && (r->rereaders || r->former);
    if (for_two) r->refused_round = u->round;
    task_end(g, t,
             for_two                      ? RESULT_NO_VERSION
             : result == DEVICE_NO_MEMORY ? RESULT_NO_MEMORY
                                          : RESULT_ERROR);
}

/* Makes a second version if requests under way read r several times. False: the task has ended. */
static bool step_aside(struct gpu *g, struct task *t, const struct upload *u, struct replica **r)
{
    struct replica *next = NULL;
    if (!(*r)->rereaders) return true;
    enum device_result result = DEVICE_NO_MEMORY;
    if (!has_two(*r) && !(*r)->shadow_only)
        result = replica_fork(g, *r, &u->room, t->lane->stream, &next);
    if (gpu_ok(g, result)) {
        *r = next;
        return true;
    }
    if (next) {
        replica_hold(g, *r, false);
        t->replica = *r;
        t->unborn = next;
        t->state = TASK_FILL; /* the device may work for it */
    }
    fail(g, t, u, *r, result);
    return false;
}

/* Returns how many bytes more r would have in that room. */
static uint64_t growth_of(const struct replica *r, const struct replica_room *room)
{
    uint64_t bytes = 0;
    for (int i = 0; i < replica_own_ranges(r); i++)
        if (room->bytes[i] > r->ranges[i].bytes) bytes += room->bytes[i] - r->ranges[i].bytes;
    return bytes;
}

/* True if r would grow past what its space may have because another replica has two versions: r
 * stays as it is, and the upload can be tried again when one of those is gone. */
static bool grows_too_soon(const struct gpu *g, const struct upload *u, const struct replica *r)
{
    bool alone = !u->fresh && !r->rereaders && !r->former;
    return alone && !replica_may_grow(g, r, growth_of(r, &u->room));
}

/* Takes VRAM for what the order brings. */
static enum device_result fit(struct gpu *g, struct task *t, const struct upload *u, bool *wait)
{
    struct replica *r = t->replica;
    if (!replica_may_grow(g, r, growth_of(r, &u->room))) return DEVICE_NO_MEMORY;
    enum device_result result = replica_fit(g, r, &u->room, t->lane->stream, wait);
    if (result == DEVICE_NO_MEMORY && r->holders == 1 && replica_shadow_drop(g, r))
        result = replica_fit(g, r, &u->room, t->lane->stream, wait);
    for (uint32_t i = 0; result == DEVICE_OK && !*wait && i < u->place_count; i++)
        result = replica_own(g, r, u->places[i].range, u->places[i].first, u->places[i].bytes,
                             t->lane->stream);
    return result;
}

/* False: it must wait. */
static bool start(struct gpu *g, struct task *t)
{
    struct upload u;
    struct replica *r = NULL;
    bool wait = false;
    if (!(is_part(t) ? upload_part_read(g, t, &u) : rows_read(g, t, &u))) {
        task_end(g, t, RESULT_REFUSED);
        return true;
    }
    enum order_result found = u.shadow_only ? upload_codes_take(g, t, &wait) : RESULT_OK;
    if (!found && !wait) found = find(g, t, &u, &r, &wait);
    if (found) {
        task_end(g, t, found);
        return true;
    }
    if (wait) return false;
    if (grows_too_soon(g, &u, r)) {
        r->refused_round = u.round;
        task_end(g, t, RESULT_NO_VERSION);
        return true;
    }
    if (!step_aside(g, t, &u, &r)) return true;
    t->reads = t->order.version != 0; /* it computes norms */
    replica_hold(g, r, t->reads);
    t->replica = r;
    enum device_result result = fit(g, t, &u, &wait);
    if (wait) {
        replica_let_go(g, r, t->reads);
        t->replica = NULL;
        return false;
    }
    r->version = 0;
    t->former = r->former;
    if (t->former) replica_hold(g, t->former, false);
    t->state = TASK_FILL; /* from here on the device may work for it */
    if (!gpu_ok(g, result)) {
        fail(g, t, &u, r, result);
        return true;
    }
    r->refused_round = 0;
    if (is_part(t))
        upload_part_place(t);
    else
        rows_place(g, t);
    return true;
}

bool upload_start(struct gpu *g, struct task *t)
{
    bool started = start(g, t);
    if (!started) vram_pool_give(g->pool, &t->block);
    return started;
}

bool upload_is_fresh(const struct order *o)
{
    return o->kind == ORDER_UPLOAD_PART ? o->part.fresh : o->upload.fresh;
}

bool upload_overlaps(const struct order *a, const struct order *b)
{
    if (a->kind != b->kind) return true; /* one of them will be refused */
    if (a->kind == ORDER_UPLOAD_PART)
        return a->part.part == b->part.part && (a->part.first - b->part.first < b->part.count ||
                                                b->part.first - a->part.first < a->part.count);
    return a->upload.first - b->upload.first < b->upload.count ||
           b->upload.first - a->upload.first < a->upload.count;
}

/* Computes the norms, and the codes, of all rows that came since the replica was last complete: one
 * kernel for many uploads. */
static enum device_result compute_norms(struct gpu *g, struct replica *r, device_stream stream)
{
    uint64_t first = r->no_norm_first;
    uint64_t end = r->no_norm_end < r->rows ? r->no_norm_end : r->rows;
    r->no_norm_first = r->no_norm_end = 0;
    if (first >= end) {
        replica_shadow_follow(g, r, 0, 0, stream);
        return DEVICE_OK;
    }
    struct cuda_rows rows = replica_rows(r);
    rows.rows += first * vector_stride(r->dimension);
    rows.count = end - first;
    struct device_call call = {.kernel = KERNEL_NORMS,
                               .rows = rows,
                               .norms.out = (float *)r->ranges[RANGE_NORMS].base + first};
    enum device_result result = g->ops->launch(g->device, &call, stream);
    if (result == DEVICE_OK) replica_shadow_follow(g, r, first, end, stream);
    return result;
}

/* Requests behind this one on the stream find it done. */
enum device_result upload_launch(struct gpu *g, struct task *t)
{
    const struct order_upload *u = &t->order.upload;
    struct replica *r = t->replica;
    r->version = r->torn ? 0 : t->order.version;
    if (is_part(t)) {
        memcpy(r->part_bytes, t->order.part.part_bytes, sizeof r->part_bytes);
        return DEVICE_OK;
    }
    r->rows = u->row_count;
    if (r->shadow_only) return upload_codes_launch(g, t);
    if (u->count && !r->bare) {
        bool none = r->no_norm_first == r->no_norm_end;
        if (none || u->first < r->no_norm_first) r->no_norm_first = u->first;
        if (none || u->first + u->count > r->no_norm_end) r->no_norm_end = u->first + u->count;
    }
    return r->version && !r->bare ? compute_norms(g, r, t->lane->stream) : DEVICE_OK;
}

void upload_finish(struct gpu *g, struct task *t)
{
    if (t->result != RESULT_OK) return;
    /* Codes beside rows come and go by themselves (replica_shadow_tell). */
    t->number =
        replica_bytes(t->replica) - replica_shadow_bytes(t->replica) + replica_shared(t->replica);
    struct share_usage *usage = &g->share->usage;
    atomic_fetch_add_explicit(&usage->uploads, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < t->in.move_count; i++)
        atomic_fetch_add_explicit(&usage->upload_bytes, t->in.moves[i].from.bytes,
                                  memory_order_relaxed);
}

/* ---- the end of a replica ---- */

bool forget_start(struct gpu *g, struct task *t)
{
    struct replica *r = replica_find(g, t->order.replica);
    if (r && r->space != t->order.space) {
        task_end(g, t, RESULT_REFUSED);
        return true;
    }
    if (r && replica_in_use(r)) return false;
    if (r) replica_drop(g, r);
    task_end(g, t, RESULT_OK);
    return true;
}
