/* npy_header: parses the header of a NumPy array, strictly.
 * Owner:  nobody; pure functions over the caller's bytes.
 * Thread: any.
 * Errors: false and one line in error.
 * Source: numpy.lib.format, versions 1.0, 2.0 and 3.0. */
#ifndef ENGRAM_CLI_FILES_NPY_HEADER_H
#define ENGRAM_CLI_FILES_NPY_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NPY_HEADER_BYTES_MAX 65536u /* NumPy itself refuses more than 10,000 unless told to */

struct npy_header {
    char dtype[16]; /* "<f4" */
    bool fortran_order;
    unsigned axes; /* 0..4; more is an error */
    uint64_t shape[4];
};

/* text: the dictionary, without the magic bytes and the length. */
bool npy_header_parse(const char *text, size_t bytes, struct npy_header *out, char *error,
                      size_t error_bytes);

#endif
