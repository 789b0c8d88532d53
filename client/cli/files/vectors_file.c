#include "client/cli/files/vectors_file.h"

#include "client/cli/files/convert.h"
#include "client/cli/files/npy_header.h"
#include "client/cli/files/spool.h"
#include "client/engram_accel.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define BLOCK_BYTES 65536u /* a multiple of every element's size; a row may be longer */

static bool fail(struct vectors_file *file, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(struct vectors_file *file, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(file->error, sizeof file->error, format, args);
    va_end(args);
    return false;
}

const char *vectors_type_name(enum vectors_type type)
{
    static const char *const names[] = {"float16", "float32", "float64", "uint64",
                                        "int64",   "uint32",  "int32",   "uint8"};
    return names[type];
}

static size_t type_bytes(enum vectors_type type)
{
    static const uint8_t bytes[] = {2, 4, 8, 8, 8, 4, 4, 1};
    return bytes[type];
}

static uint32_t load_u32(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Reads exactly as many bytes, or fails: the size was checked, so a short read means that the file
 * was changed meanwhile. */
static bool read_exactly(struct vectors_file *file, void *out, size_t bytes)
{
    if (fread(out, 1, bytes, file->stream) == bytes) return true;
    if (ferror(file->stream)) return fail(file, "%s: cannot read: %s", file->name, strerror(errno));
    return fail(file, "%s: ended early at row %" PRIu64 " (did it change while it was read?)",
                file->name, file->next_row);
}

/* Checks that rows x columns elements fill the file from data_at to its end. */
static bool check_size(struct vectors_file *file)
{
    uint64_t row_bytes, bytes, have = file->size - file->data_at;
    if (__builtin_mul_overflow(file->columns, (uint64_t)type_bytes(file->type), &row_bytes) ||
        __builtin_mul_overflow(row_bytes, file->rows, &bytes))
        return fail(file, "%s: its shape of %" PRIu64 " x %" PRIu64 " overflows", file->name,
                    file->rows, file->columns);
    if (bytes > have)
        return fail(file,
                    "%s: truncated: %" PRIu64 " rows of %" PRIu64 " need %" PRIu64
                    " bytes from byte %" PRIu64 ", the file has %" PRIu64,
                    file->name, file->rows, file->columns, bytes, file->data_at, have);
    if (bytes < have)
        return fail(file, "%s: %" PRIu64 " trailing bytes from byte %" PRIu64, file->name,
                    have - bytes, file->data_at + bytes);
    return true;
}

static bool check_dimension(struct vectors_file *file, uint64_t dimension)
{
    if (dimension >= 1 && dimension <= EA_DIMENSION_MAX) return true;
    return fail(file, "%s: the dimension %" PRIu64 " is not within 1..%d", file->name, dimension,
                EA_DIMENSION_MAX);
}

static bool npy_type(struct vectors_file *file, const char *dtype, enum vectors_content content)
{
    enum { NUMBERS, IDS, MARKS };
    static const struct {
        const char *dtype;
        enum vectors_type type;
        unsigned kind;
    } known[] = {
        {"<f2", VECTORS_F16, NUMBERS}, {"<f4", VECTORS_F32, NUMBERS}, {"<f8", VECTORS_F64, NUMBERS},
        {"<u8", VECTORS_U64, IDS},     {"<i8", VECTORS_I64, IDS},     {"<u4", VECTORS_U32, IDS},
        {"<i4", VECTORS_I32, IDS},     {"|b1", VECTORS_U8, MARKS},    {"|u1", VECTORS_U8, MARKS}};
    static const char *const wanted_kinds[] = {"little-endian float32, float64 or float16",
                                               "little-endian uint64, int64, uint32 or int32",
                                               "bool or uint8"};
    unsigned kind = content == VECTORS_OF_IDS ? IDS : content == VECTORS_OF_MARKS ? MARKS : NUMBERS;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].dtype, dtype) == 0 && known[i].kind == kind) {
            file->type = known[i].type;
            return true;
        }
    const char *wanted = wanted_kinds[kind];
    if (dtype[0] == '>')
        return fail(file, "%s: big-endian dtype '%s'; save it as %s", file->name, dtype, wanted);
    return fail(file, "%s: dtype '%s' does not fit; save it as %s", file->name, dtype, wanted);
}

static bool npy_shape(struct vectors_file *file, const struct npy_header *header,
                      enum vectors_content content)
{
    if (header->axes != 1 && header->axes != 2)
        return fail(file, "%s: has %u axes; 1 or 2 are needed", file->name, header->axes);
    /* With one axis both orders have the same bytes. */
    if (header->fortran_order && header->axes == 2)
        return fail(file, "%s: Fortran order; save numpy.ascontiguousarray(x) instead", file->name);
    file->axes = header->axes;
    file->rows = header->shape[0];
    file->columns = header->axes == 2 ? header->shape[1] : 1;
    if (content == VECTORS_OF_IDS) {
        if (file->columns == 0) return fail(file, "%s: rows of 0 ids", file->name);
        if (file->rows == 0) file->columns = 1; /* without rows, no bytes support a larger number */
        return true;
    }
    if (header->axes == 1 && content != VECTORS_OF_NUMBERS) {
        file->rows = 1;
        file->columns = header->shape[0];
    }
    return check_dimension(file, file->columns);
}

static bool open_npy(struct vectors_file *file, enum vectors_content content)
{
    unsigned char head[12];
    if (file->size < 10) return fail(file, "%s: too short for a .npy header", file->name);
    if (!read_exactly(file, head, 10)) return false;
    if (memcmp(head, "\x93NUMPY", 6) != 0)
        return fail(file, "%s: not a .npy file: wrong magic at byte 0", file->name);
    if (head[6] < 1 || head[6] > 3 || head[7] != 0)
        return fail(file, "%s: .npy version %u.%u at byte 6 is not known", file->name, head[6],
                    head[7]);
    uint64_t at = head[6] == 1 ? 10 : 12;
    if (file->size < at) return fail(file, "%s: too short for a .npy header", file->name);
    if (at == 12 && !read_exactly(file, head + 10, 2)) return false;

    uint32_t bytes = at == 10 ? load_u32(head + 8) & 0xffffu : load_u32(head + 8);
    if (bytes > NPY_HEADER_BYTES_MAX)
        return fail(file, "%s: header of %" PRIu32 " bytes at byte 8; at most %u are read",
                    file->name, bytes, NPY_HEADER_BYTES_MAX);
    if (bytes > file->size - at)
        return fail(file, "%s: truncated: a header of %" PRIu32 " bytes from byte %" PRIu64,
                    file->name, bytes, at);
    if (!read_exactly(file, file->block, bytes)) return false;
    file->data_at = at + bytes;

    struct npy_header header;
    char error[160];
    if (!npy_header_parse((const char *)file->block, bytes, &header, error, sizeof error))
        return fail(file, "%s: %s", file->name, error);
    return npy_type(file, header.dtype, content) && npy_shape(file, &header, content) &&
           check_size(file);
}

static bool open_fvecs(struct vectors_file *file)
{
    unsigned char head[4];
    file->type = VECTORS_F32;
    if (file->size < 4)
        return fail(file, "%s: %s", file->name,
                    file->size ? "truncated at byte 0" : "the file is empty");
    if (!read_exactly(file, head, 4)) return false;
    file->columns = load_u32(head);
    if (!check_dimension(file, file->columns)) return false;
    uint64_t record = 4 + 4 * file->columns;
    file->rows = file->size / record;
    if (file->size % record != 0)
        return fail(file,
                    "%s: row %" PRIu64 " at byte %" PRIu64 " is not whole (or the dimension is "
                    "not %" PRIu64 " in every row)",
                    file->name, file->rows, file->rows * record, file->columns);
    rewind(file->stream);
    return true;
}

static bool open_fbin(struct vectors_file *file)
{
    unsigned char head[8];
    file->type = VECTORS_F32;
    file->data_at = 8;
    if (file->size < 8) return fail(file, "%s: too short for a .fbin header", file->name);
    if (!read_exactly(file, head, 8)) return false;
    file->rows = load_u32(head);
    file->columns = load_u32(head + 4);
    return check_dimension(file, file->columns) && check_size(file);
}

static bool file_size(struct vectors_file *file)
{
    off_t size = -1;
    if (fseeko(file->stream, 0, SEEK_END) == 0) size = ftello(file->stream);
    if (size < 0) return fail(file, "%s: cannot seek: %s", file->name, strerror(errno));
    rewind(file->stream);
    file->size = (uint64_t)size;
    return true;
}

bool vectors_file_open_stream(struct vectors_file *file, FILE *stream, const char *name,
                              enum vectors_format format, enum vectors_content content)
{
    *file = (struct vectors_file){.stream = stream, .format = format, .axes = 2};
    file->name = strdup(name);
    file->block = malloc(BLOCK_BYTES);
    if (!file->name || !file->block) return fail(file, "%s: out of memory", name);
    if ((content == VECTORS_OF_IDS || content == VECTORS_OF_MARKS) && format != VECTORS_NPY)
        return fail(file, "%s: %s are read from .npy files only", name,
                    content == VECTORS_OF_IDS ? "ids" : "marks");
    if (!file_size(file)) return false;
    if (format == VECTORS_NPY) return open_npy(file, content);
    return format == VECTORS_FVECS ? open_fvecs(file) : open_fbin(file);
}

static bool open_spooled(struct vectors_file *file, const char *path, enum vectors_content content)
{
    char error[sizeof file->error];
    FILE *stream, *ids;
    bool npy;
    enum spool_content what = content == VECTORS_OF_IDS     ? SPOOL_IDS
                              : content == VECTORS_OF_MARKS ? SPOOL_MARKS
                                                            : SPOOL_ROWS;
    if (!spool_open(path, what, &stream, &npy, &ids, error, sizeof error))
        return fail(file, "%s", error);
    bool ok =
        vectors_file_open_stream(file, stream, path, npy ? VECTORS_NPY : VECTORS_FBIN, content);
    file->ids = ids;
    return ok;
}

bool vectors_file_open(struct vectors_file *file, const char *path, enum vectors_content content)
{
    static const char *const endings[] = {".npy", ".fvecs", ".fbin"};
    *file = (struct vectors_file){0};
    if (spool_needed(path)) return open_spooled(file, path, content);
    const char *dot = strrchr(path, '.');
    unsigned format = 0;
    while (format < 3 && (!dot || strcasecmp(dot, endings[format]) != 0))
        format++;
    if (format == 3)
        return fail(file,
                    "%s: unknown kind of file; .npy, .npz, .fvecs, .fbin, .csv, .jsonl and - are "
                    "read",
                    path);

    FILE *stream = fopen(path, "rbe");
    if (!stream) return fail(file, "%s: cannot open: %s", path, strerror(errno));
    struct stat about;
    if (fstat(fileno(stream), &about) == 0 && !S_ISREG(about.st_mode)) {
        fclose(stream);
        return fail(file, "%s: not a regular file; its size must be known", path);
    }
    return vectors_file_open_stream(file, stream, path, (enum vectors_format)format, content);
}

void vectors_file_close(struct vectors_file *file)
{
    if (file->stream) fclose(file->stream);
    if (file->ids) fclose(file->ids);
    file->ids = NULL;
    free(file->name);
    free(file->block);
    file->stream = NULL;
    file->name = NULL;
    file->block = NULL;
}

static bool refuse_number(struct vectors_file *file, uint64_t row, uint64_t column)
{
    return fail(file, "%s: row %" PRIu64 ", column %" PRIu64 ": not a finite %s", file->name, row,
                column, file->type == VECTORS_F64 ? "number in float32" : "number");
}

static bool check_finite(struct vectors_file *file, const float *row)
{
    size_t bad = file->any_number ? file->columns : convert_first_not_finite(row, file->columns);
    return bad == file->columns || refuse_number(file, file->next_row, bad);
}

bool vectors_file_check_known(struct vectors_file *file, const float *rows, uint64_t count,
                              const uint8_t *known, uint64_t step)
{
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t k = 0; k < file->columns; k++)
            if (known[i * step + k] && !isfinite(rows[i * file->columns + k]))
                return refuse_number(file, file->next_row - count + i, k);
    return true;
}

static bool read_float_row(struct vectors_file *file, float *out)
{
    if (file->format == VECTORS_FVECS) {
        unsigned char head[4];
        if (!read_exactly(file, head, 4)) return false;
        if (load_u32(head) != file->columns)
            return fail(file,
                        "%s: row %" PRIu64 " at byte %" PRIu64 " has dimension %" PRIu32
                        ", the rows before have %" PRIu64,
                        file->name, file->next_row, file->next_row * (4 + 4 * file->columns),
                        load_u32(head), file->columns);
    }
    if (file->type == VECTORS_F32) return read_exactly(file, out, 4 * file->columns);

    size_t element = type_bytes(file->type), left = file->columns;
    while (left) {
        size_t n = left < BLOCK_BYTES / element ? left : BLOCK_BYTES / element;
        if (!read_exactly(file, file->block, n * element)) return false;
        if (file->type == VECTORS_F16)
            convert_half_row(file->block, out, n);
        else
            convert_double_row(file->block, out, n);
        out += n;
        left -= n;
    }
    return true;
}

bool vectors_file_read(struct vectors_file *file, float *out, uint64_t max, uint64_t *got)
{
    uint64_t left = file->rows - file->next_row, n = max < left ? max : left;
    for (uint64_t i = 0; i < n; i++, file->next_row++) {
        float *row = out + i * file->columns;
        if (!read_float_row(file, row) || !check_finite(file, row)) return false;
    }
    *got = n;
    return true;
}

/* The first half of a row holds n 32 bit integers: from the last to the first, so that none is
 * overwritten before it is read. */
static void widen(uint64_t *row, uint64_t n, bool with_sign)
{
    const unsigned char *narrow = (const unsigned char *)row;
    while (n-- > 0) {
        uint32_t value = load_u32(narrow + 4 * n);
        row[n] = with_sign ? (uint64_t)(int64_t)(int32_t)value : value;
    }
}

bool vectors_file_read_ids(struct vectors_file *file, uint64_t *out, uint64_t max, uint64_t *got)
{
    uint64_t left = file->rows - file->next_row, n = max < left ? max : left;
    for (uint64_t i = 0; i < n; i++, file->next_row++) {
        uint64_t *row = out + i * file->columns;
        if (!read_exactly(file, row, type_bytes(file->type) * file->columns)) return false;
        if (type_bytes(file->type) == 4) widen(row, file->columns, file->type == VECTORS_I32);
        if (file->type != VECTORS_I64 && file->type != VECTORS_I32) continue;
        for (uint64_t j = 0; j < file->columns; j++)
            if (row[j] > INT64_MAX)
                return fail(file, "%s: row %" PRIu64 ", column %" PRIu64 ": negative id %" PRId64,
                            file->name, file->next_row, j, (int64_t)row[j]);
    }
    *got = n;
    return true;
}

bool vectors_file_read_marks(struct vectors_file *file, uint8_t *out, uint64_t max, uint64_t *got)
{
    uint64_t left = file->rows - file->next_row, n = max < left ? max : left;
    if (!read_exactly(file, out, n * file->columns)) return false;
    file->next_row += n;
    *got = n;
    return true;
}

bool vectors_file_read_doubles(struct vectors_file *file, double *out, uint64_t max, uint64_t *got)
{
    uint64_t left = file->rows - file->next_row, n = max < left ? max : left;
    for (uint64_t i = 0; i < n; i++, file->next_row++)
        if (!read_exactly(file, out + i * file->columns, 8 * file->columns)) return false;
    *got = n;
    return true;
}
