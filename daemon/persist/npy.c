#include "daemon/persist/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const npy_type_names[NPY_TYPES] = {"<f4", "<u8", "|u1"};

uint32_t npy_element_bytes(enum npy_type type)
{
    static const uint32_t bytes[NPY_TYPES] = {4, 8, 1};
    return bytes[type];
}

uint64_t npy_file_bytes(const struct npy_shape *shape)
{
    uint64_t count = 0, bytes = 0;
    uint64_t columns = shape->columns ? shape->columns : 1;
    if (__builtin_mul_overflow(shape->rows, columns, &count) ||
        __builtin_mul_overflow(count, npy_element_bytes(shape->type), &bytes) ||
        bytes > (UINT64_C(1) << 62))
        return UINT64_MAX;
    return bytes + NPY_HEAD_BYTES;
}

void npy_write_head(const struct npy_shape *shape, char head[NPY_HEAD_BYTES])
{
    enum { MAGIC_BYTES = 10, TEXT_BYTES = NPY_HEAD_BYTES - MAGIC_BYTES };
    static const unsigned char magic[MAGIC_BYTES] = {0x93, 'N', 'U', 'M',        'P',
                                                     'Y',  1,   0,   TEXT_BYTES, 0};
    char columns[24] = "";
    if (shape->columns) snprintf(columns, sizeof columns, " %" PRIu64, shape->columns);
    memset(head, ' ', NPY_HEAD_BYTES);
    memcpy(head, magic, sizeof magic);
    char text[TEXT_BYTES];
    int length = snprintf(text, sizeof text,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ",%s), }",
                          npy_type_names[shape->type], shape->rows, columns);
    memcpy(head + MAGIC_BYTES, text, (size_t)length);
    head[NPY_HEAD_BYTES - 1] = '\n';
}
