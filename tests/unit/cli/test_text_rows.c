/* Vectors from CSV and JSON Lines: what is read, and what each bad line is told. */
#include "client/cli/files/text_rows.h"
#include "client/cli/files/vectors_file.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct read {
    bool ok;
    char error[400];
    struct vectors_file rows, ids;
};

static struct read convert(const char *text, enum text_rows_kind kind)
{
    struct read r = {0};
    FILE *in = fmemopen((void *)text, strlen(text), "rb"), *out = tmpfile(), *ids = NULL;
    r.ok = text_rows_convert(in, "x", kind, out, &ids, r.error, sizeof r.error);
    fclose(in);
    if (!r.ok) {
        fclose(out);
        cr_assert_null(ids);
        return r;
    }
    cr_assert(vectors_file_open_stream(&r.rows, out, "x", VECTORS_FBIN, VECTORS_OF_FLOATS));
    if (ids) cr_assert(vectors_file_open_stream(&r.ids, ids, "x", VECTORS_NPY, VECTORS_OF_IDS));
    return r;
}

static void check(const char *text, enum text_rows_kind kind, uint64_t rows, uint64_t columns,
                  const float *numbers, const uint64_t *ids)
{
    float got[16];
    uint64_t n, got_ids[8];
    struct read r = convert(text, kind);
    cr_assert(r.ok, "%s: %s", text, r.error);
    cr_assert_eq(r.rows.rows, rows, "%s", text);
    cr_assert_eq(r.rows.columns, columns, "%s", text);
    cr_assert(vectors_file_read(&r.rows, got, rows, &n));
    for (uint64_t i = 0; i < rows * columns; i++)
        cr_assert_eq(got[i], numbers[i], "%s: number %zu", text, (size_t)i);
    cr_assert_eq(r.ids.stream != NULL, ids != NULL, "%s", text);
    if (ids) {
        cr_assert_eq(r.ids.rows, rows);
        cr_assert(vectors_file_read_ids(&r.ids, got_ids, rows, &n));
        for (uint64_t i = 0; i < rows; i++)
            cr_assert_eq(got_ids[i], ids[i], "%s: id %zu", text, (size_t)i);
    }
    vectors_file_close(&r.rows);
    vectors_file_close(&r.ids);
}

static const float four[] = {1, 2.5F, -3, 4e-3F};
static const uint64_t two_ids[] = {7, UINT64_MAX - 1};

Test(text_rows, csv)
{
    check("1,2.5\n-3,0.004\n", TEXT_ROWS_CSV, 2, 2, four, NULL);
    check("1; 2.5\r\n\r\n-3;4e-3", TEXT_ROWS_CSV, 2, 2, four, NULL);
    check("1\t2.5\n-3\t0.004\n", TEXT_ROWS_CSV, 2, 2, four, NULL);
    check("1   2.5\n-3 0.004\n", TEXT_ROWS_CSV, 2, 2, four, NULL);
    check("\"a\",b\n\"1\",2.5\n-3,\"0.004\"\n", TEXT_ROWS_CSV, 2, 2, four, NULL);
    check("x,ID,y\n1,7,2.5\n-3,18446744073709551614,0.004\n", TEXT_ROWS_CSV, 2, 2, four, two_ids);
    check("1\n2.5\n", TEXT_ROWS_CSV, 2, 1, four, NULL);
}

Test(text_rows, json_lines)
{
    check("[1, 2.5]\n\n[-3, 4e-3]\n", TEXT_ROWS_JSON, 2, 2, four, NULL);
    check("{\"id\": 7, \"vector\": [1, 2.5]}\n"
          "{\"embedding\": [-3, 0.004], \"id\": \"18446744073709551614\"}\n",
          TEXT_ROWS_JSON, 2, 2, four, two_ids);
    check("{\"values\": [1, 2.5, -3, 0.004], \"text\": \"\\u00e4\"}", TEXT_ROWS_JSON, 1, 4, four,
          NULL);
}

Test(text_rows, what_bad_lines_are_told)
{
    static const struct {
        const char *text;
        enum text_rows_kind kind;
        const char *told;
    } cases[] = {
        {"", TEXT_ROWS_CSV, "no row of numbers"},
        {"a,b\n", TEXT_ROWS_CSV, "no row of numbers"},
        {"1,2\n1\n", TEXT_ROWS_CSV, "line 2: has 1 numbers, the rows before have 2"},
        {"1,2\n1,x\n", TEXT_ROWS_CSV, "line 2: field 2, 'x', is not a finite number"},
        {"1,2\n1,nan\n", TEXT_ROWS_CSV, "line 2: field 2, 'nan', is not a finite number"},
        {"1,2\n1,1e39\n", TEXT_ROWS_CSV, "line 2: number 1 is not finite in float32"},
        {"1,2\n1,\n", TEXT_ROWS_CSV, "line 2: field 2, '', is not"},
        {"id,x\n-1,2\n", TEXT_ROWS_CSV, "line 2: id '-1' is not"},
        {"x,id\n1,2\n3\n", TEXT_ROWS_CSV, "line 3: has no id"},
        {"id\n1\n", TEXT_ROWS_CSV, "line 2: has no numbers"},
        {"1,2\n1\x1b,2\n", TEXT_ROWS_CSV, "line 2: field 1, '1?', is not"},
        {"[1,2\n", TEXT_ROWS_JSON, "line 1: is not JSON"},
        {"[1,2] x\n", TEXT_ROWS_JSON, "line 1: is not JSON"},
        {"{\"x\": 1}\n", TEXT_ROWS_JSON, "line 1: the object has no \"vector\""},
        {"{\"vector\": 1}\n", TEXT_ROWS_JSON, "line 1: the vector is not an array"},
        {"[1,\"2\"]\n", TEXT_ROWS_JSON, "line 1: item 1 is not a number"},
        {"[]\n", TEXT_ROWS_JSON, "line 1: has no numbers"},
        {"[1]\n{\"id\":1,\"vector\":[1]}\n", TEXT_ROWS_JSON, "line 2: has an id, the rows before"},
        {"{\"id\":1,\"vector\":[1]}\n[1]\n", TEXT_ROWS_JSON, "line 2: has no id, the rows before"},
        {"{\"id\":1.5,\"vector\":[1]}\n", TEXT_ROWS_JSON, "line 1: \"id\" is not a whole number"},
        {"{\"id\":1e17,\"vector\":[1]}\n", TEXT_ROWS_JSON, "line 1: \"id\" is not a whole number"},
        {"{\"id\":\"x\",\"vector\":[1]}\n", TEXT_ROWS_JSON, "line 1: \"id\" is not"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct read r = convert(*cases[i].text ? cases[i].text : "\n", cases[i].kind);
        cr_assert(!r.ok, "%s", cases[i].text);
        cr_assert(strstr(r.error, cases[i].told) && !strchr(r.error, '\n'), "'%s': %s",
                  cases[i].text, r.error);
    }
}

Test(text_rows, too_many_numbers)
{
    char *line = calloc(1, 2 * 16386);
    for (size_t i = 0; i < 16385; i++)
        memcpy(line + 2 * i, "1,", 2);
    line[2 * 16385 - 1] = 0;
    struct read r = convert(line, TEXT_ROWS_CSV);
    cr_assert(!r.ok && strstr(r.error, "more than 16384 numbers"), "%s", r.error);
    free(line);
}

Test(text_rows, ids)
{
    char error[400] = "";
    uint64_t ids[4], n;
    struct vectors_file file;
    FILE *in = fmemopen((void *)"id\n7\n\n18446744073709551614\n", 26, "rb"), *out = tmpfile();
    cr_assert(text_rows_ids(in, "x", out, error, sizeof error), "%s", error);
    cr_assert(vectors_file_open_stream(&file, out, "x", VECTORS_NPY, VECTORS_OF_IDS));
    cr_assert(vectors_file_read_ids(&file, ids, 4, &n));
    cr_assert(n == 2 && ids[0] == two_ids[0] && ids[1] == two_ids[1]);
    vectors_file_close(&file);
    fclose(in);
    in = fmemopen((void *)"7\n1.5\n", 6, "rb");
    out = tmpfile();
    cr_assert(!text_rows_ids(in, "x", out, error, sizeof error));
    cr_assert(strstr(error, "line 2: '1.5' is not an id"), "%s", error);
    fclose(in);
    fclose(out);
}
