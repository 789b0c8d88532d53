/* Tables on terminals of all widths. */
#include "client/cli/text/table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct table *of_six(void)
{
    static const char *const heads[] = {"name",     ">rows", ">bytes", "metric",
                                        ">version", ">k",    NULL};
    struct table *t = table_create(heads);
    for (int row = 0; row < 2; row++) {
        table_cell(t, "collection-%d", row);
        table_cell(t, "%d", 1000000 + row);
        table_cell(t, "%d", 2000000 + row);
        table_cell(t, "cosine");
        table_cell(t, "%d", 3000000 + row);
        table_cell(t, "%d", 10 + row);
    }
    return t;
}

static char *printed(size_t width)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    struct table *t = of_six();
    table_print(t, out, 0, width);
    table_destroy(t);
    fclose(out);
    return text;
}

static void expect(size_t width, const char *wanted)
{
    char *text = printed(width);
    cr_expect_str_eq(text, wanted, "%zu:\n%s", width, text);
    free(text);
}

Test(table, a_wide_terminal_has_all_beside_each_other)
{
    static const char whole[] = "name             rows    bytes  metric  version   k\n"
                                "collection-0  1000000  2000000  cosine  3000000  10\n"
                                "collection-1  1000001  2000001  cosine  3000001  11\n";
    expect(0, whole);
    expect(51, whole);
}

Test(table, texts_are_cut_first)
{
    expect(50, "name            rows    bytes  metric  version   k\n"
               "collection\xe2\x80\xa6  1000000  2000000  cosine  3000000  10\n"
               "collection\xe2\x80\xa6  1000001  2000001  cosine  3000001  11\n");
}

Test(table, what_does_not_fit_follows_below)
{
    expect(40, "name             rows    bytes  metric\n"
               "collection-0  1000000  2000000  cosine\n"
               "collection-1  1000001  2000001  cosine\n"
               "\n"
               "name          version   k\n"
               "collection-0  3000000  10\n"
               "collection-1  3000001  11\n");
}

Test(table, no_line_is_wider_than_the_terminal)
{
    for (size_t width = 21; width < 60; width++) { /* from the first column and one more on */
        char *text = printed(width), *rest = text, *line;
        while ((line = strsep(&rest, "\n")))
            cr_assert(table_width(line) <= width, "%zu: %s", width, line);
        free(text);
    }
    char *text = printed(1); /* a column at a time */
    cr_assert(strstr(text, "3000001") && strstr(text, "2000000") && strstr(text, "cosine"));
    free(text);
}
