/* device_scene: the device table under test, and what its checks share.
 * Owner:  included by gpu_device.c and its parts; everything is static, one device at a time.
 * Thread: one.
 * Errors: EXPECT counts what does not hold and goes on; MUST ends the program, exit 1. */
#ifndef ENGRAM_TESTS_GPU_DEVICE_SCENE_H
#define ENGRAM_TESTS_GPU_DEVICE_SCENE_H

#include "daemon/base/clock.h"
#include "daemon/gpu/device.h"
#include "tests/kernels/samples.h"
#include "tests/support/kernel_call.h"

#include <stdio.h>

#define MIB (UINT64_C(1) << 20)

enum { SKIPPED = 77 };

static const struct device_ops *ops;
static struct device *d;
static struct share_device info;
static device_stream stream;
static device_event event;
static int failures;

static bool expect_at(bool holds, const char *what, const char *file, int line)
{
    if (holds) return true;
    printf("FAIL %s:%d: %s (%s)\n", file, line, what, d ? ops->last_error(d) : "");
    fflush(stdout);
    failures++;
    return false;
}
#define EXPECT(condition) expect_at((condition), #condition, __FILE__, __LINE__)
/* What all that follows needs. */
#define MUST(call) (void)(expect_at((call) == DEVICE_OK, #call, __FILE__, __LINE__) || (exit(1), 0))

/* ---------------------------------------------------------------- helpers */

static enum device_result wait_for(device_event e)
{
    uint64_t limit = clock_now_ns() + UINT64_C(20000000000);
    enum device_result result = DEVICE_BUSY;
    while (result == DEVICE_BUSY && clock_now_ns() < limit)
        result = ops->event_query(d, e);
    return result;
}

static void wait(void)
{
    MUST(ops->event_record(d, event, stream));
    MUST(wait_for(event));
}

static void *device_memory(uint64_t bytes)
{
    void *p = NULL;
    MUST(ops->allocate(d, bytes, &p));
    return p;
}

static void *pinned_memory(uint64_t bytes)
{
    void *p = NULL;
    MUST(ops->host_allocate(d, bytes, &p));
    return p;
}

static void write_device(void *to, const void *from, uint64_t bytes)
{
    void *pinned = pinned_memory(bytes);
    memcpy(pinned, from, bytes);
    MUST(ops->copy_in(d, to, pinned, bytes, stream));
    wait();
    ops->host_release(d, pinned);
}

static void *device_copy(const void *from, uint64_t bytes)
{
    void *p = device_memory(bytes);
    write_device(p, from, bytes);
    return p;
}

static void read_device(void *to, const void *from, uint64_t bytes)
{
    void *pinned = pinned_memory(bytes);
    MUST(ops->copy_out(d, pinned, from, bytes, stream));
    wait();
    memcpy(to, pinned, bytes);
    ops->host_release(d, pinned);
}

static uint64_t free_bytes(void)
{
    uint64_t unused = 0, total = 0;
    MUST(ops->memory(d, &unused, &total));
    EXPECT(unused <= total && total > 0);
    return unused;
}

/* What is free now is what was free before, give or take what the driver may keep for itself. Of
 * unified memory that tells nothing: pages come and go as the driver sees fit. */
static bool expect_free_at(uint64_t before, uint64_t slack, const char *file, int line)
{
    if (info.managed) return true;
    uint64_t now = free_bytes(), apart = now > before ? now - before : before - now;
    if (apart) printf("%s:%d: %lld bytes fewer are free\n", file, line, (long long)(before - now));
    return expect_at(apart <= slack, "memory is free again", file, line);
}
#define EXPECT_FREE(before, slack) expect_free_at((before), (slack), __FILE__, __LINE__)

static void fill(char *bytes, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i + 8 <= count; i += 8) {
        uint64_t word = sample_random(&seed);
        memcpy(bytes + i, &word, 8);
    }
}

/* A byte more or less goes there and back. */
static void check_works(void)
{
    char sent[4096], got[4096];
    fill(sent, sizeof sent, 5);
    void *p = device_copy(sent, sizeof sent);
    read_device(got, p, sizeof got);
    EXPECT(memcmp(sent, got, sizeof sent) == 0);
    ops->release(d, p);
}

static bool open_device(const struct device_ops *table, const char *which, bool managed)
{
    char why[SHARE_WHY] = "";
    struct device_options options = {.which = which, .managed = managed};
    ops = table, d = NULL;
    memset(&info, 0, sizeof info);
    uint64_t start = clock_now_ns();
    enum device_result result = ops->open(&options, &d, &info, why);
    double ms = (double)(clock_now_ns() - start) / 1e6;
    if (result == DEVICE_ABSENT) {
        printf("%s: SKIP: %s\n", ops->name, why);
        EXPECT(why[0] && !d);
        return false;
    }
    if (result) {
        printf("FAIL %s: open: %d: %s\n", ops->name, (int)result, why);
        exit(1);
    }
    printf(
        "%s: %s, %s, capability %u.%u, %u multiprocessors, driver %u, runtime %u, %u devices, "
        "%.1f of %.1f GiB free, ecc %u, managed %u of %u, virtual memory %u, opened in %.0f ms\n",
        ops->name, info.name, info.uuid, info.capability_major, info.capability_minor,
        info.multiprocessors, info.driver_version, info.runtime_version, info.device_count,
        (double)info.memory_free_bytes / (double)(1024 * MIB),
        (double)info.memory_bytes / (double)(1024 * MIB), info.ecc, info.managed,
        info.concurrent_managed, info.virtual_memory, ms);
    EXPECT(d->ops == ops && info.name[0] && info.device_count > 0);
    EXPECT(info.memory_bytes > 0 && info.memory_free_bytes <= info.memory_bytes);
    EXPECT(info.virtual_memory == !ops->range_moves(d));
    EXPECT(!info.managed || managed);
    MUST(ops->stream_create(d, &stream));
    MUST(ops->event_create(d, &event));
    fflush(stdout);
    return true;
}

static void close_device(void)
{
    ops->event_destroy(d, event);
    ops->stream_destroy(d, stream);
    ops->close(d);
    d = NULL;
}

#endif
