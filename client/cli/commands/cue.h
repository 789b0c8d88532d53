/* cue: seeds by similarity: the rows of a collection nearest to each query are the seeds of one
 * set, with their scores as activations. Rows whose ids are not nodes, or whose score is not above
 * 0, are left out.
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
    /* rows found; those with scores of 0 or less; those that are not nodes */
    uint64_t found, unlike, strangers;
};

/* Asks for the rows and adds the seeds: set i is query i. Call after cli_info. */
int cue_ask(struct cue *cue, struct cli *cli, const char *graph, struct seeds *seeds);
/* Reports on standard error how many rows became seeds. */
void cue_print(const struct cue *cue, const char *graph);
void cue_finish(struct cue *cue);

#endif
