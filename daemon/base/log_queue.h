/* log_queue: lines on their way to stderr, written by a thread of their own, so that an output
 * which is full, slow, closed or gone costs lines and never the time of who logs.
 * Owner:  log, one for the process.
 * Thread: log_queue_put from any; start and stop from main.
 * Errors: lines that find the queue full, or that cannot be written, are counted, and told once a
 *         line can be written again. */
#ifndef ENGRAM_BASE_LOG_QUEUE_H
#define ENGRAM_BASE_LOG_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/log_line.h"

enum { LOG_QUEUE_LINES = 512, LOG_STOP_MS = 1000 };

/* tell: writes a line that says that so many were lost, and returns its length. idle: called by the
 * thread when it has nothing to write, and at the time that it returned last (of the monotonic
 * clock, UINT64_MAX: not of itself). send: NULL, or what takes
 * lines in place of stderr, and may wait; false where a line was lost. */
struct log_queue_hooks {
    size_t (*tell)(char line[LOG_LINE_BYTES], uint64_t lost);
    uint64_t (*idle)(void);
    bool (*send)(const char *line, size_t bytes);
};
/* False: there is no thread. */
bool log_queue_start(const struct log_queue_hooks *hooks);
/* Writes what is in line, for at most LOG_STOP_MS, and ends the thread. */
void log_queue_stop(void);
/* Whether log_queue_put has a thread to give lines to. */
bool log_queue_runs(void);
/* Copies a line, with its newline. */
void log_queue_put(const char *line, size_t bytes);
/* Lines lost since the start, told or not. */
uint64_t log_queue_lost(void);

#endif
