#include "client/cli/files/npy_write.h"

#include "client/cli/interrupt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_BYTES 128u /* a multiple of 64, as NumPy aligns; large enough for any shape */

static bool fail(struct npy_writer *w, const char *path, const char *what)
{
    int error = errno;
    snprintf(w->error, sizeof w->error, "%s: %s: %s", path, what, strerror(error));
    npy_writer_abandon(w);
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
    return fwrite(header, 1, HEADER_BYTES, w->stream) == HEADER_BYTES;
}

/* Opens the stream to write to: a temporary file, or the target itself if that is not a regular
 * file. */
static bool open_stream(struct npy_writer *w, const char *path)
{
    struct stat about;
    bool there = stat(path, &about) == 0;
    char *resolved = there ? realpath(path, NULL) : NULL;
    w->path = resolved ? resolved : strdup(path);
    if (!w->path) return false;
    if (there && S_ISDIR(about.st_mode)) {
        errno = EISDIR;
        return false;
    }
    if (there && !S_ISREG(about.st_mode)) {
        w->stream = fopen(w->path, "wbe");
        return w->stream != NULL;
    }
    if (asprintf(&w->temporary, "%s.XXXXXX", w->path) < 0) {
        w->temporary = NULL;
        return false;
    }
    int fd = mkostemp(w->temporary, 0);
    if (fd < 0) {
        free(w->temporary);
        w->temporary = NULL;
        return false;
    }
    interrupt_guard(w->temporary);
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, there ? about.st_mode & 0777 : 0666 & ~mask);
    w->stream = fdopen(fd, "wb");
    if (!w->stream) close(fd);
    return w->stream != NULL;
}

bool npy_writer_open(struct npy_writer *w, const char *path, enum npy_write_type type,
                     unsigned axes, uint64_t rows, uint64_t columns)
{
    *w = (struct npy_writer){.type = type, .axes = axes, .columns = columns};
    w->rows_known = rows != NPY_ROWS_UNKNOWN;
    w->rows = w->rows_known ? rows : 0;
    if (!open_stream(w, path)) return fail(w, path, "cannot create");
    if (!w->rows_known && !w->temporary) {
        errno = ESPIPE;
        return fail(w, path, "must be a regular file, as the number of rows comes last");
    }
    if (!write_header(w, w->rows)) return fail(w, path, "cannot write");
    return true;
}

bool npy_writer_append(struct npy_writer *w, const void *rows, uint64_t n)
{
    size_t bytes = n * w->columns * types[w->type].bytes;
    if (fwrite(rows, 1, bytes, w->stream) != bytes) return fail(w, w->path, "cannot write");
    w->rows_written += n;
    return true;
}

bool npy_writer_finish(struct npy_writer *w)
{
    if (w->rows_known && w->rows != w->rows_written) {
        errno = EIO;
        return fail(w, w->path, "fewer rows were written than announced");
    }
    if (!w->rows_known &&
        (fseeko(w->stream, 0, SEEK_SET) != 0 || !write_header(w, w->rows_written)))
        return fail(w, w->path, "cannot write");
    /* EINVAL: a pipe or a device cannot be synced. */
    if (fflush(w->stream) != 0 || (fsync(fileno(w->stream)) != 0 && errno != EINVAL))
        return fail(w, w->path, "cannot write");
    int closed = fclose(w->stream);
    w->stream = NULL;
    if (closed != 0) return fail(w, w->path, "cannot write");
    if (w->temporary) {
        if (rename(w->temporary, w->path) != 0) return fail(w, w->path, "cannot rename");
        interrupt_release(w->temporary);
        free(w->temporary);
        w->temporary = NULL;
    }
    free(w->path);
    w->path = NULL;
    return true;
}

void npy_writer_abandon(struct npy_writer *w)
{
    if (w->stream) fclose(w->stream);
    if (w->temporary) {
        unlink(w->temporary);
        interrupt_release(w->temporary);
    }
    free(w->temporary);
    free(w->path);
    w->stream = NULL;
    w->temporary = NULL;
    w->path = NULL;
}
