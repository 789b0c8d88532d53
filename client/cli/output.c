#include "client/cli/output.h"

#include "client/cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed; /* the exit code */

/* Nothing is returned to: what else the command would write is lost, too. */
static void end_process(int error)
{
    interrupt_unlink();
    fprintf(stderr, "engram-accel: standard output: cannot write: %s\n", strerror(error));
    _exit(failed);
}

static ssize_t write_all(void *cookie, const char *bytes, size_t n)
{
    size_t done = 0;
    (void)cookie;
    while (done < n) {
        ssize_t wrote = write(STDOUT_FILENO, bytes + done, n - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) end_process(errno);
        done += (size_t)wrote;
    }
    return (ssize_t)n;
}

static int close_it(void *cookie)
{
    (void)cookie;
    return 0;
}

void output_install(int failed_code)
{
    failed = failed_code;
    cookie_io_functions_t functions = {.write = write_all, .close = close_it};
    FILE *out = fopencookie(NULL, "w", functions);
    if (!out) return;
    if (isatty(STDOUT_FILENO) == 1) setvbuf(out, NULL, _IOLBF, BUFSIZ);
    stdout = out;
}

static pid_t pager;

/* The pager has the terminal: Ctrl-C is its own. */
void output_page(void)
{
    const char *command = getenv("PAGER");
    int ends[2];
    if (pager || !command || !*command || isatty(STDIN_FILENO) != 1) return;
    fflush(stdout);
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    pager = fork();
    if (pager == 0) {
        dup2(ends[0], STDIN_FILENO);
        setenv("LESS", "FRX", 0);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (pager > 0) {
        dup2(ends[1], STDOUT_FILENO);
        if (isatty(STDERR_FILENO) == 1) dup2(ends[1], STDERR_FILENO);
        signal(SIGINT, SIG_IGN);
    } else {
        pager = 0;
    }
    close(ends[0]);
    close(ends[1]);
}

static void finish_pager(void)
{
    if (!pager) return;
    fflush(stdout);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    while (waitpid(pager, NULL, 0) < 0 && errno == EINTR) {
        /* it still shows */
    }
    pager = 0;
}

int output_finish(int code)
{
    if (pager) {
        finish_pager();
        return code;
    }
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    end_process(errno);
    return failed;
}
