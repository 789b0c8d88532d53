#include "client/cli/files/spool.h"

#include "client/cli/files/text_rows.h"
#include "client/cli/text/progress.h"
#include "client/cli/text/utf8.h"

#include <errno.h>
#include <minizip/unzip.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COPY_BYTES 65536u
#define NAME_BYTES 256u /* of an array in an archive */

enum kind { OTHER, STANDARD_INPUT, CSV, JSON, ARCHIVE };

struct spool {
    const char *name;
    enum spool_content content;
    FILE *out, *ids;
    bool npy;
    char *error;
    size_t error_bytes;
};

/* Where the path of an archive ends: at its end, or at the ':' before an array's name. */
static size_t archive_end(const char *path)
{
    size_t n = strlen(path);
    const char *colon = strrchr(path, ':');
    if (colon && colon - path > 4 && strncasecmp(colon - 4, ".npz", 4) == 0)
        return (size_t)(colon - path);
    return n > 4 && strcasecmp(path + n - 4, ".npz") == 0 ? n : 0;
}

static enum kind kind_of(const char *path)
{
    static const struct {
        const char *ending;
        enum kind kind;
    } known[] = {{".csv", CSV}, {".tsv", CSV}, {".jsonl", JSON}, {".ndjson", JSON}};
    if (strcmp(path, "-") == 0) return STANDARD_INPUT;
    if (archive_end(path)) return ARCHIVE;
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(dot, known[i].ending) == 0) return known[i].kind;
    return OTHER;
}

bool spool_needed(const char *path)
{
    return kind_of(path) != OTHER;
}

static bool fail(struct spool *s, const char *what, const char *why)
{
    snprintf(s->error, s->error_bytes, "%.200s: %s%s%s", s->name, what, *why ? ": " : "", why);
    utf8_tame(s->error);
    return false;
}

static bool copy_all(struct spool *s, FILE *in)
{
    char *bytes = malloc(COPY_BYTES);
    size_t n;
    uint64_t copied = 0;
    bool ok = bytes != NULL;
    struct progress progress; /* of what somebody else may still be making */
    progress_start(&progress, 0, 0, clock_ns());
    while (ok && (n = fread(bytes, 1, COPY_BYTES, in)) > 0) {
        ok = fwrite(bytes, 1, n, s->out) == n;
        progress_show(&progress, copied += n, clock_ns());
    }
    progress_finish(&progress);
    free(bytes);
    if (!bytes) return fail(s, "out of memory", "");
    if (ferror(in)) return fail(s, "cannot read", strerror(errno));
    if (!ok || fflush(s->out) != 0)
        return fail(s, "cannot write a temporary file (TMPDIR says where)", strerror(errno));
    return true;
}

static bool from_text(struct spool *s, FILE *in, enum text_rows_kind kind)
{
    if (s->content == SPOOL_MARKS) return fail(s, "marks are read from .npy files only", "");
    s->npy = s->content == SPOOL_IDS;
    if (s->content == SPOOL_IDS)
        return text_rows_ids(in, s->name, s->out, s->error, s->error_bytes);
    return text_rows_convert(in, s->name, kind, s->out, &s->ids, s->error, s->error_bytes);
}

/* ---- archives ---- */

/* Stands on the array: the one that is named, or the only one. */
static bool find_array(struct spool *s, unzFile zip, const char *wanted)
{
    char name[NAME_BYTES], known[NAME_BYTES] = "", file[NAME_BYTES];
    unsigned arrays = 0;
    snprintf(file, sizeof file, "%.240s.npy", wanted);
    if (*wanted && unzLocateFile(zip, file, 1) == UNZ_OK) return true;
    for (int at = unzGoToFirstFile(zip); at == UNZ_OK; at = unzGoToNextFile(zip)) {
        if (unzGetCurrentFileInfo64(zip, NULL, name, sizeof name, NULL, 0, NULL, 0) != UNZ_OK)
            return fail(s, "is a damaged archive", "");
        size_t used = strlen(known), n = strlen(name);
        if (n < 5 || strcmp(name + n - 4, ".npy") != 0) continue;
        snprintf(known + used, sizeof known - used, "%s%.*s", used ? ", " : "", (int)n - 4, name);
        arrays++;
    }
    if (arrays == 0) return fail(s, "holds no array", "");
    if (*wanted) return fail(s, "has no such array; it has", known);
    if (arrays > 1) return fail(s, "holds several arrays; FILE.npz:NAME picks one of", known);
    return unzGoToFirstFile(zip) == UNZ_OK; /* copy_array passes over what is no array */
}

static bool is_array(unzFile zip)
{
    char name[NAME_BYTES] = "";
    unzGetCurrentFileInfo64(zip, NULL, name, sizeof name, NULL, 0, NULL, 0);
    size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".npy") == 0;
}

static bool copy_array(struct spool *s, unzFile zip)
{
    while (!is_array(zip))
        if (unzGoToNextFile(zip) != UNZ_OK) return fail(s, "is a damaged archive", "");
    if (unzOpenCurrentFile(zip) != UNZ_OK) return fail(s, "is a damaged archive", "");
    char *bytes = malloc(COPY_BYTES);
    int n = -1;
    uint64_t copied = 0;
    bool ok = bytes != NULL;
    unz_file_info64 about = {0};
    struct progress progress;
    unzGetCurrentFileInfo64(zip, &about, NULL, 0, NULL, 0, NULL, 0);
    progress_start(&progress, about.uncompressed_size, 0, clock_ns());
    while (ok && (n = unzReadCurrentFile(zip, bytes, COPY_BYTES)) > 0) {
        ok = fwrite(bytes, 1, (size_t)n, s->out) == (size_t)n;
        progress_show(&progress, copied += (uint64_t)n, clock_ns());
    }
    progress_finish(&progress);
    free(bytes);
    if (!bytes) return fail(s, "out of memory", "");
    if (!ok || fflush(s->out) != 0)
        return fail(s, "cannot write a temporary file (TMPDIR says where)", strerror(errno));
    if (unzCloseCurrentFile(zip) != UNZ_OK || n < 0) return fail(s, "is a damaged archive", "");
    s->npy = true;
    return true;
}

static bool from_archive(struct spool *s, const char *path, const char *array)
{
    unzFile zip = unzOpen64(path);
    if (!zip) return fail(s, "cannot open as an archive (.npz)", errno ? strerror(errno) : "");
    bool ok = find_array(s, zip, array) && copy_array(s, zip);
    unzClose(zip);
    return ok;
}

/* ---- standard input ---- */

/* The whole of it lies in s->out; what it is, its first bytes say. */
static bool from_copy(struct spool *s)
{
    unsigned char head[6] = {0};
    char path[64];
    FILE *copy = s->out;
    rewind(copy);
    size_t n = fread(head, 1, sizeof head, copy);
    rewind(copy);
    if (n == 0) return fail(s, "is empty", "");
    if (memcmp(head, "\x93NUMPY", 6) == 0) {
        s->npy = true;
        return true;
    }
    s->out = tmpfile();
    bool ok = s->out || fail(s, "cannot write a temporary file", strerror(errno));
    size_t blank = strspn((const char *)head, " \t\r\n");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(copy));
    if (ok && memcmp(head, "PK\x03\x04", 4) == 0)
        ok = from_archive(s, path, "");
    else if (ok)
        ok = from_text(s, copy,
                       head[blank] == '[' || head[blank] == '{' ? TEXT_ROWS_JSON : TEXT_ROWS_CSV);
    fclose(copy);
    return ok;
}

static bool fill(struct spool *s, const char *path, enum kind kind)
{
    if (kind == STANDARD_INPUT) return copy_all(s, stdin) && from_copy(s);
    size_t end = archive_end(path);
    if (kind == ARCHIVE) {
        char *whole = strndup(path, end);
        errno = 0;
        bool ok = whole && from_archive(s, whole, path[end] ? path + end + 1 : "");
        free(whole);
        return ok;
    }
    FILE *in = fopen(path, "rbe");
    if (!in) return fail(s, "cannot open", strerror(errno));
    bool ok = from_text(s, in, kind == CSV ? TEXT_ROWS_CSV : TEXT_ROWS_JSON);
    fclose(in);
    return ok;
}

bool spool_open(const char *path, enum spool_content content, FILE **stream, bool *npy, FILE **ids,
                char *error, size_t error_bytes)
{
    enum kind kind = kind_of(path);
    struct spool s = {.name = kind == STANDARD_INPUT ? "standard input" : path,
                      .content = content,
                      .out = tmpfile(),
                      .error = error,
                      .error_bytes = error_bytes};
    bool ok = s.out ? fill(&s, path, kind)
                    : fail(&s, "cannot make a temporary file (TMPDIR says where)", strerror(errno));
    if (!ok) {
        if (s.out) fclose(s.out);
        if (s.ids) fclose(s.ids);
        return false;
    }
    rewind(s.out);
    if (s.ids) rewind(s.ids);
    *stream = s.out;
    *npy = s.npy;
    *ids = s.ids;
    return true;
}
