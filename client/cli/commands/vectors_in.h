/* vectors_in: vectors that an operation takes, block by block, from a file or a collection.
 * Owner:  the caller's struct, zeroed before; vectors_in_close.
 * Thread: one at a time.
 * Errors: exit codes, as in cli.h.
 *
 * What people write: FILE (.npy, .fvecs, .fbin), or for rows of a collection NAME:ID,
 * NAME:FIRST-LAST or NAME:@FILE.npy, a file of ids. */
#ifndef ENGRAM_CLI_COMMANDS_VECTORS_IN_H
#define ENGRAM_CLI_COMMANDS_VECTORS_IN_H

#include "client/cli/cli.h"
#include "client/cli/files/vectors_file.h"

struct vectors_in {
    const char *text;         /* as it was given */
    char collection[65];      /* empty: the vectors are in a file */
    const char *ids_path;     /* NULL: ids rise from first */
    struct vectors_file file; /* of vectors, or of ids */
    uint64_t first, count;
    uint32_t dimension;
    uint64_t next, room; /* the first of the next block; vectors of a block */
    float *rows;
    uint64_t *ids;
};

/* Tells the forms apart, or calls argp_error. */
void vectors_in_parse(struct vectors_in *o, struct argp_state *state, const char *text);
/* Finds out count and dimension. cli is connected. */
int vectors_in_open(struct vectors_in *o, struct cli *cli);
/* True pairs: as many vectors of one dimension, or one of either; *pairs of them. */
int vectors_in_match(const struct vectors_in *a, const struct vectors_in *b, uint64_t *pairs);
/* Bytes of a request that one of its vectors takes. */
uint64_t vectors_in_bytes(const struct vectors_in *o);
/* Takes memory for blocks of up to n vectors. */
int vectors_in_prepare(struct vectors_in *o, uint64_t n);
/* Reads the next n vectors; an operand of one gives that one each time. */
int vectors_in_next(struct vectors_in *o, uint64_t n, ea_operand *out);
void vectors_in_close(struct vectors_in *o);

#endif
