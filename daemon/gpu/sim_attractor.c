#include "daemon/gpu/sim_attractor.h"

#include <math.h>
#include <string.h>

static const char *const name = "attractor";

/* Sums and their keys, then what attractor_settle wants. */
static uint64_t sums_bytes(uint32_t dimension)
{
    return vector_stride(dimension) * ATTRACTOR_SPREAD * sizeof(float);
}

uint64_t sim_attractor_scratch_bytes(void)
{
    return 2 * sums_bytes(ATTRACTOR_DIMENSION_MAX) +
           attractor_settle_bytes(ATTRACTOR_DIMENSION_MAX);
}

/* ---- what it may touch ---- */

static void check(const struct sim_memory *m, const void *address, uint64_t count, uint64_t size,
                  uint64_t alignment)
{
    sim_device_check_array(m, name, address, count, size, alignment);
}

void sim_attractor_check(const struct device_call *call, const struct sim_memory *m)
{
    const struct cuda_attractor *w = &call->attractor;
    uint32_t d = call->rows.dimension;
    uint64_t stride = vector_stride(d);
    if (d < 1 || d > ATTRACTOR_DIMENSION_MAX || call->rows.count != d || w->kept < 1 || w->kept > d)
        sim_misuse(name, "%u dimensions, %llu columns, %u kept", (unsigned)d,
                   (unsigned long long)call->rows.count, (unsigned)w->kept);
    check(m, w->states, w->count * stride, sizeof *w->states, 64);
    check(m, w->norms, w->count, sizeof *w->norms, 4);
    check(m, w->ends, w->count, sizeof *w->ends, 4);
    if (w->width % VECTOR_LANES || w->width > VECTOR_COMPENSATED_ABOVE || (w->width && !w->known))
        sim_misuse(name, "a width of %u", (unsigned)w->width);
    if (w->step == CUDA_ATTRACTOR_GATHER) {
        check(m, call->rows.rows, d * stride * (1 + ATTRACTOR_SPREAD), sizeof(float), 64);
        check(m, w->known, d, 1, 1);
        check(m, w->gathered, (uint64_t)ATTRACTOR_SPREAD * d * w->width, sizeof(float), 64);
        return;
    }
    if (w->step == CUDA_ATTRACTOR_MASK) {
        check(m, w->gathered, w->count * w->width, sizeof(float), 64);
        check(m, w->cues, w->count * d, sizeof *w->cues, 4);
        if (w->known && w->count) check(m, w->known, (w->count - 1) * w->known_step + d, 1, 1);
        return;
    }
    check(m, call->rows.rows, d * stride, sizeof(float), 64);
    check(m, w->sums, w->count * ATTRACTOR_SPREAD * d, sizeof *w->sums, 4);
    check(m, w->settled, w->count * d, sizeof *w->settled, 4);
}

/* ---- doing it ---- */

static float norm_of(const struct vector_kernels *kernels, uint32_t dimension, const float *row)
{
    float norm;
    kernels->norms(dimension, row, 1, &norm);
    return isfinite(norm) ? norm : INFINITY;
}

/* Of a padded row, what a line of marks knows. */
static void gather_row(const struct device_call *call, const uint8_t *marks, const float *row,
                       float *to)
{
    const struct cuda_attractor *w = &call->attractor;
    uint32_t count[VECTOR_LANES] = {0};
    memset(to, 0, w->width * sizeof *to);
    for (uint32_t k = 0; k < call->rows.dimension; k++) {
        uint32_t lane = k % VECTOR_LANES;
        if (!marks[k]) continue;
        uint32_t place = count[lane]++ * VECTOR_LANES + lane;
        if (place < w->width) to[place] = row[k];
    }
}

static void gather_dentate(const struct device_call *call)
{
    const struct cuda_attractor *w = &call->attractor;
    uint64_t d = call->rows.dimension, stride = vector_stride(call->rows.dimension);
    for (uint64_t i = 0; i < ATTRACTOR_SPREAD * d; i++)
        gather_row(call, w->known, call->rows.rows + (d + i) * stride, w->gathered + i * w->width);
}

static void mask_cue(const struct device_call *call, const struct vector_kernels *kernels,
                     uint64_t i)
{
    const struct cuda_attractor *w = &call->attractor;
    uint32_t d = call->rows.dimension, known = 0;
    uint64_t stride = vector_stride(d);
    float *state = w->states + i * stride;
    memset(state, 0, stride * sizeof *state);
    for (uint32_t k = 0; k < d; k++) {
        if (w->known && !w->known[i * w->known_step + k]) continue;
        state[k] = w->cues[i * d + k];
        known++;
    }
    float norm = norm_of(kernels, d, state);
    bool refused = known < attractor_known_least(d) || isinf(norm);
    if (refused) memset(state, 0, stride * sizeof *state);
    w->norms[i] = refused ? 0.0f : norm;
    w->ends[i] = (struct cuda_attractor_end){.refused = refused};
    if (w->width) gather_row(call, w->known + i * w->known_step, state, w->gathered + i * w->width);
}

static void settle_cue(const struct device_call *call, const struct vector_kernels *kernels,
                       uint64_t i, char *scratch)
{
    const struct cuda_attractor *w = &call->attractor;
    uint32_t d = call->rows.dimension;
    uint64_t stride = vector_stride(d);
    float *sums = (float *)(void *)scratch, *state = w->states + i * stride;
    uint32_t *keys = (uint32_t *)(void *)(scratch + sums_bytes(d));
    memcpy(sums, w->sums + i * ATTRACTOR_SPREAD * d, ATTRACTOR_SPREAD * d * sizeof *sums);
    attractor_separate(d, sums, keys, state);
    struct attractor_outcome o =
        attractor_settle(attractor_choose(kernels->name), kernels, d, w->kept, call->rows.rows,
                         scratch + 2 * sums_bytes(d), state);
    memcpy(w->settled + i * d, state, d * sizeof *state);
    w->norms[i] = norm_of(kernels, d, state);
    w->ends[i].rounds = o.rounds;
    w->ends[i].converged = o.converged;
}

void sim_attractor_run(const struct device_call *call, const struct vector_kernels *kernels,
                       void *scratch)
{
    if (call->attractor.step == CUDA_ATTRACTOR_GATHER) {
        gather_dentate(call);
        return;
    }
    for (uint64_t i = 0; i < call->attractor.count; i++) {
        if (call->attractor.step == CUDA_ATTRACTOR_MASK)
            mask_cue(call, kernels, i);
        else
            settle_cue(call, kernels, i, scratch);
    }
}
