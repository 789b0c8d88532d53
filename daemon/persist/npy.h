/* npy: the head of an array as numpy keeps it in a file (format 1.0), always 128 bytes long, so
 * that what follows lies on a 64-byte boundary. It follows from the shape: a reader compares.
 * Owner:  the caller. Thread: any; no state. Errors: none. */
#ifndef ENGRAM_PERSIST_NPY_H
#define ENGRAM_PERSIST_NPY_H

#include <stdint.h>

enum npy_type { NPY_FLOAT32, NPY_UINT64, NPY_UINT8, NPY_TYPES };
enum { NPY_HEAD_BYTES = 128 };

struct npy_shape {
    enum npy_type type;
    uint64_t rows;
    uint64_t columns; /* 0: the array has one dimension */
};

extern const char *const npy_type_names[NPY_TYPES]; /* "<f4" */
uint32_t npy_element_bytes(enum npy_type type);
/* Of a file with head and elements; UINT64_MAX: more than a file can have. */
uint64_t npy_file_bytes(const struct npy_shape *shape);
void npy_write_head(const struct npy_shape *shape, char head[NPY_HEAD_BYTES]);

#endif
