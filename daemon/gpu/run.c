/* run: the steps of a request: moving its input in, running its kernels, moving the results out. */
#include <string.h>

#include "daemon/gpu/replica_shadow.h"
#include "daemon/gpu/run.h"

/* ---- starting ---- */

/* True if the replica's shadow finds the k best sooner than a direct request does, which has no use
 * for it on this device. */
static bool shadow_is_faster(const struct gpu *g, const struct order *o)
{
    if (o->run.operation != RUN_KNN) return false;
    const struct replica *r = replica_find((struct gpu *)g, o->replica);
    return r && r->version == o->version && r->dimension == o->run.dimension &&
           replica_shadow_helps(g, r, 1, o->run.k) && !replica_shadow_helps_direct(g, r, o->run.k);
}

static bool has_shadow_only(const struct gpu *g, const struct order *o)
{
    const struct replica *r = replica_find((struct gpu *)g, o->replica);
    return r && r->shadow_only;
}

const struct run_kind *run_kind_of(const struct gpu *g, const struct order *o)
{
    if (o->kind == ORDER_SPREAD) return &run_spread;
    if (o->run.operation == RUN_KNN && has_shadow_only(g, o)) return &run_shadow_only;
    if (order_run_is_direct(&o->run, g->share->device.direct_dimension) && !shadow_is_faster(g, o))
        return &run_direct;
    switch ((enum run_operation)o->run.operation) {
#define CASE(NAME, number, name) \
    case RUN_##NAME: return &run_##name;
        RUN_OPERATIONS(CASE)
#undef CASE
    }
    return NULL;
}

/* Takes device memory for all of it, with less optional scratch if there is less. */
static enum status take_block(struct gpu *g, struct task *t)
{
    struct task_plan *p = &t->plan;
    uint64_t largest = vram_pool_largest(g->pool);
    p->scratch_bytes = p->scratch_best;
    if (p->scratch_bytes > p->scratch_least && p->bytes + p->scratch_bytes > largest)
        p->scratch_bytes =
            largest >= p->bytes + p->scratch_least ? largest - p->bytes : p->scratch_least;
    uint64_t bytes = p->bytes + p->scratch_bytes;
    return vram_pool_take(g->pool, bytes ? bytes : 1, t->order.space, &t->block);
}

static bool in_is_small(const struct task *t)
{
    return t->plan.in_bytes <= SMALL_BYTES;
}

/* Takes VRAM and pinned memory, all or nothing. *never: there will never be enough. */
static bool take_memory(struct gpu *g, struct task *t, bool *never)
{
    uint64_t pinned =
        (in_is_small(t) ? t->plan.in_bytes : 0) + t->plan.out_small + t->plan.cell_bytes;
    struct vram_pool_usage pool = vram_pool_usage(g->pool);
    *never = t->plan.bytes + t->plan.scratch_least > pool.slab_bytes;
    if (*never || !task_may_take(g, t)) return false;
    if (take_block(g, t)) {
        *never = pool.blocks == 0;
        return false;
    }
    if (vram_pool_take(g->pinned_pool, pinned ? pinned : 1, t->order.space, &t->pinned)) {
        vram_pool_give(g->pool, &t->block);
        return false; /* other tasks will give memory back */
    }
    t->spare_bytes = t->plan.scratch_bytes - t->plan.scratch_least;
    g->spare_bytes += t->spare_bytes;
    return true;
}

/* This thread copies the whole input: it is small. */
static enum order_result fill_small(struct gpu *g, struct task *t)
{
    const struct task_plan *p = &t->plan;
    char *pinned = g->pinned + t->pinned.offset;
    for (uint32_t i = 0; i < p->in_count; i++) {
        const struct section *s = &p->in[i];
        if (!s->bytes) continue;
        if (!s->dimension) {
            transfer_bytes(s, 0, s->bytes, pinned + s->at, false);
            if (!numbers_sound(s->numbers, s->limit, pinned + s->at, s->bytes, 0))
                return RESULT_REFUSED;
            continue;
        }
        uint64_t good = transfer_rows(g->kernels, s, 0, s->rows, (float *)(pinned + s->at),
                                      (float *)(pinned + s->norms_at));
        if (good == s->rows) continue;
        t->number = good;
        return RESULT_BAD_QUERY;
    }
    return RESULT_OK;
}

static void fill_large(struct gpu *g, struct task *t)
{
    char *device = g->slab + t->block.offset;
    for (uint32_t i = 0; i < t->plan.in_count; i++) {
        const struct section *s = &t->plan.in[i];
        t->in.moves[i] = (struct move){
            .from = *s, .device = device + s->at, .norms = (float *)(device + s->norms_at)};
    }
    t->in.move_count = t->plan.in_count;
}

static enum order_result find_replica(struct gpu *g, const struct task *t, uint64_t number,
                                      uint64_t version, struct replica **out)
{
    struct replica *r = replica_find(g, number);
    if (r && r->former && r->former->version == version) r = r->former;
    if (!r || r->version != version || r->version == 0)
        return r && r->refused_round && !r->torn ? RESULT_NO_VERSION : RESULT_NO_REPLICA;
    *out = r;
    return r->space == t->order.space ? RESULT_OK : RESULT_REFUSED;
}

/* True if replica number i has the shape that the order assumes. */
static bool replica_fits(const struct task *t, uint32_t i, const struct replica *r)
{
    const struct order *o = &t->order;
    if (i == 0) return t->kind->fits(t, r);
    if (o->kind == ORDER_RUN && o->run.operation == RUN_RECALL)
        return !r->bare; /* its plan knows */
    uint32_t dimension = o->kind == ORDER_SPREAD ? o->spread.dimension : o->run.dimension;
    return !r->bare && r->dimension == dimension && r->rows == order_replica_rows(o, i);
}

static struct replica **held_at(struct task *t, uint32_t i)
{
    struct replica **const held[ORDER_REPLICAS] = {&t->replica, &t->other, &t->third};
    return held[i];
}

/* Holds all replicas that t reads, or none. The same one may be held twice. */
static enum order_result find_replicas(struct gpu *g, struct task *t)
{
    const struct order *o = &t->order;
    struct replica *found[ORDER_REPLICAS] = {NULL};
    for (uint32_t i = 0; i < ORDER_REPLICAS; i++) {
        if (!order_reads(o, i)) continue;
        enum order_result result =
            find_replica(g, t, o->reads[i].number, o->reads[i].version, &found[i]);
        t->number = result ? i : 0;
        if (result) return result;
    }
    for (uint32_t i = 0; i < ORDER_REPLICAS; i++) {
        bool served = found[i] && (!found[i]->shadow_only || t->kind == &run_shadow_only);
        if (found[i] && (!served || !replica_fits(t, i, found[i]))) return RESULT_REFUSED;
    }
    for (uint32_t i = 0; i < ORDER_REPLICAS; i++) {
        if (found[i]) replica_hold(g, found[i], true);
        *held_at(t, i) = found[i];
    }
    t->reads = found[0] != NULL;
    return RESULT_OK;
}

/* Before t has begun. */
static void let_replicas_go(struct gpu *g, struct task *t)
{
    for (uint32_t i = 0; i < ORDER_REPLICAS; i++) {
        struct replica **held = held_at(t, i);
        if (*held) replica_let_go(g, *held, true);
        *held = NULL;
    }
}

void run_let_others_go(struct gpu *g, struct task *t)
{
    for (uint32_t i = 1; i < ORDER_REPLICAS; i++) {
        struct replica **held = held_at(t, i);
        if (!*held) continue;
        /* An upload that this order builds on has failed. */
        if ((*held)->torn && t->result == RESULT_OK) {
            t->result = RESULT_NO_REPLICA;
            t->number = i;
        }
        if (t->rereads) (*held)->rereaders--;
        replica_let_go(g, *held, true);
        *held = NULL;
    }
}

static void begin_rereading(struct task *t)
{
    t->rereads = true;
    for (uint32_t i = 0; i < ORDER_REPLICAS; i++)
        if (*held_at(t, i)) (*held_at(t, i))->rereaders++;
}

bool run_reread(struct task *t)
{
    if (t->rereads) return true;
    for (uint32_t i = 0; i < ORDER_REPLICAS; i++) {
        const struct replica *r = *held_at(t, i);
        if (r && r->version != t->order.reads[i].version) return false;
    }
    begin_rereading(t);
    return true;
}

/* Clears the bytes of other spaces before this space can read them. */
static enum device_result clear_block(struct gpu *g, struct task *t)
{
    char *pinned = g->pinned + t->pinned.offset;
    memset(pinned, 0, t->pinned.dirty_bytes);
    t->pinned.dirty_bytes = 0;
    if (!t->block.dirty_bytes) return DEVICE_OK;
    enum device_result result =
        g->ops->clear(g->device, g->slab + t->block.offset, t->block.dirty_bytes, t->lane->stream);
    if (result == DEVICE_OK) t->block.dirty_bytes = 0;
    return result;
}

static enum order_result result_of(struct gpu *g, enum device_result result)
{
    return gpu_ok(g, result)            ? RESULT_OK
           : result == DEVICE_NO_MEMORY ? RESULT_NO_MEMORY
                                        : RESULT_ERROR;
}

/* Counts a request that got less optional scratch than it asked for. */
static void count_less(struct gpu *g, const struct task *t)
{
    struct share_usage *u = &g->share->usage;
    if (t->plan.scratch_bytes < t->plan.scratch_best)
        atomic_fetch_add_explicit(&u->shrunk, 1, memory_order_relaxed);
    if (t->plan.split) atomic_fetch_add_explicit(&u->split, 1, memory_order_relaxed);
}

/* Begins a request that has its memory. */
static void begin(struct gpu *g, struct task *t)
{
    task_fed(g, t);
    if (t->plan.rereads) begin_rereading(t);
    count_less(g, t);
    enum order_result filled = result_of(g, clear_block(g, t));
    t->state = TASK_FILL;
    if (!filled && in_is_small(t)) filled = fill_small(g, t);
    if (!filled && t->plan.cell_bytes) filled = run_direct_fill(g, t);
    if (filled)
        task_end(g, t, filled);
    else if (!in_is_small(t))
        fill_large(g, t);
}

bool run_start(struct gpu *g, struct task *t)
{
    bool never = false;
    t->kind = run_kind_of(g, &t->order);
    enum order_result found = t->kind ? find_replicas(g, t) : RESULT_REFUSED;
    if (!found) found = run_plan(g, t);
    if (!found && !take_memory(g, t, &never)) {
        let_replicas_go(g, t);
        if (!never) task_hungers(g, t);
        if (!never) return false;
        found = RESULT_NO_MEMORY;
    }
    if (found) {
        task_end(g, t, found);
        return true;
    }
    begin(g, t);
    return true;
}

/* ---- launching ---- */

struct cuda_queries run_queries(const struct gpu *g, const struct task *t, uint64_t first,
                                uint64_t count)
{
    const struct section *s = &t->plan.in[0];
    return (struct cuda_queries){.rows = (const float *)run_device_at(g, t, s->at) +
                                         first * vector_stride(s->dimension),
                                 .norms = (const float *)run_device_at(g, t, s->norms_at) + first,
                                 .count = count};
}

char *run_out_at(const struct gpu *g, const struct task *t, uint32_t i)
{
    return run_device_at(g, t, t->plan.out_at + t->plan.out[i].at);
}

/* Returns where a small result is in the pinned block once the event is done. */
static char *small_out(const struct gpu *g, const struct task *t)
{
    return g->pinned + t->pinned.offset + (in_is_small(t) ? t->plan.in_bytes : 0);
}

enum device_result run_launch(struct gpu *g, struct task *t)
{
    const struct task_plan *p = &t->plan;
    enum device_result result = DEVICE_OK;
    bool first = t->first_query == 0 && t->rounds_done == 0;
    if (first && in_is_small(t) && p->in_bytes)
        result = g->ops->copy_in(g->device, run_device_at(g, t, 0), g->pinned + t->pinned.offset,
                                 p->in_bytes, t->lane->stream);
    if (result == DEVICE_OK && first && run_brings_rows(t)) result = run_check_rows(g, t);
    if (result == DEVICE_OK) result = t->kind->launch(g, t);
    if (result == DEVICE_OK && p->out_small)
        result = g->ops->copy_out(g->device, small_out(g, t), run_device_at(g, t, p->out_at),
                                  p->out_small, t->lane->stream);
    return result;
}

/* ---- the way back ---- */

void run_give(struct gpu *g, struct task *t, const struct section *s, const char *small)
{
    if (s->bytes == 0) return;
    if (s->at + s->bytes <= t->plan.out_small)
        transfer_bytes(s, 0, s->bytes, (char *)small + s->at, true);
    else
        t->out.moves[t->out.move_count++] =
            (struct move){.from = *s, .device = run_device_at(g, t, t->plan.out_at + s->at)};
}

void run_give_rows(struct gpu *g, struct task *t, uint64_t first, uint64_t count, const char *small)
{
    const struct order_run *r = &t->order.run;
    struct section rows = t->plan.out[t->plan.out_count - 1];
    uint64_t bytes = r->dimension * sizeof(float);
    uint64_t line = vector_stride(r->dimension) * sizeof(float);
    rows.host = gpu_heap(g, r->out_scores + first * bytes, count * bytes);
    rows.bytes = count * line;
    if (line != bytes) {
        t->lines.part = (struct scatter_part){rows.host, count, bytes};
        t->lines.lines = (struct scatter){&t->lines.part, line};
        rows.scatter = &t->lines.lines;
    }
    run_give(g, t, &rows, small);
}

enum order_result run_drain_all(struct gpu *g, struct task *t, const char *small)
{
    for (uint32_t i = 0; i < t->plan.out_count; i++)
        if (t->plan.out[i].host || t->plan.out[i].scatter) run_give(g, t, &t->plan.out[i], small);
    return RESULT_OK;
}

bool run_next_none(struct gpu *g, struct task *t)
{
    (void)g;
    (void)t;
    return false;
}

double run_part_queries(const struct task *t)
{
    return (double)t->pass_queries / (double)t->order.run.query_count;
}

double run_part(const struct task *t)
{
    double part = t->kind->part ? t->kind->part(t) : 1;
    return part < 1 ? part : 1;
}

enum order_result run_drain(struct gpu *g, struct task *t)
{
    const char *small = small_out(g, t);
    enum order_result result = RESULT_OK;
    if (run_brings_rows(t)) result = run_checked(t, small);
    return result ? result : t->kind->drain(g, t, small);
}

bool run_settle(struct gpu *g, struct task *t)
{
    return t->kind->settle && t->kind->settle(g, t);
}

bool run_next(struct gpu *g, struct task *t)
{
    return t->kind->next(g, t);
}
