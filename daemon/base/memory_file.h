/* memory_file: memory that is shared between processes, as a file without a name: nobody else may
 * open it through /proc, and where the kernel can promise it (Linux 6.3), nobody can ever run it.
 * Owner:  the caller, of the descriptor.
 * Thread: any.
 * Errors: -1, errno says why. */
#ifndef ENGRAM_BASE_MEMORY_FILE_H
#define ENGRAM_BASE_MEMORY_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns a descriptor of a file of so many zero bytes, whose size is sealed. */
int memory_file_create(const char *name, uint64_t bytes);
/* The same in two steps, for a file that is written and then never changes: it is empty at first;
 * the end seals its size and its bytes (false: it cannot). */
int memory_file_begin(const char *name);
bool memory_file_end(int fd);
/* Whether the size is sealed, and the bytes if `written`. */
bool memory_file_is_sealed(int fd, bool written);
/* Whether the file is sealed against being run. */
bool memory_file_never_runs(int fd);

#endif
