/* What is in a snapshot. manifest_print.c and manifest_parse.c know its text. */
#include "daemon/persist/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const snapshot_array_names[SNAPSHOT_ARRAYS] = {
    "ids", "rows", "kinds", "factors", "offsets", "targets", "weights", "matrix"};

static const struct {
    uint32_t count;
    enum snapshot_array arrays[SNAPSHOT_ARRAYS_MAX];
} arrays_of[RESIDENT_KINDS] = {
    [RESIDENT_COLLECTION] = {2, {ARRAY_IDS, ARRAY_ROWS}},
    [RESIDENT_GRAPH] = {6,
                        {ARRAY_IDS, ARRAY_KINDS, ARRAY_FACTORS, ARRAY_OFFSETS, ARRAY_TARGETS,
                         ARRAY_WEIGHTS}},
    [RESIDENT_ATTRACTOR] = {1, {ARRAY_MATRIX}},
};

uint32_t snapshot_array_count(enum resident_kind kind)
{
    return arrays_of[kind].count;
}

enum snapshot_array snapshot_array_at(enum resident_kind kind, uint32_t i)
{
    return arrays_of[kind].arrays[i];
}

static struct npy_shape shape_of(const struct snapshot_object *o, enum snapshot_array array)
{
    switch (array) {
    case ARRAY_IDS: return (struct npy_shape){NPY_UINT64, o->count, 0};
    case ARRAY_ROWS: return (struct npy_shape){NPY_FLOAT32, o->count, o->dimension};
    case ARRAY_KINDS: return (struct npy_shape){NPY_UINT8, o->count, 0};
    case ARRAY_FACTORS: return (struct npy_shape){NPY_FLOAT32, o->count, 0};
    case ARRAY_OFFSETS: return (struct npy_shape){NPY_UINT64, o->count + 1, 0};
    case ARRAY_TARGETS: return (struct npy_shape){NPY_UINT64, o->edges, 0};
    case ARRAY_WEIGHTS: return (struct npy_shape){NPY_FLOAT32, o->edges, 0};
    case ARRAY_MATRIX: return (struct npy_shape){NPY_FLOAT32, o->dimension, o->dimension};
    case SNAPSHOT_ARRAYS: break;
    }
    return (struct npy_shape){0};
}

void snapshot_name_files(struct snapshot_object *o, uint64_t number)
{
    for (uint32_t i = 0; i < snapshot_array_count(o->kind); i++) {
        enum snapshot_array array = snapshot_array_at(o->kind, i);
        o->files[i].shape = shape_of(o, array);
        o->files[i].is_zstd = false;
        o->files[i].zstd_bytes = 0;
        snprintf(o->files[i].name, sizeof o->files[i].name, "%06" PRIu64 "-%s.npy", number,
                 snapshot_array_names[array]);
    }
}

void snapshot_name_zstd(struct array_entry *file)
{
    strcat(file->name, ".zst");
    file->is_zstd = true;
}

uint64_t snapshot_object_bytes(const struct snapshot_object *o)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < snapshot_array_count(o->kind); i++)
        bytes += npy_file_bytes(&o->files[i].shape);
    return bytes;
}

void manifest_free(struct manifest *m)
{
    for (uint64_t i = 0; i < m->object_count; i++)
        for (uint32_t k = 0; k < SNAPSHOT_ARRAYS_MAX; k++)
            array_entry_free(&m->objects[i].files[k]);
    free(m->objects);
    array_entry_free(&m->tokens);
    *m = (struct manifest){0};
}
