#include "client/cli/files/node_lines.h"

#include "client/cli/text/fields.h"
#include "client/cli/text/format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KINDS      3u
#define FACTOR_MAX 65536

static const char *const kinds[KINDS] = {"plain", "episode", "concept"}; /* by ea_node_kind */

const char *node_kind_name(uint8_t kind)
{
    return kind < KINDS ? kinds[kind] : "?";
}

static bool parse_line(struct fields *f, struct node_line *out)
{
    double factor = 1;
    *out = (struct node_line){.line = f->line};
    if (f->count != 2 && f->count != 3)
        return fields_fail(f, "%u field%s; expected an id, a kind and perhaps a factor", f->count,
                           f->count == 1 ? "" : "s");
    if (!fields_id(f, 0, "id", &out->id)) return false;
    if (strcmp(f->at[1], "-") != 0) {
        out->gives |= GIVES_KIND;
        while (out->kind < KINDS && strcmp(kinds[out->kind], f->at[1]) != 0)
            out->kind++;
        if (out->kind == KINDS)
            return fields_fail(f, "kind '%.40s' is not plain, episode, concept or -", f->at[1]);
    }
    if (f->count == 3 && strcmp(f->at[2], "-") != 0) {
        out->gives |= GIVES_FACTOR;
        if (!parse_number(f->at[2], 0, FACTOR_MAX, &factor))
            return fields_fail(f, "factor '%.40s' is not a number from 0 to 65,536 or -", f->at[2]);
    }
    out->factor = (float)factor;
    return true;
}

static bool append(struct node_lines *lines, struct fields *f)
{
    if (lines->count == lines->room) {
        size_t room = lines->room ? 2 * lines->room : 1024;
        struct node_line *list = reallocarray(lines->list, room, sizeof *list);
        if (!list) return fields_fail(f, "out of memory");
        lines->list = list;
        lines->room = room;
    }
    if (!parse_line(f, &lines->list[lines->count])) return false;
    lines->count++;
    return true;
}

static int by_id(const void *a, const void *b)
{
    const struct node_line *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->line < y->line ? -1 : 1;
}

static int by_what_they_give(const void *a, const void *b)
{
    const struct node_line *x = a, *y = b;
    return x->gives != y->gives ? (int)x->gives - (int)y->gives : by_id(a, b);
}

static bool arrange(struct node_lines *lines, struct fields *f)
{
    if (lines->count == 0) return true;
    qsort(lines->list, lines->count, sizeof *lines->list, by_id);
    for (size_t i = 1; i < lines->count; i++) {
        const struct node_line *first = &lines->list[i - 1], *second = &lines->list[i];
        if (first->id != second->id) continue;
        f->line = second->line;
        return fields_fail(f, "id %" PRIu64 " stands in line %" PRIu64 " already", first->id,
                           first->line);
    }
    qsort(lines->list, lines->count, sizeof *lines->list, by_what_they_give);
    return true;
}

bool node_lines_read(struct node_lines *lines, const char *path)
{
    struct fields f;
    *lines = (struct node_lines){0};
    bool good = fields_open(&f, path, '#') && fields_next(&f);
    while (good && f.count > 0)
        good = append(lines, &f) && fields_next(&f);
    if (good) good = arrange(lines, &f);
    if (!good) memcpy(lines->error, f.error, sizeof lines->error);
    fields_close(&f);
    return good;
}

void node_lines_free(struct node_lines *lines)
{
    free(lines->list);
    *lines = (struct node_lines){0};
}
