/* spool: vectors that cannot be read where they are (standard input, text, archives) as a temporary
 * file that can.
 * Owner:  the caller closes the streams.
 * Thread: one at a time.
 * Errors: false, and error is one line that names the file.
 *
 * "-" is standard input, whose first bytes say what it is: .npy, .npz, JSON Lines or CSV. Of an
 * archive (.npz) FILE.npz:NAME picks an array; FILE.npz has just one. The temporary file lies in
 * $TMPDIR and has no name. */
#ifndef ENGRAM_CLI_FILES_SPOOL_H
#define ENGRAM_CLI_FILES_SPOOL_H

#include <stdbool.h>
#include <stdio.h>

enum spool_content { SPOOL_ROWS, SPOOL_IDS, SPOOL_MARKS };

/* True: the path is one of these. */
bool spool_needed(const char *path);
/* *npy: what *stream has is .npy, else .fbin. *ids: NULL where the rows name none; else .npy. */
bool spool_open(const char *path, enum spool_content content, FILE **stream, bool *npy, FILE **ids,
                char *error, size_t error_bytes);

#endif
