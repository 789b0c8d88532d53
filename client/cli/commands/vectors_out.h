/* vectors_out: where the vectors go that an operation makes: a .npy file or a collection.
 * Owner:  the caller's struct, zeroed before; vectors_out_close removes an unfinished file.
 * Thread: one at a time.
 * Errors: exit codes, as in cli.h. */
#ifndef ENGRAM_CLI_COMMANDS_VECTORS_OUT_H
#define ENGRAM_CLI_COMMANDS_VECTORS_OUT_H

#include "client/cli/cli.h"
#include "client/cli/files/npy_write.h"
#include "client/cli/files/vectors_file.h"
#include "client/cli/text/meta_total.h"
#include "client/cli/text/progress.h"

enum { OPTION_INTO = 0x700 };
#define VECTORS_OUT_OPTIONS                                                                       \
    {"out", 'o', "FILE.npy", 0, "Write the vectors (float32, a row for each result) to FILE", 0}, \
        {"into",                                                                                  \
         OPTION_INTO,                                                                             \
         "NAME",                                                                                  \
         0,                                                                                       \
         "Insert them into the collection NAME, or replace its rows; needs --ids",                \
         0},                                                                                      \
    {                                                                                             \
        "ids", 'i', "FIRST|FILE.npy", 0,                                                          \
            "With --into: the rows' ids, rising from FIRST, or 64 or 32 bit integers of a "       \
            "file",                                                                               \
            0                                                                                     \
    }

struct vectors_out {
    const char *path, *into, *ids_text;
    bool ids_rise; /* from `first` */
    uint64_t first;
    struct vectors_file ids_file;
    struct npy_writer writer;
    struct progress progress;
    struct meta_total meta;
    uint64_t *ids; /* of a block */
    ea_into question;
    uint64_t total, done;
    uint32_t dimension;
    uint64_t inserted, replaced, rows, version; /* of the collection */
};

/* False: the key is not one of these options. */
bool vectors_out_option(struct vectors_out *o, int key, char *text, struct argp_state *state);
/* Called at the end of the arguments: says what is missing. */
void vectors_out_check(struct vectors_out *o, struct argp_state *state);
/* Called once it is known how many vectors come, before the first request. cli has limits. */
int vectors_out_open(struct vectors_out *o, struct cli *cli, uint64_t total, uint32_t dimension);
/* How many results fit into a request that takes `fixed` bytes and `each` for a result. */
uint64_t vectors_out_fit(const struct vectors_out *o, const struct cli *cli, uint64_t fixed,
                         uint64_t each);
/* How many operands of so many bytes fit into a request. */
uint64_t vectors_out_fit_body(const struct cli *cli, uint64_t each);
/* Takes memory for blocks of up to n results. */
int vectors_out_prepare(struct vectors_out *o, uint64_t n);
/* Where the next n results go; *into NULL: they come with the reply. */
int vectors_out_next(struct vectors_out *o, struct cli *cli, uint64_t n, const ea_into **into);
/* Says that a request failed, and from which thing on; thing: "pair". */
int vectors_out_failed(const struct vectors_out *o, struct cli *cli, ea_status status,
                       const char *thing);
/* Takes what came of them. */
int vectors_out_take(struct vectors_out *o, struct cli *cli, const ea_hrr_result *r, uint64_t n);
/* Finishes and reports; code is what became of the requests, and is returned if that went well. */
int vectors_out_finish(struct vectors_out *o, struct cli *cli, int code, const char *thing);
void vectors_out_close(struct vectors_out *o);

#endif
