/* interrupt: the effects of Ctrl-C, SIGTERM, SIGHUP and a closed pipe.
 * Owner:  the process; one instance.
 * Thread: the main thread.
 * Errors: interrupt_guard: false when its few places are taken.
 *
 * By default, unfinished output files are removed and the process ends at once with 128 + the
 * signal. In a command that can stop in the middle, the first Ctrl-C only sets a flag, and the
 * second ends the process at once. */
#ifndef ENGRAM_CLI_INTERRUPT_H
#define ENGRAM_CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_install(void);
void interrupt_politely(bool politely);
bool interrupt_seen(void);

/* Removes `path` if a signal ends the process before interrupt_release. Keeps the pointer. */
bool interrupt_guard(const char *path);
void interrupt_release(const char *path);

/* Calls `function`, which must be safe in a signal handler, when a signal ends the process. */
void interrupt_also(void (*function)(void));
/* Removes the guarded files, before the process ends at once. */
void interrupt_unlink(void);

#endif
