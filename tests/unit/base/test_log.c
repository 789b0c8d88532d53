#include <criterion/criterion.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cjson/cJSON.h>

#include "daemon/base/log.h"

static char captured[65536];

/* Each test is a process of its own: it may keep its stderr. */
static int capture_start(void)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    int from =
        fcntl(ends[0], F_DUPFD, STDERR_FILENO + 1); /* where stderr is closed, it may be it */
    if (ends[1] != STDERR_FILENO) {
        cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
        close(ends[1]);
    }
    if (ends[0] != STDERR_FILENO) close(ends[0]);
    return from;
}

static const char *capture_end(int from)
{
    size_t bytes = 0;
    ssize_t n;
    close(STDERR_FILENO);
    while ((n = read(from, captured + bytes, sizeof captured - 1 - bytes)) > 0)
        bytes += (size_t)n;
    captured[bytes] = 0;
    close(from);
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

Test(log, a_client_cannot_control_a_terminal_or_turn_a_line)
{
    setenv("JOURNAL_STREAM", "9:8", 1);
    int from = capture_start();
    log_info("%s", "\xc2\x9b 31m \x9b 1m \xe2\x80\xae txt.exe \xe2\x82\xac");
    cr_expect_str_eq(capture_end(from),
                     "<6>\\xc2\\x9b 31m \\x9b 1m \\xe2\\x80\\xae txt.exe \xe2\x82\xac\n");
}

Test(log, no_line_of_json_turns)
{
    cr_assert(log_set_format_name("json", "p"));
    int from = capture_start();
    log_info("%s", "\xc2\x9b\xe2\x80\xae\xe2\x82\xac");
    const char *line = capture_end(from);
    cr_expect(strstr(line, "\"\\u009b\\u202e\xe2\x82\xac\""), "%s", line);
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

/* ---------------------------------------------------------------- JSON and the journal */

static const struct log_field said[] = {{"operation", "k\nn\"n", 0}, {"run_us", NULL, 1234}};

static const char *text_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    cr_assert(text, "no %s", name);
    return text;
}

Test(log, a_line_of_json_is_one_object)
{
    cr_assert_not(log_set_format_name("xml", "x"));
    cr_assert(log_set_format_name("json", "engram-\"t\""));
    int from = capture_start();
    log_write_fields(LOG_LEVEL_WARNING, said, 2, "a\n\"b\" \\ \x7f %s",
                     "\xc3\xa9 \xed\xa0\x80 \xc3");
    const char *line = capture_end(from);
    cr_assert_eq(strcspn(line, "\n"), strlen(line) - 1, "one line: %s", line);
    cJSON *o = cJSON_Parse(line);
    cr_assert(o, "%s", line);
    cr_expect(matches(text_of(o, "time"), "^20[0-9-]{8}T[0-9:]{8}\\.[0-9]{3}Z$"));
    cr_expect_str_eq(text_of(o, "level"), "warning");
    cr_expect_str_eq(text_of(o, "program"), "engram-\"t\"");
    cr_expect_str_eq(text_of(o, "message"), "a\n\"b\" \\ \x7f \xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd"
                                            "\xef\xbf\xbd \xef\xbf\xbd");
    cr_expect_str_eq(text_of(o, "operation"), "k\nn\"n");
    cr_expect_eq(cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(o, "run_us")), 1234);
    cJSON_Delete(o);
}

/* Texts of every length and kind, so that each is cut somewhere else. */
Test(log, a_cut_line_of_json_is_an_object_still)
{
    static const char *const pieces[] = {"x", "\"", "\n", "\xe2\x82\xac", "\xff"};
    static char text[9000];
    static const struct log_field long_field = {"name", text, 0};
    struct log_field many[LOG_FIELDS_MAX + 3];
    for (int i = 0; i < LOG_FIELDS_MAX + 3; i++)
        many[i] = i % 2 ? long_field : (struct log_field){"number", NULL, UINT64_MAX};
    log_set_format_name("json", "p");
    for (int kind = 0; kind < 5; kind++)
        for (unsigned count = 1; count < 3000; count += count < 12 ? 1 : 97) {
            text[0] = 0;
            for (unsigned i = 0; i < count && strlen(text) + 4 < sizeof text; i++)
                strcat(text + (i > 8 ? i - 8 : 0), pieces[kind]);
            int from = capture_start();
            log_write_fields(LOG_LEVEL_INFO, many, LOG_FIELDS_MAX + 3, "%s", text);
            const char *line = capture_end(from);
            cJSON *o = cJSON_Parse(line);
            cr_assert(o, "kind %d, %u: %s", kind, count, line);
            cr_assert_lt(strlen(line), LOG_LINE_BYTES + 1);
            cJSON_Delete(o);
        }
}

static char sent[8][2048];
static int sent_count;

static int keep_fields(const struct iovec *fields, int count)
{
    for (int i = 0; i < count && sent_count < 8; i++)
        snprintf(sent[sent_count++], sizeof sent[0], "%.*s", (int)fields[i].iov_len,
                 (const char *)fields[i].iov_base);
    return 0;
}

Test(log, the_journal_gets_fields)
{
    log_use_journal(keep_fields);
    cr_assert(log_set_format_name("journald", "x"));
    cr_assert(log_start());
    log_write_fields(LOG_LEVEL_WARNING, said, 2, "a\nPRIORITY=0 %d", 7);
    log_stop();
    cr_assert_eq(sent_count, 4);
    cr_expect_str_eq(sent[0], "PRIORITY=4");
    cr_expect_str_eq(sent[1], "ENGRAM_OPERATION=k\\x0an\"n");
    cr_expect_str_eq(sent[2], "ENGRAM_RUN_US=1234");
    cr_expect_str_eq(sent[3], "MESSAGE=a\\x0aPRIORITY=0 7", "no text makes a field");
}

static int refuse_fields(const struct iovec *fields, int count)
{
    if (sent_count >= 3) return keep_fields(fields, count);
    sent_count++;
    return -1;
}

Test(log, lines_that_the_journal_does_not_take_are_told)
{
    log_use_journal(refuse_fields);
    log_set_format_name("journald", "x");
    cr_assert(log_start());
    log_error("one");
    log_stop();     /* it is tried, then what was lost is told, which is lost, too */
    sent_count = 3; /* before the thread, which tells at once what was lost */
    cr_assert(log_start());
    log_error("two");
    log_stop();
    cr_expect_str_eq(sent[4], "MESSAGE=log: 1 lines were lost: the output took none");
    cr_expect_str_eq(sent[6], "MESSAGE=two");
}
