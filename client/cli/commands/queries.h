/* queries: the query vectors, block by block, from a file or from a stored row.
 * Owner:  the caller's struct; queries_close.
 * Thread: one at a time.
 * Errors: exit codes, as in cli.h. */
#ifndef ENGRAM_CLI_COMMANDS_QUERIES_H
#define ENGRAM_CLI_COMMANDS_QUERIES_H

#include "client/cli/cli.h"
#include "client/cli/files/vectors_file.h"

struct queries {
    struct vectors_file file;
    ea_result stored; /* the row of --query-id */
    const char *path; /* NULL: the stored row is used, or the one given */
    float *given;     /* of the command line; NULL: none */
    uint32_t dimension;
    uint64_t total, next; /* queries in all; the first of the next block */
    float *block;
    uint64_t block_rows;
};

int queries_open_file(struct queries *q, const char *path);
/* One query, "0.1,0.2,0.3". */
int queries_open_text(struct queries *q, const char *text);
/* An id that is not in the collection is an error. */
int queries_open_stored(struct queries *q, struct cli *cli, const char *collection,
                        const uint64_t *ids, uint64_t n);
/* Checks the queries against the collection and takes memory for blocks of up to `rows`. */
int queries_prepare(struct queries *q, const char *collection, uint32_t dimension, uint64_t rows);
/* *n = 0 at the end. */
int queries_next(struct queries *q, const float **rows, uint64_t *n);
void queries_close(struct queries *q);

#endif
