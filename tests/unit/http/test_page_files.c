/* The status page's files in the program: all of them, whole, and nothing from elsewhere. */
#include "daemon/http/page_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

static const struct {
    enum guarded_page page;
    const char *name;
} files[] = {
    {PAGE_STATUS, "page.html"},  {PAGE_CSS, "page.css"},        {PAGE_ICON, "icon.svg"},
    {PAGE_JS, "page.js"},        {PAGE_READ_JS, "read.js"},     {PAGE_SAMPLE_JS, "sample.js"},
    {PAGE_CHART_JS, "chart.js"}, {PAGE_TABLES_JS, "tables.js"},
};

Test(page_files, are_those_of_the_folder)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64];
        struct page_file file = page_files_find(files[i].page);
        snprintf(path, sizeof path, "daemon/http/page/%s", files[i].name);
        FILE *f = fopen(path, "re");
        cr_assert(f, "%s", path);
        char *text = malloc(file.bytes + 1);
        cr_assert_eq(fread(text, 1, file.bytes + 1, f), file.bytes, "%s", path);
        cr_assert(file.bytes > 100 && memcmp(text, file.data, file.bytes) == 0, "%s", path);
        cr_assert(file.type);
        free(text);
        fclose(f);
    }
}

Test(page_files, other_pages_are_no_files)
{
    static const enum guarded_page others[] = {PAGE_METRICS, PAGE_SLOW, PAGE_HEALTHZ, PAGE_READYZ};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_assert(!page_files_find(others[i]).data);
}
