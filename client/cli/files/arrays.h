/* arrays: small arrays read or written as a whole.
 * Owner:  the caller frees what was read.
 * Thread: one at a time.
 * Errors: exit codes, as in cli.h; one line on stderr. */
#ifndef ENGRAM_CLI_FILES_ARRAYS_H
#define ENGRAM_CLI_FILES_ARRAYS_H

#include "client/cli/files/npy_write.h"

/* Reads the numbers of a one-column file; *numbers is not NULL, even if there are none. wanted:
 * "one" or "one time a row", for a file with more columns. */
int arrays_read_column(const char *path, const char *wanted, float **numbers, uint64_t *count);

/* Says whether a file can be made there, before work is done whose result it is to hold. Leaves
 * what is there as it is. */
int arrays_writable(const char *path);

/* Writes a .npy file; axes: 1 or 2, as for npy_writer_open. */
int arrays_write(const char *path, enum npy_write_type type, unsigned axes, uint64_t rows,
                 uint64_t columns, const void *data);

#endif
