/* output: standard output, whose first failed write ends the process at once and says why: a full
 * disk is not found out after minutes of work, and the kernel's word for it is not lost.
 * Owner:  main.
 * Thread: the main thread.
 * Errors: output_finish gives CLI_FILE when the rest cannot be written. */
#ifndef ENGRAM_CLI_OUTPUT_H
#define ENGRAM_CLI_OUTPUT_H

/* Before anything is written. */
void output_install(void);
/* Flushes; gives `code`, or why not all was written. */
int output_finish(int code);

#endif
