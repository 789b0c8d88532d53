/* complete_scene: rows and cues of a completion, and what the CPU makes of them round by round.
 * Owner:  included by gpu_complete.c; everything is static inline.
 * Thread: one.
 * Errors: a failed allocation ends the program. */
#ifndef ENGRAM_TESTS_GPU_COMPLETE_SCENE_H
#define ENGRAM_TESTS_GPU_COMPLETE_SCENE_H

#include "kernels/complete.h"
#include "kernels/superpose.h"
#include "tests/kernels/samples.h"

#include <pthread.h>
#include <unistd.h>

struct complete_scene {
    uint32_t d, rounds;
    size_t stride, rows, states, blocks, known_step;
    bool unit;
    float beta;
    float *row, *norm, *cues;
    uint64_t *ids;
    uint8_t *known; /* NULL: no mask */
    float *state;
    struct complete_record *records;
};

/* What a round of one state needs. */
struct complete_room {
    float *moved, *scores, *sums;
    double *totals;
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

static inline struct complete_room room_take(const struct complete_scene *s)
{
    return (struct complete_room){.moved = samples_allocate(s->stride),
                                  .scores = samples_allocate(s->rows),
                                  .sums = samples_allocate(s->blocks * s->stride),
                                  .totals = zeroed(s->blocks, sizeof(double))};
}

static inline void room_give(struct complete_room *r)
{
    samples_free(r->moved), samples_free(r->scores), samples_free(r->sums);
    free(r->totals);
}

/* The states as they begin. */
static inline void scene_begin(struct complete_scene *s)
{
    s->state = samples_allocate(s->states * s->stride);
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
    free(s->ids), free(s->known), free(s->records);
}

static inline float norm_of(const struct complete_scene *s, const float *row)
{
    float norm;
    vectors_choose("auto")->norms(s->d, row, 1, &norm);
    return norm;
}

static inline float find_best(const struct complete_scene *s, const float *scores,
                              struct complete_record *record)
{
    float largest = 0.0f;
    record->id = UINT64_MAX;
    for (size_t i = 0; i < s->rows; i++) {
        float norm = s->unit ? (s->norm[i] == 0.0f ? 0.0f : 1.0f) : s->norm[i];
        largest = norm > largest ? norm : largest;
        if (scores[i] != record->score || s->ids[i] > record->id) continue;
        record->id = s->ids[i];
        record->row = (uint32_t)i;
    }
    return largest;
}

/* A round of one state, by the CPU's tables. */
static inline void expect_round(struct complete_scene *s, size_t q, struct complete_room *r)
{
    const struct vector_kernels *vectors = vectors_choose("auto");
    const struct complete_kernels *k = complete_choose("auto");
    struct complete_record *record = &s->records[q];
    float *state = s->state + q * s->stride, before = norm_of(s, state);
    const float *norms = s->unit ? s->norm : NULL;
    struct row_block all = {s->row, s->norm, s->rows};
    vectors->scan(METRIC_DOT, s->d, state, 0.0f, all, r->scores);
    record->score = k->score(norms, s->rows, r->scores);
    float largest = find_best(s, r->scores, record);
    memset(r->sums, 0, s->blocks * s->stride * sizeof *r->sums);
    for (size_t b = 0; b < s->blocks; b++) {
        size_t first = b * COMPLETE_BLOCK, left = s->rows - first;
        size_t count = left < COMPLETE_BLOCK ? left : COMPLETE_BLOCK;
        struct complete_shares shares = {r->scores + first, s->rows, 1};
        r->totals[b] = k->weigh(norms ? norms + first : NULL, count, record->score, s->beta,
                                r->scores + first);
        k->add(s->d, s->row + first * s->stride, count, &shares, r->sums + b * s->stride,
               s->stride);
    }
    superpose_choose("auto")->fold(s->d, r->sums, s->blocks);
    complete_fold_totals(r->totals, s->blocks);
    memset(r->moved, 0, s->stride * sizeof *r->moved);
    k->settle(s->d, r->sums, r->totals[0], s->known ? s->known + q * s->known_step : NULL,
              s->cues + q * s->stride, state, r->moved);
    record->rounds++;
    record->still = norm_of(s, r->moved) < COMPLETE_STILL;
    record->energy =
        complete_energy(before, largest, record->score, r->totals[0], s->rows, s->beta);
    struct row_block best = {s->row + record->row * s->stride, s->norm + record->row, 1};
    vectors->scan(METRIC_COSINE, s->d, state, norm_of(s, state), best, &record->cosine);
    record->done = record->still || record->rounds >= s->rounds;
}

/* The same for all states that go on, by as many threads as there are processors. */
struct complete_share_out {
    struct complete_scene *scene;
    size_t first, step;
};

static inline void *expect_some(void *user)
{
    const struct complete_share_out *o = user;
    struct complete_room room = room_take(o->scene);
    for (size_t q = o->first; q < o->scene->states; q += o->step)
        if (!o->scene->records[q].done) expect_round(o->scene, q, &room);
    room_give(&room);
    return NULL;
}

static inline void expect_rounds(struct complete_scene *s)
{
    enum { THREADS_MAX = 32 };
    pthread_t threads[THREADS_MAX];
    struct complete_share_out out[THREADS_MAX];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = processors < 1 ? 1 : processors > THREADS_MAX ? THREADS_MAX : (size_t)processors;
    if (count > s->states) count = s->states;
    for (size_t i = 0; i < count; i++) {
        out[i] = (struct complete_share_out){s, i, count};
        if (i + 1 < count && pthread_create(&threads[i], NULL, expect_some, &out[i])) abort();
    }
    expect_some(&out[count - 1]);
    for (size_t i = 0; i + 1 < count; i++)
        pthread_join(threads[i], NULL);
}

#endif
