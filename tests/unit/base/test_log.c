#include <criterion/criterion.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"

static char captured[65536];

/* Each test is a process of its own: it may keep its stderr. */
static int capture_start(void)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
    close(ends[1]);
    return ends[0];
}

static const char *capture_end(int from)
{
    size_t bytes = 0;
    ssize_t n;
    close(STDERR_FILENO);
    while ((n = read(from, captured + bytes, sizeof captured - 1 - bytes)) > 0)
        bytes += (size_t)n;
    captured[bytes] = 0;
    return captured;
}

static bool matches(const char *text, const char *pattern)
{
    regex_t compiled;
    cr_assert_eq(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    bool found = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return found;
}

Test(log, a_line_has_time_level_and_text)
{
    unsetenv("JOURNAL_STREAM");
    int from = capture_start();
    log_warning("net: %d of %s", 7, "nine");
    const char *line = capture_end(from);
    cr_expect(matches(line, "^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]"
                            "\\.[0-9]{3}Z warning net: 7 of nine\n$"),
              "%s", line);
}

Test(log, under_a_journal_it_has_the_priority_alone)
{
    setenv("JOURNAL_STREAM", "9:8", 1);
    int from = capture_start();
    log_error("one");
    log_warning("two");
    log_info("three");
    cr_expect_str_eq(capture_end(from), "<3>one\n<4>two\n<6>three\n");
}

Test(log, the_level_is_settable_live)
{
    setenv("JOURNAL_STREAM", "9:8", 1);
    int from = capture_start();
    int evaluated = 0;
    log_debug("hidden %d", ++evaluated);
    cr_expect_eq(evaluated, 0);
    cr_expect(log_set_level_name("debug"));
    log_debug("shown");
    cr_expect_not(log_set_level_name("loud"));
    cr_expect_eq(log_level_now, LOG_LEVEL_DEBUG);
    cr_expect(log_set_level_name("error"));
    log_warning("hidden");
    cr_expect_str_eq(capture_end(from), "<7>shown\n");
}

Test(log, a_client_cannot_forge_a_line)
{
    setenv("JOURNAL_STREAM", "9:8", 1);
    int from = capture_start();
    log_info("client '%s'", "a\n<3>b\r\x1b[2J\x7f\xc3\xa9");
    cr_expect_str_eq(capture_end(from), "<6>client 'a\\x0a<3>b\\x0d\\x1b[2J\\x7f\xc3\xa9'\n");
}

Test(log, a_long_line_is_cut_and_stays_one_line)
{
    setenv("JOURNAL_STREAM", "9:8", 1);
    char text[9000];
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = 0;
    int from = capture_start();
    log_info("%s", text);
    memset(text, 'x', sizeof text - 1);
    log_info("%s", text);
    const char *lines = capture_end(from);
    const char *first_end = strchr(lines, '\n');
    cr_assert_not_null(first_end);
    const char *second_end = strchr(first_end + 1, '\n');
    cr_assert_not_null(second_end);
    cr_expect_eq(second_end[1], 0, "two calls, two lines");
    cr_expect(second_end - lines < 2400);
}
