/* gpu_rates [FILE]: how fast bytes get to the device by each road, which decides the transfer
 * design: pinned copies, registering a memfd, several threads copying into a pinned ring, and that
 * ring emptied into the device at the same time. GB/s are 10^9 bytes a second; medians. FILE gets
 * the rate of pinned copies in pieces of 4 MiB, which is what bench_gpu --pinned asks for. */
#include "daemon/base/clock.h"
#include "daemon/gpu/device.h"
#include "tests/gpu/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define KIB          (UINT64_C(1) << 10)
#define MIB          (UINT64_C(1) << 20)
#define FILE_BYTES   (1024 * MIB)
#define PINNED_BYTES (256 * MIB)

enum { RUNS = 9, PIPELINE_RUNS = 5, THREADS_MAX = 12, SLOTS_MAX = 8, PIECES_MAX = 1024 };

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return values[count / 2];
}

static double rate(uint64_t bytes, uint64_t ns)
{
    return (double)bytes / (double)(ns ? ns : 1);
}

/* ---------------------------------------------------------------- one copy */

struct places {
    char *device; /* FILE_BYTES */
    char *pinned; /* PINNED_BYTES */
    char *file;   /* FILE_BYTES of a populated memfd */
    cudaStream_t stream;
};

static uint64_t copy_ns(const struct places *at, char *host, uint64_t bytes, uint64_t piece,
                        bool in)
{
    uint64_t ns[RUNS];
    for (int run = 0; run < RUNS + 1; run++) {
        uint64_t start = clock_now_ns();
        for (uint64_t done = 0; done < bytes; done += piece) {
            char *there = at->device + done, *here = host + done;
            DEVICE(cudaMemcpyAsync(in ? there : here, in ? here : there, piece,
                                   in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                                   at->stream));
        }
        DEVICE(cudaStreamSynchronize(at->stream));
        if (run > 0) ns[run - 1] = clock_now_ns() - start; /* the first warms up */
    }
    return median(ns, RUNS);
}

/* Returns the rate of pieces of 4 MiB, in. */
static double print_pinned(const struct places *at)
{
    double of_4_mib = 0;
    const uint64_t pieces[] = {PINNED_BYTES, 16 * MIB, 4 * MIB, 2 * MIB, MIB, 256 * KIB};
    printf("\npinned copies of 256 MiB, median of %d (GB/s)\n%-12s %8s %8s\n", RUNS, "piece", "in",
           "out");
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        double in = rate(PINNED_BYTES, copy_ns(at, at->pinned, PINNED_BYTES, pieces[i], true));
        printf("%8llu KiB %8.2f %8.2f\n", (unsigned long long)(pieces[i] / KIB), in,
               rate(PINNED_BYTES, copy_ns(at, at->pinned, PINNED_BYTES, pieces[i], false)));
        if (pieces[i] == 4 * MIB) of_4_mib = in;
    }
    printf("\none small copy, enqueued and waited for (us)\n%-12s %8s %8s\n", "bytes", "in", "out");
    const uint64_t small[] = {64, 4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        printf("%12llu %8.1f %8.1f\n", (unsigned long long)small[i],
               (double)copy_ns(at, at->pinned, small[i], small[i], true) / 1e3,
               (double)copy_ns(at, at->pinned, small[i], small[i], false) / 1e3);
    return of_4_mib;
}

static void write_rate(const char *name, double gbs)
{
    FILE *file = fopen(name, "w");
    if (!file || fprintf(file, "%.2f\n", gbs) < 0 || fclose(file) != 0) {
        printf("FAIL: %s cannot be written\n", name);
        exit(2);
    }
}

/* ---------------------------------------------------------------- registering */

static void print_register(const struct places *at)
{
    const uint64_t parts[] = {4 * MIB, 64 * MIB, FILE_BYTES};
    printf("\ncudaHostRegister of a populated 1 GiB memfd, median of 3 (GB/s)\n%-12s %8s %10s\n",
           "piece", "register", "unregister");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        uint64_t in[3], out[3];
        for (int run = 0; run < 3; run++) {
            uint64_t start = clock_now_ns();
            for (uint64_t n = 0; n < FILE_BYTES; n += parts[i])
                DEVICE(cudaHostRegister(at->file + n, parts[i], cudaHostRegisterDefault));
            in[run] = clock_now_ns() - start;
            start = clock_now_ns();
            for (uint64_t n = 0; n < FILE_BYTES; n += parts[i])
                DEVICE(cudaHostUnregister(at->file + n));
            out[run] = clock_now_ns() - start;
        }
        printf("%8llu MiB %8.2f %10.2f\n", (unsigned long long)(parts[i] / MIB),
               rate(FILE_BYTES, median(in, 3)), rate(FILE_BYTES, median(out, 3)));
    }
    uint64_t pageable = copy_ns(at, at->file, PINNED_BYTES, PINNED_BYTES, true);
    DEVICE(cudaHostRegister(at->file, FILE_BYTES, cudaHostRegisterDefault));
    printf("copies of 256 MiB in from the memfd: registered %.2f, in 4 MiB pieces %.2f, "
           "not registered %.2f GB/s\n",
           rate(PINNED_BYTES, copy_ns(at, at->file, PINNED_BYTES, PINNED_BYTES, true)),
           rate(PINNED_BYTES, copy_ns(at, at->file, PINNED_BYTES, 4 * MIB, true)),
           rate(PINNED_BYTES, pageable));
    DEVICE(cudaHostUnregister(at->file));
}

/* ---------------------------------------------------------------- the ring */

/* Threads take parts of pieces in order; a piece is filled when its slot of the ring is free. */
struct pipeline {
    const struct places *at;
    uint64_t piece_bytes, part_bytes, parts; /* parts of a piece */
    uint64_t pieces, slots;
    bool stream_stores; /* past the caches */
    bool to_device;
    cudaEvent_t copied[SLOTS_MAX];
    atomic_uint ready;
    atomic_bool go;
    atomic_uint left[PIECES_MAX];        /* parts not yet written */
    _Alignas(64) atomic_ullong next;     /* part */
    _Alignas(64) atomic_ullong fillable; /* pieces before this have a free slot */
};

static void pause_briefly(void)
{
#if defined(__x86_64__)
    _mm_pause();
#endif
}

static void copy_part(char *to, const char *from, uint64_t bytes, bool stream_stores)
{
#if defined(__x86_64__)
    if (stream_stores) {
        for (uint64_t i = 0; i < bytes; i += 64) {
            __m128i a = _mm_loadu_si128((const __m128i *)(from + i));
            __m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
            __m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
            __m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));
            _mm_stream_si128((__m128i *)(to + i), a);
            _mm_stream_si128((__m128i *)(to + i + 16), b);
            _mm_stream_si128((__m128i *)(to + i + 32), c);
            _mm_stream_si128((__m128i *)(to + i + 48), d);
        }
        _mm_sfence();
        return;
    }
#endif
    memcpy(to, from, bytes);
}

static void *fill(void *argument)
{
    struct pipeline *p = argument;
    atomic_fetch_add(&p->ready, 1);
    while (!atomic_load(&p->go))
        pause_briefly();
    for (;;) {
        uint64_t part = atomic_fetch_add(&p->next, 1), piece = part / p->parts;
        if (piece >= p->pieces) return NULL;
        while (atomic_load_explicit(&p->fillable, memory_order_acquire) <= piece)
            pause_briefly();
        uint64_t inside = part % p->parts * p->part_bytes;
        copy_part(p->at->pinned + piece % p->slots * p->piece_bytes + inside,
                  p->at->file + piece * p->piece_bytes + inside, p->part_bytes, p->stream_stores);
        atomic_fetch_sub_explicit(&p->left[piece], 1, memory_order_release);
    }
}

/* Frees the slots of pieces that are on the device. */
static void poll_copied(struct pipeline *p, uint64_t *done, uint64_t enqueued)
{
    while (*done < enqueued) {
        cudaError_t error =
            p->to_device ? cudaEventQuery(p->copied[*done % p->slots]) : cudaSuccess;
        if (error == cudaErrorNotReady) break;
        DEVICE(error);
        ++*done;
        atomic_store_explicit(&p->fillable, *done + p->slots, memory_order_release);
    }
}

static uint64_t pipeline_ns(struct pipeline *p, unsigned threads)
{
    pthread_t running[THREADS_MAX];
    p->parts = p->piece_bytes / p->part_bytes;
    p->pieces = FILE_BYTES / p->piece_bytes;
    atomic_store(&p->ready, 0), atomic_store(&p->go, false), atomic_store(&p->next, 0);
    atomic_store(&p->fillable, p->slots);
    for (uint64_t n = 0; n < p->pieces; n++)
        atomic_store(&p->left[n], (unsigned)p->parts);
    for (unsigned n = 0; n < threads; n++)
        if (pthread_create(&running[n], NULL, fill, p) != 0) abort();
    while (atomic_load(&p->ready) < threads)
        pause_briefly();

    uint64_t start = clock_now_ns(), done = 0, enqueued = 0;
    atomic_store(&p->go, true);
    while (done < p->pieces) {
        if (enqueued < p->pieces &&
            atomic_load_explicit(&p->left[enqueued], memory_order_acquire) == 0) {
            uint64_t slot = enqueued % p->slots;
            if (p->to_device) {
                DEVICE(cudaMemcpyAsync(p->at->device + enqueued * p->piece_bytes,
                                       p->at->pinned + slot * p->piece_bytes, p->piece_bytes,
                                       cudaMemcpyHostToDevice, p->at->stream));
                DEVICE(cudaEventRecord(p->copied[slot], p->at->stream));
            }
            enqueued++;
        }
        poll_copied(p, &done, enqueued);
    }
    uint64_t ns = clock_now_ns() - start;
    for (unsigned n = 0; n < threads; n++)
        pthread_join(running[n], NULL);
    return ns;
}

/* Every byte on the device is the file's. */
static void check_arrived(const struct places *at)
{
    uint64_t half = PINNED_BYTES / 2; /* the ring lies in the other half */
    for (uint64_t n = 0; n < FILE_BYTES; n += half) {
        DEVICE(cudaMemcpy(at->pinned + half, at->device + n, half, cudaMemcpyDeviceToHost));
        if (memcmp(at->pinned + half, at->file + n, half) != 0) {
            printf("FAIL: what arrived differs from the file after %llu MiB\n",
                   (unsigned long long)(n / MIB));
            exit(2);
        }
    }
    DEVICE(cudaMemset(at->device, 0xff, FILE_BYTES));
    DEVICE(cudaDeviceSynchronize()); /* at->stream would not wait for it */
}

static double pipeline_rate(struct pipeline *p, unsigned threads)
{
    uint64_t ns[PIPELINE_RUNS];
    for (int run = 0; run < PIPELINE_RUNS; run++)
        ns[run] = pipeline_ns(p, threads);
    if (p->to_device) check_arrived(p->at);
    return rate(FILE_BYTES, median(ns, PIPELINE_RUNS));
}

static void print_row(struct pipeline *p, unsigned threads)
{
    printf("%7u %6llu %5llu %5llu", threads, (unsigned long long)(p->piece_bytes / KIB),
           (unsigned long long)p->slots, (unsigned long long)(p->part_bytes / KIB));
    for (int to_device = 0; to_device < 2; to_device++) {
        for (int stream_stores = 0; stream_stores < 2; stream_stores++) {
            p->to_device = to_device, p->stream_stores = stream_stores;
            printf(" %9.2f", pipeline_rate(p, threads));
        }
    }
    printf("\n");
    fflush(stdout);
}

static void print_pipeline(const struct places *at)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct pipeline *p = aligned_alloc(64, (sizeof *p + 63) / 64 * 64);
    if (!p) abort();
    memset(p, 0, sizeof *p);
    p->at = at;
    for (int n = 0; n < SLOTS_MAX; n++)
        DEVICE(cudaEventCreateWithFlags(&p->copied[n], cudaEventDisableTiming));
    printf("\n1 GiB of memfd through a pinned ring, median of %d (GB/s). ring: threads copy into "
           "it. device:\nand it is copied in at the same time. memcpy, or stores past the caches\n"
           "%7s %6s %5s %5s %9s %9s %9s %9s\n",
           PIPELINE_RUNS, "threads", "KiB", "slots", "part", "ring", "ring past", "device",
           "dev. past");
    const unsigned threads[] = {1, 2, 4, 6, 8, 12};
    for (size_t n = 0; n < sizeof threads / sizeof *threads; n++) {
        if (n > 0 && threads[n] >= cores) break; /* all of them spin, and so do we */
        p->piece_bytes = 4 * MIB, p->slots = 4, p->part_bytes = 256 * KIB;
        print_row(p, threads[n]);
    }
    const struct {
        uint64_t piece, slots, part;
    } shapes[] = {{MIB, 4, 256 * KIB},      {2 * MIB, 4, 256 * KIB}, {8 * MIB, 4, 256 * KIB},
                  {16 * MIB, 4, 256 * KIB}, {4 * MIB, 2, 256 * KIB}, {4 * MIB, 8, 256 * KIB},
                  {4 * MIB, 4, 64 * KIB},   {4 * MIB, 4, MIB}};
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        p->piece_bytes = shapes[n].piece, p->slots = shapes[n].slots;
        p->part_bytes = shapes[n].part;
        print_row(p, cores > 6 ? 6 : 1);
    }
    for (int n = 0; n < SLOTS_MAX; n++)
        DEVICE(cudaEventDestroy(p->copied[n]));
    free(p);
}

/* ---------------------------------------------------------------- the table */

static void print_ranges(struct device *d)
{
    const uint64_t sizes[] = {2 * MIB, 32 * MIB, 256 * MIB, 1024 * MIB};
    printf("\ngrowing a range (us, median of %d)\n%-12s %8s %8s\n", RUNS, "by", "grow", "shrink");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t grow[RUNS], shrink[RUNS];
        struct device_range r = {0};
        if (d->ops->range_reserve(d, 4096 * MIB, &r)) break;
        for (int run = 0; run < RUNS; run++) {
            uint64_t start = clock_now_ns();
            bool grown = d->ops->range_resize(d, &r, sizes[i]) == DEVICE_OK;
            grow[run] = clock_now_ns() - start;
            start = clock_now_ns();
            if (!grown || d->ops->range_resize(d, &r, 0)) abort();
            shrink[run] = clock_now_ns() - start;
        }
        printf("%8llu MiB %8.0f %8.0f\n", (unsigned long long)(sizes[i] / MIB),
               (double)median(grow, RUNS) / 1e3, (double)median(shrink, RUNS) / 1e3);
        d->ops->range_release(d, &r);
    }
}

static char *file_create(void)
{
    int fd = memfd_create("gpu_rates", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)FILE_BYTES) != 0) abort();
    char *file = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED) abort();
    close(fd);
    uint64_t state = 1;
    for (uint64_t n = 0; n < FILE_BYTES; n += sizeof state) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(file + n, &state, sizeof state);
    }
    return file;
}

int main(int argc, char **argv)
{
    char why[SHARE_WHY] = "";
    struct device *d = NULL;
    struct share_device info;
    uint64_t start = clock_now_ns();
    enum device_result result =
        device_cuda->open(&(struct device_options){.which = "0"}, &d, &info, why);
    if (result) {
        printf("%s: %s\n", result == DEVICE_ABSENT ? "SKIP" : "FAIL", why);
        return result == DEVICE_ABSENT ? SKIPPED : 2;
    }
    printf("device: %s, opened in %.0f ms; %ld cores\n", info.name,
           (double)(clock_now_ns() - start) / 1e6, sysconf(_SC_NPROCESSORS_ONLN));
    struct places at = {.file = file_create()};
    DEVICE(cudaMalloc((void **)&at.device, FILE_BYTES));
    DEVICE(cudaHostAlloc((void **)&at.pinned, PINNED_BYTES, cudaHostAllocDefault));
    memset(at.pinned, 1, PINNED_BYTES);
    DEVICE(cudaStreamCreateWithFlags(&at.stream, cudaStreamNonBlocking));
    double pinned = print_pinned(&at);
    if (argc > 1) write_rate(argv[1], pinned);
    print_register(&at);
    print_pipeline(&at);
    print_ranges(d);
    DEVICE(cudaStreamDestroy(at.stream));
    cudaFree(at.device), cudaFreeHost(at.pinned);
    munmap(at.file, FILE_BYTES);
    d->ops->close(d);
    return 0;
}
