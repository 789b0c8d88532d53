/* A snapshot's folder and its manifest; snapshot_reader.c has its files. */
#include "client/cli/files/snapshot.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST_BYTES_MAX (UINT64_C(1) << 30)
enum { FORMAT = 2 };

const char *const snapshot_kinds[3] = {"collection", "graph", "attractor"};

static bool fail(struct snapshot *s, bool damaged, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool fail(struct snapshot *s, bool damaged, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->error, sizeof s->error, format, args);
    va_end(args);
    s->damaged = damaged;
    return false;
}

static bool refuse(struct snapshot *s, const char *what, const char *why)
{
    return fail(s, true, "manifest.json: %s: %s", what, why);
}

/* ---------------------------------------------------------------- small files */

/* From malloc, with a 0 behind; NULL: errno says why. */
static char *read_small(int folder, const char *name, uint64_t bytes_max, size_t *bytes)
{
    struct stat is;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;
    char *text = NULL;
    size_t done = 0;
    if (fstat(fd, &is) == 0) {
        errno = EFBIG;
        if (S_ISREG(is.st_mode) && (uint64_t)is.st_size <= bytes_max)
            text = malloc((size_t)is.st_size + 1);
    }
    while (text && done < (size_t)is.st_size) {
        ssize_t n = read(fd, text + done, (size_t)is.st_size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            if (!n) errno = EIO;
            free(text);
            text = NULL;
        } else {
            done += (size_t)n;
        }
    }
    if (text) text[done] = 0;
    *bytes = done;
    int kept = errno;
    close(fd);
    errno = kept;
    return text;
}

bool snapshot_key_read(const char *path, struct snapshot_key *out, char *error, size_t bytes)
{
    size_t count = 0;
    char *text = read_small(AT_FDCWD, path, SNAPSHOT_KEY_MAX, &count);
    if (text && count) {
        memcpy(out->bytes, text, count);
        out->count = count;
    } else if (text || errno == EFBIG) {
        snprintf(error, bytes, "%s: a file of 1 to %d bytes is wanted", path, SNAPSHOT_KEY_MAX);
    } else {
        snprintf(error, bytes, "%s: %s", path, strerror(errno));
    }
    free(text);
    return out->count > 0;
}

/* ---------------------------------------------------------------- its end */

static void hex_of(const uint8_t *data, size_t bytes, char *text)
{
    for (size_t i = 0; i < bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", data[i]);
}

/* Whether the text ends with a line of this name and the sum of all before it, which is cut off. */
static bool take_sum(const char *name, const struct snapshot_key *key, const char *text,
                     size_t *bytes)
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    char line[128];
    size_t line_bytes = strlen(name) + strlen(",\n\t\"\":\t\"\"") + 2 * SNAPSHOT_SUM_BYTES;
    if (*bytes < line_bytes) return false;
    size_t before = *bytes - line_bytes;
    if (key)
        HMAC(EVP_sha256(), key->bytes, (int)key->count, (const unsigned char *)text, before, sum,
             &length);
    else
        EVP_Digest(text, before, sum, &length, EVP_sha256(), NULL);
    if (length != SNAPSHOT_SUM_BYTES) return false;
    int n = snprintf(line, sizeof line, ",\n\t\"%s\":\t\"", name);
    hex_of(sum, length, line + n);
    strcat(line, "\"");
    if (CRYPTO_memcmp(line, text + before, line_bytes) != 0) return false;
    *bytes = before;
    return true;
}

static bool check_end(struct snapshot *s, const char *text, size_t bytes,
                      const struct snapshot_key *key)
{
    if (bytes < 3 || memcmp(text + bytes - 3, "\n}\n", 3) != 0)
        return refuse(s, "its end", "it is cut off");
    bytes -= 3;
    if (!take_sum("sha256", NULL, text, &bytes))
        return refuse(s, "sha256", "it is not that of what stands before it");
    if (key->count && !take_sum("hmac_sha256", key, text, &bytes))
        return refuse(s, "hmac_sha256", "missing, or not of this key");
    return true;
}

/* ---------------------------------------------------------------- members */

static const cJSON *member(const cJSON *v, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(v, name);
}

static const char *text_of(const cJSON *v, const char *name)
{
    const char *text = cJSON_GetStringValue(member(v, name));
    return text ? text : "";
}

static bool read_number(struct snapshot *s, const cJSON *v, const char *name, uint64_t *out)
{
    const char *text = text_of(v, name);
    size_t digits = strlen(text);
    errno = 0;
    if (!digits || digits > 20 || strspn(text, "0123456789") != digits)
        return refuse(s, name, "a number is wanted");
    *out = strtoull(text, NULL, 10);
    return errno ? refuse(s, name, "too large") : true;
}

/* A version or a generation: a daemon takes none above it. */
static bool read_count(struct snapshot *s, const cJSON *v, const char *name, uint64_t *out)
{
    if (!read_number(s, v, name, out)) return false;
    return *out <= UINT64_C(1) << 63 ? true : refuse(s, name, "too large");
}

static bool read_whole(struct snapshot *s, const cJSON *v, const char *name, uint32_t *out)
{
    const cJSON *number = member(v, name);
    double value = cJSON_IsNumber(number) ? number->valuedouble : -1;
    if (!(value >= 0 && value <= UINT32_MAX) || value != (double)(uint32_t)value)
        return refuse(s, name, "a whole number is wanted");
    *out = (uint32_t)value;
    return true;
}

static bool read_part(struct snapshot *s, const cJSON *v, const char *name, float *out)
{
    const cJSON *number = member(v, name);
    double value = cJSON_IsNumber(number) ? number->valuedouble : -1;
    if (!(value > 0 && value <= 1)) return refuse(s, name, "out of range");
    *out = (float)value;
    return true;
}

static bool read_hex(const char *text, uint8_t *out, size_t bytes)
{
    if (strlen(text) != 2 * bytes || strspn(text, "0123456789abcdef") != 2 * bytes) return false;
    for (size_t i = 0; i < bytes; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

/* ---------------------------------------------------------------- files */

struct shape {
    const char *array, *type;
    unsigned number_bytes;
    uint64_t numbers;
};

static unsigned shapes_of(const struct snapshot_entry *e, struct shape shapes[SNAPSHOT_FILES_MAX])
{
    uint64_t d = e->dimension;
    switch (e->kind) {
    case SNAPSHOT_COLLECTION:
        shapes[0] = (struct shape){"ids", "<u8", 8, e->count};
        shapes[1] = (struct shape){"rows", "<f4", 4, e->count * d};
        return 2;
    case SNAPSHOT_GRAPH:
        shapes[0] = (struct shape){"ids", "<u8", 8, e->count};
        shapes[1] = (struct shape){"kinds", "|u1", 1, e->count};
        shapes[2] = (struct shape){"factors", "<f4", 4, e->count};
        shapes[3] = (struct shape){"offsets", "<u8", 8, e->count + 1};
        shapes[4] = (struct shape){"targets", "<u8", 8, e->edges};
        shapes[5] = (struct shape){"weights", "<f4", 4, e->edges};
        return 6;
    case SNAPSHOT_ATTRACTOR: shapes[0] = (struct shape){"matrix", "<f4", 4, d * d}; return 1;
    }
    return 0;
}

static bool read_pieces(struct snapshot *s, const cJSON *list, struct snapshot_file *f)
{
    uint64_t count = (f->disk_bytes + SNAPSHOT_PIECE_BYTES - 1) / SNAPSHOT_PIECE_BYTES, i = 0;
    if (!cJSON_IsArray(list) || (uint64_t)cJSON_GetArraySize(list) != count)
        return refuse(s, "xxh3", "one for every 16 MiB is wanted");
    f->pieces = calloc(count, sizeof *f->pieces);
    if (!f->pieces) return fail(s, false, "out of memory");
    f->piece_count = count;
    for (const cJSON *v = list->child; v; v = v->next, i++) {
        uint8_t bytes[8];
        const char *text = cJSON_GetStringValue(v);
        if (!text || !read_hex(text, bytes, sizeof bytes))
            return refuse(s, "xxh3", "16 hexadecimal digits each are wanted");
        for (int k = 0; k < 8; k++)
            f->pieces[i] = f->pieces[i] << 8 | bytes[k];
    }
    return true;
}

/* NUMBER-ARRAY.npy, of 1 to 12 digits, or the same and .zst: nothing that leads anywhere else. */
static bool name_is_right(const char *name, const char *array, bool is_zstd)
{
    char end[24];
    size_t digits = strspn(name, "0123456789");
    snprintf(end, sizeof end, "-%s.npy%s", array, is_zstd ? ".zst" : "");
    return digits >= 1 && digits <= 12 && strcmp(name + digits, end) == 0;
}

/* What a manifest says of a file whose array, type and numbers follow from what stands around. */
static bool read_sums(struct snapshot *s, const cJSON *v, const struct shape *shape,
                      struct snapshot_file *f)
{
    if (strcmp(text_of(v, "array"), shape->array) != 0 ||
        strcmp(text_of(v, "type"), shape->type) != 0)
        return refuse(s, f->name, "another array or type than its object has");
    f->number_bytes = shape->number_bytes;
    if (!read_number(s, v, "bytes", &f->bytes)) return false;
    if (f->bytes != SNAPSHOT_HEAD_BYTES + shape->numbers * shape->number_bytes)
        return refuse(s, f->name, "its bytes are not those of its shape");
    f->disk_bytes = f->bytes;
    if (f->is_zstd && !read_count(s, v, "zstd_bytes", &f->disk_bytes)) return false;
    if (!read_hex(text_of(v, "sha256"), f->sha256, SNAPSHOT_SUM_BYTES))
        return refuse(s, "sha256", "64 hexadecimal digits are wanted");
    return read_pieces(s, member(v, "xxh3"), f);
}

/* The file of tokens says itself how long it is. */
static bool read_tokens(struct snapshot *s, const cJSON *v)
{
    struct shape shape = {"tokens", "|u1", 1, 0};
    uint64_t bytes = 0;
    if (!v) return true;
    if (!read_number(s, v, "bytes", &bytes)) return false;
    if (bytes <= SNAPSHOT_HEAD_BYTES || bytes > MANIFEST_BYTES_MAX ||
        strcmp(text_of(v, "name"), "tokens.npy") != 0)
        return refuse(s, "tokens", "not what a daemon writes");
    strcpy(s->tokens.name, "tokens.npy");
    shape.numbers = bytes - SNAPSHOT_HEAD_BYTES;
    s->bytes += bytes;
    return read_sums(s, v, &shape, &s->tokens);
}

static bool read_file(struct snapshot *s, const cJSON *v, const struct shape *shape,
                      struct snapshot_file *f)
{
    const char *name = text_of(v, "name");
    f->is_zstd = member(v, "zstd_bytes");
    if (!name_is_right(name, shape->array, f->is_zstd))
        return refuse(s, "name", "not what a daemon writes");
    strcpy(f->name, name);
    return read_sums(s, v, shape, f);
}

static bool read_files(struct snapshot *s, const cJSON *list, struct snapshot_entry *e)
{
    struct shape shapes[SNAPSHOT_FILES_MAX];
    unsigned count = shapes_of(e, shapes);
    if (!cJSON_IsArray(list) || (unsigned)cJSON_GetArraySize(list) != count)
        return refuse(s, "files", "one for each array is wanted");
    e->file_count = count;
    unsigned i = 0;
    for (const cJSON *v = list->child; v; v = v->next, i++) {
        if (!read_file(s, v, &shapes[i], &e->files[i])) return false;
        e->bytes += e->files[i].bytes;
    }
    s->bytes += e->bytes;
    return true;
}

/* ---------------------------------------------------------------- objects */

static bool copy_name(char *to, const char *from, const char *letters)
{
    size_t length = strlen(from);
    if (!length || length > 64 || strspn(from, letters) != length) return false;
    memcpy(to, from, length + 1);
    return true;
}

#define SMALL "abcdefghijklmnopqrstuvwxyz0123456789_-"
#define LARGE "ABCDEFGHIJKLMNOPQRSTUVWXYZ."

static bool read_shape(struct snapshot *s, const cJSON *v, struct snapshot_entry *e)
{
    const uint64_t most = UINT64_C(1) << 40; /* so that no product overflows */
    bool fine = true;
    if (e->kind != SNAPSHOT_GRAPH) fine = read_whole(s, v, "dimension", &e->dimension);
    if (e->kind == SNAPSHOT_COLLECTION)
        fine =
            fine && read_whole(s, v, "metric", &e->metric) && read_number(s, v, "rows", &e->count);
    if (e->kind == SNAPSHOT_GRAPH)
        fine = read_number(s, v, "nodes", &e->count) && read_number(s, v, "edges", &e->edges);
    if (e->kind == SNAPSHOT_ATTRACTOR)
        fine =
            fine && read_part(s, v, "sparsity", &e->sparsity) && read_part(s, v, "rate", &e->rate);
    if (!fine) return false;
    bool right = e->count < most && e->edges < most && e->dimension <= 65536;
    if (e->kind != SNAPSHOT_GRAPH) right &= e->dimension > 0;
    if (e->kind == SNAPSHOT_COLLECTION) right &= e->metric >= 1 && e->metric <= 3;
    return right ? true : refuse(s, e->name, "out of range");
}

static bool read_entry(struct snapshot *s, const cJSON *v, struct snapshot_entry *e)
{
    const char *kind = text_of(v, "kind");
    unsigned i = 0;
    if (!copy_name(e->space, text_of(v, "space"), SMALL) ||
        !copy_name(e->name, text_of(v, "name"), SMALL LARGE))
        return refuse(s, "objects", "not a name");
    while (i < 3 && strcmp(kind, snapshot_kinds[i]) != 0)
        i++;
    if (i == 3) return refuse(s, "kind", "there is none of this name");
    e->kind = (enum snapshot_kind)i;
    return read_count(s, v, "version", &e->version) && read_shape(s, v, e) &&
           read_files(s, member(v, "files"), e);
}

static bool read_all(struct snapshot *s, const cJSON *v)
{
    uint32_t format = 0;
    const cJSON *list = member(v, "objects"), *complete = member(v, "complete");
    if (strcmp(text_of(v, "format"), "engram-accel snapshot") != 0)
        return refuse(s, "format", "this is no manifest of engram-acceld");
    if (!read_whole(s, v, "format_version", &format)) return false;
    if (format > FORMAT)
        return fail(s, false,
                    "manifest.json: format %u, of a newer daemon; this tool reads up to %d", format,
                    FORMAT);
    if (!read_number(s, v, "instance", &s->instance) ||
        !read_count(s, v, "generation", &s->generation) ||
        !read_count(s, v, "version", &s->version) || !read_number(s, v, "saved_s", &s->saved_s))
        return false;
    if (!cJSON_IsArray(list)) return refuse(s, "objects", "a list is wanted");
    s->complete = cJSON_IsTrue(complete);
    s->is_signed = cJSON_IsString(member(v, "hmac_sha256"));
    s->entries = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *s->entries);
    if (!s->entries) return fail(s, false, "out of memory");
    for (const cJSON *at = list->child; at; at = at->next)
        if (!read_entry(s, at, &s->entries[s->count++])) return false;
    return read_tokens(s, member(v, "tokens"));
}

/* ---------------------------------------------------------------- the folder */

/* The newest of a folder of snapshots; false: it has none. */
static bool find_newest(int fd, char name[64])
{
    uint64_t newest = 0;
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = own < 0 ? NULL : fdopendir(own);
    if (!all) {
        if (own >= 0) close(own);
        return false;
    }
    for (const struct dirent *at; (at = readdir(all));) {
        static const char before[] = "snapshot-";
        const char *digits = at->d_name + sizeof before - 1;
        if (strncmp(at->d_name, before, sizeof before - 1) != 0) continue;
        if (strlen(digits) < 12 || strlen(digits) > 19 ||
            strspn(digits, "0123456789") != strlen(digits))
            continue;
        uint64_t number = strtoull(digits, NULL, 10);
        if (number <= newest) continue;
        newest = number;
        snprintf(name, 64, "%.63s", at->d_name);
    }
    closedir(all);
    return newest > 0;
}

static bool open_folder(struct snapshot *s, const char *path)
{
    struct stat is;
    char name[64];
    snprintf(s->path, sizeof s->path, "%s", path);
    s->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->folder < 0) return fail(s, false, "%.300s: %s", path, strerror(errno));
    if (fstatat(s->folder, "manifest.json", &is, AT_SYMLINK_NOFOLLOW) == 0) return true;
    if (!find_newest(s->folder, name))
        return fail(s, false, "%.300s: neither a snapshot nor a folder of snapshots", path);
    int newest = openat(s->folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (newest < 0) return fail(s, false, "%.300s/%s: %s", path, name, strerror(errno));
    close(s->folder);
    s->folder = newest;
    snprintf(s->path, sizeof s->path, "%.4000s/%s", path, name);
    return true;
}

bool snapshot_open(struct snapshot *s, const char *path, const struct snapshot_key *key)
{
    size_t bytes = 0;
    *s = (struct snapshot){.folder = -1};
    if (!open_folder(s, path)) return false;
    char *text = read_small(s->folder, "manifest.json", MANIFEST_BYTES_MAX, &bytes);
    if (!text)
        return fail(s, errno == ENOENT || errno == ELOOP || errno == EFBIG, "manifest.json: %s",
                    errno == ELOOP ? "a symbolic link" : strerror(errno));
    bool fine = check_end(s, text, bytes, key);
    cJSON *v = fine ? cJSON_ParseWithLength(text, bytes) : NULL;
    if (fine && !v) fine = refuse(s, "JSON", "it is none, or there is no memory");
    if (fine) fine = read_all(s, v);
    cJSON_Delete(v);
    free(text);
    return fine;
}

void snapshot_close(struct snapshot *s)
{
    for (uint64_t i = 0; i < s->count; i++)
        for (unsigned k = 0; k < SNAPSHOT_FILES_MAX; k++)
            free(s->entries[i].files[k].pieces);
    free(s->entries);
    free(s->tokens.pieces);
    s->tokens.pieces = NULL;
    if (s->folder >= 0) close(s->folder);
    s->entries = NULL;
    s->count = 0;
    s->folder = -1;
}
