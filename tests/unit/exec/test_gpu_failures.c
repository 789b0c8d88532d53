/* A GPU process that fails: backoff, breaker, heartbeat, nonsense; what is said and logged. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/exec/gpu_process_inside.h"
#include "tests/support/gpu_rig.h"

TestSuite(gpu_failures, .timeout = 120);

/* ---------------------------------------------------------------- failures in a row */

/* Without a turn of the loop: only the clock given counts. */
static void expect_start_after(struct rig *r, uint64_t wait_ms)
{
    uint64_t wait_ns = wait_ms * 1000000, restarts = gpu_process_restarts(r->process);
    gpu_process_check(r->process, r->gone_ns + wait_ns / 2);
    cr_assert_eq(gpu_process_restarts(r->process), restarts, "sooner than after %u ms",
                 (unsigned)wait_ms);
    gpu_process_check(r->process, r->gone_ns + wait_ns + 1000000);
    cr_assert_eq(gpu_process_restarts(r->process), restarts + 1, "not after %u ms",
                 (unsigned)wait_ms);
}

static void fail_until_breaker(struct rig *r)
{
    static const uint64_t waits_ms[GPU_FAILURES_MAX] = {0, 0, 100, 200, 400, 800};
    gpu_process_start(r->process);
    for (r->gone_wanted = 1; r->gone_wanted <= GPU_FAILURES_MAX; r->gone_wanted++) {
        if (waits_ms[r->gone_wanted - 1]) expect_start_after(r, waits_ms[r->gone_wanted - 1]);
        cr_assert(rig_turn(r, rig_is_gone_enough, 20000));
        cr_assert_eq(gpu_process_state(r->process),
                     r->gone_wanted < GPU_FAILURES_MAX ? GPU_DOWN : GPU_BREAKER);
    }
}

Test(gpu_failures, backoff_then_breaker)
{
    struct rig r;
    rig_open(&r, "exit 3");
    fail_until_breaker(&r);
    rig_expect_text(&r,
                    "breaker open: 6 failures in a row, the last: exited with code 3; next start "
                    "in 59 s");
    for (uint32_t i = 1; i <= 2; i++) { /* each try that fails opens it again */
        expect_start_after(&r, 60000);
        rig_expect_text(&r, "breaker half-open");
        r.gone_wanted = GPU_FAILURES_MAX + i;
        cr_assert(rig_turn(&r, rig_is_gone_enough, 20000));
        cr_assert_eq(gpu_process_state(r.process), GPU_BREAKER);
    }
    rig_expect_text(&r, "breaker open: 8 failures in a row");
    rig_close(&r);
    cr_assert_eq(r.ready, 0);
}

Test(gpu_failures, breaker_closes_when_it_works)
{
    struct rig r;
    rig_open(&r, "exit");
    fail_until_breaker(&r);
    rig_become("ready");
    expect_start_after(&r, 60000);
    cr_assert(rig_turn(&r, rig_is_ready, 20000));
    gpu_process_worked(r.process);
    r.gone_wanted = r.gone + 1;
    gpu_process_kill(r.process, "a test asks for it");
    cr_assert(rig_turn(&r, rig_is_gone_enough, 10000));
    cr_assert_eq(gpu_process_state(r.process), GPU_DOWN, "the first failure in a row");
    cr_assert(rig_turn(&r, rig_is_ready, 20000));
    rig_close(&r);
}

static bool is_restarted(struct rig *r)
{
    return gpu_process_restarts(r->process) >= 2 * GPU_FAILURES_MAX;
}

/* Whoever answers in between is started again at once, however often. */
Test(gpu_failures, answers_in_between)
{
    struct rig r;
    rig_open(&r, "last words");
    r.works = true;
    uint64_t began_ns = clock_now_ns();
    gpu_process_start(r.process);
    for (uint32_t i = 0; i < 2 * GPU_FAILURES_MAX; i++) {
        cr_assert(rig_turn(&r, rig_is_ready, 20000));
        rig_give_order(&r, 3);
        r.gone_wanted = i + 1;
        cr_assert(rig_turn(&r, rig_is_gone_enough, 20000));
        cr_assert_eq(gpu_process_state(r.process), GPU_DOWN);
    }
    cr_assert(rig_turn(&r, is_restarted, 10000));
    cr_assert_lt(clock_now_ns() - began_ns, UINT64_C(30000000000));
    rig_close(&r);
}

Test(gpu_failures, stop_during_backoff)
{
    struct rig r;
    rig_open(&r, "exit");
    fail_until_breaker(&r);
    rig_close(&r);
    rig_open(&r, "exit");
    rig_close(&r); /* never started */
}

/* ---------------------------------------------------------------- watching */

Test(gpu_failures, stopped_process_is_killed)
{
    struct rig r;
    rig_open(&r, "stopped");
    r.config.gpu_heartbeat_ms = 300;
    rig_start(&r, rig_is_ready);
    uint64_t ready_ns = clock_now_ns();
    cr_assert(rig_turn(&r, rig_is_gone, 20000));
    cr_assert_gt(clock_now_ns() - ready_ns, UINT64_C(300000000));
    rig_expect_text(&r, "down: no sign of life for 3");
    rig_close(&r);
}

Test(gpu_failures, heartbeat_by_the_clock)
{
    struct rig r;
    rig_open(&r, "still");
    rig_start(&r, rig_is_ready);
    uint64_t now_ns = clock_now_ns();
    for (int i = 0; i < 9; i++)
        gpu_process_check(r.process, now_ns += 100000000);
    cr_assert_eq(gpu_process_state(r.process), GPU_READY, "900 ms");
    gpu_process_check(r.process, now_ns += UINT64_C(5000000000));
    cr_assert_eq(gpu_process_state(r.process), GPU_READY, "we stood still, not it");
    for (int i = 0; i < 10; i++)
        gpu_process_check(r.process, now_ns += 100000000);
    cr_assert_eq(gpu_process_state(r.process), GPU_READY, "1000 ms");
    gpu_process_check(r.process, now_ns += 1000000);
    cr_assert_eq(gpu_process_state(r.process), GPU_DOWN, "1001 ms");
    rig_expect_text(&r, "no sign of life for 1001 ms");
    rig_close(&r);
}

Test(gpu_failures, never_ready)
{
    struct rig r;
    rig_open(&r, "hang");
    gpu_process_start(r.process);
    uint64_t now_ns = clock_now_ns();
    gpu_process_check(r.process, now_ns + UINT64_C(29000000000));
    cr_assert_eq(gpu_process_state(r.process), GPU_STARTING);
    gpu_process_check(r.process, now_ns + UINT64_C(31000000000));
    cr_assert_eq(gpu_process_state(r.process), GPU_DOWN);
    rig_expect_text(&r, "not ready within 30 s");
    cr_assert(rig_turn(&r, rig_is_gone, 10000));
    rig_close(&r);
}

Test(gpu_failures, does_not_stop_when_asked)
{
    struct rig r;
    rig_open(&r, "deaf");
    rig_start(&r, rig_is_ready);
    uint64_t began_ns = clock_now_ns();
    rig_close(&r);
    cr_assert_gt(clock_now_ns() - began_ns, UINT64_C(190000000));
    rig_open(&r, "hang"); /* and one that is still starting */
    gpu_process_start(r.process);
    rig_close(&r);
}

/* ---------------------------------------------------------------- what it says of itself */

static void expect_absent(const char *how, const char *words)
{
    struct rig r;
    rig_open(&r, how);
    rig_start(&r, rig_is_absent);
    cr_assert_eq(r.gone, 1);
    rig_expect_text(&r, words);
    gpu_process_check(r.process, clock_now_ns() + UINT64_C(3600000000000));
    cr_assert_eq(gpu_process_state(r.process), GPU_ABSENT, "for good");
    rig_close(&r);
    cr_assert_eq(r.ready, 0);
}

Test(gpu_failures, absent)
{
    expect_absent("absent", "absent: no driver (made up)");
    expect_absent("absent, stays", "absent: no driver (made up)");
    expect_absent("version", "absent: engram-accel-gpu is 9.9.9, engram-acceld " ENGRAM_VERSION);
    expect_absent("other version",
                  "absent: engram-accel-gpu is 8.8.8, engram-acceld " ENGRAM_VERSION);
}

static void expect_no_program(const char *program, const char *words)
{
    struct rig r;
    rig_open(&r, "exit");
    snprintf(r.config.gpu_program, sizeof r.config.gpu_program, "%s", program);
    gpu_process_start(r.process);
    cr_assert_eq(gpu_process_state(r.process), GPU_ABSENT);
    rig_expect_text(&r, words);
    rig_close(&r);
}

Test(gpu_failures, no_program)
{
    expect_no_program("/nowhere/gpu", "absent: /nowhere/gpu: No such file or directory");
    expect_no_program("/etc/passwd", "absent: /etc/passwd: Permission denied");
    expect_no_program("/etc/passwd/gpu", "absent: /etc/passwd/gpu: Not a directory");
    expect_no_program("", "/tests/unit/exec/engram-accel-gpu: No such file or directory");
}

static void expect_failure(const char *how, const char *words)
{
    struct rig r;
    rig_open(&r, how);
    r.config.gpu_heartbeat_ms = 300;
    rig_start(&r, rig_is_gone);
    rig_become("ready");
    rig_expect_text(&r, words);
    if (r.ready == 1) cr_assert(rig_turn(&r, rig_is_ready, 20000), "it is started again");
    rig_close(&r);
}

Test(gpu_failures, broken)
{
    expect_failure("broken", "down: the device failed: cudaErrorIllegalAddress?forged; next");
    expect_failure("broken, stays",
                   "down: the device failed: cudaErrorIllegalAddress?forged; next");
    expect_failure("exit", "down: exited with code 0; next start in 0 ms");
}

Test(gpu_failures, mad)
{
    expect_failure("mad", "down: what it shares with us is nonsense");
    expect_failure("mad zeros", "down: what it shares with us is nonsense");
    expect_failure("mad ring", "down: a ring that it shares with us holds nonsense");
}

static bool has_checked(struct rig *r)
{
    return r->wakes >= 10;
}

Test(gpu_failures, deaf_and_loud)
{
    struct rig r;
    rig_open(&r, "closes"); /* its eventfds: it still is there */
    rig_start(&r, rig_is_ready);
    cr_assert(rig_turn(&r, has_checked, 10000), "checks look into the ring by themselves");
    cr_assert_eq(gpu_process_state(r.process), GPU_READY);
    rig_close(&r);
    rig_open(&r, "knocks");
    rig_start(&r, rig_is_ready);
    rig_close(&r);
    rig_open(&r, "endless texts");
    rig_start(&r, rig_is_ready);
    rig_expect_text(&r, "???, compute capability 9.0");
    rig_close(&r);
}

/* ---------------------------------------------------------------- words */

Test(gpu_failures, times)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } cases[] = {{0, "0 ms"},           {1999, "1999 ms"},     {2000, "2 s"},
                 {59999, "59 s"},       {182000, "3 m 2 s"},   {3599999, "59 m 59 s"},
                 {18060000, "5 h 1 m"}, {266400000, "3 d 2 h"}};
    char text[GPU_TIME_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpu_describe_time(cases[i].ms * 1000000, text);
        cr_assert_str_eq(text, cases[i].text);
    }
}

Test(gpu_failures, short_places)
{
    struct share_device d = {.memory_bytes = 64 << 20, .managed = 1, .simulated = 1};
    char text[200];
    gpu_describe_device(&d, text, sizeof text);
    cr_assert_str_eq(text, "a GPU without a name, compute capability 0.0, 64.0 MiB (0.0 MiB "
                           "budget), ECC off, unified memory, simulated");
    gpu_describe_device(&d, text, 6);
    cr_assert_str_eq(text, "a GPU");
    gpu_describe_device(&d, text, 0);
    gpu_copy_text(text, 3, "abc", 3);
    cr_assert_str_eq(text, "ab");
    gpu_copy_text(text, sizeof text, "abc", 2);
    cr_assert_str_eq(text, "ab");
}

static void expect_line(const char *log, const char *words)
{
    cr_assert(strstr(log, words), "'%s' is not in:\n%s", words, log);
}

Test(gpu_failures, every_event_has_a_line)
{
    static char log[65536];
    int stderr_before = dup(STDERR_FILENO);
    FILE *file = tmpfile();
    cr_assert(file && dup2(fileno(file), STDERR_FILENO) >= 0);
    struct rig r;
    rig_open(&r, "exit 3");
    fail_until_breaker(&r);
    rig_become("ready");
    expect_start_after(&r, 60000);
    cr_assert(rig_turn(&r, rig_is_ready, 20000));
    gpu_process_worked(r.process);
    gpu_process_kill(r.process, "a test asks for it");
    cr_assert(rig_turn(&r, is_restarted, 0) || rig_turn(&r, rig_is_ready, 20000));
    rig_close(&r);
    expect_absent("absent", "no driver");
    dup2(stderr_before, STDERR_FILENO);
    rewind(file);
    log[fread(log, 1, sizeof log - 1, file)] = 0;
    fclose(file);
    close(stderr_before);
    expect_line(log, "gpu0: exited with code 3 after ");
    expect_line(log, "; restart 1 in 0 ms\n");
    expect_line(log, "; restart 5 in 800 ms\n");
    expect_line(log,
                "gpu0: breaker open: 6 failures in a row, the last: exited with code 3; the CPU "
                "answers everything\n");
    expect_line(log, "gpu0: breaker half-open: trying one start\n");
    expect_line(log, "gpu0: Made Up 9, compute capability 9.0");
    expect_line(log, "; ready after ");
    expect_line(log, "gpu0: breaker closed: it answers again\n");
    expect_line(log, "gpu0: a test asks for it: killed\n");
    expect_line(log, "gpu0: exited with signal 9 (Killed) after ");
    expect_line(log, "gpu0: absent: no driver (made up); the CPU answers everything\n");
}
