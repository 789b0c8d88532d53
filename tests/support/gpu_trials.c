#include "tests/support/gpu_trials.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/gpu_scene.h"

static const char *const calls[] = {
    "open",         "memory",        "allocate",     "host_allocate", "range_reserve",
    "range_resize", "stream_create", "event_create", "event_record",  "event_query",
    "copy_in",      "copy_out",      "clear",        "norms",         "scan",
    "tile",         "topk",          "gather_lists", "average",       "spread",
    "find_bad",     "direct",        "cells",
};
enum { CALLS = sizeof calls / sizeof *calls, STARTING_CALLS = 4 };

/* Of the process's start: it has answered nothing then. */
static bool is_starting(size_t call, uint64_t nth)
{
    return call < STARTING_CALLS && nth == 1;
}

/* ---------------------------------------------------------------- one fault */

struct trial {
    struct gpu_scene scene;
    struct transcript got;
    char sim[96];
    bool comes_back; /* a process that hangs while it starts is given 30 s */
};

/* Whether there was an nth such call. */
static bool trial_run(struct trial *t, const char *kind, size_t call, uint64_t nth)
{
    memset(t, 0, sizeof *t);
    t->comes_back = strcmp(kind, "hang") != 0 || !is_starting(call, nth);
    snprintf(t->sim, sizeof t->sim, "fail=%llu:%s@%s", (unsigned long long)nth, kind, calls[call]);
    gpu_scene_open_counting(&t->scene, t->sim, NULL);
    if (t->comes_back) gpu_scene_await(&t->scene, EA_GPU_READY);
    script_run(t->scene.a, t->scene.b, &t->got);
    if (!t->comes_back) gpu_scene_await_calls(&t->scene, nth);
    return gpu_scene_calls(&t->scene) >= nth;
}

static void trial_end(struct trial *t, const struct transcript *want)
{
    struct gpu_scene *s = &t->scene;
    if (t->comes_back) {
        gpu_scene_await_answer(s->a, "small", SCRIPT_DIMENSION);
        gpu_scene_await_answer(s->b, "small", SCRIPT_DIMENSION);
    }
    script_end(s->a, s->b, &t->got);
    transcript_compare(&t->got, want, t->sim);
    if (t->comes_back) gpu_scene_await_empty(s);
    gpu_scene_close(s);
}

/* ---------------------------------------------------------------- all of them */

/* Several at once, for most of the time one waits. */
struct trials {
    struct trial list[8];
    size_t count;
    struct transcript want;
};

static void trials_end(struct trials *all)
{
    for (size_t i = 0; i < all->count; i++)
        trial_end(&all->list[i], &all->want);
    all->count = 0;
}

static bool trials_add(struct trials *all, const char *kind, size_t call, uint64_t nth)
{
    if (all->count == sizeof all->list / sizeof *all->list) trials_end(all);
    return trial_run(&all->list[all->count++], kind, call, nth);
}

void trials_fail_all(const char *kind, uint64_t stride)
{
    static struct trials all;
    script_reference(&all.want);
    uint64_t count = 0;
    if (gpu_scene_long()) stride = 1;
    for (size_t call = 0; call < CALLS; call++) {
        uint64_t nth = 1, most = gpu_scene_long() ? UINT64_MAX : 9;
        cr_assert(trials_add(&all, kind, call, nth), "%s is never called", calls[call]);
        do
            nth += stride, count++;
        while (nth <= most && trials_add(&all, kind, call, nth));
    }
    trials_end(&all);
    if (gpu_scene_long()) fprintf(stderr, "%s: %llu faults\n", kind, (unsigned long long)count);
}

/* ---------------------------------------------------------------- for ever */

void trials_fail_onward(const char *kind, uint64_t nth)
{
    struct transcript want = {0};
    script_reference(&want);
    for (size_t call = 0; call < CALLS; call++) {
        char sim[96];
        struct gpu_scene s;
        struct transcript got = {0};
        snprintf(sim, sizeof sim, "fail=%llu+:%s@%s", (unsigned long long)nth, kind, calls[call]);
        gpu_scene_open_counting(&s, sim, (const char *[]){"gpu.job_ms=10000", NULL});
        if (!is_starting(call, nth)) gpu_scene_await(&s, EA_GPU_READY);
        script_run(s.a, s.b, &got);
        script_end(s.a, s.b, &got);
        transcript_compare(&got, &want, sim);
        /* What fails at the process's start may come after the script, which the CPU answers. */
        int64_t until = give_up_ms();
        while (gpu_scene_calls(&s) < 1) {
            cr_assert(now_ms() < until, "%s: it was never called", sim);
            wait_ms(10);
        }
        gpu_scene_close(&s);
    }
}
