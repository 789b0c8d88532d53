/* descriptors: what a process does before it opens anything. A program may be started with its
 * standard input, output or error closed; the next file that it opens would then be one of them,
 * and log lines would go into it.
 * Owner:  main of both programs. Thread: main, before any other. Errors: false, errno says why. */
#ifndef ENGRAM_BASE_DESCRIPTORS_H
#define ENGRAM_BASE_DESCRIPTORS_H

#include <stdbool.h>

/* Opens those of the descriptors 0, 1 and 2 that are closed on /dev/null. */
bool descriptors_open_standard(void);

#endif
