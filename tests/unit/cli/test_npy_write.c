/* npy_write: what is written reads back, and nothing torn stays. */
#include "client/cli/files/npy_write.h"
#include "client/cli/files/vectors_file.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/engram-cli-XXXXXX", path[64];

static void make_directory(void)
{
    cr_assert(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/out.npy", directory);
}

static void remove_directory(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", directory);
    cr_assert_eq(system(command), 0);
}

static int files_there(void)
{
    DIR *d = opendir(directory);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

TestSuite(npy_write, .init = make_directory, .fini = remove_directory);

Test(npy_write, floats_read_back)
{
    struct npy_writer w;
    struct vectors_file file;
    const float rows[] = {1, 2, 3, 4, 5, 6};
    float out[6];
    uint64_t got;
    cr_assert(npy_writer_open(&w, path, NPY_WRITE_FLOAT32, 2, 3, 2), "%s", w.error);
    cr_assert(npy_writer_append(&w, rows, 1));
    cr_assert(npy_writer_append(&w, rows + 2, 2));
    cr_assert_neq(access(path, F_OK), 0, "it appears only when it is whole");
    cr_assert(npy_writer_finish(&w), "%s", w.error);
    npy_writer_abandon(&w);
    cr_assert_eq(files_there(), 1);

    cr_assert(vectors_file_open(&file, path, VECTORS_OF_FLOATS), "%s", file.error);
    cr_assert(file.rows == 3 && file.columns == 2 && file.data_at == 128);
    cr_assert(vectors_file_read(&file, out, 3, &got));
    cr_assert_arr_eq(out, rows, sizeof rows);
    vectors_file_close(&file);
}

Test(npy_write, counts_rows_that_were_not_announced)
{
    struct npy_writer w;
    struct vectors_file file;
    const uint64_t ids[] = {UINT64_MAX, 1, 2};
    uint64_t out[3], got;
    cr_assert(npy_writer_open(&w, path, NPY_WRITE_UINT64, 1, NPY_ROWS_UNKNOWN, 1));
    cr_assert(npy_writer_append(&w, ids, 2) && npy_writer_append(&w, ids + 2, 1));
    cr_assert(npy_writer_finish(&w), "%s", w.error);
    cr_assert(vectors_file_open(&file, path, VECTORS_OF_IDS), "%s", file.error);
    cr_assert(file.rows == 3 && file.axes == 1);
    cr_assert(vectors_file_read_ids(&file, out, 3, &got));
    cr_assert_arr_eq(out, ids, sizeof ids);
    vectors_file_close(&file);
}

Test(npy_write, follows_links_and_keeps_the_mode)
{
    struct npy_writer w;
    struct stat about;
    char link[64];
    snprintf(link, sizeof link, "%s/link.npy", directory);
    fclose(fopen(path, "wb"));
    chmod(path, 0640);
    cr_assert_eq(symlink(path, link), 0);
    cr_assert(npy_writer_open(&w, link, NPY_WRITE_UINT64, 1, 0, 1), "%s", w.error);
    cr_assert(npy_writer_finish(&w), "%s", w.error);
    cr_assert(lstat(link, &about) == 0 && S_ISLNK(about.st_mode));
    cr_assert(stat(path, &about) == 0 && about.st_size == 128 && (about.st_mode & 0777) == 0640);
}

Test(npy_write, leaves_nothing_when_abandoned)
{
    struct npy_writer w;
    const float row[2] = {0};
    cr_assert(npy_writer_open(&w, path, NPY_WRITE_FLOAT32, 2, 2, 2));
    cr_assert(npy_writer_append(&w, row, 1));
    npy_writer_abandon(&w);
    cr_assert_eq(files_there(), 0);

    cr_assert(npy_writer_open(&w, path, NPY_WRITE_FLOAT32, 2, 2, 2));
    cr_assert(npy_writer_append(&w, row, 1));
    cr_assert_not(npy_writer_finish(&w), "a row is missing");
    cr_assert_eq(files_there(), 0);
}

Test(npy_write, tells_what_failed)
{
    struct npy_writer w;
    static const float rows[1 << 14];
    cr_assert_not(npy_writer_open(&w, "/nonexistent/x.npy", NPY_WRITE_FLOAT32, 2, 1, 1));
    cr_assert_str_eq(w.error, "/nonexistent/x.npy: cannot create: No such file or directory");
    cr_assert_not(npy_writer_open(&w, directory, NPY_WRITE_FLOAT32, 2, 1, 1));
    cr_assert(strstr(w.error, "Is a directory"));
    cr_assert_not(npy_writer_open(&w, "/dev/full", NPY_WRITE_FLOAT32, 1, NPY_ROWS_UNKNOWN, 1));
    cr_assert(strstr(w.error, "must be a regular file"));

    /* A full disk shows at the latest when the file is finished. */
    cr_assert(npy_writer_open(&w, "/dev/full", NPY_WRITE_FLOAT32, 2, 1, 1));
    cr_assert(npy_writer_append(&w, rows, 1));
    cr_assert_not(npy_writer_finish(&w));
    cr_assert_str_eq(w.error, "/dev/full: cannot write: No space left on device");
    cr_assert(npy_writer_open(&w, "/dev/full", NPY_WRITE_FLOAT32, 2, 1, 1 << 14));
    cr_assert_not(npy_writer_append(&w, rows, 1));
    cr_assert_str_eq(w.error, "/dev/full: cannot write: No space left on device");
}
