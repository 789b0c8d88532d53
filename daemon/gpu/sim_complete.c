#include "daemon/gpu/sim_complete.h"

#include <string.h>

#include "kernels/complete.h"
#include "kernels/superpose.h"

static const char *const name = "complete";

/* ---- what it may touch ---- */

static void check(const struct sim_memory *m, const void *address, uint64_t count, uint64_t size,
                  uint64_t alignment)
{
    sim_device_check_array(m, name, address, count, size, alignment);
}

void sim_complete_check(const struct device_call *call, const struct sim_memory *m)
{
    const struct cuda_completion *w = &call->complete;
    const struct cuda_rows *rows = &call->rows;
    uint64_t stride = vector_stride(rows->dimension), blocks = complete_blocks(rows->count);
    if (!rows->count || w->states > CUDA_COMPLETION_STATES_MAX || w->unit > 1)
        sim_misuse(name, "%llu states, %llu rows", (unsigned long long)w->states,
                   (unsigned long long)rows->count);
    check(m, w->cues, w->states * stride, sizeof(float), 64);
    check(m, w->state, w->states * stride, sizeof(float), 64);
    check(m, w->records, w->states, sizeof *w->records, 8);
    if (w->known && w->states)
        check(m, w->known, (w->states - 1) * w->known_step + rows->dimension, 1, 1);
    if (w->begin) return;
    check(m, rows->rows, rows->count * stride, sizeof(float), 64);
    check(m, rows->norms, rows->count, sizeof(float), 4);
    check(m, w->ids, rows->count, sizeof *w->ids, 8);
    check(m, w->moved, w->states * stride, sizeof(float), 64);
    check(m, w->scores, w->states * rows->count, sizeof(float), 4);
    check(m, w->bests, w->states * blocks, sizeof *w->bests, 8);
    check(m, w->runs, w->states * blocks, sizeof *w->runs, 4);
    check(m, w->totals, w->states * blocks, sizeof *w->totals, 8);
    check(m, w->sums, w->states * blocks * stride, sizeof(float), 64);
}

/* ---- doing it ---- */

static const uint8_t *known_of(const struct cuda_completion *w, uint64_t q)
{
    return w->known ? w->known + q * w->known_step : NULL;
}

static void begin_state(const struct cuda_completion *w, uint32_t dimension, uint64_t q)
{
    uint64_t stride = vector_stride(dimension);
    const uint8_t *known = known_of(w, q);
    memset(w->state + q * stride, 0, stride * sizeof *w->state);
    for (uint32_t c = 0; c < dimension; c++)
        if (!known || known[c]) w->state[q * stride + c] = w->cues[q * stride + c];
    w->records[q] = (struct complete_record){0};
}

static float find_best(const struct cuda_rows *rows, const struct cuda_completion *w,
                       const float *scores, struct complete_record *record)
{
    float largest = 0.0f;
    record->id = UINT64_MAX;
    for (uint64_t i = 0; i < rows->count; i++) {
        float norm = w->unit ? (rows->norms[i] == 0.0f ? 0.0f : 1.0f) : rows->norms[i];
        if (norm > largest) largest = norm;
        if (scores[i] != record->score || w->ids[i] > record->id) continue;
        record->id = w->ids[i];
        record->row = (uint32_t)i;
    }
    return largest;
}

static float norm_of(const struct vector_kernels *kernels, uint32_t dimension, const float *row)
{
    float norm;
    kernels->norms(dimension, row, 1, &norm);
    return norm;
}

static void sum_blocks(const struct cuda_rows *rows, const struct cuda_completion *w,
                       const struct vector_kernels *vectors, uint64_t q)
{
    const struct complete_kernels *kernels = complete_choose(vectors->name);
    uint64_t stride = vector_stride(rows->dimension), blocks = complete_blocks(rows->count);
    float *scores = w->scores + q * rows->count, *sums = w->sums + q * blocks * stride;
    memset(sums, 0, blocks * stride * sizeof *sums);
    for (uint64_t b = 0; b < blocks; b++) {
        uint64_t first = b * COMPLETE_BLOCK, left = rows->count - first;
        size_t count = (size_t)(left < COMPLETE_BLOCK ? left : COMPLETE_BLOCK);
        struct complete_shares shares = {scores + first, rows->count, 1};
        w->totals[q * blocks + b] = kernels->weigh(w->unit ? rows->norms + first : NULL, count,
                                                   w->records[q].score, w->beta, scores + first);
        kernels->add(rows->dimension, rows->rows + first * stride, count, &shares,
                     sums + b * stride, stride);
    }
    superpose_choose(vectors->name)->fold(rows->dimension, sums, (size_t)blocks);
    complete_fold_totals(w->totals + q * blocks, (size_t)blocks);
}

static void run_state(const struct cuda_rows *rows, const struct cuda_completion *w,
                      const struct vector_kernels *vectors, uint64_t q)
{
    const struct complete_kernels *kernels = complete_choose(vectors->name);
    uint32_t d = rows->dimension;
    uint64_t stride = vector_stride(d), blocks = complete_blocks(rows->count);
    struct complete_record *record = &w->records[q];
    float *scores = w->scores + q * rows->count, *state = w->state + q * stride;
    float *moved = w->moved + q * stride, before = norm_of(vectors, d, state);
    record->score = kernels->score(w->unit ? rows->norms : NULL, rows->count, scores);
    float largest = find_best(rows, w, scores, record);
    sum_blocks(rows, w, vectors, q);
    memset(moved, 0, stride * sizeof *moved);
    kernels->settle(d, w->sums + q * blocks * stride, w->totals[q * blocks], known_of(w, q),
                    w->cues + q * stride, state, moved);
    record->rounds++;
    record->still = norm_of(vectors, d, moved) < COMPLETE_STILL;
    record->energy = complete_energy(before, largest, record->score, w->totals[q * blocks],
                                     rows->count, w->beta);
    struct row_block best = {rows->rows + record->row * stride, rows->norms + record->row, 1};
    vectors->scan(METRIC_COSINE, d, state, norm_of(vectors, d, state), best, &record->cosine);
    record->done = record->still || record->rounds >= w->rounds;
}

void sim_complete_run(const struct device_call *call, const struct vector_kernels *kernels)
{
    const struct cuda_completion *w = &call->complete;
    for (uint64_t q = 0; q < w->states; q++) {
        if (w->begin)
            begin_state(w, call->rows.dimension, q);
        else if (!w->records[q].done)
            run_state(&call->rows, w, kernels, q);
    }
}
