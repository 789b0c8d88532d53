/* failure: what went wrong, told again on standard output where --json was asked for:
 * {"error": {"exit": 1, "message": ..., "status": ..., "detail": ..., "detail_number": ...,
 * "retryable": ..., "retry_after_ms": ...}}, on a line of its own, the last.
 * Owner:  one record a process.
 * Thread: the main thread.
 * Errors: none. */
#ifndef ENGRAM_CLI_FAILURE_H
#define ENGRAM_CLI_FAILURE_H

#include "client/engram_accel.h"

/* Looks for --json and --format json before anything is parsed: usage errors are told, too. */
void failure_install(int argc, char **argv);
/* The first one counts; code 0: only where nothing else is told. */
void failure_note(int code, const char *message);
/* What the client library says of its last call; before failure_note. */
void failure_note_status(ea_client *c, ea_status status);
/* What argp and getopt print between these two is told as JSON, too, if argp ends the process. */
void failure_usage_begin(void);
void failure_usage_end(void);
/* Before standard output is flushed for good. */
void failure_print(int code);

#endif
