#include "daemon/base/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/log_limit.h"
#include "daemon/base/log_queue.h"

enum { TEXT_MAX_BYTES = 1024, JOURNAL_FIELDS_MAX = LOG_FIELDS_MAX + 2 };

static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_limit limit;

enum log_level log_level_now = LOG_LEVEL_INFO;

static enum log_format format_now = LOG_FORMAT_TEXT;
static const char *program_now = "";
static int (*journal)(const struct iovec *fields, int count);

/* The one whose name is text among names; -1: none. */
static int find_name(const char *const *names, int count, const char *text)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0) return i;
    return -1;
}

bool log_set_level_name(const char *name)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    int found = find_name(names, 4, name);
    if (found >= 0) log_level_now = (enum log_level)found;
    return found >= 0;
}

bool log_set_format_name(const char *name, const char *program)
{
    static const char *const names[] = {"text", "json", "journald"};
    int found = find_name(names, 3, name);
    if (found < 0) return false;
    format_now = (enum log_format)found;
    program_now = program;
    return true;
}

void log_use_journal(int (*send)(const struct iovec *fields, int count))
{
    journal = send;
}

/* Gives a line of fields, each of which ends with a newline, to the journal. */
static bool send_fields(const char *line, size_t bytes)
{
    struct iovec fields[JOURNAL_FIELDS_MAX];
    int count = 0;
    for (const char *at = line, *end = line + bytes; at < end && count < JOURNAL_FIELDS_MAX;) {
        size_t length = strcspn(at, "\n");
        fields[count++] = (struct iovec){(void *)(uintptr_t)at, length};
        at += length + 1;
    }
    return journal(fields, count) >= 0;
}

static bool goes_to_journal(void)
{
    return format_now == LOG_FORMAT_JOURNALD && journal;
}

/* Lays out a line with its newline; returns its length. */
static size_t lay_out(enum log_level level, const struct log_field *fields, unsigned count,
                      const char *text, char line[LOG_LINE_BYTES])
{
    static atomic_int under_journal = -1;
    if (under_journal < 0) under_journal = getenv("JOURNAL_STREAM") != NULL;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct log_line l = {
        .level = level,
        .format = format_now == LOG_FORMAT_JOURNALD && !journal ? LOG_FORMAT_TEXT : format_now,
        .under_journal = under_journal,
        .time_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec,
        .program = program_now,
        .text = text,
        .fields = fields,
        .field_count = count < LOG_FIELDS_MAX ? count : LOG_FIELDS_MAX,
    };
    return log_line_lay_out(&l, line);
}

static void put(enum log_level level, const struct log_field *fields, unsigned count,
                const char *text)
{
    char line[LOG_LINE_BYTES];
    size_t n = lay_out(level, fields, count, text, line);
    if (log_queue_runs()) {
        log_queue_put(line, n);
    } else if (goes_to_journal()) {
        send_fields(line, n);
    } else {
        ssize_t written = write(STDERR_FILENO, line, n);
        (void)written;
    }
}

static void put_left_out(const char *format, uint32_t left_out)
{
    char text[TEXT_MAX_BYTES];
    snprintf(text, sizeof text, "log: %u more lines in that second of the kind '%s'", left_out,
             strcmp(format, "%s") == 0 ? "net: of connections" : format);
    put(LOG_LEVEL_WARNING, NULL, 0, text);
}

/* Whether a line of this kind may go out; tells what was left out before it. */
static bool may_go(const char *format)
{
    uint32_t left_out;
    pthread_mutex_lock(&limit_lock);
    bool may = log_limit_take(&limit, format, clock_now_ns(), &left_out);
    pthread_mutex_unlock(&limit_lock);
    if (left_out) put_left_out(format, left_out);
    return may;
}

/* Tells what was left out in seconds that are over at now_ns, of kinds that nobody logs any more;
 * returns when the next such second ends. */
static uint64_t tell_left_out(uint64_t now_ns)
{
    for (;;) {
        uint32_t left_out;
        uint64_t next_ns;
        pthread_mutex_lock(&limit_lock);
        const char *format = log_limit_over(&limit, now_ns, &left_out, &next_ns);
        pthread_mutex_unlock(&limit_lock);
        if (!format) return next_ns;
        put_left_out(format, left_out);
    }
}

static uint64_t on_idle(void)
{
    return tell_left_out(clock_now_ns());
}

static size_t tell_lost(char line[LOG_LINE_BYTES], uint64_t lost)
{
    char text[96];
    snprintf(text, sizeof text, "log: %" PRIu64 " lines were lost: the output took none", lost);
    return lay_out(LOG_LEVEL_WARNING, NULL, 0, text, line);
}

bool log_start(void)
{
    struct log_queue_hooks hooks = {
        .tell = tell_lost, .idle = on_idle, .send = goes_to_journal() ? send_fields : NULL};
    return log_queue_start(&hooks);
}

void log_stop(void)
{
    if (log_queue_runs()) tell_left_out(UINT64_MAX); /* the second that is not over, too */
    log_queue_stop();
}

__attribute__((format(printf, 4, 0))) static void write_text(enum log_level level,
                                                             const struct log_field *fields,
                                                             unsigned count, const char *format,
                                                             va_list args)
{
    char text[TEXT_MAX_BYTES];
    if (level < LOG_LEVEL_DEBUG && log_queue_runs() && !may_go(format)) return;
    vsnprintf(text, sizeof text, format, args);
    put(level, fields, count, text);
}

void log_write(enum log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_text(level, NULL, 0, format, args);
    va_end(args);
}

void log_write_fields(enum log_level level, const struct log_field *fields, unsigned count,
                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_text(level, fields, count, format, args);
    va_end(args);
}
