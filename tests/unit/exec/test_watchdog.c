/* What the service manager is told while workers work, sleep and stand still, on a clock of the
 * test's own; and what the pulse of real workers is. A socket stands in for the manager's. */
#include "daemon/watchdog.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include "tests/unit/exec/traced_jobs.h"

#define SECOND_NS UINT64_C(1000000000)

static struct watchdog dog;
static struct worker_pulse pulses[3], line;

static struct worker_pulse pulse_of(struct backend *cpu, uint32_t worker)
{
    return pulses[worker];
}

static struct worker_pulse pulse_of_line(struct backend *cpu)
{
    return line;
}

static void tell(const char *state)
{
    sd_notify(0, state);
}

static int open_manager(void)
{
    char path[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(path, sizeof path, "/tmp/engram-watchdog.%d", getpid());
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    setenv("NOTIFY_SOCKET", path, 1);
    return fd;
}

static void close_manager(int fd)
{
    unlink(getenv("NOTIFY_SOCKET"));
    close(fd);
}

/* Checks at second s; the manager must have been told, or not. */
static void check(int manager, unsigned s, bool told)
{
    char got[64] = {0};
    cr_expect_eq(watchdog_check(&dog, (1000 + s) * SECOND_NS), told, "second %u", s);
    ssize_t n = recv(manager, got, sizeof got - 1, 0);
    cr_expect_eq(n > 0, told, "second %u", s);
    if (n > 0) cr_expect_str_eq(got, "WATCHDOG=1");
}

Test(watchdog, a_stuck_worker_is_not_told_of_until_it_moves)
{
    int manager = open_manager();
    watchdog_init(&dog, 30000000, NULL, 3, tell);
    dog.pulse = pulse_of;
    dog.line_pulse = pulse_of_line;
    cr_assert_eq(watchdog_gap_ms(&dog), 7500);
    pulses[0] = pulses[1] = (struct worker_pulse){true, 7};
    check(manager, 0, true);
    check(manager, 29, true);
    pulses[0].beats++; /* the other one stands still */
    check(manager, 30, false);
    check(manager, 45, false);
    pulses[1].beats++;
    check(manager, 46, true);
    check(manager, 59, true);
    check(manager, 60, false); /* now the first one has, since 30 */
    pulses[0].busy = false;
    check(manager, 61, true);
    check(manager, 75, true);
    pulses[1].busy = false;
    check(manager, 76, true);
    check(manager, 4000, true); /* who sleeps is not stuck, however long */
    pulses[2] = (struct worker_pulse){true, 0};
    check(manager, 4001, true); /* nor who has just been given work, with the old number */
    check(manager, 4029, true);
    check(manager, 4030, false); /* it was last seen asleep at 4000 */
    close_manager(manager);
}

/* All workers are asleep, one of them for ever, and nobody takes what waits. */
Test(watchdog, work_that_nobody_takes_is_not_told_of)
{
    int manager = open_manager();
    watchdog_init(&dog, 30000000, NULL, 3, tell);
    dog.pulse = pulse_of;
    dog.line_pulse = pulse_of_line;
    check(manager, 0, true);
    check(manager, 100, true);
    line = (struct worker_pulse){true, 7};
    check(manager, 101, true);
    check(manager, 130, true);
    check(manager, 131, false); /* last seen empty at 100 */
    line.beats++;
    check(manager, 132, true);
    check(manager, 161, true);
    check(manager, 162, false);
    line.busy = false;
    check(manager, 163, true);
    close_manager(manager);
}

Test(watchdog, nobody_watches)
{
    int manager = open_manager();
    watchdog_init(&dog, 0, NULL, 1, tell);
    check(manager, 1, false);
    close_manager(manager);
}

static void await_busy(struct backend *b, uint32_t worker, bool busy)
{
    while (workers_pulse(b, worker).busy != busy)
        usleep(100);
}

/* One of two workers is held in a part: it is busy, and its number stays; the other one's rises
 * with each job, and it sleeps in between. */
Test(watchdog, real_workers_have_a_pulse)
{
    struct backend *b = start(2);
    atomic_bool gate = false;
    struct trace held = {.gate = &gate}, free_one = {0};
    await_busy(b, 0, false);
    await_busy(b, 1, false);
    struct job *stuck = make(&held, 1), *back;
    cr_assert_eq(b->ops->submit(b, stuck), STATUS_OK);
    while (!atomic_load(&held.entered))
        usleep(100);
    uint32_t at = workers_pulse(b, 0).busy ? 0 : 1;
    cr_assert(workers_pulse(b, at).busy);
    await_busy(b, 1 - at, false);
    uint32_t stands = workers_pulse(b, at).beats;
    for (int i = 0; i < 3; i++) {
        uint32_t before = workers_pulse(b, 1 - at).beats;
        struct job *j = make(&free_one, 1);
        cr_assert_eq(b->ops->submit(b, j), STATUS_OK);
        await(&back, 1);
        cr_assert_eq(back, j);
        free(j);
        await_busy(b, 1 - at, false);
        cr_expect_gt(workers_pulse(b, 1 - at).beats, before);
    }
    cr_expect_eq(workers_pulse(b, at).beats, stands);
    cr_expect_not(workers_line_pulse(b).busy);
    watchdog_init(&dog, 1000000, b, 2, tell);
    cr_expect(watchdog_check(&dog, 1 * SECOND_NS));
    cr_expect_not(watchdog_check(&dog, 2 * SECOND_NS));
    /* Both are held, and work waits. */
    struct trace too = {.gate = &gate};
    struct job *stuck_too = make(&too, 1), *waits = make(&free_one, 1), *all[3];
    cr_assert_eq(b->ops->submit(b, stuck_too), STATUS_OK);
    while (!atomic_load(&too.entered))
        usleep(100);
    cr_assert_eq(b->ops->submit(b, waits), STATUS_OK);
    struct worker_pulse held_line = workers_line_pulse(b);
    cr_expect(held_line.busy && workers_line_pulse(b).beats == held_line.beats);
    atomic_store(&gate, true);
    await(all, 3);
    await_busy(b, at, false);
    cr_expect_not(workers_line_pulse(b).busy);
    cr_expect(watchdog_check(&dog, 3 * SECOND_NS));
    b->ops->destroy(b);
    free(stuck);
    free(stuck_too);
    free(waits);
}
