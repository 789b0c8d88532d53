/* complete_scene: rows and cues of a completion, and what the CPU makes of them round by round.
 * Owner:  included by gpu_complete.c; everything is static inline.
 * Thread: one.
 * Errors: a failed allocation ends the program. */
#ifndef ENGRAM_TESTS_GPU_COMPLETE_SCENE_H
#define ENGRAM_TESTS_GPU_COMPLETE_SCENE_H

#include "kernels/superpose.h"
#include "kernels/complete.h"
#include "tests/kernels/samples.h"

struct complete_scene {
    uint32_t d, rounds;
    size_t stride, rows, states, blocks, known_step;
    bool unit;
    float beta;
    float *row, *norm, *cues;
    uint64_t *ids;
    uint8_t *known; /* NULL: no mask */
    float *state, *moved, *scores, *sums;
    double *totals;
    struct complete_record *records;
};

static inline void *zeroed(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p) abort();
    return p;
}

/* Rows of about one length, so that many have a share, or of every hard kind; some are the same,
 * some are zero vectors. */
static inline void make_rows(struct complete_scene *s, bool hard, uint64_t seed)
{
    uint64_t random = seed;
    s->row = samples_create(s->d, s->rows, hard ? seed % SAMPLES : SAMPLE_UNIFORM, seed);
    for (size_t i = 0; i < s->rows; i++) {
        float *row = s->row + i * s->stride;
        uint64_t what = sample_random(&random) % 100;
        for (uint32_t c = 0; !hard && c < s->d; c++)
            row[c] = sample_uniform(&random) / sqrtf((float)s->d);
        if (what < 3 && i > 0)
            memcpy(row, row - sample_random(&random) % i * s->stride - s->stride,
                   s->stride * sizeof *row);
        if (what == 99) memset(row, 0, s->stride * sizeof *row);
    }
    s->norm = samples_allocate(s->rows);
    vectors_choose("auto")->norms(s->d, s->row, s->rows, s->norm);
    s->ids = zeroed(s->rows, sizeof *s->ids);
    for (size_t i = 0; i < s->rows; i++) /* in no order; the factor is odd: each id once */
        s->ids[i] = (i + seed) * 0x9e3779b97f4a7c15u;
}

/* Where a mask says that a number is unknown, the cue's is anything. */
static inline void make_cues(struct complete_scene *s, int masks, uint64_t seed)
{
    uint64_t random = seed ^ 0xc0e5;
    s->cues = samples_allocate(s->states * s->stride);
    memset(s->cues, 0, s->states * s->stride * sizeof *s->cues);
    s->known = masks ? zeroed(s->states * s->d, 1) : NULL;
    s->known_step = masks == 2 ? s->d : 0;
    for (size_t q = 0; q < s->states; q++) {
        const float *row = s->row + sample_random(&random) % s->rows * s->stride;
        for (uint32_t c = 0; c < s->d; c++) {
            float noise = sample_uniform(&random) / sqrtf((float)s->d);
            s->cues[q * s->stride + c] = (q & 1 ? 0.0f : row[c]) + noise / 2;
            if (!s->known || (q && !s->known_step)) continue;
            s->known[q * s->known_step + c] = sample_random(&random) % 3 == 0;
        }
        const uint8_t *known = s->known ? s->known + q * s->known_step : NULL;
        for (uint32_t c = 0; known && c < s->d; c++)
            if (!known[c]) s->cues[q * s->stride + c] = q & 1 ? NAN : -INFINITY;
    }
}

static inline void scene_take(struct complete_scene *s)
{
    s->state = samples_allocate(s->states * s->stride);
    s->moved = samples_allocate(s->stride);
    s->scores = samples_allocate(s->rows);
    s->sums = samples_allocate(s->blocks * s->stride);
    s->totals = zeroed(s->blocks, sizeof *s->totals);
    s->records = zeroed(s->states, sizeof *s->records);
    memset(s->state, 0, s->states * s->stride * sizeof *s->state);
    for (size_t q = 0; q < s->states; q++) {
        const uint8_t *known = s->known ? s->known + q * s->known_step : NULL;
        for (uint32_t c = 0; c < s->d; c++)
            if (!known || known[c]) s->state[q * s->stride + c] = s->cues[q * s->stride + c];
    }
}

static inline void scene_finish(struct complete_scene *s)
{
    samples_free(s->row), samples_free(s->norm), samples_free(s->cues), samples_free(s->state);
    samples_free(s->moved), samples_free(s->scores), samples_free(s->sums);
    free(s->ids), free(s->known), free(s->totals), free(s->records);
}

static inline float norm_of(const struct complete_scene *s, const float *row)
{
    float norm;
    vectors_choose("auto")->norms(s->d, row, 1, &norm);
    return norm;
}

static inline float find_best(const struct complete_scene *s, struct complete_record *record)
{
    float largest = 0.0f;
    record->id = UINT64_MAX;
    for (size_t i = 0; i < s->rows; i++) {
        float norm = s->unit ? (s->norm[i] == 0.0f ? 0.0f : 1.0f) : s->norm[i];
        largest = norm > largest ? norm : largest;
        if (s->scores[i] != record->score || s->ids[i] > record->id) continue;
        record->id = s->ids[i];
        record->row = (uint32_t)i;
    }
    return largest;
}

/* A round of one state, by the CPU's tables. */
static inline void expect_round(struct complete_scene *s, size_t q)
{
    const struct vector_kernels *vectors = vectors_choose("auto");
    const struct complete_kernels *k = complete_choose("auto");
    struct complete_record *record = &s->records[q];
    float *state = s->state + q * s->stride, before = norm_of(s, state);
    const float *norms = s->unit ? s->norm : NULL;
    struct row_block all = {s->row, s->norm, s->rows};
    vectors->scan(METRIC_DOT, s->d, state, 0.0f, all, s->scores);
    record->score = k->score(norms, s->rows, s->scores);
    float largest = find_best(s, record);
    memset(s->sums, 0, s->blocks * s->stride * sizeof *s->sums);
    for (size_t b = 0; b < s->blocks; b++) {
        size_t first = b * COMPLETE_BLOCK, left = s->rows - first;
        size_t count = left < COMPLETE_BLOCK ? left : COMPLETE_BLOCK;
        struct complete_shares shares = {s->scores + first, s->rows, 1};
        s->totals[b] = k->weigh(norms ? norms + first : NULL, count, record->score, s->beta,
                                s->scores + first);
        k->add(s->d, s->row + first * s->stride, count, &shares, s->sums + b * s->stride,
               s->stride);
    }
    superpose_choose("auto")->fold(s->d, s->sums, s->blocks);
    complete_fold_totals(s->totals, s->blocks);
    memset(s->moved, 0, s->stride * sizeof *s->moved);
    k->settle(s->d, s->sums, s->totals[0], s->known ? s->known + q * s->known_step : NULL,
              s->cues + q * s->stride, state, s->moved);
    record->rounds++;
    record->still = norm_of(s, s->moved) < COMPLETE_STILL;
    record->energy =
        complete_energy(before, largest, record->score, s->totals[0], s->rows, s->beta);
    struct row_block best = {s->row + record->row * s->stride, s->norm + record->row, 1};
    vectors->scan(METRIC_COSINE, s->d, state, norm_of(s, state), best, &record->cosine);
    record->done = record->still || record->rounds >= s->rounds;
}

#endif
