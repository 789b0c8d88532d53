/* upload_codes: rows of a replica that keeps only what codes them (replica_shadow.h): they come
 * into a block of their task's own, are measured and coded there, and are gone with the task. */
#include "daemon/gpu/replica_shadow.h"
#include "daemon/gpu/upload.h"

static uint64_t bytes_of(const struct order_upload *u)
{
    return u->count * vector_stride(u->dimension) * sizeof(float);
}

enum order_result upload_codes_take(struct gpu *g, struct task *t, bool *wait)
{
    const struct order_upload *u = &t->order.upload;
    uint64_t bytes = bytes_of(u);
    if (!replica_shadow_alone(g, u->dimension, u->row_count)) return RESULT_NO_MEMORY;
    if (!bytes) return RESULT_OK;
    if (bytes > vram_pool_usage(g->pool).slab_bytes) return RESULT_NO_MEMORY;
    if (task_may_take(g, t) && !vram_pool_take(g->pool, bytes, t->order.space, &t->block)) {
        task_fed(g, t);
        return RESULT_OK;
    }
    if (vram_pool_usage(g->pool).blocks == 0) return RESULT_NO_MEMORY;
    task_hungers(g, t);
    *wait = true;
    return RESULT_OK;
}

static char *rows_of(const struct gpu *g, const struct task *t)
{
    return g->slab + t->block.offset;
}

void upload_codes_place(struct gpu *g, struct task *t)
{
    const struct order_upload *u = &t->order.upload;
    t->in.moves[0].device = rows_of(g, t);
    t->in.moves[1].device = t->replica->ranges[RANGE_IDS].base + u->first * sizeof(uint64_t);
}

enum device_result upload_codes_launch(struct gpu *g, struct task *t)
{
    const struct order_upload *u = &t->order.upload;
    return replica_shadow_take(g, t->replica, (const float *)rows_of(g, t), u->first, u->count,
                               t->lane->stream);
}
