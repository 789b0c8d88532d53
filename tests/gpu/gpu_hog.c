/* gpu_hog busy SECONDS: keeps the device busy with kernels of milliseconds, in its own process
 * gpu_hog take PERCENT SECONDS: takes that share of the free device memory, and gives it back
 *
 * A neighbour on the card, for measurements and tests of what the daemon does about one. Says a
 * line once it is at it. */
#include "tests/gpu/device.h"

#include <time.h>
#include <unistd.h>

enum { ROWS = 65536, DIMENSION = 768, QUERIES = 1024, AHEAD = 4, PIECES_MAX = 4096 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void say(const char *what, unsigned long long mib)
{
    printf("%s %llu MiB\n", what, mib);
    fflush(stdout);
}

/* Always a few kernels ahead, so that the device never has nothing of ours to do. */
static void busy(double seconds)
{
    size_t row_bytes = DIMENSION * sizeof(float);
    struct cuda_rows rows = {.dimension = DIMENSION, .count = ROWS};
    struct cuda_queries queries = {.count = QUERIES};
    float *norms = device_allocate(ROWS * sizeof *norms);
    float *values = device_allocate(ROWS * row_bytes);
    float *scores = device_allocate((size_t)ROWS * QUERIES * sizeof *scores);
    cudaEvent_t done[AHEAD];
    DEVICE(cudaMemset(values, 0, ROWS * row_bytes));
    DEVICE(cudaMemset(norms, 0, ROWS * sizeof *norms));
    rows.rows = queries.rows = values;
    rows.norms = queries.norms = norms;
    for (int i = 0; i < AHEAD; i++)
        DEVICE(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming | cudaEventBlockingSync));
    double end = now_s() + seconds;
    for (unsigned long n = 0; now_s() < end; n++) {
        if (n >= AHEAD) DEVICE(cudaEventSynchronize(done[n % AHEAD]));
        DEVICE(cuda_tile(METRIC_DOT, &queries, &rows, scores, ROWS, NULL));
        DEVICE(cudaEventRecord(done[n % AHEAD], NULL));
        if (n == AHEAD) say("busy with", ROWS * (QUERIES + DIMENSION) * sizeof(float) >> 20);
    }
    DEVICE(cudaDeviceSynchronize());
}

/* In pieces, smaller and smaller ones where the larger do not fit. */
static void take(unsigned percent, double seconds)
{
    static void *pieces[PIECES_MAX];
    size_t unused = 0, total = 0, taken = 0, piece = (size_t)1 << 30;
    unsigned count = 0;
    DEVICE(cudaMemGetInfo(&unused, &total));
    size_t wanted = unused / 100 * percent;
    while (taken < wanted && piece >= (size_t)1 << 20 && count < PIECES_MAX) {
        if (wanted - taken < piece || cudaMalloc(&pieces[count], piece) != cudaSuccess) {
            (void)cudaGetLastError(); /* which a refusal leaves behind */
            piece /= 2;
            continue;
        }
        taken += piece;
        count++;
    }
    say("took", taken >> 20);
    usleep((useconds_t)(seconds * 1e6));
    while (count)
        DEVICE(cudaFree(pieces[--count]));
    say("gave back", taken >> 20);
}

int main(int argc, char **argv)
{
    bool is_busy = argc == 3 && strcmp(argv[1], "busy") == 0;
    bool is_take = argc == 4 && strcmp(argv[1], "take") == 0;
    double seconds = is_busy || is_take ? atof(argv[argc - 1]) : 0;
    unsigned percent = is_take ? (unsigned)atoi(argv[2]) : 1;
    if (seconds <= 0 || seconds > 3600 || percent < 1 || percent > 100) {
        fprintf(stderr, "gpu_hog: busy SECONDS | take PERCENT SECONDS\n");
        return 2;
    }
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || !count) {
        fprintf(stderr, "SKIP: no CUDA device\n"); /* stdout tells that it is at it */
        return SKIPPED;
    }
    if (is_busy)
        busy(seconds);
    else
        take(percent, seconds);
    return 0;
}
