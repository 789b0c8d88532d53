/* whole_file: a file that appears whole or not at all.
 * Owner:  the caller keeps the struct; finish or abandon frees what it holds.
 * Thread: one at a time per struct.
 * Errors: false, and error is one line; nothing is left then.
 *
 * A temporary file beside the target is written, which finish syncs and renames. An existing target
 * that is not a regular file (a device, a pipe) is written directly, and so is standard output,
 * "-". */
#ifndef ENGRAM_CLI_FILES_WHOLE_FILE_H
#define ENGRAM_CLI_FILES_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct whole_file {
    FILE *stream;
    char *path;      /* the target, with symbolic links resolved */
    char *temporary; /* NULL: the target is written directly */
    char error[400];
};

bool whole_file_open(struct whole_file *f, const char *path);
bool whole_file_write(struct whole_file *f, const void *data, size_t bytes);
/* Reports errno, with what was tried; gives false. */
bool whole_file_fail(struct whole_file *f, const char *what);
bool whole_file_finish(struct whole_file *f);
/* Removes the temporary file; fine after finish and on a zeroed struct. */
void whole_file_abandon(struct whole_file *f);

#endif
