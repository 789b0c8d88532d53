#include "client/cli/files/npy_write.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define HEADER_BYTES 128u /* a multiple of 64, as NumPy aligns; large enough for any shape */

/* The file has said why. */
static bool fail(struct npy_writer *w)
{
    memcpy(w->error, w->file.error, sizeof w->error);
    return false;
}

static const struct {
    const char *name; /* as NumPy writes it */
    size_t bytes;
} types[] = {
    [NPY_WRITE_FLOAT32] = {"<f4", 4},
    [NPY_WRITE_UINT64] = {"<u8", 8},
    [NPY_WRITE_FLOAT64] = {"<f8", 8},
};

static bool write_header(struct npy_writer *w, uint64_t rows)
{
    char header[HEADER_BYTES + 1], shape[64];
    if (w->axes == 1)
        snprintf(shape, sizeof shape, "%" PRIu64 ",", rows);
    else
        snprintf(shape, sizeof shape, "%" PRIu64 ", %" PRIu64, rows, w->columns);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = HEADER_BYTES - 10;
    header[9] = 0;
    int n = snprintf(header + 10, sizeof header - 10,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                     types[w->type].name, shape);
    memset(header + 10 + n, ' ', HEADER_BYTES - 11 - (size_t)n);
    header[HEADER_BYTES - 1] = '\n';
    return whole_file_write(&w->file, header, HEADER_BYTES);
}

bool npy_writer_open(struct npy_writer *w, const char *path, enum npy_write_type type,
                     unsigned axes, uint64_t rows, uint64_t columns)
{
    *w = (struct npy_writer){.type = type, .axes = axes, .columns = columns};
    w->rows_known = rows != NPY_ROWS_UNKNOWN;
    w->rows = w->rows_known ? rows : 0;
    bool opened = whole_file_open(&w->file, path);
    if (opened && !w->rows_known && !w->file.temporary) {
        errno = ESPIPE;
        opened =
            whole_file_fail(&w->file, "must be a regular file, as the number of rows comes last");
    }
    return (opened && write_header(w, w->rows)) || fail(w);
}

bool npy_writer_append(struct npy_writer *w, const void *rows, uint64_t n)
{
    if (!whole_file_write(&w->file, rows, n * w->columns * types[w->type].bytes)) return fail(w);
    w->rows_written += n;
    return true;
}

bool npy_writer_finish(struct npy_writer *w)
{
    bool well = true;
    if (w->rows_known && w->rows != w->rows_written) {
        errno = EIO;
        well = whole_file_fail(&w->file, "fewer rows were written than announced");
    } else if (!w->rows_known) {
        well = fseeko(w->file.stream, 0, SEEK_SET) == 0 ? write_header(w, w->rows_written)
                                                        : whole_file_fail(&w->file, "cannot write");
    }
    return (well && whole_file_finish(&w->file)) || fail(w);
}

void npy_writer_abandon(struct npy_writer *w)
{
    whole_file_abandon(&w->file);
}
