/* sim_rig: a simulated device for one test, and what every test does with it.
 * Owner:  the test. Thread: one.
 * Errors: what fails fails the test. */
#ifndef ENGRAM_TESTS_GPU_SIM_RIG_H
#define ENGRAM_TESTS_GPU_SIM_RIG_H

#include <criterion/criterion.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/gpu/device.h"
#include "tests/support/kernel_call.h"

enum { MIB = 1 << 20 };

/* A clock that the test moves, and that moves by step_ns at each look. */
struct rig_clock {
    struct clock clock;
    uint64_t now_ns, step_ns;
};

static inline uint64_t rig_clock_read(void *owner)
{
    struct rig_clock *c = owner;
    return c->now_ns += c->step_ns;
}

static inline void rig_clock_init(struct rig_clock *c, uint64_t step_ns)
{
    *c = (struct rig_clock){{rig_clock_read, c}, UINT64_C(1000000000), step_ns};
}

struct rig {
    struct device *d;
    device_stream stream;
    device_event event;
};

static inline enum device_result rig_try(const char *settings, struct device **d, char *why)
{
    struct share_device info;
    struct device_options options = {.which = settings};
    return device_sim.open(&options, d, &info, why);
}

/* clock: NULL: the real one. */
static inline void rig_open_at(struct rig *r, const char *settings, const struct clock *clock)
{
    char why[SHARE_WHY] = "";
    struct share_device info;
    struct device_options options = {.which = settings, .clock = clock};
    *r = (struct rig){0};
    cr_assert_eq(device_sim.open(&options, &r->d, &info, why), DEVICE_OK, "%s", why);
    cr_assert_eq(device_sim.stream_create(r->d, &r->stream), DEVICE_OK);
    cr_assert_eq(device_sim.event_create(r->d, &r->event), DEVICE_OK);
}

static inline void rig_open(struct rig *r, const char *settings)
{
    rig_open_at(r, settings, NULL);
}

static inline void rig_close(struct rig *r)
{
    device_sim.event_destroy(r->d, r->event);
    device_sim.stream_destroy(r->d, r->stream);
    device_sim.close(r->d);
}

static inline void rig_wait(struct rig *r)
{
    enum device_result result;
    cr_assert_eq(device_sim.event_record(r->d, r->event, r->stream), DEVICE_OK);
    while ((result = device_sim.event_query(r->d, r->event)) == DEVICE_BUSY)
        continue;
    cr_assert_eq(result, DEVICE_OK);
}

static inline void *rig_allocate(struct rig *r, uint64_t bytes)
{
    void *address = NULL;
    cr_assert_eq(device_sim.allocate(r->d, bytes, &address), DEVICE_OK);
    return address;
}

static inline void *rig_pinned(struct rig *r, uint64_t bytes)
{
    void *address = NULL;
    cr_assert_eq(device_sim.host_allocate(r->d, bytes, &address), DEVICE_OK);
    return address;
}

/* Device memory with these bytes in it. */
static inline void *rig_upload(struct rig *r, const void *from, uint64_t bytes)
{
    if (bytes == 0) return NULL;
    void *address = rig_allocate(r, bytes), *pinned = rig_pinned(r, bytes);
    memcpy(pinned, from, bytes);
    cr_assert_eq(device_sim.copy_in(r->d, address, pinned, bytes, r->stream), DEVICE_OK);
    rig_wait(r);
    device_sim.host_release(r->d, pinned);
    return address;
}

static inline void rig_download(struct rig *r, void *to, const void *address, uint64_t bytes)
{
    void *pinned = rig_pinned(r, bytes);
    cr_assert_eq(device_sim.copy_out(r->d, pinned, address, bytes, r->stream), DEVICE_OK);
    rig_wait(r);
    memcpy(to, pinned, bytes);
    device_sim.host_release(r->d, pinned);
}

#endif
