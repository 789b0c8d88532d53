/* The log's thread: an output that takes nothing costs lines, which are counted, and no time. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/log_limit.h"
#include "daemon/base/log_queue.h"

enum { LINES = 3 * LOG_QUEUE_LINES, GIVE_UP_S = 60 };

/* Each test is a process of its own: it may keep its stderr. */
static int pipe_as_stderr(void)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    int from =
        fcntl(ends[0], F_DUPFD, STDERR_FILENO + 1); /* where stderr is closed, it may be it */
    cr_assert_gt(from, STDERR_FILENO);
    if (ends[1] != STDERR_FILENO) {
        cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
        close(ends[1]);
    }
    if (ends[0] != STDERR_FILENO) close(ends[0]);
    return from;
}

static void fill(int to, char with)
{
    int flags = fcntl(to, F_GETFL);
    fcntl(to, F_SETFL, flags | O_NONBLOCK);
    while (write(to, &with, 1) == 1)
        ;
    fcntl(to, F_SETFL, flags);
}

/* Lines are debug lines: of them there may be any number. */
static void begin(void)
{
    alarm(GIVE_UP_S);
    signal(SIGPIPE, SIG_IGN);
    setenv("JOURNAL_STREAM", "9:8", 1);
    log_set_level_name("debug");
    cr_assert(log_start());
}

struct counted {
    int from;
    unsigned lines, lost, wrong;
};

/* Reads until the end; counts whole lines "<7>line N", which must come in their order, and sums up
 * what the log says that it lost. May be a thread. */
static void *count_lines(void *argument)
{
    struct counted *c = argument;
    static char line[1 << 18]; /* what the pipe was filled with, and a line behind it */
    FILE *in = fdopen(c->from, "r");
    int last = -1;
    while (fgets(line, sizeof line, in)) {
        int number;
        unsigned some;
        char *at = line + strspn(line, "#");
        if (sscanf(at, "<7>line %d", &number) == 1) {
            c->wrong += number <= last;
            last = number;
            c->lines++;
        } else if (sscanf(at, "<4>log: %u lines were lost", &some) == 1) {
            c->lost += some;
        } else {
            c->wrong += at[0] != '\n';
        }
    }
    fclose(in);
    return NULL;
}

Test(log_queue, a_pipe_that_nobody_reads_costs_lines_which_are_told)
{
    struct counted c = {.from = pipe_as_stderr()};
    fill(STDERR_FILENO, '#');
    begin();
    for (int i = 0; i < LINES; i++)
        log_debug("line %d", i); /* on a main that waits for the pipe, this never ends */
    uint64_t lost = log_queue_lost();
    cr_expect_geq(lost, LINES - LOG_QUEUE_LINES - 1);
    pthread_t reader;
    cr_assert_eq(pthread_create(&reader, NULL, count_lines, &c), 0);
    log_stop();
    close(STDERR_FILENO);
    pthread_join(reader, NULL);
    cr_expect_eq(c.wrong, 0);
    cr_expect_eq(c.lines + c.lost, LINES, "%u lines, %u lost", c.lines, c.lost);
    cr_expect_eq(c.lost, lost);
}

static void await_lost(uint64_t count)
{
    while (log_queue_lost() < count)
        poll(NULL, 0, 1);
}

/* Lines to an output that takes none are counted, and told when there is another one. */
static void expect_told(void)
{
    for (int i = 0; i < 7; i++)
        log_debug("line %d", i);
    await_lost(7);
    struct counted c = {.from = pipe_as_stderr()};
    log_debug("line 7");
    log_stop();
    close(STDERR_FILENO);
    count_lines(&c);
    cr_expect_eq(c.wrong, 0);
    cr_expect_eq(c.lines, 1);
    cr_expect_eq(c.lost, 7);
}

Test(log_queue, a_reader_that_vanished)
{
    close(pipe_as_stderr());
    begin();
    expect_told();
}

Test(log_queue, a_full_disk)
{
    int full = open("/dev/full", O_WRONLY);
    cr_assert_geq(full, 0);
    dup2(full, STDERR_FILENO);
    begin();
    expect_told();
}

Test(log_queue, a_closed_stderr)
{
    close(STDERR_FILENO);
    begin();
    expect_told();
}

Test(log_queue, stop_waits_for_no_output_for_ever)
{
    int from = pipe_as_stderr();
    fill(STDERR_FILENO, '#');
    begin();
    for (int i = 0; i < LINES; i++)
        log_debug("line %d", i);
    log_stop(); /* the alarm ends a test in which it does not return */
    close(from);
}

Test(log_queue, without_its_thread_a_line_is_written_at_once)
{
    struct counted c = {.from = pipe_as_stderr()};
    begin();
    log_stop();
    log_debug("line 0");
    close(STDERR_FILENO);
    count_lines(&c);
    cr_expect_eq(c.wrong, 0);
    cr_expect_eq(c.lines, 1);
}

Test(log_queue, lines_of_one_kind_are_limited_and_what_is_left_out_is_told)
{
    int from = pipe_as_stderr();
    begin();
    for (int i = 0; i < 100 * LOG_KIND_LINES; i++)
        log_warning("kind %d", i);
    log_warning("another kind");
    log_stop();
    close(STDERR_FILENO);
    FILE *in = fdopen(from, "r");
    char line[2048];
    unsigned lines = 0, seconds = 0, left_out = 0, some;
    bool other = false;
    while (fgets(line, sizeof line, in)) {
        lines += strncmp(line, "<4>kind ", 8) == 0;
        other |= strcmp(line, "<4>another kind\n") == 0;
        if (sscanf(line, "<4>log: %u more lines in that second of the kind 'kind", &some) != 1)
            continue;
        seconds++;
        left_out += some;
    }
    fclose(in);
    cr_expect_leq(lines, (seconds + 1) * LOG_KIND_LINES);
    cr_expect_eq(lines + left_out, 100 * LOG_KIND_LINES, "%u lines, %u left out", lines, left_out);
    cr_expect(other);
}

/* ---------------------------------------------------------------- the limit, on a given clock */

Test(log_limit, a_kind_has_so_many_lines_a_second)
{
    static struct log_limit l;
    uint32_t out;
    uint64_t next, second = 1000000000;
    for (int i = 0; i < LOG_KIND_LINES; i++)
        cr_assert(log_limit_take(&l, "a", 5 * second + i, &out));
    for (int i = 0; i < 30; i++)
        cr_assert_not(log_limit_take(&l, "a", 6 * second - 1, &out));
    cr_assert(log_limit_take(&l, "b", 6 * second - 1, &out), "another kind");
    cr_assert_null(log_limit_over(&l, 6 * second - 1, &out, &next));
    cr_assert_eq(next, 6 * second);
    cr_assert(log_limit_take(&l, "a", 6 * second, &out));
    cr_assert_eq(out, 30);
}

Test(log_limit, what_was_left_out_is_told_although_nobody_logs_any_more)
{
    static struct log_limit l;
    uint32_t out;
    uint64_t next, second = 1000000000;
    for (int i = 0; i < LOG_KIND_LINES + 3; i++)
        log_limit_take(&l, "a", second, &out);
    cr_assert_str_eq(log_limit_over(&l, 2 * second, &out, &next), "a");
    cr_assert_eq(out, 3);
    cr_assert_null(log_limit_over(&l, 2 * second, &out, &next));
    cr_assert_eq(next, UINT64_MAX);
}

Test(log_limit, more_kinds_than_it_knows_share_one)
{
    static struct log_limit l;
    static char kinds[3 * LOG_KINDS];
    uint32_t out, lines = 0;
    for (int round = 0; round < LOG_KIND_LINES; round++)
        for (int i = 0; i < 3 * LOG_KINDS; i++)
            lines += log_limit_take(&l, &kinds[i], 1, &out);
    cr_assert_eq(lines, LOG_KINDS * LOG_KIND_LINES);
}
