/* edges_file: reads weighted edges from text, MatrixMarket and .npy files, a block at a time.
 * Owner:  the caller keeps the struct; edges_file_close frees what it holds.
 * Thread: one at a time per struct.
 * Errors: false, and file->error is one line that names the file and the line or row.
 * Memory: a line, or a block of 4096 rows, whatever the file's size.
 *
 * Text:         lines of SOURCE TARGET [WEIGHT], between tabs or spaces; '#' begins a comment.
 * MatrixMarket: coordinate real, integer or pattern; general or symmetric (an entry off the
 *               diagonal is an edge in both directions). Entry i j is an edge from node i to node
 *               j, counted from first_id where the file counts from 1.
 * .npy:         one n x 3 float64 array, with ids up to 2^53; or two or three columns of n: sources
 *               and targets (64 or 32 bit integers), weights (float64, 32 or 16).
 * An edge without a weight has weight 1. Weights are finite float32 numbers. */
#ifndef ENGRAM_CLI_FILES_EDGES_FILE_H
#define ENGRAM_CLI_FILES_EDGES_FILE_H

#include "client/cli/text/fields.h"
#include "client/cli/files/vectors_file.h"

enum edges_format { EDGES_AUTO, EDGES_TEXT, EDGES_MATRIX, EDGES_NPY };

struct edges_file {
    enum edges_format format;
    struct fields fields;
    struct vectors_file columns[3]; /* of .npy */
    unsigned column_count;
    double *block;                                         /* of an n x 3 array */
    uint64_t first_id;                                     /* of a matrix: the id of its row 1 */
    uint64_t rows_max, columns_max, entries, entries_read; /* of a matrix */
    bool pattern, symmetric;
    bool mirror; /* the mirrored edge of the last entry comes next */
    uint64_t source, target, edges;
    float weight;
    char error[400];
};

/* paths: one file, or the columns of .npy. EDGES_AUTO: the first path's ending decides. */
bool edges_file_open(struct edges_file *file, const char *const *paths, unsigned count,
                     enum edges_format format, uint64_t first_id);
/* Reads text or a matrix from a stream, which it closes, also when it fails. */
bool edges_file_open_stream(struct edges_file *file, FILE *stream, const char *name,
                            enum edges_format format, uint64_t first_id);
/* Reads up to max further edges; *got = 0 only at the end. */
bool edges_file_read(struct edges_file *file, uint64_t *sources, uint64_t *targets, float *weights,
                     uint64_t max, uint64_t *got);
/* Returns the bytes read so far and the file's size; 0: the size is not known. */
void edges_file_place(const struct edges_file *file, uint64_t *bytes, uint64_t *size);
/* A zeroed struct is fine. */
void edges_file_close(struct edges_file *file);

/* Returns the format by the name's ending; EDGES_AUTO: it has none of the known ones. */
enum edges_format edges_format_of(const char *path);

#endif
