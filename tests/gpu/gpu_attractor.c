/* gpu_attractor: completion by an attractor on the card. First its bits against the CPU's fastest
 * variant: dimensions up to the largest, cues that are hard to tell apart, weights that tie, masks;
 * then how long its steps take.
 *
 *     gpu_attractor [--numbers N] [--bench] [--small|--tiny]
 *
 * --numbers: compare at least N numbers of settled states (2,000,000). --bench: the table of
 * times. --small: for compute-sanitizer; --tiny: for its racecheck. */
#include "kernels/attractor.h"
#include "kernels/canonical.h"
#include "kernels/cuda/attractor_cuda.h"
#include "tests/gpu/device.h"
#include "tests/gpu/share_out.h"

#include <math.h>

enum { CUES_MAX = 4000, STORED = 20000 };

static const uint32_t dimensions[] = {1,    2,    3,    4,    5,    7,    10,   19,   20,   31,
                                      32,   33,   40,   63,   64,   100,  127,  128,  129,  200,
                                      255,  256,  257,  384,  500,  512,  640,  767,  768,  769,
                                      1000, 1023, 1024, 1025, 1056, 1300, 1536, 2000, 2047, 2048};
enum { DIMENSIONS = sizeof dimensions / sizeof *dimensions };

static uint64_t compared, differ;
static const struct vector_kernels *vectors;
static const struct attractor_kernels *kernels;

static void *memory_of(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 1) != 0) abort();
    memset(p, 0, bytes);
    return p;
}

static float uniform(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(*seed >> 32) * 0x1p-31f;
}

/* ---------------------------------------------------------------- what is completed */

struct scene {
    uint32_t d, kept, cues;
    size_t stride;
    float *matrix; /* W's columns, then the dentate matrix */
    float *cue, *state, *norm, *sum, *settled, *settled_norm;
    uint8_t *mask;
    struct cuda_attractor_end *end;
    float *device_matrix, *device_sums;
    struct cuda_attractor work;
};

enum weights { AT_FIRST, LEARNED, ALL_ZERO, ALIKE, FAR, WEIGHTS };

static void fill_weights(struct scene *s, enum weights kind, uint64_t seed)
{
    kernels->weights(s->d, 0, s->d, s->matrix);
    for (uint32_t j = 0; j < s->d && kind != AT_FIRST; j++)
        for (uint32_t i = 0; i < s->d; i++) {
            float *w = &s->matrix[j * s->stride + i];
            float x = uniform(&seed);
            *w = kind == LEARNED    ? *w + 0.5f * x
                 : kind == ALL_ZERO ? (i % 2 ? 0.0f : -0.0f)
                 : kind == ALIKE    ? (i % 3 ? 0.25f : -0.5f)
                                    : (x > 0 ? x : 0x1p+40f * x);
        }
}

enum cue { RANDOM, SMALL_WHOLE, ZEROS, FEW, TINY, HUGE_ONES, BAD, CUES };

/* Tiny numbers are rare: some processors take a hundred times as long for each. */
static enum cue cue_of(size_t q)
{
    enum cue kind = (enum cue)(q % CUES);
    return kind == TINY && q / CUES % 40 ? RANDOM : kind;
}

static float cue_number(enum cue kind, uint32_t i, uint64_t *seed)
{
    float x = uniform(seed);
    switch (kind) {
    case RANDOM: return x;
    case SMALL_WHOLE: return (float)(int)(x * 3.0f);
    case ZEROS: return i % 2 ? 0.0f : -0.0f;
    case FEW: return i % 37 == 0 ? x : 0.0f;
    case TINY: return x * 0x1p-140f;
    case HUGE_ONES: return x * 0x1p+58f;
    case BAD: return i % 5 == 0 ? INFINITY : x;
    case CUES: break;
    }
    return x;
}

static void make_dentate(void *owner, uint32_t first, uint32_t end)
{
    const struct scene *s = owner;
    kernels->dentate(s->d, first, end - first, s->matrix + (s->d + first) * s->stride);
}

static struct scene scene_create(uint32_t d, uint32_t fit)
{
    struct scene s = {.d = d,
                      .kept = attractor_kept(d, 0.05f),
                      .cues = fit < CUES_MAX ? fit : CUES_MAX,
                      .stride = vector_stride(d)};
    size_t rows = (size_t)(ATTRACTOR_SPREAD + 1) * d, n = s.cues;
    size_t sums = (size_t)ATTRACTOR_SPREAD * d;
    s.matrix = memory_of(rows * s.stride * sizeof(float));
    share_out(make_dentate, &s, (uint32_t)sums);
    s.cue = memory_of(n * d * sizeof(float));
    s.mask = memory_of(n * d);
    s.state = memory_of(n * s.stride * sizeof(float));
    s.settled = memory_of(n * d * sizeof(float));
    s.norm = memory_of(n * sizeof(float)), s.settled_norm = memory_of(n * sizeof(float));
    s.sum = memory_of(n * sums * sizeof(float));
    s.end = memory_of(n * sizeof *s.end);
    s.device_matrix = device_allocate(rows * s.stride * sizeof(float));
    s.device_sums = device_allocate(n * sums * sizeof(float));
    s.work = (struct cuda_attractor){.kept = s.kept,
                                     .cues = device_allocate(n * d * sizeof(float)),
                                     .known = device_allocate(n * d),
                                     .states = device_allocate(n * s.stride * sizeof(float)),
                                     .norms = device_allocate(n * sizeof(float)),
                                     .sums = s.device_sums,
                                     .settled = device_allocate(n * d * sizeof(float)),
                                     .ends = device_allocate(n * sizeof *s.end)};
    return s;
}

static void scene_destroy(struct scene *s)
{
    cudaFree(s->device_matrix), cudaFree(s->device_sums), cudaFree((void *)s->work.cues);
    cudaFree((void *)s->work.known), cudaFree(s->work.states), cudaFree(s->work.norms);
    cudaFree(s->work.settled), cudaFree(s->work.ends);
    free(s->matrix), free(s->cue), free(s->mask), free(s->state), free(s->settled);
    free(s->norm), free(s->settled_norm), free(s->sum), free(s->end);
}

static void scene_fill(struct scene *s, enum weights kind, uint64_t seed)
{
    size_t numbers = (size_t)s->cues * s->d;
    fill_weights(s, kind, seed);
    for (size_t i = 0; i < numbers; i++) {
        s->cue[i] = cue_number(cue_of(i / s->d), (uint32_t)(i % s->d), &seed);
        s->mask[i] = i / s->d % 11 != 10 ? uniform(&seed) < 0.1f : i % s->d % 5 == 0;
    }
    DEVICE(cudaMemcpy(s->device_matrix, s->matrix,
                      (size_t)(ATTRACTOR_SPREAD + 1) * s->d * s->stride * sizeof(float),
                      cudaMemcpyHostToDevice));
    DEVICE(
        cudaMemcpy((void *)s->work.cues, s->cue, numbers * sizeof(float), cudaMemcpyHostToDevice));
    DEVICE(cudaMemcpy((void *)s->work.known, s->mask, numbers, cudaMemcpyHostToDevice));
}

/* ---------------------------------------------------------------- by the CPU */

static float norm_of(const struct scene *s, const float *row)
{
    float norm;
    vectors->norms(s->d, row, 1, &norm);
    return canonical_is_finite(norm) ? norm : INFINITY;
}

static void expect_masked(struct scene *s, uint32_t q, const uint8_t *known)
{
    uint32_t d = s->d, count = 0;
    float *state = s->state + q * s->stride;
    memset(state, 0, s->stride * sizeof *state);
    for (uint32_t i = 0; i < d; i++)
        if (!known || known[i]) state[i] = s->cue[(size_t)q * d + i], count++;
    float norm = norm_of(s, state);
    bool bad = count < attractor_known_least(d) || norm == INFINITY;
    if (bad) memset(state, 0, s->stride * sizeof *state);
    s->norm[q] = bad ? 0.0f : norm;
    s->end[q].refused = bad;
}

/* Of some masked cues at once, which share the reading of the dentate matrix. */
static void expect_sums(struct scene *s, uint32_t first, uint32_t count)
{
    size_t rows = (size_t)ATTRACTOR_SPREAD * s->d;
    void *packed = memory_of(vectors->pack_bytes(s->d, count));
    vectors->pack(s->d, s->state + first * s->stride, count, packed);
    struct query_pack pack = {packed, s->norm + first, count};
    struct row_block dentate = {.rows = s->matrix + s->d * s->stride, .count = rows};
    vectors->tile(METRIC_DOT, s->d, &pack, dentate, s->sum + first * rows, rows);
    free(packed);
}

static void expect_settled(struct scene *s, uint32_t q, void *scratch)
{
    uint32_t d = s->d;
    size_t rows = (size_t)ATTRACTOR_SPREAD * d;
    float *settled = (float *)scratch + attractor_settle_bytes(d) / sizeof(float);
    float *sums = settled + s->stride;
    memcpy(sums, s->sum + q * rows, rows * sizeof *sums);
    attractor_separate(d, sums, (uint32_t *)(void *)(sums + rows), settled);
    struct attractor_outcome o =
        attractor_settle(kernels, vectors, d, s->kept, s->matrix, scratch, settled);
    s->settled_norm[q] = norm_of(s, settled);
    memcpy(s->settled + (size_t)q * d, settled, d * sizeof *settled);
    s->end[q].rounds = o.rounds;
    s->end[q].converged = o.converged;
}

struct expected {
    struct scene *s;
    uint64_t known_step;
    bool masked;
};

static void expect_some(void *owner, uint32_t first, uint32_t end)
{
    enum { AT_ONCE = 64 };
    const struct expected *e = owner;
    struct scene *s = e->s;
    size_t sums = (size_t)ATTRACTOR_SPREAD * s->d;
    void *scratch =
        memory_of(attractor_settle_bytes(s->d) + (2 * sums + s->stride) * sizeof(float) + 256);
    for (uint32_t q = first; q < end; q++)
        expect_masked(s, q, e->masked ? s->mask + q * e->known_step : NULL);
    for (uint32_t q = first; q < end; q += AT_ONCE)
        expect_sums(s, q, end - q < AT_ONCE ? end - q : AT_ONCE);
    for (uint32_t q = first; q < end; q++)
        expect_settled(s, q, scratch);
    free(scratch);
}

static void expect_all(struct scene *s, uint32_t count, uint64_t known_step, bool masked)
{
    struct expected e = {s, known_step, masked};
    share_out(expect_some, &e, count);
}

/* ---------------------------------------------------------------- beside each other */

static void compare(const struct scene *s, const char *what, const void *device, const void *want,
                    size_t count, size_t size)
{
    char *got = memory_of(count * size);
    device_read(got, device, count * size);
    uint64_t wrong = 0, first = 0;
    for (size_t i = 0; i < count; i++) {
        if (memcmp(got + i * size, (const char *)want + i * size, size) == 0) continue;
        if (!wrong++) first = i;
    }
    if (wrong)
        printf("FAIL d = %u, %s: %llu of %llu differ, the first is %llu\n", s->d, what,
               (unsigned long long)wrong, (unsigned long long)count, (unsigned long long)first);
    differ += wrong;
    free(got);
}

static void enqueue(const struct scene *s, const struct cuda_attractor *work)
{
    struct cuda_attractor step = *work;
    struct cuda_rows columns = {s->d, s->device_matrix, NULL, s->d};
    struct cuda_rows dentate = {s->d, s->device_matrix + s->d * s->stride, NULL,
                                (uint64_t)ATTRACTOR_SPREAD * s->d};
    struct cuda_queries queries = {step.states, step.norms, step.count};
    step.step = CUDA_ATTRACTOR_MASK;
    DEVICE(cuda_attractor(&columns, &step, NULL));
    if (step.count == 1)
        DEVICE(cuda_scan(METRIC_DOT, &queries, &dentate, s->device_sums, NULL));
    else
        DEVICE(cuda_tile(METRIC_DOT, &queries, &dentate, s->device_sums, dentate.count, NULL));
}

static void settle(const struct scene *s, const struct cuda_attractor *work)
{
    struct cuda_attractor step = *work;
    struct cuda_rows columns = {s->d, s->device_matrix, NULL, s->d};
    step.step = CUDA_ATTRACTOR_SETTLE;
    DEVICE(cuda_attractor(&columns, &step, NULL));
}

static void check_cues(struct scene *s, uint32_t count, uint64_t known_step, bool masked)
{
    struct cuda_attractor work = s->work;
    work.count = count;
    work.known_step = known_step;
    if (!masked) work.known = NULL;
    expect_all(s, count, known_step, masked);
    enqueue(s, &work);
    DEVICE(cudaDeviceSynchronize());
    size_t numbers = (size_t)count * s->d;
    compare(s, "masked", work.states, s->state, count * s->stride, sizeof(float));
    compare(s, "norms", work.norms, s->norm, count, sizeof(float));
    compare(s, "sums", s->device_sums, s->sum, numbers * ATTRACTOR_SPREAD, sizeof(float));
    settle(s, &work);
    DEVICE(cudaDeviceSynchronize());
    compare(s, "settled", work.settled, s->settled, numbers, sizeof(float));
    compare(s, "norms, settled", work.norms, s->settled_norm, count, sizeof(float));
    compare(s, "ends", work.ends, s->end, count, sizeof *s->end);
    compared += numbers;
}

/* Of a line of marks, as the GPU process has it. */
static uint32_t width_of(const struct scene *s, const uint8_t *known)
{
    uint32_t of[VECTOR_LANES] = {0}, most = 1;
    for (uint32_t c = 0; c < s->d; c++)
        if (known[c] && ++of[c % VECTOR_LANES] > most) most = of[c % VECTOR_LANES];
    return most * VECTOR_LANES;
}

/* The same without what the mask, one for all, does not know; sums may have zeros of another
 * sign. */
static void check_gathered(struct scene *s, uint32_t count)
{
    struct cuda_attractor work = s->work;
    work.count = count;
    work.known_step = 0;
    work.width = width_of(s, s->mask);
    size_t rows = (size_t)ATTRACTOR_SPREAD * s->d, numbers = (size_t)count * s->d;
    float *dentate = device_allocate(rows * work.width * sizeof(float));
    work.gathered = device_allocate((size_t)count * work.width * sizeof(float));
    expect_all(s, count, 0, true);
    struct cuda_rows columns = {s->d, s->device_matrix, NULL, s->d};
    struct cuda_attractor step = work;
    step.step = CUDA_ATTRACTOR_MASK;
    DEVICE(cuda_attractor(&columns, &step, NULL));
    step.step = CUDA_ATTRACTOR_GATHER;
    step.gathered = dentate;
    DEVICE(cuda_attractor(&columns, &step, NULL));
    struct cuda_rows gathered = {work.width, dentate, NULL, rows};
    struct cuda_queries queries = {work.gathered, work.norms, count};
    DEVICE(cuda_tile(METRIC_DOT, &queries, &gathered, s->device_sums, rows, NULL));
    settle(s, &work);
    DEVICE(cudaDeviceSynchronize());
    compare(s, "gathered, settled", work.settled, s->settled, numbers, sizeof(float));
    compare(s, "gathered, norms", work.norms, s->settled_norm, count, sizeof(float));
    compare(s, "gathered, ends", work.ends, s->end, count, sizeof *s->end);
    compared += numbers;
    cudaFree(dentate), cudaFree(work.gathered);
}

/* Of a sanitizer the largest dimensions would take minutes. */
static void check_bits(uint64_t numbers, uint32_t at_once)
{
    uint64_t seed = 1;
    do {
        for (size_t i = 0; i < DIMENSIONS && dimensions[i] <= at_once; i++) {
            uint32_t d = dimensions[i], fit = at_once / d + 1;
            /* compensated sums take the CPU eight times as long */
            struct scene s = scene_create(d, canonical_is_compensated(d) ? fit / 8 + 1 : fit);
            for (int kind = 0; kind < WEIGHTS; kind++) {
                uint32_t some = s.cues / 4 ? s.cues / 4 : 1;
                scene_fill(&s, (enum weights)kind, seed++);
                check_cues(&s, kind == LEARNED ? s.cues : some, s.d, true);
                check_cues(&s, 1, 0, kind % 2);
                check_cues(&s, some < 40 ? some : 40, 0, kind % 2);
                if (!canonical_is_compensated(d)) check_gathered(&s, some);
            }
            scene_destroy(&s);
        }
    } while (compared < numbers);
    printf("bits: %llu numbers of settled states compared, %llu differ\n",
           (unsigned long long)compared, (unsigned long long)differ);
}

/* ---------------------------------------------------------------- how long */

struct timed {
    const struct scene *s;
    struct cuda_attractor work;
    struct cuda_rows stored;
    struct cuda_topk topk;
    int step, asked;
};

static void run_step(const struct timed *t)
{
    struct cuda_attractor work = t->work;
    struct cuda_rows columns = {t->s->d, t->s->device_matrix, NULL, t->s->d};
    struct cuda_rows dentate = {t->s->d, t->s->device_matrix + t->s->d * t->s->stride, NULL,
                                (uint64_t)ATTRACTOR_SPREAD * t->s->d};
    struct cuda_queries queries = {work.states, work.norms, work.count};
    work.step = t->step ? CUDA_ATTRACTOR_SETTLE : CUDA_ATTRACTOR_MASK;
    if (t->step == 1) {
        if (work.count == 1)
            DEVICE(cuda_scan(METRIC_DOT, &queries, &dentate, (float *)work.sums, NULL));
        else
            DEVICE(
                cuda_tile(METRIC_DOT, &queries, &dentate, (float *)work.sums, dentate.count, NULL));
    } else if (t->step == 3) {
        DEVICE(cuda_topk(METRIC_COSINE, &queries, &t->stored, &t->topk, NULL));
    } else {
        DEVICE(cuda_attractor(&columns, &work, NULL));
    }
}

/* step 4: all of them, one behind the other. */
static void run_steps(void *what)
{
    struct timed *t = what;
    int first = t->asked == 4 ? 0 : t->asked, last = t->asked == 4 ? 3 : t->asked;
    for (t->step = first; t->step <= last; t->step++)
        run_step(t);
}

static void bench(void)
{
    const uint32_t counts[] = {1, 8, 64, 256, 1000};
    struct scene s = scene_create(768, 1000);
    uint64_t seed = 5;
    scene_fill(&s, LEARNED, seed);
    for (size_t i = 0; i < (size_t)s.cues * s.d; i++) {
        s.cue[i] = uniform(&seed);
        s.mask[i] = i % s.d < 256;
    }
    DEVICE(cudaMemcpy((void *)s.work.cues, s.cue, (size_t)s.cues * s.d * sizeof(float),
                      cudaMemcpyHostToDevice));
    DEVICE(cudaMemcpy((void *)s.work.known, s.mask, (size_t)s.cues * s.d, cudaMemcpyHostToDevice));
    float *random = memory_of((size_t)STORED * s.stride * sizeof(float));
    for (size_t i = 0; i < (size_t)STORED * s.stride; i++)
        random[i] = uniform(&seed);
    float *rows = device_copy_of(random, (size_t)STORED * s.stride * sizeof(float));
    const uint64_t stored = STORED;
    free(random);
    float *norms = device_allocate(stored * sizeof(float));
    struct timed t = {.s = &s, .work = s.work, .stored = {s.d, rows, norms, stored}};
    DEVICE(cuda_norms(&t.stored, norms, NULL));
    t.work.known_step = 0;
    t.topk.k = 1;
    t.topk.scratch_bytes = cuda_topk_scratch_best(s.cues, 1, stored);
    t.topk.scratch = device_allocate(t.topk.scratch_bytes);
    t.topk.out_ids = device_allocate(s.cues * sizeof(uint64_t));
    t.topk.out_scores = device_allocate(s.cues * sizeof(float));
    t.topk.out_counts = device_allocate(s.cues * sizeof(uint32_t));
    printf("d = 768, 256 known, %llu stored rows; microseconds, medians of %d\n%6s %8s %8s %8s "
           "%8s %8s\n",
           (unsigned long long)stored, DEVICE_RUNS, "cues", "mask", "dentate", "settle", "nearest",
           "all");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        t.work.count = counts[i];
        printf("%6llu", (unsigned long long)t.work.count);
        for (t.asked = 0; t.asked < 5; t.asked++)
            printf(" %8.1f", 1000.0 * device_median_ms(run_steps, &t));
        printf("\n");
    }
    cudaFree(rows), cudaFree(norms), cudaFree(t.topk.scratch), cudaFree(t.topk.out_ids);
    cudaFree(t.topk.out_scores), cudaFree(t.topk.out_counts);
    scene_destroy(&s);
}

int main(int argc, char **argv)
{
    uint64_t numbers = 2000000;
    uint32_t at_once = 400000;
    bool timed = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--numbers") == 0 && i + 1 < argc)
            numbers = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--small") == 0)
            numbers = 1, at_once = 1100;
        else if (strcmp(argv[i], "--tiny") == 0)
            numbers = 1, at_once = 130;
        else
            timed |= strcmp(argv[i], "--bench") == 0;
    }
    vectors = vectors_choose("auto");
    kernels = attractor_choose(vectors->name);
    device_open();
    if (numbers) check_bits(numbers, at_once);
    if (timed) bench();
    return differ ? 1 : 0;
}
