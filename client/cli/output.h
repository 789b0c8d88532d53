/* output: standard output, whose first failed write ends the process at once and says why: a full
 * disk is not found out after minutes of work, and the kernel's word for it is not lost.
 * Owner:  main.
 * Thread: the main thread.
 * Errors: the process ends with failed_code when something cannot be written. */
#ifndef ENGRAM_CLI_OUTPUT_H
#define ENGRAM_CLI_OUTPUT_H

/* Before anything is written. failed_code: what a process exits with that cannot write. */
void output_install(int failed_code);
/* From now on what is printed, messages included, goes through $PAGER, if that is set and this is a
 * terminal; until output_finish, which waits for it. */
void output_page(void);
/* Flushes; gives `code`, or why not all was written. */
int output_finish(int code);

#endif
