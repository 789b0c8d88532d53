#include "client/cli/text/table.h"

#include "client/cli/text/utf8.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define COLUMNS_MAX 12
#define TEXT_MIN    8u /* columns that a text keeps on a narrow terminal */

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

/* Reads the next character of *text; gives the columns that it takes on a terminal. */
static size_t next_width(const char **text)
{
    wchar_t c;
    mbstate_t state = {0};
    size_t bytes = mbrtowc(&c, *text, MB_LEN_MAX, &state);
    if (bytes == 0 || bytes > MB_LEN_MAX) { /* no locale that knows UTF-8 */
        size_t width = ((unsigned char)**text & 0xc0) != 0x80;
        ++*text;
        return width;
    }
    *text += bytes;
    int width = wcwidth(c);
    return width < 0 ? 1 : (size_t)width;
}

size_t table_rows(const struct table *t)
{
    return t ? t->count / t->columns : 0;
}

size_t table_width(const char *text)
{
    size_t width = 0;
    while (*text)
        width += next_width(&text);
    return width;
}

/* Cuts a cell to so many columns, the last of which says that it was cut. */
static void cut(char **cell, size_t width)
{
    static const char mark[] = "\xe2\x80\xa6";
    const char *at = *cell, *end = *cell;
    size_t used = 0;
    if (table_width(*cell) <= width) return;
    while (*at) {
        used += next_width(&at);
        if (used + 1 > width) break;
        end = at;
    }
    size_t kept = (size_t)(end - *cell);
    char *text = realloc(*cell, kept + sizeof mark); /* it may be a character that is short */
    if (text) *cell = text;
    (*cell)[kept] = 0;
    if (text && width) memcpy(text + kept, mark, sizeof mark);
}

/* Columns of a table that are printed beside each other: the first of all stands before them. */
struct table_part {
    unsigned first, end;
};

static void print_cell(const struct table *t, FILE *out, unsigned column, const char *text,
                       size_t width, bool last)
{
    size_t used = table_width(text);
    int pad = used < width ? (int)(width - used) : 0;
    const char *gap = column ? "  " : "";
    if (t->right[column])
        fprintf(out, "%s%*s%s", gap, pad, "", text);
    else if (last)
        fprintf(out, "%s%s", gap, text);
    else
        fprintf(out, "%s%s%*s", gap, text, pad, "");
}

static void print_line(const struct table *t, FILE *out, const char *const *cells,
                       const size_t *widths, struct table_part part)
{
    if (part.first) print_cell(t, out, 0, cells[0], widths[0], false);
    for (unsigned i = part.first; i < part.end; i++)
        print_cell(t, out, i, cells[i], widths[i], i + 1 == part.end);
}

/* The columns from `first` on that fit, one at least; width 0: all do. */
static struct table_part part_from(const struct table *t, const size_t *widths, unsigned first,
                                   size_t width)
{
    struct table_part part = {first, first};
    size_t used = first ? widths[0] : 0;
    do
        used += widths[part.end] + (part.end ? 2 : 0);
    while (++part.end < t->columns && (!width || used + 2 + widths[part.end] <= width));
    return part;
}

/* Takes columns off the widest texts (numbers stay whole) until the table fits. False: that is not
 * enough, and nothing is cut. */
static bool fit(const struct table *t, size_t *widths, size_t width)
{
    size_t given[COLUMNS_MAX];
    memcpy(given, widths, sizeof given);
    for (;;) {
        size_t all = 2 * (t->columns - 1);
        unsigned widest = COLUMNS_MAX;
        for (unsigned i = 0; i < t->columns; i++) {
            all += widths[i];
            bool longer = widest == COLUMNS_MAX || widths[i] > widths[widest];
            if (!t->right[i] && widths[i] > TEXT_MIN && longer) widest = i;
        }
        if (all <= width) return true;
        if (widest == COLUMNS_MAX) {
            memcpy(widths, given, sizeof given);
            return false;
        }
        size_t over = all - width, room = widths[widest] - TEXT_MIN;
        widths[widest] -= over < room ? over : room;
    }
}

void table_print(struct table *t, FILE *out, int bold, size_t width)
{
    if (!t) return;
    size_t widths[COLUMNS_MAX] = {0}, whole = t->count - t->count % t->columns;
    for (unsigned i = 0; i < t->columns; i++)
        widths[i] = table_width(t->heads[i]);
    for (size_t i = 0; i < whole; i++) {
        size_t cell = table_width(t->cells[i]);
        if (cell > widths[i % t->columns]) widths[i % t->columns] = cell;
    }
    bool cutting = width && fit(t, widths, width);
    for (size_t i = 0; cutting && i < whole; i++)
        if (!t->right[i % t->columns]) cut(&t->cells[i], widths[i % t->columns]);
    struct table_part part = {0, 0};
    for (; part.end < t->columns;) {
        if (part.end) fputc('\n', out); /* what does not fit follows below */
        part = part_from(t, widths, part.end, cutting ? 0 : width);
        if (bold) fputs("\033[1m", out);
        print_line(t, out, (const char *const *)t->heads, widths, part);
        fputs(bold ? "\033[0m\n" : "\n", out);
        for (size_t i = 0; i < whole; i += t->columns) {
            print_line(t, out, (const char *const *)t->cells + i, widths, part);
            fputc('\n', out);
        }
    }
    forget_rows(t);
}

/* Counts lose the commas that people read them with; text is quoted where it must be. */
static void print_field(FILE *out, const char *text)
{
    if (*text && text[strspn(text, "0123456789,")] == 0) {
        for (; *text; text++)
            if (*text != ',') fputc(*text, out);
        return;
    }
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++)
        fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', out);
}

void table_print_csv(struct table *t, FILE *out, const char *first, const char *value, bool head)
{
    if (!t) return;
    size_t whole = t->count - t->count % t->columns;
    if (head && first) fprintf(out, "%s,", first);
    for (unsigned i = 0; head && i < t->columns; i++) {
        print_field(out, t->heads[i]);
        fputc(i + 1 < t->columns ? ',' : '\n', out);
    }
    for (size_t i = 0; i < whole; i++) {
        if (first && i % t->columns == 0) fprintf(out, "%s,", value);
        print_field(out, t->cells[i]);
        fputc((i + 1) % t->columns ? ',' : '\n', out);
    }
    forget_rows(t);
}
