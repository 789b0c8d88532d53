/* vectors_file: reads matrices and id lists from .npy, .fvecs and .fbin files, a block at a time.
 * Owner:  the caller keeps the struct; vectors_file_close frees what it holds.
 * Thread: any, one at a time per struct.
 * Errors: false, and file->error is one line that names the file and the row or byte. The shape is
 *         checked against the file's size before the first row is read, so a file that lies about
 *         itself never costs memory. Values must be finite float32 numbers once converted.
 * Memory: one block of 64 KiB, whatever the file's size. */
#ifndef ENGRAM_CLI_FILES_VECTORS_FILE_H
#define ENGRAM_CLI_FILES_VECTORS_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum vectors_format { VECTORS_NPY, VECTORS_FVECS, VECTORS_FBIN };
enum vectors_type {
    VECTORS_F16,
    VECTORS_F32,
    VECTORS_F64,
    VECTORS_U64,
    VECTORS_I64,
    VECTORS_U32,
    VECTORS_I32,
    VECTORS_U8
};
enum vectors_content {
    VECTORS_OF_FLOATS,  /* a matrix; a 1-D array is one row */
    VECTORS_OF_NUMBERS, /* a column: a 1-D array is one number a row */
    VECTORS_OF_IDS,     /* .npy of 64 or 32 bit integers; a 1-D array is one id a row */
    VECTORS_OF_MARKS    /* .npy of bool or uint8: a matrix; a 1-D array is one row */
};

struct vectors_file {
    FILE *stream;
    FILE *ids; /* of rows that came with theirs, from text: .npy; else NULL */
    char *name;
    enum vectors_format format;
    enum vectors_type type;
    uint64_t rows;
    uint64_t columns; /* the dimension; of ids: 1, or the length of each list */
    unsigned axes;    /* of a .npy: 1 or 2; else 2 */
    bool any_number;  /* floats need not be finite: vectors_file_check_known says which must be */
    uint64_t next_row;
    uint64_t size;    /* bytes in the file */
    uint64_t data_at; /* where the first row begins */
    unsigned char *block;
    char error[400];
};

/* The name's ending decides the format; what is not read as it stands (.npz, .csv, .jsonl, standard
 * input "-") is spooled first. */
bool vectors_file_open(struct vectors_file *file, const char *path, enum vectors_content content);
/* The same for a stream that can seek; it closes the stream, also when it fails. */
bool vectors_file_open_stream(struct vectors_file *file, FILE *stream, const char *name,
                              enum vectors_format format, enum vectors_content content);
/* NULL stream and half-opened files are fine. */
void vectors_file_close(struct vectors_file *file);

/* Reads up to `max` further rows; *got = 0 only at the end. out has max x columns places. */
bool vectors_file_read(struct vectors_file *file, float *out, uint64_t max, uint64_t *got);
bool vectors_file_read_ids(struct vectors_file *file, uint64_t *out, uint64_t max, uint64_t *got);
/* Of the `count` rows that were read last, numbers that are known must be finite: where known, a
 * byte a number and step bytes from row to row, is not 0. */
bool vectors_file_check_known(struct vectors_file *file, const float *rows, uint64_t count,
                              const uint8_t *known, uint64_t step);
/* The same for marks: bytes as they are. */
bool vectors_file_read_marks(struct vectors_file *file, uint8_t *out, uint64_t max, uint64_t *got);
/* For a float64 file opened as floats or numbers: reads numbers unrounded, finite or not. */
bool vectors_file_read_doubles(struct vectors_file *file, double *out, uint64_t max, uint64_t *got);

const char *vectors_type_name(enum vectors_type type); /* "float32" */

#endif
