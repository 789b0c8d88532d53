/* gpu_bits_rows [--small|--tiny]: the device's functions, random rows, normalized rows and sums of
 * lists against the CPU's, bit for bit. Exit 0: none differ. 77: no device. */
#include "kernels/cuda/rows_cuda.h"
#include "kernels/random.h"
#include "kernels/superpose.h"
#include "tests/gpu/device.h"
#include "tests/kernels/samples.h"

struct tally {
    unsigned long long compared, differing;
};

static struct tally functions_tally, random_tally, sums_tally;

static void compare(struct tally *tally, const char *what, uint32_t dimension,
                    const float *expected, const float *got, size_t count)
{
    unsigned long long before = tally->differing;
    for (size_t i = 0; i < count; i++) {
        if (same_bits(&expected[i], &got[i], 1)) continue;
        if (tally->differing++ < before + 3)
            printf("%s, dimension %u: %zu: %a, not %a\n", what, dimension, i, got[i], expected[i]);
    }
    tally->compared += count;
}

static void check_function(enum cuda_function function, const char *name,
                           void (*reference)(const float *from, size_t count, float *to),
                           uint64_t step)
{
    enum { CHUNK = 1 << 24 };
    float *from = samples_allocate(CHUNK), *expected = samples_allocate(CHUNK);
    float *numbers = device_allocate(CHUNK * sizeof(float));
    for (uint64_t first = 0; first < 1ull << 32; first += CHUNK * step) {
        for (uint64_t i = 0; i < CHUNK; i++)
            from[i] = canonical_from_bits((uint32_t)(first + i * step));
        reference(from, CHUNK, expected);
        DEVICE(cudaMemcpy(numbers, from, CHUNK * sizeof(float), cudaMemcpyHostToDevice));
        DEVICE(cuda_functions(function, numbers, CHUNK, numbers, NULL));
        device_read(from, numbers, CHUNK * sizeof(float));
        compare(&functions_tally, name, 0, expected, from, CHUNK);
    }
    cudaFree(numbers);
    samples_free(from), samples_free(expected);
}

static void check_functions(uint64_t step)
{
    const struct function_kernels *cpu = functions_choose("auto");
    check_function(CUDA_EXPONENTIAL, "e^x", cpu->exponentials, step);
    check_function(CUDA_LOGISTIC, "logistic", cpu->logistics, step);
    check_function(CUDA_LOGARITHM, "logarithm", cpu->logarithms, step);
    check_function(CUDA_SINE, "sine", cpu->sines, step);
    check_function(CUDA_COSINE, "cosine", cpu->cosines, step);
}

static void check_random(uint32_t dimension, uint64_t first, size_t count)
{
    const struct vector_kernels *cpu = vectors_choose("auto");
    size_t floats = count * vector_stride(dimension);
    float *expected = samples_allocate(floats), *got = samples_allocate(floats);
    float *norms = samples_allocate(count), *rows = device_allocate(floats * sizeof(float));
    random_choose("auto")->normal(dimension * 77ull, dimension, first, count, expected);
    DEVICE(cuda_random(dimension * 77ull, dimension, first, count, rows, NULL));
    device_read(got, rows, floats * sizeof(float));
    compare(&random_tally, "random", dimension, expected, got, floats);
    cpu->norms(dimension, expected, count, norms);
    norms[count / 2] = 0.0f;
    cpu->normalize(dimension, expected, norms, count);
    float *device_norms = device_copy_of(norms, count * sizeof(float));
    DEVICE(cuda_normalize(dimension, rows, device_norms, count, NULL));
    device_read(got, rows, floats * sizeof(float));
    compare(&random_tally, "normalize", dimension, expected, got, floats);
    cudaFree(rows), cudaFree(device_norms);
    samples_free(expected), samples_free(got), samples_free(norms);
}

/* Lists of rows of one scene, as the CPU takes them and in pieces of one block. */
struct lists {
    uint32_t dimension;
    size_t stride, rows, count;
    uint64_t *offsets, *pieces, *firsts;
    uint64_t piece_count, most;
    float *data, *weights;
    uint32_t *positions;
    const float **at;
};

static struct lists lists_create(uint32_t dimension, size_t rows, size_t count, uint64_t longest)
{
    uint64_t seed = dimension + count;
    struct lists l = {.dimension = dimension, .stride = vector_stride(dimension), .rows = rows};
    l.count = count;
    l.offsets = calloc(count + 1, sizeof *l.offsets);
    l.firsts = calloc(count + 1, sizeof *l.firsts);
    l.pieces = calloc(count * (longest / SUPERPOSE_BLOCK + 1) + 1, sizeof *l.pieces);
    for (size_t i = 0; i < count; i++) {
        uint64_t length = i == count / 2 ? longest : sample_random(&seed) % (longest + 1);
        l.offsets[i + 1] = l.offsets[i] + length;
        for (uint64_t done = 0; done < length; done += SUPERPOSE_BLOCK) {
            uint64_t left = length - done;
            l.pieces[++l.piece_count] =
                l.offsets[i] + done + (left < SUPERPOSE_BLOCK ? left : SUPERPOSE_BLOCK);
        }
        l.firsts[i + 1] = l.piece_count;
        uint64_t here = l.firsts[i + 1] - l.firsts[i];
        if (here > l.most) l.most = here;
    }
    size_t total = l.offsets[count];
    l.data = samples_create(dimension, rows, 0, seed);
    l.weights = samples_allocate(total);
    l.positions = calloc(total + 1, sizeof *l.positions);
    l.at = calloc(total + 1, sizeof *l.at);
    for (size_t i = 0; i < total; i++) {
        l.weights[i] = sample_uniform(&seed);
        l.positions[i] = (uint32_t)(sample_random(&seed) % rows);
        l.at[i] = l.data + l.positions[i] * l.stride;
    }
    return l;
}

static void lists_destroy(struct lists *l)
{
    free(l->offsets), free(l->firsts), free(l->pieces), free(l->positions), free(l->at);
    samples_free(l->data), samples_free(l->weights);
}

static void expect_sums(const struct lists *l, bool weighted, bool unit, float *sums, float *norms)
{
    const struct vector_kernels *cpu = vectors_choose("auto");
    float *scratch = samples_allocate(superpose_scratch(l->dimension, l->offsets[l->count]));
    struct superpose_lists lists = {l->at, weighted ? l->weights : NULL, l->offsets, l->count};
    superpose_choose("auto")->sums(l->dimension, &lists, scratch, sums);
    cpu->norms(l->dimension, sums, l->count, norms);
    if (unit) cpu->normalize(l->dimension, sums, norms, l->count);
    samples_free(scratch);
}

static void check_sums(const struct lists *l, bool weighted, bool unit)
{
    size_t floats = l->count * l->stride, total = l->offsets[l->count];
    bool whole = l->most <= 1;
    float *expected = samples_allocate(floats), *norms = samples_allocate(l->count);
    float *got = samples_allocate(floats);
    expect_sums(l, weighted, unit, expected, norms);
    struct cuda_rows rows = {
        l->dimension, device_copy_of(l->data, l->rows * l->stride * sizeof(float)), NULL, l->rows};
    struct cuda_superpose s = {
        .positions = device_copy_of(l->positions, total * sizeof *l->positions),
        .weights = weighted ? device_copy_of(l->weights, total * sizeof(float)) : NULL,
        .offsets = whole ? device_copy_of(l->offsets, (l->count + 1) * sizeof *l->offsets)
                         : device_copy_of(l->pieces, (l->piece_count + 1) * sizeof *l->pieces),
        .pieces = whole ? l->count : l->piece_count,
        .firsts = whole ? NULL : device_copy_of(l->firsts, (l->count + 1) * sizeof *l->firsts),
        .most = l->most,
        .nodes = device_allocate(l->piece_count * l->stride * sizeof(float)),
        .lists = l->count,
        .sums = device_allocate(floats * sizeof(float)),
        .norms = device_allocate(l->count * sizeof(float)),
        .unit = unit,
    };
    DEVICE(cuda_superpose(&rows, &s, NULL));
    device_read(got, s.sums, floats * sizeof(float));
    compare(&sums_tally, "sums", l->dimension, expected, got, floats);
    device_read(got, s.norms, l->count * sizeof(float));
    compare(&sums_tally, "norms of sums", l->dimension, norms, got, l->count);
    cudaFree((void *)rows.rows), cudaFree((void *)s.positions), cudaFree((void *)s.weights);
    cudaFree((void *)s.offsets), cudaFree((void *)s.firsts), cudaFree(s.nodes);
    cudaFree(s.sums), cudaFree(s.norms);
    samples_free(expected), samples_free(norms), samples_free(got);
}

static void check_lists(uint32_t dimension, size_t count, uint64_t longest)
{
    struct lists l = lists_create(dimension, 97, count, longest);
    for (int way = 0; way < 4; way++)
        check_sums(&l, way & 1, way & 2);
    lists_destroy(&l);
}

static void report(const char *what, const struct tally *tally)
{
    printf("%-14s %12llu compared %8llu differ\n", what, tally->compared, tally->differing);
}

int main(int argc, char **argv)
{
    static const uint32_t dimensions[] = {1,   31,  32,   33,   100,  129,  300,  384,  700,
                                          768, 769, 1000, 1024, 1025, 1536, 4096, 16384};
    bool small = argc > 1 && strcmp(argv[1], "--small") == 0;
    bool tiny = argc > 1 && strcmp(argv[1], "--tiny") == 0;
    device_open();
    check_functions(small || tiny ? 65537 : 17);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        if (tiny && i % 5 != 0) continue;
        check_random(dimensions[i], i % 2 ? UINT32_MAX - 3 : 0, small || tiny ? 9 : 300);
        check_lists(dimensions[i], 41, 13);
        check_lists(dimensions[i], small || tiny ? 3 : 70, small || tiny ? 600 : 5000);
    }
    if (!small && !tiny) {
        check_lists(33, 70000, 5);
        check_lists(1024, 1, 100000);
    }
    report("functions", &functions_tally);
    report("random", &random_tally);
    report("sums", &sums_tally);
    unsigned long long differing =
        functions_tally.differing + random_tally.differing + sums_tally.differing;
    printf("bits: %llu differ: %s\n", differing, differing ? "FAIL" : "ok");
    return differing != 0;
}
