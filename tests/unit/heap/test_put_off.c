/* Takes by the thread that must not wait for pages on their way back to the system. The heap's
 * thread is played until it is started: what is on its way stays there. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

#include "daemon/heap/heap.h"
#include "daemon/heap/heap_inside.h"

#define MIB (UINT64_C(1) << 20)

enum { PATIENCE_S = 60 };

static struct heap *heap;
static sem_t told;

static void tell(void *owner)
{
    cr_assert_eq(owner, &told);
    sem_post(&told);
}

static void begin(void)
{
    cr_assert_eq(heap_create(64 * MIB, &heap), STATUS_OK);
    sem_init(&told, 0, 0);
    heap_never_wait(heap, tell, &told);
}

static void end(void)
{
    heap_never_wait(heap, NULL, NULL);
    heap->releaser.runs &= heap->releaser.thread != 0;
    heap_destroy(heap);
}

TestSuite(put_off, .init = begin, .fini = end);

static struct heap_block take(uint64_t bytes, uint32_t owner)
{
    struct heap_block b = {0};
    cr_assert_eq(heap_take(heap, bytes, owner, &b), STATUS_OK);
    memset(b.data, 1, b.bytes);
    return b;
}

static void on_its_way(uint64_t bytes)
{
    struct heap_block b = take(bytes, 1);
    heap->releaser.runs = true;
    heap_release(heap, &b);
    cr_assert_eq(heap->bytes_releasing, bytes);
}

static void go(void)
{
    heap->releaser.runs = false;
    cr_assert_eq(heap_start_releaser(heap), STATUS_OK);
}

static void expect_told(void)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    cr_assert_eq(sem_timedwait(&told, &end), 0, "nobody was told");
}

Test(put_off, large_take_fails_for_now_and_its_thread_is_told)
{
    struct heap_block b = {0};
    on_its_way(48 * MIB);
    cr_assert_not(heap_put_off(heap));
    cr_assert_eq(heap_take(heap, 40 * MIB, 2, &b), STATUS_UNAVAILABLE);
    cr_assert(!b.data && heap_usage(heap).bytes_used == 0 && heap_owner_bytes(heap, 2) == 0);
    cr_assert(heap_put_off(heap) && !heap_put_off(heap));
    cr_assert_not(heap_freed(heap));
    go();
    expect_told();
    cr_assert(heap_freed(heap) && !heap_freed(heap));
    b = take(40 * MIB, 2);
    heap_give(heap, &b);
}

/* What is there is enough, or can never be. */
Test(put_off, take_that_need_not_wait_is_as_ever)
{
    struct heap_block b = {0};
    on_its_way(16 * MIB);
    b = take(40 * MIB, 2);
    cr_assert_eq(heap_take(heap, 65 * MIB, 2, &(struct heap_block){0}), STATUS_RESOURCE_EXHAUSTED);
    cr_assert_not(heap_put_off(heap));
    heap_give(heap, &b);
}

Test(put_off, small_take_waits_for_a_piece)
{
    struct heap_block b = take(63 * MIB, 1);
    go();
    heap_release(heap, &b);
    b = take(3 * MIB / 2, 2);
    cr_assert_not(heap_put_off(heap));
    heap_give(heap, &b);
}

static void *take_much(void *status)
{
    struct heap_block b = {0};
    *(enum status *)status = heap_take(heap, 40 * MIB, 2, &b);
    heap_give(heap, &b);
    return NULL;
}

Test(put_off, other_threads_wait)
{
    pthread_t other;
    enum status st = STATUS_INTERNAL;
    on_its_way(48 * MIB);
    cr_assert_eq(pthread_create(&other, NULL, take_much, &st), 0);
    go();
    pthread_join(other, NULL);
    cr_assert_eq(st, STATUS_OK);
}

/* What is kept for reuse is sent on its way, too, as far as it is needed. */
Test(put_off, kept_blocks_are_given_up)
{
    struct heap_block kept[4];
    for (int i = 0; i < 4; i++)
        kept[i] = take(8 * MIB, 1);
    for (int i = 0; i < 4; i++)
        heap_give(heap, &kept[i]);
    on_its_way(16 * MIB);
    cr_assert_eq(heap_usage(heap).bytes_cached, 32 * MIB);
    cr_assert_eq(heap_take_fresh(heap, 40 * MIB, 2, &kept[0]), STATUS_UNAVAILABLE);
    cr_assert_eq(heap->bytes_releasing, 24 * MIB);
    cr_assert_eq(heap_usage(heap).bytes_cached, 24 * MIB);
    go();
    expect_told();
    cr_assert_eq(heap_take_fresh(heap, 40 * MIB, 2, &kept[0]), STATUS_OK);
    heap_give(heap, &kept[0]);
}

/* The block that was kept for its owner is too small by what does not fit: it is kept on. */
Test(put_off, block_that_would_have_been_used_again_is_kept)
{
    struct heap_block b = take(20 * MIB, 2);
    heap_give(heap, &b);
    on_its_way(40 * MIB);
    cr_assert_eq(heap_take(heap, 30 * MIB, 2, &b), STATUS_UNAVAILABLE);
    cr_assert_eq(heap_usage(heap).bytes_used, 0);
    cr_assert_eq(heap_usage(heap).bytes_cached, 20 * MIB);
    go();
    expect_told();
    b = take(30 * MIB, 2);
    heap_give(heap, &b);
}

Test(put_off, growth_fails_for_now)
{
    struct heap_block b = {0};
    cr_assert_eq(heap_take_begun(heap, 48 * MIB, 4 * MIB, 2, &b), STATUS_OK);
    on_its_way(48 * MIB);
    cr_assert_eq(heap_grow(heap, &b, 40 * MIB), STATUS_UNAVAILABLE);
    cr_assert(b.bytes == 4 * MIB && heap_owner_bytes(heap, 2) == 4 * MIB && heap_put_off(heap));
    go();
    expect_told();
    cr_assert_eq(heap_grow(heap, &b, 40 * MIB), STATUS_OK);
    heap_give(heap, &b);
}
