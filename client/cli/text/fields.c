#include "client/cli/text/fields.h"

#include "client/cli/text/format.h"
#include "client/cli/text/utf8.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool fields_fail(struct fields *f, const char *format, ...)
{
    va_list args;
    int n = f->line ? snprintf(f->error, sizeof f->error, "%.200s: line %" PRIu64 ": ", f->name,
                               f->line)
                    : snprintf(f->error, sizeof f->error, "%.200s: ", f->name);
    va_start(args, format);
    vsnprintf(f->error + n, sizeof f->error - (size_t)n, format, args);
    va_end(args);
    /* The content of a line must not control the terminal. */
    utf8_tame(f->error);
    return false;
}

bool fields_open_stream(struct fields *f, FILE *stream, const char *name, char comment)
{
    *f = (struct fields){.stream = stream, .comment = comment, .name = strdup(name)};
    if (f->name) return true;
    snprintf(f->error, sizeof f->error, "%.200s: out of memory", name);
    return false;
}

bool fields_open(struct fields *f, const char *path, char comment)
{
    *f = (struct fields){0};
    FILE *stream = fopen(path, "rbe");
    struct stat about;
    if (!stream || fstat(fileno(stream), &about) != 0 || S_ISDIR(about.st_mode)) {
        snprintf(f->error, sizeof f->error, "%.200s: cannot open: %s", path,
                 stream ? strerror(EISDIR) : strerror(errno));
        if (stream) fclose(stream);
        return false;
    }
    if (!fields_open_stream(f, stream, path, comment)) return false;
    if (S_ISREG(about.st_mode)) f->size = (uint64_t)about.st_size;
    return true;
}

void fields_close(struct fields *f)
{
    if (f->stream) fclose(f->stream);
    free(f->name);
    f->stream = NULL;
    f->name = NULL;
}

/* Skips the byte order mark with which some editors begin a file. */
static size_t without_mark(char *text, size_t n)
{
    static const char mark[] = "\xef\xbb\xbf";
    enum { MARK_BYTES = sizeof mark - 1 };
    if (n < MARK_BYTES || memcmp(text, mark, MARK_BYTES) != 0) return n;
    memmove(text, text + MARK_BYTES, n - MARK_BYTES);
    return n - MARK_BYTES;
}

/* Reads one line without its end. A comment that does not fit is cut. *more: there was a line. */
static bool read_line(struct fields *f, bool *more)
{
    size_t n = 0;
    int c;
    while ((c = getc_unlocked(f->stream)) != EOF && c != '\n') {
        f->bytes++;
        if (n == FIELDS_LINE_MAX) {
            if (f->text[0] == f->comment) continue;
            f->line++;
            return fields_fail(f, "longer than %u bytes", FIELDS_LINE_MAX);
        }
        f->text[n++] = (char)c;
    }
    if (c == EOF && ferror(f->stream)) return fields_fail(f, "cannot read: %s", strerror(errno));
    f->bytes += c == '\n';
    *more = c == '\n' || n > 0;
    f->line += *more;
    if (n > 0 && f->text[n - 1] == '\r') n--;
    if (f->line == 1) n = without_mark(f->text, n);
    f->text[n] = 0;
    if (f->text[0] != f->comment && strlen(f->text) != n)
        return fields_fail(f, "has a byte 0: this is not text");
    return true;
}

static bool split(struct fields *f)
{
    char *at = f->text;
    for (;;) {
        at += strspn(at, " \t");
        if (!*at) return true;
        if (f->count == FIELDS_MAX) return fields_fail(f, "more than %u fields", FIELDS_MAX);
        f->at[f->count++] = at;
        at += strcspn(at, " \t");
        if (*at) *at++ = 0;
    }
}

bool fields_next(struct fields *f)
{
    bool more = true;
    f->count = 0;
    while (f->count == 0) {
        if (!read_line(f, &more)) return false;
        if (!more) return true;
        if (f->text[strspn(f->text, " \t")] != f->comment && !split(f)) return false;
    }
    return true;
}

bool fields_head(struct fields *f)
{
    bool more;
    f->count = 0;
    return read_line(f, &more);
}

bool fields_id(struct fields *f, unsigned i, const char *what, uint64_t *out)
{
    if (parse_u64(f->at[i], 0, UINT64_MAX - 1, out)) return true;
    return fields_fail(f, "%s '%.40s' is not a whole number from 0 to 2^64 - 2", what, f->at[i]);
}

bool fields_number(struct fields *f, unsigned i, const char *what, float *out)
{
    double value;
    if (!parse_number(f->at[i], -(double)FLT_MAX, (double)FLT_MAX, &value))
        return fields_fail(f, "%s '%.40s' is not a finite number", what, f->at[i]);
    *out = (float)value;
    return true;
}
