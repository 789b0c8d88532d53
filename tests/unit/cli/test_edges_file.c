/* Readers of edges: text, MatrixMarket and .npy, and an exact error for every way to be wrong. */
#include "client/cli/files/edges_file.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EDGES = 64 };

static char folder[] = "/tmp/edges.XXXXXX";
static struct edges_file file;
static uint64_t sources[EDGES], targets[EDGES], got;
static float weights[EDGES];

static void make_folder(void)
{
    strcpy(folder, "/tmp/edges.XXXXXX");
    cr_assert(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
}

static void remove_folder(void)
{
    char command[64];
    cr_assert_eq(chdir("/"), 0);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(edges_file, .init = make_folder, .fini = remove_folder);

static void write_bytes(const char *path, const void *data, size_t n)
{
    FILE *out = fopen(path, "wb");
    cr_assert(out);
    cr_assert_eq(fwrite(data, 1, n, out), n);
    cr_assert_eq(fclose(out), 0);
}

static void write_npy(const char *path, const char *dtype, const char *shape, const void *data,
                      size_t n)
{
    char whole[4096] = "\x93NUMPY\x01";
    int length = snprintf(whole + 10, 200,
                          "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", dtype, shape);
    whole[8] = (char)length;
    memcpy(whole + 10 + length, data, n);
    write_bytes(path, whole, 10 + (size_t)length + n);
}

/* All edges, two at a time. */
static bool read_all(const char *const *paths, unsigned count, uint64_t first_id)
{
    uint64_t some = 1;
    bool good = edges_file_open(&file, paths, count, EDGES_AUTO, first_id);
    for (got = 0; good && some > 0; got += some) {
        cr_assert(got + 2 <= EDGES);
        good = edges_file_read(&file, sources + got, targets + got, weights + got, 2, &some);
        if (!good) break;
    }
    edges_file_close(&file);
    return good;
}

static void expect_edges(const char *path, const char *text, size_t n, const char *edges)
{
    char said[1024] = "";
    write_bytes(path, text, n);
    cr_assert(read_all(&path, 1, 0), "%s", file.error);
    for (uint64_t i = 0; i < got; i++)
        snprintf(said + strlen(said), sizeof said - strlen(said), "%lu>%lu:%g ",
                 (unsigned long)sources[i], (unsigned long)targets[i], (double)weights[i]);
    cr_assert_str_eq(said, edges);
}

static void expect_error(const char *path, const char *text, size_t n, const char *error)
{
    write_bytes(path, text, n);
    cr_assert_not(read_all(&path, 1, 0), "'%s' was read", text);
    cr_assert_str_eq(file.error, error);
}

#define GOOD(path, text, edges) expect_edges(path, text, sizeof(text) - 1, edges)
#define BAD(path, text, error)  expect_error(path, text, sizeof(text) - 1, error)

Test(edges_file, text)
{
    GOOD("a.tsv", "", "");
    GOOD("a.tsv", "# nothing\n\n  \n\t\n   # nor here\n", "");
    GOOD("a.tsv", "1\t2\t0.5\n2\t3\t-1\n", "1>2:0.5 2>3:-1 ");
    GOOD("a.tsv", "1 2\n3 4 7e-3", "1>2:1 3>4:0.007 ");
    GOOD("a.tsv", "1\t2\t0.5\r\n\r\n3\t4\r\n", "1>2:0.5 3>4:1 ");
    GOOD("a.txt", "  1  \t 2   \n3 4 1  \t\n", "1>2:1 3>4:1 ");
    GOOD("a.TXT", "1 1 2\n1 1 2\n0 18446744073709551614\n",
         "1>1:2 1>1:2 0>18446744073709551614:1 ");
}

/* Some editors begin a file with it. */
Test(edges_file, a_byte_order_mark)
{
    GOOD("a.tsv",
         "\xef\xbb\xbf"
         "1 2 0.5\n3 4\n",
         "1>2:0.5 3>4:1 ");
    GOOD("a.tsv",
         "\xef\xbb\xbf"
         "# note\n1 2\n",
         "1>2:1 ");
    GOOD("a.tsv",
         "\xef\xbb\xbf"
         "\r\n1 2\n",
         "1>2:1 ");
    GOOD("a.mtx",
         "\xef\xbb\xbf"
         "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n",
         "0>1:1 ");
    GOOD("a.tsv", "\xef\xbb\xbf", "");
    BAD("a.tsv",
        "1 2\n\xef\xbb\xbf"
        "1 2\n",
        "a.tsv: line 2: source '\xef\xbb\xbf"
        "1' is not a whole number from 0 to 2^64 - 2");
}

Test(edges_file, text_refused)
{
    BAD("a.tsv", "1 2\n# note\n\n3\n",
        "a.tsv: line 4: 1 field; expected a source, a target and perhaps a weight");
    BAD("a.tsv", "1 2 3 4\n",
        "a.tsv: line 1: 4 fields; expected a source, a target and perhaps a weight");
    BAD("a.tsv", "1 2 3 4 5 6\n", "a.tsv: line 1: more than 5 fields");
    BAD("a.tsv", "1 2\n-1 2\n",
        "a.tsv: line 2: source '-1' is not a whole number from 0 to 2^64 - 2");
    BAD("a.tsv", "1 18446744073709551615\n",
        "a.tsv: line 1: target '18446744073709551615' is not a whole number from 0 to 2^64 - 2");
    BAD("a.tsv", "1 99999999999999999999\n",
        "a.tsv: line 1: target '99999999999999999999' is not a whole number from 0 to 2^64 - 2");
    BAD("a.tsv", "1.0 2\n", "a.tsv: line 1: source '1.0' is not a whole number from 0 to 2^64 - 2");
    BAD("a.tsv", "1 2 heavy\n", "a.tsv: line 1: weight 'heavy' is not a finite number");
    BAD("a.tsv", "1 2 nan\r\n", "a.tsv: line 1: weight 'nan' is not a finite number");
    BAD("a.tsv", "1 2 1e39\n", "a.tsv: line 1: weight '1e39' is not a finite number");
    BAD("a.tsv", "1 2\n1\0 2\n", "a.tsv: line 2: has a byte 0: this is not text");
    BAD("a.tsv", "1 \x1b[2J\n",
        "a.tsv: line 1: target '?[2J' is not a whole number from 0 to 2^64 - 2");
    BAD("a.csv", "1,2\n",
        "a.csv: unknown kind of file; .tsv, .txt, .mtx and .npy are read (or say --format)");
    const char *none = "none.tsv", *here = ".tsv";
    cr_assert_not(read_all(&none, 1, 0));
    cr_assert_str_eq(file.error, "none.tsv: cannot open: No such file or directory");
    cr_assert_eq(system("mkdir .tsv"), 0);
    cr_assert_not(read_all(&here, 1, 0));
    cr_assert_str_eq(file.error, ".tsv: cannot open: Is a directory");
}

Test(edges_file, long_lines)
{
    char line[2100];
    memset(line, '1', sizeof line);
    expect_error("a.tsv", line, FIELDS_LINE_MAX + 1, "a.tsv: line 1: longer than 1024 bytes");
    line[0] = '#';
    memcpy(line + 2000, "\n1 2 3\n", 7);
    expect_edges("a.tsv", line, 2007, "1>2:3 ");
    memset(line, ' ', FIELDS_LINE_MAX);
    memcpy(line, "1 2", 3);
    expect_edges("a.tsv", line, FIELDS_LINE_MAX, "1>2:1 ");
}

#define BANNER "%%MatrixMarket matrix coordinate "

Test(edges_file, matrix)
{
    GOOD("a.mtx", BANNER "real general\n% note\n3 2 2\n1 2 0.5\n3 1 -2\n", "0>1:0.5 2>0:-2 ");
    GOOD("a.mtx", BANNER "integer symmetric\r\n3 3 3\r\n2 1 4\r\n3 3 5\r\n3 1 6\r\n",
         "1>0:4 0>1:4 2>2:5 2>0:6 0>2:6 ");
    GOOD("a.mtx", "%%matrixmarket MATRIX Coordinate Pattern General\n2 2 1\n\n 2  1 \n", "1>0:1 ");
    GOOD("a.mtx", BANNER "real general\n0 0 0\n", "");
    const char *path = "a.mtx";
    write_bytes(path, BANNER "pattern general\n2 2 1\n1 2\n", strlen(BANNER) + 16 + 6 + 4);
    cr_assert(read_all(&path, 1, 100), "%s", file.error);
    cr_assert(got == 1 && sources[0] == 100 && targets[0] == 101, "row 1 is node 100");
    cr_assert_not(read_all(&path, 1, UINT64_MAX - 1));
    cr_assert_str_eq(file.error, "a.mtx: line 2: 2 nodes from id 18446744073709551614 on are more "
                                 "than there are");
}

Test(edges_file, matrix_refused)
{
    static const char needed[] = "the first line must be '%%MatrixMarket matrix coordinate "
                                 "real|integer|pattern general|symmetric'";
    char error[300];
    snprintf(error, sizeof error, "a.mtx: line 1: %s", needed);
    BAD("a.mtx", "1 2 3\n", error);
    BAD("a.mtx", BANNER "real\n", error);
    BAD("a.mtx", BANNER "real general more\n", error);
    BAD("a.mtx", "%%MatrixMarket vector coordinate real general\n", error);
    snprintf(error, sizeof error, "a.mtx: %s", needed);
    BAD("a.mtx", "", error);
    snprintf(error, sizeof error, "a.mtx: line 1: 'array' is not read; %s", needed);
    BAD("a.mtx", "%%MatrixMarket matrix array real general\n", error);
    snprintf(error, sizeof error, "a.mtx: line 1: numbers that are 'complex' are not read; %s",
             needed);
    BAD("a.mtx", BANNER "complex general\n", error);
    snprintf(error, sizeof error, "a.mtx: line 1: a 'skew-symmetric' matrix is not read; %s",
             needed);
    BAD("a.mtx", BANNER "real skew-symmetric\n", error);

    BAD("a.mtx", BANNER "real general\n2 2\n",
        "a.mtx: line 2: expected the matrix's rows, columns and entries");
    BAD("a.mtx", BANNER "real symmetric\n2 3 1\n",
        "a.mtx: line 2: a symmetric matrix is square; this one is 2 x 3");
    BAD("a.mtx", BANNER "real general\n2 2 2\n1 1 1\n",
        "a.mtx: line 3: the file ends after entry 1 of 2");
    BAD("a.mtx", BANNER "real general\n2 2 1\n1 1 1\n2 2 2\n",
        "a.mtx: line 4: more entries than were promised: 1");
    BAD("a.mtx", BANNER "real general\n2 2 1\n1 1\n",
        "a.mtx: line 3: 2 fields; expected a row, a column and a number");
    BAD("a.mtx", BANNER "pattern general\n2 2 1\n1 1 1\n",
        "a.mtx: line 3: 3 fields; expected a row, a column");
    BAD("a.mtx", BANNER "real general\n2 2 1\n0 1 1\n",
        "a.mtx: line 3: row '0' is not within 1..2");
    BAD("a.mtx", BANNER "real general\n2 2 1\n1 3 1\n",
        "a.mtx: line 3: column '3' is not within 1..2");
    BAD("a.mtx", BANNER "real general\n2 2 1\n1 2 inf\n",
        "a.mtx: line 3: the number 'inf' is not a finite number");
}

Test(edges_file, npy_triples)
{
    const char *path = "t.npy";
    const double good[] = {1, 2, 0.5, 9007199254740992.0, 0, -3};
    write_npy(path, "<f8", "(2, 3)", good, sizeof good);
    cr_assert(read_all(&path, 1, 0), "%s", file.error);
    cr_assert(got == 2 && sources[1] == UINT64_C(9007199254740992) && targets[1] == 0);
    cr_assert(weights[0] == 0.5f && weights[1] == -3);

    static const struct {
        double triple[3];
        const char *error;
    } cases[] = {
        {{9007199254740994.0, 1, 1},
         "t.npy: row 0: source 9007199254740994 is not a whole number from 0 to 2^53"},
        {{1, 1.5, 1}, "t.npy: row 0: target 1.5 is not a whole number from 0 to 2^53"},
        {{-1, 1, 1}, "t.npy: row 0: source -1 is not a whole number from 0 to 2^53"},
        {{1, (double)NAN, 1}, "t.npy: row 0: target nan is not a whole number from 0 to 2^53"},
        {{1, 2, 1e40}, "t.npy: row 0: weight 1e+40 is not a finite float32"},
        {{1, 2, (double)NAN}, "t.npy: row 0: weight nan is not a finite float32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_npy(path, "<f8", "(1, 3)", cases[i].triple, sizeof cases[i].triple);
        cr_assert_not(read_all(&path, 1, 0));
        cr_assert_str_eq(file.error, cases[i].error);
    }
    write_npy(path, "<f4", "(2, 3)", good, 24);
    cr_assert_not(read_all(&path, 1, 0));
    cr_assert_str_eq(
        file.error, "t.npy: float32 of 2 x 3; one .npy file must be n x 3 float64 (source, target, "
                    "weight); else give SOURCES.npy TARGETS.npy [WEIGHTS.npy]");
    const int64_t integers[] = {1, 2, 1, 3, 4, 1};
    write_npy(path, "<i8", "(2, 3)", integers, sizeof integers);
    cr_assert_not(read_all(&path, 1, 0));
    cr_assert_str_eq(file.error,
                     "t.npy: int64 of 2 x 3; one .npy file must be n x 3 float64 (source, target, "
                     "weight); else give SOURCES.npy TARGETS.npy [WEIGHTS.npy]");
    write_npy(path, "<c8", "(2, 3)", integers, sizeof integers);
    cr_assert_not(read_all(&path, 1, 0));
    cr_assert_str_eq(
        file.error,
        "t.npy: dtype '<c8' does not fit; save it as little-endian float32, float64 or float16");
}

Test(edges_file, npy_columns)
{
    const char *const paths[] = {"s.npy", "t.npy", "w.npy", "more.npy"};
    const uint64_t s[] = {1, UINT64_MAX - 1, 3};
    const uint32_t t[] = {4, UINT32_MAX, 6};
    const double w[] = {0.5, 1, 2};
    write_npy("s.npy", "<u8", "(3,)", s, sizeof s);
    write_npy("t.npy", "<u4", "(3,)", t, sizeof t);
    write_npy("w.npy", "<f8", "(3,)", w, sizeof w);
    cr_assert(read_all(paths, 3, 0), "%s", file.error);
    cr_assert(got == 3 && sources[1] == UINT64_MAX - 1 && targets[1] == UINT32_MAX &&
              weights[2] == 2);
    cr_assert(read_all(paths, 2, 0), "%s", file.error);
    cr_assert(got == 3 && targets[2] == 6 && weights[0] == 1 && weights[2] == 1);
    cr_assert_not(read_all(paths, 4, 0));
    cr_assert_str_eq(file.error, "more.npy: a file too many");

    write_npy("w.npy", "<f4", "(2,)", w, 8);
    cr_assert_not(read_all(paths, 3, 0));
    cr_assert_str_eq(file.error, "w.npy: 2 rows; s.npy has 3");
    const int32_t negative[] = {1, -2, 3};
    write_npy("t.npy", "<i4", "(3,)", negative, sizeof negative);
    cr_assert_not(read_all(paths, 2, 0));
    cr_assert_str_eq(file.error, "t.npy: row 1, column 0: negative id -2");
    const uint64_t nobody[] = {1, 2, UINT64_MAX};
    write_npy("t.npy", "<u8", "(3,)", nobody, sizeof nobody);
    cr_assert_not(read_all(paths, 2, 0));
    cr_assert_str_eq(file.error, "t.npy: row 2: id 2^64 - 1 is nobody's");
    write_npy("t.npy", "<u8", "(3, 2)", s, 0);
    cr_assert_not(read_all(paths, 2, 0));
    cr_assert(strstr(file.error, "t.npy: truncated"));
}

Test(edges_file, place)
{
    uint64_t bytes, size;
    const char *path = "a.tsv";
    write_bytes(path, "1 2\n3 4\n", 8);
    cr_assert(edges_file_open(&file, &path, 1, EDGES_AUTO, 0));
    cr_assert(edges_file_read(&file, sources, targets, weights, 1, &got));
    edges_file_place(&file, &bytes, &size);
    cr_assert(bytes == 4 && size == 8, "%lu of %lu", (unsigned long)bytes, (unsigned long)size);
    edges_file_close(&file);
}
