/* random: rows of normal numbers that a seed names (kernels/random.h). */
#include "daemon/ops/check.h"
#include "daemon/ops/holographic.h"
#include "kernels/random.h"

/* A padded row. */
static uint64_t random_scratch_bytes(const struct holographic *w)
{
    return vector_stride(w->dimension) * sizeof(float);
}

static uint64_t random_make(struct holographic *w, uint64_t first, uint64_t count, void *scratch,
                            float *out, struct failure *why)
{
    const struct random_kernels *kernels = random_choose(w->kernels->name);
    const struct job_request *r = w->request;
    for (uint64_t i = 0; i < count; i++) {
        kernels->normal(r->seed, w->dimension, r->offset + first + i, 1, scratch);
        memcpy(out + i * w->dimension, scratch, w->dimension * sizeof *out);
    }
    return count;
}

/* A normal number takes 1.6 ns, and a row some hundred besides. */
static const struct holographic_kind random_kind = {
    .products = 16, .beside = 3000, .scratch_bytes = random_scratch_bytes, .make = random_make};

static enum status random_check(struct job *j)
{
    const struct job_request *r = &j->request;
    if (r->dimension < 1 || r->dimension > VECTOR_DIMENSION_MAX)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DIMENSION,
                           "dimension: %" PRIu32 ", 1 to %d wanted", r->dimension,
                           VECTOR_DIMENSION_MAX);
    if (!r->limit || r->limit > COLLECTION_NO_ROW)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SHAPE,
                           "count: %" PRIu64 ", 1 to %" PRIu32 " wanted", r->limit,
                           COLLECTION_NO_ROW);
    return holographic_check(j, &random_kind);
}

static void random_work(const struct job *j, struct work *w)
{
    holographic_work(j, &random_kind, w);
}

static enum status random_plan(struct job *j)
{
    return holographic_plan(j, &random_kind);
}

const struct operation_ops operation_random = {
    .check = random_check, .work = random_work, .plan = random_plan};
