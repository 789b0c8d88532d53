#include "daemon/learn/model_file.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/json_scan.h"

enum { DEPTH_MAX = 8 }; /* the format needs 6 */

/* Numbers beyond these bounds are not plausible. A logarithm of 20 is a factor of 485 million. */
#define LOG_MAX         20.0
#define COEFFICIENT_MAX 1e12
#define DOUBT_MAX       (LOG_MAX * LOG_MAX) /* variances */
#define DOUBT_MIN       1e-6
#define OVERLAP_MIN     0.01
#define WEIGHT_MAX      1e6
#define SEEN_MAX        9e15 /* doubles count exactly up to there */

static const char *const half_names[HALVES] = {"cpu", "gpu"};

static enum status refuse(struct failure *f, const char *what, const char *why)
{
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NONE, "%.40s: %s", what, why);
}

/* ---------------------------------------------------------------- reading */

static enum status read_number(const cJSON *v, const char *what, double min, double max,
                               double *out, struct failure *f)
{
    if (!cJSON_IsNumber(v)) return refuse(f, what, "a number is wanted");
    if (!isfinite(v->valuedouble)) return refuse(f, what, "not a finite number");
    if (min >= 0 && v->valuedouble < 0) return refuse(f, what, "negative");
    *out = fmin(fmax(v->valuedouble, min), max);
    return STATUS_OK;
}

static enum status read_float(const cJSON *v, const char *what, double min, double max, float *out,
                              struct failure *f)
{
    double number = 0;
    enum status st = read_number(v, what, min, max, &number, f);
    if (!st) *out = (float)number;
    return st;
}

static enum status read_list(const cJSON *list, const char *what, int count, double min, double max,
                             double *out, struct failure *f)
{
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != count)
        return refuse(f, what, "one for each feature is wanted");
    enum status st = STATUS_OK;
    uint32_t i = 0;
    for (const cJSON *v = list->child; !st && v; v = v->next)
        st = read_number(v, what, min, max, &out[i++], f);
    return st;
}

/* True if it can be a covariance: Cholesky's decomposition succeeds. */
static bool is_covariance(double m[COST_FEATURES][COST_FEATURES])
{
    double root[COST_FEATURES][COST_FEATURES] = {0};
    for (int i = 0; i < COST_FEATURES; i++)
        for (int j = 0; j <= i; j++) {
            double left = m[i][j] + (i == j ? DOUBT_MIN : 0);
            for (int k = 0; k < j; k++)
                left -= root[i][k] * root[j][k];
            if (i == j && !(left > 0)) return false;
            root[i][j] = i == j ? sqrt(left) : left / root[j][j];
        }
    return true;
}

static enum status read_doubt(const cJSON *list, struct cost_line *line, struct failure *f)
{
    double m[COST_FEATURES][COST_FEATURES] = {0};
    enum status st =
        read_list(list, "doubt", COST_FEATURES * COST_FEATURES, -DOUBT_MAX, DOUBT_MAX, &m[0][0], f);
    if (st) return st;
    for (int i = 0; i < COST_FEATURES; i++) {
        if (m[i][i] < 0) return refuse(f, "doubt", "a variance is negative");
        m[i][i] = fmax(m[i][i], DOUBT_MIN);
        for (int j = 0; j < i; j++)
            m[i][j] = m[j][i] = (m[i][j] + m[j][i]) / 2;
    }
    bool whole = is_covariance(m); /* otherwise only the variances are used */
    for (int i = 0; i < COST_FEATURES * COST_FEATURES; i++) {
        int row = i / COST_FEATURES, column = i % COST_FEATURES;
        line->doubt[row][column] = whole || row == column ? (float)m[row][column] : 0;
    }
    return STATUS_OK;
}

/* [size, width, bias, weight] */
static enum status read_cell(const cJSON *v, struct cost_line *line, struct failure *f)
{
    const cJSON *parts[4] = {0};
    uint32_t count = 0;
    if (cJSON_IsArray(v))
        for (const cJSON *part = v->child; part && count < 4; part = part->next)
            parts[count++] = part;
    if (count != 4) return refuse(f, "cells", "four numbers each are wanted");
    double size = 0, width = 0;
    enum status st = read_number(parts[0], "cells", 0, COST_SIZES, &size, f);
    if (!st) st = read_number(parts[1], "cells", 0, COST_WIDTHS, &width, f);
    if (!st && (size >= COST_SIZES || width >= COST_WIDTHS))
        st = refuse(f, "cells", "outside the grid");
    if (st) return st;
    struct cost_cell cell = {0};
    st = read_float(parts[2], "cells", -LOG_MAX, LOG_MAX, &cell.bias, f);
    if (!st) st = read_float(parts[3], "cells", 0, WEIGHT_MAX, &cell.weight, f);
    if (!st && cell.weight > 0) line->cells[(uint32_t)size][(uint32_t)width] = cell;
    return st;
}

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static enum status read_line(const cJSON *v, struct cost_line *line, struct failure *f)
{
    double seen = 0;
    if (!cJSON_IsObject(v)) return refuse(f, "lines", "objects are wanted");
    enum status st = read_list(member(v, "coefficients"), "coefficients", COST_FEATURES, 0,
                               COEFFICIENT_MAX, line->coefficients, f);
    if (!st) st = read_doubt(member(v, "doubt"), line, f);
    if (!st) st = read_float(member(v, "lean"), "lean", -LOG_MAX, LOG_MAX, &line->lean, f);
    if (!st) st = read_float(member(v, "drift"), "drift", -LOG_MAX, LOG_MAX, &line->drift, f);
    if (!st) st = read_float(member(v, "spread"), "spread", 0, LOG_MAX, &line->spread, f);
    if (!st) st = read_float(member(v, "overlap"), "overlap", OVERLAP_MIN, 1, &line->overlap, f);
    if (!st) st = read_number(member(v, "seen"), "seen", 0, SEEN_MAX, &seen, f);
    double screened[2] = {0};
    if (!st)
        st = read_list(member(v, "screened"), "screened", 2, -LOG_MAX, WEIGHT_MAX, screened, f);
    if (st) return st;
    line->seen = (uint64_t)seen;
    line->screened =
        (struct cost_cell){(float)fmin(screened[0], LOG_MAX), (float)fmax(screened[1], 0)};
    const cJSON *cells = member(v, "cells");
    if (!cJSON_IsArray(cells)) return refuse(f, "cells", "a list is wanted");
    for (const cJSON *cell = cells->child; !st && cell; cell = cell->next)
        st = read_cell(cell, line, f);
    return st;
}

static enum status read_half(const cJSON *v, struct model_half *half, struct failure *f)
{
    if (!cJSON_IsObject(v)) return refuse(f, "cpu, gpu", "objects are wanted");
    const cJSON *machine = member(v, "machine"), *lines = member(v, "lines");
    if (!cJSON_IsString(machine) || strlen(machine->valuestring) >= sizeof half->machine)
        return refuse(f, "machine", "a text is wanted");
    strcpy(half->machine, machine->valuestring);
    if (!cJSON_IsArray(lines) || cJSON_GetArraySize(lines) != COST_OPERATIONS)
        return refuse(f, "lines", "one for each kind of work is wanted");
    uint32_t i = 0;
    enum status st = STATUS_OK;
    for (const cJSON *line = lines->child; !st && line; line = line->next)
        st = read_line(line, &half->lines[i++], f);
    if (!st)
        st = read_number(member(v, "upload_ns"), "upload_ns", 0, COEFFICIENT_MAX, &half->upload_ns,
                         f);
    if (!st)
        st = read_number(member(v, "upload_ns_per_byte"), "upload_ns_per_byte", 0, COEFFICIENT_MAX,
                         &half->upload_ns_per_byte, f);
    half->calibrated = cJSON_IsTrue(member(v, "calibrated"));
    half->known = !st;
    return st;
}

static enum status read_root(const cJSON *root, struct model_file *m, struct failure *f)
{
    if (!cJSON_IsObject(root)) return refuse(f, "it", "an object is wanted");
    const cJSON *format = member(root, "format"), *version = member(root, "version");
    if (!cJSON_IsNumber(format) || format->valuedouble != MODEL_FORMAT)
        return refuse(f, "format", "not the one that this version reads");
    if (!cJSON_IsString(version) || strcmp(version->valuestring, ENGRAM_VERSION) != 0)
        return refuse(f, "version", "another one wrote it");
    enum status st = STATUS_OK;
    for (int i = 0; !st && i < HALVES; i++) {
        const cJSON *half = member(root, half_names[i]);
        if (half) st = read_half(half, &m->halves[i], f);
    }
    return st;
}

/* text[bytes] is 0. */
static enum status parse(const char *text, size_t bytes, struct model_file *m, struct failure *f)
{
    struct json_fault fault = {0, "syntax error"};
    if (!bytes) return refuse(f, "it", "empty");
    cJSON *root = NULL;
    if (json_scan(text, bytes, DEPTH_MAX, &fault))
        root = cJSON_ParseWithLengthOpts(text, bytes + 1, NULL, true);
    if (!root)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NONE, "not JSON, at byte %zu: %s",
                           fault.offset, fault.reason);
    enum status st = read_root(root, m, f);
    cJSON_Delete(root);
    return st;
}

enum status model_file_parse(const char *text, size_t bytes, struct model_file *out,
                             struct failure *f)
{
    if (bytes > MODEL_BYTES_MAX) return refuse(f, "it", "larger than 1 MiB");
    struct model_file *m = fault_here("model: memory") ? NULL : calloc(1, sizeof *m);
    char *copy = fault_here("model: text") ? NULL : malloc(bytes + 1);
    enum status st = STATUS_RESOURCE_EXHAUSTED;
    if (m && copy) {
        if (bytes) memcpy(copy, text, bytes);
        copy[bytes] = 0;
        st = parse(copy, bytes, m, f);
        if (!st) *out = *m;
    } else {
        failure_set(f, st, DETAIL_MEMORY, "no memory to read it");
    }
    free(copy);
    free(m);
    return st;
}

static enum status from_system(struct failure *f, const char *what, int why)
{
    return failure_set(f, status_from_errno(-why), DETAIL_SYSTEM, "%s: %s", what, strerror(why));
}

/* At most size bytes of an open file; -1 and errno. */
static ssize_t read_all(int fd, char *text, size_t size)
{
    size_t bytes = 0;
    for (ssize_t n = 1; n && bytes < size;) {
        n = fault_here("model: read") ? (errno = EIO, -1) : read(fd, text + bytes, size - bytes);
        if (n < 0 && errno != EINTR) return -1;
        if (n > 0) bytes += (size_t)n;
    }
    return (ssize_t)bytes;
}

enum status model_file_read(const char *path, struct model_file *out, struct failure *f)
{
    /* A named pipe must not block the daemon. */
    int fd = fault_here("model: open") ? (errno = EMFILE, -1)
                                       : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return from_system(f, "cannot open it", errno);
    struct stat sb;
    char *text = NULL;
    enum status st;
    if (fstat(fd, &sb) || !S_ISREG(sb.st_mode)) {
        st = refuse(f, "it", "not a regular file");
    } else if (sb.st_size > MODEL_BYTES_MAX) {
        st = refuse(f, "it", "larger than 1 MiB");
    } else {
        size_t size = MODEL_BYTES_MAX + 1; /* the file may have grown meanwhile */
        text = fault_here("model: file") ? NULL : malloc(size);
        ssize_t n = text ? read_all(fd, text, size) : (errno = ENOMEM, -1);
        st = n < 0 ? from_system(f, "cannot read it", errno)
                   : model_file_parse(text, (size_t)n, out, f);
    }
    free(text);
    close(fd);
    return st;
}

/* ---------------------------------------------------------------- writing */

static bool add_cells(cJSON *to, const struct cost_line *line)
{
    cJSON *cells = cJSON_AddArrayToObject(to, "cells");
    for (uint32_t i = 0; cells && i < COST_SIZES * COST_WIDTHS; i++) {
        uint32_t size = i / COST_WIDTHS, width = i % COST_WIDTHS;
        const struct cost_cell *cell = &line->cells[size][width];
        if (!(cell->weight > 0)) continue;
        double numbers[] = {size, width, cell->bias, cell->weight};
        if (!cJSON_AddItemToArray(cells, cJSON_CreateDoubleArray(numbers, 4))) return false;
    }
    return cells;
}

static bool add_line(cJSON *to, const struct cost_line *line)
{
    const float screened[] = {line->screened.bias, line->screened.weight};
    cJSON *o = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(to, o)) return false;
    return cJSON_AddItemToObject(o, "coefficients",
                                 cJSON_CreateDoubleArray(line->coefficients, COST_FEATURES)) &&
           cJSON_AddItemToObject(
               o, "doubt",
               cJSON_CreateFloatArray(&line->doubt[0][0], COST_FEATURES * COST_FEATURES)) &&
           cJSON_AddItemToObject(o, "screened", cJSON_CreateFloatArray(screened, 2)) &&
           cJSON_AddNumberToObject(o, "lean", line->lean) &&
           cJSON_AddNumberToObject(o, "drift", line->drift) &&
           cJSON_AddNumberToObject(o, "spread", line->spread) &&
           cJSON_AddNumberToObject(o, "overlap", line->overlap) &&
           cJSON_AddNumberToObject(o, "seen", (double)line->seen) && add_cells(o, line);
}

static bool add_half(cJSON *root, const char *name, const struct model_half *half)
{
    cJSON *o = cJSON_AddObjectToObject(root, name);
    bool sound = cJSON_AddStringToObject(o, "machine", half->machine) &&
                 cJSON_AddBoolToObject(o, "calibrated", half->calibrated) &&
                 cJSON_AddNumberToObject(o, "upload_ns", half->upload_ns) &&
                 cJSON_AddNumberToObject(o, "upload_ns_per_byte", half->upload_ns_per_byte);
    cJSON *lines = cJSON_AddArrayToObject(o, "lines");
    for (uint32_t i = 0; sound && i < COST_OPERATIONS; i++)
        sound = add_line(lines, &half->lines[i]);
    return sound;
}

char *model_file_print(const struct model_file *m)
{
    cJSON *root = fault_here("model: print") ? NULL : cJSON_CreateObject();
    bool sound = cJSON_AddNumberToObject(root, "format", MODEL_FORMAT) &&
                 cJSON_AddStringToObject(root, "version", ENGRAM_VERSION);
    for (int i = 0; sound && i < HALVES; i++)
        if (m->halves[i].known) sound = add_half(root, half_names[i], &m->halves[i]);
    char *text = sound ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    return text;
}

static int write_all(int fd, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t n = fault_here("model: write") ? (errno = ENOSPC, -1) : write(fd, text, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        text += n;
        bytes -= (size_t)n;
    }
    return fault_here("model: sync") ? EIO : fsync(fd) ? errno : 0;
}

/* After a crash of the machine the name should refer to the new file; the old one is fine, too. */
static void sync_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t bytes = slash ? (size_t)(slash - path) + 1 : 0;
    if (bytes >= sizeof folder) return;
    snprintf(folder, sizeof folder, "%.*s", (int)bytes, path);
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

static enum status replace(const char *path, const char *text, struct failure *f)
{
    /* Always the same name, so that a process that is killed while writing leaves only one file
     * behind. */
    char beside[PATH_MAX];
    struct stat sb;
    if (stat(path, &sb) == 0 && !S_ISREG(sb.st_mode)) /* a device, for instance, is not replaced */
        return refuse(f, "it", "not a regular file");
    if (snprintf(beside, sizeof beside, "%s.new", path) >= (int)sizeof beside)
        return from_system(f, "cannot write it", ENAMETOOLONG);
    unlink(beside);
    int fd = fault_here("model: create")
                 ? (errno = EMFILE, -1)
                 : open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return from_system(f, "cannot write beside it", errno);
    int why = write_all(fd, text, strlen(text));
    if (close(fd) && !why) why = errno;
    if (!why && (fault_here("model: rename") ? (errno = EIO, -1) : rename(beside, path)))
        why = errno;
    if (why) {
        unlink(beside);
        return from_system(f, "cannot write it", why);
    }
    sync_folder(path);
    return STATUS_OK;
}

enum status model_file_write(const char *path, const struct model_file *m, struct failure *f)
{
    char *text = model_file_print(m);
    if (!text)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory to write it");
    enum status st = replace(path, text, f);
    free(text);
    return st;
}
