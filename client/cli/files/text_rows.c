#include "client/cli/files/text_rows.h"

#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"
#include "client/cli/text/utf8.h"
#include "client/engram_accel.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NPY_BYTES   128u
#define JSON_ID_MAX 9007199254740992.0 /* 2^53: up to there a double is exact */

struct reader {
    const char *name;
    char *line;
    size_t room;
    uint64_t number, rows; /* of the line; rows so far */
    uint32_t columns;      /* of vectors, 0: not known yet */
    char separator;
    int id_column; /* -1: none */
    float *row;
    FILE *out, *ids;
    char *error;
    size_t error_bytes;
    struct progress progress;
    uint64_t bytes; /* read */
};

static bool fail(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct reader *r, const char *format, ...)
{
    va_list args;
    int n = snprintf(r->error, r->error_bytes, "%.200s: line %" PRIu64 ": ", r->name, r->number);
    va_start(args, format);
    if (n > 0 && (size_t)n < r->error_bytes)
        vsnprintf(r->error + n, r->error_bytes - (size_t)n, format, args);
    va_end(args);
    utf8_tame(r->error); /* the content of a line must not control the terminal */
    return false;
}

/* Reads the next line that is not empty, without its end. False: the end, or an error. */
static bool next_line(struct reader *r, FILE *in)
{
    for (;;) {
        errno = 0;
        ssize_t n = getline(&r->line, &r->room, in);
        if (n < 0) return false;
        r->bytes += (uint64_t)n;
        if (r->number++ % 256 == 0) progress_show(&r->progress, r->bytes, clock_ns());
        while (n > 0 && strchr("\r\n \t", r->line[n - 1]))
            r->line[--n] = 0;
        for (char *zero; (zero = memchr(r->line, 0, (size_t)n));)
            *zero = '?'; /* which no number has */
        if (n > 0) return true;
    }
}

static bool at_end(struct reader *r, FILE *in)
{
    if (!ferror(in) && (feof(in) || errno == 0)) return true;
    return fail(r, "cannot read: %s", strerror(errno ? errno : EIO));
}

static bool write_npy_head(FILE *out, uint64_t rows)
{
    char head[NPY_BYTES + 1];
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    int n = snprintf(head + 10, sizeof head - 10,
                     "{'descr': '<u8', 'fortran_order': False, 'shape': (%" PRIu64 ",), }", rows);
    memset(head + 10 + n, ' ', NPY_BYTES - 11 - (size_t)n);
    head[NPY_BYTES - 1] = '\n';
    return fwrite(head, 1, NPY_BYTES, out) == NPY_BYTES;
}

static bool put_id(struct reader *r, uint64_t id)
{
    if (!r->ids) {
        if (r->rows > 0) return fail(r, "has an id, the rows before it have none");
        r->ids = tmpfile();
        if (!r->ids || !write_npy_head(r->ids, 0))
            return fail(r, "cannot write a temporary file: %s", strerror(errno));
    }
    if (fwrite(&id, 8, 1, r->ids) == 1) return true;
    return fail(r, "cannot write a temporary file: %s", strerror(errno));
}

static bool take_number(struct reader *r, uint32_t at, double value)
{
    if (at >= EA_DIMENSION_MAX) return fail(r, "has more than %d numbers", EA_DIMENSION_MAX);
    r->row[at] = (float)value;
    if (!isfinite(r->row[at])) return fail(r, "number %u is not finite in float32", at);
    return true;
}

static bool end_row(struct reader *r, uint32_t columns, bool with_id)
{
    if (columns == 0) return fail(r, "has no numbers");
    if (r->columns && columns != r->columns)
        return fail(r, "has %u numbers, the rows before have %u", columns, r->columns);
    if (r->ids && !with_id) return fail(r, "has no id, the rows before it have one");
    r->columns = columns;
    if (r->rows == 0 && fwrite("\0\0\0\0\0\0\0\0", 1, 8, r->out) != 8)
        return fail(r, "cannot write a temporary file: %s", strerror(errno));
    if (fwrite(r->row, 4, columns, r->out) != columns)
        return fail(r, "cannot write a temporary file: %s", strerror(errno));
    r->rows++;
    return true;
}

/* ---- CSV ---- */

/* Cuts the next field off *at: without blanks around it and without quotes. NULL: there is none. */
static char *next_field(struct reader *r, char **at)
{
    char *field = *at;
    if (!field) return NULL;
    char *end = strchr(field, r->separator);
    *at = end ? end + 1 : NULL;
    if (end) *end = 0;
    while (*at && r->separator == ' ' && **at == ' ')
        ++*at;
    while (*field == ' ' || *field == '\t')
        field++;
    size_t n = strlen(field);
    while (n > 0 && (field[n - 1] == ' ' || field[n - 1] == '\t'))
        field[--n] = 0;
    if (n >= 2 && field[0] == '"' && field[n - 1] == '"') {
        field[n - 1] = 0;
        field++;
    }
    return field;
}

static char separator_of(const char *line)
{
    static const char known[] = ",;\t ";
    for (const char *c = known; *c; c++)
        if (strchr(line, *c)) return *c;
    return ',';
}

/* The first line: true if it names the columns. */
static bool is_head(struct reader *r)
{
    double number;
    char *copy = strdup(r->line), *at = copy, *field;
    bool head = false;
    for (int i = 0; copy && (field = next_field(r, &at)); i++) {
        if (!parse_number(field, -HUGE_VAL, HUGE_VAL, &number) && strcasecmp(field, "nan") != 0 &&
            !strcasestr(field, "inf"))
            head = true;
        if (strcasecmp(field, "id") == 0) r->id_column = i;
    }
    free(copy);
    return head;
}

static bool csv_row(struct reader *r)
{
    char *at = r->line, *field;
    uint32_t columns = 0;
    bool with_id = false;
    for (int i = 0; (field = next_field(r, &at)); i++) {
        uint64_t id;
        double value;
        if (i == r->id_column) {
            if (!parse_u64(field, 0, UINT64_MAX - 1, &id))
                return fail(r, "id '%.40s' is not a whole number from 0 to 2^64 - 2", field);
            if (!put_id(r, id)) return false;
            with_id = true;
            continue;
        }
        if (!parse_number(field, -HUGE_VAL, HUGE_VAL, &value))
            return fail(r, "field %d, '%.40s', is not a finite number", i + 1, field);
        if (!take_number(r, columns++, value)) return false;
    }
    if (r->id_column >= 0 && !with_id) return fail(r, "has no id");
    return end_row(r, columns, with_id);
}

/* ---- JSON Lines ---- */

static bool json_id(struct reader *r, const cJSON *id)
{
    uint64_t value;
    if (cJSON_IsString(id) && parse_u64(id->valuestring, 0, UINT64_MAX - 1, &value))
        return put_id(r, value);
    if (!cJSON_IsNumber(id) || id->valuedouble < 0 || id->valuedouble > JSON_ID_MAX ||
        id->valuedouble != floor(id->valuedouble))
        return fail(r, "\"id\" is not a whole number from 0 to 2^53, nor a string with one");
    return put_id(r, (uint64_t)id->valuedouble);
}

static bool json_row(struct reader *r, const cJSON *whole)
{
    static const char *const names[] = {"vector", "embedding", "values"};
    const cJSON *vector = whole, *id = NULL, *number;
    if (cJSON_IsObject(whole)) {
        vector = NULL;
        for (unsigned i = 0; i < 3 && !vector; i++)
            vector = cJSON_GetObjectItemCaseSensitive(whole, names[i]);
        id = cJSON_GetObjectItemCaseSensitive(whole, "id");
        if (!vector) return fail(r, "the object has no \"vector\" (nor \"embedding\", \"values\")");
    }
    if (!cJSON_IsArray(vector)) return fail(r, "the vector is not an array of numbers");
    uint32_t columns = 0;
    cJSON_ArrayForEach(number, vector)
    {
        if (!cJSON_IsNumber(number)) return fail(r, "item %u is not a number", columns);
        if (!take_number(r, columns++, number->valuedouble)) return false;
    }
    if (id && !json_id(r, id)) return false;
    return end_row(r, columns, id != NULL);
}

static bool json_line(struct reader *r)
{
    cJSON *whole = cJSON_ParseWithOpts(r->line, NULL, true);
    bool ok = whole ? json_row(r, whole) : fail(r, "is not JSON");
    cJSON_Delete(whole);
    return ok;
}

static void begin(struct reader *r, FILE *in)
{
    struct stat about;
    bool known = fstat(fileno(in), &about) == 0 && S_ISREG(about.st_mode);
    progress_start(&r->progress, known ? (uint64_t)about.st_size : 0, 0, clock_ns());
}

static bool put_counts(struct reader *r)
{
    uint32_t counts[2] = {(uint32_t)r->rows, r->columns};
    if (r->rows > UINT32_MAX) return fail(r, "has more than 2^32 rows; use .npy");
    bool ok = fseeko(r->out, 0, SEEK_SET) == 0 && fwrite(counts, 4, 2, r->out) == 2 &&
              fflush(r->out) == 0;
    if (ok && r->ids)
        ok = fseeko(r->ids, 0, SEEK_SET) == 0 && write_npy_head(r->ids, r->rows) &&
             fflush(r->ids) == 0;
    return ok || fail(r, "cannot write a temporary file: %s", strerror(errno));
}

bool text_rows_convert(FILE *in, const char *name, enum text_rows_kind kind, FILE *out, FILE **ids,
                       char *error, size_t error_bytes)
{
    struct reader r = {.name = name,
                       .out = out,
                       .id_column = -1,
                       .error = error,
                       .error_bytes = error_bytes,
                       .row = malloc(4 * (size_t)EA_DIMENSION_MAX)};
    bool ok = r.row || fail(&r, "out of memory");
    begin(&r, in);
    for (bool first = true; ok && next_line(&r, in); first = false) {
        if (first) r.separator = separator_of(r.line);
        if (first && kind == TEXT_ROWS_CSV && is_head(&r)) continue;
        ok = kind == TEXT_ROWS_CSV ? csv_row(&r) : json_line(&r);
    }
    progress_finish(&r.progress);
    ok = ok && at_end(&r, in);
    if (ok && r.rows == 0) ok = fail(&r, "there is no row of numbers");
    ok = ok && put_counts(&r);
    if (!ok && r.ids) fclose(r.ids);
    *ids = ok ? r.ids : NULL;
    free(r.line);
    free(r.row);
    return ok;
}

bool text_rows_ids(FILE *in, const char *name, FILE *out, char *error, size_t error_bytes)
{
    struct reader r = {.name = name, .ids = out, .error = error, .error_bytes = error_bytes};
    uint64_t id, n = 0;
    bool ok = write_npy_head(out, 0) || fail(&r, "cannot write: %s", strerror(errno));
    begin(&r, in);
    while (ok && next_line(&r, in)) {
        if (r.number == 1 && strcasecmp(r.line, "id") == 0) continue;
        if (parse_u64(r.line, 0, UINT64_MAX - 1, &id))
            ok = put_id(&r, id);
        else
            ok = fail(&r, "'%.40s' is not an id, a whole number from 0 to 2^64 - 2", r.line);
        n++;
    }
    progress_finish(&r.progress);
    ok = ok && at_end(&r, in);
    if (ok && (fseeko(out, 0, SEEK_SET) != 0 || !write_npy_head(out, n) || fflush(out) != 0))
        ok = fail(&r, "cannot write a temporary file: %s", strerror(errno));
    free(r.line);
    return ok;
}
