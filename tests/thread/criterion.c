/* A test executable's main under SAN=thread; see criterion/criterion.h beside this. */
#include "tests/thread/criterion/criterion.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_TEST_FAILED = 99, EXIT_TEST_SKIPPED = 98 };

static struct test_case *first, *last;
static struct test_suite *suites;
static atomic_int failures;

void test_case_add(struct test_case *t)
{
    if (last)
        last->next = t;
    else
        first = t;
    last = t;
}

void test_suite_add(struct test_suite *s)
{
    s->next = suites;
    suites = s;
}

void test_case_failed(bool fatal, const char *file, int line, const char *what, const char *format,
                      ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: %s ", file, line, what);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    atomic_fetch_add(&failures, 1);
    if (fatal) _exit(EXIT_TEST_FAILED);
}

void test_case_skip(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("SKIP ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    fflush(stdout);
    _exit(EXIT_TEST_SKIPPED);
}

static void run_here(const struct test_case *t)
{
    alarm(t->timeout ? (unsigned)(t->timeout * 4) : 600);
    const struct test_suite *s = suites;
    while (s && strcmp(s->name, t->suite) != 0)
        s = s->next;
    if (s && s->init) s->init();
    if (t->init) t->init();
    t->run();
    if (t->fini) t->fini();
    if (s && s->fini) s->fini();
    fflush(NULL);
    /* exit, not _exit: the sanitizer still has leaked threads to report. */
    exit(atomic_load(&failures) ? EXIT_TEST_FAILED : 0);
}

static bool passed(const struct test_case *t, int status)
{
    if (t->signal) return WIFSIGNALED(status) && WTERMSIG(status) == t->signal;
    if (!WIFEXITED(status)) return false;
    int code = WEXITSTATUS(status);
    return code == t->exit_code || code == EXIT_TEST_SKIPPED;
}

int main(int argc, char **argv)
{
    FILE *report = NULL;
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--tap=", 6) == 0) report = fopen(argv[i] + 6, "w");
    int count = 0, failed = 0;
    for (const struct test_case *t = first; t; t = t->next)
        count++;
    if (report) fprintf(report, "TAP version 13\n1..%d\n", count);
    for (const struct test_case *t = first; t; t = t->next) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) run_here(t);
        int status = 0;
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        bool ok = pid > 0 && passed(t, status);
        failed += !ok;
        if (report) fprintf(report, "%sok - %s::%s\n", ok ? "" : "not ", t->suite, t->name);
        fprintf(stderr, "%s %s::%s\n", ok ? "ok" : "FAILED", t->suite, t->name);
    }
    if (report) fclose(report);
    return failed ? 1 : 0;
}
