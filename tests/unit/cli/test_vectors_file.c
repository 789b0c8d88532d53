/* Readers of .npy, .fvecs and .fbin: every type, and an exact error for every way to be wrong. */
#include "client/cli/files/vectors_file.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- building files in memory ---- */

struct bytes {
    unsigned char b[1 << 18];
    size_t n;
};

static void put(struct bytes *f, const void *data, size_t n)
{
    cr_assert(f->n + n <= sizeof f->b);
    if (n) memcpy(f->b + f->n, data, n);
    f->n += n;
}

static void put_u32(struct bytes *f, uint32_t value)
{
    put(f, &value, 4);
}

static void put_npy(struct bytes *f, unsigned version, const char *dictionary)
{
    uint32_t n = (uint32_t)strlen(dictionary);
    unsigned char head[8] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
    put(f, head, 8);
    put(f, &n, version == 1 ? 2 : 4);
    put(f, dictionary, n);
}

static void put_array(struct bytes *f, const char *dtype, const char *shape, const void *data,
                      size_t n)
{
    char dictionary[200];
    snprintf(dictionary, sizeof dictionary,
             "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", dtype, shape);
    put_npy(f, 1, dictionary);
    put(f, data, n);
}

static bool open_bytes(struct vectors_file *file, struct bytes *f, enum vectors_format format,
                       enum vectors_content content)
{
    FILE *stream = fmemopen(f->b, f->n ? f->n : 1, "rb");
    if (f->n == 0) { /* fmemopen of nothing differs between systems */
        fclose(stream);
        stream = tmpfile();
    }
    cr_assert(stream);
    return vectors_file_open_stream(file, stream, "f", format, content);
}

static void expect_open_error(struct bytes *f, enum vectors_format format,
                              enum vectors_content content, const char *error)
{
    struct vectors_file file;
    cr_assert_not(open_bytes(&file, f, format, content), "opened; expected: %s", error);
    cr_assert_str_eq(file.error, error);
    vectors_file_close(&file);
}

static void expect_npy_error(const char *dictionary, const char *error)
{
    struct bytes *f = calloc(1, sizeof *f);
    put_npy(f, 1, dictionary);
    expect_open_error(f, VECTORS_NPY, VECTORS_OF_FLOATS, error);
    free(f);
}

static void expect_read_error(struct bytes *f, enum vectors_format format,
                              enum vectors_content content, const char *error)
{
    struct vectors_file file;
    uint64_t out[64], got;
    cr_assert(open_bytes(&file, f, format, content), "%s", file.error);
    bool ok = content == VECTORS_OF_IDS ? vectors_file_read_ids(&file, out, 8, &got)
                                        : vectors_file_read(&file, (float *)out, 8, &got);
    cr_assert_not(ok, "read; expected: %s", error);
    cr_assert_str_eq(file.error, error);
    vectors_file_close(&file);
}

/* ---- what is read ---- */

static void check_matrix(struct bytes *f, enum vectors_format format, uint64_t rows,
                         uint64_t columns, const float *expected)
{
    struct vectors_file file;
    float out[64];
    uint64_t got, done = 0;
    cr_assert(open_bytes(&file, f, format, VECTORS_OF_FLOATS), "%s", file.error);
    cr_assert_eq(file.rows, rows);
    cr_assert_eq(file.columns, columns);
    do { /* two rows at a time: blocks must join without a seam */
        cr_assert(vectors_file_read(&file, out, 2, &got), "%s", file.error);
        for (uint64_t i = 0; i < got * columns; i++)
            cr_assert_eq(out[i], expected[done * columns + i]);
        done += got;
    } while (got);
    cr_assert_eq(done, rows);
    vectors_file_close(&file);
}

Test(vectors_file, reads_every_dtype)
{
    struct bytes *f = calloc(1, sizeof *f);
    const float f4[] = {1, -2, 0.5f, FLT_MAX, 0x1p-149f, 0};
    put_array(f, "<f4", "(3, 2)", f4, sizeof f4);
    check_matrix(f, VECTORS_NPY, 3, 2, f4);

    f->n = 0;
    const double f8[] = {1, -2, 0.1, 1e30, 1e-60, 0};
    const float from_f8[] = {1, -2, 0.1f, 1e30f, 0, 0};
    put_array(f, "<f8", "(3,2)", f8, sizeof f8);
    check_matrix(f, VECTORS_NPY, 3, 2, from_f8);

    f->n = 0;
    const uint16_t f2[] = {0x3c00, 0xc000, 0x3800, 0x7bff, 0x0001, 0x8000};
    const float from_f2[] = {1, -2, 0.5f, 65504, 0x1p-24f, 0};
    put_array(f, "<f2", "(3, 2)", f2, sizeof f2);
    check_matrix(f, VECTORS_NPY, 3, 2, from_f2);

    f->n = 0; /* a 1-D array is one row, in either order */
    put_npy(f, 3, "{\"shape\": (6,), \"descr\": \"<f4\", \"fortran_order\": True}");
    put(f, f4, sizeof f4);
    check_matrix(f, VECTORS_NPY, 1, 6, f4);

    f->n = 0;
    put_array(f, "<f4", "(0, 5)", f4, 0);
    check_matrix(f, VECTORS_NPY, 0, 5, f4);
    free(f);
}

Test(vectors_file, reads_fvecs_and_fbin)
{
    struct bytes *f = calloc(1, sizeof *f);
    const float rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    for (unsigned i = 0; i < 3; i++) {
        put_u32(f, 3);
        put(f, rows + 3 * i, 12);
    }
    check_matrix(f, VECTORS_FVECS, 3, 3, rows);

    f->n = 0;
    put_u32(f, 3);
    put_u32(f, 3);
    put(f, rows, sizeof rows);
    check_matrix(f, VECTORS_FBIN, 3, 3, rows);
    free(f);
}

/* Longer than a block: conversion goes on where it left off. */
Test(vectors_file, reads_rows_longer_than_a_block)
{
    enum { N = 16384 };
    struct bytes *f = calloc(1, sizeof *f);
    double *in = malloc(N * sizeof *in);
    float *out = malloc(N * sizeof *out);
    for (int i = 0; i < N; i++)
        in[i] = i + 0.5;
    put_array(f, "<f8", "(1, 16384)", in, N * sizeof *in);
    struct vectors_file file;
    uint64_t got;
    cr_assert(open_bytes(&file, f, VECTORS_NPY, VECTORS_OF_FLOATS));
    cr_assert(vectors_file_read(&file, out, 1, &got));
    for (int i = 0; i < N; i++)
        cr_assert_eq(out[i], (float)in[i]);
    vectors_file_close(&file);
    free(out);
    free(in);
    free(f);
}

Test(vectors_file, reads_ids)
{
    struct bytes *f = calloc(1, sizeof *f);
    struct vectors_file file;
    const uint64_t ids[] = {0, UINT64_MAX, 7, 8, 9, 10};
    uint64_t out[6], got;
    put_array(f, "<u8", "(6,)", ids, sizeof ids);
    cr_assert(open_bytes(&file, f, VECTORS_NPY, VECTORS_OF_IDS), "%s", file.error);
    cr_assert(file.rows == 6 && file.columns == 1 && file.axes == 1);
    cr_assert(vectors_file_read_ids(&file, out, 4, &got) && got == 4);
    cr_assert(vectors_file_read_ids(&file, out + 4, 4, &got) && got == 2);
    cr_assert_arr_eq(out, ids, sizeof ids);
    vectors_file_close(&file);

    f->n = 0;
    const int64_t signed_ids[] = {0, INT64_MAX, 1, 2};
    put_array(f, "<i8", "(2, 2)", signed_ids, sizeof signed_ids);
    cr_assert(open_bytes(&file, f, VECTORS_NPY, VECTORS_OF_IDS), "%s", file.error);
    cr_assert(file.rows == 2 && file.columns == 2 && file.axes == 2);
    cr_assert(vectors_file_read_ids(&file, out, 4, &got) && got == 2);
    cr_assert_eq(out[1], (uint64_t)INT64_MAX);
    vectors_file_close(&file);

    f->n = 0; /* nothing backs the claim of endless columns */
    put_array(f, "<u8", "(0, 1000000000000)", NULL, 0);
    cr_assert(open_bytes(&file, f, VECTORS_NPY, VECTORS_OF_IDS), "%s", file.error);
    cr_assert(file.rows == 0 && file.columns == 1);
    vectors_file_close(&file);
    free(f);
}

/* ---- what is refused ---- */

Test(vectors_file, refuses_values_that_are_not_finite)
{
    struct bytes *f = calloc(1, sizeof *f);
    const float f4[] = {1, 2, 3, NAN};
    put_array(f, "<f4", "(2, 2)", f4, sizeof f4);
    expect_read_error(f, VECTORS_NPY, VECTORS_OF_FLOATS, "f: row 1, column 1: not a finite number");
    f->n = 0;
    const double f8[] = {1, 2, 1e39, 4};
    put_array(f, "<f8", "(2, 2)", f8, sizeof f8);
    expect_read_error(f, VECTORS_NPY, VECTORS_OF_FLOATS,
                      "f: row 1, column 0: not a finite number in float32");
    f->n = 0;
    const uint16_t f2[] = {0x7c00, 0};
    put_array(f, "<f2", "(1, 2)", f2, sizeof f2);
    expect_read_error(f, VECTORS_NPY, VECTORS_OF_FLOATS, "f: row 0, column 0: not a finite number");
    f->n = 0;
    const int64_t ids[] = {1, -2};
    put_array(f, "<i8", "(2,)", ids, sizeof ids);
    expect_read_error(f, VECTORS_NPY, VECTORS_OF_IDS, "f: row 1, column 0: negative id -2");
    free(f);
}

/* With a mask: numbers that are not known may be anything, whether all rows share it or not. */
Test(vectors_file, only_known_numbers_must_be_finite)
{
    struct bytes *f = calloc(1, sizeof *f);
    struct vectors_file file;
    const float rows[] = {1, NAN, 2, INFINITY, 3, NAN};
    const uint8_t shared[] = {1, 0}, own[] = {0, 0, 1, 0, 1, 1};
    float out[6];
    uint64_t got = 0;
    put_array(f, "<f4", "(3, 2)", rows, sizeof rows);
    cr_assert(open_bytes(&file, f, VECTORS_NPY, VECTORS_OF_FLOATS), "%s", file.error);
    file.any_number = true;
    cr_assert(vectors_file_read(&file, out, 1, &got) && got == 1, "%s", file.error);
    cr_assert(vectors_file_check_known(&file, out, 1, shared, 0));
    cr_assert(vectors_file_read(&file, out, 2, &got) && got == 2, "%s", file.error);
    cr_assert(vectors_file_check_known(&file, out, 2, shared, 0));
    cr_assert_not(vectors_file_check_known(&file, out, 2, own + 2, 2));
    cr_assert_str_eq(file.error, "f: row 2, column 1: not a finite number");
    vectors_file_close(&file);
    free(f);
}

Test(vectors_file, refuses_bad_dictionaries)
{
    static const struct {
        const char *dictionary, *error;
    } cases[] = {
        {"", "f: header: expected '{' at byte 0 of the dictionary"},
        {"{", "f: header: expected a quoted string at byte 1 of the dictionary"},
        {"{'descr'", "f: header: expected ':' at byte 8 of the dictionary"},
        {"{'descr': 3", "f: header: expected a quoted string at byte 10 of the dictionary"},
        {"{'descr': '<f4", "f: header: a string does not end at byte 14 of the dictionary"},
        {"{'descr': '<f\\4'",
         "f: header: unexpected character in a string at byte 13 of the dictionary"},
        {"{'descr': '<f4444444444444444'",
         "f: header: a string is too long at byte 26 of the dictionary"},
        {"{'descr': [('a', '<f4')]",
         "f: header: a structured dtype is not a matrix of numbers, at byte 10 of the dictionary"},
        {"{'descr': '<f4' 'shape'", "f: header: expected '}' at byte 16 of the dictionary"},
        {"{'colour': 3", "f: header: unknown key at byte 10 of the dictionary"},
        {"{'descr': '<f4', 'descr': '<f4'",
         "f: header: a key comes twice at byte 25 of the dictionary"},
        {"{'fortran_order': 0}", "f: header: expected True or False at byte 18 of the dictionary"},
        {"{'shape': 3}", "f: header: expected '(' at byte 10 of the dictionary"},
        {"{'shape': (3)}", "f: header: expected ',' at byte 12 of the dictionary"},
        {"{'shape': (3 4)}", "f: header: expected ',' at byte 13 of the dictionary"},
        {"{'shape': (3, 4 5)}", "f: header: expected ')' at byte 16 of the dictionary"},
        {"{'shape': (-3, 4)}", "f: header: expected a whole number at byte 11 of the dictionary"},
        {"{'shape': (99999999999999999999, 4)}",
         "f: header: a number is too large at byte 30 of the dictionary"},
        {"{'shape': (1,1,1,1,1)}",
         "f: header: the shape has more than 4 axes at byte 19 of the dictionary"},
        {"{'descr': '<f4', 'shape': (1, 1)}",
         "f: header: descr, fortran_order or shape is missing at byte 33 of the dictionary"},
        {"{} x", "f: header: unexpected text after the dictionary at byte 3 of the dictionary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_npy_error(cases[i].dictionary, cases[i].error);
}

Test(vectors_file, refuses_bad_arrays)
{
    static const struct {
        const char *dictionary, *error;
    } cases[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1, 1)}",
         "f: big-endian dtype '>f4'; save it as little-endian float32, float64 or float16"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1, 1)}",
         "f: dtype '<i4' does not fit; save it as little-endian float32, float64 or float16"},
        {"{'descr': '<u8', 'fortran_order': False, 'shape': (1, 1)}",
         "f: dtype '<u8' does not fit; save it as little-endian float32, float64 or float16"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}",
         "f: Fortran order; save numpy.ascontiguousarray(x) instead"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}",
         "f: has 0 axes; 1 or 2 are needed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1)}",
         "f: has 3 axes; 1 or 2 are needed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 0)}",
         "f: the dimension 0 is not within 1..16384"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 16385)}",
         "f: the dimension 16385 is not within 1..16384"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 2)}",
         "f: its shape of 4611686018427387904 x 2 overflows"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}",
         "f: truncated: 2 rows of 2 need 16 bytes from byte 67, the file has 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_npy_error(cases[i].dictionary, cases[i].error);

    struct bytes *f = calloc(1, sizeof *f);
    put_array(f, "<f4", "(1, 1)", "12345678", 8);
    expect_open_error(f, VECTORS_NPY, VECTORS_OF_FLOATS, "f: 4 trailing bytes from byte 74");
    f->n = 0;
    put_array(f, "<f4", "(1,)", "1234", 4);
    expect_open_error(f, VECTORS_NPY, VECTORS_OF_IDS,
                      "f: dtype '<f4' does not fit; save it as little-endian uint64, int64, "
                      "uint32 or int32");
    f->n = 0;
    put_array(f, "<u8", "(1, 0)", NULL, 0);
    expect_open_error(f, VECTORS_NPY, VECTORS_OF_IDS, "f: rows of 0 ids");
    free(f);
}

Test(vectors_file, refuses_bad_npy_prefixes)
{
    struct bytes *f = calloc(1, sizeof *f);
    expect_open_error(f, VECTORS_NPY, VECTORS_OF_FLOATS, "f: too short for a .npy header");
    put(f, "\x93NUMPX\x01\x00\x02\x00{}", 12);
    expect_open_error(f, VECTORS_NPY, VECTORS_OF_FLOATS,
                      "f: not a .npy file: wrong magic at byte 0");
    f->b[5] = 'Y';
    f->b[6] = 4;
    expect_open_error(f, VECTORS_NPY, VECTORS_OF_FLOATS,
                      "f: .npy version 4.0 at byte 6 is not known");
    f->b[6] = 1;
    f->b[8] = 3;
    expect_open_error(f, VECTORS_NPY, VECTORS_OF_FLOATS,
                      "f: truncated: a header of 3 bytes from byte 10");
    f->b[6] = 2;
    f->n = 11;
    expect_open_error(f, VECTORS_NPY, VECTORS_OF_FLOATS, "f: too short for a .npy header");
    f->n = 12;
    f->b[10] = 1;
    f->b[11] = 0;
    expect_open_error(f, VECTORS_NPY, VECTORS_OF_FLOATS,
                      "f: header of 65539 bytes at byte 8; at most 65536 are read");
    free(f);
}

/* Cut anywhere, a file is refused when it is opened, in one line. */
Test(vectors_file, refuses_every_truncation)
{
    struct bytes *f = calloc(1, sizeof *f);
    const float rows[] = {1, 2, 3, 4, 5, 6};
    for (int format = 0; format < 3; format++) {
        f->n = 0;
        if (format == VECTORS_NPY) put_array(f, "<f4", "(3, 2)", rows, sizeof rows);
        if (format == VECTORS_FBIN) {
            put_u32(f, 3);
            put_u32(f, 2);
            put(f, rows, sizeof rows);
        }
        for (int i = 0; format == VECTORS_FVECS && i < 3; i++) {
            put_u32(f, 2);
            put(f, rows + 2 * i, 8);
        }
        for (size_t whole = f->n, n = 0; n < whole; n++) {
            struct vectors_file file;
            f->n = n;
            bool opened = open_bytes(&file, f, (enum vectors_format)format, VECTORS_OF_FLOATS);
            /* .fvecs says nowhere how many rows it has. */
            bool fewer = format == VECTORS_FVECS && n > 0 && n % 12 == 0;
            cr_assert_eq(opened, fewer, "format %d cut at %zu", format, n);
            if (!opened) cr_assert(file.error[0] && !strchr(file.error, '\n'));
            vectors_file_close(&file);
        }
    }
    free(f);
}

Test(vectors_file, refuses_bad_fvecs_and_fbin)
{
    struct bytes *f = calloc(1, sizeof *f);
    expect_open_error(f, VECTORS_FVECS, VECTORS_OF_FLOATS, "f: the file is empty");
    expect_open_error(f, VECTORS_FBIN, VECTORS_OF_FLOATS, "f: too short for a .fbin header");
    put(f, "ab", 2);
    expect_open_error(f, VECTORS_FVECS, VECTORS_OF_FLOATS, "f: truncated at byte 0");
    expect_open_error(f, VECTORS_FVECS, VECTORS_OF_IDS, "f: ids are read from .npy files only");

    f->n = 0;
    put_u32(f, 0xffffffff);
    put_u32(f, 0);
    expect_open_error(f, VECTORS_FVECS, VECTORS_OF_FLOATS,
                      "f: the dimension 4294967295 is not within 1..16384");
    expect_open_error(f, VECTORS_FBIN, VECTORS_OF_FLOATS,
                      "f: the dimension 0 is not within 1..16384");

    f->n = 0;
    put_u32(f, 1);
    put(f, "\0\0\0\0", 4);
    put_u32(f, 3); /* the right length, another dimension */
    put(f, "\0\0\0\0", 4);
    expect_read_error(f, VECTORS_FVECS, VECTORS_OF_FLOATS,
                      "f: row 1 at byte 8 has dimension 3, the rows before have 1");
    put(f, "\0", 1);
    expect_open_error(f, VECTORS_FVECS, VECTORS_OF_FLOATS,
                      "f: row 2 at byte 16 is not whole (or the dimension is not 1 in every row)");

    f->n = 0;
    put_u32(f, 2);
    put_u32(f, 1);
    put(f, "\0\0\0\0", 4);
    expect_open_error(f, VECTORS_FBIN, VECTORS_OF_FLOATS,
                      "f: truncated: 2 rows of 1 need 8 bytes from byte 8, the file has 4");
    put(f, "\0\0\0\0\0", 5);
    expect_open_error(f, VECTORS_FBIN, VECTORS_OF_FLOATS, "f: 1 trailing bytes from byte 16");
    free(f);
}
