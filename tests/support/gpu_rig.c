#include "tests/support/gpu_rig.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"

/* ---------------------------------------------------------------- the made-up process */

uint32_t rig_descriptors(void)
{
    uint32_t count = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        count++;
    if (d) closedir(d);
    return count - 3; /* ".", "..", and the folder itself */
}

static void fake_say(struct share *s, enum share_state state, const char *why)
{
    snprintf(s->why, sizeof s->why, "%s", why);
    atomic_store(&s->state, state);
}

static void fake_device(struct share *s, const char *how, int argument_count)
{
    struct share_device *d = &s->device;
    *d = (struct share_device){.name = "Made Up 9",
                               .capability_major = 9,
                               .multiprocessors = (uint32_t)argument_count,
                               .driver_version = 13000,
                               .runtime_version = 11080,
                               .device_count = rig_descriptors(),
                               .memory_bytes = UINT64_C(150) << 30,
                               .memory_free_bytes = s->heap_bytes,
                               .budget_bytes = UINT64_C(3) << 29,
                               .ecc = 1,
                               .managed = 1,
                               .concurrent_managed = 1,
                               .virtual_memory = 1};
    if (strcmp(how, "endless texts") == 0) memset(d->name, 0xf0, sizeof d->name + sizeof d->uuid);
}

/* Answers orders, beats, ends with the lifeline. */
static void fake_serve(struct share *s, const char *how)
{
    struct ring orders, completions;
    share_orders(s, SHARE_ORDERS_FD, &orders);
    share_completions(s, SHARE_COMPLETIONS_FD, &completions);
    bool deaf = strcmp(how, "deaf") == 0;
    for (;;) {
        atomic_fetch_add(&s->heartbeat_ns, 1);
        struct pollfd fds[] = {{.fd = SHARE_LIFELINE_FD, .events = POLLIN},
                               {.fd = SHARE_ORDERS_FD, .events = POLLIN}};
        if (ring_sleep(&orders)) poll(fds, 2, 10);
        ring_wake(&orders);
        if (fds[0].revents) _exit(7);
        const struct order *o;
        while ((o = ring_peek(&orders))) {
            if (o->kind == ORDER_STOP && !deaf) _exit(0);
            struct completion *c = ring_reserve(&completions);
            *c = (struct completion){.kind = COMPLETION_DONE, .token = o->token};
            ring_publish(&completions);
            ring_release(&orders);
            if (strcmp(how, "last words") == 0 && c->token == 3) kill(getpid(), SIGKILL);
        }
    }
}

static void fake_main(const char *how, int argument_count)
{
    struct share *s;
    struct failure f = {0};
    if (strcmp(how, "orphan")) prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(120);
    if (strcmp(how, "exit") == 0) _exit(0);
    if (strcmp(how, "exit 3") == 0) _exit(3);
    if (share_map(SHARE_FD, strcmp(how, "version") ? ENGRAM_VERSION : "9.9.9", &s, &f)) _exit(1);
    if (strcmp(how, "hang") == 0) pause();
    if (strcmp(how, "late") == 0) usleep(300000);
    if (strcmp(how, "other version") == 0) strcpy(s->gpu_version, "8.8.8");
    if (strcmp(how, "absent") == 0 || strcmp(how, "absent, stays") == 0) {
        fake_say(s, SHARE_ABSENT, "no driver (made up)");
        if (strcmp(how, "absent, stays") == 0) pause();
        _exit(1);
    }
    if (strcmp(how, "knocks") == 0) /* at a door where nobody sits yet */
        for (int i = 0; i < 100; i++) {
            uint64_t one = 1;
            if (write(SHARE_COMPLETIONS_FD, &one, sizeof one) < 0) _exit(1);
            usleep(1000);
        }
    fake_device(s, how, argument_count);
    atomic_store(&s->heartbeat_ns, UINT64_MAX - 1000); /* its clock means nothing */
    atomic_store(&s->state, SHARE_READY);
    if (strcmp(how, "broken") == 0 || strcmp(how, "broken, stays") == 0) {
        usleep(50000);
        fake_say(s, SHARE_BROKEN, "cudaErrorIllegalAddress\nforged");
        if (strcmp(how, "broken, stays") == 0) pause();
        _exit(1);
    }
    if (strcmp(how, "still") == 0) pause();
    if (strcmp(how, "stopped") == 0) {
        usleep(50000);
        raise(SIGSTOP);
    }
    if (strcmp(how, "mad") == 0 || strcmp(how, "mad zeros") == 0) {
        usleep(50000);
        memset(s, strcmp(how, "mad") ? 0 : 0xff, sizeof *s);
        pause();
    }
    if (strcmp(how, "mad ring") == 0) {
        usleep(50000);
        atomic_store(&s->completion_lines.published, UINT64_C(1) << 40);
    }
    if (strcmp(how, "closes") == 0) {
        close(SHARE_ORDERS_FD);
        close(SHARE_COMPLETIONS_FD);
    }
    fake_serve(s, how);
}

/* Before main, which is Criterion's; arguments come along as glibc passes them. */
__attribute__((constructor)) static void become_fake(int argc, char **argv)
{
    const char *how = getenv("FAKE_GPU");
    if (!how || argc < 2 || strncmp(argv[1], "--number=", 9) != 0) return;
    fake_main(how, argc);
    _exit(99);
}

/* ---------------------------------------------------------------- the rig */

static void on_ready(void *owner)
{
    struct rig *r = owner;
    r->ready++;
    cr_assert_eq(gpu_process_state(r->process), GPU_READY);
    cr_assert(gpu_process_orders(r->process) && gpu_process_share(r->process));
}

static void on_gone(void *owner)
{
    struct rig *r = owner;
    r->gone++;
    r->gone_ns = clock_now_ns();
    cr_assert_null(gpu_process_orders(r->process));
    cr_assert_null(gpu_process_completions(r->process));
    cr_assert_neq(gpu_process_state(r->process), GPU_READY);
    /* Reaped: no child is left, dead or alive. */
    cr_assert(waitpid(-1, NULL, WNOHANG) < 0);
}

static void on_completions(void *owner)
{
    struct rig *r = owner;
    struct ring *ring = gpu_process_completions(r->process);
    cr_assert(ring);
    r->wakes++;
    r->gone_at_last_wake = r->gone;
    ring_wake(ring);
    do {
        const struct completion *c;
        while ((c = ring_peek(ring))) {
            r->taken++;
            r->last_token = c->token;
            ring_release(ring);
            if (r->works) gpu_process_worked(r->process);
        }
    } while (!ring_sleep(ring) && !ring_broken(ring));
}

static void on_stuck(void *owner)
{
    struct rig *r = owner;
    r->stuck++;
    cr_assert_neq(gpu_process_state(r->process), GPU_READY);
}

void rig_become(const char *how)
{
    setenv("FAKE_GPU", how, 1);
}

void rig_open(struct rig *r, const char *how)
{
    memset(r, 0, sizeof *r);
    cr_assert_eq(uv_loop_init(&r->loop), 0);
    cr_assert_eq(heap_create(UINT64_C(1) << 24, &r->heap), STATUS_OK);
    config_defaults(&r->config);
    r->config.gpu_heartbeat_ms = 60000; /* a busy machine may stop it for long */
    ssize_t n = readlink("/proc/self/exe", r->config.gpu_program, CONFIG_TEXT_MAX - 1);
    cr_assert(n > 0 && n < CONFIG_TEXT_MAX - 1);
    rig_become(how);
    struct gpu_process_options options = {
        .loop = &r->loop,
        .heap = r->heap,
        .config = &r->config,
        .number = 0,
        .which = "sim",
        .events = {r, on_ready, on_gone, on_completions, on_stuck},
    };
    cr_assert_eq(gpu_process_create(&options, &r->process), STATUS_OK);
}

/* Turns the loop until done says so; checks as the engine does, by the real clock. */
bool rig_turn(struct rig *r, bool (*done)(struct rig *r), uint32_t limit_ms)
{
    uint64_t until_ns = clock_now_ns() + limit_ms * UINT64_C(1000000);
    while (!done(r)) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns > until_ns) return false;
        if (now_ns >= r->next_check_ns) {
            gpu_process_check(r->process, now_ns);
            r->next_check_ns = now_ns + 20000000;
        }
        uv_run(&r->loop, UV_RUN_NOWAIT);
        usleep(500);
    }
    return true;
}

bool rig_is_ready(struct rig *r)
{
    return gpu_process_state(r->process) == GPU_READY;
}

bool rig_is_gone(struct rig *r)
{
    return r->gone > 0;
}

bool rig_is_absent(struct rig *r)
{
    return gpu_process_state(r->process) == GPU_ABSENT;
}

void rig_expect_text(struct rig *r, const char *words)
{
    char text[512];
    gpu_process_describe(r->process, text, sizeof text);
    cr_assert(strstr(text, words), "'%s' is not in: %s", words, text);
}

void rig_start(struct rig *r, bool (*done)(struct rig *r))
{
    gpu_process_start(r->process);
    cr_assert(rig_turn(r, done, 300000), "ready %u, gone %u", r->ready, r->gone);
}

/* Stops, and nothing is left. */
void rig_close(struct rig *r)
{
    uint32_t gone = r->gone;
    gpu_process_stop(r->process);
    for (int i = 0; i < 300000 && r->gone == gone; i++) {
        uv_run(&r->loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    cr_assert_eq(r->gone, gone + 1);
    gpu_process_destroy(r->process);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&r->loop), 0);
    heap_destroy(r->heap);
}

void rig_give_order(struct rig *r, uint64_t token)
{
    struct order *o = ring_reserve(gpu_process_orders(r->process));
    cr_assert(o);
    *o = (struct order){.kind = ORDER_RUN, .token = token};
    ring_publish(gpu_process_orders(r->process));
    r->last_given = token;
}

bool rig_has_answer(struct rig *r)
{
    return r->last_token == r->last_given;
}

bool rig_is_gone_enough(struct rig *r)
{
    return r->gone >= r->gone_wanted;
}
