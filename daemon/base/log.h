/* log: one line for each event on stderr, with a level. Under a service manager that reads stderr
 * into a journal (JOURNAL_STREAM) a line starts with the syslog priority, "<6>"; otherwise with
 * the time. Control characters are escaped, so that a client's text cannot forge a line.
 * Owner:  base; the level is process-wide.
 * Thread: any; a line is one write.
 * Errors: none; a line that cannot be written is lost. */
#ifndef ENGRAM_BASE_LOG_H
#define ENGRAM_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* "error", "warning", "info", "debug"; false (and no change) for another name. */
bool log_set_level_name(const char *name);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

extern enum log_level log_level_now;

/* The arguments are not evaluated below the level. */
#define log_at(level, ...) ((level) <= log_level_now ? log_write((level), __VA_ARGS__) : (void)0)
#define log_error(...)     log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...)   log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)      log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)     log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
