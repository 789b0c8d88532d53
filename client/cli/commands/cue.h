/* cue: seeds by similarity: the rows of a collection that are nearest to each query are seeds of one
 * set, their scores the activations. Rows that are no nodes, or not similar at all, are left out.
 * Owner:  the caller's struct; cue_finish.
 * Thread: the main thread.
 * Errors: exit codes, as in cli.h. */
#ifndef ENGRAM_CLI_COMMANDS_CUE_H
#define ENGRAM_CLI_COMMANDS_CUE_H

#include "client/cli/files/ids.h"
#include "client/cli/text/meta_total.h"
#include "client/cli/commands/queries.h"
#include "client/cli/commands/seeds.h"

struct cue {
    const char *collection, *queries_path; /* collection NULL: there is no cue */
    struct ids query_ids;
    uint32_t k;
    struct queries queries;
    struct meta_total meta;
    uint64_t found, unlike, strangers; /* rows; of these with scores of 0 or less; no nodes */
};

/* After cli_info. Adds seeds: set i is query i. */
int cue_ask(struct cue *cue, struct cli *cli, const char *graph, struct seeds *seeds);
/* How it went, on standard error. */
void cue_print(const struct cue *cue, const char *graph);
void cue_finish(struct cue *cue);

#endif
