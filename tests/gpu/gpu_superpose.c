/* gpu_superpose: how long sums of lists of rows take on the card, as a part of the rate at which
 * the same rows are read for their norms and nothing else, in the same run.
 *
 *     gpu_superpose [ROWS]
 *
 * ROWS: 1,000,000, of 1,024 numbers. Bits are gpu_bits_rows' to test. */
#include "kernels/cuda/rows_cuda.h"
#include "kernels/superpose.h"
#include "tests/gpu/device.h"

enum { DIMENSION = 1024, TEN = 10 };

struct scene {
    struct cuda_rows rows;
    float *norms;
    struct cuda_superpose sums;
};

static void enqueue_norms(void *scene)
{
    const struct scene *s = scene;
    DEVICE(cuda_norms(&s->rows, s->norms, NULL));
}

static void enqueue_sums(void *scene)
{
    const struct scene *s = scene;
    DEVICE(cuda_superpose(&s->rows, &s->sums, NULL));
}

static void say(const char *what, struct scene *s, double read_ms)
{
    double ms = device_median_ms(enqueue_sums, s);
    double bytes = (double)s->rows.count * DIMENSION * sizeof(float);
    printf("%-34s %8.3f ms, %5.2f TB/s read, %4.2f of the rate of reading\n", what, ms,
           bytes / ms / 1e9, read_ms / ms);
}

/* Offsets 0, step, 2 step ... and the end. */
static uint64_t *offsets_of(uint64_t count, uint64_t step, uint64_t *pieces)
{
    *pieces = (count + step - 1) / step;
    uint64_t *offsets = malloc((*pieces + 1) * sizeof *offsets);
    for (uint64_t i = 0; i <= *pieces; i++)
        offsets[i] = i * step < count ? i * step : count;
    uint64_t *device = device_copy_of(offsets, (*pieces + 1) * sizeof *offsets);
    free(offsets);
    return device;
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    device_open();
    float *rows = device_allocate(count * DIMENSION * sizeof(float));
    DEVICE(cuda_random(1, DIMENSION, 0, count, rows, NULL));
    struct scene s = {.rows = {.dimension = DIMENSION, .rows = rows, .count = count},
                      .norms = device_allocate(count * sizeof(float))};
    double read_ms = device_median_ms(enqueue_norms, &s);
    printf("norms of %llu rows: %.3f ms, %.2f TB/s\n", (unsigned long long)count, read_ms,
           (double)count * DIMENSION * sizeof(float) / read_ms / 1e9);

    uint64_t lists = 0;
    uint64_t *offsets = offsets_of(count, TEN, &lists);
    s.sums = (struct cuda_superpose){.offsets = offsets, .pieces = lists, .lists = lists};
    s.sums.sums = device_allocate(lists * DIMENSION * sizeof(float));
    s.sums.norms = device_allocate(lists * sizeof(float));
    say("lists of 10", &s, read_ms);
    s.sums.unit = true;
    say("lists of 10, divided by their norms", &s, read_ms);

    uint64_t pieces = 0;
    s.sums.offsets = offsets_of(count, SUPERPOSE_BLOCK, &pieces);
    const uint64_t firsts[] = {0, pieces};
    s.sums.firsts = device_copy_of(firsts, sizeof firsts);
    s.sums.pieces = s.sums.most = pieces;
    s.sums.lists = 1;
    s.sums.nodes = device_allocate(pieces * DIMENSION * sizeof(float));
    s.sums.unit = false;
    say("one list of all", &s, read_ms);
    return 0;
}
