/* The simulated device made slow: kernels take as many times as long, the device thread does not.
 * Its clock moves by one STEP at each look, so a kernel takes one STEP and a wait is as many
 * looks. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/gpu/sim_rig.h"

enum { ROWS = 200, DIMENSION = 64, STEP = 1000, SLOW = 50 };

struct scene {
    struct rig_clock clock;
    struct rig rig;
    struct cuda_rows rows;
    float *norms;
    uint64_t busy; /* times that the device was asked too early, of the last run */
};

static void scene_open(struct scene *s, const char *settings)
{
    rig_clock_init(&s->clock, STEP);
    rig_open_at(&s->rig, settings, &s->clock.clock);
    float *rows = calloc(ROWS, DIMENSION * sizeof *rows);
    s->rows = (struct cuda_rows){
        DIMENSION, rig_upload(&s->rig, rows, ROWS * DIMENSION * sizeof *rows), NULL, ROWS};
    s->norms = rig_allocate(&s->rig, ROWS * sizeof(float));
    free(rows);
}

static void scene_close(struct scene *s)
{
    device_sim.release(s->rig.d, (void *)s->rows.rows);
    device_sim.release(s->rig.d, s->norms);
    rig_close(&s->rig);
}

/* Returns the looks at the clock from launch to the done event. */
static uint64_t run_steps(struct scene *s)
{
    struct rig *r = &s->rig;
    enum device_result result;
    uint64_t start_ns = s->clock.now_ns;
    cr_assert_eq(
        device_sim.launch(
            r->d, CALL(.kernel = KERNEL_NORMS, .rows = s->rows, .norms.out = s->norms), r->stream),
        DEVICE_OK);
    cr_assert_eq(device_sim.event_record(r->d, r->event, r->stream), DEVICE_OK);
    s->busy = 0;
    while ((result = device_sim.event_query(r->d, r->event)) == DEVICE_BUSY)
        s->busy++;
    cr_assert_eq(result, DEVICE_OK);
    return (s->clock.now_ns - start_ns) / STEP;
}

/* A kernel takes `factor` steps; a few looks more are those of its launch and its event. */
static void expect_factor(struct scene *s, uint64_t factor, const char *why)
{
    enum { OTHERS = 6 };
    uint64_t steps = run_steps(s);
    cr_assert(steps >= factor && steps < factor + OTHERS, "%s: %llu steps, not %llu", why,
              (unsigned long long)steps, (unsigned long long)factor);
    cr_assert(factor == 1 ? s->busy == 0 : s->busy > factor / 2, "%s: asked %llu times in vain",
              why, (unsigned long long)s->busy);
}

#define SIM "latency_us=0 strict=1 vram_mib=64"

Test(sim_slow, kernels_take_as_many_times_as_long)
{
    struct scene s;
    scene_open(&s, SIM);
    expect_factor(&s, 1, "plain");
    scene_close(&s);
    scene_open(&s, SIM " slow=50");
    expect_factor(&s, SLOW, "slow=50");
    uint64_t start_ns = s.clock.now_ns;
    char byte = 1;
    device_sim.release(s.rig.d, rig_upload(&s.rig, &byte, 1)); /* copies are as they were */
    cr_assert_lt(s.clock.now_ns - start_ns, SLOW / 2 * STEP);
    scene_close(&s);
}

Test(sim_slow, streams_wait_for_each_other)
{
    struct scene s;
    scene_open(&s, SIM " slow=50");
    device_stream other = NULL;
    device_event event = NULL;
    cr_assert_eq(device_sim.stream_create(s.rig.d, &other), DEVICE_OK);
    cr_assert_eq(device_sim.event_create(s.rig.d, &event), DEVICE_OK);
    uint64_t start_ns = s.clock.now_ns;
    device_sim.launch(s.rig.d, CALL(.kernel = KERNEL_NORMS, .rows = s.rows, .norms.out = s.norms),
                      s.rig.stream);
    device_sim.launch(s.rig.d, CALL(.kernel = KERNEL_NORMS, .rows = s.rows, .norms.out = s.norms),
                      other);
    device_sim.event_record(s.rig.d, s.rig.event, s.rig.stream);
    device_sim.event_record(s.rig.d, event, other);
    cr_assert_eq(device_sim.event_query(s.rig.d, s.rig.event), DEVICE_BUSY);
    while (device_sim.event_query(s.rig.d, event) == DEVICE_BUSY)
        continue;
    cr_assert_geq(s.clock.now_ns - start_ns, 2 * SLOW * STEP);
    cr_assert_eq(device_sim.event_query(s.rig.d, s.rig.event), DEVICE_OK);
    device_sim.event_destroy(s.rig.d, event);
    device_sim.stream_destroy(s.rig.d, other);
    scene_close(&s);
}

enum { LOOK_NS = 10000000 }; /* so often the file is looked at */

static void write_file(struct scene *s, const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
    s->clock.now_ns += LOOK_NS;
}

Test(sim_slow, a_file_says_how_slow)
{
    char path[64], settings[128];
    snprintf(path, sizeof path, "/tmp/sim_slow.%d", (int)getpid());
    snprintf(settings, sizeof settings, SIM " slow_file=%s", path);
    struct scene s;
    scene_open(&s, settings);
    expect_factor(&s, 1, "no file");
    write_file(&s, path, "50\n");
    expect_factor(&s, SLOW, "50");
    static const char *const none[] = {"", "no number", "0", "999999999"};
    for (int n = 0; n < 4; n++) {
        write_file(&s, path, none[n]);
        expect_factor(&s, 1, none[n]);
    }
    write_file(&s, path, "50 times");
    expect_factor(&s, SLOW, "50 times");
    unlink(path);
    expect_factor(&s, SLOW, "gone, but not looked at yet");
    s.clock.now_ns += LOOK_NS;
    expect_factor(&s, 1, "gone");
    scene_close(&s);
}

/* An event that is asked for again and again is one call. */
Test(sim_slow, faults_come_at_the_same_calls)
{
    struct scene s;
    scene_open(&s, SIM " slow=50 fail=3:error@event_query"); /* the first was the upload's */
    run_steps(&s);
    cr_assert(s.busy > 10);
    struct rig *r = &s.rig;
    cr_assert_eq(
        device_sim.launch(r->d, CALL(.kernel = KERNEL_NORMS, .rows = s.rows, .norms.out = s.norms),
                          r->stream),
        DEVICE_OK);
    cr_assert_eq(device_sim.event_record(r->d, r->event, r->stream), DEVICE_OK);
    cr_assert_eq(device_sim.event_query(r->d, r->event), DEVICE_ERROR);
    while (device_sim.event_query(r->d, r->event) == DEVICE_BUSY)
        continue;
    scene_close(&s);
}
