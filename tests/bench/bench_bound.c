/* bench_bound: a take at the memory bound while other memory is on its way back to the system: how
 * long it holds the loop up, how long until it succeeds, and how long a worker waits for it. */
#include <semaphore.h>
#include <string.h>

#include "daemon/heap/heap.h"
#include "tests/bench/bench.h"

enum { RUNS = 5 };
#define MIB (UINT64_C(1) << 20)

static const uint64_t bound_mib = 512, there_mib = 480, wanted_mib = 384;

static void told(void *semaphore)
{
    sem_post(semaphore);
}

/* In milliseconds: until the take returned, and until there was a block. */
struct times {
    double held, there;
};

static struct times take(bool as_loop)
{
    struct heap *heap;
    struct heap_block b;
    sem_t freed;
    sem_init(&freed, 0, 0);
    if (heap_create(bound_mib * MIB, &heap) || heap_start_releaser(heap) ||
        heap_take(heap, there_mib * MIB, 1, &b))
        bench_fail("memory", "there is none");
    memset(b.data, 1, b.bytes);
    if (as_loop) heap_never_wait(heap, told, &freed);
    heap_release(heap, &b);
    double begin = bench_now_s();
    enum status st = heap_take(heap, wanted_mib * MIB, 2, &b);
    struct times t = {.held = (bench_now_s() - begin) * 1e3};
    while (st == STATUS_UNAVAILABLE) {
        sem_wait(&freed);
        st = heap_take(heap, wanted_mib * MIB, 2, &b);
    }
    t.there = (bench_now_s() - begin) * 1e3;
    if (st) bench_fail("memory", "there is none at the bound");
    heap_destroy(heap);
    sem_destroy(&freed);
    return t;
}

int main(void)
{
    double held[RUNS], there[RUNS], waited[RUNS];
    for (int run = 0; run < RUNS; run++) {
        struct times loop = take(true), worker = take(false);
        held[run] = loop.held;
        there[run] = loop.there;
        waited[run] = worker.held;
    }
    printf("%llu MiB at a bound of %llu, while %llu go back to the system: the loop is held for "
           "%.3f ms and has them after %.0f; a worker waits %.0f ms\n",
           (unsigned long long)wanted_mib, (unsigned long long)bound_mib,
           (unsigned long long)there_mib, bench_percentile(held, RUNS, 50),
           bench_percentile(there, RUNS, 50), bench_percentile(waited, RUNS, 50));
    return 0;
}
