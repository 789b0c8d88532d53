/* interrupt: what Ctrl-C, SIGTERM, SIGHUP and a closed pipe do.
 * Owner:  the process; one instance.
 * Thread: the main thread.
 * Errors: interrupt_guard gives false when its few places are taken.
 *
 * At once (the default): unfinished output files are removed and the process ends with 128 + the
 * signal. Politely (a command that can stop in the middle): the first Ctrl-C only raises a flag,
 * the second ends at once. */
#ifndef ENGRAM_CLI_INTERRUPT_H
#define ENGRAM_CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_install(void);
void interrupt_politely(bool politely);
bool interrupt_seen(void);

/* Removes `path` if a signal ends the process before interrupt_release. Keeps the pointer. */
bool interrupt_guard(const char *path);
void interrupt_release(const char *path);

#endif
