#include "daemon/gpu/sweep.h"

#include <string.h>

#include "daemon/gpu/replica.h"
#include "daemon/gpu/replica_shadow.h"
#include "daemon/gpu/tasks.h"
#include "kernels/shadow_sum.h"

/* What is read at once: some 0.1 ms of a card's time, for which a request may wait. */
#define LOOK_BYTES (UINT64_C(256) << 20)

static device_stream stream_of(const struct gpu *g, const struct replica *r)
{
    return g->lanes[r->space % g->lane_count].stream;
}

/* ---- what was found ---- */

/* All tiles have been looked at: *sweep knows what codes lose now. */
static void weigh(struct gpu *g, struct replica *r)
{
    struct gpu_sweep *s = &g->sweep;
    struct replica_shadow *shadow = &r->shadow;
    atomic_fetch_add_explicit(&g->share->usage.sweeps, 1, memory_order_relaxed);
    shadow->lost = s->rows ? s->lost / (double)s->rows : 0;
    if (shadow->lost_first <= 0) shadow->lost_first = shadow->lost;
    replica_shadow_tell(g, r);
    if (shadow->lost > 1.5 * shadow->lost_first) replica_shadow_renew(g, r, stream_of(g, r));
}

/* Looks made while it was made anew, or a second version came, count for nothing. */
static void take(struct gpu *g, struct replica *r, const struct cuda_shadow_found *found)
{
    struct gpu_sweep *s = &g->sweep;
    bool same = r->shadow.whole && !r->successor && r->shadow.made_ns == s->made_ns;
    s->first = s->end / SHADOW_SUM_ROWS * SHADOW_SUM_ROWS; /* rows may have come behind the last */
    if (!same) return;
    s->lost += found->lost;
    s->rows += found->rows;
    if (found->differ) {
        struct share_usage *u = &g->share->usage;
        atomic_fetch_add_explicit(&u->shadows_differed, found->differ, memory_order_relaxed);
        replica_shadow_renew(g, r, stream_of(g, r));
    } else if (s->end >= r->rows) {
        weigh(g, r);
        s->made_ns = 0; /* the next one */
    }
}

static void land(struct gpu *g)
{
    struct gpu_sweep *s = &g->sweep;
    struct replica *r = s->replica;
    device_stream stream = stream_of(g, r);
    if (!s->recorded) s->recorded = gpu_ok(g, g->ops->event_record(g->device, s->event, stream));
    if (!s->recorded) return;
    enum device_result result = g->ops->event_query(g->device, s->event);
    if (result == DEVICE_BUSY) return;
    s->replica = NULL;
    struct cuda_shadow_found found;
    memcpy(&found, g->pinned + s->pinned.offset, sizeof found);
    if (gpu_ok(g, result)) take(g, r, &found);
    replica_let_go(g, r, true);
}

/* ---- looking ---- */

static bool prepare(struct gpu *g)
{
    struct gpu_sweep *s = &g->sweep;
    if (!s->event && !gpu_ok(g, g->ops->event_create(g->device, &s->event))) {
        s->event = NULL;
        return false;
    }
    if (s->pinned.bytes) return true;
    bool taken = !vram_pool_take(g->pinned_pool, sizeof(struct cuda_shadow_found), 1, &s->pinned);
    s->pinned.dirty_bytes = 0;
    return taken;
}

static bool has_shadow(const struct replica *r)
{
    return r && r->version && r->shadow.whole && r->rows;
}

/* The replica with a shadow that has the next number, from the lowest on after the highest. */
static struct replica *choose(struct gpu *g, uint64_t after)
{
    struct replica *next = NULL, *lowest = NULL;
    for (struct replica *r = g->replicas.oldest; r; r = r->newer) {
        if (!has_shadow(r)) continue;
        if (!lowest || r->id < lowest->id) lowest = r;
        if (r->id > after && (!next || r->id < next->id)) next = r;
    }
    return next ? next : lowest;
}

/* Goes on with the same shadow, or begins with the next one. */
static struct replica *go_on(struct gpu *g)
{
    struct gpu_sweep *s = &g->sweep;
    struct replica *r = replica_find(g, s->id);
    if (has_shadow(r) && r->shadow.made_ns == s->made_ns && s->first < r->rows && s->first)
        return r;
    r = choose(g, s->id);
    if (!r) return NULL;
    s->id = r->id;
    s->made_ns = r->shadow.made_ns;
    s->first = s->rows = 0;
    s->lost = 0;
    return r;
}

static void look(struct gpu *g)
{
    struct gpu_sweep *s = &g->sweep;
    struct replica *r = go_on(g);
    if (!r || !stream_of(g, r) || !prepare(g)) return;
    uint64_t tile = SHADOW_SUM_ROWS * shadow_stride(r->dimension);
    uint64_t rows = (LOOK_BYTES / tile + 1) * SHADOW_SUM_ROWS;
    s->end = rows < r->rows - s->first ? s->first + rows : r->rows;
    device_stream stream = stream_of(g, r);
    enum device_result result =
        replica_shadow_look(g, r, s->first, s->end, g->pinned + s->pinned.offset, stream);
    s->replica = r;
    s->recorded = false;
    r->holders++; /* it has not been used: its place in the order stays */
    r->readers++;
    if (!gpu_ok(g, result)) s->made_ns = 0; /* what was enqueued before uses the replica, too */
}

void sweep_turn(struct gpu *g)
{
    if (g->sweep.replica) land(g);
    if (g->sweep.replica || g->busy || g->broken) return;
    if (g->turned_ns - g->watch.moved_ns > g->sweep.after_ns) look(g);
}

void sweep_finish(struct gpu *g)
{
    struct gpu_sweep *s = &g->sweep;
    if (s->replica) replica_let_go(g, s->replica, true);
    s->replica = NULL;
    if (s->event) g->ops->event_destroy(g->device, s->event);
    s->event = NULL;
    if (s->pinned.bytes) vram_pool_give(g->pinned_pool, &s->pinned);
}
