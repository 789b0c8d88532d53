/* gpu_covariance [--small | --tiny] [--bench] [SEED]: means and covariances on the GPU, bit for bit
 * what kernels/covariance.h says, element by element (tests/kernels/covariance_reference.h): rows
 * in order and by positions, with weights and without, all lengths of blocks and runs of blocks.
 * Prints how many numbers were compared and how many differ; exit 1 unless none does. --small,
 * --tiny: for compute-sanitizer. --bench: 100,000 and 1,000,000 rows of 768 numbers on the card, of
 * which some elements are compared, and times by events. */
#include "kernels/cuda/covariance_cuda.h"
#include "kernels/cuda/rows_cuda.h"
#include "tests/gpu/device.h"
#include "tests/kernels/covariance_reference.h"
#include "tests/kernels/samples.h"

enum { SHOWN = 5 };

static uint64_t compared, differing;

/* Memory of one covariance on the device. */
struct device_covariance {
    struct cuda_rows rows;
    struct cuda_covariance work;
    uint64_t run; /* blocks that are added at once */
};

static uint64_t parts_of(const struct device_covariance *c)
{
    return (covariance_blocks(c->work.count) + c->run - 1) / c->run;
}

/* tiles: in one range. */
static void take_memory(struct device_covariance *c, uint64_t tiles)
{
    const uint64_t stride = vector_stride(c->rows.dimension), d = c->rows.dimension;
    const uint64_t node = CUDA_COVARIANCE_TILE_NUMBERS * sizeof(double);
    struct cuda_covariance *w = &c->work;
    w->sums = device_allocate(covariance_blocks(w->count) * stride * sizeof(double));
    w->mean = device_allocate(stride * sizeof(double));
    w->nodes = device_allocate(c->run * tiles * node);
    w->part = device_allocate(parts_of(c) * tiles * node);
    w->covariance = device_allocate(d * d * sizeof(double));
}

static void give_memory(const struct device_covariance *c)
{
    cudaFree(c->work.sums), cudaFree(c->work.mean), cudaFree(c->work.nodes);
    cudaFree(c->work.part), cudaFree(c->work.covariance);
}

/* All stages, tiles in ranges of so many. */
static void compute(const struct device_covariance *c, uint64_t tiles)
{
    struct cuda_covariance w = c->work;
    const uint64_t all = cuda_covariance_tiles(c->rows.dimension);
    const uint64_t blocks = covariance_blocks(w.count);
    w.stage = CUDA_COVARIANCE_SUM;
    DEVICE(cuda_covariance(&c->rows, &w, NULL));
    w.stage = CUDA_COVARIANCE_MEAN;
    DEVICE(cuda_covariance(&c->rows, &w, NULL));
    w.parts = parts_of(c);
    for (w.first_tile = 0; w.first_tile < all; w.first_tile += w.tiles) {
        w.tiles = all - w.first_tile < tiles ? all - w.first_tile : tiles;
        w.stage = CUDA_COVARIANCE_ADD;
        w.part = c->work.part;
        for (w.first_block = 0; w.first_block < blocks; w.first_block += c->run) {
            w.blocks = blocks - w.first_block < c->run ? blocks - w.first_block : c->run;
            DEVICE(cuda_covariance(&c->rows, &w, NULL));
            w.part += w.tiles * CUDA_COVARIANCE_TILE_NUMBERS;
        }
        w.part = c->work.part;
        w.stage = CUDA_COVARIANCE_WRITE;
        DEVICE(cuda_covariance(&c->rows, &w, NULL));
    }
}

static void compare(const char *what, const double *got, const double *wanted, size_t count,
                    uint64_t name)
{
    compared += count;
    for (size_t i = 0; i < count; i++) {
        if (memcmp(&got[i], &wanted[i], sizeof *got) == 0) continue;
        if (differing++ < SHOWN)
            printf("DIFFERS %llu: %s %zu: %.17g, wanted %.17g\n", (unsigned long long)name, what, i,
                   got[i], wanted[i]);
    }
}

/* The rows that positions name lie in `scattered`; they come next to each other in r. */
static void check(const struct covariance_input *r, const float *scattered, size_t scattered_count,
                  const uint32_t *positions, uint64_t run, uint64_t tiles, uint64_t name)
{
    const size_t d = r->dimension, bytes = r->stride * sizeof(float);
    struct covariance_expected e = covariance_expect(r);
    struct device_covariance c = {
        .rows = {.dimension = r->dimension,
                 .rows = device_copy_of(scattered, scattered_count * bytes),
                 .count = scattered_count},
        .work = {.count = r->count,
                 .positions =
                     positions ? device_copy_of(positions, r->count * sizeof *positions) : NULL,
                 .weights =
                     r->weights ? device_copy_of(r->weights, r->count * sizeof(float)) : NULL,
                 .total = e.total,
                 .divisor = e.divisor},
        .run = run};
    double *got = malloc((d + 1) * d * sizeof *got);
    if (!got) abort();
    take_memory(&c, tiles);
    compute(&c, tiles);
    DEVICE(cudaDeviceSynchronize());
    device_read(got, c.work.mean, d * sizeof *got);
    compare("mean", got, e.mean, d, name);
    device_read(got, c.work.covariance, d * d * sizeof *got);
    compare("element", got, e.covariance, d * d, name);
    give_memory(&c);
    cudaFree((void *)c.rows.rows), cudaFree((void *)c.work.positions);
    cudaFree((void *)c.work.weights);
    covariance_expected_destroy(&e);
    free(got);
}

static void check_case(uint32_t dimension, size_t count, uint64_t seed)
{
    const size_t stride = vector_stride(dimension), most = count + 7;
    float *scattered = samples_create(dimension, most, SAMPLE_UNIFORM, seed);
    float *rows = samples_allocate(count * stride), *weights = samples_allocate(count);
    uint32_t *positions = malloc(count * sizeof *positions);
    if (!positions) abort();
    for (size_t i = 0; i < count; i++) {
        positions[i] = (uint32_t)(sample_random(&seed) % most);
        memcpy(rows + i * stride, scattered + positions[i] * stride, stride * sizeof *rows);
        weights[i] = i % 5 == 1 ? 0.0f : fabsf(sample_uniform(&seed)) + 0.01f;
    }
    const uint64_t tiles = 1 + seed % cuda_covariance_tiles(dimension);
    struct covariance_input r = {
        .rows = scattered, .stride = stride, .count = count, .dimension = dimension};
    check(&r, scattered, most, NULL, 1, cuda_covariance_tiles(dimension), seed);
    check(&r, scattered, most, NULL, CUDA_COVARIANCE_BLOCKS_MAX, tiles, seed);
    r.weights = weights;
    check(&r, scattered, most, NULL, 2, tiles, seed);
    r.rows = rows;
    check(&r, scattered, most, positions, 4, tiles, seed);
    r.weights = NULL;
    check(&r, scattered, most, positions, 8, cuda_covariance_tiles(dimension), seed);
    samples_free(scattered), samples_free(rows), samples_free(weights);
    free(positions);
}

/* ---- times ---- */

static double seconds_of(const struct device_covariance *c, uint64_t tiles, int runs)
{
    cudaEvent_t begin, end;
    float best = 0.0f;
    DEVICE(cudaEventCreate(&begin));
    DEVICE(cudaEventCreate(&end));
    for (int i = 0; i <= runs; i++) { /* the first one warms up */
        float ms = 0.0f;
        DEVICE(cudaEventRecord(begin, NULL));
        compute(c, tiles);
        DEVICE(cudaEventRecord(end, NULL));
        DEVICE(cudaEventSynchronize(end));
        DEVICE(cudaEventElapsedTime(&ms, begin, end));
        if (i == 1 || (i && ms < best)) best = ms;
    }
    cudaEventDestroy(begin), cudaEventDestroy(end);
    return best / 1e3;
}

/* Some elements against the reference. */
static void check_some(const struct device_covariance *c, uint64_t seed)
{
    enum { SOME = 40 };
    const size_t d = c->rows.dimension, stride = vector_stride(c->rows.dimension);
    const size_t bytes = c->work.count * stride * sizeof(float);
    float *rows = malloc(bytes);
    double *mean = malloc(d * sizeof *mean), *got = malloc(d * d * sizeof *got);
    if (!rows || !mean || !got) abort();
    device_read(rows, c->rows.rows, bytes);
    device_read(mean, c->work.mean, d * sizeof *mean);
    device_read(got, c->work.covariance, d * d * sizeof *got);
    const struct covariance_input r = {
        .rows = rows, .stride = stride, .count = c->work.count, .dimension = (uint32_t)d};
    for (int k = 0; k < SOME; k++) {
        size_t i = sample_random(&seed) % d, j = i + sample_random(&seed) % (d - i);
        struct covariance_factors f = {.rows = &r, .i = i};
        double wanted = covariance_expected_sum(&f) / c->work.total;
        compare("mean", &mean[i], &wanted, 1, i);
        f.mean = mean, f.j = j;
        wanted = covariance_expected_sum(&f) / c->work.divisor;
        compare("element", &got[i * d + j], &wanted, 1, i * d + j);
        compare("mirrored", &got[j * d + i], &wanted, 1, i * d + j);
    }
    free(rows), free(mean), free(got);
}

static void bench(uint64_t count, uint32_t dimension)
{
    const uint64_t tiles = cuda_covariance_tiles(dimension), d = dimension;
    float *rows = device_allocate(count * vector_stride(dimension) * sizeof(float));
    struct device_covariance c = {
        .rows = {.dimension = dimension, .rows = rows, .count = count},
        .work = {.count = count, .total = (double)count, .divisor = (double)count - 1.0},
        .run = CUDA_COVARIANCE_BLOCKS_MAX};
    DEVICE(cuda_random(7, dimension, 0, count, rows, NULL));
    take_memory(&c, tiles);
    const double seconds = seconds_of(&c, tiles, 5);
    const double flops = (double)count * (double)d * (double)(d + 1);
    printf("covariance: %llu x %u: %.3f ms, %.1f TFLOP/s of the half\n", (unsigned long long)count,
           dimension, 1e3 * seconds, flops / seconds / 1e12);
    fflush(stdout);
    check_some(&c, count);
    give_memory(&c);
    cudaFree(rows);
}

int main(int argc, char **argv)
{
    static const struct {
        uint32_t dimension;
        size_t count;
    } cases[] = {{1, 2},      {3, 17},     {31, 15},   {32, 16},   {33, 4096}, {63, 4097},
                 {64, 1000},  {65, 8193},  {100, 300}, {128, 129}, {200, 77},  {5, 140000},
                 {32, 20481}, {129, 4100}, {768, 33},  {1025, 9}};
    bool small = false, benches = false;
    uint64_t seed = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--small") == 0 || strcmp(argv[i], "--tiny") == 0)
            small = true;
        else if (strcmp(argv[i], "--bench") == 0)
            benches = true;
        else
            seed = strtoull(argv[i], NULL, 0);
    }
    device_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!small || cases[i].count * cases[i].dimension < 50000)
            check_case(cases[i].dimension, cases[i].count, seed + i);
    if (benches) {
        bench(100000, 768);
        bench(1000000, 768);
    }
    printf("covariance: %llu numbers, %llu differ: %s\n", (unsigned long long)compared,
           (unsigned long long)differing, differing ? "FAIL" : "ok");
    return differing != 0;
}
