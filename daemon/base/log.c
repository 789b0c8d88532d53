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

enum { LINE_MAX_BYTES = 1024 };

_Static_assert(LINE_MAX_BYTES + 64 <= LOG_LINE_BYTES, "a line fits the queue");

static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_limit limit;

enum log_level log_level_now = LOG_LEVEL_INFO;

static const char *const names[] = {"error", "warning", "info", "debug"};
static const int priorities[] = {3, 4, 6, 7}; /* syslog's numbers */

bool log_set_level_name(const char *name)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) {
            log_level_now = (enum log_level)i;
            return true;
        }
    return false;
}

static size_t write_prefix(enum log_level level, char *line, size_t size)
{
    static atomic_int journal = -1;
    if (journal < 0) journal = getenv("JOURNAL_STREAM") != NULL;
    if (journal) return (size_t)snprintf(line, size, "<%d>", priorities[level]);
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &parts);
    return n + (size_t)snprintf(line + n, size - n, ".%03ldZ %-7s ", now.tv_nsec / 1000000,
                                names[level]);
}

/* Appends text to line from n on, control characters as \xNN; the last byte is kept for the
 * newline. */
static size_t append_escaped(char *line, size_t n, size_t size, const char *text)
{
    for (; *text && n + 5 < size; text++) {
        unsigned char ch = (unsigned char)*text;
        if (ch >= 0x20 && ch != 0x7f)
            line[n++] = (char)ch;
        else
            n += (size_t)snprintf(line + n, size - n, "\\x%02x", ch);
    }
    return n;
}

/* Lays out a line with its newline in LOG_LINE_BYTES; returns its length. */
static size_t lay_out(enum log_level level, const char *text, char line[LOG_LINE_BYTES])
{
    size_t n = write_prefix(level, line, LOG_LINE_BYTES);
    n = append_escaped(line, n, LOG_LINE_BYTES, text);
    line[n++] = '\n';
    return n;
}

static void put(enum log_level level, const char *text)
{
    char line[LOG_LINE_BYTES];
    size_t n = lay_out(level, text, line);
    if (log_queue_runs()) {
        log_queue_put(line, n);
        return;
    }
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written;
}

static void put_left_out(const char *format, uint32_t left_out)
{
    char text[LINE_MAX_BYTES];
    snprintf(text, sizeof text, "log: %u more lines in that second of the kind '%s'", left_out,
             strcmp(format, "%s") == 0 ? "net: of connections" : format);
    put(LOG_LEVEL_WARNING, text);
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
    return lay_out(LOG_LEVEL_WARNING, text, line);
}

bool log_start(void)
{
    static const struct log_queue_hooks hooks = {.tell = tell_lost, .idle = on_idle};
    return log_queue_start(&hooks);
}

void log_stop(void)
{
    if (log_queue_runs()) tell_left_out(UINT64_MAX); /* the second that is not over, too */
    log_queue_stop();
}

void log_write(enum log_level level, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    if (level < LOG_LEVEL_DEBUG && log_queue_runs() && !may_go(format)) return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(level, text);
}
