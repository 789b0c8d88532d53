/* A GPU process's life: start, answers, kill, stop, and what is left of it. The process is made
 * up: tests/support/gpu_rig.h. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/fault.h"
#include "daemon/cards/process_inside.h"
#include "tests/support/gpu_rig.h"

TestSuite(gpu_process, .timeout = 900);

/* ---------------------------------------------------------------- a life */

/* What the test's own runner left open for children is none of ours. */
static void close_on_exec(void)
{
    for (int fd = 3; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

Test(gpu_process, is_started_answers_and_stops)
{
    struct rig r;
    close_on_exec();
    rig_open(&r, "ready");
    rig_expect_text(&r, "not started");
    cr_assert_null(gpu_process_share(r.process));
    gpu_process_start(r.process);
    cr_assert_eq(gpu_process_state(r.process), GPU_STARTING);
    cr_assert_null(gpu_process_orders(r.process));
    rig_expect_text(&r, "starting for ");
    rig_start(&r, rig_is_ready);
    rig_expect_text(&r,
                    "Made Up 9, compute capability 9.0, 150.0 GiB (1.5 GiB budget), ECC on, driver "
                    "13.0, runtime 11.8, unified memory with concurrent access, virtual memory");
    const struct share_device *d = &gpu_process_share(r.process)->device;
    cr_assert_eq(d->device_count, SHARE_LIFELINE_FD + 1, "%u descriptors are open in it",
                 d->device_count);
    cr_assert_eq(d->multiprocessors, 11, "%u arguments", d->multiprocessors);
    cr_assert_geq(d->memory_free_bytes, UINT64_C(1) << 24, "the heap's size");
    rig_give_order(&r, 42);
    cr_assert(rig_turn(&r, rig_has_answer, 300000));
    rig_close(&r);
    cr_assert_eq(r.ready, 1);
}

Test(gpu_process, takes_its_time)
{
    struct rig r;
    rig_open(&r, "late");
    rig_start(&r, rig_is_ready);
    rig_close(&r);
}

Test(gpu_process, kill_gone_and_again)
{
    struct rig r;
    rig_open(&r, "ready");
    rig_start(&r, rig_is_ready);
    gpu_process_kill(r.process, "a test asks for it");
    gpu_process_kill(r.process, "and again");
    cr_assert_eq(gpu_process_state(r.process), GPU_DOWN);
    rig_expect_text(&r, "down: a test asks for it; its process is not gone yet");
    cr_assert(gpu_process_completions(r.process), "until on_gone");
    cr_assert(rig_turn(&r, rig_is_gone, 300000));
    cr_assert(gpu_process_share(r.process), "what the device was can still be read");
    cr_assert(rig_turn(&r, rig_is_ready, 300000));
    cr_assert_eq(gpu_process_restarts(r.process), 1);
    cr_assert_eq(r.ready, 2);
    rig_close(&r);
}

Test(gpu_process, killed_while_starting)
{
    struct rig r;
    rig_open(&r, "hang");
    gpu_process_start(r.process);
    gpu_process_kill(r.process, "not wanted");
    cr_assert(rig_turn(&r, rig_is_gone, 300000));
    rig_expect_text(&r, "down: not wanted; next start in");
    cr_assert_eq(r.ready, 0);
    cr_assert_eq(r.wakes, 0, "there never was a ring");
    rig_close(&r);
}

/* What worked once is tried again, whatever a later start says: its memory may be full for a while,
 * its program be replaced just now. */
Test(gpu_process, absent_is_not_for_good_after_ready)
{
    struct rig r;
    rig_open(&r, "ready");
    rig_start(&r, rig_is_ready);
    rig_become("absent");
    r.gone_wanted = 2;
    gpu_process_kill(r.process, "a test asks for it");
    cr_assert(rig_turn(&r, rig_is_gone_enough, 300000));
    cr_assert_eq(gpu_process_state(r.process), GPU_DOWN);
    rig_expect_text(&r, "no driver (made up)");
    rig_become("ready");
    cr_assert(rig_turn(&r, rig_is_ready, 300000));

    char program[CONFIG_TEXT_MAX];
    strcpy(program, r.config.gpu_program);
    strcpy(r.config.gpu_program, "/nonexistent");
    gpu_process_kill(r.process, "and again");
    r.gone_wanted = 3;
    cr_assert(rig_turn(&r, rig_is_gone_enough, 300000));
    rig_turn(&r, rig_is_ready, 300);
    cr_assert_eq(gpu_process_state(r.process), GPU_DOWN);
    strcpy(r.config.gpu_program, program);
    cr_assert(rig_turn(&r, rig_is_ready, 300000));
    rig_close(&r);
}

static void miss(struct process_life *l) {}

/* gpu_process_kill, whose SIGKILL misses. Returns the process's number. */
static int kill_another(struct rig *r)
{
    struct process_host misses = process_host_system;
    misses.kill = miss;
    r->process->options.host = &misses;
    gpu_process_kill(r->process, "a test asks for it");
    r->process->options.host = &process_host_system;
    return (int)r->process->life->process_id;
}

/* Killed, and not gone: what was lent to it comes back after a while, on_gone when it is gone. */
Test(gpu_process, stuck)
{
    struct rig r;
    rig_open(&r, "ready");
    rig_start(&r, rig_is_ready);
    int own = kill_another(&r);
    gpu_process_check(r.process, clock_now_ns() + UINT64_C(4000000000));
    cr_assert_eq(r.stuck, 0);
    gpu_process_check(r.process, clock_now_ns() + UINT64_C(6000000000));
    gpu_process_check(r.process, clock_now_ns() + UINT64_C(7000000000));
    cr_assert(r.stuck == 1 && r.gone == 0);
    rig_expect_text(&r, "its process is not gone yet");
    kill(own, SIGKILL);
    cr_assert(rig_turn(&r, rig_is_gone, 300000));
    cr_assert(rig_turn(&r, rig_is_ready, 300000));
    rig_close(&r);
}

/* A stop does not wait for it either, before it is known or after. */
Test(gpu_process, stuck_at_the_end)
{
    for (int known = 0; known < 2; known++) {
        struct rig r;
        rig_open(&r, "ready");
        rig_start(&r, rig_is_ready);
        int own = kill_another(&r);
        if (known) gpu_process_check(r.process, clock_now_ns() + UINT64_C(6000000000));
        cr_assert_eq(r.stuck, (unsigned)known);
        gpu_process_stop(r.process);
        if (!known) gpu_process_check(r.process, clock_now_ns() + UINT64_C(6000000000));
        cr_assert_eq(r.stuck, (unsigned)known + 1);
        gpu_process_destroy(r.process);
        uv_run(&r.loop, UV_RUN_DEFAULT);
        cr_assert_eq(uv_loop_close(&r.loop), 0);
        heap_destroy(r.heap);
        kill(own, SIGKILL);
        cr_assert_eq(waitpid(own, NULL, 0), own);
        cr_assert_eq(r.gone, 0);
    }
}

/* What it published before its end comes before on_gone. */
Test(gpu_process, last_words)
{
    struct rig r;
    rig_open(&r, "last words");
    rig_start(&r, rig_is_ready);
    for (uint64_t token = 1; token <= 3; token++)
        rig_give_order(&r, token);
    cr_assert(rig_turn(&r, rig_is_gone, 300000));
    cr_assert_eq(r.taken, 3);
    cr_assert_eq(r.gone_at_last_wake, 0);
    rig_expect_text(&r, "exited with signal 9 (Killed)");
    rig_close(&r);
}

/* ---------------------------------------------------------------- nothing is left */

Test(gpu_process, fifty_rounds)
{
    struct rig r;
    rig_open(&r, "ready");
    r.works = true;
    rig_start(&r, rig_is_ready);
    uint32_t before = 0;
    for (uint32_t i = 0; i < 50; i++) {
        rig_give_order(&r, 42);
        r.last_token = 0;
        cr_assert(rig_turn(&r, rig_has_answer, 300000));
        r.gone_wanted = i + 1;
        gpu_process_kill(r.process, "next round");
        cr_assert(rig_turn(&r, rig_is_gone_enough, 300000));
        cr_assert(rig_turn(&r, rig_is_ready, 300000));
        if (i == 0) before = rig_descriptors();
    }
    cr_assert_eq(rig_descriptors(), before);
    cr_assert_eq(gpu_process_restarts(r.process), 50);
    rig_close(&r);
}

/* A front in a process of its own, so that it may shut descriptors and die. */
static pid_t fork_front(void (*front)(int out), int *in)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        front(ends[1]);
        _exit(1);
    }
    close(ends[1]);
    *in = ends[0];
    return pid;
}

static void front_with_child(int out)
{
    static struct rig r;
    rig_open(&r, "orphan");
    rig_start(&r, rig_is_ready);
    pid_t child = (pid_t)r.process->life->process_id;
    if (write(out, &child, sizeof child) == sizeof child) pause();
}

/* By the lifeline: this one did not ask the kernel to be told. */
Test(gpu_process, front_dies)
{
    int in, status;
    pid_t child;
    cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    pid_t front = fork_front(front_with_child, &in);
    cr_assert_eq(read(in, &child, sizeof child), sizeof child);
    close(in);
    kill(front, SIGKILL);
    cr_assert_eq(waitpid(front, &status, 0), front);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %x", (unsigned)status);
}

/* The numbers that the child gets are free here, so libuv's own pipe would lie there: nothing of
 * ours may be taken for it. */
static void front_with_low_numbers(int out)
{
    static struct rig r;
    int result = dup2(out, 20);
    for (int fd = SHARE_FD; fd <= SHARE_LIFELINE_FD; fd++)
        dup2(STDERR_FILENO, fd);
    rig_open(&r, "ready");
    for (int fd = SHARE_FD; fd <= SHARE_LIFELINE_FD; fd++)
        close(fd);
    snprintf(r.config.gpu_program, sizeof r.config.gpu_program, "/nowhere/gpu");
    gpu_process_start(r.process);
    char first = 1;
    bool right = gpu_process_state(r.process) == GPU_ABSENT &&
                 pread(heap_fd(r.heap), &first, 1, 0) == 1 && first == 0;
    if (write(result, &right, sizeof right) == sizeof right) _exit(0);
}

Test(gpu_process, low_numbers)
{
    int in, status;
    bool right;
    pid_t front = fork_front(front_with_low_numbers, &in);
    cr_assert_eq(read(in, &right, sizeof right), sizeof right);
    cr_assert(right, "a program that is not there was started, or the heap was written");
    cr_assert_eq(waitpid(front, &status, 0), front);
    close(in);
}

/* Each step of a start fails once: that is one failure in a row, and the next start does it. */
Test(gpu_process, every_step_fails)
{
    struct rig r;
    rig_open(&r, "ready");
    rig_close(&r); /* libuv keeps a pipe from its first loop */
    uint32_t before = rig_descriptors();
    for (uint32_t nth = 1;; nth++) {
        rig_open(&r, "ready");
        fault_arm(nth);
        gpu_process_start(r.process);
        bool fired = fault_hits() >= nth;
        cr_assert_eq(gpu_process_state(r.process), fired ? GPU_DOWN : GPU_STARTING, "site %s",
                     fault_fired() ? fault_fired() : "none");
        fault_arm(0);
        if (fired) rig_expect_text(&r, "down: ");
        cr_assert(rig_turn(&r, rig_is_ready, 300000));
        cr_assert_eq(gpu_process_restarts(r.process), fired);
        rig_close(&r);
        cr_assert_eq(rig_descriptors(), before);
        if (!fired) break;
        cr_assert_lt(nth, 100);
    }
    rig_open(&r, "ready");
    struct gpu_process_options options = {.loop = &r.loop};
    struct gpu_process *p = NULL;
    fault_arm(1);
    cr_assert_eq(gpu_process_create(&options, &p), STATUS_RESOURCE_EXHAUSTED);
    r.config.gpu_program[0] = 0;
    fault_arm(1);
    gpu_process_start(r.process);
    fault_arm(0);
    rig_expect_text(&r, "absent: engram-accel-gpu: No such file or directory");
    rig_close(&r);
    gpu_process_destroy(NULL);
}
