/* npy_write: writes a .npy matrix row by row; the file appears whole or not at all.
 * Owner:  the caller keeps the struct; finish or abandon frees what it holds.
 * Thread: one at a time per struct.
 * Errors: false, and writer->error is one line. A full disk shows in append or in finish.
 *
 * What is written directly, and how, whole_file.h says. */
#ifndef ENGRAM_CLI_FILES_NPY_WRITE_H
#define ENGRAM_CLI_FILES_NPY_WRITE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/cli/files/whole_file.h"

enum npy_write_type { NPY_WRITE_FLOAT32, NPY_WRITE_UINT64, NPY_WRITE_FLOAT64 };

struct npy_writer {
    struct whole_file file;
    enum npy_write_type type;
    unsigned axes; /* 1: columns is 1 and not part of the shape */
    uint64_t columns, rows, rows_written;
    bool rows_known;
    char error[400];
};

/* the rows are counted, and finish writes the count into the header */
#define NPY_ROWS_UNKNOWN UINT64_MAX

bool npy_writer_open(struct npy_writer *w, const char *path, enum npy_write_type type,
                     unsigned axes, uint64_t rows, uint64_t columns);
/* Appends n rows without gaps. */
bool npy_writer_append(struct npy_writer *w, const void *rows, uint64_t n);
bool npy_writer_finish(struct npy_writer *w);
/* Removes the temporary file; fine after finish and on a zeroed struct. */
void npy_writer_abandon(struct npy_writer *w);

#endif
