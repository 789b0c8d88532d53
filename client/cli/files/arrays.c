#include "client/cli/files/arrays.h"

#include "client/cli/cli.h"
#include "client/cli/files/vectors_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

int arrays_read_column(const char *path, const char *wanted, float **numbers, uint64_t *count)
{
    struct vectors_file file = {0};
    float *read = NULL;
    bool ok = vectors_file_open(&file, path, VECTORS_OF_NUMBERS);
    int code = ok ? CLI_OK : cli_file_error(file.error);
    if (!code && file.columns != 1)
        code = cli_error(CLI_FILE, "%s: has %" PRIu64 " columns, %s is wanted", path, file.columns,
                         wanted);
    if (!code && !(read = malloc((file.rows ? file.rows : 1) * sizeof *read)))
        code = cli_error(CLI_NO_MEMORY, "%s: out of memory", path);
    if (!code && !vectors_file_read(&file, read, file.rows, count))
        code = cli_file_error(file.error);
    vectors_file_close(&file);
    if (code)
        free(read);
    else
        *numbers = read;
    return code;
}

int arrays_writable(const char *path)
{
    struct stat about;
    /* A pipe or a terminal is not opened for nothing: who reads from it would see its end. */
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        return CLI_OK;
    struct npy_writer w = {0};
    bool ok = npy_writer_open(&w, path, NPY_WRITE_FLOAT32, 1, 0, 1);
    int code = ok ? CLI_OK : cli_file_error(w.error);
    npy_writer_abandon(&w);
    return code;
}

int arrays_write(const char *path, enum npy_write_type type, unsigned axes, uint64_t rows,
                 uint64_t columns, const void *data)
{
    struct npy_writer w = {0};
    bool ok = npy_writer_open(&w, path, type, axes, rows, columns) &&
              npy_writer_append(&w, data, rows) && npy_writer_finish(&w);
    int code = ok ? CLI_OK : cli_file_error(w.error);
    npy_writer_abandon(&w);
    return code;
}
