/* log: one line for each event on stderr, with a level. Under a service manager that reads stderr
 * into a journal (JOURNAL_STREAM) a line starts with the syslog priority, "<6>"; otherwise with
 * the time. It may be an object of JSON instead, or go to the journal as fields (log.format).
 * Control characters are escaped, so that a client's text cannot forge a line.
 * From log_start to log_stop a thread of its own writes the lines (base/log_queue.h), so that an
 * output which takes nothing never costs who logs any time; a kind of line, which is a place in the
 * code, may have LOG_KIND_LINES a second then (base/log_limit.h), debug lines any number.
 * Owner:  base; the level is process-wide.
 * Thread: any; a line is one write.
 * Errors: none; lines that are lost or left out are counted, and the log says how many. */
#ifndef ENGRAM_BASE_LOG_H
#define ENGRAM_BASE_LOG_H

#include <stdbool.h>
#include <sys/uio.h>

#include "daemon/base/log_line.h"

/* "error", "warning", "info", "debug"; false (and no change) for another name. */
bool log_set_level_name(const char *name);

/* "text", "json", "journald": how lines leave, as base/log_line.h lays them out; before log_start.
 * False (and no change) for another name. program: who speaks, in JSON; kept, not copied. */
bool log_set_format_name(const char *name, const char *program);
/* What takes the fields of a line in format journald, as sd_journal_sendv does: 0, or negative
 * where the line was lost. This file is linked into programs that know no journal. */
void log_use_journal(int (*send)(const struct iovec *fields, int count));

/* Starts the thread. False: there is none; lines are written by who logs, as before. */
bool log_start(void);
/* Writes what is in line, for LOG_STOP_MS at most. Does nothing without log_start. */
void log_stop(void);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* fields: what the line says, once more for programs that read it. */
void log_write_fields(enum log_level level, const struct log_field *fields, unsigned count,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

extern enum log_level log_level_now;

/* The arguments are not evaluated below the level. */
#define log_at(level, ...) ((level) <= log_level_now ? log_write((level), __VA_ARGS__) : (void)0)
#define log_error(...)     log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...)   log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)      log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)     log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
