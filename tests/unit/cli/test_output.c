/* json, table, names: what is printed, byte for byte. */
#include "client/cli/text/json.h"
#include "client/cli/text/names.h"
#include "client/cli/text/table.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *printed;
static size_t printed_bytes;

static FILE *begin(void)
{
    return open_memstream(&printed, &printed_bytes);
}

static void expect(FILE *out, const char *text)
{
    fclose(out);
    cr_assert_str_eq(printed, text);
    free(printed);
}

Test(json, values)
{
    struct json j;
    FILE *out = begin();
    json_init(&j, out);
    json_object(&j, NULL);
    json_u64(&j, "u", UINT64_MAX);
    json_float(&j, "f", 0.1f);
    json_float(&j, "n", NAN);
    json_double(&j, "i", -INFINITY);
    json_double(&j, "d", 0.1);
    json_bool(&j, "t", true);
    json_string(&j, "s", NULL);
    json_array(&j, "a");
    json_u64(&j, NULL, 1);
    json_object(&j, NULL);
    json_end(&j);
    json_null(&j, NULL);
    json_end(&j);
    json_end(&j);
    expect(out, "{\"u\":18446744073709551615,\"f\":0.100000001,\"n\":null,\"i\":null,"
                "\"d\":0.10000000000000001,\"t\":true,\"s\":null,\"a\":[1,{},null]}\n");
}

Test(json, strings)
{
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"a\"b\\c\n\t\x01\x7f", "\"a\\\"b\\\\c\\u000a\\u0009\\u0001\\u007f\"\n"},
        {"é€😀", "\"é€😀\"\n"},
        {"\xff\xc0\xaf", "\"\\ufffd\\ufffd\\ufffd\"\n"},            /* never, overlong */
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"\n"},            /* a surrogate */
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"\n"}, /* past U+10FFFF */
        {"\xe2\x82", "\"\\ufffd\\ufffd\"\n"},                       /* cut */
        {"\xe0\x80\x80\xf0\x80\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json j;
        FILE *out = begin();
        json_init(&j, out);
        json_string(&j, NULL, cases[i].text);
        expect(out, cases[i].json);
    }
}

Test(json, floats_come_back)
{
    uint32_t state = 1;
    for (int i = 0; i < 100000; i++) {
        char text[64];
        float value;
        state = state * 1664525u + 1013904223u;
        memcpy(&value, &state, 4);
        if (!isfinite(value)) continue;
        struct json j;
        FILE *out = fmemopen(text, sizeof text, "w");
        json_init(&j, out);
        json_float(&j, NULL, value);
        fclose(out);
        cr_assert_eq(strtof(text, NULL), value, "%s", text);
    }
}

Test(table, aligns)
{
    static const char *const heads[] = {">id", "name", NULL};
    struct table *t = table_create(heads);
    table_cell(t, "%d", 7);
    table_cell(t, "é");
    table_cell(t, "%d", 1234);
    table_cell(t, "a\033[31mb\xff\xc2\x9b"
                  "1m\xc2\xa0");
    table_cell(t, "lost"); /* half a row is not printed */
    FILE *out = begin();
    table_print(t, out, 0, 0);
    table_print(t, out, 1, 0);
    expect(out, "  id  name\n   7  é\n1234  a?[31mb???1m\xc2\xa0\n\033[1mid  name\033[0m\n");
    table_destroy(t);
    table_destroy(NULL);
    cr_assert_eq(table_width("µs"), 2);
}

static void write_names(char *path, const char *text)
{
    strcpy(path, "/tmp/engram-names-XXXXXX");
    int fd = mkstemp(path);
    cr_assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

Test(names, with_ids_and_by_line)
{
    struct names n;
    char path[64];
    write_names(path, "18446744073709551615\tlast\n3\tthree\twith tab\r\n3\tagain\n0\tzero");
    cr_assert(names_open(&n, path), "%s", n.error);
    cr_assert_str_eq(names_find(&n, UINT64_MAX), "last");
    cr_assert_str_eq(names_find(&n, 3), "three\twith tab");
    cr_assert_str_eq(names_find(&n, 0), "zero");
    cr_assert_null(names_find(&n, 1));
    names_close(&n);
    unlink(path);

    write_names(path, "dog\n\ncat\t9\n");
    cr_assert(names_open(&n, path), "%s", n.error);
    cr_assert_str_eq(names_find(&n, 0), "dog");
    cr_assert_str_eq(names_find(&n, 1), "");
    cr_assert_str_eq(names_find(&n, 2), "cat\t9");
    cr_assert_null(names_find(&n, 3));
    names_close(&n);
    unlink(path);

    write_names(path, "");
    cr_assert(names_open(&n, path), "%s", n.error);
    cr_assert_null(names_find(&n, 0));
    names_close(&n);
    unlink(path);
}

Test(names, tells_the_line)
{
    struct names n;
    char path[64], error[128];
    write_names(path, "1\tone\n2\ttwo\nthree\n");
    cr_assert_not(names_open(&n, path));
    snprintf(error, sizeof error, "%s: line 3: expected an id, a TAB and a name", path);
    cr_assert_str_eq(n.error, error);
    unlink(path);
    cr_assert_not(names_open(&n, "/nonexistent"));
    cr_assert_str_eq(n.error, "/nonexistent: No such file or directory");
}

Test(names, of_any_length)
{
    struct names n;
    char path[64], *text = malloc(300001);
    memset(text, 'x', 300000);
    text[300000] = 0;
    text[200000] = '\n';
    write_names(path, text);
    cr_assert(names_open(&n, path), "%s", n.error);
    cr_assert_eq(strlen(names_find(&n, 0)), 200000);
    cr_assert_eq(strlen(names_find(&n, 1)), 99999);
    names_close(&n);
    unlink(path);
    free(text);
}

/* Texts are cut, wide characters take two columns, combining ones none; where numbers alone are too
 * wide, nothing is cut. */
Test(table, fits_the_terminal)
{
    static const char *const heads[] = {">n", "name", NULL};
    static const char name[] = "\u6f22\u5b57\u6f22\u5b57 e\u0301 and more of that";
    char *text = NULL;
    size_t bytes = 0;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) cr_skip_test("there is no locale C.UTF-8");
    cr_assert_eq(table_width("\u6f22\u5b57"), 4);
    cr_assert_eq(table_width("e\u0301"), 1);
    for (size_t width = 0; width <= 20; width += 10) {
        struct table *t = table_create(heads);
        FILE *out = open_memstream(&text, &bytes);
        table_cell(t, "%s", "1,234");
        table_cell(t, "%s", name);
        table_print(t, out, 0, width);
        fclose(out);
        char *row = strchr(text, '\n') + 1;
        row[strlen(row) - 1] = 0;
        if (width == 20)
            cr_assert(table_width(row) <= 20 && strstr(row, "\u2026"), "%s", row);
        else
            cr_assert(strstr(row, name), "%zu: %s", width, row);
        free(text);
        table_destroy(t);
    }
}

Test(table, prints_csv)
{
    static const char *const heads[] = {">n", "name", NULL};
    char *text = NULL;
    size_t bytes = 0;
    struct table *t = table_create(heads);
    FILE *out = open_memstream(&text, &bytes);
    table_cell(t, "%s", "1,234");
    table_cell(t, "%s", "a \"b\", c");
    table_print_csv(t, out, "query", "7", true);
    fclose(out);
    cr_assert_str_eq(text, "query,n,name\n7,1234,\"a \"\"b\"\", c\"\n");
    free(text);
    table_destroy(t);
}
