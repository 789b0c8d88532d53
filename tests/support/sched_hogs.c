#include "tests/support/sched_hogs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/support/daemon_process.h"

enum { SETTLE_US = 50000 }; /* until what a paused one began is through */

/* Runs a program, or, without arguments, burns processor time. Says a byte on what is returned once
 * it is at it; closes it without a byte when it cannot. */
static int start_one(struct sched_hogs *h, char *const *arguments)
{
    int said[2];
    if (h->count == HOGS_MAX || pipe2(said, O_CLOEXEC)) bench_fail("hog", strerror(errno));
    pid_t pid = fork();
    if (pid < 0) bench_fail("hog", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(HOGS_S);
        dup2(said[1], 1);
        if (arguments) {
            execv(arguments[0], arguments);
            _exit(127);
        }
        if (write(1, "\n", 1) != 1) _exit(1);
        for (volatile uint64_t n = 0;; n = n + 1)
            ;
    }
    close(said[1]);
    h->pids[h->count++] = pid;
    return said[0];
}

/* Waits until it is at it, then pauses it. */
static bool await_one(int said, pid_t pid)
{
    char first;
    bool up = read(said, &first, 1) == 1;
    close(said);
    kill(pid, SIGSTOP);
    return up;
}

/* All at once: a card that is busy starts processes slowly. */
bool sched_hogs_start_gpu(struct sched_hogs *h, unsigned count)
{
    int said[HOGS_MAX];
    char path[4200], seconds[16], busy[] = "busy";
    bool all = true;
    build_path("tests/gpu/gpu_hog", path, sizeof path);
    snprintf(seconds, sizeof seconds, "%d", HOGS_S);
    char *const arguments[] = {path, busy, seconds, NULL};
    for (unsigned i = 0; i < count; i++)
        said[i] = start_one(h, arguments);
    for (unsigned i = 0; i < count; i++)
        all &= await_one(said[i], h->pids[i]);
    usleep(SETTLE_US);
    return all;
}

void sched_hogs_start_cpu(struct sched_hogs *h, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        int said = start_one(h, NULL);
        await_one(said, h->pids[h->count - 1]);
    }
}

void sched_hogs_run(const struct sched_hogs *h, unsigned running)
{
    for (unsigned i = 0; i < h->count; i++)
        kill(h->pids[i], i < running ? SIGCONT : SIGSTOP);
    usleep(SETTLE_US);
}

void sched_hogs_stop(struct sched_hogs *h)
{
    for (unsigned i = 0; i < h->count; i++)
        kill(h->pids[i], SIGKILL);
    for (unsigned i = 0; i < h->count; i++)
        waitpid(h->pids[i], NULL, 0);
    h->count = 0;
}
