/* text_rows: vectors from CSV or JSON Lines, turned into .fbin, and their ids, if they are there,
 * into .npy.
 * Owner:  the caller closes the streams.
 * Thread: one at a time.
 * Errors: false, and error is one line that names the file and the line.
 *
 * CSV:        a line for each row; fields are parted by the first of , ; TAB and space that the
 *             first line has, and may stand in double quotes. A first line that is no row of
 *             numbers
 *             names the columns; one that is named "id" has the rows' ids.
 * JSON Lines: a line for each row: [0.1, 0.2], or {"id": 7, "vector": [0.1, 0.2]}, where
 *             "embedding" and "values" are other names of "vector". Ids above 2^53 are given as
 *             strings.
 * Empty lines are skipped. */
#ifndef ENGRAM_CLI_FILES_TEXT_ROWS_H
#define ENGRAM_CLI_FILES_TEXT_ROWS_H

#include <stdbool.h>
#include <stdio.h>

enum text_rows_kind { TEXT_ROWS_CSV, TEXT_ROWS_JSON };

/* Reads `in` to its end. *ids: NULL where the rows have none. */
bool text_rows_convert(FILE *in, const char *name, enum text_rows_kind kind, FILE *out, FILE **ids,
                       char *error, size_t error_bytes);
/* A file of ids, one a line. */
bool text_rows_ids(FILE *in, const char *name, FILE *out, char *error, size_t error_bytes);

#endif
