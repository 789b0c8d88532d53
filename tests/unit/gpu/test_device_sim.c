/* The simulated device's memory, streams and events: what a real one would give, and when. */
#include "tests/unit/gpu/sim_rig.h"

static bool all_are(const unsigned char *bytes, uint64_t count, int value)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] != value) return false;
    return true;
}

Test(device_sim, says_what_it_is)
{
    struct share_device info;
    struct device *d = NULL;
    char why[SHARE_WHY] = "";
    struct device_options options = {.which = " vram_mib=3  vmm=0 managed=0 devices=4 "};
    cr_assert_eq(device_sim.open(&options, &d, &info, why), DEVICE_OK);
    cr_assert_str_eq(info.name, "simulated GPU");
    cr_assert(info.simulated && info.capability_major == 0 && info.capability_minor == 0);
    cr_assert(info.memory_bytes == 3 * MIB && info.memory_free_bytes == 3 * MIB);
    cr_assert(info.device_count == 4 && !info.virtual_memory && !info.managed);
    cr_assert_str_eq(device_sim.name, "sim");
    device_sim.close(d);
    options.which = NULL;
    cr_assert_eq(device_sim.open(&options, &d, &info, why), DEVICE_OK);
    cr_assert(info.virtual_memory && !info.managed && info.concurrent_managed);
    device_sim.close(d);
    device_sim.close(NULL);
}

Test(device_sim, takes_no_settings_that_it_does_not_know)
{
    static const struct {
        const char *settings, *word;
    } cases[] = {{"x=1", "x=1"},
                 {"vram_mib", "'vram_mib'"},
                 {"vram_mib=", "vram_mib="},
                 {"vram_mib=0", "vram_mib=0"},
                 {"vram_mib=65537", "65537"},
                 {"vram_mib=18446744073709551617", "18446744073709551617"},
                 {"vmm=2", "vmm=2"},
                 {"vmm=1 granularity_kib=65 vmm=0", "'granularity_kib=65'"},
                 {"granularity_kib=4096", "4096"},
                 {"latency_us=-1", "latency_us=-1"},
                 {"slow=0", "slow=0"},
                 {"slow=100001", "slow=100001"},
                 {"slow_file=", "slow_file="},
                 {"latency_us=1x", "latency_us=1x"},
                 {"fail=0:error", "fail=0"},
                 {"fail=3", "fail=3"},
                 {"fail=3:", "fail=3:"},
                 {"fail=3:odd", "odd"},
                 {"fail=3-:error", "fail=3-"},
                 {"fail=+:error", "fail=+"},
                 {"fail=3:error@", "fail=3"},
                 {"fail=3:@topk", "fail=3"},
                 {"fail=3:errors@topk", "fail=3"},
                 {"fail=3:error@a_name_that_no_call_of_any_device_has", "fail=3"},
                 {"count=", "count="},
                 {"count=/nowhere/at/all", "/nowhere/at/all"},
                 {"devices=0", "no device"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device *d = NULL;
        char why[SHARE_WHY] = "";
        cr_assert_eq(rig_try(cases[i].settings, &d, why), DEVICE_ABSENT, "%s", cases[i].settings);
        cr_assert_not_null(strstr(why, cases[i].word), "%s: %s", cases[i].settings, why);
        cr_assert_null(d);
    }
    char longest[2000], why[SHARE_WHY];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    struct device *d;
    cr_assert_eq(rig_try(longest, &d, why), DEVICE_ABSENT);
    memcpy(longest, "count=", 6);
    cr_assert_eq(rig_try(longest, &d, why), DEVICE_ABSENT);
    cr_assert(strlen(why) < sizeof why);
}

/* ---- streams and events ---- */

Test(device_sim, shows_results_only_behind_a_done_event)
{
    struct rig r;
    struct rig_clock clock;
    rig_clock_init(&clock, 0);
    rig_open_at(&r, "latency_us=30000 strict=1", &clock.clock);
    char *a = rig_allocate(&r, 64), *in = rig_pinned(&r, 64), *out = rig_pinned(&r, 64);
    memset(in, 'a', 64);
    memset(out, '-', 64);
    cr_assert_eq(device_sim.event_query(r.d, r.event), DEVICE_OK, "never recorded");
    cr_assert_eq(device_sim.copy_in(r.d, a, in, 64, r.stream), DEVICE_OK);
    cr_assert_eq(device_sim.copy_out(r.d, out, a, 64, r.stream), DEVICE_OK);
    cr_assert_eq(device_sim.event_record(r.d, r.event, r.stream), DEVICE_OK);
    cr_assert_eq(device_sim.event_query(r.d, r.event), DEVICE_BUSY);
    cr_assert_eq(out[0], '-');
    clock.now_ns += 29999999;
    cr_assert_eq(device_sim.event_query(r.d, r.event), DEVICE_BUSY);
    clock.now_ns += 1;
    cr_assert_eq(out[0], '-', "nobody asked");
    memset(in, 'b', 64); /* too early: what is copied is the new */
    cr_assert_eq(device_sim.copy_out(r.d, in, a, 64, r.stream), DEVICE_OK);
    cr_assert_eq(device_sim.event_query(r.d, r.event), DEVICE_OK);
    cr_assert_eq(out[0], 'b');
    memset(in, 'c', 64);
    cr_assert_eq(device_sim.event_query(r.d, r.event), DEVICE_OK);
    cr_assert_eq(in[0], 'c', "what was enqueued behind the event is not done");
    clock.step_ns = 1000000; /* so that a wait ends */
    rig_wait(&r);
    cr_assert_eq(in[0], 'b');
    device_sim.release(r.d, a);
    device_sim.host_release(r.d, in), device_sim.host_release(r.d, out);
    rig_close(&r);
}

Test(device_sim, keeps_streams_apart)
{
    struct rig r;
    device_stream other;
    device_event done;
    rig_open(&r, "latency_us=0 strict=1");
    cr_assert_eq(device_sim.stream_create(r.d, &other), DEVICE_OK);
    cr_assert_eq(device_sim.event_create(r.d, &done), DEVICE_OK);
    char *a = rig_allocate(&r, 64), *host = rig_pinned(&r, 128);
    memcpy(host, "first", 6);
    cr_assert_eq(device_sim.copy_in(r.d, a, host, 64, r.stream), DEVICE_OK);
    memset(host + 64, '-', 64);
    cr_assert_eq(device_sim.copy_out(r.d, host + 64, a, 64, other), DEVICE_OK);
    cr_assert_eq(device_sim.event_record(r.d, done, other), DEVICE_OK);
    cr_assert_eq(device_sim.event_query(r.d, done), DEVICE_OK);
    cr_assert_neq(memcmp(host + 64, "first", 5), 0, "no order between streams");
    rig_wait(&r);
    cr_assert_eq(device_sim.copy_out(r.d, host + 64, a, 64, other), DEVICE_OK);
    cr_assert_eq(device_sim.event_record(r.d, done, other), DEVICE_OK);
    device_sim.stream_destroy(r.d, other); /* finishes what is in it */
    cr_assert_str_eq(host + 64, "first");
    cr_assert_eq(device_sim.event_query(r.d, done), DEVICE_OK);
    device_sim.event_destroy(r.d, done);
    device_sim.release(r.d, a);
    device_sim.host_release(r.d, host);
    rig_close(&r);
}

/* More than a queue holds: the oldest is done first, in order all the same. */
Test(device_sim, has_room_for_much_work)
{
    struct rig r;
    rig_open(&r, "latency_us=1000000 strict=1");
    unsigned char *a = rig_allocate(&r, 1000), *host = rig_pinned(&r, 1000);
    for (int i = 0; i < 1000; i++) {
        host[i] = (unsigned char)i;
        cr_assert_eq(device_sim.copy_in(r.d, a + i, host + i, 1, r.stream), DEVICE_OK);
    }
    cr_assert_eq(device_sim.copy_out(r.d, host, a, 1000, r.stream), DEVICE_OK);
    device_stream stream = r.stream;
    device_sim.stream_destroy(r.d, stream);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(host[i], (unsigned char)i);
    cr_assert_eq(device_sim.stream_create(r.d, &r.stream), DEVICE_OK);
    device_sim.release(r.d, a);
    device_sim.host_release(r.d, host);
    rig_close(&r);
}

/* ---- memory ---- */

static uint64_t free_bytes(struct rig *r)
{
    uint64_t now, total;
    cr_assert_eq(device_sim.memory(r->d, &now, &total), DEVICE_OK);
    cr_assert_eq(total, 4 * MIB);
    return now;
}

Test(device_sim, has_as_much_memory_as_it_was_given)
{
    struct rig r;
    rig_open(&r, "vram_mib=4 strict=1");
    void *a = rig_allocate(&r, 1), *b = rig_allocate(&r, 3 * MIB), *c = NULL;
    cr_assert_eq(free_bytes(&r), MIB - 65536);
    cr_assert_eq(device_sim.allocate(r.d, MIB, &c), DEVICE_NO_MEMORY);
    cr_assert_str_eq(device_sim.last_error(r.d), "allocate: out of memory");
    cr_assert_eq(device_sim.allocate(r.d, UINT64_MAX, &c), DEVICE_NO_MEMORY);
    cr_assert_eq(device_sim.allocate(r.d, 0, &c), DEVICE_NO_MEMORY);
    cr_assert_eq(device_sim.host_allocate(r.d, UINT64_MAX, &c), DEVICE_NO_MEMORY);
    cr_assert_null(c);
    device_sim.release(r.d, a);
    device_sim.release(r.d, b);
    device_sim.release(r.d, NULL);
    device_sim.host_release(r.d, NULL);
    cr_assert_eq(free_bytes(&r), 4 * MIB);
    for (int i = 0; i < 500; i++) {
        a = rig_allocate(&r, 4 * MIB);
        device_sim.release(r.d, a);
    }
    cr_assert_eq(free_bytes(&r), 4 * MIB);
    rig_close(&r);
}

/* A canary: whoever takes what another gave back finds what it held. */
Test(device_sim, clears_nothing_by_itself)
{
    struct rig r;
    static unsigned char bytes[MIB];
    rig_open(&r, "vram_mib=4 latency_us=0 strict=1");
    memset(bytes, 0xca, sizeof bytes);
    void *a = rig_upload(&r, bytes, MIB);
    device_sim.release(r.d, a);
    void *b = rig_allocate(&r, MIB);
    cr_assert_neq(a, b, "addresses come back late");
    memset(bytes, 0, sizeof bytes);
    rig_download(&r, bytes, b, MIB);
    cr_assert(all_are(bytes, MIB, 0xca));
    cr_assert_eq(device_sim.clear(r.d, (char *)b + 5, MIB - 10, r.stream), DEVICE_OK);
    rig_download(&r, bytes, b, MIB);
    cr_assert(all_are(bytes, 5, 0xca) && all_are(bytes + 5, MIB - 10, 0));
    cr_assert(all_are(bytes + MIB - 5, 5, 0xca));
    device_sim.release(r.d, b);
    rig_close(&r);
}

static void fill(struct rig *r, char *at, int value)
{
    char *host = rig_pinned(r, 65536);
    memset(host, value, 65536);
    cr_assert_eq(device_sim.copy_in(r->d, at, host, 65536, r->stream), DEVICE_OK);
    rig_wait(r);
    device_sim.host_release(r->d, host);
}

static void expect_fill(struct rig *r, const char *at, int value)
{
    static unsigned char bytes[65536];
    rig_download(r, bytes, at, sizeof bytes);
    cr_assert(all_are(bytes, sizeof bytes, value));
}

/* Both ways to grow: in place, and by moving. */
Test(device_sim, has_ranges_that_grow)
{
    for (int vmm = 0; vmm < 2; vmm++) {
        struct rig r;
        struct device_range range = {0}, other = {0};
        rig_open(&r, vmm ? "vram_mib=4 latency_us=0 strict=1" : "vram_mib=4 latency_us=0 vmm=0");
        cr_assert_eq(device_sim.range_moves(r.d), !vmm);
        cr_assert_eq(device_sim.range_reserve(r.d, UINT64_C(1) << 30, &range), DEVICE_OK);
        cr_assert_eq(device_sim.range_reserve(r.d, 2 * MIB, &other), DEVICE_OK);
        cr_assert(!range.base && range.bytes == 0 && range.bytes_max == UINT64_C(1) << 30);
        cr_assert_eq(free_bytes(&r), 4 * MIB);
        cr_assert_eq(device_sim.range_resize(r.d, &range, 1), DEVICE_OK);
        cr_assert_eq(range.bytes, 65536);
        fill(&r, range.base, 1);
        char *first = range.base;
        cr_assert_eq(device_sim.range_resize(r.d, &other, 65537), DEVICE_OK);
        cr_assert_eq(other.bytes, 2 * 65536);
        cr_assert_eq(device_sim.range_resize(r.d, &range, MIB), DEVICE_OK);
        cr_assert_eq(first == range.base, vmm);
        expect_fill(&r, range.base, 1);
        fill(&r, range.base + MIB - 65536, 2);
        struct device_range before = range;
        cr_assert_eq(device_sim.range_resize(r.d, &range, 4 * MIB), DEVICE_NO_MEMORY);
        cr_assert_eq(device_sim.range_resize(r.d, &other, 2 * MIB + 1), DEVICE_NO_MEMORY);
        cr_assert_eq(device_sim.range_resize(r.d, &range, UINT64_MAX - 5), DEVICE_NO_MEMORY);
        cr_assert_eq(memcmp(&before, &range, sizeof range), 0);
        expect_fill(&r, range.base + MIB - 65536, 2);
        cr_assert_eq(free_bytes(&r), 3 * MIB - 2 * 65536);
        cr_assert_eq(device_sim.range_resize(r.d, &range, 65536), DEVICE_OK);
        expect_fill(&r, range.base, 1);
        cr_assert_eq(device_sim.range_resize(r.d, &range, 0), DEVICE_OK);
        cr_assert(!range.base && range.bytes == 0);
        cr_assert_eq(device_sim.range_resize(r.d, &range, 65536), DEVICE_OK);
        device_sim.range_release(r.d, &range);
        device_sim.range_release(r.d, &range);
        device_sim.range_release(r.d, &other);
        cr_assert(!range.base && !range.inside && range.bytes_max == 0);
        cr_assert_eq(free_bytes(&r), 4 * MIB);
        rig_close(&r);
    }
}

Test(device_sim, has_addresses_for_many_ranges)
{
    enum { RANGES = 600 };
    static struct device_range ranges[RANGES];
    struct rig r;
    rig_open(&r, "vram_mib=4 granularity_kib=4 strict=1");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < RANGES; i++) {
            cr_assert_eq(device_sim.range_reserve(r.d, UINT64_C(1) << 26, &ranges[i]), DEVICE_OK);
            cr_assert_eq(device_sim.range_resize(r.d, &ranges[i], 4096), DEVICE_OK);
        }
        for (int i = 0; i < RANGES; i++)
            device_sim.range_release(r.d, &ranges[i * 7 % RANGES]);
    }
    struct device_range far = {0};
    cr_assert_eq(device_sim.range_reserve(r.d, UINT64_MAX, &far), DEVICE_NO_MEMORY);
    cr_assert_eq(free_bytes(&r), 4 * MIB);
    rig_close(&r);
}
