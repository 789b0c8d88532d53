/* gpu_device [--poison]: the contract of daemon/gpu/device.h, held against each device that this
 * build has. Exit 1: broken; 77: all that could be tried holds, but there is no CUDA device.
 * --poison: what happens after a kernel has read where nothing is; nothing else. */
#include "tests/gpu/device_kernels.h"
#include "tests/gpu/device_scene.h"

#define ABSURD (UINT64_C(1) << 60)

enum { STREAMS = 4, CYCLES = 500 };

/* ---------------------------------------------------------------- memory */

static void check_blocks(void)
{
    check_works();
    uint64_t before = free_bytes();
    void *p = device_memory(64 * MIB);
    uint64_t during = free_bytes();
    EXPECT(info.managed || (before - during >= 64 * MIB && before - during < 80 * MIB));
    ops->release(d, p);
    EXPECT_FREE(before, 0);
    ops->close(NULL);
}

static void check_absurd(void)
{
    const uint64_t sizes[] = {ABSURD, UINT64_MAX, UINT64_MAX - 4096, UINT64_C(1) << 46};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *p = &failures;
        EXPECT(ops->allocate(d, sizes[i], &p) == DEVICE_NO_MEMORY && p == (void *)&failures);
        EXPECT(strstr(ops->last_error(d), "memory"));
        if (sizes[i] < ABSURD) continue;
        EXPECT(ops->host_allocate(d, sizes[i], &p) == DEVICE_NO_MEMORY && p == (void *)&failures);
        struct device_range r = {0};
        EXPECT(ops->range_reserve(d, sizes[i], &r) == DEVICE_NO_MEMORY && !r.inside && !r.bytes);
    }
    check_works();
    /* All of the memory and more. */
    struct device_range r = {0};
    MUST(ops->range_reserve(d, 2 * info.memory_bytes, &r));
    MUST(ops->range_resize(d, &r, MIB));
    struct device_range was = r;
    uint64_t before = free_bytes();
    EXPECT(ops->range_resize(d, &r, info.memory_bytes + 4 * MIB) == DEVICE_NO_MEMORY);
    EXPECT(memcmp(&r, &was, sizeof r) == 0);
    EXPECT_FREE(before, 32 * MIB); /* page tables of all the memory */
    check_works();
    ops->range_release(d, &r);
}

/* What r holds is the first `bytes` of expected. */
static void expect_range(const struct device_range *r, const char *expected, uint64_t bytes)
{
    char *got = pinned_memory(bytes);
    MUST(ops->copy_out(d, got, r->base, bytes, stream));
    wait();
    EXPECT(memcmp(got, expected, bytes) == 0);
    ops->host_release(d, got);
}

static void check_range(void)
{
    const uint64_t sizes[] = {1, 5 * MIB, 20 * MIB, 64 * MIB};
    char *expected = pinned_memory(72 * MIB), *base = NULL;
    fill(expected, 72 * MIB, 9);
    uint64_t before = free_bytes();
    struct device_range r = {0};
    MUST(ops->range_reserve(d, 70 * MIB, &r));
    EXPECT(!r.base && r.bytes == 0 && r.bytes_max >= 70 * MIB);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t held = r.bytes;
        MUST(ops->range_resize(d, &r, sizes[i]));
        EXPECT(r.bytes >= sizes[i] && r.bytes >= held && r.bytes <= 72 * MIB && r.base);
        EXPECT(i == 0 || r.base == base || ops->range_moves(d));
        base = r.base;
        if (held) expect_range(&r, expected, held);
        MUST(ops->copy_in(d, r.base + held, expected + held, r.bytes - held, stream));
        wait();
        expect_range(&r, expected, r.bytes);
    }
    struct device_range was = r;
    EXPECT(ops->range_resize(d, &r, r.bytes_max + 1) == DEVICE_NO_MEMORY);
    EXPECT(memcmp(&r, &was, sizeof r) == 0);

    uint64_t full = free_bytes();
    MUST(ops->range_resize(d, &r, 20 * MIB));
    EXPECT(r.bytes >= 20 * MIB && r.bytes <= was.bytes);
    EXPECT(r.bytes == 20 * MIB);
    EXPECT_FREE(full + was.bytes - r.bytes, 0);
    EXPECT(r.base == base || ops->range_moves(d));
    expect_range(&r, expected, 20 * MIB);
    MUST(ops->range_resize(d, &r, 0));
    EXPECT(!r.base == !r.bytes);
    MUST(ops->range_resize(d, &r, MIB));
    EXPECT(r.base == base || ops->range_moves(d));
    MUST(ops->clear(d, r.base, MIB, stream));
    wait();
    memset(expected, 0, MIB);
    expect_range(&r, expected, MIB);
    ops->range_release(d, &r);
    EXPECT(!r.base && !r.bytes && !r.bytes_max && !r.inside);
    ops->host_release(d, expected);
    EXPECT_FREE(before, 2 * MIB); /* page tables may stay */
}

/* Writes the range's bytes [first, first + bytes), and notes them in expected. */
static void write_range(const struct device_range *r, char *expected, uint64_t first,
                        uint64_t bytes, uint32_t seed)
{
    fill(expected + first, bytes, seed);
    write_device(r->base + first, expected + first, bytes);
}

/* Two ranges over the same contents; then the one is written where it has memory of its own. */
static void check_second(bool first_goes_first)
{
    char *expected = pinned_memory(72 * MIB), *before = pinned_memory(72 * MIB);
    uint64_t start = free_bytes();
    struct device_range r = {0}, second = {0};
    bool shares = !ops->range_moves(d);
    MUST(ops->range_reserve(d, 80 * MIB, &r));
    for (uint64_t bytes = 40 * MIB; bytes <= 70 * MIB; bytes += 10 * MIB)
        MUST(ops->range_resize(d, &r, bytes));
    write_range(&r, expected, 0, 70 * MIB, 3);
    memcpy(before, expected, 70 * MIB);
    EXPECT(ops->range_fork(d, &r, 81 * MIB, stream, &second) == DEVICE_NO_MEMORY && !r.twin);
    MUST(ops->range_fork(d, &r, 72 * MIB, stream, &second));
    EXPECT(second.base && second.base != r.base && second.bytes >= 72 * MIB);
    EXPECT(second.twin == &r && r.twin == &second && !r.shared);
    EXPECT(second.shared == (shares ? 70 * MIB : 0));
    expect_range(&second, expected, 70 * MIB);
    EXPECT(!shares || ops->range_own(d, &second, 0, 1, 0, stream) == DEVICE_NO_MEMORY);
    MUST(ops->range_own(d, &second, 5 * MIB + 64, 0, 0, stream));
    EXPECT(second.shared == (shares ? 70 * MIB : 0));
    /* Inside a piece, and across the border of two. */
    MUST(ops->range_own(d, &second, 5 * MIB + 64, 1000, UINT64_MAX, stream));
    write_range(&second, expected, 5 * MIB + 64, 1000, 4);
    MUST(ops->range_own(d, &second, 39 * MIB, 2 * MIB, UINT64_MAX, stream));
    write_range(&second, expected, 39 * MIB, 2 * MIB, 5);
    MUST(ops->range_own(d, &second, 70 * MIB, MIB, 0, stream)); /* it has that already */
    EXPECT(!shares || (second.shared > 0 && second.shared < 70 * MIB));
    expect_range(&r, before, 70 * MIB);
    expect_range(&second, expected, 70 * MIB);
    if (first_goes_first) ops->range_release(d, &r);
    if (!first_goes_first) ops->range_release(d, &second);
    struct device_range *left = first_goes_first ? &second : &r;
    EXPECT(!left->twin && !left->shared);
    expect_range(left, first_goes_first ? expected : before, 70 * MIB);
    write_range(left, expected, 0, 70 * MIB, 6);
    MUST(ops->range_resize(d, left, 78 * MIB));
    MUST(ops->range_resize(d, left, 20 * MIB));
    expect_range(left, expected, 20 * MIB);
    ops->range_release(d, left);
    ops->host_release(d, expected);
    ops->host_release(d, before);
    EXPECT_FREE(start, 2 * MIB);
}

static void cycle(void)
{
    struct device_range r = {0};
    device_stream s = NULL;
    device_event e = NULL;
    MUST(ops->range_reserve(d, 1024 * MIB, &r));
    MUST(ops->range_resize(d, &r, 1));
    MUST(ops->range_resize(d, &r, 3 * r.bytes));
    MUST(ops->range_resize(d, &r, 24 * MIB));
    ops->range_release(d, &r);
    void *p = device_memory(MIB), *pinned = pinned_memory(65536);
    MUST(ops->stream_create(d, &s));
    MUST(ops->event_create(d, &e));
    MUST(ops->copy_in(d, p, pinned, 65536, s));
    MUST(ops->event_record(d, e, s));
    MUST(wait_for(e));
    ops->event_destroy(d, e);
    ops->stream_destroy(d, s);
    ops->host_release(d, pinned);
    ops->release(d, p);
}

static void check_cycles(void)
{
    cycle();
    uint64_t before = free_bytes(), start = clock_now_ns();
    for (int i = 0; i < CYCLES; i++)
        cycle();
    printf("%s: %d cycles, %.2f ms each\n", ops->name, CYCLES,
           (double)(clock_now_ns() - start) / 1e6 / CYCLES);
    EXPECT_FREE(before, 0);
}

/* ---------------------------------------------------------------- streams */

/* Four streams at once: in, a part cleared, out; each stream in its order. */
static void check_streams(void)
{
    enum { BYTES = 8 << 20, HOLE = 4096, HOLE_AT = 12345 * 64 };
    device_stream streams[STREAMS];
    device_event before[STREAMS], after[STREAMS];
    char *sent[STREAMS], *got[STREAMS], *memory[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        MUST(ops->stream_create(d, &streams[i]));
        MUST(ops->event_create(d, &before[i]));
        MUST(ops->event_create(d, &after[i]));
        memory[i] = device_memory(BYTES);
        sent[i] = pinned_memory(BYTES);
        got[i] = pinned_memory(BYTES);
        fill(sent[i], BYTES, 100 + (uint64_t)i);
        memset(got[i], 0xee, BYTES);
    }
    for (int i = 0; i < STREAMS; i++) {
        MUST(ops->copy_in(d, memory[i], sent[i], BYTES, streams[i]));
        MUST(ops->event_record(d, before[i], streams[i]));
        MUST(ops->clear(d, memory[i] + HOLE_AT, HOLE, streams[i]));
        MUST(ops->clear(d, memory[i], 0, streams[i]));
        MUST(ops->copy_in(d, memory[i], sent[i], 0, streams[i]));
        MUST(ops->copy_out(d, got[i], memory[i], BYTES, streams[i]));
        MUST(ops->event_record(d, after[i], streams[i]));
    }
    for (int i = STREAMS - 1; i >= 0; i--) {
        MUST(wait_for(after[i]));
        EXPECT(ops->event_query(d, before[i]) == DEVICE_OK);
        memset(sent[i] + HOLE_AT, 0, HOLE);
        EXPECT(memcmp(sent[i], got[i], BYTES) == 0);
    }
    for (int i = 0; i < STREAMS; i++) {
        ops->release(d, memory[i]);
        ops->host_release(d, sent[i]), ops->host_release(d, got[i]);
        ops->event_destroy(d, before[i]), ops->event_destroy(d, after[i]);
        ops->stream_destroy(d, streams[i]);
    }
}

/* ---------------------------------------------------------------- all of it */

static void check_all(void)
{
    check_blocks();
    check_streams();
    check_range();
    check_second(true);
    check_second(false);
    check_kernels();
    check_absurd();
    check_cycles();
    printf("%s%s: %d failed\n", ops->name, info.managed ? " (managed)" : "", failures);
    fflush(stdout);
}

/* Ordinals that are not there. */
static void check_refusals(void)
{
    const char *const which[] = {"99", "x", "-1", "", "0x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        char why[SHARE_WHY] = "";
        struct device *none = NULL;
        struct share_device unused;
        struct device_options options = {.which = which[i]};
        EXPECT(device_cuda->open(&options, &none, &unused, why) == DEVICE_ABSENT);
        EXPECT(why[0] && !none && !strchr(why, '\n'));
        printf("which \"%s\": %s\n", which[i], why);
    }
}

static int poison(void)
{
    if (!open_device(device_cuda, "0", false)) return SKIPPED;
    float *scores = device_memory(4096);
    struct cuda_rows rows = {32, (const float *)UINT64_C(0x4000), scores, 1000};
    struct cuda_queries query = {scores, scores, 1};
    enum device_result result =
        ops->launch(d,
                    CALL(.kernel = KERNEL_SCAN, .metric = METRIC_DOT, .queries = query,
                         .rows = rows, .scores.out = scores),
                    stream);
    EXPECT(result == DEVICE_OK);
    result = ops->event_record(d, event, stream);
    if (!result) result = wait_for(event);
    EXPECT(result == DEVICE_STICKY);
    printf("poisoned: %s\n", ops->last_error(d));
    EXPECT(strstr(ops->last_error(d), ": "));
    uint64_t a = 0, b = 0;
    void *p = NULL;
    device_stream s = NULL;
    device_event e = NULL;
    struct device_range r = {0};
    EXPECT(ops->event_query(d, event) == DEVICE_STICKY);
    EXPECT(ops->memory(d, &a, &b) == DEVICE_STICKY);
    EXPECT(ops->allocate(d, 4096, &p) == DEVICE_STICKY);
    EXPECT(ops->host_allocate(d, 4096, &p) == DEVICE_STICKY);
    EXPECT(ops->range_reserve(d, 4096, &r) == DEVICE_STICKY);
    EXPECT(ops->stream_create(d, &s) == DEVICE_STICKY);
    EXPECT(ops->event_create(d, &e) == DEVICE_STICKY);
    EXPECT(ops->clear(d, scores, 4096, stream) == DEVICE_STICKY);
    EXPECT(ops->launch(d,
                       CALL(.kernel = KERNEL_SCAN, .metric = METRIC_DOT, .queries = query,
                            .rows = rows, .scores.out = scores),
                       stream) == DEVICE_STICKY);
    ops->release(d, scores);
    close_device();
    char why[SHARE_WHY] = "";
    struct device_options options = {.which = "0"};
    result = device_cuda->open(&options, &d, &info, why);
    printf("opened again in this process: %d: %s\n", (int)result, why);
    EXPECT(result == DEVICE_STICKY && why[0]);
    return failures != 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--poison") == 0) return poison();
#if __has_include("daemon/gpu/device_sim.c")
    const char *const simulated[] = {"vram_mib=1024 strict=1", "vram_mib=1024 vmm=0 strict=1"};
    for (int i = 0; i < 4; i++)
        if (open_device(&device_sim, simulated[i / 2], i % 2)) check_all(), close_device();
#endif
    if (!open_device(device_cuda, "0", false)) return failures ? 1 : SKIPPED;
    check_refusals();
    check_all();
    close_device();
    if (open_device(device_cuda, "0", true)) check_all(), close_device();
    printf("device: %s\n", failures ? "FAIL" : "ok");
    return failures != 0;
}
