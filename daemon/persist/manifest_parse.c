#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/json_scan.h"
#include "daemon/persist/manifest.h"
#include "daemon/persist/manifest_text.h"
#include "daemon/persist/token_file.h"
#include "daemon/store/edition.h"
#include "kernels/attractor.h"

enum { DEPTH_MAX = 8, DIGITS_MAX = 20 };
#define ZSTD_BYTES_MAX (UINT64_C(1) << 62) /* no file is larger */

static enum status damaged(struct failure *f, const char *what, const char *why)
{
    return failure_set(f, STATUS_DATA_LOSS, DETAIL_DAMAGED, "manifest.json: %s: %s", what, why);
}

static enum status no_memory(struct failure *f)
{
    return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a manifest");
}

/* ---------------------------------------------------------------- its end */

/* Compares the line that ends text[0 .. *bytes) with the sum of all before it, and cuts it off. */
static bool take_sum(const char *name, const struct manifest_key *key, const char *text,
                     size_t *bytes)
{
    size_t line = strlen(name) + strlen(",\n\t\"\":\t\"\"") + 2 * SHA256_BYTES;
    if (*bytes < line) return false;
    size_t before = *bytes - line;
    char *copy = malloc(before + MANIFEST_END_BYTES);
    if (!copy) return false;
    memcpy(copy, text, before);
    bool same = manifest_sum_line(name, key, copy, before) == line &&
                CRYPTO_memcmp(copy + before, text + before, line) == 0;
    free(copy);
    if (same) *bytes = before;
    return same;
}

static enum status check_end(const char *text, size_t bytes, const struct manifest_key *key,
                             struct failure *f)
{
    if (bytes < 3 || memcmp(text + bytes - 3, "\n}\n", 3) != 0)
        return damaged(f, "its end", "it is cut off");
    bytes -= 3;
    if (!take_sum("sha256", NULL, text, &bytes))
        return damaged(f, "sha256", "it is not that of what stands before it");
    if (!key->count || take_sum("hmac_sha256", key, text, &bytes)) return STATUS_OK;
    return failure_set(f, STATUS_UNAUTHENTICATED, DETAIL_BAD_TOKEN,
                       "manifest.json: hmac_sha256 is missing or not of this key "
                       "(persist.key_file)");
}

/* ---------------------------------------------------------------- members */

static const cJSON *member(const cJSON *v, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(v, name);
}

static enum status read_number(const cJSON *v, const char *name, uint64_t max, uint64_t *out,
                               struct failure *f)
{
    const char *text = cJSON_GetStringValue(member(v, name));
    size_t digits = text ? strlen(text) : 0;
    if (!digits || digits > DIGITS_MAX || strspn(text, "0123456789") != digits)
        return damaged(f, name, "a number is wanted");
    uint64_t value = 0;
    for (size_t i = 0; i < digits; i++)
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
            return damaged(f, name, "too large");
    if (value > max) return damaged(f, name, "too large");
    *out = value;
    return STATUS_OK;
}

static enum status read_double(const cJSON *v, const char *name, double min, double max,
                               double *out, struct failure *f)
{
    const cJSON *number = member(v, name);
    if (!cJSON_IsNumber(number)) return damaged(f, name, "a number is wanted");
    if (!(number->valuedouble >= min && number->valuedouble <= max))
        return damaged(f, name, "out of range");
    *out = number->valuedouble;
    return STATUS_OK;
}

static enum status read_whole(const cJSON *v, const char *name, double min, double max,
                              int64_t *out, struct failure *f)
{
    double number = 0;
    enum status st = read_double(v, name, min, max, &number, f);
    if (!st && number != floor(number)) st = damaged(f, name, "a whole number is wanted");
    if (!st) *out = (int64_t)number;
    return st;
}

static enum status read_text(const cJSON *v, const char *name, const char *wanted,
                             struct failure *f)
{
    const char *text = cJSON_GetStringValue(member(v, name));
    if (text && strcmp(text, wanted) == 0) return STATUS_OK;
    return damaged(f, name, "not what a daemon writes");
}

static int digit_of(char ch)
{
    if (ch >= '0' && ch <= '9') return ch - '0';
    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

/* Exactly 2 * bytes hexadecimal digits, the first of them the highest. */
static bool read_hex(const char *text, uint8_t *out, size_t bytes)
{
    if (!text || strlen(text) != 2 * bytes) return false;
    for (size_t i = 0; i < bytes; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* ---------------------------------------------------------------- files */

static enum status read_pieces(const cJSON *list, struct array_entry *file, struct failure *f)
{
    uint64_t count = array_piece_count(array_disk_bytes(file)), i = 0;
    if (!cJSON_IsArray(list) || (uint64_t)cJSON_GetArraySize(list) != count)
        return damaged(f, "xxh3", "one for every 16 MiB is wanted");
    file->pieces = fault_here("manifest: pieces") ? NULL : calloc(count, sizeof *file->pieces);
    if (!file->pieces) return no_memory(f);
    file->piece_count = count;
    for (const cJSON *v = list->child; v; v = v->next, i++) {
        uint8_t bytes[8];
        if (!read_hex(cJSON_GetStringValue(v), bytes, sizeof bytes))
            return damaged(f, "xxh3", "16 hexadecimal digits each are wanted");
        for (int k = 0; k < 8; k++)
            file->pieces[i] = file->pieces[i] << 8 | bytes[k];
    }
    return STATUS_OK;
}

static enum status read_file(const cJSON *v, const char *array, struct array_entry *file,
                             struct failure *f)
{
    uint64_t bytes = npy_file_bytes(&file->shape), said = 0;
    if (bytes == UINT64_MAX) return damaged(f, file->name, "no array is so large");
    enum status st = STATUS_OK;
    if (member(v, "zstd_bytes")) {
        snapshot_name_zstd(file);
        st = read_number(v, "zstd_bytes", ZSTD_BYTES_MAX, &file->zstd_bytes, f);
    }
    if (!st) st = read_text(v, "name", file->name, f);
    if (!st) st = read_text(v, "array", array, f);
    if (!st) st = read_text(v, "type", npy_type_names[file->shape.type], f);
    if (!st) st = read_number(v, "bytes", UINT64_MAX, &said, f);
    if (!st && said != bytes) st = damaged(f, "bytes", "not those of its shape");
    if (!st && !read_hex(cJSON_GetStringValue(member(v, "sha256")), file->sha256, SHA256_BYTES))
        st = damaged(f, "sha256", "64 hexadecimal digits are wanted");
    return st ? st : read_pieces(member(v, "xxh3"), file, f);
}

/* The first file's name tells the number that all have. */
static enum status read_files(const cJSON *list, struct snapshot_object *o, struct failure *f)
{
    if (!cJSON_IsArray(list) || (uint32_t)cJSON_GetArraySize(list) != snapshot_array_count(o->kind))
        return damaged(f, "files", "one for each array is wanted");
    const char *first = cJSON_GetStringValue(member(list->child, "name"));
    size_t digits = first ? strspn(first, "0123456789") : 0;
    if (!digits || digits > 12) return damaged(f, "name", "not what a daemon writes");
    snapshot_name_files(o, strtoull(first, NULL, 10));
    enum status st = STATUS_OK;
    uint32_t i = 0;
    for (const cJSON *v = list->child; !st && v; v = v->next, i++)
        st = read_file(v, snapshot_array_names[snapshot_array_at(o->kind, i)], &o->files[i], f);
    return st;
}

/* The file of tokens says itself how long it is. */
static enum status read_tokens(const cJSON *v, struct array_entry *file, struct failure *f)
{
    uint64_t bytes = 0;
    if (!v) return STATUS_OK;
    enum status st = read_number(v, "bytes", TOKEN_FILE_BYTES_MAX, &bytes, f);
    if (!st && (bytes <= NPY_HEAD_BYTES || member(v, "zstd_bytes")))
        st = damaged(f, "tokens", "not what a daemon writes");
    if (st) return st;
    strcpy(file->name, TOKEN_FILE_NAME);
    file->shape.type = NPY_UINT8;
    file->shape.rows = bytes - NPY_HEAD_BYTES;
    return read_file(v, "tokens", file, f);
}

/* ---------------------------------------------------------------- objects */

static enum status read_dimension(const cJSON *v, double max, struct snapshot_object *o,
                                  struct failure *f)
{
    int64_t dimension = 0;
    enum status st = read_whole(v, "dimension", 1, max, &dimension, f);
    if (!st) o->dimension = (uint32_t)dimension;
    return st;
}

static enum status read_collection(const cJSON *v, struct snapshot_object *o, struct failure *f)
{
    int64_t metric = 0;
    enum status st = read_dimension(v, VECTOR_DIMENSION_MAX, o, f);
    if (!st) st = read_whole(v, "metric", METRIC_COSINE, METRIC_SQUARED_EUCLIDEAN, &metric, f);
    if (!st) o->metric = (enum metric)metric;
    return st ? st : read_number(v, "rows", COLLECTION_NO_ROW, &o->count, f);
}

static enum status read_graph(const cJSON *v, struct snapshot_object *o, struct failure *f)
{
    int64_t weight = 0, factor = 0, count = 0, out = 0;
    enum status st = read_number(v, "nodes", GRAPH_NODES_MAX, &o->count, f);
    if (!st) st = read_number(v, "edges", UINT64_C(1) << 40, &o->edges, f);
    if (!st)
        st = read_whole(v, "weight_exponent", GRAPH_EXPONENT_MIN, GRAPH_EXPONENT_MAX, &weight, f);
    if (!st)
        st = read_whole(v, "factor_exponent", GRAPH_EXPONENT_MIN, GRAPH_EXPONENT_MAX, &factor, f);
    if (!st) st = read_whole(v, "in_count_max", 0, GRAPH_DEGREE_MAX, &count, f);
    if (!st && cJSON_HasObjectItem(v, "out_count_max")) /* as in all but the oldest */
        st = read_whole(v, "out_count_max", 0, GRAPH_DEGREE_MAX, &out, f);
    if (!st)
        o->bounds = (struct graph_bounds){(int)weight, (int)factor, (uint32_t)count, (uint32_t)out};
    return st;
}

static enum status read_attractor(const cJSON *v, struct snapshot_object *o, struct failure *f)
{
    double sparsity = 0, rate = 0;
    enum status st = read_dimension(v, ATTRACTOR_DIMENSION_MAX, o, f);
    if (!st) st = read_double(v, "sparsity", 0, 1, &sparsity, f);
    if (!st) st = read_double(v, "rate", 0, 1, &rate, f);
    if (!st) st = read_number(v, "patterns", UINT64_MAX, &o->patterns, f);
    o->sparsity = (float)sparsity;
    o->rate = (float)rate;
    return st;
}

static enum status read_names(const cJSON *v, struct snapshot_object *o, struct failure *f)
{
    const char *space = cJSON_GetStringValue(member(v, "space"));
    const char *name = cJSON_GetStringValue(member(v, "name"));
    if (!space || space_name_parse(space, o->space, NULL) || strcmp(space, o->space) != 0)
        return damaged(f, "space", "no space has such a name");
    if (!name || name_is_hidden(name) || collection_name_check(name, NULL))
        return damaged(f, "name", "not a name");
    memcpy(o->name, name, strlen(name) + 1);
    const char *kind = cJSON_GetStringValue(member(v, "kind"));
    for (uint32_t i = 0; kind && i < RESIDENT_KINDS; i++) {
        if (strcmp(kind, snapshot_kind_names[i]) != 0) continue;
        o->kind = (enum resident_kind)i;
        return STATUS_OK;
    }
    return damaged(f, "kind", "there is none of this name");
}

static enum status read_object(const cJSON *v, struct snapshot_object *o, struct failure *f)
{
    enum status st = read_names(v, o, f);
    if (!st) st = read_number(v, "version", MANIFEST_COUNT_MAX, &o->version, f);
    /* snapshots of the first daemons do not have it */
    if (!st && member(v, "asked")) st = read_number(v, "asked", UINT64_MAX, &o->asked, f);
    if (st) return st;
    switch (o->kind) {
    case RESIDENT_COLLECTION: st = read_collection(v, o, f); break;
    case RESIDENT_GRAPH: st = read_graph(v, o, f); break;
    case RESIDENT_ATTRACTOR: st = read_attractor(v, o, f); break;
    case RESIDENT_KINDS: break;
    }
    return st ? st : read_files(member(v, "files"), o, f);
}

static int compare_objects(const void *a, const void *b)
{
    const struct snapshot_object *x = *(const void *const *)a, *y = *(const void *const *)b;
    int spaces = strcmp(x->space, y->space), names = strcmp(x->name, y->name);
    if (spaces) return spaces;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : names;
}

static enum status check_twice(const struct manifest *m, struct failure *f)
{
    const struct snapshot_object **sorted = calloc(m->object_count + 1, sizeof *sorted);
    if (!sorted) return no_memory(f);
    for (uint64_t i = 0; i < m->object_count; i++)
        sorted[i] = &m->objects[i];
    qsort(sorted, m->object_count, sizeof *sorted, compare_objects);
    bool twice = false;
    for (uint64_t i = 1; i < m->object_count; i++)
        twice |= compare_objects(&sorted[i - 1], &sorted[i]) == 0;
    free(sorted);
    return twice ? damaged(f, "objects", "one stands there twice") : STATUS_OK;
}

static enum status read_objects(const cJSON *list, struct manifest *m, struct failure *f)
{
    if (!cJSON_IsArray(list)) return damaged(f, "objects", "a list is wanted");
    size_t count = (size_t)cJSON_GetArraySize(list);
    m->objects = fault_here("manifest: objects") ? NULL : calloc(count + 1, sizeof *m->objects);
    if (!m->objects) return no_memory(f);
    m->object_count = count;
    enum status st = STATUS_OK;
    struct snapshot_object *o = m->objects;
    for (const cJSON *v = list->child; !st && v; v = v->next)
        st = read_object(v, o++, f);
    return st ? st : check_twice(m, f);
}

static enum status read_head(const cJSON *v, struct manifest *m, struct failure *f)
{
    int64_t format = 0;
    enum status st = read_text(v, "format", MANIFEST_NAME, f);
    if (!st) st = read_whole(v, "format_version", 1, 1e9, &format, f);
    if (!st && format > MANIFEST_FORMAT)
        st = failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_BAD_VERSION,
                         "manifest.json: format %d, written by a newer daemon; this one reads up "
                         "to %d",
                         (int)format, MANIFEST_FORMAT);
    if (!st) st = read_number(v, "instance", UINT64_MAX, &m->instance, f);
    if (!st) st = read_number(v, "generation", MANIFEST_COUNT_MAX, &m->generation, f);
    if (!st) st = read_number(v, "version", MANIFEST_COUNT_MAX, &m->version, f);
    if (!st) st = read_number(v, "saved_s", UINT64_MAX, &m->saved_s, f);
    const cJSON *complete = member(v, "complete");
    if (!st && !cJSON_IsBool(complete)) st = damaged(f, "complete", "true or false is wanted");
    if (!st) m->complete = cJSON_IsTrue(complete);
    return st;
}

enum status manifest_parse(const char *text, size_t bytes, const struct manifest_key *key,
                           struct manifest *out, struct failure *f)
{
    struct json_fault fault;
    struct manifest m = {0};
    enum status st = check_end(text, bytes, key, f);
    if (st) return st;
    if (!json_scan(text, bytes, DEPTH_MAX, &fault)) return damaged(f, "JSON", fault.reason);
    cJSON *v = fault_here("manifest: parse") ? NULL : cJSON_ParseWithLength(text, bytes);
    if (!v) return damaged(f, "JSON", "it is none, or there is no memory");
    st = read_head(v, &m, f);
    if (!st) st = read_tokens(member(v, "tokens"), &m.tokens, f);
    if (!st) st = read_objects(member(v, "objects"), &m, f);
    cJSON_Delete(v);
    if (st)
        manifest_free(&m);
    else
        *out = m;
    return st;
}
