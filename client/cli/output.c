#include "client/cli/output.h"

#include "client/cli/cli.h"
#include "client/cli/interrupt.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Nothing is returned to: what else the command would write is lost, too. */
static void end_process(int error)
{
    interrupt_unlink();
    fprintf(stderr, "engram-accel: standard output: cannot write: %s\n", strerror(error));
    _exit(CLI_FILE);
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

void output_install(void)
{
    cookie_io_functions_t functions = {.write = write_all, .close = close_it};
    FILE *out = fopencookie(NULL, "w", functions);
    if (!out) return;
    if (isatty(STDOUT_FILENO) == 1) setvbuf(out, NULL, _IOLBF, BUFSIZ);
    stdout = out;
}

int output_finish(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    return cli_error(CLI_FILE, "standard output: cannot write: %s", strerror(errno));
}
