/* Two of the simulated device's ranges over the same contents: what they take, what they show, and
 * what nobody may do to them. tests/gpu/gpu_device.c holds the contract against every device. */
#include <signal.h>

#include "tests/unit/gpu/sim_rig.h"

enum { GRANULE = 65536 };

static uint64_t free_bytes(struct rig *r)
{
    uint64_t now, total;
    cr_assert_eq(device_sim.memory(r->d, &now, &total), DEVICE_OK);
    return now;
}

static void fill(struct rig *r, char *at, uint64_t bytes, int value)
{
    char *host = rig_pinned(r, bytes);
    memset(host, value, bytes);
    cr_assert_eq(device_sim.copy_in(r->d, at, host, bytes, r->stream), DEVICE_OK);
    rig_wait(r);
    device_sim.host_release(r->d, host);
}

static void expect(struct rig *r, const char *at, uint64_t bytes, int value)
{
    static unsigned char got[4 * MIB];
    rig_download(r, got, at, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        cr_assert_eq(got[i], value, "byte %llu", (unsigned long long)i);
}

/* A range of `count` granules, filled with 'a'. */
static void make(struct rig *r, const char *settings, uint64_t count, struct device_range *out)
{
    rig_open(r, settings);
    *out = (struct device_range){0};
    cr_assert_eq(device_sim.range_reserve(r->d, MIB, out), DEVICE_OK);
    cr_assert_eq(device_sim.range_resize(r->d, out, count * GRANULE), DEVICE_OK);
    fill(r, out->base, count * GRANULE, 'a');
}

Test(sim_range, takes_memory_for_what_is_written)
{
    struct rig r;
    struct device_range first, second = {0};
    make(&r, "vram_mib=1 latency_us=0 strict=1", 8, &first);
    cr_assert_eq(device_sim.range_fork(r.d, &first, 9 * GRANULE, r.stream, &second), DEVICE_OK);
    cr_assert_eq(free_bytes(&r), 7 * GRANULE);
    cr_assert_eq(second.shared, 8 * GRANULE);
    expect(&r, second.base, 8 * GRANULE, 'a');
    /* The end of one granule, a whole one, the beginning of a third. */
    uint64_t at = 2 * GRANULE - 10, bytes = GRANULE + 20, least = 3 * GRANULE;
    cr_assert_eq(device_sim.range_own(r.d, &second, at, bytes, least - 1, r.stream),
                 DEVICE_NO_MEMORY);
    cr_assert_eq(device_sim.range_own(r.d, &second, at, bytes, least, r.stream), DEVICE_OK);
    cr_assert_eq(device_sim.range_own(r.d, &second, at, bytes, 0, r.stream), DEVICE_OK);
    cr_assert_eq(free_bytes(&r), 4 * GRANULE);
    cr_assert_eq(second.shared, 5 * GRANULE);
    expect(&r, second.base, 8 * GRANULE, 'a');
    fill(&r, second.base + at, bytes, 'b');
    expect(&r, first.base, 8 * GRANULE, 'a');
    expect(&r, second.base, at, 'a');
    expect(&r, second.base + at, bytes, 'b');
    expect(&r, second.base + at + bytes, 8 * GRANULE - at - bytes, 'a');
    /* The second shrinks to what it shares and some of its own, and outlives the first. */
    cr_assert_eq(device_sim.range_resize(r.d, &second, 4 * GRANULE), DEVICE_OK);
    cr_assert_eq(second.shared, GRANULE);
    device_sim.range_release(r.d, &first);
    cr_assert(!second.twin && !second.shared);
    cr_assert_eq(free_bytes(&r), 12 * GRANULE);
    fill(&r, second.base, GRANULE, 'c');
    expect(&r, second.base + at, 2 * GRANULE - at, 'b');
    device_sim.range_release(r.d, &second);
    cr_assert_eq(free_bytes(&r), 16 * GRANULE);
    rig_close(&r);
}

/* The copy of what an own piece held stands behind earlier work, as all that is enqueued. */
Test(sim_range, copies_what_was_enqueued_before)
{
    for (int vmm = 0; vmm < 2; vmm++) {
        struct rig r;
        struct device_range first, second = {0};
        const char *settings = vmm ? "latency_us=0 strict=1" : "vmm=0 latency_us=0 strict=1";
        make(&r, settings, 2, &first);
        char *host = rig_pinned(&r, 100);
        memset(host, 'b', 100);
        cr_assert_eq(device_sim.copy_in(r.d, first.base, host, 100, r.stream), DEVICE_OK);
        cr_assert_eq(device_sim.range_fork(r.d, &first, 1, r.stream, &second), DEVICE_OK);
        cr_assert_eq(device_sim.range_own(r.d, &second, 200, 100, UINT64_MAX, r.stream), DEVICE_OK);
        cr_assert_eq(device_sim.clear(r.d, second.base + 200, 100, r.stream), DEVICE_OK);
        rig_wait(&r);
        expect(&r, second.base, 100, 'b');
        expect(&r, second.base + 100, 100, 'a');
        expect(&r, second.base + 200, 100, 0);
        expect(&r, first.base, 100, 'b');
        expect(&r, first.base + 100, GRANULE, 'a');
        device_sim.host_release(r.d, host);
        device_sim.range_release(r.d, &second);
        device_sim.range_release(r.d, &first);
        rig_close(&r);
    }
}

Test(sim_range, has_no_second_one_without_memory)
{
    struct rig r;
    struct device_range first, second = {0};
    make(&r, "vram_mib=1 latency_us=0 vmm=0", 9, &first);
    cr_assert_eq(device_sim.range_fork(r.d, &first, 9 * GRANULE, r.stream, &second),
                 DEVICE_NO_MEMORY);
    cr_assert(!first.twin && !second.base);
    cr_assert_eq(device_sim.range_fork(r.d, &first, 7 * GRANULE, r.stream, &second), DEVICE_OK);
    cr_assert_eq(free_bytes(&r), 0);
    rig_wait(&r);
    device_sim.range_release(r.d, &second);
    cr_assert_eq(device_sim.range_fork(r.d, &first, 0, r.stream, &second), DEVICE_OK);
    cr_assert(!second.base && second.twin == &first);
    device_sim.range_release(r.d, &first);
    device_sim.range_release(r.d, &second);
    cr_assert_eq(free_bytes(&r), 16 * GRANULE);
    rig_close(&r);
}

/* Both are only read as long as they share. */
static void write_shared(bool the_first)
{
    struct rig r;
    struct device_range first, second = {0};
    make(&r, "latency_us=0", 2, &first);
    device_sim.range_fork(r.d, &first, 1, r.stream, &second);
    device_sim.clear(r.d, the_first ? first.base : second.base, 10, r.stream);
}

Test(sim_range, refuses_to_write_the_first, .signal = SIGABRT)
{
    write_shared(true);
}

Test(sim_range, refuses_to_write_what_is_shared, .signal = SIGABRT)
{
    write_shared(false);
}
