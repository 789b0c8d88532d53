#include "client/cli/files/edges_file.h"

#include "client/cli/text/format.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLOCK_ROWS 4096u
#define ID_MAX     9007199254740992.0 /* 2^53: above it doubles skip whole numbers */

static bool fail(struct edges_file *file, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(struct edges_file *file, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(file->error, sizeof file->error, format, args);
    va_end(args);
    return false;
}

/* Copies the error of a column's file. */
static bool pass_on(struct edges_file *file, const char *error)
{
    return fail(file, "%s", error);
}

enum edges_format edges_format_of(const char *path)
{
    static const struct {
        const char *ending;
        enum edges_format format;
    } known[] = {
        {".tsv", EDGES_TEXT}, {".txt", EDGES_TEXT}, {".mtx", EDGES_MATRIX}, {".npy", EDGES_NPY}};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(dot, known[i].ending) == 0) return known[i].format;
    return EDGES_AUTO;
}

/* ---- MatrixMarket ---- */

static bool matrix_banner(struct edges_file *file)
{
    struct fields *f = &file->fields;
    static const char needed[] = "the first line must be '%%MatrixMarket matrix coordinate "
                                 "real|integer|pattern general|symmetric'";
    char word[5][32];
    int end = -1;
    if (!fields_head(f)) return pass_on(file, f->error);
    sscanf(f->text, "%31s %31s %31s %31s %31s %n", word[0], word[1], word[2], word[3], word[4],
           &end);
    bool good = end >= 0 && !f->text[end] && strcasecmp(word[0], "%%MatrixMarket") == 0 &&
                strcasecmp(word[1], "matrix") == 0;
    if (good && strcasecmp(word[2], "coordinate") != 0)
        good = !fields_fail(f, "'%s' is not read; %s", word[2], needed);
    else if (good && strcasecmp(word[3], "real") != 0 && strcasecmp(word[3], "integer") != 0 &&
             strcasecmp(word[3], "pattern") != 0)
        good = !fields_fail(f, "numbers that are '%s' are not read; %s", word[3], needed);
    else if (good && strcasecmp(word[4], "general") != 0 && strcasecmp(word[4], "symmetric") != 0)
        good = !fields_fail(f, "a '%s' matrix is not read; %s", word[4], needed);
    if (!good && !f->error[0]) fields_fail(f, "%s", needed);
    if (f->error[0]) return pass_on(file, f->error);
    file->pattern = strcasecmp(word[3], "pattern") == 0;
    file->symmetric = strcasecmp(word[4], "symmetric") == 0;
    return true;
}

static bool matrix_open(struct edges_file *file)
{
    struct fields *f = &file->fields;
    if (!matrix_banner(file)) return false;
    if (!fields_next(f)) return pass_on(file, f->error);
    bool good = f->count == 3 && parse_u64(f->at[0], 0, UINT64_MAX, &file->rows_max) &&
                parse_u64(f->at[1], 0, UINT64_MAX, &file->columns_max) &&
                parse_u64(f->at[2], 0, UINT64_MAX, &file->entries);
    if (!good) fields_fail(f, "expected the matrix's rows, columns and entries");
    if (good && file->symmetric && file->rows_max != file->columns_max)
        good = fields_fail(f, "a symmetric matrix is square; this one is %" PRIu64 " x %" PRIu64,
                           file->rows_max, file->columns_max);
    uint64_t most = file->rows_max > file->columns_max ? file->rows_max : file->columns_max;
    if (good && most && file->first_id > UINT64_MAX - 1 - (most - 1))
        good = fields_fail(f, "%" PRIu64 " nodes from id %" PRIu64 " on are more than there are",
                           most, file->first_id);
    return good || pass_on(file, f->error);
}

static bool matrix_entry(struct edges_file *file, bool *end)
{
    struct fields *f = &file->fields;
    unsigned needed = file->pattern ? 2 : 3;
    if (!fields_next(f)) return false;
    *end = f->count == 0;
    if (*end && file->entries_read < file->entries)
        return fields_fail(f, "the file ends after entry %" PRIu64 " of %" PRIu64,
                           file->entries_read, file->entries);
    if (*end) return true;
    if (file->entries_read == file->entries)
        return fields_fail(f, "more entries than were promised: %" PRIu64, file->entries);
    if (f->count != needed)
        return fields_fail(f, "%u fields; expected a row, a column%s", f->count,
                           file->pattern ? "" : " and a number");
    if (!parse_u64(f->at[0], 1, file->rows_max, &file->source))
        return fields_fail(f, "row '%.40s' is not within 1..%" PRIu64, f->at[0], file->rows_max);
    if (!parse_u64(f->at[1], 1, file->columns_max, &file->target))
        return fields_fail(f, "column '%.40s' is not within 1..%" PRIu64, f->at[1],
                           file->columns_max);
    file->weight = 1;
    if (!file->pattern && !fields_number(f, 2, "the number", &file->weight)) return false;
    file->source += file->first_id - 1;
    file->target += file->first_id - 1;
    file->entries_read++;
    file->mirror = file->symmetric && file->source != file->target;
    return true;
}

/* ---- text ---- */

static bool text_edge(struct edges_file *file, bool *end)
{
    struct fields *f = &file->fields;
    if (!fields_next(f)) return false;
    *end = f->count == 0;
    if (*end) return true;
    if (f->count != 2 && f->count != 3)
        return fields_fail(f, "%u field%s; expected a source, a target and perhaps a weight",
                           f->count, f->count == 1 ? "" : "s");
    file->weight = 1;
    return fields_id(f, 0, "source", &file->source) && fields_id(f, 1, "target", &file->target) &&
           (f->count == 2 || fields_number(f, 2, "weight", &file->weight));
}

static bool lines_read(struct edges_file *file, uint64_t *sources, uint64_t *targets,
                       float *weights, uint64_t max, uint64_t *got)
{
    for (*got = 0; *got < max; ++*got) {
        bool end = false;
        if (file->mirror) {
            uint64_t source = file->source;
            file->source = file->target;
            file->target = source;
            file->mirror = false;
        } else if (!(file->format == EDGES_MATRIX ? matrix_entry(file, &end)
                                                  : text_edge(file, &end))) {
            return pass_on(file, file->fields.error);
        }
        if (end) break;
        sources[*got] = file->source;
        targets[*got] = file->target;
        weights[*got] = file->weight;
    }
    return true;
}

/* ---- .npy ---- */

static bool no_triples(struct edges_file *file, const struct vectors_file *v)
{
    return fail(file,
                "%s: %s of %" PRIu64 " x %" PRIu64 "; one .npy file must be n x 3 float64 "
                "(source, target, weight); else give SOURCES.npy TARGETS.npy [WEIGHTS.npy]",
                v->name, vectors_type_name(v->type), v->rows, v->columns);
}

/* Refuses a file that is an array of integers, as lists of edges often are, with a hint how to
 * store it. */
static bool integers_open(struct edges_file *file, const char *path, const char *error)
{
    struct vectors_file v;
    if (vectors_file_open(&v, path, VECTORS_OF_IDS))
        no_triples(file, &v);
    else
        pass_on(file, error);
    vectors_file_close(&v);
    return false;
}

static bool triples_open(struct edges_file *file)
{
    struct vectors_file *v = &file->columns[0];
    if (v->type != VECTORS_F64 || v->axes != 2 || v->columns != 3) return no_triples(file, v);
    file->block = malloc(BLOCK_ROWS * 3 * sizeof *file->block);
    return file->block || fail(file, "%s: out of memory", v->name);
}

static bool npy_open(struct edges_file *file, const char *const *paths, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct vectors_file *v = &file->columns[i];
        bool ids = count > 1 && i < 2;
        if (!vectors_file_open(v, paths[i], ids ? VECTORS_OF_IDS : VECTORS_OF_NUMBERS))
            return count == 1 ? integers_open(file, paths[i], v->error) : pass_on(file, v->error);
        if (count > 1 && v->columns != 1)
            return fail(file, "%s: %" PRIu64 " x %" PRIu64 "; one %s an edge is needed", v->name,
                        v->rows, v->columns, ids ? "id" : "weight");
        if (v->rows != file->columns[0].rows)
            return fail(file, "%s: %" PRIu64 " rows; %s has %" PRIu64, v->name, v->rows,
                        file->columns[0].name, file->columns[0].rows);
    }
    return count > 1 || triples_open(file);
}

static bool triple_id(struct edges_file *file, uint64_t row, const char *what, double value,
                      uint64_t *out)
{
    if (!(value >= 0) || value > ID_MAX || value != (double)(uint64_t)value)
        return fail(file, "%s: row %" PRIu64 ": %s %.17g is not a whole number from 0 to 2^53",
                    file->columns[0].name, row, what, value);
    *out = (uint64_t)value;
    return true;
}

static bool triples_read(struct edges_file *file, uint64_t *sources, uint64_t *targets,
                         float *weights, uint64_t max, uint64_t *got)
{
    struct vectors_file *v = &file->columns[0];
    if (max > BLOCK_ROWS) max = BLOCK_ROWS;
    if (!vectors_file_read_doubles(v, file->block, max, got)) return pass_on(file, v->error);
    for (uint64_t i = 0; i < *got; i++) {
        const double *triple = file->block + 3 * i;
        if (!triple_id(file, file->edges + i, "source", triple[0], &sources[i]) ||
            !triple_id(file, file->edges + i, "target", triple[1], &targets[i]))
            return false;
        weights[i] = (float)triple[2];
        if (!__builtin_isfinite(weights[i]))
            return fail(file, "%s: row %" PRIu64 ": weight %g is not a finite float32", v->name,
                        file->edges + i, triple[2]);
    }
    return true;
}

static bool columns_read(struct edges_file *file, uint64_t *sources, uint64_t *targets,
                         float *weights, uint64_t max, uint64_t *got)
{
    uint64_t *ids[2] = {sources, targets};
    for (unsigned i = 0; i < 2; i++) {
        struct vectors_file *v = &file->columns[i];
        if (!vectors_file_read_ids(v, ids[i], max, got)) return pass_on(file, v->error);
        for (uint64_t row = 0; row < *got; row++)
            if (ids[i][row] == UINT64_MAX)
                return fail(file, "%s: row %" PRIu64 ": id 2^64 - 1 is nobody's", v->name,
                            file->edges + row);
    }
    if (file->column_count == 3 && !vectors_file_read(&file->columns[2], weights, max, got))
        return pass_on(file, file->columns[2].error);
    for (uint64_t i = 0; file->column_count == 2 && i < *got; i++)
        weights[i] = 1;
    return true;
}

/* ---- all of them ---- */

static char comment_of(enum edges_format format)
{
    return format == EDGES_MATRIX ? '%' : '#';
}

bool edges_file_open_stream(struct edges_file *file, FILE *stream, const char *name,
                            enum edges_format format, uint64_t first_id)
{
    *file = (struct edges_file){.format = format, .first_id = first_id};
    if (!fields_open_stream(&file->fields, stream, name, comment_of(format)))
        return pass_on(file, file->fields.error);
    return format == EDGES_TEXT || matrix_open(file);
}

bool edges_file_open(struct edges_file *file, const char *const *paths, unsigned count,
                     enum edges_format format, uint64_t first_id)
{
    *file = (struct edges_file){.format = format, .column_count = count, .first_id = first_id};
    if (format == EDGES_AUTO) file->format = edges_format_of(paths[0]);
    if (file->format == EDGES_AUTO)
        return fail(file,
                    "%s: unknown kind of file; .tsv, .txt, .mtx and .npy are read (or say "
                    "--format)",
                    paths[0]);
    if (count > (file->format == EDGES_NPY ? 3 : 1))
        return fail(file, "%s: a file too many", paths[count - 1]);
    if (file->format == EDGES_NPY) return npy_open(file, paths, count);
    if (!fields_open(&file->fields, paths[0], comment_of(file->format)))
        return pass_on(file, file->fields.error);
    return file->format == EDGES_TEXT || matrix_open(file);
}

bool edges_file_read(struct edges_file *file, uint64_t *sources, uint64_t *targets, float *weights,
                     uint64_t max, uint64_t *got)
{
    bool good;
    if (file->format != EDGES_NPY)
        good = lines_read(file, sources, targets, weights, max, got);
    else if (file->column_count == 1)
        good = triples_read(file, sources, targets, weights, max, got);
    else
        good = columns_read(file, sources, targets, weights, max, got);
    if (good) file->edges += *got;
    return good;
}

void edges_file_place(const struct edges_file *file, uint64_t *bytes, uint64_t *size)
{
    *bytes = *size = 0;
    if (file->format != EDGES_NPY) {
        *bytes = file->fields.bytes;
        *size = file->fields.size;
    }
    for (unsigned i = 0; file->format == EDGES_NPY && i < file->column_count; i++) {
        const struct vectors_file *v = &file->columns[i];
        *size += v->size;
        *bytes += v->rows ? (uint64_t)((double)v->size * ((double)v->next_row / (double)v->rows))
                          : v->size;
    }
}

void edges_file_close(struct edges_file *file)
{
    fields_close(&file->fields);
    for (unsigned i = 0; i < 3; i++)
        vectors_file_close(&file->columns[i]);
    free(file->block);
    file->block = NULL;
}
