#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/persist/manifest.h"
#include "daemon/persist/manifest_text.h"

const char *const snapshot_kind_names[RESIDENT_KINDS] = {"collection", "graph", "attractor"};

/* Numbers of 64 bits are texts: not every reader of JSON keeps all their digits. */
static bool add_number(cJSON *to, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return cJSON_AddStringToObject(to, name, text) != NULL;
}

static void hex_of(const uint8_t *data, size_t bytes, char *text)
{
    for (size_t i = 0; i < bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", data[i]);
}

static bool fill_file(cJSON *v, const struct array_entry *file, const char *array)
{
    char sha[2 * SHA256_BYTES + 1], piece[17];
    hex_of(file->sha256, SHA256_BYTES, sha);
    bool ok = cJSON_AddStringToObject(v, "name", file->name) &&
              cJSON_AddStringToObject(v, "array", array) &&
              cJSON_AddStringToObject(v, "type", npy_type_names[file->shape.type]) &&
              add_number(v, "bytes", npy_file_bytes(&file->shape)) &&
              (!file->is_zstd || add_number(v, "zstd_bytes", file->zstd_bytes)) &&
              cJSON_AddStringToObject(v, "sha256", sha);
    cJSON *pieces = ok ? cJSON_AddArrayToObject(v, "xxh3") : NULL;
    ok = pieces != NULL;
    for (uint64_t k = 0; ok && k < file->piece_count; k++) {
        snprintf(piece, sizeof piece, "%016" PRIx64, file->pieces[k]);
        cJSON *p = cJSON_CreateString(piece);
        ok = p && cJSON_AddItemToArray(pieces, p);
        if (!ok) cJSON_Delete(p);
    }
    return ok;
}

static bool add_file(cJSON *list, const struct snapshot_object *o, uint32_t i)
{
    cJSON *v = cJSON_CreateObject();
    if (v && cJSON_AddItemToArray(list, v))
        return fill_file(v, &o->files[i], snapshot_array_names[snapshot_array_at(o->kind, i)]);
    cJSON_Delete(v);
    return false;
}

static bool add_tokens(cJSON *to, const struct manifest *m)
{
    if (!m->tokens.shape.rows) return true;
    cJSON *v = cJSON_AddObjectToObject(to, "tokens");
    return v && fill_file(v, &m->tokens, "tokens");
}

static bool add_shape(cJSON *v, const struct snapshot_object *o)
{
    switch (o->kind) {
    case RESIDENT_COLLECTION:
        return cJSON_AddNumberToObject(v, "dimension", o->dimension) &&
               cJSON_AddNumberToObject(v, "metric", o->metric) && add_number(v, "rows", o->count);
    case RESIDENT_GRAPH:
        return add_number(v, "nodes", o->count) && add_number(v, "edges", o->edges) &&
               cJSON_AddNumberToObject(v, "weight_exponent", o->bounds.weight_exponent) &&
               cJSON_AddNumberToObject(v, "factor_exponent", o->bounds.factor_exponent) &&
               cJSON_AddNumberToObject(v, "in_count_max", o->bounds.in_count_max) &&
               cJSON_AddNumberToObject(v, "out_count_max", o->bounds.out_count_max);
    case RESIDENT_ATTRACTOR:
        return cJSON_AddNumberToObject(v, "dimension", o->dimension) &&
               cJSON_AddNumberToObject(v, "sparsity", (double)o->sparsity) &&
               cJSON_AddNumberToObject(v, "rate", (double)o->rate) &&
               add_number(v, "patterns", o->patterns);
    case RESIDENT_KINDS: break;
    }
    return false;
}

static bool add_object(cJSON *list, const struct snapshot_object *o)
{
    cJSON *v = cJSON_CreateObject();
    if (!v || !cJSON_AddItemToArray(list, v)) {
        cJSON_Delete(v);
        return false;
    }
    bool ok = cJSON_AddStringToObject(v, "space", o->space) &&
              cJSON_AddStringToObject(v, "kind", snapshot_kind_names[o->kind]) &&
              cJSON_AddStringToObject(v, "name", o->name) && add_number(v, "version", o->version) &&
              add_number(v, "asked", o->asked) && add_shape(v, o);
    cJSON *files = ok ? cJSON_AddArrayToObject(v, "files") : NULL;
    ok = files != NULL;
    for (uint32_t i = 0; ok && i < snapshot_array_count(o->kind); i++)
        ok = add_file(files, o, i);
    return ok;
}

/* The oldest that has a word for all that is in it. */
static int format_of(const struct manifest *m)
{
    for (uint64_t i = 0; i < m->object_count; i++)
        for (uint32_t k = 0; k < SNAPSHOT_ARRAYS_MAX; k++)
            if (m->objects[i].files[k].is_zstd) return MANIFEST_FORMAT;
    return 1;
}

static char *print_body(const struct manifest *m)
{
    cJSON *v = fault_here("manifest: json") ? NULL : cJSON_CreateObject();
    bool ok = v && cJSON_AddStringToObject(v, "format", MANIFEST_NAME) &&
              cJSON_AddNumberToObject(v, "format_version", format_of(m)) &&
              cJSON_AddStringToObject(v, "daemon", ENGRAM_VERSION) &&
              add_number(v, "instance", m->instance) &&
              add_number(v, "generation", m->generation) && add_number(v, "version", m->version) &&
              add_number(v, "saved_s", m->saved_s) &&
              cJSON_AddBoolToObject(v, "complete", m->complete) && add_tokens(v, m);
    cJSON *objects = ok ? cJSON_AddArrayToObject(v, "objects") : NULL;
    ok = objects != NULL;
    for (uint64_t i = 0; ok && i < m->object_count; i++)
        ok = add_object(objects, &m->objects[i]);
    char *text = ok ? cJSON_Print(v) : NULL;
    cJSON_Delete(v);
    return text;
}

enum status manifest_print(const struct manifest *m, const struct manifest_key *key, char **text,
                           size_t *bytes, struct failure *f)
{
    char *body = print_body(m);
    size_t length = body ? strlen(body) : 0;
    char *all = length > 2 && !fault_here("manifest: text")
                    ? realloc(body, length + 2 * MANIFEST_END_BYTES)
                    : NULL;
    if (!all) {
        free(body);
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "no memory for a manifest");
    }
    length -= 2; /* the brace at the end, and the end of the line before it */
    if (key->count) length += manifest_sum_line("hmac_sha256", key, all, length);
    length += manifest_sum_line("sha256", NULL, all, length);
    memcpy(all + length, "\n}\n", 4);
    *text = all;
    *bytes = length + 3;
    return STATUS_OK;
}
