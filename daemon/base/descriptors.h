/* descriptors: what a process may open. A program may be started with its standard input, output or
 * error closed; the next file that it opens would then be one of them, and log lines would go into
 * it. And it may have few, some of which are to be kept.
 * Owner:  main of both programs; net. Thread: main, before any other; descriptors_left: any.
 * Errors: false, errno says why. */
#ifndef ENGRAM_BASE_DESCRIPTORS_H
#define ENGRAM_BASE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

/* Opens those of the descriptors 0, 1 and 2 that are closed on /dev/null. */
bool descriptors_open_standard(void);

/* Returns how many may be opened behind fd, which was opened just now: the lowest free number is
 * taken, so none below it is free. *limit: RLIMIT_NOFILE. */
uint64_t descriptors_left(int fd, uint64_t *limit);

#endif
