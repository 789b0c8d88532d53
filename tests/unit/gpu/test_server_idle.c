/* A GPU process that has nothing to do: what it asks its driver then, on a clock that is set. */
#include <criterion/criterion.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/device.h"
#include "daemon/gpu/server.h"
#include "daemon/gpu/watch.h"
#include "daemon/heap/share.h"

#define MS UINT64_C(1000000)

enum { HEAP_BYTES = 1 << 20 };

static uint64_t now_ns = 1000 * MS;
static unsigned asked;
static struct device_ops counted;

static uint64_t read_now(void *owner)
{
    return now_ns;
}

static enum device_result ask(struct device *d, uint64_t *free_bytes, uint64_t *total_bytes)
{
    asked++;
    return device_sim.memory(d, free_bytes, total_bytes);
}

/* moves: something does now and then, as orders would. */
static void turn_for_10_s(struct gpu *g, struct share *share, bool moves)
{
    for (int turns = 0; turns < 1000; turns++) {
        cr_assert_eq(server_turn(g), SERVER_IDLE);
        cr_assert_eq(atomic_load(&share->heartbeat_ns), now_ns);
        if (moves) watch_moved(g);
        now_ns += 10 * MS;
    }
}

Test(server_idle, asks_the_driver_once_a_second_and_seldom_when_at_rest)
{
    static const struct clock clock = {read_now, NULL};
    struct share *share;
    int share_fd, heap_fd = memfd_create("idle", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(heap_fd, HEAP_BYTES), 0);
    cr_assert_eq(share_create(HEAP_BYTES, ENGRAM_VERSION, &share_fd, &share), STATUS_OK);
    counted = device_sim;
    counted.memory = ask;
    struct server_options options = {.ops = &counted,
                                     .clock = &clock,
                                     .device.which = "vram_mib=64",
                                     .share = share,
                                     .heap_fd = heap_fd,
                                     .orders_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                                     .completions_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                                     .lifeline_fd = -1,
                                     .streams = 2,
                                     .memory_percent = 75};
    struct failure f = {0};
    struct gpu *g;
    cr_assert_eq(server_open(&options, &g, &f), STATUS_OK, "%s", f.text);
    uint64_t free_bytes = atomic_load(&share->usage.free_bytes);
    asked = 0;
    turn_for_10_s(g, share, true);
    cr_expect(asked >= 9 && asked <= 11, "%u times in 10 s", asked);
    turn_for_10_s(g, share, false);
    asked = 0;
    turn_for_10_s(g, share, false);
    cr_expect_eq(asked, 2, "%u times in 10 s", asked);
    cr_expect_eq(atomic_load(&share->usage.free_bytes), free_bytes);
    server_close(g);
}
