/* The ring against its contract: order, bounds, nonsense from the other side, no lost wake-up. */
#include "daemon/heap/ring.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SLOTS = 8, SLOT_BYTES = 64 };

/* Both sides over the same bytes. */
struct pair {
    struct ring_lines lines;
    _Alignas(64) char slots[SLOTS * SLOT_BYTES];
    int fd;
    struct ring producer, consumer;
};

static void pair_init(struct pair *p)
{
    memset(p, 0, sizeof *p);
    p->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    cr_assert(p->fd >= 0);
    ring_init(&p->producer, &p->lines, p->slots, SLOT_BYTES, SLOTS, p->fd);
    ring_init(&p->consumer, &p->lines, p->slots, SLOT_BYTES, SLOTS, p->fd);
}

static bool put(struct ring *r, uint64_t value)
{
    uint64_t *slot = ring_reserve(r);
    if (!slot) return false;
    cr_assert_eq((void *)slot, ring_reserve(r), "the same until published");
    *slot = value;
    ring_publish(r);
    return true;
}

static bool get(struct ring *r, uint64_t *value)
{
    const uint64_t *slot = ring_peek(r);
    if (!slot) return false;
    cr_assert_eq((const void *)slot, ring_peek(r), "the same until released");
    *value = *slot;
    ring_release(r);
    return true;
}

static bool readable(int fd)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1;
}

Test(ring, is_bounded_and_in_order_round_and_round)
{
    struct pair p;
    pair_init(&p);
    uint64_t put_next = 0, got_next = 0, value;
    for (uint32_t round = 0; round < 1000; round++) {
        uint32_t wanted = round % (SLOTS + 3);
        for (uint32_t i = 0; i < wanted; i++) {
            bool room = put_next - got_next < SLOTS;
            cr_assert_eq(ring_room(&p.producer), SLOTS - (put_next - got_next));
            cr_assert_eq(put(&p.producer, put_next), room);
            put_next += room;
        }
        for (uint32_t i = 0; i < round * 7 % (SLOTS + 2); i++) {
            bool any = got_next < put_next;
            cr_assert_eq(get(&p.consumer, &value), any);
            if (any) cr_assert_eq(value, got_next);
            got_next += any;
        }
    }
    while (get(&p.consumer, &value))
        cr_assert_eq(value, got_next++);
    cr_assert_eq(got_next, put_next);
    cr_assert_eq(ring_room(&p.producer), SLOTS);
    cr_assert_not(ring_broken(&p.producer) || ring_broken(&p.consumer));
    cr_assert_not(readable(p.fd), "nobody slept, nobody was woken");
    close(p.fd);
}

Test(ring, finds_its_counters_past_two_to_the_32)
{
    struct pair p;
    pair_init(&p);
    uint64_t far = (UINT64_C(1) << 32) - 3, value;
    atomic_store(&p.lines.published, far);
    atomic_store(&p.lines.released, far);
    p.producer.mine = p.producer.seen = p.consumer.mine = p.consumer.seen = far;
    for (uint64_t i = 0; i < SLOTS; i++)
        cr_assert(put(&p.producer, i));
    cr_assert_not(put(&p.producer, 99));
    for (uint64_t i = 0; i < SLOTS; i++)
        cr_assert(get(&p.consumer, &value) && value == i);
    cr_assert_not(get(&p.consumer, &value));
    close(p.fd);
}

/* The other side's counter says more than there can be, or less than there was. */
Test(ring, knows_nonsense)
{
    static const uint64_t wrong[] = {SLOTS + 1, 1000, UINT64_MAX, UINT64_MAX - 5,
                                     UINT64_C(1) << 63};
    uint64_t value;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct pair p;
        pair_init(&p);
        atomic_store(&p.lines.published, wrong[i]);
        cr_assert_not(get(&p.consumer, &value));
        cr_assert(ring_broken(&p.consumer));
        atomic_store(&p.lines.published, 1);
        cr_assert_not(get(&p.consumer, &value), "broken is for good");
        close(p.fd);

        pair_init(&p);
        atomic_store(&p.lines.published, wrong[i]);
        cr_assert_not(ring_sleep(&p.consumer), "broken must be looked at, not slept on");
        cr_assert(ring_broken(&p.consumer));
        cr_assert_null(ring_peek(&p.consumer));
        close(p.fd);

        pair_init(&p);
        for (uint64_t n = 0; n < SLOTS; n++)
            cr_assert(put(&p.producer, n));
        /* More than was published, or further behind than there are slots. */
        atomic_store(&p.lines.released, i % 2 ? 2 * SLOTS + i : wrong[i] / 2 - SLOTS);
        cr_assert_not(put(&p.producer, 1));
        cr_assert(ring_broken(&p.producer));
        cr_assert_eq(ring_room(&p.producer), 0);
        atomic_store(&p.lines.released, SLOTS);
        cr_assert_not(put(&p.producer, 1), "broken is for good");
        cr_assert_not(put(&p.producer, 1));
        close(p.fd);
    }
}

Test(ring, wakes_only_who_sleeps)
{
    struct pair p;
    uint64_t value;
    pair_init(&p);
    cr_assert(put(&p.producer, 1));
    cr_assert_not(readable(p.fd));
    cr_assert_not(ring_sleep(&p.consumer), "there is something");
    cr_assert(get(&p.consumer, &value));
    cr_assert(ring_sleep(&p.consumer));
    cr_assert(put(&p.producer, 2));
    cr_assert(readable(p.fd));
    ring_wake(&p.consumer);
    cr_assert_not(readable(p.fd));
    cr_assert(get(&p.consumer, &value) && value == 2);
    cr_assert(put(&p.producer, 3));
    cr_assert_not(readable(p.fd), "awake again");
    ring_wake(&p.consumer); /* for another reason; nothing to clear */
    close(p.fd);
}

/* ---- two threads: every value arrives, in order, and a sleeper is always woken ---- */

enum { VALUES = 200000 };

static void *produce(void *argument)
{
    struct ring *r = argument;
    for (uint64_t i = 0; i < VALUES;) {
        if (put(r, i)) i++;
        if (i % 61 == 0) /* lets the other side run dry now and then */
            for (volatile int spin = 0; spin < 300; spin++)
                continue;
    }
    return NULL;
}

Test(ring, loses_no_wake_up, .timeout = 900)
{
    static struct pair p;
    pair_init(&p);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, produce, &p.producer), 0);
    unsigned sleeps = 0;
    for (uint64_t next = 0, value; next < VALUES;) {
        if (get(&p.consumer, &value)) {
            cr_assert_eq(value, next);
            next++;
        } else if (ring_sleep(&p.consumer)) {
            sleeps++;
            struct pollfd wait = {.fd = p.fd, .events = POLLIN};
            cr_assert_eq(poll(&wait, 1, 20000), 1, "asleep with value %d on its way", (int)next);
            ring_wake(&p.consumer);
        }
    }
    pthread_join(thread, NULL);
    cr_assert(sleeps > 0);
    cr_assert_not(ring_broken(&p.consumer) || ring_broken(&p.producer));
    close(p.fd);
}
