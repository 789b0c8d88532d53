/* Readers of .npy, .fvecs and .fbin: files by name, and streams that fail. */
#include "client/cli/files/vectors_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/engram-cli-XXXXXX";

static void make_directory(void)
{
    cr_assert(mkdtemp(directory));
}

static void remove_directory(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", directory);
    cr_assert_eq(system(command), 0);
}

static void expect_path_error(const char *path, const char *error)
{
    struct vectors_file file;
    cr_assert_not(vectors_file_open(&file, path, VECTORS_OF_FLOATS));
    cr_assert_str_eq(file.error, error);
    vectors_file_close(&file);
}

Test(vectors_file_open, opens_by_name, .init = make_directory, .fini = remove_directory)
{
    char path[64], error[160];
    snprintf(path, sizeof path, "%s/a.FBIN", directory);
    FILE *out = fopen(path, "wb");
    static const uint32_t fbin[2 + 16384] = {1, 16384}; /* more than stdio reads ahead */
    fwrite(fbin, 1, sizeof fbin, out);
    fclose(out);
    struct vectors_file file;
    cr_assert(vectors_file_open(&file, path, VECTORS_OF_FLOATS), "%s", file.error);
    cr_assert(file.rows == 1 && file.columns == 16384);

    /* Shortened after it was opened: the size was right and the read tells. */
    static float row[16384];
    uint64_t got;
    cr_assert_eq(truncate(path, 8), 0);
    cr_assert_not(vectors_file_read(&file, row, 1, &got));
    snprintf(error, sizeof error, "%s: ended early at row 0 (did it change while it was read?)",
             path);
    cr_assert_str_eq(file.error, error);
    vectors_file_close(&file);
    vectors_file_close(&file); /* twice is fine */

    expect_path_error("a.csv", "a.csv: cannot open: No such file or directory");
    expect_path_error("a.npz:x", "a.npz:x: cannot open as an archive (.npz): No such file or "
                                 "directory");
    expect_path_error("a.pt", "a.pt: unknown kind of file; .npy, .npz, .fvecs, .fbin, .csv, .jsonl "
                              "and - are read");
    expect_path_error("a", "a: unknown kind of file; .npy, .npz, .fvecs, .fbin, .csv, .jsonl and - "
                           "are read");
    expect_path_error("/nonexistent/a.npy",
                      "/nonexistent/a.npy: cannot open: No such file or directory");
    snprintf(path, sizeof path, "%s/d.npy", directory);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(error, sizeof error, "%s: not a regular file; its size must be known", path);
    expect_path_error(path, error);
}

static ssize_t failing_read(void *cookie, char *buffer, size_t bytes)
{
    errno = EIO;
    return -1;
}

static int fake_seek(void *cookie, off64_t *at, int whence)
{
    static off64_t position;
    position = *at = whence == SEEK_END ? 100 : whence == SEEK_SET ? *at : position + *at;
    return 0;
}

Test(vectors_file_open, tells_read_and_seek_errors)
{
    struct vectors_file file;
    cookie_io_functions_t calls = {.read = failing_read, .seek = fake_seek};
    cr_assert_not(vectors_file_open_stream(&file, fopencookie(NULL, "rb", calls), "f", VECTORS_FBIN,
                                           VECTORS_OF_FLOATS));
    cr_assert_str_eq(file.error, "f: cannot read: Input/output error");
    vectors_file_close(&file);

    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_not(vectors_file_open_stream(&file, fdopen(ends[0], "rb"), "f", VECTORS_FBIN,
                                           VECTORS_OF_FLOATS));
    cr_assert_str_eq(file.error, "f: cannot seek: Illegal seek");
    vectors_file_close(&file);
    close(ends[1]);
    cr_assert_str_eq(vectors_type_name(VECTORS_F16), "float16");
    cr_assert_str_eq(vectors_type_name(VECTORS_I64), "int64");
}
