#include "daemon/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

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
    static int journal = -1;
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

void log_write(enum log_level level, const char *format, ...)
{
    char text[LINE_MAX_BYTES], line[LINE_MAX_BYTES + 64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t n = append_escaped(line, write_prefix(level, line, sizeof line), sizeof line, text);
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written;
}
