/* The heap against its contract: bounds, zeroing between owners, sealing, threads, faults. */
#include "daemon/heap/heap.h"
#include "daemon/heap/order.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/heap/buddy.h"
#include "daemon/heap/heap_inside.h"
#include "tests/support/sweep.h"

#define MIB (UINT64_C(1) << 20)

static struct heap *make(uint64_t bytes_max)
{
    struct heap *h = NULL;
    cr_assert_eq(heap_create(bytes_max, &h), STATUS_OK);
    return h;
}

static struct heap_block take(struct heap *h, uint64_t bytes, uint32_t owner)
{
    struct heap_block b = {0};
    cr_assert_eq(heap_take(h, bytes, owner, &b), STATUS_OK);
    cr_assert(b.bytes >= bytes);
    cr_assert_eq((uintptr_t)b.data % HEAP_UNIT, 0);
    return b;
}

static bool all_zero(const struct heap_block *b)
{
    const unsigned char *p = b->data;
    for (uint64_t i = 0; i < b->bytes; i++)
        if (p[i]) return false;
    return true;
}

/* Bytes the file really holds. */
static uint64_t resident(struct heap *h)
{
    struct stat st;
    cr_assert_eq(fstat(heap_fd(h), &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

Test(heap, bounds_what_is_handed_out)
{
    struct heap *h = make(8 * MIB);
    struct heap_block a = take(h, 5 * MIB, 1), b = {0};
    cr_assert_eq(heap_take(h, 4 * MIB, 1, &b), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_null(b.data);
    b = take(h, 3 * MIB, 2);
    struct heap_block c = {0};
    cr_assert_eq(heap_take(h, 1, 1, &c), STATUS_RESOURCE_EXHAUSTED);
    struct heap_usage u = heap_usage(h);
    cr_assert_eq(u.bytes_used, 8 * MIB);
    cr_assert_eq(u.bytes_peak, 8 * MIB);
    cr_assert_eq(u.blocks, 2);
    heap_give(h, &a);
    cr_assert_null(a.data);
    heap_give(h, &a);
    c = take(h, 5 * MIB - 4096, 3);
    heap_release(h, &b);
    heap_release(h, &c);
    cr_assert_eq(heap_usage(h).bytes_used, 0);
    cr_assert_eq(heap_take(h, 8 * MIB + 1, 1, &c), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(heap_take(h, UINT64_MAX, 1, &c), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(heap_take(h, 0, 1, &c), STATUS_RESOURCE_EXHAUSTED);
    heap_destroy(h);
}

Test(heap, cannot_be_resized)
{
    struct heap *h = make(MIB);
    struct stat st;
    cr_assert_eq(fstat(heap_fd(h), &st), 0);
    cr_assert(ftruncate(heap_fd(h), 0) != 0 && errno == EPERM);
    cr_assert(ftruncate(heap_fd(h), st.st_size * 2) != 0 && errno == EPERM);
    cr_assert(fcntl(heap_fd(h), F_ADD_SEALS, F_SEAL_WRITE) != 0);
    heap_destroy(h);
}

/* What a GPU process gets: the first file cannot be mapped for writing, not even of a descriptor
 * that was passed on, and what may be written lies behind it. */
Test(heap, a_gpu_process_writes_to_the_exchange_alone)
{
    struct heap *h;
    struct heap_block own, there;
    struct stat st;
    int flags = MAP_SHARED | MAP_NORESERVE, both = PROT_READ | PROT_WRITE;
    cr_assert_eq(heap_create(UINT64_C(16) << 20, &h), STATUS_OK);
    cr_assert_eq(heap_take(h, 5000, 1, &own), STATUS_OK);
    cr_assert_eq(heap_take_exchange(h, 5000, 1, &there), STATUS_OK);
    cr_assert_eq(fstat(heap_read_fd(h), &st), 0);
    uint64_t first = (uint64_t)st.st_size;
    cr_assert(own.offset < first && there.offset >= first);
    cr_assert_eq(heap_place(h, there.data), there.offset);
    int given = dup(heap_read_fd(h));
    cr_assert(mmap(NULL, 4096, both, flags, given, 0) == MAP_FAILED && errno == EACCES);
    cr_assert_eq(pwrite(given, "x", 1, 0), -1);
    char *read_only = mmap(NULL, first, PROT_READ, flags, given, 0);
    uint64_t rest = heap_file_bytes(h) - first;
    char *exchange = mmap(NULL, rest, both, flags, heap_exchange_fd(h), 0);
    cr_assert(read_only != MAP_FAILED && exchange != MAP_FAILED);
    memcpy(own.data, "own", 4);
    cr_assert_str_eq(read_only + own.offset, "own");
    memcpy(exchange + (there.offset - first), "there", 6);
    cr_assert_str_eq(there.data, "there");
    munmap(read_only, first);
    munmap(exchange, rest);
    close(given);
    /* blocks that were given back stay where they were, and count as before */
    void *before = there.data;
    heap_give(h, &there);
    cr_assert_eq(heap_usage(h).bytes_cached, 8192);
    cr_assert_eq(heap_take_fresh(h, 5000, 1, &there), STATUS_OK);
    cr_assert_lt(there.offset, first);
    heap_give(h, &there);
    cr_assert_eq(heap_take_exchange(h, 5000, 1, &there), STATUS_OK);
    cr_assert_eq(there.data, before);
    heap_release(h, &there);
    cr_assert_eq(heap_take_exchange(h, 5000, 2, &there), STATUS_OK);
    cr_assert_eq(*(char *)there.data, 0);
    heap_give(h, &there);
    heap_give(h, &own);
    heap_destroy(h);
}

Test(heap, takes_addresses_not_memory)
{
    struct heap *h = make(64 * MIB);
    uint64_t before = resident(h);
    struct heap_block b = take(h, 33 * MIB, 1);
    memset(b.data, 1, 4096);
    cr_assert(resident(h) - before <= 65536);
    heap_release(h, &b);
    cr_assert_eq(resident(h), 0);
    heap_destroy(h);
}

Test(heap, gives_an_owner_its_block_back_and_others_zeros)
{
    struct heap *h = make(32 * MIB);
    const uint64_t sizes[] = {1, 65536, 70000, MIB, MIB + 1, 5 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct heap_block b = take(h, sizes[i], 7);
        cr_assert(all_zero(&b));
        memset(b.data, 0xab, b.bytes);
        void *was = b.data;
        uint64_t bytes = b.bytes;
        heap_give(h, &b);
        cr_assert_eq(heap_usage(h).bytes_cached, bytes);
        b = take(h, sizes[i], 7);
        cr_assert_eq(b.data, was);
        cr_assert_eq(*(unsigned char *)b.data, 0xab);
        heap_give(h, &b);
        /* A smaller request for the same class: every byte of it is zero for another owner. */
        b = take(h, sizes[i], 8);
        cr_assert(all_zero(&b));
        heap_release(h, &b);
        heap_trim(h, 0);
        cr_assert_eq(heap_usage(h).bytes_cached, 0);
        cr_assert_eq(resident(h), 0);
    }
    heap_destroy(h);
}

/* 0 is whoever has not said yet who it is: two of them are not the same. */
Test(heap, gives_owner_0_zeros)
{
    struct heap *h = make(32 * MIB);
    for (uint64_t size = 1; size < 8 * MIB; size = size * 7 + 1000) {
        struct heap_block b = take(h, size, 0);
        memset(b.data, 0xab, b.bytes);
        heap_give(h, &b);
        b = take(h, size, 0);
        cr_assert(all_zero(&b));
        heap_release(h, &b);
    }
    heap_destroy(h);
}

Test(heap, a_reused_block_counts_what_it_may_have_touched)
{
    struct heap *h = make(32 * MIB);
    struct heap_block b = take(h, 60 * 1024, 1);
    heap_give(h, &b);
    b = take(h, 100, 1);
    cr_assert_eq(heap_usage(h).bytes_used, 60 * 1024);
    heap_give(h, &b);
    b = take(h, 64 * 1024, 1);
    cr_assert_eq(heap_usage(h).bytes_used, 64 * 1024);
    heap_give(h, &b);
    heap_destroy(h);
}

Test(heap, keeps_a_bounded_cache)
{
    struct heap *h = make(64 * MIB);
    heap_limit_cache(h, 4 * MIB);
    struct heap_block blocks[12];
    for (int i = 0; i < 12; i++) {
        blocks[i] = take(h, MIB, 1 + i % 3);
        memset(blocks[i].data, 1, MIB);
    }
    for (int i = 0; i < 12; i++) {
        heap_give(h, &blocks[i]);
        cr_assert(heap_usage(h).bytes_cached <= 4 * MIB);
    }
    cr_assert_eq(heap_usage(h).bytes_cached, 4 * MIB);
    cr_assert_eq(resident(h), 4 * MIB);
    struct heap_block big = take(h, 5 * MIB, 1);
    heap_give(h, &big); /* larger than the cache: straight to the system */
    cr_assert_eq(heap_usage(h).bytes_cached, 4 * MIB);
    heap_trim(h, MIB);
    cr_assert_eq(heap_usage(h).bytes_cached, MIB);
    /* The bound is reached only by cached blocks: they go first. */
    big = take(h, 64 * MIB, 2);
    cr_assert_eq(heap_usage(h).bytes_cached, 0);
    heap_release(h, &big);
    heap_destroy(h);
}

Test(heap, cached_blocks_make_way_for_larger_ones_of_their_own_class)
{
    struct heap *h = make(10 * MIB);
    struct heap_block a = take(h, 5 * MIB, 1), b = take(h, 4 * MIB, 1);
    heap_give(h, &a);
    a = take(h, 6 * MIB, 1);
    cr_assert_eq(heap_usage(h).bytes_used, 10 * MIB);
    heap_give(h, &a);
    cr_assert_eq(heap_take(h, 7 * MIB, 1, &a), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_eq(heap_usage(h).bytes_used, 4 * MIB);
    heap_give(h, &b);
    heap_destroy(h);
}

/* Random takes and gives; every block carries its own mark and must keep it. */
static void churn(struct heap *h, unsigned seed, int rounds, uint32_t owner)
{
    enum { LIVE = 24 };
    struct heap_block live[LIVE] = {{0}};
    uint64_t marks[LIVE] = {0};
    for (int i = 0; i < rounds; i++) {
        int at = rand_r(&seed) % LIVE;
        struct heap_block *b = &live[at];
        if (b->data) {
            cr_assert_eq(((uint64_t *)b->data)[0], marks[at]);
            cr_assert_eq(((uint64_t *)b->data)[b->bytes / 8 - 1], marks[at]);
            if (rand_r(&seed) % 4)
                heap_give(h, b);
            else
                heap_release(h, b);
            continue;
        }
        uint64_t bytes = UINT64_C(1) << rand_r(&seed) % 20;
        bytes += (uint64_t)rand_r(&seed) % bytes;
        if (heap_take(h, bytes, owner, b)) continue;
        uint64_t first = ((uint64_t *)b->data)[0];
        cr_assert(first == 0 || first >> 32 == owner, "owner %u sees %lx", owner, first);
        marks[at] = (uint64_t)owner << 32 | (uint32_t)i;
        ((uint64_t *)b->data)[0] = ((uint64_t *)b->data)[b->bytes / 8 - 1] = marks[at];
    }
    for (int i = 0; i < LIVE; i++)
        heap_give(h, &live[i]);
}

Test(heap, survives_random_use)
{
    struct heap *h = make(4 * MIB);
    heap_limit_cache(h, MIB);
    for (unsigned seed = 1; seed <= 20; seed++) {
        churn(h, seed, 400, 1 + seed % 3);
        struct heap_usage u = heap_usage(h);
        cr_assert_eq(u.bytes_used, 0);
        cr_assert_eq(u.blocks, 0);
        cr_assert(u.bytes_cached <= MIB && u.bytes_peak <= 4 * MIB);
    }
    heap_trim(h, 0);
    cr_assert_eq(resident(h), 0);
    heap_destroy(h);
}

struct worker {
    struct heap *heap;
    unsigned seed;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    churn(w->heap, w->seed, 1500, w->seed);
    return NULL;
}

static void use_in_threads(struct heap *h)
{
    heap_limit_cache(h, MIB);
    pthread_t threads[4];
    struct worker workers[4];
    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (struct worker){h, i + 1};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(heap_usage(h).bytes_used, 0);
}

Test(heap, survives_threads)
{
    struct heap *h = make(6 * MIB);
    use_in_threads(h);
    heap_trim(h, 0);
    cr_assert_eq(resident(h), 0);
    heap_destroy(h);
}

/* Whoever needs bytes that the thread is still returning waits for them, and is not refused. */
Test(heap, a_thread_returns_large_blocks)
{
    struct heap *h = make(8 * MIB);
    cr_assert_eq(heap_start_releaser(h), STATUS_OK);
    for (unsigned round = 0; round < 20; round += sweep_stride(4)) {
        struct heap_block a = take(h, 7 * MIB, 1);
        memset(a.data, 1, a.bytes);
        heap_release(h, &a);
        a = take(h, 5 * MIB, 2);
        cr_assert(all_zero(&a), "round %u", round);
        memset(a.data, 2, a.bytes);
        heap_give(h, &a);
        struct heap_block b = take(h, 3 * MIB, 3), c = take(h, 5 * MIB, 4);
        cr_assert(all_zero(&b) && all_zero(&c), "round %u", round);
        memset(b.data, 3, b.bytes);
        heap_release(h, &b);
        heap_release(h, &c);
    }
    heap_trim(h, 0);
    for (int tries = 0; resident(h); tries++) {
        cr_assert_lt(tries, 60000, "pages stay");
        usleep(1000);
    }
    heap_destroy(h);
}

/* Pages of many small blocks are as much work as those of a large one: who gives a block does not
 * do it. The thread is played, so that what was left to it can be counted. */
Test(heap, leaves_many_small_blocks_to_its_thread)
{
    enum { SMALL = 64 };
    struct heap *h = make(64 * MIB);
    struct heap_block small[SMALL], large = take(h, 4 * MIB, 1);
    heap_limit_cache(h, 4 * MIB);
    for (int i = 0; i < SMALL; i++) {
        small[i] = take(h, HEAP_UNIT, 1);
        memset(small[i].data, 1, HEAP_UNIT);
    }
    for (int i = 0; i < SMALL; i++)
        heap_give(h, &small[i]);
    h->releaser.runs = true;
    heap_give(h, &large);
    h->releaser.runs = false;
    cr_assert_eq(heap_usage(h).bytes_cached, 4 * MIB);
    cr_assert_eq(h->bytes_releasing, 4 * MIB);
    cr_assert_eq(resident(h), 4 * MIB, "the giver returned pages");
    heap_destroy(h);
}

Test(heap, ends_while_its_thread_has_work)
{
    for (unsigned round = 0; round < 20; round += sweep_stride(4)) {
        struct heap *h = make(64 * MIB);
        cr_assert_eq(heap_start_releaser(h), STATUS_OK);
        for (unsigned i = 0; i < 4; i++) {
            struct heap_block b = take(h, 15 * MIB, 1 + i);
            memset(b.data, 1, b.bytes);
            heap_release(h, &b);
        }
        heap_destroy(h);
    }
}

Test(heap, survives_threads_beside_its_own)
{
    struct heap *h = make(6 * MIB);
    cr_assert_eq(heap_start_releaser(h), STATUS_OK);
    use_in_threads(h);
    heap_destroy(h);
}

Test(heap, buddy_joins_runs_again)
{
    struct buddy b;
    cr_assert_eq(buddy_init(&b, 1000), STATUS_OK); /* 512 + 256 + 128 + 64 + 32 + 8 */
    uint32_t units[1000];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 1000; i++) {
            units[i] = buddy_take(&b, 0);
            cr_assert(units[i] < 1000);
        }
        cr_assert_eq(buddy_take(&b, 0), BUDDY_NONE);
        for (int i = 0; i < 1000; i++)
            buddy_give(&b, units[(i * 7) % 1000], 0);
        cr_assert_eq(buddy_take(&b, 10), BUDDY_NONE);
        uint32_t half = buddy_take(&b, 9), quarter = buddy_take(&b, 8);
        cr_assert(half == 0 && quarter == 512);
        buddy_give(&b, half, 9);
        buddy_give(&b, quarter, 8);
    }
    buddy_finish(&b);
}

Test(heap, refuses_impossible_bounds)
{
    struct heap *h = NULL;
    cr_assert(heap_create(0, &h) != STATUS_OK);
    cr_assert(heap_create(UINT64_MAX, &h) != STATUS_OK);
    cr_assert_null(h);
    heap_destroy(NULL);
}

static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

Test(heap, every_failure_leaves_nothing_behind)
{
    int fds = count_fds();
    for (uint32_t nth = 1;; nth++) {
        fault_arm(nth);
        struct heap *h = NULL;
        enum status st = heap_create(4 * MIB, &h);
        struct heap_block b = {0};
        if (!st) st = heap_take(h, 100, 1, &b);
        bool fired = fault_fired() != NULL;
        fault_arm(0);
        cr_assert(fired ? st != STATUS_OK && !b.data : st == STATUS_OK);
        if (h) {
            cr_assert_eq(heap_usage(h).blocks, b.data ? 1 : 0);
            heap_give(h, &b);
        }
        heap_destroy(h);
        cr_assert_eq(count_fds(), fds);
        if (!fired) break;
        cr_assert(nth < 100);
    }
}

Test(heap, keeps_a_reserve_for_small_blocks)
{
    struct heap *h = make(8 * MIB);
    heap_reserve(h, MIB, 2 * HEAP_UNIT);
    struct heap_block a = take(h, 4 * MIB, 1), b = take(h, 3 * MIB, 1), c = {0}, small[8];
    cr_assert_eq(heap_take(h, 3 * HEAP_UNIT, 1, &c), STATUS_RESOURCE_EXHAUSTED);
    for (int i = 0; i < 8; i++)
        small[i] = take(h, 2 * HEAP_UNIT, 2);
    cr_assert_eq(heap_take(h, 1, 2, &c), STATUS_RESOURCE_EXHAUSTED, "8 MiB are the bound");
    for (int i = 0; i < 8; i++)
        heap_give(h, &small[i]);
    heap_release(h, &b);
    c = take(h, 3 * MIB, 1); /* what small ones left in the cache makes room */
    heap_release(h, &a);
    heap_release(h, &c);
    heap_destroy(h);
}

Test(heap, a_place_is_where_the_other_process_finds_it)
{
    struct heap *h;
    struct heap_block b;
    cr_assert_eq(heap_create(1 << 24, &h), STATUS_OK);
    cr_assert_eq(heap_take(h, 100, 1, &b), STATUS_OK);
    cr_assert_eq(heap_place(h, b.data), b.offset);
    cr_assert_eq(heap_place(h, (char *)b.data + 99), b.offset + 99);
    char *base = (char *)b.data - b.offset;
    cr_assert_eq(heap_place(h, base + heap_file_bytes(h) - 1), heap_file_bytes(h) - 1);
    cr_assert_eq(heap_place(h, base + heap_file_bytes(h)), PLACE_NONE);
    cr_assert_eq(heap_place(h, base - 1), PLACE_NONE);
    cr_assert_eq(heap_place(h, &h), PLACE_NONE);
    cr_assert_eq(heap_place(h, NULL), PLACE_NONE);
    heap_give(h, &b);
    heap_destroy(h);
}
