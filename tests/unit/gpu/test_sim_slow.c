/* The simulated device made slow: kernels take as many times as long, the device thread does not. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "tests/unit/gpu/sim_rig.h"

enum { ROWS = 20000, DIMENSION = 64 };

struct scene {
    struct rig rig;
    struct cuda_rows rows;
    float *norms;
    uint64_t busy; /* times that the device was asked too early, of the last run */
};

static void scene_open(struct scene *s, const char *settings)
{
    rig_open(&s->rig, settings);
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

/* From launch to the done event. */
static uint64_t run_ns(struct scene *s)
{
    struct rig *r = &s->rig;
    enum device_result result;
    uint64_t start_ns = clock_now_ns();
    cr_assert_eq(
        device_sim.launch(
            r->d, CALL(.kernel = KERNEL_NORMS, .rows = s->rows, .norms.out = s->norms), r->stream),
        DEVICE_OK);
    cr_assert_eq(device_sim.event_record(r->d, r->event, r->stream), DEVICE_OK);
    s->busy = 0;
    while ((result = device_sim.event_query(r->d, r->event)) == DEVICE_BUSY)
        s->busy++;
    cr_assert_eq(result, DEVICE_OK);
    return clock_now_ns() - start_ns;
}

/* The shortest of several: others' work on this machine makes runs longer, never shorter. */
static uint64_t least_ns(struct scene *s)
{
    uint64_t least = UINT64_MAX;
    for (int n = 0; n < 9; n++) {
        uint64_t now = run_ns(s);
        if (now < least) least = now;
    }
    return least;
}

#define SIM "latency_us=0 strict=1 vram_mib=64"

Test(sim_slow, kernels_take_as_many_times_as_long)
{
    struct scene s;
    scene_open(&s, SIM);
    uint64_t plain = least_ns(&s);
    cr_assert_eq(s.busy, 0);
    scene_close(&s);
    scene_open(&s, SIM " slow=50");
    uint64_t slow = least_ns(&s);
    cr_assert(slow > 10 * plain, "%llu ns, and %llu", (unsigned long long)slow,
              (unsigned long long)plain);
    cr_assert(s.busy > 10);
    uint64_t start_ns = clock_now_ns();
    char byte = 1;
    device_sim.release(s.rig.d, rig_upload(&s.rig, &byte, 1)); /* copies are as they were */
    cr_assert(clock_now_ns() - start_ns < slow);
    scene_close(&s);
}

Test(sim_slow, streams_wait_for_each_other)
{
    struct scene s;
    scene_open(&s, SIM " slow=50");
    uint64_t one = least_ns(&s);
    device_stream other = NULL;
    device_event event = NULL;
    cr_assert_eq(device_sim.stream_create(s.rig.d, &other), DEVICE_OK);
    cr_assert_eq(device_sim.event_create(s.rig.d, &event), DEVICE_OK);
    uint64_t start_ns = clock_now_ns();
    device_sim.launch(s.rig.d, CALL(.kernel = KERNEL_NORMS, .rows = s.rows, .norms.out = s.norms),
                      s.rig.stream);
    device_sim.launch(s.rig.d, CALL(.kernel = KERNEL_NORMS, .rows = s.rows, .norms.out = s.norms),
                      other);
    device_sim.event_record(s.rig.d, s.rig.event, s.rig.stream);
    device_sim.event_record(s.rig.d, event, other);
    cr_assert_eq(device_sim.event_query(s.rig.d, s.rig.event), DEVICE_BUSY);
    while (device_sim.event_query(s.rig.d, event) == DEVICE_BUSY)
        continue;
    cr_assert(clock_now_ns() - start_ns > one * 3 / 2);
    cr_assert_eq(device_sim.event_query(s.rig.d, s.rig.event), DEVICE_OK);
    device_sim.event_destroy(s.rig.d, event);
    device_sim.stream_destroy(s.rig.d, other);
    scene_close(&s);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
    usleep(15000); /* until it is looked at again */
}

Test(sim_slow, a_file_says_how_slow)
{
    char path[64], settings[128];
    snprintf(path, sizeof path, "/tmp/sim_slow.%d", (int)getpid());
    snprintf(settings, sizeof settings, SIM " slow_file=%s", path);
    struct scene s;
    scene_open(&s, settings);
    uint64_t plain = least_ns(&s);
    cr_assert_eq(s.busy, 0);
    write_file(path, "50\n");
    uint64_t slow = least_ns(&s);
    cr_assert(slow > 10 * plain);
    static const char *const none[] = {"", "no number", "0", "999999999"};
    for (int n = 0; n < 4; n++) {
        write_file(path, none[n]);
        cr_assert(least_ns(&s) < slow / 2 && s.busy == 0, "'%s'", none[n]);
    }
    write_file(path, "50 times");
    cr_assert(least_ns(&s) > 10 * plain);
    unlink(path);
    usleep(15000);
    cr_assert(least_ns(&s) < slow / 2 && s.busy == 0);
    scene_close(&s);
}

/* An event that is asked for again and again is one call. */
Test(sim_slow, faults_come_at_the_same_calls)
{
    struct scene s;
    scene_open(&s, SIM " slow=50 fail=3:error@event_query"); /* the first was the upload's */
    run_ns(&s);
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
