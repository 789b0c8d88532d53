#include "client/cli/text/names.h"

#include "client/cli/text/format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_id(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name; /* the earlier line first */
}

static bool fail(struct names *n, const char *path, const char *what, size_t line)
{
    if (line)
        snprintf(n->error, sizeof n->error, "%s: line %zu: %s", path, line, what);
    else
        snprintf(n->error, sizeof n->error, "%s: %s", path, what);
    names_close(n);
    return false;
}

static bool read_text(struct names *n, const char *path)
{
    FILE *stream = fopen(path, "rbe");
    if (!stream) return false;
    size_t room = 1 << 16, used = 0;
    bool good = true;
    n->text = malloc(room);
    while (n->text && (used += fread(n->text + used, 1, room - used - 1, stream)) == room - 1) {
        char *more = realloc(n->text, room *= 2);
        if (!more) free(n->text);
        n->text = more;
    }
    if (!n->text || ferror(stream)) good = false;
    if (n->text) n->text[used] = 0;
    int error = errno;
    fclose(stream);
    errno = error;
    return good;
}

/* Cuts a line "12<TAB>name" at the TAB. */
static bool split_line(char *line, uint64_t *id, char **name)
{
    char *tab = strchr(line, '\t');
    if (!tab) return false;
    *tab = 0;
    if (!parse_u64(line, 0, UINT64_MAX, id)) {
        *tab = '\t';
        return false;
    }
    *name = tab + 1;
    return true;
}

bool names_open(struct names *n, const char *path)
{
    *n = (struct names){0};
    if (!read_text(n, path)) return fail(n, path, strerror(errno), 0);
    size_t lines = 1;
    for (const char *c = n->text; *c; c++)
        lines += *c == '\n';
    n->list = malloc(lines * sizeof *n->list);
    if (!n->list) return fail(n, path, "out of memory", 0);

    bool with_ids = false;
    for (char *line = n->text, *next; *line; line = next) {
        char *end = strchrnul(line, '\n');
        next = *end ? end + 1 : end;
        *end = 0;
        if (end > line && end[-1] == '\r') end[-1] = 0;
        uint64_t id = n->count;
        char *name = line;
        bool split = (n->count == 0 || with_ids) && split_line(line, &id, &name);
        if (n->count == 0) with_ids = split;
        if (with_ids && !split)
            return fail(n, path, "expected an id, a TAB and a name", n->count + 1);
        n->list[n->count++] = (struct name){id, name};
    }
    qsort(n->list, n->count, sizeof *n->list, by_id);
    return true;
}

void names_close(struct names *n)
{
    free(n->list);
    free(n->text);
    n->list = NULL;
    n->text = NULL;
    n->count = 0;
}

const char *names_find(const struct names *n, uint64_t id)
{
    size_t low = 0, high = n->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (n->list[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->count && n->list[low].id == id ? n->list[low].name : NULL;
}
