#include "client/cli/text/table.h"

#include "client/cli/text/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 12

struct table {
    unsigned columns;
    const char *heads[COLUMNS_MAX];
    int right[COLUMNS_MAX];
    char **cells;
    size_t count, room;
};

struct table *table_create(const char *const *heads)
{
    struct table *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    for (; heads[t->columns] && t->columns < COLUMNS_MAX; t->columns++) {
        t->right[t->columns] = *heads[t->columns] == '>';
        t->heads[t->columns] = heads[t->columns] + t->right[t->columns];
    }
    return t;
}

static void forget_rows(struct table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    t->count = 0;
}

void table_destroy(struct table *t)
{
    if (!t) return;
    forget_rows(t);
    free(t->cells);
    free(t);
}

void table_cell(struct table *t, const char *format, ...)
{
    if (!t) return;
    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 64;
        char **cells = realloc(t->cells, room * sizeof *cells);
        if (!cells) return;
        t->cells = cells;
        t->room = room;
    }
    va_list args;
    char *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    /* A name from a file must not control the terminal. */
    if (text) utf8_tame(text);
    if (text) t->cells[t->count++] = text;
}

size_t table_width(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void print_cell(const struct table *t, FILE *out, unsigned column, const char *text,
                       size_t width)
{
    int pad = (int)(width - table_width(text));
    const char *gap = column ? "  " : "";
    if (t->right[column])
        fprintf(out, "%s%*s%s", gap, pad, "", text);
    else if (column + 1 == t->columns)
        fprintf(out, "%s%s", gap, text);
    else
        fprintf(out, "%s%s%*s", gap, text, pad, "");
}

void table_print(struct table *t, FILE *out, int bold)
{
    if (!t) return;
    size_t widths[COLUMNS_MAX], whole = t->count - t->count % t->columns;
    for (unsigned i = 0; i < t->columns; i++)
        widths[i] = table_width(t->heads[i]);
    for (size_t i = 0; i < whole; i++) {
        size_t width = table_width(t->cells[i]);
        if (width > widths[i % t->columns]) widths[i % t->columns] = width;
    }
    if (bold) fputs("\033[1m", out);
    for (unsigned i = 0; i < t->columns; i++)
        print_cell(t, out, i, t->heads[i], widths[i]);
    fputs(bold ? "\033[0m\n" : "\n", out);
    for (size_t i = 0; i < whole; i++) {
        print_cell(t, out, (unsigned)(i % t->columns), t->cells[i], widths[i % t->columns]);
        if ((i + 1) % t->columns == 0) fputc('\n', out);
    }
    forget_rows(t);
}
